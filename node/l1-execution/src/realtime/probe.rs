//! How late this machine wakes a thread, and the grade that it gets for it.

use std::io;

use althing_protocol::contract::Grade;

use super::clock::{now_ns, sleep_until};
use super::threads::{RtPriorities, Level, Privilege, spawn};

/// Wake-ups of a first probe, a millisecond apart.
pub const PROBE_SAMPLES: usize = 500;
/// Between two wake-ups, nanoseconds.
const PERIOD_NS: u64 = 1_000_000;
/// A machine that wakes 999 of 1,000 threads within this has grade A.
const STALL_A_NS: u64 = 1_000_000;
/// The least that is charged for a wake-up, and the most; what is later is a stall, which no analysis takes away.
const WAKE_NS: (u64, u64) = (50_000, 500_000);

/// How late threads were woken, nanoseconds, sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lateness(Vec<u64>);

impl Lateness {
    /// Of these.
    #[must_use]
    pub fn of(mut late_ns: Vec<u64>) -> Lateness {
        late_ns.sort_unstable();
        Lateness(late_ns)
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// None at all?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value that `permille` thousandths do not pass; 0 of none.
    #[must_use]
    pub fn quantile(&self, permille: usize) -> u64 {
        let place = (self.0.len() * permille).div_ceil(1_000).saturating_sub(1);
        self.0.get(place.min(self.0.len().saturating_sub(1))).copied().unwrap_or_default()
    }
}

/// What was found of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// What it is capable of.
    pub grade: Grade,
    /// What this process may do.
    pub privilege: Privilege,
    /// Wake-ups that were measured.
    pub samples: usize,
    /// Half of the wake-ups came within this.
    pub wake_p50_ns: u64,
    /// 99 of 100.
    pub wake_p99_ns: u64,
    /// 999 of 1,000.
    pub wake_p999_ns: u64,
    /// All.
    pub wake_max_ns: u64,
}

impl Machine {
    /// The grade that these wake-ups give.
    #[must_use]
    pub fn of(privilege: Privilege, late: &Lateness) -> Machine {
        let wake_p999_ns = late.quantile(999);
        let grade = match privilege {
            Privilege::None => Grade::C,
            _ if wake_p999_ns < STALL_A_NS => Grade::A,
            _ => Grade::B,
        };
        Machine {
            grade,
            privilege,
            samples: late.len(),
            wake_p50_ns: late.quantile(500),
            wake_p99_ns: late.quantile(990),
            wake_p999_ns,
            wake_max_ns: late.quantile(1_000),
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
pub fn lateness(priorities: RtPriorities, level: Level, core: usize, samples: usize, period_ns: u64) -> io::Result<Lateness> {
    let measured = spawn("probe", priorities, level, Some(core), move || {
        let mut late = Vec::with_capacity(samples);
        let mut at = now_ns() + period_ns;
        for _ in 0..samples {
            sleep_until(at);
            late.push(now_ns().saturating_sub(at));
            // After a stall it goes on from now, so that one stall is counted once.
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
pub fn probe(priorities: RtPriorities, core: usize, samples: usize) -> io::Result<Machine> {
    Ok(Machine::of(priorities.privilege, &lateness(priorities, Level::Sentinel, core, samples, PERIOD_NS)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grade_follows_from_privilege_and_stalls() {
        let late = |worst: u64| Lateness::of((0..1_000).map(|n| if n < 2 { worst } else { 30_000 }).collect());
        assert_eq!(Machine::of(Privilege::Full, &late(40_000)).grade, Grade::A);
        assert_eq!(Machine::of(Privilege::Limited, &late(5_000_000)).grade, Grade::B);
        assert_eq!(Machine::of(Privilege::None, &late(40_000)).grade, Grade::C);
        let machine = Machine::of(Privilege::Full, &late(5_000_000));
        assert_eq!((machine.wake_p50_ns, machine.wake_p99_ns, machine.wake_max_ns), (30_000, 30_000, 5_000_000));
        assert_eq!(machine.wake_ns(), WAKE_NS.0);
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
        let machine = probe(priorities, super::super::cores()[0], 20).expect("a thread");
        assert_eq!(machine.samples, 20);
        assert_eq!(machine.grade == Grade::C, priorities.privilege == Privilege::None);
    }
}
