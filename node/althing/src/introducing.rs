//! The listeners for introductions: at the addresses of the LAN's interfaces, as these come and go.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use althing_discovery::lan::{self, LanConfig};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::config::Config;

/// Between two looks at the addresses.
const LOOK: Duration = Duration::from_secs(2);
/// Of an address at which nobody can listen it is told after so many attempts: a new one is not ready at once.
const ATTEMPTS: u32 = 3;

/// Listeners that are bound, and the rule for those to come.
pub struct Introducing {
    /// Where to listen, if at all; the unspecified address stands for those of the LAN's interfaces.
    listen: Option<SocketAddr>,
    lan: LanConfig,
    /// Those that are not served yet.
    bound: Vec<(SocketAddr, TcpListener)>,
    addresses: watch::Sender<Vec<SocketAddr>>,
}

impl Introducing {
    /// Introduces nobody.
    pub fn none() -> Introducing {
        let lan = LanConfig { interfaces: Vec::new(), network: String::new() };
        Introducing { listen: None, lan, bound: Vec::new(), addresses: watch::channel(Vec::new()).0 }
    }

    /// Binds the listeners at the addresses that there are, if they are configured. Failures are noted.
    pub async fn bind(config: &Config, notes: &mut Vec<String>) -> Introducing {
        let mut introducing = Introducing::none();
        if !config.introduce.enabled {
            return introducing;
        }
        introducing.lan = LanConfig { interfaces: config.lan.interfaces.clone(), network: config.network.clone() };
        match config.introduce.listen.parse() {
            Ok(listen) => introducing.listen = Some(listen),
            Err(_) => notes.push("no introductions: `introduce.listen` is not an address".to_owned()),
        }
        let wanted = introducing.wanted().unwrap_or_else(|reason| {
            notes.push(format!("no introductions yet: {reason}"));
            Vec::new()
        });
        for address in wanted {
            // All use the port of the first.
            let port = introducing.bound.first().map_or(address.port(), |(first, _)| first.port());
            let address = SocketAddr::new(address.ip(), port);
            let bound = match TcpListener::bind(address).await {
                Err(error) if error.kind() == ErrorKind::AddrInUse && introducing.bound.is_empty() => {
                    let free = TcpListener::bind((address.ip(), 0)).await;
                    if let Ok(free) = free.as_ref().map_err(drop).and_then(|free| free.local_addr().map_err(drop)) {
                        let note = format!("port {port} is taken; introductions are served on {}", free.port());
                        notes.push(note);
                    }
                    free
                }
                bound => bound,
            };
            if let Err(error) = bound.and_then(|listener| introducing.take(listener)) {
                notes.push(format!("no introductions at {address} yet: {error}"));
            }
        }
        introducing.addresses.send_replace(introducing.bound.iter().map(|(address, _)| *address).collect());
        introducing
    }

    /// Whether anybody is introduced.
    pub fn is_on(&self) -> bool {
        self.listen.is_some()
    }

    /// The addresses at which it is listened, as they come and go.
    pub fn addresses(&self) -> watch::Receiver<Vec<SocketAddr>> {
        self.addresses.subscribe()
    }

    /// Serves with `open` at each address for as long as it is there. `open` gives what ends that.
    pub async fn follow<End: FnOnce() + Send>(mut self, open: impl Fn(SocketAddr, TcpListener) -> End + Send) {
        if self.listen.is_none() {
            return;
        }
        let mut listeners = Listeners::default();
        loop {
            for (address, listener) in std::mem::take(&mut self.bound) {
                listeners.open.insert(address, open(address, listener));
            }
            let now: Vec<SocketAddr> = listeners.open.keys().copied().collect();
            self.addresses.send_if_modified(|told| {
                let has_changed = *told != now;
                *told = now;
                has_changed
            });
            tokio::time::sleep(LOOK).await;
            // Where the interfaces cannot be listed now, nothing changes.
            let Ok(wanted) = self.wanted() else { continue };
            listeners.gone(&wanted).into_iter().for_each(|end| end());
            for address in listeners.missing(&wanted) {
                let bound = TcpListener::bind(address).await.and_then(|listener| self.take(listener));
                if let Err(error) = bound
                    && listeners.failed(address)
                {
                    tracing::warn!(%address, %error, "public agents are not introduced there; it is tried again");
                }
            }
        }
    }

