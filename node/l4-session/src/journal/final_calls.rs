//! The calls of a turn that must not be made twice, were let go, and of which no result is on disk: whatever ends the turn says which
//! ones these are.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard, watch};
use tokio::time::timeout;

use crate::machine::session::Doubt;

/// Those of one turn.
pub(crate) struct FinalCalls {
    /// By the numbers of their steps.
    open: watch::Sender<BTreeMap<u32, Doubt>>,
    /// Held while none is let go.
    gate: Mutex<()>,
}

impl FinalCalls {
    /// Those that were let go before the node ended.
    pub fn of(doubts: Vec<Doubt>) -> FinalCalls {
        FinalCalls { open: watch::Sender::new(by_number(doubts)), gate: Mutex::new(()) }
    }

    /// All of them.
    pub fn all(&self) -> Vec<Doubt> {
        self.open.borrow().values().cloned().collect()
    }

    /// In place of those that were known.
    pub fn reset(&self, doubts: Vec<Doubt>) {
        self.open.send_replace(by_number(doubts));
    }

    /// Waits until one may be let go; it is let go while what this gives is held.
    pub async fn free(&self) -> MutexGuard<'_, ()> {
        self.gate.lock().await
    }

    /// One is let go.
    pub fn begin(&self, call: Doubt) {
        self.open.send_modify(|open| drop(open.insert(call.seq, call)));
    }

    /// Its result is on disk, or what somebody says of it.
    pub fn end(&self, seq: u32) {
        self.open.send_if_modified(|open| open.remove(&seq).is_some());
    }

    /// Lets none go while what this gives is held, once there is a result of all that were.
    ///
    /// # Errors
    /// The first one of which there is none for that long.
    pub async fn hold(&self, patience: Duration) -> Result<MutexGuard<'_, ()>, Doubt> {
        let held = self.gate.lock().await;
        let mut changes = self.open.subscribe();
        // Whether it took too long shows in what is left.
        let _ = timeout(patience, changes.wait_for(BTreeMap::is_empty)).await;
        match self.all().into_iter().next() {
            Some(left) => Err(left),
            None => Ok(held),
        }
    }
}

fn by_number(doubts: Vec<Doubt>) -> BTreeMap<u32, Doubt> {
    doubts.into_iter().map(|doubt| (doubt.seq, doubt)).collect()
}
