//! Asks the peers in turn for the keys that they know, and pushes news to them.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use althing_protocol::keyring::encode_known;
use althing_protocol::{Digest, PublicKey};
use tokio::sync::broadcast;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::KEYS;
use super::receive::receive;
use crate::lanes::Priority;
use crate::network::PeerEvent;
use crate::outbound;
use crate::request::Request;
use crate::shared::Shared;

/// The interval at which one of the peers is asked again, since pushes may be lost.
const COMPARE: Duration = Duration::from_secs(8);
/// When a publisher comes into use, peers are asked after this delay, since several come into use at once.
const WANTED_DELAY: Duration = Duration::from_secs(1);
/// How many peers are asked then.
const WANTED_PEERS: usize = 3;
/// The timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Requests to one peer, since its news may not fit into one answer.
const ROUNDS: usize = 4;

/// Compares what is known with the peers, and pushes what is new, for as long as the network lives.
pub(crate) async fn run(shared: Weak<Shared>, mut events: broadcast::Receiver<PeerEvent>) {
    let Some((mut changes, mut wanted)) =
        shared.upgrade().map(|shared| (shared.keys.changes(), shared.keys.wanted.subscribe()))
    else {
        return;
    };
    let mut wanted_soon = false;
    let mut again = interval(COMPARE);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = None;
    loop {
        tokio::select! {
            biased;
            event = events.recv() => match event {
                Ok(PeerEvent::Connected(peer)) => drop(tokio::spawn(on_connected(shared.clone(), peer))),
                // Peers whose event was missed are asked in turn.
                Ok(PeerEvent::Disconnected(_) | PeerEvent::Moved(_)) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return,
            },
            changed = changes.changed() => {
                let Some(shared) = shared.upgrade().filter(|_| changed.is_ok()) else { return };
                tokio::spawn(push_news(shared));
            }
            wanting = wanted.changed(), if !wanted_soon => {
                if wanting.is_err() {
                    return;
                }
                again.reset_after(WANTED_DELAY);
                wanted_soon = true;
            }
            _ = again.tick() => {
                let Some(shared) = shared.upgrade() else { return };
                let peers: BTreeSet<PublicKey> = shared.network.connected().into_iter().collect();
                let asked = if std::mem::take(&mut wanted_soon) { WANTED_PEERS } else { 1 };
                for _ in 0..asked.min(peers.len()) {
                    // The peer after the last one.
                    let next = last.and_then(|last| peers.range(last..).find(|peer| **peer != last));
                    last = next.or(peers.first()).copied();
                    if let Some(peer) = last {
                        let shared = shared.clone();
                        tokio::spawn(async move { compare(&shared, peer).await });
                    }
                }
            }
        }
    }
}

/// Asks a new peer, with retries, since its connection may be a duplicate that is closed.
async fn on_connected(shared: Weak<Shared>, peer: PublicKey) {
    for wait_ms in [0, 50, 200, 1_000] {
        sleep(Duration::from_millis(wait_ms)).await;
        let Some(shared) = shared.upgrade() else { return };
        if compare(&shared, peer).await {
            return;
        }
    }
}

/// Asks a peer for what this node does not know. False when it could not be asked.
async fn compare(shared: &Shared, peer: PublicKey) -> bool {
    for _ in 0..ROUNDS {
        let known = encode_known(&shared.keys.known());
        let request = Request { deadline: Some(TIMEOUT), ..Request::new("compare", known) };
        match outbound::unary(shared, peer, KEYS, request).await {
            Ok(body) => match receive(shared, peer, &body, false).await {
                Ok(0) => return true,
                // There may be more.
                Ok(_) => {}
                Err(reason) => {
                    tracing::debug!(%peer, %reason, "key news refused");
                    return true;
                }
            },
            Err(crate::CallError::Refused { .. }) => return true,
            Err(reason) => {
                tracing::debug!(%peer, %reason, "cannot ask peer for keys");
                return false;
            }
        }
    }
    true
}

/// Pushes news to all connected peers.
async fn push_news(shared: Arc<Shared>) {
    let fresh = std::mem::take(&mut *shared.keys.fresh());
    let mut news = {
        let ring = shared.keys.ring();
        let pushed_before: BTreeSet<Digest> = ring.known().difference(&fresh).copied().collect();
        ring.news(&pushed_before, shared.clock.now_ms())
    };
    shared.keys.forwarder().drain_into(&mut news);
    let news = news.to_news();
    if news.is_empty() {
        return;
    }
    let body = news.encode();
    let pushes = shared.network.connected().into_iter().map(|peer| {
        let (shared, body) = (shared.clone(), body.clone());
        async move {
            let request = Request { deadline: Some(TIMEOUT), priority: Priority::Urgent, ..Request::new("news", body) };
            if let Err(reason) = outbound::unary(&shared, peer, KEYS, request).await {
                tracing::debug!(%peer, %reason, "cannot push key news to peer");
            }
        }
    });
    futures::future::join_all(pushes).await;
}
