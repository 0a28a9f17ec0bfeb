//! Tasks, policies, and the reasons of a rejection.

use serde::{Deserialize, Serialize};

/// The longest time in a task, nanoseconds: a day. A thousand of them times a thousand stays far below 2^64.
pub const TIME_MAX_NS: u64 = 86_400_000_000_000;

/// A sporadic task; all times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RtTask {
    /// C: the worst-case execution time of a job.
    pub wcet_ns: u64,
    /// T: the minimum time between arrivals.
    pub period_ns: u64,
    /// D: the deadline after the arrival; may be longer than the period.
    pub deadline_ns: u64,
    /// J: the release jitter: a job may be released this long after its arrival.
    pub jitter_ns: u64,
    /// q: the longest non-preemptive section.
    pub section_ns: u64,
    /// B: the blocking time by shared resources.
    pub blocking_ns: u64,
}

/// Why a task is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// Its execution time is 0.
    #[error("its execution time is 0")]
    NoTime,
    /// Its period is 0.
    #[error("its period is 0")]
    NoPeriod,
    /// A time is longer than a day.
    #[error("a time in it is longer than a day")]
    TooLong,
}

impl RtTask {
    /// A task whose deadline is its period, without jitter, preemptible at any time.
    #[must_use]
    pub fn new(wcet_ns: u64, period_ns: u64) -> RtTask {
        RtTask { wcet_ns, period_ns, deadline_ns: period_ns, jitter_ns: 0, section_ns: 0, blocking_ns: 0 }
    }

    /// Checks that the analysis is defined for it.
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

    /// Its longest non-preemptive section under that preemption.
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
    /// Earliest deadline first.
    Edf,
    /// Rate monotonic: the shortest period first.
    Rm,
}

/// When a more urgent job preempts a running one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preemption {
    /// At once.
    Full,
    /// At the end of a non-preemptive section, anywhere in the job.
    Limited,
    /// Never; the running job completes.
    None,
}

/// The condition that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum Reason {
    /// The total utilisation exceeds the cap.
    Utilisation {
        /// The utilisation, parts per million.
        wanted_ppm: u64,
        /// The cap, parts per million.
        cap_ppm: u64,
    },
    /// In the first `at_ns` after a critical instant the demand exceeds the time.
    Demand {
        /// The length of the interval.
        at_ns: u64,
        /// By how much the demand exceeds it.
        excess_ns: u64,
    },
    /// A task may miss its deadline.
    Response {
        /// Its index in the core's list; the new task is the last.
        task: usize,
        /// Its deadline.
        deadline_ns: u64,
        /// By how much it may be missed; a lower bound if the analysis stopped at the deadline.
        excess_ns: u64,
    },
    /// The jitter of the response times of a task exceeds the tolerance of its contract.
    Jitter {
        /// Its index, as above.
        task: usize,
        /// The bound of the jitter.
        bound_ns: u64,
        /// The tolerated jitter.
        wanted_ns: u64,
    },
    /// The proof would take too long; nothing is admitted without a proof.
    TooComplex,
    /// There is no core for tasks of this kind.
    NoCore,
}
