//! Whether others can dial this node: peers are asked to dial it back (SPEC P-71, P-72), and what they report decides which
//! addresses this node announces, and whether it needs a relay.
//!
//! libp2p's AutoNAT is not used: its dial-back is an ordinary second connection, and of two connections to a peer one is
//! closed here, with the calls on it; version 1 knows one address, version 2 never checks again; and neither can be asked
//! on demand, or about a LAN.

pub(crate) mod state;

use std::sync::{Arc, Weak};
use std::time::Duration;

use althing_protocol::{PublicKey, cbor};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::time::{sleep, timeout};

use crate::inbound::{Answer, Inbound};
use crate::machine::address_groups::AddressGroup;
use crate::machine::caller::Caller;
use crate::machine::dial_addresses::{TRANSPORTS_MAX, direct_ip, is_transport, observed_group, transports};
use crate::machine::reachability::{DialReport, ReachabilityReport};
use crate::network::Reachability;
use crate::outbound;
use crate::refusal::{INVALID_PARAMS, METHOD_NOT_FOUND, SERVER_ERROR, refusal, said};
use crate::request::Request;
use crate::shared::Shared;

/// The stream protocol on which nodes ask to be dialled back.
pub const REACH: &str = "/althing/reach/1";
/// Bytes of one transport in a request.
const TRANSPORT_BYTES_MAX: usize = 64;
/// A dial that takes longer has failed.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// An answer that takes longer is not waited for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(12);
/// How often, and how many times, this node checks whether a connection that a peer reports has arrived.
const ARRIVAL_POLL: Duration = Duration::from_millis(50);
/// See [`ARRIVAL_POLL`].
const ARRIVAL_POLLS: usize = 20;
/// How often this node checks whether a peer is due to be asked.
const POLL: Duration = Duration::from_secs(1);
/// The network is told the reachability again after this many polls.
const REPEAT_AFTER: u64 = 30;
/// Characters of a reason that a peer gives.
const REASON_MAX: usize = 200;

/// What one peer reported when it was asked to dial this node back.
#[derive(Debug, Clone)]
pub struct DialBackResult {
    /// The peer that was asked.
    pub peer: PublicKey,
    /// True when its connection comes from the internet, false when from a private network.
    pub from_internet: bool,
    /// The group of its address, on the internet.
    pub group: Option<AddressGroup>,
    /// Its reports; or why it could not be asked.
    pub outcome: Result<Vec<DialReport>, String>,
}

/// How others can reach this node, as far as it is known.
pub(crate) fn report(shared: &Shared) -> ReachabilityReport {
    report_at(shared, &shared.network.listening())
}

fn report_at(shared: &Shared, listening: &[String]) -> ReachabilityReport {
    let caller = |node| Caller { node, owner: shared.owner(node) };
    shared.reach.tracker().report(listening, |peer| shared.is_trusted(&caller(peer)) == Some(true))
}

/// Asks up to `count` peers now to dial this node back, those on the internet first.
pub(crate) async fn request_dial_backs(shared: &Arc<Shared>, count: usize) -> Vec<DialBackResult> {
    let mut peers = direct_peers(shared);
    peers.sort_by_key(|(_, group)| group.is_none());
    peers.truncate(count);
    let requests = peers.into_iter().map(|(peer, group)| {
        let shared = shared.clone();
        async move {
            let outcome = request_dial_back(&shared, peer).await;
            DialBackResult { peer, from_internet: group.is_some(), group, outcome }
        }
    });
    let all = futures::future::join_all(requests).await;
    for result in &all {
        record(shared, result, millis(shared.reach.begun.elapsed()));
    }
    shared.reach.check_now.notify_one();
    all
}

/// Peers with a direct connection, and the group of their address where it is on the internet.
fn direct_peers(shared: &Shared) -> Vec<(PublicKey, Option<AddressGroup>)> {
    let own = shared.network.listening();
    let infos = shared.network.peers().into_iter();
    infos.filter_map(|info| Some((info.peer, observed_group(&info.address, &own)?))).collect()
}

/// Checks how others can reach this node, for as long as the network lives.
pub(crate) async fn run(shared: Weak<Shared>) {
    let mut told = None;
    let Some(begun) = shared.upgrade().map(|shared| shared.reach.begun) else { return };
    let mut polls = 0_u64;
    loop {
        polls += 1;
        let next = {
            let Some(shared) = shared.upgrade() else { return };
            let listening = shared.network.listening();
            let now_ms = millis(begun.elapsed());
            let peers = direct_peers(&shared);
            let next = shared.reach.tracker().next_peer(&peers, &transports(&listening), now_ms);
            let report = report_at(&shared, &listening);
            let changed = told.as_ref() != Some(&report);
            if changed {
                tracing::info!(?report, "reachability changed");
            }
            // Repeated now and then: a busy network may drop it.
            if changed || polls.is_multiple_of(REPEAT_AFTER) {
                shared.network.set_reachability(Reachability {
                    announced: report.confirmed.clone(),
                    hidden: report.hidden,
                    reachable: report.from_internet,
                });
                told = Some(report);
            }
            next
        };
        if let Some((peer, group)) = next {
            let Some(shared) = shared.upgrade() else { return };
            let outcome = request_dial_back(&shared, peer).await;
            let result = DialBackResult { peer, from_internet: group.is_some(), group, outcome };
            record(&shared, &result, millis(begun.elapsed()));
            let failed = result.outcome.is_err();
            let reached = result.outcome.iter().flatten().any(|dial| dial.reached);
            shared.reach.tracker().on_asked(peer, group.is_some(), failed, reached, millis(begun.elapsed()));
            continue;
        }
        let Some(waiting) = shared.upgrade() else { return };
        // This reference is held for one poll at most, so that it does not keep the node alive.
        let _ = timeout(POLL, waiting.reach.check_now.notified()).await;
        drop(waiting);
        sleep(Duration::ZERO).await;
    }
}