    /// A listener is bound: later ones use its port.
    fn take(&mut self, listener: TcpListener) -> std::io::Result<()> {
        let address = listener.local_addr()?;
        if let Some(listen) = &mut self.listen {
            listen.set_port(address.port());
        }
        self.bound.push((address, listener));
        Ok(())
    }

    /// Where it is to be listened now.
    fn wanted(&self) -> Result<Vec<SocketAddr>, String> {
        let Some(listen) = self.listen else { return Ok(Vec::new()) };
        if !listen.ip().is_unspecified() {
            return Ok(vec![listen]);
        }
        let all = lan::addresses(&self.lan).map_err(|error| error.to_string())?;
        Ok(all.into_iter().map(|ip| SocketAddr::new(ip, listen.port())).collect())
    }
}

/// Which addresses are served, with what ends that, and which failed how often.
struct Listeners<End> {
    open: BTreeMap<SocketAddr, End>,
    failures: BTreeMap<SocketAddr, u32>,
}

impl<End> Default for Listeners<End> {
    fn default() -> Self {
        Listeners { open: BTreeMap::new(), failures: BTreeMap::new() }
    }
}

impl<End> Listeners<End> {
    /// What ends the serving of addresses that are not wanted any more.
    fn gone(&mut self, wanted: &[SocketAddr]) -> Vec<End> {
        self.failures.retain(|address, _| wanted.contains(address));
        let gone = self.open.extract_if(.., |address, _| !wanted.contains(address));
        gone.map(|(_, end)| end).collect()
    }

    /// Addresses that are wanted and not served.
    fn missing(&self, wanted: &[SocketAddr]) -> Vec<SocketAddr> {
        wanted.iter().filter(|address| !self.open.contains_key(address)).copied().collect()
    }

    /// Nobody can listen at an address. True when that is to be told.
    fn failed(&mut self, address: SocketAddr) -> bool {
        let failures = self.failures.entry(address).or_default();
        *failures += 1;
        *failures == ATTEMPTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_follow_the_addresses_and_a_failure_is_told_once() {
        let [one, two] = ["10.0.0.1:7422", "10.0.0.2:7422"].map(|text| text.parse().expect("an address"));
        let mut listeners = Listeners::default();
        assert_eq!(listeners.missing(&[one, two]), [one, two]);
        listeners.open.insert(one, "the first");
        assert_eq!(listeners.missing(&[one, two]), [two]);
        let told: Vec<bool> = (0..5).map(|_| listeners.failed(two)).collect();
        assert_eq!(told, [false, false, true, false, false]);
        assert_eq!(listeners.gone(&[one]), [""; 0]);
        assert_eq!(listeners.gone(&[two]), ["the first"]);
        assert_eq!(listeners.missing(&[one]), [one], "it came back");
        let again: Vec<bool> = (0..3).map(|_| listeners.failed(two)).collect();
        assert_eq!(again, [false, false, true], "it was away meanwhile");
    }

    #[tokio::test]
    async fn an_address_that_this_machine_does_not_have_yet_is_noted_and_waited_for() {
        let mut config = Config::default();
        config.introduce.enabled = true;
        // Of documentation (RFC 5737): no machine has it.
        config.introduce.listen = "192.0.2.1:0".to_owned();
        let mut notes = Vec::new();
        let introducing = Introducing::bind(&config, &mut notes).await;
        assert!(introducing.is_on() && introducing.addresses().borrow().is_empty());
        assert!(notes[0].starts_with("no introductions at 192.0.2.1:0 yet"), "{notes:?}");
        assert_eq!(introducing.wanted(), Ok(vec!["192.0.2.1:0".parse().expect("an address")]));
        assert!(!Introducing::bind(&Config::default(), &mut notes).await.is_on());
    }
}
