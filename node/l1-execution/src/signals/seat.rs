//! Seats: of the versions of one control loop that run beside each other, one shows what it puts out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which of the versions of one control loop shows what it puts out: one of them at a time.
#[derive(Debug, Clone)]
pub struct Seat {
    /// The number of the version that shows; 0 for none.
    holder: Arc<AtomicU64>,
    own: u64,
}

impl Seat {
    /// From the next job that ends on, this version shows what it puts out, and no other one does.
    pub fn take(&self) {
        self.holder.store(self.own, Ordering::Release);
    }

    /// This version shows nothing any more; whoever took the seat from it meanwhile keeps it.
    fn give_up(&self) {
        let _ = self.holder.compare_exchange(self.own, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Whether this version shows what it puts out.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.holder.load(Ordering::Acquire) == self.own
    }
}

/// The versions of one control loop.
#[derive(Debug, Default)]
pub(super) struct Seats {
    holder: Arc<AtomicU64>,
    given: u64,
    versions: usize,
}

impl Seats {
    /// A seat for one more version, which takes it where none shows.
    pub fn add(&mut self) -> Seat {
        self.given += 1;
        self.versions += 1;
        let seat = Seat { holder: self.holder.clone(), own: self.given };
        if seat.holder.load(Ordering::Acquire) == 0 {
            seat.take();
        }
        seat
    }

    /// Removes the version of a seat: if it was the one that shows, none does until one takes its own. Whether it was the last.
    pub fn remove(&mut self, seat: &Seat) -> bool {
        seat.give_up();
        self.versions = self.versions.saturating_sub(1);
        self.versions == 0
    }
}
