//! Reading other people's Things (W3C WoT Discovery): a description, a link to one, or a directory of them, at addresses
//! of the configuration and, where that is wanted, at those that the LAN tells. What is fetched, the guarded fetch
//! fetches: a link of somebody else's leads into no net that the configuration does not name.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use althing_communication::address_groups::AddressGroup;
use althing_fetch::{Fetch, Given, Limits, Net, SystemResolver, Url, blocked, same_origin};
use althing_td::{shallow_json, shown_thing};
use if_addrs::IfAddr;
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::machine::things::{NotTaken, Thing};
use crate::state::Shared;

/// How often what is known is read again.
const AGAIN: Duration = Duration::from_secs(30);
/// What could not be read for this long is forgotten.
const TTL_MS: u64 = 100_000;
/// One source takes at most this long.
const READ_MAX: Duration = Duration::from_secs(10);
/// Bytes of one answer.
const BYTES_MAX: usize = 512 << 10;
/// Sources on the LAN.
const SOURCES_MAX: usize = 128;
/// Sources that are read at one time.
const AT_ONCE: usize = 8;
/// Links of one description that are followed.
const LINKS_MAX: usize = 64;
/// Descriptions of one source.
const DESCRIPTIONS_MAX: usize = 256;
/// Bytes of all answers of one source.
const SOURCE_BYTES_MAX: usize = 2 << 20;
/// Characters of a path that the LAN tells.
const PATH_MAX: usize = 256;

/// What the LAN tells of descriptions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// One can be read there.
    Seen {
        /// The record's name.
        name: String,
        /// Where.
        address: IpAddr,
        /// Which port.
        port: u16,
        /// `http` or `https`.
        scheme: String,
        /// The path.
        td: String,
    },
    /// It went.
    Gone(String),
}

/// A place to read at.
#[derive(Debug, Clone)]
struct Source {
    url: Url,
    /// The operator named it: links may lead to other hosts.
    vouched: bool,
}

/// An interface of this machine: its address, and the net of which all are neighbours.
#[derive(Debug, Clone, Copy)]
struct Interface {
    address: IpAddr,
    net: Net,
}