fn record(shared: &Shared, result: &DialBackResult, now_ms: u64) {
    if let Ok(reports) = &result.outcome {
        shared.reach.tracker().on_reports(result.peer, result.group, reports, now_ms);
    }
}

/// Asks one peer to dial this node back.
async fn request_dial_back(shared: &Arc<Shared>, peer: PublicKey) -> Result<Vec<DialReport>, String> {
    let transports = transports(&shared.network.listening());
    if transports.is_empty() {
        return Err("this node listens on no address that others could dial".to_owned());
    }
    let body = minicbor::to_vec(&transports).expect("writing to a vector cannot fail");
    shared.network.expect_probes(peer);
    let request = Request { deadline: Some(ANSWER_TIMEOUT), ..Request::new("dial-back", body) };
    let answer = outbound::unary(shared, peer, REACH, request).await.map_err(|error| match error {
        crate::CallError::Refused { body, .. } => said(&body).1,
        error => error.to_string(),
    })?;
    cbor::check(&answer, 4 << 10).map_err(|error| error.to_string())?;
    let mut reports: Vec<DialReport> = minicbor::decode(&answer).map_err(|error| error.to_string())?;
    reports.truncate(TRANSPORTS_MAX);
    let requested = |address: &str| {
        let transport = direct_ip(address).and_then(|(head, _)| address.strip_prefix(&head).map(str::to_owned));
        transport.is_some_and(|transport| transports.contains(&transport))
    };
    reports.retain(|dial| requested(&dial.address));
    // The peer may claim anything: only connections that arrive here count, perhaps a moment later.
    let claimed = reports.iter().filter(|dial| dial.reached).count();
    for _ in 0..ARRIVAL_POLLS {
        if shared.network.probes_seen(peer) >= claimed {
            break;
        }
        sleep(ARRIVAL_POLL).await;
    }
    let mut left = shared.network.probes_seen(peer);
    for dial in &mut reports {
        dial.reason = dial.reason.chars().filter(|c| !c.is_control()).take(REASON_MAX).collect();
        if dial.reached && left == 0 {
            dial.reached = false;
            dial.reason = "the peer claims that it connected, but no connection arrived".to_owned();
        }
        left = left.saturating_sub(usize::from(dial.reached));
    }
    Ok(reports)
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
                Ok(reports) => Answer::Response(minicbor::to_vec(reports).expect("writing to a vector cannot fail")),
                Err((code, reason, message)) => Answer::Error(refusal(code, reason, &message)),
            }
        }
        .boxed()
    }
}

type Refused = (i32, Option<&'static str>, String);

/// Dials a peer at the IP address of its connection, and at no other: a request cannot direct dials at third parties.
async fn dial_back(shared: &Arc<Shared>, peer: PublicKey, body: &[u8]) -> Result<Vec<DialReport>, Refused> {
    let bad = |why: String| (INVALID_PARAMS, None, why);
    cbor::check(body, 1 << 10).map_err(|error| bad(error.to_string()))?;
    let transports: Vec<String> = minicbor::decode(body).map_err(|error| bad(error.to_string()))?;
    let is_valid = |transport: &String| transport.len() <= TRANSPORT_BYTES_MAX && is_transport(transport);
    if transports.is_empty() || transports.len() > TRANSPORTS_MAX || !transports.iter().all(is_valid) {
        return Err(bad(format!("expected 1 to {TRANSPORTS_MAX} transports like /tcp/7421 or /udp/7421/quic-v1")));
    }
    let info = shared.network.peer(peer);
    let Some((head, _)) = info.and_then(|info| direct_ip(&info.address)) else {
        let message = "this connection does not show your IP address".to_owned();
        return Err((SERVER_ERROR, Some("NO_ADDRESS"), message));
    };
    let busy = || (SERVER_ERROR, Some("BUSY"), "too many dial-backs are requested; ask again later".to_owned());
    let _permit = shared.reach.concurrent.try_acquire().map_err(|_| busy())?;
    if !shared.reach.admit(peer) {
        return Err(busy());
    }
    let mut all = Vec::new();
    // Two at a time: a peer has few connections.
    for pair in transports.chunks(2) {
        let dials = pair.iter().map(|transport| dial(shared, peer, format!("{head}{transport}")));
        all.extend(futures::future::join_all(dials).await);
    }
    Ok(all)
}

async fn dial(shared: &Shared, peer: PublicKey, address: String) -> DialReport {
    let outcome = timeout(DIAL_TIMEOUT, shared.network.probe(peer, address.clone())).await;
    let reason = match outcome {
        Ok(Ok(())) => String::new(),
        Ok(Err(error)) => error.to_string().chars().take(REASON_MAX).collect(),
        Err(_) => "nobody answered".to_owned(),
    };
    DialReport { address, reached: reason.is_empty(), reason }
}
