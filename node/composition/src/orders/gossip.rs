//! Orders go from node to node as key news do: each peer that connects is asked for what it knows, what is new is pushed to all, and
//! one peer after another is asked again, since pushes may be lost.

use std::collections::BTreeSet;
use std::time::Duration;

use althing_communication::{Communication, PeerEvent, Priority, Request};
use althing_governance::machine::orders::{OrderError, OrderNews, SignedOrder};
use althing_protocol::keyring::encode_known;
use althing_protocol::{Digest, PublicKey};
use futures::StreamExt as _;
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::FuturesUnordered;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::ledger::{ORDERS_PROTOCOL, Orders};
use crate::error::NodeError;

/// The interval at which one of the peers is asked again.
const COMPARE: Duration = Duration::from_secs(8);
/// The timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Requests to one peer, since its news may not fit into one answer.
const ROUNDS: usize = 4;
/// Pushes that are under way at one time; what comes meanwhile is in the next one.
const PUSHES_MAX: usize = 8;

/// What one piece of work of the gossip was.
enum GossipEnd {
    Push,
    /// Anything else.
    Other,
}

impl Orders {
    /// Tells peers of orders, hears of theirs, and takes over policy sets, for as long as the node runs.
    pub(crate) async fn gossip(&self) {
        let Some(communication) = self.communication() else { return std::future::pending().await };
        let mut events = communication.network().events();
        let (mut changes, mut keys) = (self.changes(), communication.keys().changes());
        let mut again = interval(COMPARE);
        again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut last, mut pushes) = (None, 0);
        let mut work: FuturesUnordered<BoxFuture<'_, GossipEnd>> = FuturesUnordered::new();
        // Peers that were connected before.
        let connected: BTreeSet<PublicKey> = communication.network().connected().into_iter().collect();
        let connected = connected.into_iter();
        work.extend(connected.map(|peer| on_connected(self, communication, peer)));
        loop {
            tokio::select! {
                biased;
                event = events.recv() => match event {
                    Ok(PeerEvent::Connected(peer)) => work.push(on_connected(self, communication, peer)),
                    // Peers whose event was missed are asked in turn.
                    Ok(PeerEvent::Disconnected(_) | PeerEvent::Moved(_)) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return std::future::pending().await,
                },
                changed = changes.changed(), if pushes < PUSHES_MAX => {
                    if changed.is_err() {
                        return std::future::pending().await;
                    }
                    pushes += 1;
                    work.push(push(self, communication));
                    work.push(self.adopt_set().map(|()| GossipEnd::Other).boxed());
                }
                // What was not wanted may be wanted now.
                changed = keys.changed() => match changed {
                    Ok(()) => self.queue().skipped().clear(),
                    Err(_) => return std::future::pending().await,
                },
                _ = again.tick() => {
                    let peers: BTreeSet<PublicKey> = communication.network().connected().into_iter().collect();
                    // The peer after the last one.
                    let next = last.and_then(|last| peers.range(last..).find(|peer| **peer != last));
                    last = next.or(peers.first()).copied();
                    if let Some(peer) = last {
                        work.push(compare(self, communication, peer).map(|_| GossipEnd::Other).boxed());
                    }
                    work.push(self.adopt_set().map(|()| GossipEnd::Other).boxed());
                }
                Some(end) = work.next(), if !work.is_empty() => {
                    pushes -= usize::from(matches!(end, GossipEnd::Push));
                }
            }
        }
    }

    /// Takes what a peer tells; gives how many orders it told that were not known, whether they count or not.
    pub(super) async fn receive(&self, from: PublicKey, body: &[u8], is_push: bool) -> Result<usize, OrderError> {
        let news = OrderNews::decode(body)?;
        let mut unknown = 0;
        for order in &news.orders {
            let digest = order.digest();
            if self.book().has(&digest) {
                continue;
            }
            unknown += 1;
            match receive_one(self, order, from, is_push).await {
                Ok(Some(true)) => {}
                Ok(Some(false)) => self.queue().skip(digest),
                // It is asked for again.
                Ok(None) => unknown -= 1,
                Err(reason) => {
                    tracing::debug!(peer = %from, %reason, "an order is not accepted");
                    self.queue().skip(digest);
                }
            }
        }
        Ok(unknown)
    }
}

