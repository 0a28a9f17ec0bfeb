//! What people were asked and agreed to as it counts now, what is promised of it, and who waits for a change.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tokio::sync::watch;

use crate::consents::Consents;
use crate::grants::Grants;
use crate::machine::consent::{AskId, MessagePasses};

/// What counts now.
pub(crate) struct ConsentBook {
    consents: RwLock<Arc<Consents>>,
    grants: Mutex<Grants>,
    /// Tasks whose turns ended, each with a question of it that is over with the next sweep.
    over: Mutex<BTreeSet<(String, AskId)>>,
    /// Messages that left this node, and may come in to an agent of its own.
    passes: Mutex<MessagePasses>,
    changes: watch::Sender<u64>,
}

impl ConsentBook {
    /// Nothing is promised of what was read.
    pub(crate) fn new(consents: Consents) -> ConsentBook {
        let consents = RwLock::new(Arc::new(consents));
        let (grants, over, passes) = Default::default();
        ConsentBook { consents, grants, over, passes, changes: watch::channel(0).0 }
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

    /// The turn of a task ended: whoever is asked about a call of it is not asked any more, from the next sweep on.
    pub(crate) fn end_task(&self, task: &str) {
        let asked = self.now().asked_in(task);
        if !asked.is_empty() {
            self.over().extend(asked.into_iter().map(|id| (task.to_owned(), id)));
        }
    }

    /// The questions that nobody waits for any more, each with its task.
    pub(crate) fn over(&self) -> MutexGuard<'_, BTreeSet<(String, AskId)>> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn passes(&self) -> MutexGuard<'_, MessagePasses> {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn grants(&self) -> MutexGuard<'_, Grants> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
