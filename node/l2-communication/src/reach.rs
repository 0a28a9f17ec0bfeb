//! Whether others can dial this node: peers are asked to dial it back (SPEC P-71, P-72), and what they found decides what
//! this node announces, and whether it wants a relay.
//!
//! libp2p's AutoNAT is not used: its dial-back is an ordinary second connection, and of two connections to a peer one is
//! closed here, with the calls on it; version 1 knows one address, version 2 never looks again; and neither can be asked
//! when somebody wants to know now, or about a LAN.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use althing_protocol::{PublicKey, cbor};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use crate::caller::Caller;
use crate::groups::Group;
use crate::inbound::{Answer, Inbound};
use crate::machine::reachability::{Reachability, Verdict};
use crate::network::Standing;
use crate::outbound;
use crate::refusal::{INVALID_PARAMS, METHOD_NOT_FOUND, SERVER_ERROR, refusal, said};
use crate::service::{Communication, Request, Shared};

/// The stream protocol on which nodes ask to be dialled back.
pub const REACH: &str = "/althing/reach/1";
/// Ways in which one request wants to be dialled.
const WAYS_MAX: usize = 4;
/// Bytes of one of them.
const WAY_BYTES_MAX: usize = 64;
/// Requests of all peers at one time.
const AT_ONCE: usize = 8;
/// One peer is dialled back this often.
const PER_PEER: Duration = Duration::from_secs(2);
/// A dial that takes longer has failed.
const DIAL_MAX: Duration = Duration::from_secs(5);
/// An answer that takes longer is not waited for.
const ANSWER_MAX: Duration = Duration::from_secs(12);
/// How often, and how many times, it is looked whether a connection came of which a peer says so.
const ARRIVAL_LOOK: Duration = Duration::from_millis(50);
/// See [`ARRIVAL_LOOK`].
const ARRIVAL_LOOKS: usize = 20;
/// How often it is looked whether somebody is to be asked.
const LOOK: Duration = Duration::from_secs(1);
/// After so many looks what was found out is said again.
const SAY_AGAIN: u64 = 30;
/// Peers that have asked of late.
const ASKED_MAX: usize = 4_096;
/// Characters of a reason that a peer gives.
const REASON_MAX: usize = 200;

/// What one dial came to, as the peer says.
#[derive(Debug, Clone, PartialEq, Eq, minicbor::Encode, minicbor::Decode)]
#[cbor(array)]
pub struct Dialled {
    /// Where.
    #[n(0)]
    pub address: String,
    /// Was this node there?
    #[n(1)]
    pub reached: bool,
    /// Why not.
    #[n(2)]
    pub reason: String,
}

/// How a peer was asked, and what it said.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Who.
    pub peer: PublicKey,
    /// Does it look from the internet, or from a private network?
    pub from_internet: bool,
    /// The group of addresses that it has, on the internet.
    pub group: Option<Group>,
    /// What it found; or why it could not be asked.
    pub outcome: Result<Vec<Dialled>, String>,
}

/// What is known of how others can reach this node.
pub(crate) struct Reaching {
    state: Mutex<Reachability>,
    dialled: Mutex<BTreeMap<PublicKey, Instant>>,
    room: Semaphore,
    again: Notify,
    begun: Instant,
}

impl Default for Reaching {
    fn default() -> Reaching {
        Reaching {
            state: Mutex::default(),
            dialled: Mutex::default(),
            room: Semaphore::new(AT_ONCE),
            again: Notify::new(),
            begun: Instant::now(),
        }
    }
}

impl Reaching {
    fn state(&self) -> MutexGuard<'_, Reachability> {
        self.state.lock().expect("no holder of the reachability panics")
    }

    fn verdict(&self, shared: &Shared, listening: &[String]) -> Verdict {
        let caller = |node| Caller { node, owner: shared.owner(node) };
        self.state().verdict(listening, |peer| shared.is_trusted(&caller(peer)) == Some(true))
    }

    /// May `peer` have itself dialled now?
    fn may_ask(&self, peer: PublicKey) -> bool {
        let mut dialled = self.dialled.lock().expect("no holder of the dials panics");
        let now = Instant::now();
        dialled.retain(|_, at| now.duration_since(*at) < PER_PEER);
        if dialled.contains_key(&peer) || dialled.len() >= ASKED_MAX {
            return false;
        }
        dialled.insert(peer, now);
        true
    }
}