/// What a hint comes to; nothing for one that leads to this machine, to no neighbour of it, or to nobody in particular.
fn url_of(address: IpAddr, port: u16, scheme: &str, td: &str, own: &[Interface]) -> Option<Url> {
    let address = address.to_canonical();
    let neighbour = own.iter().any(|interface| interface.net.holds(address));
    let everything = [Net::of(address, 0)];
    // With everything permitted, what is blocked still is where clouds keep a machine's secrets.
    let secrets = blocked(address, &everything).is_some();
    let link_local = match address {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let nobody = address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || link_local
        || own.iter().any(|interface| interface.address == address)
        || AddressGroup::of(address).is_some();
    let path = td.starts_with('/') && td.len() <= PATH_MAX && td.chars().all(|c| c.is_ascii_graphic());
    if nobody || !neighbour || secrets || port == 0 || !path || !matches!(scheme, "http" | "https") {
        return None;
    }
    let host = match address {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    Url::parse(&format!("{scheme}://{host}:{port}{td}")).ok()
}

/// The interfaces of this machine.
fn own_interfaces() -> Vec<Interface> {
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    let interface = |interface: if_addrs::Interface| {
        let address = interface.ip();
        let bits = match interface.addr {
            IfAddr::V4(v4) => v4.netmask.to_bits().leading_ones(),
            IfAddr::V6(v6) => v6.netmask.to_bits().leading_ones(),
        };
        Interface { address, net: Net::of(address, u8::try_from(bits).unwrap_or(u8::MAX)) }
    };
    all.into_iter().map(interface).collect()
}

/// Reads Things and keeps them up to date.
#[derive(Clone)]
pub(crate) struct ThingReader(pub Arc<Shared>);

impl ThingReader {
    /// Starts reading, for as long as the network lives; see [`crate::Discovery::read_things`].
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn start(self, urls: Vec<String>, nets: Vec<Net>, hints: Option<mpsc::Receiver<Hint>>) -> Result<(), String> {
        let http = Fetch::new(nets, Arc::new(SystemResolver)).map_err(|error| error.to_string())?;
        let vouched = urls.iter().filter_map(|url| Url::parse(url).ok()).map(|url| Source { url, vouched: true });
        let sources: BTreeMap<String, Source> = vouched.map(|source| (source.url.to_string(), source)).collect();
        tokio::spawn(self.run(http, sources, hints));
        Ok(())
    }

    async fn run(self, http: Fetch, mut sources: BTreeMap<String, Source>, mut hints: Option<mpsc::Receiver<Hint>>) {
        let (room, waiting) = (Arc::new(Semaphore::new(AT_ONCE)), Arc::new(AtomicUsize::new(0)));
        let mut again = interval(AGAIN);
        again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let next = async {
                match &mut hints {
                    Some(hints) => hints.recv().await,
                    None => futures::future::pending().await,
                }
            };
            let all: Vec<Source> = tokio::select! {
                biased;
                hint = next => match hint {
                    None => { hints = None; continue }
                    Some(Hint::Gone(name)) => { sources.remove(&name); Vec::new() }
                    Some(Hint::Seen { name, address, port, scheme, td }) => {
                        let Some(url) = url_of(address, port, &scheme, &td, &own_interfaces()) else { continue };
                        let known = sources.get(&name).is_some_and(|source| source.url == url || source.vouched);
                        if known || sources.len() >= SOURCES_MAX { continue }
                        let source = Source { url, vouched: false };
                        sources.insert(name, source.clone());
                        vec![source]
                    }
                },
                _ = again.tick() => sources.values().cloned().collect(),
            };
            for source in all {
                // Whoever is slow holds up nobody but those who come when all places are taken.
                let (this, http, room) = (self.clone(), http.clone(), room.clone());
                if waiting.load(Ordering::Relaxed) >= 2 * SOURCES_MAX {
                    break;
                }
                waiting.fetch_add(1, Ordering::Relaxed);
                let waiting = waiting.clone();
                tokio::spawn(async move {
                    let _room = room.acquire_owned().await;
                    this.read(&http, source).await;
                    waiting.fetch_sub(1, Ordering::Relaxed);
                });
            }
            let from = sources.values().map(|source| source.url.to_string()).collect();
            let now_ms = self.0.now().monotonic_ms;
            self.0.lock().things.sweep(now_ms, TTL_MS, &from);
        }
    }

    async fn read(&self, http: &Fetch, source: Source) {
        let from = source.url.to_string();
        let late = |_| Err(format!("it took more than {} s", READ_MAX.as_secs()));
        let read = timeout(READ_MAX, descriptions(http, &source)).await.unwrap_or_else(late);
        let mut why = read.as_ref().err().cloned();
        let (mut taken, tds) = (0, read.unwrap_or_default());
        for td in tds.iter().take(DESCRIPTIONS_MAX) {
            match self.note_thing(td, &source) {
                Ok(()) => taken += 1,
                Err(reason) => why = why.or(Some(reason)),
            }
            tokio::task::yield_now().await;
        }
        // Something was: what else is there is in the log.
        self.tell_of(&source, &from, why.filter(|_| taken == 0));
    }

    /// Who named a place is told once when it cannot be read, and when it can be again; what the LAN tells of is not
    /// worth that.
    fn tell_of(&self, source: &Source, from: &str, why: Option<String>) {
        if !source.vouched {
            if let Some(why) = why {
                tracing::debug!(from, why, "no Things there");
            }
            return;
        }
        if !self.0.lock().things.outcome(from, why.clone()) {
            return;
        }
        match why {
            Some(why) => {
                tracing::warn!(from, why, "no Things can be read at a place of `things.urls`; it is tried again")
            }
            None => tracing::info!(from, "Things can be read there again"),
        }
    }

    /// Why nothing of a description can be used, if so; that its Thing is known from elsewhere is no reason.
    fn note_thing(&self, td: &Value, source: &Source) -> Result<(), String> {
        let from = source.url.as_str();
        match shown_thing(td.to_string().as_bytes(), "") {
            Ok(shown) => {
                for (at, how) in &shown.notes {
                    tracing::debug!(from, at, how, "a description is not as it should be");
                }
                let description = shown.description;
                let id = description.id().unwrap_or(from).to_owned();
                let read_ms = self.0.now().monotonic_ms;
                let thing = Thing {
                    id,
                    description: Arc::new(description),
                    from: from.to_owned(),
                    vouched: source.vouched,
                    read_ms,
                };
                match self.0.lock().things.note(thing) {
                    Ok(()) | Err(NotTaken::Elsewhere) => Ok(()),
                    Err(NotTaken::Full) => Err("there is no room for more Things".to_owned()),
                }
            }
            Err(reason) => {
                tracing::debug!(from, %reason, "no valid description");
                Err(format!("no valid description: {reason}"))
            }
        }
    }
}

/// The descriptions at a place, links and directories followed once.
async fn descriptions(http: &Fetch, source: &Source) -> Result<Vec<Value>, String> {
    let mut left = SOURCE_BYTES_MAX;
    let first = get(http, source, &source.url, &mut left).await?;
    if let Value::Array(all) = first {
        return Ok(all);
    }
    let base = first["base"].as_str().and_then(|base| source.url.join(base).ok());
    let base = base.filter(|base| may_follow(source, base)).unwrap_or_else(|| source.url.clone());
    let is = |kind: &str| match &first["@type"] {
        Value::String(one) => one.ends_with(kind),
        Value::Array(several) => several.iter().filter_map(Value::as_str).any(|one| one.ends_with(kind)),
        _ => false,
    };
    let targets: Vec<Url> = if is("ThingDirectory") {
        let forms = first["properties"]["things"]["forms"].as_array().cloned().unwrap_or_default();
        let hrefs = forms.iter().filter_map(|form| form["href"].as_str());
        // WoT Discovery §6.3.2.1.2: the listing is at `things` of the directory's API.
        let hrefs: Vec<&str> = hrefs.take(1).collect();
        let hrefs = if hrefs.is_empty() { vec!["/things"] } else { hrefs };
        hrefs.into_iter().filter_map(|href| base.join(href).ok()).collect()
    } else {
        let links = first["links"].as_array().cloned().unwrap_or_default();
        let wanted = if is("ThingLink") { "describedby" } else { "item" };
        let links = links.iter().filter(|link| link["rel"] == wanted).filter_map(|link| link["href"].as_str());
        links.filter_map(|href| base.join(href).ok()).take(LINKS_MAX).collect()
    };
    if targets.is_empty() {
        return Ok(vec![first]);
    }
    let (mut all, mut failed) = (Vec::new(), None);
    for target in targets.iter().filter(|target| may_follow(source, target)) {
        match get(http, source, target, &mut left).await {
            Ok(Value::Array(several)) => all.extend(several),
            Ok(one) => all.push(one),
            Err(reason) => {
                tracing::debug!(url = %target, reason, "a linked description cannot be read");
                failed = Some(reason);
            }
        }
    }
    failed.filter(|_| all.is_empty()).map_or(Ok(all), Err)
}

/// What a stranger on the LAN shows leads nowhere else; what the operator named may.
fn may_follow(source: &Source, target: &Url) -> bool {
    let same = target.host_str() == source.url.host_str()
        && target.port_or_known_default() == source.url.port_or_known_default();
    matches!(target.scheme(), "http" | "https") && (source.vouched || same)
}

/// Whose word an address is: what stands at the named place itself is the operator's, where a link of it leads is not.
fn given(source: &Source, target: &Url) -> Given {
    if source.vouched {
        return if same_origin(&source.url, target) { Given::Operator } else { Given::Stranger };
    }
    let host = source.url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse();
    address.map_or(Given::Stranger, Given::Neighbour)
}

/// Takes what it reads off `left`, bytes that the source may still have.
async fn get(http: &Fetch, source: &Source, url: &Url, left: &mut usize) -> Result<Value, String> {
    let accept = "application/td+json, application/ld+json, application/json";
    let limits = Limits { bytes: BYTES_MAX.min(*left), time: READ_MAX };
    let body = http.get(url, given(source, url), accept, limits).await;
    let body = body.map_err(|error| format!("{url}: {error}"))?;
    *left -= body.len();
    // What is odd is looked at where each description is read.
    shallow_json(&body, limits.bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_leads_to_another_machine_or_nowhere() {
        let at = |address: &str, port: u16, scheme: &str, td: &str| {
            let interface = |address: &str, bits| {
                let address: IpAddr = address.parse().expect("an address");
                Interface { address, net: Net::of(address, bits) }
            };
            let own = [
                interface("10.0.0.9", 24),
                interface("fd00::9", 64),
                interface("127.0.0.1", 8),
                // As wide as a cloud's: its metadata is not read even there.
                interface("169.254.7.7", 16),
                interface("fd00:ec2::7", 64),
            ];
            url_of(address.parse().expect("an address"), port, scheme, td, &own).map(|url| url.to_string())
        };
        assert_eq!(at("10.0.0.7", 80, "http", "/td").as_deref(), Some("http://10.0.0.7/td"));
        assert_eq!(at("fd00::7", 8080, "https", "/").as_deref(), Some("https://[fd00::7]:8080/"));
        for (address, port, scheme, td) in [
            ("127.0.0.1", 80, "http", "/td"),
            ("0.0.0.0", 80, "http", "/td"),
            ("224.0.0.1", 80, "http", "/td"),
            ("::ffff:127.0.0.1", 80, "http", "/td"),
            ("169.254.169.254", 80, "http", "/td"),
            ("fd00:ec2::254", 80, "http", "/td"),
            ("10.0.1.7", 80, "http", "/td"),
            ("192.168.0.7", 80, "http", "/td"),
            ("172.16.0.7", 80, "http", "/td"),
            ("100.64.0.7", 80, "http", "/td"),
            ("64:ff9b::a00:7", 80, "http", "/td"),
            ("fd01::7", 80, "http", "/td"),
            ("8.8.8.8", 80, "http", "/td"),
            ("2001:4860::1", 80, "http", "/td"),
            ("fe80::1", 80, "http", "/td"),
            ("10.0.0.9", 80, "http", "/td"),
            ("10.0.0.7", 0, "http", "/td"),
            ("10.0.0.7", 80, "file", "/td"),
            ("10.0.0.7", 80, "coap", "/td"),
            ("10.0.0.7", 80, "http", "@evil.example/"),
            ("10.0.0.7", 80, "http", "/a b"),
        ] {
            assert_eq!(at(address, port, scheme, td), None, "{address} {port} {scheme} {td}");
        }
    }

    #[test]
    fn what_a_stranger_shows_leads_nowhere_else() {
        let url = |text: &str| Url::parse(text).expect("a URL");
        let stranger = Source { url: url("http://10.0.0.7/td"), vouched: false };
        let named = Source { url: url("http://10.0.0.7/td"), vouched: true };
        assert!(may_follow(&stranger, &url("http://10.0.0.7/things")));
        for elsewhere in ["http://10.0.0.8/x", "http://10.0.0.7:8080/x", "http://192.0.2.1/"] {
            assert!(!may_follow(&stranger, &url(elsewhere)) && may_follow(&named, &url(elsewhere)), "{elsewhere}");
        }
        assert!(!may_follow(&named, &url("file:///etc/passwd")));
    }

    #[test]
    fn links_of_a_named_place_are_strangers_words_unless_they_stay_there() {
        let url = |text: &str| Url::parse(text).expect("a URL");
        let named = Source { url: url("http://10.0.0.7/td"), vouched: true };
        assert_eq!(given(&named, &url("http://10.0.0.7/others")), Given::Operator);
        for elsewhere in ["http://10.0.0.7:8080/", "https://10.0.0.7/", "http://127.0.0.1/", "http://things.example/"] {
            assert_eq!(given(&named, &url(elsewhere)), Given::Stranger, "{elsewhere}");
        }
        let seen = Source { url: url("http://[fd00::7]:8080/td"), vouched: false };
        let at = "fd00::7".parse().expect("an address");
        assert_eq!(given(&seen, &url("http://[fd00::7]:8080/x")), Given::Neighbour(at));
    }
}
