//! The guarantees of one node, and refusals with their proofs. Pure: no clock, no thread.

use althing_protocol::contract::{Class, Contract, Grade, Hrt};

use crate::admission::{
    AdmissionProof, Admitted, Config, Core, PROOF_TASKS_MAX, Rejected, RtTask, admit, bounds, share_ppm,
};

/// How long a guest's bulk memory instruction, which cannot be interrupted, may block other jobs; nanoseconds for each MiB.
/// Measured: 0.69 ms for 16 MiB.
const SECTION_NS_PER_MIB: u64 = 50_000;
const MIB: u64 = 1024 * 1024;

/// The admitted guarantees of one node.
#[derive(Debug, Clone)]
pub struct Plan {
    config: Config,
    cores: Vec<Core>,
    names: Vec<Vec<String>>,
}

/// A refusal, with its proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The task, with the time charged for stopping it.
    pub asked: RtTask,
    /// The condition that does not hold, and on which core.
    pub rejected: Rejected,
    /// The tasks admitted on that core, by name.
    pub held: Vec<(String, RtTask)>,
    /// The part of the budget that is charged for stopping a job, nanoseconds.
    pub charged_ns: u64,
    /// The share of a core that may be guaranteed, parts per million.
    pub cap_ppm: u64,
}

/// A guarantee as it is now: later admissions may loosen it, up to what the contract asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guarantee {
    /// The index of the core among those for hard real-time.
    pub core: usize,
    /// The bound of response times, stalls of the machine excepted; nanoseconds.
    pub response_bound_ns: u64,
    /// The bound of the jitter of response times; nanoseconds.
    pub jitter_bound_ns: u64,
}

impl Plan {
    /// An empty plan.
    #[must_use]
    pub fn new(config: Config, cores: usize) -> Plan {
        Plan { config, cores: vec![Core::default(); cores], names: vec![Vec::new(); cores] }
    }

    /// Admits a hard real-time contract, or refuses it. `wake_ns` is charged for waking and for stopping.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn admit(
        &mut self,
        name: &str,
        contract: &Contract,
        hrt: &Hrt,
        wake_ns: u64,
    ) -> Result<Admitted, Box<Refused>> {
        self.config.platform_ns = wake_ns;
        let task = task(contract, hrt, wake_ns);
        let jitter_ns = hrt.jitter_us.map(|us| us.saturating_mul(1_000));
        match admit(&self.cores, task, jitter_ns, &self.config) {
            Ok(admitted) => {
                self.cores[admitted.core].tasks.push((task, jitter_ns));
                self.names[admitted.core].push(name.to_owned());
                Ok(admitted)
            }
            Err(rejected) => {
                let held =
                    self.cores.get(rejected.core).zip(self.names.get(rejected.core)).map(|(core, names)| {
                        names.iter().cloned().zip(core.tasks.iter().map(|(task, _)| *task)).collect()
                    });
                let held = held.unwrap_or_default();
                Err(Box::new(Refused {
                    asked: task,
                    rejected,
                    held,
                    charged_ns: wake_ns,
                    cap_ppm: self.config.cap_ppm,
                }))
            }
        }
    }

    /// Transfers a guarantee to another name; false when there is none.
    pub fn rename(&mut self, from: &str, to: &str) -> bool {
        let held = self.names.iter_mut().flatten().find(|held| *held == from);
        held.map(|held| to.clone_into(held)).is_some()
    }

    /// Releases a guarantee; false when there is none.
    pub fn release(&mut self, name: &str) -> bool {
        for (core, names) in self.cores.iter_mut().zip(&mut self.names) {
            if let Some(place) = names.iter().position(|held| held == name) {
                names.remove(place);
                core.tasks.remove(place);
                return true;
            }
        }
        false
    }

    /// The guarantee of an agent.
    #[must_use]
    pub fn guarantee(&self, name: &str) -> Option<Guarantee> {
        for (core, (held, names)) in self.cores.iter().zip(&self.names).enumerate() {
            if let Some(place) = names.iter().position(|named| named == name) {
                let deadline = held.tasks.get(place).map_or(0, |(task, _)| task.deadline_ns);
                let bound = bounds(held, &self.config).and_then(|all| all.get(place).copied()).unwrap_or(deadline);
                return Some(Guarantee { core, response_bound_ns: bound, jitter_bound_ns: bound });
            }
        }
        None
    }

    /// Why an agent keeps its deadlines; none where it is promised none, or its core has more tasks than a proof has.
    #[must_use]
    pub fn proof(&self, name: &str) -> Option<AdmissionProof> {
        self.cores.iter().zip(&self.names).find_map(|(held, names)| {
            let place = names.iter().position(|named| named == name)?;
            let is_short = held.tasks.len() <= PROOF_TASKS_MAX;
            is_short.then(|| AdmissionProof { config: self.config, tasks: held.tasks.clone(), place })
        })
    }

    /// The guaranteed share of each core, parts per million.
    #[must_use]
    pub fn shares_ppm(&self) -> Vec<u64> {
        let share = |core: &Core| core.tasks.iter().map(|(task, _)| share_ppm(task)).sum();
        self.cores.iter().map(share).collect()
    }
}

/// The task for the schedulability analysis: the budget with the cost of stopping a job, and the longest section that cannot
/// be interrupted.
fn task(contract: &Contract, hrt: &Hrt, wake_ns: u64) -> RtTask {
    let declared_ns = hrt.section_us.unwrap_or_default().saturating_mul(1_000);
    // At least what one bulk memory instruction can take, whatever the contract declares.
    let section_ns = declared_ns.max(contract.memory_bytes().div_ceil(MIB).saturating_mul(SECTION_NS_PER_MIB));
    RtTask {
        // A section that begins within the budget may end beyond it.
        wcet_ns: hrt.budget_us.saturating_mul(1_000).max(section_ns).saturating_add(wake_ns),
        period_ns: hrt.period_us.saturating_mul(1_000),
        deadline_ns: hrt.deadline_us.saturating_mul(1_000),
        jitter_ns: 0,
        section_ns,
        blocking_ns: 0,
    }
}

/// The grade that a contract requires: hard real-time needs a machine that keeps its timing, unless the contract lowers it.
#[must_use]
pub fn grade_wanted(contract: &Contract) -> Grade {
    let least = if matches!(contract.class, Class::Hrt(_)) { Grade::B } else { Grade::C };
    contract.placement.min_grade.unwrap_or(least)
}