impl Communication {
    /// Finds out, for as long as the network lives, how others can reach this node. `announce` are addresses that its
    /// operator vouches for; whom this node trusts is believed without a second opinion.
    pub fn find_out_reach(&self, announce: Vec<String>) {
        self.shared.reaching.state().vouched(announce);
        tokio::spawn(find_out(Arc::downgrade(&self.shared)));
    }

    /// How others can reach this node, as far as it was found out.
    #[must_use]
    pub fn reach(&self) -> Verdict {
        let listening = self.shared.network.listening();
        self.shared.reaching.verdict(&self.shared, &listening)
    }

    /// Asks some peers now to dial this node back: those on the internet first, and at most `count`.
    pub async fn ask_to_be_dialled(&self, count: usize) -> Vec<Asked> {
        let mut peers = direct_peers(&self.shared);
        peers.sort_by_key(|(_, group)| group.is_none());
        peers.truncate(count);
        let asking = peers.into_iter().map(|(peer, group)| {
            let shared = self.shared.clone();
            async move {
                let outcome = ask(&shared, peer).await;
                Asked { peer, from_internet: group.is_some(), group, outcome }
            }
        });
        let all = futures::future::join_all(asking).await;
        for asked in &all {
            note(&self.shared, asked, millis(self.shared.reaching.begun.elapsed()));
        }
        self.shared.reaching.again.notify_one();
        all
    }
}

/// Peers with a connection that leads to their own address, and its group where it is one of the internet.
fn direct_peers(shared: &Shared) -> Vec<(PublicKey, Option<Group>)> {
    let own = shared.network.listening();
    let infos = shared.network.peers().into_iter();
    infos.filter_map(|info| Some((info.peer, group_of(&info.address, &own)?))).collect()
}

/// The group of an address that leads straight to a peer, where it is one of the internet. Nothing for a node on this very
/// machine that uses its address there: it looks from nowhere else.
fn group_of(address: &str, own: &[String]) -> Option<Option<Group>> {
    let (_, ip) = ip_of(address)?;
    let here = |own: &String| ip_of(own).is_some_and(|(_, own)| own.to_canonical() == ip.to_canonical());
    let group = Group::of(ip);
    (group.is_none() || !own.iter().any(here)).then_some(group)
}

/// The IP address in front of a multiaddress that leads straight to it, as it is written and as it is.
fn ip_of(address: &str) -> Option<(String, IpAddr)> {
    if address.contains("/p2p-circuit") {
        return None;
    }
    let mut parts = address.split('/').skip(1);
    let kind = parts.next().filter(|kind| matches!(*kind, "ip4" | "ip6"))?;
    let ip: IpAddr = parts.next()?.parse().ok()?;
    Some((format!("/{kind}/{ip}"), ip))
}

/// Does an address lead to the internet, or through a relay?
#[must_use]
pub fn is_far(address: &str) -> bool {
    address.contains("/p2p-circuit") || ip_of(address).is_some_and(|(_, ip)| Group::of(ip).is_some())
}

/// How this node can be dialled at any of its addresses: what comes behind the IP address.
fn ways(listening: &[String]) -> Vec<String> {
    let tails = listening.iter().filter_map(|address| {
        let (head, ip) = ip_of(address)?;
        (!ip.is_loopback()).then(|| address[head.len()..].to_owned())
    });
    let mut ways: Vec<String> = tails.filter(|way| is_way(way)).collect();
    ways.sort_unstable();
    ways.dedup();
    ways.truncate(WAYS_MAX);
    ways
}

/// `/tcp/7421` or `/udp/7421/quic-v1`.
fn is_way(way: &str) -> bool {
    let port = |text: &str| text.parse::<u16>().is_ok_and(|port| port != 0);
    match way.split('/').collect::<Vec<_>>()[..] {
        ["", "tcp", number] => port(number),
        ["", "udp", number, "quic-v1"] => port(number),
        _ => false,
    }
}

