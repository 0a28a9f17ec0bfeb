//! News of rollouts go from node to node of one owner: what is decided is pushed at once to all that are connected, each that
//! connects is asked for what it knows, all are asked when a rollout begins, and one after the other is asked again, since pushes may
//! be lost.

use std::collections::BTreeSet;
use std::time::Duration;

use althing_communication::{CallError, Communication, PeerEvent, Priority, Request};
use althing_protocol::PublicKey;
use althing_verification::machine::rollout::{decode_news, encode_news};
use futures::StreamExt as _;
use futures::future::{BoxFuture, FutureExt as _, join_all};
use futures::stream::FuturesUnordered;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::news_decisions::{hear, news_of};
use super::news_port::ROLLOUTS_PROTOCOL;
use super::node_rollouts::Rollouts;

/// The interval at which one of the owner's other nodes is asked again.
const COMPARE: Duration = Duration::from_secs(8);
/// The timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Pushes that are under way at one time; what comes meanwhile is in the next one.
const PUSHES_MAX: usize = 8;

/// What one piece of work of the gossip was.
enum GossipEnd {
    Push,
    /// Anything else.
    Other,
}

/// Tells the owner's other nodes of rollouts, and hears of theirs, for as long as the node runs.
pub(crate) async fn gossip(rollouts: &Rollouts) {
    let port = rollouts.news();
    let Some(communication) = port.communication() else { return std::future::pending().await };
    let mut events = communication.network().events();
    let (mut decided, mut begun) = port.changes();
    let mut again = interval(COMPARE);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut last, mut pushes) = (None, 0);
    let mut work: FuturesUnordered<BoxFuture<'_, GossipEnd>> = FuturesUnordered::new();
    // Peers that were connected before.
    let connected: BTreeSet<PublicKey> = communication.network().connected().into_iter().collect();
    work.extend(connected.into_iter().map(|peer| on_connected(rollouts, peer)));
    loop {
        tokio::select! {
            biased;
            event = events.recv() => match event {
                Ok(PeerEvent::Connected(peer)) => work.push(on_connected(rollouts, peer)),
                // Peers whose event was missed are asked in turn.
                Ok(PeerEvent::Disconnected(_) | PeerEvent::Moved(_)) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return std::future::pending().await,
            },
            changed = decided.changed(), if pushes < PUSHES_MAX => {
                if changed.is_err() {
                    return std::future::pending().await;
                }
                pushes += 1;
                work.push(push(rollouts, communication));
            }
            changed = begun.changed() => {
                if changed.is_err() {
                    return std::future::pending().await;
                }
                work.extend(port.own_peers().into_iter().map(|peer| ask(rollouts, peer)));
            }
            _ = again.tick() => {
                let peers = port.own_peers();
                // The peer after the last one.
                let next = last.and_then(|last| peers.range(last..).find(|peer| **peer != last));
                last = next.or(peers.first()).copied();
                work.extend(last.map(|peer| ask(rollouts, peer)));
            }
            Some(end) = work.next(), if !work.is_empty() => {
                pushes -= usize::from(matches!(end, GossipEnd::Push));
            }
        }
    }
}

fn ask(rollouts: &Rollouts, peer: PublicKey) -> BoxFuture<'_, GossipEnd> {
    compare(rollouts, peer).map(|_| GossipEnd::Other).boxed()
}

/// Asks a new peer, with retries, since its connection may be a duplicate that is closed, and since it may prove only then whose node
/// it is.
fn on_connected(rollouts: &Rollouts, peer: PublicKey) -> BoxFuture<'_, GossipEnd> {
    async move {
        for wait_ms in [0, 50, 200, 1_000] {
            sleep(Duration::from_millis(wait_ms)).await;
            if compare(rollouts, peer).await {
                break;
            }
        }
        GossipEnd::Other
    }
    .boxed()
}

/// Asks a node of the same owner for what it knows. False when it could not be asked, or is not known to be one.
async fn compare(rollouts: &Rollouts, peer: PublicKey) -> bool {
    let port = rollouts.news();
    let Some(communication) = port.communication().filter(|_| port.is_own(peer)) else { return false };
    let request = Request { deadline: Some(TIMEOUT), ..Request::new("compare", Vec::new()) };
    match communication.call(peer, ROLLOUTS_PROTOCOL, request).await {
        Ok(body) => {
            match decode_news(&body) {
                Ok(news) => hear(rollouts, peer, news).await,
                Err(reason) => tracing::debug!(%peer, %reason, "what a node tells of rollouts is refused"),
            }
            true
        }
        // It was asked too often, or knows no news of rollouts.
        Err(CallError::Refused { .. }) => true,
        // So it is with a node of an earlier version, too.
        Err(reason) => {
            tracing::debug!(%peer, %reason, "a node of the owner cannot be asked of rollouts");
            false
        }
    }
}

/// Pushes what was decided to all of the owner's nodes that are connected.
fn push<'a>(rollouts: &'a Rollouts, communication: &'a Communication) -> BoxFuture<'a, GossipEnd> {
    async move {
        let news = news_of(rollouts, &rollouts.news().take_fresh());
        if !news.is_empty() {
            let body = encode_news(news);
            let peers = rollouts.news().own_peers().into_iter();
            join_all(peers.map(|peer| push_to(communication, peer, body.clone()))).await;
        }
        GossipEnd::Push
    }
    .boxed()
}

async fn push_to(communication: &Communication, peer: PublicKey, body: Vec<u8>) {
    let request = Request { deadline: Some(TIMEOUT), priority: Priority::Urgent, ..Request::new("news", body) };
    if let Err(reason) = communication.call(peer, ROLLOUTS_PROTOCOL, request).await {
        tracing::debug!(%peer, %reason, "news of rollouts cannot be pushed to a node of the owner");
    }
}
