//! Peers are asked for what they know of keys, one after the other, and are told what is new.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use althing_protocol::keyring::encode_known;
use althing_protocol::{Digest, PublicKey};
use tokio::sync::broadcast;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::KEYS;
use super::receive::take;
use crate::lanes::Priority;
use crate::network::PeerEvent;
use crate::outbound;
use crate::service::{Request, Shared};

/// One of the peers is asked again this often: what was pushed may have been lost.
const COMPARE: Duration = Duration::from_secs(8);
/// When a publisher comes into use, peers are asked this much later: several come at once.
const SOON: Duration = Duration::from_secs(1);
/// How many of them are asked then.
const ASKED_IN_A_HURRY: usize = 3;
/// A peer that takes longer to answer is asked another time.
const PATIENCE: Duration = Duration::from_secs(4);
/// News that do not fit into one answer are asked for again.
const ROUNDS: usize = 4;

/// Compares what is known with the peers, and pushes what is new, for as long as the network lives.
pub(crate) async fn run(shared: Weak<Shared>, mut events: broadcast::Receiver<PeerEvent>) {
    let Some((mut changes, mut wanted)) =
        shared.upgrade().map(|shared| (shared.keys.changes(), shared.keys.wanted.subscribe()))
    else {
        return;
    };
    let mut hurried = false;
    let mut again = interval(COMPARE);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = None;
    loop {
        tokio::select! {
            biased;
            event = events.recv() => match event {
                Ok(PeerEvent::Connected(peer)) => drop(tokio::spawn(meet(shared.clone(), peer))),
                // Whoever was missed is asked in turn.
                Ok(PeerEvent::Disconnected(_) | PeerEvent::Moved(_)) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return,
            },
            changed = changes.changed() => {
                let Some(shared) = shared.upgrade().filter(|_| changed.is_ok()) else { return };
                tokio::spawn(tell_all(shared));
            }
            wanting = wanted.changed(), if !hurried => {
                if wanting.is_err() {
                    return;
                }
                again.reset_after(SOON);
                hurried = true;
            }
            _ = again.tick() => {
                let Some(shared) = shared.upgrade() else { return };
                let peers: BTreeSet<PublicKey> = shared.network.connected().into_iter().collect();
                let asked = if std::mem::take(&mut hurried) { ASKED_IN_A_HURRY } else { 1 };
                for _ in 0..asked.min(peers.len()) {
                    // In turn: the one behind the last.
                    let behind = last.and_then(|last| peers.range(last..).find(|peer| **peer != last));
                    last = behind.or(peers.first()).copied();
                    if let Some(peer) = last {
                        let shared = shared.clone();
                        tokio::spawn(async move { compare(&shared, peer).await });
                    }
                }
            }
        }
    }
}

/// A new connection may be one of two, of which one is closed again: so what fails is repeated soon.
async fn meet(shared: Weak<Shared>, peer: PublicKey) {
    for wait_ms in [0, 50, 200, 1_000] {
        sleep(Duration::from_millis(wait_ms)).await;
        let Some(shared) = shared.upgrade() else { return };
        if compare(&shared, peer).await {
            return;
        }
    }
}

/// Asks a peer for what it knows and this node does not. False when it could not be asked.
async fn compare(shared: &Shared, peer: PublicKey) -> bool {
    for _ in 0..ROUNDS {
        let known = encode_known(&shared.keys.known());
        let request = Request { deadline: Some(PATIENCE), ..Request::new("compare", known) };
        match outbound::unary(shared, peer, KEYS, request).await {
            Ok(body) => match take(shared, peer, &body, false).await {
                Ok(0) => return true,
                // There may be more than fits into one answer.
                Ok(_) => {}
                Err(reason) => {
                    tracing::debug!(%peer, %reason, "news of keys refused");
                    return true;
                }
            },
            Err(crate::CallError::Refused { .. }) => return true,
            Err(reason) => {
                tracing::debug!(%peer, %reason, "peer was not asked for keys");
                return false;
            }
        }
    }
    true
}

/// Tells all who are connected what was learned.
async fn tell_all(shared: Arc<Shared>) {
    let fresh = std::mem::take(&mut *shared.keys.fresh());
    let mut news = {
        let ring = shared.keys.ring();
        let told_before: BTreeSet<Digest> = ring.known().difference(&fresh).copied().collect();
        ring.news(&told_before, shared.clock.now_ms())
    };
    shared.keys.relay().drain_into(&mut news);
    let news = news.to_news();
    if news.is_empty() {
        return;
    }
    let body = news.encode();
    let tellings = shared.network.connected().into_iter().map(|peer| {
        let (shared, body) = (shared.clone(), body.clone());
        async move {
            let request =
                Request { deadline: Some(PATIENCE), priority: Priority::Urgent, ..Request::new("news", body) };
            if let Err(reason) = outbound::unary(&shared, peer, KEYS, request).await {
                tracing::debug!(%peer, %reason, "peer was not told of keys");
            }
        }
    });
    futures::future::join_all(tellings).await;
}
