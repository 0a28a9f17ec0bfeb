//! How time passes for a keeper, whatever the time of day.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Since the machine began.
pub(crate) fn now() -> nix::Result<Duration> {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from)
}
