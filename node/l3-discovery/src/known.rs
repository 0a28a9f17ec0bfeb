//! Peers that were useful: noting them, and dialling those that are not connected. [`KnownPeers`] decides.
//!
//! [`KnownPeers`]: crate::machine::known_peers::KnownPeers

use std::sync::Arc;

use althing_protocol::PublicKey;

use crate::machine::known_peers::KnownPeer;
use crate::machine::rank::Rank;
use crate::relations::holder;
use crate::state::Shared;

impl Shared {
    /// These were known before this node started.
    pub(crate) fn recall(&self, peers: Vec<KnownPeer>) {
        let now = self.now();
        let with_holder = |peer: KnownPeer| {
            let holder = holder(peer.node, peer.addresses.first().map_or("", String::as_str));
            (peer, holder)
        };
        self.lock().known.restore(peers.into_iter().map(with_holder), now);
        self.tell_of_changes();
    }

    /// A connected peer whose placement holds is remembered, with where it can be dialled.
    pub(crate) fn note_useful(&self, node: PublicKey) {
        let now = self.now();
        let is_wanted = {
            let state = self.lock();
            // Whose placement is believed no more says nothing now.
            state.known.wants(node, now) && state.catalogue.hears(node, now.monotonic_ms, u64::MAX / 2)
        };
        if !is_wanted {
            return;
        }
        let network = self.communication.network();
        let Some(info) = network.peer(node) else { return };
        let dialled = info.dialled.then_some(info.address);
        let addresses = dialled.into_iter().chain(network.listens_at(node)).collect();
        let source = self.source(node);
        let mut state = self.lock();
        let near = source.rank <= Rank::Trusted || state.dialling.is_configured(node);
        state.known.useful(node, near, source.holder, addresses, now);
        drop(state);
        self.tell_of_changes();
    }

    fn tell_of_changes(&self) {
        if self.lock().known.has_changed() {
            self.known_changed.notify_one();
        }
    }
}

/// Dials the remembered peers that are due.
pub(crate) fn dial_due(shared: &Arc<Shared>, connected: &[PublicKey]) {
    let now = shared.now();
    let due = shared.lock().known.due(now, connected);
    shared.tell_of_changes();
    for (node, addresses) in due {
        let shared = shared.clone();
        tokio::spawn(async move {
            let outcome = shared.communication.network().dial(Some(node), addresses).await;
            let failure = outcome.err().map(|reason| reason.to_string());
            if let Some(reason) = &failure {
                tracing::debug!(%node, reason, "a peer that was known is not reached");
            }
            let now_ms = shared.now().monotonic_ms;
            shared.lock().known.dialled(node, failure, now_ms);
        });
    }
}