async fn push_to(communication: &Communication, peer: PublicKey, body: Vec<u8>) {
    let request = Request { deadline: Some(TIMEOUT), priority: Priority::Urgent, ..Request::new("news", body) };
    if let Err(reason) = communication.call(peer, ORDERS_PROTOCOL, request).await {
        tracing::debug!(%peer, %reason, "orders cannot be pushed to a peer");
    }
}

/// Asks a new peer, with retries, since its connection may be a duplicate that is closed.
fn on_connected<'a>(orders: &'a Orders, communication: &'a Communication, peer: PublicKey) -> BoxFuture<'a, GossipEnd> {
    async move {
        for wait_ms in [0, 50, 200, 1_000] {
            sleep(Duration::from_millis(wait_ms)).await;
            if compare(orders, communication, peer).await {
                break;
            }
        }
        GossipEnd::Other
    }
    .boxed()
}

/// Asks a peer for what this node does not know. False when it could not be asked.
async fn compare(orders: &Orders, communication: &Communication, peer: PublicKey) -> bool {
    for _ in 0..ROUNDS {
        let known: BTreeSet<Digest> = orders.book().digests().union(&orders.queue().skipped()).copied().collect();
        let request = Request { deadline: Some(TIMEOUT), ..Request::new("compare", encode_known(&known)) };
        match communication.call(peer, ORDERS_PROTOCOL, request).await {
            Ok(body) => match orders.receive(peer, &body, false).await {
                Ok(0) => return true,
                // There may be more.
                Ok(_) => {}
                Err(reason) => {
                    tracing::debug!(%peer, %reason, "what a peer tells of orders is refused");
                    return true;
                }
            },
            // A node of an earlier version knows no orders.
            Err(althing_communication::CallError::Refused { .. }) => return true,
            Err(reason) => {
                tracing::debug!(%peer, %reason, "a peer cannot be asked for orders");
                return false;
            }
        }
    }
    true
}

/// Pushes what is new to all connected peers, each what it may hear.
fn push<'a>(orders: &'a Orders, communication: &'a Communication) -> BoxFuture<'a, GossipEnd> {
    async move {
        let (fresh, passing) = orders.queue().take();
        let news = |is_own: bool| {
            let mut news = orders.book().news(is_own, |digest| fresh.contains(digest));
            passing.iter().for_each(|order| news.add(order.clone()));
            news
        };
        let (own, others) = (news(true), news(false));
        let connected: BTreeSet<PublicKey> = communication.network().connected().into_iter().collect();
        let pushes = connected.into_iter().filter_map(|peer| {
            let news: &OrderNews = if orders.is_own(peer) { &own } else { &others };
            (!news.orders.is_empty()).then(|| push_to(communication, peer, news.encode()))
        });
        futures::future::join_all(pushes).await;
        GossipEnd::Push
    }
    .boxed()
}

/// Takes one order. True where it is new, and counts here; none where too much came from that origin to look at it now.
async fn receive_one(
    orders: &Orders,
    order: &SignedOrder,
    from: PublicKey,
    is_push: bool,
) -> Result<Option<bool>, NodeError> {
    let (Some(publisher), Some(communication)) = (order.claimed(), orders.communication()) else {
        return Ok(Some(false));
    };
    let is_used = publisher == orders.owner() || communication.keys().wants(publisher);
    if !is_used && !is_push {
        return Ok(Some(false));
    }
    let known = communication.key_log(publisher);
    let signatures = order.signatures(known.as_deref());
    if !orders.is_own(from) && !orders.admits(&communication.origin(from), signatures) {
        return Ok(None);
    }
    let proven = order.open(known.as_ref())?;
    if is_used {
        return orders.keep(proven).await.map(Some);
    }
    // Others may use what nobody uses here.
    let body = &proven.order.body;
    let is_told = body.is_public() && proven.log.accepts(proven.order.signer, orders.now_ms()).is_ok();
    if is_told && orders.queue().pass_on(order) {
        orders.wake();
    }
    Ok(Some(false))
}