async fn find_out(shared: Weak<Shared>) {
    let mut told = None;
    let Some(begun) = shared.upgrade().map(|shared| shared.reaching.begun) else { return };
    let mut looks = 0_u64;
    loop {
        looks += 1;
        let next = {
            let Some(shared) = shared.upgrade() else { return };
            let listening = shared.network.listening();
            let now_ms = millis(begun.elapsed());
            let peers = direct_peers(&shared);
            let next = shared.reaching.state().due(&peers, &ways(&listening), now_ms);
            let verdict = shared.reaching.verdict(&shared, &listening);
            let news = told.as_ref() != Some(&verdict);
            if news {
                tracing::info!(?verdict, "how others can reach this node");
            }
            // Said again now and then: what is said may be lost where everybody is busy.
            if news || looks.is_multiple_of(SAY_AGAIN) {
                shared.network.stand(Standing {
                    announced: verdict.confirmed.clone(),
                    hidden: verdict.hidden,
                    reachable: verdict.from_internet,
                });
                told = Some(verdict);
            }
            next
        };
        if let Some((peer, group)) = next {
            let Some(shared) = shared.upgrade() else { return };
            let outcome = ask(&shared, peer).await;
            let asked = Asked { peer, from_internet: group.is_some(), group, outcome };
            note(&shared, &asked, millis(begun.elapsed()));
            let failed = asked.outcome.is_err();
            let came = asked.outcome.iter().flatten().any(|dial| dial.reached);
            shared.reaching.state().asked(peer, group.is_some(), failed, came, millis(begun.elapsed()));
            continue;
        }
        let Some(again) = shared.upgrade() else { return };
        // Whoever holds this longer than a look keeps nothing alive.
        let _ = timeout(LOOK, again.reaching.again.notified()).await;
        drop(again);
        sleep(Duration::ZERO).await;
    }
}

fn note(shared: &Shared, asked: &Asked, now_ms: u64) {
    if let Ok(dialled) = &asked.outcome {
        shared.reaching.state().heard(asked.peer, asked.group, dialled, now_ms);
    }
}

