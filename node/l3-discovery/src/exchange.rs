//! Runs the exchange of placements: pushes this node's placement and serves subscriptions to it, as [`Exchange`] decides.
//!
//! [`Exchange`]: crate::machine::exchange::Exchange

use std::sync::Arc;
use std::time::Duration;

use althing_communication::refusal::said;
use althing_communication::{Answer, CallError, PeerEvent, Request, StreamError};
use althing_protocol::PublicKey;
use althing_protocol::object::Health;
use tokio::sync::broadcast;
use tokio::time::{interval, sleep};

use crate::PLACEMENTS;
use crate::instance;
use crate::machine::exchange::{ExchangeEffect, ExchangeInput, PushOutcome};
use crate::placement::seen;
use crate::state::Shared;
use crate::subscriptions;

/// The reason of a refusal that says nothing about this node: its own placements overtook each other.
pub(crate) const STALE: &str = "STALE_PLACEMENT";
/// When the placement is pushed to a new peer. A new connection may be one of two, of which one is closed again: so a
/// failed push is repeated soon.
const NEW_PEER_WAITS_MS: [u64; 3] = [0, 50, 200];

/// The exchange of placements with connected peers.
#[derive(Clone)]
pub(crate) struct PlacementExchange(pub Arc<Shared>);

impl PlacementExchange {
    /// Pushes heartbeats and follows connections, until the network ends.
    pub async fn run(self, mut events: broadcast::Receiver<PeerEvent>) {
        let mut beat = interval(self.0.config.heartbeat);
        loop {
            tokio::select! {
                biased;
                _ = beat.tick() => {
                    self.0.refresh_own();
                    self.review();
                    tokio::spawn(self.clone().heartbeat_owned());
                }
                () = self.0.changed.notified() => { tokio::spawn(self.clone().heartbeat_owned()); }
                event = events.recv() => match event {
                    Ok(PeerEvent::Connected(peer)) => self.on_connected(peer),
                    Ok(PeerEvent::Disconnected(peer)) => self.on_disconnected(peer),
                    Ok(PeerEvent::Moved(_)) => {}
                    // Some events were missed.
                    Err(broadcast::error::RecvError::Lagged(_)) => self.review(),
                    Err(broadcast::error::RecvError::Closed) => return,
                },
            }
        }
    }

    /// A peer made a call. Whose node it is is known from then on: an own or trusted one takes a place in the push set.
    pub fn on_call(&self, peer: PublicKey) {
        let near = self.0.trusts(peer) && !self.0.lock().exchange.pushes_to(peer);
        if near && self.0.connected().contains(&peer) {
            self.on_connected(peer);
        }
    }

    /// A peer's placement is in the catalogue: its next ones are subscribed to.
    pub fn on_placement_taken(&self, node: PublicKey) {
        let now_ms = self.0.now().monotonic_ms;
        let effects = {
            let mut state = self.0.lock();
            // Whose placement was not accepted, or who has just said goodbye, is not asked either.
            if state.catalogue.node(node).is_none() {
                return;
            }
            state.exchange.handle(now_ms, ExchangeInput::PlacementTaken(node))
        };
        self.run_effects(effects);
        self.0.note_useful(node);
    }

    /// A peer asks for a subscription.
    pub fn subscribe(&self, peer: PublicKey) -> Result<Answer, String> {
        self.on_call(peer);
        let effects = self.0.exchange(ExchangeInput::SubscribeRequested(peer));
        let number = effects.iter().find_map(|effect| match effect {
            ExchangeEffect::Subscribed(number) => Some(*number),
            _ => None,
        });
        self.run_effects(effects);
        let number = number.ok_or("this node has no room for another subscriber; ask it with `find` instead")?;
        Ok(subscriptions::events(self.0.clone(), peer, number))
    }

    /// Sends this node's last placement to the push set.
    pub async fn leave(&self) {
        self.0.lock().health = Health::Leaving;
        self.apply(ExchangeInput::Leaving);
        self.heartbeat().await;
    }

    fn on_connected(&self, peer: PublicKey) {
        let source = self.0.source(peer);
        self.apply(ExchangeInput::Connected { peer, source });
    }

    fn on_disconnected(&self, peer: PublicKey) {
        let connected = self.0.connected_sources();
        self.apply(ExchangeInput::Disconnected { peer, connected });
    }

    /// Brings the push set up to date with who is connected, and how near they are now, and notes who is useful.
    fn review(&self) {
        let connected = self.0.connected_sources();
        for (peer, _) in &connected {
            self.0.note_useful(*peer);
        }
        self.apply(ExchangeInput::Reviewed(connected));
    }

