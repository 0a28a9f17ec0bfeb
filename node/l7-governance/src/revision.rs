//! How often the policies of a node became others, or the people of whom they speak.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// Which policies and people these are, by number.
pub(crate) struct Revision {
    /// Read before calls are made, where nobody waits for a lock.
    number: AtomicU64,
    changes: watch::Sender<u64>,
}

impl Default for Revision {
    fn default() -> Revision {
        Revision { number: AtomicU64::new(0), changes: watch::Sender::new(0) }
    }
}

impl Revision {
    pub(crate) fn now(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Others count from now on.
    pub(crate) fn advance(&self) {
        self.number.fetch_add(1, Ordering::AcqRel);
        self.changes.send_modify(|count| *count += 1);
    }

    /// Tells of each change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
