//! The time of the group stands still, so that no lease ends.

use super::Flaw;
use crate::NOW_MS;

/// When it stops: the group has formed by then.
const STOPS_MS: u64 = 1_500;

pub(super) struct LeaseEndless;

impl Flaw for LeaseEndless {
    fn name(&self) -> &'static str {
        "lease-endless"
    }

    fn time_of_day(&self, now_ms: u64) -> u64 {
        now_ms.min(NOW_MS + STOPS_MS)
    }
}
