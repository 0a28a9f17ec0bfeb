//! Whether the rows of a turn stay when it is over, and for how long.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::machine::session::{DOUBT_MS_MAX, HeadEnd, RESTART_MS_MAX};

/// That of one turn.
#[derive(Default)]
pub(super) struct Stay {
    /// Whether they stay however the turn ended.
    is_recorded: bool,
    /// Whether it stopped where its agent did something else, and may go on anew.
    is_restartable: AtomicBool,
}

impl Stay {
    pub fn of(is_recorded: bool) -> Stay {
        Stay { is_recorded, is_restartable: AtomicBool::new(false) }
    }

    pub fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    pub fn keep_for_restart(&self) {
        self.is_restartable.store(true, Ordering::Release);
    }

    pub fn is_restartable(&self) -> bool {
        self.is_restartable.load(Ordering::Acquire)
    }

    /// How they stay, so many bytes, when the turn is over at that time.
    pub fn end(&self, at_ms: u64, bytes: u64) -> HeadEnd {
        let restart_ms = self.is_restartable().then(|| at_ms.saturating_add(RESTART_MS_MAX));
        HeadEnd { at_ms, bytes, restart_ms, gone_ms: restart_ms.filter(|_| !self.is_recorded) }
    }

    /// The same of a turn with calls in doubt, whose rows stay for a day, whatever else was to become of them.
    pub fn end_in_doubt(&self, at_ms: u64, bytes: u64) -> HeadEnd {
        let mut end = self.end(at_ms, bytes);
        if !self.is_recorded {
            end.gone_ms = end.gone_ms.or(Some(end.at_ms.saturating_add(DOUBT_MS_MAX)));
        }
        end
    }
}
