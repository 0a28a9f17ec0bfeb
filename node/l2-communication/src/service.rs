//! The service of L2: ties a [`Network`] to callers and to [`Inbound`].

use std::sync::Arc;
use std::time::Duration;

use althing_protocol::keyring::Origin;
use althing_protocol::{KeyLog, OwnerProof, PublicKey, PublisherId, SecretKey};
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, interval_at};

use crate::config::CommunicationConfig;
use crate::error::CallError;
use crate::inbound::{self, Inbound};
use crate::keys::{self, KEYS, Keys};
use crate::machine::caller::Caller;
use crate::machine::reachability::ReachabilityReport;
use crate::network::{AcceptError, Network, PeerEvent};
use crate::outbound::{self, Events};
use crate::ports::{Entropy, WallClock};
use crate::reach::{self, DialBackResult, REACH};
use crate::request::Request;
use crate::shared::Shared;
use crate::stream_slots::StreamLimits;
use crate::tap::Taps;

/// How often unused streams and the state of departed peers are dropped.
const SWEEP: Duration = Duration::from_secs(5);

/// Signed calls over a network.
#[derive(Clone)]
pub struct Communication {
    pub(crate) shared: Arc<Shared>,
}

/// A node asks each peer for keys on one stream, and pushes news on another.
const KEYS_LIMITS: StreamLimits = StreamLimits { per_peer_max: 8, total_max: 1_024, idle_max: 1 };
/// Few peers ask at one time.
const REACH_LIMITS: StreamLimits = StreamLimits { per_peer_max: 8, total_max: 256, idle_max: 1 };

impl Communication {
    /// Starts L2 on `network`, which must prove the same key. `membership` is shown to every peer and may be renewed.
    #[must_use]
    pub fn start(
        network: Arc<dyn Network>,
        key: SecretKey,
        membership: watch::Receiver<Option<Arc<OwnerProof>>>,
        config: CommunicationConfig,
        clock: WallClock,
        entropy: Entropy,
    ) -> Communication {
        let events = network.events();
        let shared = Arc::new(Shared::new(network, key, membership, config, clock, entropy));
        tokio::spawn(follow_peers(Arc::downgrade(&shared), events));
        let communication = Communication { shared: shared.clone() };
        // An error means that another L2 serves this network already.
        let _ = communication.serve(REACH, REACH_LIMITS, Arc::new(reach::Serving(Arc::downgrade(&shared))));
        let serving = Arc::new(keys::Serving(Arc::downgrade(&shared)));
        if communication.serve(KEYS, KEYS_LIMITS, serving).is_ok() {
            tokio::spawn(keys::run(Arc::downgrade(&shared), shared.network.events()));
        }
        communication
    }

    /// Sets whom this node trusts. All others are strangers: served at a bounded rate, and not believed alone. Only the first
    /// call has an effect.
    pub fn trusts(&self, trusts: impl Fn(&Caller) -> bool + Send + Sync + 'static) {
        self.shared.set_trusts(Box::new(trusts));
    }

    /// Hands the calls of `protocol` to `to`. Its streams have limits of their own: no protocol waits for another.
    ///
    /// # Errors
    /// [`AcceptError::Taken`] when that was done before.
    pub fn serve(&self, protocol: &'static str, limits: StreamLimits, to: Arc<dyn Inbound>) -> Result<(), AcceptError> {
        let incoming = self.shared.network.accept(protocol)?;
        self.shared.slots.add_pool(protocol, limits);
        tokio::spawn(inbound::accept(self.shared.clone(), protocol, incoming, to));
        Ok(())
    }

    /// Bytes of frames that peers have announced, that may be read, and that are not handed on yet.
    #[must_use]
    pub fn frame_bytes_held(&self) -> usize {
        self.shared.frame_bytes_held()
    }

