//! Counts the calls to other nodes' agents, by which a peer counts as in use.

use std::sync::{Arc, Mutex, MutexGuard};

use althing_protocol::PublicKey;
use tokio::time::Instant;

use crate::machine::trust_level::Uses;

/// See [`Uses`].
pub(crate) struct InUse {
    begun: Instant,
    uses: Mutex<Uses>,
}

/// One call to an agent, which dropping it ends.
pub(crate) struct Using {
    in_use: Arc<InUse>,
    peer: PublicKey,
}

impl Default for InUse {
    fn default() -> InUse {
        InUse { begun: Instant::now(), uses: Mutex::default() }
    }
}

impl InUse {
    /// A call to an agent of `peer` begins.
    pub fn begin(self: &Arc<InUse>, peer: PublicKey) -> Using {
        self.lock().begin(peer);
        Using { in_use: self.clone(), peer }
    }

    /// Is it in use?
    pub fn contains(&self, peer: PublicKey) -> bool {
        self.lock().contains(peer, self.begun.elapsed())
    }

    /// Drops peers that are not in use.
    pub fn sweep(&self) {
        self.lock().sweep(self.begun.elapsed());
    }

    fn lock(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock().expect("no holder of the uses panics")
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        self.in_use.lock().end(self.peer, self.in_use.begun.elapsed());
    }
}
