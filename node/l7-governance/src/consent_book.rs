//! What people were asked and agreed to as it counts now, what is promised of it, and who waits for a change.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tokio::sync::watch;

use crate::consents::Consents;
use crate::grants::Grants;

/// What counts now.
pub(crate) struct ConsentBook {
    consents: RwLock<Arc<Consents>>,
    grants: Mutex<Grants>,
    changes: watch::Sender<u64>,
}

impl ConsentBook {
    /// Nothing is promised of what was read.
    pub(crate) fn new(consents: Consents) -> ConsentBook {
        let consents = RwLock::new(Arc::new(consents));
        ConsentBook { consents, grants: Mutex::default(), changes: watch::channel(0).0 }
    }

    pub(crate) fn now(&self) -> Arc<Consents> {
        self.consents.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What was written takes the place of what was there, and whoever waits hears of it.
    pub(crate) fn publish(&self, next: Consents) {
        *self.consents.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        self.tell();
    }

    /// Whoever waits looks again: what is asked, or who people are, changed.
    pub(crate) fn tell(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Counts up with each change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(crate) fn grants(&self) -> MutexGuard<'_, Grants> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
