//! Why an agent keeps its deadlines, as it is kept with what the agent did, and proved again by anybody.

use althing_protocol::Digest;
use althing_protocol::contract::Hrt;
use serde::{Deserialize, Serialize};

use crate::admission::partition::{Config, Core, bounds};
use crate::admission::task::{RtTask, TIME_MAX_NS, TaskError};

/// Tasks of a core whose proof is kept.
pub const PROOF_TASKS_MAX: usize = 64;

/// The tasks of a core and the rule by which they share it: that all keep their deadlines follows from these alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionProof {
    /// The policy of the core.
    pub config: Config,
    /// The tasks in the order of their admission, each with the jitter in nanoseconds that it bears, if that has a limit.
    pub tasks: Vec<(RtTask, Option<u64>)>,
    /// Which of them the agent is.
    pub place: usize,
}

/// What was proved again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseTimes {
    /// The bound of the agent's response times, nanoseconds.
    pub response_bound_ns: u64,
    /// Its deadline, nanoseconds.
    pub deadline_ns: u64,
}

/// Why a proof does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProofFault {
    /// There are more tasks than a proof has.
    #[error("it has {0} tasks, and {PROOF_TASKS_MAX} is the most")]
    TooMany(usize),
    /// The agent is none of its tasks.
    #[error("the agent is none of its tasks")]
    NoPlace,
    /// A task is none.
    #[error("{0}")]
    Task(#[from] TaskError),
    /// More of the core is promised than there is.
    #[error("it promises more of a core than there is")]
    Share,
    /// Not all tasks keep their deadlines.
    #[error("not all of its tasks keep their deadlines")]
    Deadline,
}

impl AdmissionProof {
    /// The canonical JSON (RFC 8785), of which seals have the digest.
    #[must_use]
    pub fn canonical(&self) -> Vec<u8> {
        serde_json_canonicalizer::to_vec(self).expect("a proof holds nothing that JSON does not")
    }

    /// The digest of [`AdmissionProof::canonical`].
    #[must_use]
    pub fn digest(&self) -> Digest {
        althing_protocol::digest(&self.canonical())
    }

    /// Whether its agent has the terms of that class: its period, its deadline, and at least its budget.
    #[must_use]
    pub fn is_of(&self, class: &Hrt) -> bool {
        let ns = |us: u64| us.saturating_mul(1_000);
        self.tasks.get(self.place).is_some_and(|(own, _)| {
            (own.period_ns, own.deadline_ns) == (ns(class.period_us), ns(class.deadline_us))
                && own.wcet_ns >= ns(class.budget_us)
        })
    }

    /// Proves again, from nothing but what is in it, that the agent keeps its deadline.
    ///
    /// # Errors
    /// [`ProofFault`].
    pub fn prove(&self) -> Result<ResponseTimes, ProofFault> {
        if self.tasks.len() > PROOF_TASKS_MAX {
            return Err(ProofFault::TooMany(self.tasks.len()));
        }
        let (own, _) = self.tasks.get(self.place).ok_or(ProofFault::NoPlace)?;
        if self.config.cap_ppm > 1_000_000 {
            return Err(ProofFault::Share);
        }
        for (task, _) in &self.tasks {
            task.check()?;
        }
        let core = Core { tasks: self.tasks.clone() };
        let config = Config { platform_ns: self.config.platform_ns.min(TIME_MAX_NS), ..self.config };
        let all = bounds(&core, &config).ok_or(ProofFault::Deadline)?;
        let bound = all.get(self.place).copied().filter(|bound| *bound <= own.deadline_ns);
        let response_bound_ns = bound.ok_or(ProofFault::Deadline)?;
        Ok(ResponseTimes { response_bound_ns, deadline_ns: own.deadline_ns })
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::contract::{Arrival, OnOverrun};

    use super::*;
    use crate::admission::{Policy, Preemption};

    fn proof(tasks: &[(u64, u64)], place: usize) -> AdmissionProof {
        AdmissionProof {
            config: Config { policy: Policy::Edf, preemption: Preemption::Limited, cap_ppm: 900_000, platform_ns: 0 },
            tasks: tasks.iter().map(|(wcet, period)| (RtTask::new(*wcet, *period), None)).collect(),
            place,
        }
    }

    #[test]
    fn what_was_admitted_is_proved_again_from_itself() {
        let kept = proof(&[(1_000, 10_000), (2_000, 20_000)], 1);
        let json = serde_json::to_string(&kept).expect("a proof is JSON");
        let read: AdmissionProof = serde_json::from_str(&json).expect("its own JSON");
        assert_eq!((read.digest(), &read), (kept.digest(), &kept));
        assert_ne!(proof(&[(1_000, 10_000), (2_000, 20_000)], 0).digest(), kept.digest());
        let proven = read.prove().expect("it holds");
        assert!(proven.response_bound_ns >= 2_000 && proven.response_bound_ns <= proven.deadline_ns, "{proven:?}");
    }

    #[test]
    fn a_proof_is_of_the_terms_of_its_own_task() {
        let class = |period_us, deadline_us, budget_us| Hrt {
            period_us,
            deadline_us,
            budget_us,
            jitter_us: None,
            section_us: None,
            arrival: Arrival::default(),
            on_overrun: OnOverrun::default(),
        };
        let kept = proof(&[(1_000, 10_000), (2_000, 20_000)], 1);
        assert!(kept.is_of(&class(20, 20, 2)) && kept.is_of(&class(20, 20, 1)), "stopping it takes time too");
        for other in [class(10, 20, 2), class(20, 10, 2), class(20, 20, 3)] {
            assert!(!kept.is_of(&other), "{other:?}");
        }
        assert!(!proof(&[(2_000, 20_000)], 1).is_of(&class(20, 20, 2)), "it is of no task");
    }

    #[test]
    fn what_does_not_follow_is_no_proof() {
        let mut greedy = proof(&[(1_000, 10_000)], 0);
        greedy.config.cap_ppm = 2_000_000;
        for (wrong, fault) in [
            (proof(&[(9_500, 10_000)], 0), ProofFault::Deadline),
            (proof(&[(1_000, 10_000)], 1), ProofFault::NoPlace),
            (proof(&[(0, 10_000)], 0), ProofFault::Task(TaskError::NoTime)),
            (proof(&[(1, 1_000_000); 65], 0), ProofFault::TooMany(65)),
            (greedy, ProofFault::Share),
        ] {
            assert_eq!(wrong.prove(), Err(fault));
        }
    }
}
