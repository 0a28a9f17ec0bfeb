//! What peers are still to be told of orders, and what they are not asked for.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};

use althing_governance::machine::orders::SignedOrder;
use althing_protocol::Digest;
use althing_protocol::keyring::REFUSED_MAX;

/// Orders that wait to be passed on, which are not kept here.
const PASSING_MAX: usize = 64;

/// Orders that others use, and that are passed on once.
#[derive(Debug, Default)]
struct PassingOrders {
    seen: BTreeSet<Digest>,
    queue: Vec<SignedOrder>,
}

/// What peers are still to be told, and what is not asked for again.
#[derive(Debug, Default)]
pub(super) struct NewsQueue {
    /// Those that are kept here, and that peers were not told yet.
    fresh: Mutex<BTreeSet<Digest>>,
    passing: Mutex<PassingOrders>,
    /// Those that are not asked for again, since nothing of their publishers is in use here, or since they do not count.
    skipped: Mutex<BTreeSet<Digest>>,
}

impl NewsQueue {
    fn fresh(&self) -> MutexGuard<'_, BTreeSet<Digest>> {
        self.fresh.lock().expect("no holder of the news panics")
    }

    fn passing(&self) -> MutexGuard<'_, PassingOrders> {
        self.passing.lock().expect("no holder of what is passed on panics")
    }

    pub fn skipped(&self) -> MutexGuard<'_, BTreeSet<Digest>> {
        self.skipped.lock().expect("no holder of what is skipped panics")
    }

    /// Peers are to be told of an order that is kept here.
    pub fn push(&self, digest: Digest) {
        self.fresh().insert(digest);
    }

    /// What peers were not told yet, and what is passed on to them, from which both are gone then.
    pub fn take(&self) -> (BTreeSet<Digest>, Vec<SignedOrder>) {
        (std::mem::take(&mut *self.fresh()), std::mem::take(&mut self.passing().queue))
    }

    /// Remembers an order that is not asked for again for a while.
    pub fn skip(&self, digest: Digest) {
        let mut skipped = self.skipped();
        if skipped.len() >= REFUSED_MAX {
            skipped.clear();
        }
        skipped.insert(digest);
    }

    /// Passes an order on that is not for this node, once; whether it is passed on now.
    pub fn pass_on(&self, order: &SignedOrder) -> bool {
        let mut passing = self.passing();
        if passing.seen.len() >= REFUSED_MAX {
            passing.seen.clear();
        }
        let is_new = passing.queue.len() < PASSING_MAX && passing.seen.insert(order.digest());
        if is_new {
            passing.queue.push(order.clone());
        }
        is_new
    }
}
