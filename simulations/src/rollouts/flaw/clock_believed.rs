//! A conversation is said to have begun when the clock says so, also where that was set back.

use super::Flaw;

pub(super) struct UncheckedClock;

impl Flaw for UncheckedClock {
    fn name(&self) -> &'static str {
        "clock-believed"
    }

    fn stamp(&self, _began_ms: u64, now_ms: u64) -> u64 {
        now_ms
    }
}
