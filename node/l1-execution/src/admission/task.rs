//! What is admitted, and why it is not.

use serde::{Deserialize, Serialize};

/// Longest time in a task, nanoseconds: a day. Sums of a thousand of them, times as many, stay far below 2^64.
pub const TIME_MAX_NS: u64 = 86_400_000_000_000;

/// A sporadic task; all times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// C: what one job needs at most.
    pub wcet_ns: u64,
    /// T: jobs arrive at least this far apart.
    pub period_ns: u64,
    /// D: each job must be done this long after it arrived; may be longer than the period.
    pub deadline_ns: u64,
    /// J: a job may be released this long after it arrived.
    pub jitter_ns: u64,
    /// q: the longest stretch for which a job cannot be preempted.
    pub section_ns: u64,
    /// B: how long a job may be kept waiting by others' use of what it shares with them.
    pub blocking_ns: u64,
}

/// Why a task is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// No time to run.
    #[error("its execution time is 0")]
    NoTime,
    /// Its period is 0.
    #[error("its period is 0")]
    NoPeriod,
    /// A time that is longer than a day.
    #[error("a time in it is longer than a day")]
    TooLong,
}

impl Task {
    /// A task whose deadline is its period, without jitter, preemptible at any time.
    #[must_use]
    pub fn new(wcet_ns: u64, period_ns: u64) -> Task {
        Task { wcet_ns, period_ns, deadline_ns: period_ns, jitter_ns: 0, section_ns: 0, blocking_ns: 0 }
    }

    /// Is it one that can be reasoned about?
    ///
    /// # Errors
    /// See [`TaskError`].
    pub fn check(&self) -> Result<(), TaskError> {
        if self.wcet_ns == 0 {
            return Err(TaskError::NoTime);
        }
        if self.period_ns == 0 {
            return Err(TaskError::NoPeriod);
        }
        let times = [self.wcet_ns, self.period_ns, self.deadline_ns, self.jitter_ns, self.section_ns, self.blocking_ns];
        if times.iter().any(|time| *time > TIME_MAX_NS) { Err(TaskError::TooLong) } else { Ok(()) }
    }

    /// What it cannot be preempted in, under that preemption.
    pub(crate) fn section(&self, preemption: Preemption) -> u64 {
        match preemption {
            Preemption::Full => 0,
            Preemption::Limited => self.section_ns.min(self.wcet_ns),
            Preemption::None => self.wcet_ns,
        }
    }
}

/// Which job runs first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The one whose deadline is nearest.
    Edf,
    /// The one whose task has the shortest period.
    Rm,
}

/// When a running job makes way for a more urgent one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preemption {
    /// At once.
    Full,
    /// At the end of a section that is not preempted, wherever in the job that lies.
    Limited,
    /// When it is done.
    None,
}

/// What does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum Reason {
    /// Together the tasks want more of the core than there is to give.
    Utilisation {
        /// Thousandths of thousandths of a core that are wanted.
        wanted_ppm: u64,
        /// And that may be given.
        cap_ppm: u64,
    },
    /// In the first `at_ns` after a critical instant more must be done than fits.
    Demand {
        /// The length of the interval.
        at_ns: u64,
        /// By how much the demand passes it.
        excess_ns: u64,
    },
    /// A task may be done too late.
    Response {
        /// Which, by its place in the core's list; the new one is the last.
        task: usize,
        /// Its deadline.
        deadline_ns: u64,
        /// By how much it may be passed; where the analysis stopped at the deadline, at least by this.
        excess_ns: u64,
    },
    /// The time between best and worst response of a task is more than its contract bears.
    Jitter {
        /// Which, as above.
        task: usize,
        /// The jitter that may come about.
        bound_ns: u64,
        /// The jitter that it bears.
        wanted_ns: u64,
    },
    /// The proof would take too long; nothing is promised without one.
    TooComplex,
    /// There is no core for tasks of this kind.
    NoCore,
}