    fn apply(&self, input: ExchangeInput) {
        let effects = self.0.exchange(input);
        self.run_effects(effects);
    }

    fn run_effects(&self, effects: Vec<ExchangeEffect>) {
        for effect in effects {
            match effect {
                ExchangeEffect::PushToNew(peer) => {
                    tokio::spawn(self.clone().push_to_new(peer));
                    // At once: of two nodes with one key, the connection to one may be closed again in a moment.
                    tokio::spawn(instance::tell(self.0.clone(), peer));
                }
                ExchangeEffect::WakeSubscribers => self.0.subscribers.notify_waiters(),
                ExchangeEffect::SubscribeTo { node, number } => {
                    tokio::spawn(subscriptions::follow(self.0.clone(), node, number));
                }
                ExchangeEffect::Lost(peer) => {
                    let now_ms = self.0.now().monotonic_ms;
                    self.0.lock().known.lost(peer, now_ms);
                }
                // Pushes need the placement that was signed under the same lock: `heartbeat` has taken them out.
                ExchangeEffect::Push(peers) => debug_assert!(peers.is_empty(), "only a heartbeat pushes"),
                // `subscribe` has read these.
                ExchangeEffect::Subscribed(_) | ExchangeEffect::SubscriptionRefused => {}
            }
        }
    }

    async fn heartbeat_owned(self) {
        self.heartbeat().await;
    }

    /// One heartbeat: events to subscribers, pushes to the others of the push set.
    async fn heartbeat(&self) {
        let now_ms = self.0.now().monotonic_ms;
        let (peers, effects, published) = {
            let mut state = self.0.lock();
            let mut effects = state.exchange.handle(now_ms, ExchangeInput::HeartbeatDue);
            let pushes = effects.iter_mut().filter_map(|effect| match effect {
                ExchangeEffect::Push(peers) => Some(std::mem::take(peers)),
                _ => None,
            });
            let peers: Vec<PublicKey> = pushes.flatten().collect();
            // One placement for all peers that are as near, not one for each peer.
            self.0.publish_all(&mut state, !peers.is_empty());
            (peers, effects, state.published.each_ref().map(|published| published.bytes.clone()))
        };
        self.run_effects(effects);
        let pushes = peers.into_iter().map(|peer| {
            let bytes = published[self.0.relation(peer).place()].clone();
            async move {
                self.push(peer, bytes).await;
                self.0.exchange(ExchangeInput::HeartbeatPushEnded(peer));
            }
        });
        futures::future::join_all(pushes).await;
    }

    async fn push_to_new(self, peer: PublicKey) {
        for wait_ms in NEW_PEER_WAITS_MS {
            sleep(Duration::from_millis(wait_ms)).await;
            let relation = self.0.relation(peer);
            let placement = self.0.placement(&mut self.0.lock(), |exposure| seen(exposure, relation));
            if self.push(peer, placement.bytes).await {
                return;
            }
        }
    }

    /// Pushes a placement; true when the peer answered.
    async fn push(&self, peer: PublicKey, placement: Vec<u8>) -> bool {
        let mut request = Request::new("placement", placement);
        request.deadline = Some(self.0.config.push_timeout);
        let outcome = match self.0.communication.call(peer, PLACEMENTS, request).await {
            Ok(_) => PushOutcome::Accepted,
            Err(CallError::Refused { body, .. }) => {
                let (reason, message) = said(&body);
                tracing::debug!(%peer, message, "peer refused our placement");
                if reason == STALE { PushOutcome::Stale } else { PushOutcome::Refused(message) }
            }
            // Another version, or another network.
            Err(CallError::Broken { reason: StreamError::Hello(reason), .. }) => {
                PushOutcome::Refused(reason.to_string())
            }
            Err(reason) => {
                tracing::debug!(%peer, %reason, "placement not pushed");
                PushOutcome::Failed
            }
        };
        if outcome == PushOutcome::Stale {
            self.catch_up();
        }
        let answered = outcome != PushOutcome::Failed;
        self.0.exchange(ExchangeInput::Pushed { peer, outcome });
        answered
    }

    /// The peer has a newer placement of this key: one of this node's own that overtook this one, or one of another node that
    /// used this key, or uses it. The next ones are newer than all that were signed until now.
    fn catch_up(&self) {
        let now_ms = self.0.clock.now_ms();
        let mut state = self.0.lock();
        state.sequence = state.sequence.max(now_ms);
    }
}
