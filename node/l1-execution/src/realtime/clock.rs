//! The machine's monotonic clock, which executors and probes read; what decides is handed the time.

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

/// Nanoseconds since some moment before the machine's start.
#[must_use]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has a monotonic clock");
    nanoseconds(now)
}

fn nanoseconds(time: TimeSpec) -> u64 {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec()).unwrap_or_default())
}

/// The same moment as the system writes it.
pub(crate) fn moment(at_ns: u64) -> TimeSpec {
    TimeSpec::from_duration(std::time::Duration::from_nanos(at_ns))
}

/// Page faults of this thread so far: each one waits for the system, and for whoever holds its locks.
#[must_use]
pub fn faults() -> u64 {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_THREAD);
    let faults = usage.map_or(0, |usage| usage.minor_page_faults() + usage.major_page_faults());
    u64::try_from(faults).unwrap_or_default()
}

/// Stops this thread until `at_ns`; not for threads of an async runtime.
pub fn sleep_until(at_ns: u64) {
    let at = moment(at_ns);
    while clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at) == Err(Errno::EINTR) {}
}