    /// Asks `peer`, and waits for its one answer. Dropping the future cancels the call.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call(&self, peer: PublicKey, protocol: &'static str, request: Request) -> Result<Vec<u8>, CallError> {
        outbound::unary(&self.shared, peer, protocol, request).await
    }

    /// Asks `peer` for an answer in events.
    ///
    /// # Errors
    /// See [`CallError`]; the peer's own refusal comes from [`Events::next`].
    pub async fn stream(&self, peer: PublicKey, protocol: &'static str, request: Request) -> Result<Events, CallError> {
        outbound::streaming(&self.shared, peer, protocol, request).await
    }

    /// True while the membership that this node showed when it made the call is its present one. Otherwise the call must be
    /// made again.
    #[must_use]
    pub fn is_current(&self, events: &Events) -> bool {
        events.stream.shows(self.shared.own_membership().as_deref())
    }

    /// The owner that a connected peer proved.
    #[must_use]
    pub fn owner(&self, peer: PublicKey) -> Option<PublisherId> {
        self.shared.owner(peer)
    }

    /// The key log of a publisher: the one that is known here, or else what a connected node of its own showed.
    #[must_use]
    pub fn key_log(&self, publisher: PublisherId) -> Option<Arc<KeyLog>> {
        let shown = || {
            let owners = self.shared.owners();
            let of_it = owners.values().find(|shown| shown.membership.body.owner == publisher);
            of_it.map(|shown| shown.inception.clone())
        };
        self.shared.keys.log(publisher).or_else(shown)
    }

    /// The origin of what this peer sends, by which strangers share limits.
    #[must_use]
    pub fn origin(&self, peer: PublicKey) -> Origin {
        keys::origin(&self.shared, peer)
    }

    /// What is known of keys.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.shared.keys
    }

    /// Random bytes that name this run of the node: no other run of it, nor another node with its key, has them.
    #[must_use]
    pub fn instance(&self) -> [u8; 16] {
        self.shared.instance
    }

    /// The network below.
    #[must_use]
    pub fn network(&self) -> &Arc<dyn Network> {
        &self.shared.network
    }

    /// Logs that something of `peer` was refused: as a warning once a minute for each peer.
    pub fn log_refusal(&self, peer: PublicKey, what: &'static str, reason: &dyn std::fmt::Display) {
        self.shared.log_refusal(peer, what, reason);
    }

    /// Checks, for as long as the network lives, how others can reach this node. `announce` are addresses that its operator
    /// vouches for; the report of a trusted peer suffices.
    pub fn check_reachability(&self, announce: Vec<String>) {
        self.shared.reach.tracker().set_announced(announce);
        tokio::spawn(reach::run(Arc::downgrade(&self.shared)));
    }

    /// How others can reach this node, as far as it is known.
    #[must_use]
    pub fn reachability(&self) -> ReachabilityReport {
        reach::report(&self.shared)
    }

    /// Asks up to `count` peers now to dial this node back, those on the internet first.
    pub async fn request_dial_backs(&self, count: usize) -> Vec<DialBackResult> {
        reach::request_dial_backs(&self.shared, count).await
    }

    /// Copies of the verified messages that pass from now on, shortened; for the node's owner.
    #[must_use]
    pub fn tap(&self) -> Taps {
        self.shared.tap.look()
    }

    /// Streams that were closed because something on them was refused, since the start.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.shared.refused()
    }
}

/// Sets the trust level of peers that connect, and drops the state of those that disconnect, and unused streams.
async fn follow_peers(shared: std::sync::Weak<Shared>, mut events: broadcast::Receiver<PeerEvent>) {
    let mut sweep = interval_at(Instant::now() + SWEEP, SWEEP);
    loop {
        let event = tokio::select! {
            biased;
            event = events.recv() => event,
            _ = sweep.tick() => {
                let Some(shared) = shared.upgrade() else { return };
                shared.sweep();
                continue;
            }
        };
        let Some(shared) = shared.upgrade() else { return };
        match event {
            Ok(PeerEvent::Disconnected(peer)) => shared.forget(peer),
            Ok(PeerEvent::Moved(peer)) => shared.pool.forget(peer),
            Ok(PeerEvent::Connected(peer)) => shared.update_trust(peer),
            // The sweep covers the events that were missed.
            Err(broadcast::error::RecvError::Lagged(_)) => shared.sweep(),
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

#[cfg(test)]
mod tests;
