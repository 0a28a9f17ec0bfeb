//! The monotonic clock for executors and probes; pure code gets the time as a parameter.

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

/// Nanoseconds of the monotonic clock.
#[must_use]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has a monotonic clock");
    nanoseconds(now)
}

fn nanoseconds(time: TimeSpec) -> u64 {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec()).unwrap_or_default())
}

/// The time as a `TimeSpec`.
pub(crate) fn moment(at_ns: u64) -> TimeSpec {
    TimeSpec::from_duration(std::time::Duration::from_nanos(at_ns))
}

/// The processor time of this thread, nanoseconds; without stolen time, if the hypervisor reports it.
#[must_use]
pub fn ran_ns() -> u64 {
    let ran = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has a clock for each thread");
    nanoseconds(ran)
}

/// Page faults of this thread so far, each of which waits for the system and its locks, and its voluntary context switches.
#[must_use]
pub fn faults_and_waits() -> (u64, u64) {
    let count = |count: i64| u64::try_from(count).unwrap_or_default();
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_THREAD);
    usage.map_or((0, 0), |usage| {
        let faults = usage.minor_page_faults() + usage.major_page_faults();
        (count(faults), count(usage.voluntary_context_switches()))
    })
}

/// Blocks this thread until `at_ns`; not for threads of an async runtime.
pub fn sleep_until(at_ns: u64) {
    let at = moment(at_ns);
    while clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at) == Err(Errno::EINTR) {}
}

/// Formats nanoseconds for people.
#[must_use]
pub fn show_ns(ns: u64) -> String {
    let with = |value: f64, unit: &str| {
        let digits = if value >= 100.0 { 0 } else { 2 };
        let text = format!("{value:.digits$}");
        let text = if digits == 0 { text.as_str() } else { text.trim_end_matches('0').trim_end_matches('.') };
        format!("{text} {unit}")
    };
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => with(ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => with(ns as f64 / 1e6, "ms"),
        _ => with(ns as f64 / 1e9, "s"),
    }
}
