//! Messages that are being taken: of two that are the same, the second waits until it is known what the first began.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::machine::record::Scope;

/// Whose message, to which agent, and its id.
pub(crate) type Arrival = (Scope, String, String);

/// Messages that are being taken.
#[derive(Clone, Default)]
pub(crate) struct Arrivals(Arc<Shared>);

#[derive(Default)]
struct Shared {
    taking: Mutex<BTreeSet<Arrival>>,
    /// Told whenever one is taken.
    taken: Notify,
}

/// A message that is being taken, until this is dropped.
pub(crate) struct Taking {
    arrivals: Arrivals,
    arrival: Arrival,
}

impl Arrivals {
    /// Waits until no other message of that id is being taken.
    pub async fn take(&self, arrival: Arrival) -> Taking {
        loop {
            // Made before looking, so that nothing is missed in between.
            let taken = self.0.taken.notified();
            if self.taking().insert(arrival.clone()) {
                return Taking { arrivals: self.clone(), arrival };
            }
            taken.await;
        }
    }

    fn taking(&self) -> MutexGuard<'_, BTreeSet<Arrival>> {
        self.0.taking.lock().expect("no holder of the arrivals panics")
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        self.arrivals.taking().remove(&self.arrival);
        self.arrivals.0.taken.notify_waiters();
    }
}
