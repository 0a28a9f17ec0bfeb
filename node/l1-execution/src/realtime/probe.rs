//! Measures how late this machine wakes a thread, and grades it by that.

use std::io;

use althing_protocol::contract::Grade;

use super::clock::{now_ns, show_ns, sleep_until};
use super::threads::{Level, Privilege, RtPriorities, spawn};

/// Wake-ups of a first probe, a millisecond apart.
pub const PROBE_SAMPLES: usize = 500;
/// The period of the wake-ups, nanoseconds.
const PERIOD_NS: u64 = 1_000_000;
/// A machine that wakes 999 of 1,000 threads within this has grade A.
const STALL_A_NS: u64 = 1_000_000;
/// The least and the most that the analysis charges for a wake-up; a later wake-up is a stall, which it cannot cover.
const WAKE_NS: (u64, u64) = (50_000, 500_000);

/// How late threads were woken, nanoseconds, sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lateness(Vec<u64>);

impl Lateness {
    /// Of these samples.
    #[must_use]
    pub fn of(mut late_ns: Vec<u64>) -> Lateness {
        late_ns.sort_unstable();
        Lateness(late_ns)
    }

    /// The number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The quantile at `permille` thousandths; 0 without samples.
    #[must_use]
    pub fn quantile(&self, permille: usize) -> u64 {
        let place = (self.0.len() * permille).div_ceil(1_000).saturating_sub(1);
        self.0.get(place.min(self.0.len().saturating_sub(1))).copied().unwrap_or_default()
    }
}

/// What a probe measured of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HardwareProfile {
    /// Its grade.
    pub grade: Grade,
    /// What this process may do.
    pub privilege: Privilege,
    /// Wake-ups that were measured.
    pub samples: usize,
    /// The median of wake-up latencies.
    pub wake_p50_ns: u64,
    /// The 99th percentile.
    pub wake_p99_ns: u64,
    /// The 99.9th percentile.
    pub wake_p999_ns: u64,
    /// The maximum.
    pub wake_max_ns: u64,
}

impl HardwareProfile {
    /// The grade that these wake-ups give.
    #[must_use]
    pub fn of(privilege: Privilege, late: &Lateness) -> HardwareProfile {
        let wake_p999_ns = late.quantile(999);
        let grade = match privilege {
            Privilege::None => Grade::C,
            _ if wake_p999_ns < STALL_A_NS => Grade::A,
            _ => Grade::B,
        };
        HardwareProfile {
            grade,
            privilege,
            samples: late.len(),
            wake_p50_ns: late.quantile(500),
            wake_p99_ns: late.quantile(990),
            wake_p999_ns,
            wake_max_ns: late.quantile(1_000),
        }
    }

    /// Why it has its grade, for people.
    #[must_use]
    pub fn grade_reason(&self) -> String {
        match self.privilege {
            Privilege::None => {
                "real-time scheduling is not permitted (run the node as root, or with `ulimit -r 95`)".to_owned()
            }
            Privilege::Full | Privilege::Limited => {
                format!("1 of 1,000 wake-ups is late by {} or more", show_ns(self.wake_p999_ns))
            }
        }
    }

    /// What the analysis charges for a wake-up, nanoseconds.
    #[must_use]
    pub fn wake_ns(&self) -> u64 {
        self.wake_p99_ns.clamp(WAKE_NS.0, WAKE_NS.1)
    }
}

/// Wakes a thread of `level` on `core` that many times, `period_ns` apart.
///
/// # Errors
/// When no thread can be started.
pub fn lateness(
    priorities: RtPriorities,
    level: Level,
    core: usize,
    samples: usize,
    period_ns: u64,
) -> io::Result<Lateness> {
    let measured = spawn("probe", priorities, level, Some(core), move || {
        let mut late = Vec::with_capacity(samples);
        let mut at = now_ns() + period_ns;
        for _ in 0..samples {
            sleep_until(at);
            late.push(now_ns().saturating_sub(at));
            // After a stall the period restarts from now, so that one stall counts once.
            at = (at + period_ns).max(now_ns());
        }
        late
    })?;
    Ok(Lateness::of(measured.join().unwrap_or_default()))
}

/// Probes a machine with the sentinel's level, on the core that hard real-time jobs run on.
///
/// # Errors
/// When no thread can be started.
pub fn probe(priorities: RtPriorities, core: usize, samples: usize) -> io::Result<HardwareProfile> {
    Ok(HardwareProfile::of(priorities.privilege, &lateness(priorities, Level::Sentinel, core, samples, PERIOD_NS)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grade_follows_from_privilege_and_stalls() {
        let late = |worst: u64| Lateness::of((0..1_000).map(|n| if n < 2 { worst } else { 30_000 }).collect());
        assert_eq!(HardwareProfile::of(Privilege::Full, &late(40_000)).grade, Grade::A);
        assert_eq!(HardwareProfile::of(Privilege::Limited, &late(5_000_000)).grade, Grade::B);
        assert_eq!(HardwareProfile::of(Privilege::None, &late(40_000)).grade, Grade::C);
        let hardware = HardwareProfile::of(Privilege::Full, &late(5_000_000));
        assert_eq!((hardware.wake_p50_ns, hardware.wake_p99_ns, hardware.wake_max_ns), (30_000, 30_000, 5_000_000));
        assert_eq!(hardware.wake_ns(), WAKE_NS.0);
    }

    #[test]
    fn a_low_limit_keeps_the_order() {
        for top in [3, 10, 15, 16, 95] {
            let priorities = RtPriorities::limited(top);
            let of = |level| priorities.priority(level).expect("a priority");
            assert!(of(Level::Sentinel) > of(Level::Watchdog) && of(Level::Watchdog) > of(Level::Executor));
            assert!(of(Level::Executor) >= 1, "top {top}");
        }
        assert_eq!(RtPriorities::none().priority(Level::Executor), None);
    }

    #[test]
    fn a_thread_is_probed() {
        let priorities = RtPriorities::detect().expect("a thread");
        let hardware = probe(priorities, super::super::cores()[0], 20).expect("a thread");
        assert_eq!(hardware.samples, 20);
        assert_eq!(hardware.grade == Grade::C, priorities.privilege == Privilege::None);
    }
}