/// Asks one peer to dial this node back.
async fn ask(shared: &Arc<Shared>, peer: PublicKey) -> Result<Vec<Dialled>, String> {
    let ways = ways(&shared.network.listening());
    if ways.is_empty() {
        return Err("this node listens nowhere where others could dial it".to_owned());
    }
    let body = minicbor::to_vec(&ways).expect("writing to a vector cannot fail");
    shared.network.expect_probes(peer);
    let request = Request { deadline: Some(ANSWER_MAX), ..Request::new("dial-back", body) };
    let answer = outbound::unary(shared, peer, REACH, request).await.map_err(|error| match error {
        crate::CallError::Refused { body, .. } => said(&body).1,
        error => error.to_string(),
    })?;
    cbor::check(&answer, 4 << 10).map_err(|error| error.to_string())?;
    let mut dialled: Vec<Dialled> = minicbor::decode(&answer).map_err(|error| error.to_string())?;
    dialled.truncate(WAYS_MAX);
    let asked = |address: &str| {
        let way = ip_of(address).and_then(|(head, _)| address.strip_prefix(&head).map(str::to_owned));
        way.is_some_and(|way| ways.contains(&way))
    };
    dialled.retain(|dial| asked(&dial.address));
    // It may say what it likes; that somebody came is seen here, perhaps a moment later.
    let claimed = dialled.iter().filter(|dial| dial.reached).count();
    for _ in 0..ARRIVAL_LOOKS {
        if shared.network.probes_seen(peer) >= claimed {
            break;
        }
        sleep(ARRIVAL_LOOK).await;
    }
    let mut left = shared.network.probes_seen(peer);
    for dial in &mut dialled {
        dial.reason = dial.reason.chars().filter(|c| !c.is_control()).take(REASON_MAX).collect();
        if dial.reached && left == 0 {
            dial.reached = false;
            dial.reason = "it says that it came, and did not".to_owned();
        }
        left = left.saturating_sub(usize::from(dial.reached));
    }
    Ok(dialled)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Serves [`REACH`].
pub(crate) struct Serving(pub Weak<Shared>);

impl Inbound for Serving {
    fn call(&self, caller: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let shared = self.0.upgrade();
        async move {
            let Some(shared) = shared else { return Answer::Response(Vec::new()) };
            if request.operation != "dial-back" {
                let message = format!("there is no operation {:?} here", request.operation);
                return Answer::Error(refusal(METHOD_NOT_FOUND, None, &message));
            }
            match dial_back(&shared, caller.node, &request.body).await {
                Ok(dialled) => Answer::Response(minicbor::to_vec(dialled).expect("writing to a vector cannot fail")),
                Err((code, reason, message)) => Answer::Error(refusal(code, reason, &message)),
            }
        }
        .boxed()
    }
}

type Refused = (i32, Option<&'static str>, String);

/// Dials a peer where it comes from, and nowhere else: nobody is dialled on anybody's word.
async fn dial_back(shared: &Arc<Shared>, peer: PublicKey, body: &[u8]) -> Result<Vec<Dialled>, Refused> {
    let bad = |why: String| (INVALID_PARAMS, None, why);
    cbor::check(body, 1 << 10).map_err(|error| bad(error.to_string()))?;
    let ways: Vec<String> = minicbor::decode(body).map_err(|error| bad(error.to_string()))?;
    if ways.is_empty() || ways.len() > WAYS_MAX || ways.iter().any(|way| way.len() > WAY_BYTES_MAX || !is_way(way)) {
        return Err(bad(format!("1 to {WAYS_MAX} ways like /tcp/7421 or /udp/7421/quic-v1 are wanted")));
    }
    let info = shared.network.peers().into_iter().find(|info| info.peer == peer);
    let Some((head, _)) = info.and_then(|info| ip_of(&info.address)) else {
        let message = "this connection does not show where you are".to_owned();
        return Err((SERVER_ERROR, Some("NO_ADDRESS"), message));
    };
    let busy = || (SERVER_ERROR, Some("BUSY"), "too many want to be dialled; ask again later".to_owned());
    let _room = shared.reaching.room.try_acquire().map_err(|_| busy())?;
    if !shared.reaching.may_ask(peer) {
        return Err(busy());
    }
    let mut all = Vec::new();
    // Two at a time: a peer has few connections.
    for pair in ways.chunks(2) {
        all.extend(futures::future::join_all(pair.iter().map(|way| dial(shared, peer, format!("{head}{way}")))).await);
    }
    Ok(all)
}

async fn dial(shared: &Shared, peer: PublicKey, address: String) -> Dialled {
    let outcome = timeout(DIAL_MAX, shared.network.probe(peer, address.clone())).await;
    let reason = match outcome {
        Ok(Ok(())) => String::new(),
        Ok(Err(error)) => error.to_string().chars().take(REASON_MAX).collect(),
        Err(_) => "nobody answered".to_owned(),
    };
    Dialled { address, reached: reason.is_empty(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_on_the_same_machine_does_not_look_from_the_internet() {
        let own =
            ["/ip4/127.0.0.1/tcp/1", "/ip4/5.0.0.1/tcp/1", "/ip4/5.0.0.9/tcp/1/p2p/12D/p2p-circuit"].map(str::to_owned);
        let group = |address: &str| group_of(address, &own);
        assert_eq!(group("/ip4/5.0.0.1/tcp/40000"), None);
        assert_eq!(group("/ip4/127.0.0.1/tcp/40000"), Some(None));
        assert_eq!(group("/ip4/10.0.0.1/tcp/40000"), Some(None));
        assert!(group("/ip4/5.0.0.9/tcp/40000").is_some_and(|group| group.is_some()), "a relay is another machine");
        assert_eq!(group("/ip4/5.0.0.2/tcp/1/p2p/12D/p2p-circuit"), None);
    }

    #[test]
    fn only_what_can_be_dialled_is_a_way() {
        for good in ["/tcp/7421", "/udp/65535/quic-v1"] {
            assert!(is_way(good), "{good}");
        }
        for bad in
            ["", "/tcp/0", "/tcp/70000", "tcp/1", "/tcp/1/ws", "/udp/1", "/dns/a/tcp/1", "/tcp/1/p2p/x", "//tcp/1"]
        {
            assert!(!is_way(bad), "{bad}");
        }
        let listening =
            ["/ip4/127.0.0.1/tcp/1", "/ip4/10.0.0.1/tcp/7", "/ip6/fe80::1/tcp/7", "/ip4/10.0.0.1/udp/7/quic-v1"];
        assert_eq!(ways(&listening.map(str::to_owned)), ["/tcp/7", "/udp/7/quic-v1"]);
        assert_eq!(ip_of("/ip4/5.0.0.1/tcp/7/p2p/12D/p2p-circuit"), None);
        assert_eq!(ip_of("sim:abc"), None);
        assert!(is_far("/ip4/5.0.0.1/tcp/7/p2p/12D/p2p-circuit") && is_far("/ip4/5.0.0.1/tcp/7"));
        assert!(!is_far("/ip4/10.0.0.1/tcp/7") && !is_far("sim:abc"));
    }
}
