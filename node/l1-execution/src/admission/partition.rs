//! Partitioned scheduling: assigns tasks to cores.

use serde::{Deserialize, Serialize};

use crate::admission::edf::Edf;
use crate::admission::rm;
use crate::admission::task::{Policy, Preemption, Reason, RtTask, TIME_MAX_NS};

/// Tasks of one core.
pub const TASKS_MAX: usize = 1_000;
/// The cores that are searched for a hint.
const HINT_CORES_MAX: usize = 8;
/// The maximum steps for all response bounds of one core; beyond that the bound is the deadline, which holds.
const EFFORT_MAX: usize = 2_000_000;

/// The policy of cores, and the share that may be guaranteed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Which job runs first.
    pub policy: Policy,
    /// When a running job is preempted.
    pub preemption: Preemption,
    /// The share of each core that may be guaranteed, parts per million.
    pub cap_ppm: u64,
    /// The latency of the machine that is charged to each job, nanoseconds.
    pub platform_ns: u64,
}

/// The admitted tasks of one core, each with its tolerated jitter, if it has one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Core {
    /// Tasks in the order of admission.
    pub tasks: Vec<(RtTask, Option<u64>)>,
}

/// An admitted task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Admitted {
    /// Its core.
    pub core: usize,
    /// The bound of response times.
    pub response_bound_ns: u64,
    /// The bound of the jitter.
    pub jitter_bound_ns: u64,
    /// The proof that was made.
    pub test: &'static str,
}

/// A refusal: what fails on the core that has most room, and what would be admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("not admitted: {reason:?}")]
pub struct Rejected {
    /// The core that the proof is about; the one with the most room.
    pub core: usize,
    /// What does not hold there.
    #[serde(flatten)]
    pub reason: Reason,
    /// What would hold, on some core.
    pub hint: Option<Hint>,
}

/// A change with which the task is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hint {
    /// An execution time of at most this.
    MaxWcetNs(u64),
    /// A period of at least this; the deadline, where it was the period, goes with it.
    MinPeriodNs(u64),
}

/// What a core's proof gives: a response bound for each task that was asked about.
struct Proof {
    responses: Vec<u64>,
}

impl Config {
    fn test(&self) -> &'static str {
        match (self.policy, self.preemption) {
            (Policy::Edf, Preemption::Full) => "edf-qpa",
            (Policy::Edf, Preemption::Limited) => "lp-edf-qpa",
            (Policy::Edf, Preemption::None) => "np-edf-qpa",
            (Policy::Rm, Preemption::Full) => "rm-rta",
            (Policy::Rm, Preemption::Limited) => "lp-rm-rta",
            (Policy::Rm, Preemption::None) => "np-rm-rta",
        }
    }

    /// Do all tasks of a core keep their deadlines, and their bounds on jitter? Bounds are found for those that have
    /// one, and for the tasks from `wanted` on.
    fn prove(&self, tasks: &[(RtTask, Option<u64>)], wanted: usize) -> Result<Proof, Reason> {
        let all: Vec<RtTask> = tasks
            .iter()
            .map(|(task, _)| RtTask { blocking_ns: task.blocking_ns + self.platform_ns, ..*task })
            .collect();
        utilisation(&all, self.cap_ppm)?;
        if all.len() > TASKS_MAX {
            return Err(Reason::TooComplex);
        }
        let responses = match self.policy {
            Policy::Edf => {
                let edf = Edf::new(&all, self.preemption)?;
                edf.check()?;
                let mut effort = EFFORT_MAX;
                let busy = edf.busy_period();
                let bound = |place: usize| {
                    let asked = place >= wanted || tasks[place].1.is_some();
                    let exact = busy.filter(|_| asked).and_then(|busy| edf.response(place, busy, &mut effort));
                    exact.map_or(all[place].deadline_ns, |exact| exact.min(all[place].deadline_ns))
                };
                (0..all.len()).map(bound).collect()
            }
            Policy::Rm => {
                let order = rm::order(&all);
                let sorted: Vec<RtTask> = order.iter().map(|place| all[*place]).collect();
                let found = rm::responses(&sorted, self.preemption).map_err(|reason| match reason {
                    Reason::Response { task, deadline_ns, excess_ns } => {
                        Reason::Response { task: order[task], deadline_ns, excess_ns }
                    }
                    reason => reason,
                })?;
                let mut responses = vec![0; all.len()];
                order.iter().zip(found).for_each(|(place, response)| responses[*place] = response);
                responses
            }
        };
        for (task, ((_, wanted), bound)) in tasks.iter().zip(&responses).enumerate() {
            if let Some(wanted_ns) = wanted.filter(|wanted| bound > wanted) {
                return Err(Reason::Jitter { task, bound_ns: *bound, wanted_ns });
            }
        }
        Ok(Proof { responses })
    }
}

/// More than the cap is refused; where rounding leaves it open, the exact test decides.
fn utilisation(tasks: &[RtTask], cap_ppm: u64) -> Result<(), Reason> {
    let shares = tasks.iter().map(|task| (u128::from(task.wcet_ns) << 64) / u128::from(task.period_ns));
    let wanted = shares.sum::<u128>();
    if wanted > (u128::from(cap_ppm) << 64) / 1_000_000 {
        let wanted_ppm = u64::try_from((wanted * 1_000_000).div_ceil(1 << 64)).unwrap_or(u64::MAX);
        return Err(Reason::Utilisation { wanted_ppm, cap_ppm });
    }
    Ok(())
}

/// Admits `task` to the first core on which everything holds with it.
///
/// The best case of a job is not known, so its jitter is bounded by its response.
///
/// # Errors
/// [`Rejected`], with the proof and a hint.
pub fn admit(cores: &[Core], task: RtTask, jitter_ns: Option<u64>, config: &Config) -> Result<Admitted, Rejected> {
    let mut refused: Option<(u64, usize, Reason)> = None;
    for (core, held) in cores.iter().enumerate() {
        match with(held, task, jitter_ns, config) {
            Ok(bound) => {
                let test = config.test();
                return Ok(Admitted { core, response_bound_ns: bound, jitter_bound_ns: bound, test });
            }
            Err(reason) => {
                let used = held.tasks.iter().map(|(task, _)| share_ppm(task)).sum::<u64>();
                if refused.is_none_or(|(least, _, _)| used < least) {
                    refused = Some((used, core, reason));
                }
            }
        }
    }
    let Some((_, core, reason)) = refused else {
        return Err(Rejected { core: 0, reason: Reason::NoCore, hint: None });
    };
    Err(Rejected { core, reason, hint: hint(cores, task, jitter_ns, config) })
}

/// The bound on the response of each task of a core; none when the core was not filled by [`admit`].
#[must_use]
pub fn bounds(core: &Core, config: &Config) -> Option<Vec<u64>> {
    config.prove(&core.tasks, 0).ok().map(|proof| proof.responses)
}

/// The share of a core that a task wants, thousandths of thousandths, rounded down.
pub(crate) fn share_ppm(task: &RtTask) -> u64 {
    task.wcet_ns.saturating_mul(1_000_000) / task.period_ns.max(1)
}

/// The bound on the response of `task` on a core that has others already.
fn with(core: &Core, task: RtTask, jitter_ns: Option<u64>, config: &Config) -> Result<u64, Reason> {
    let mut tasks = core.tasks.clone();
    tasks.push((task, jitter_ns));
    let proof = config.prove(&tasks, core.tasks.len())?;
    Ok(proof.responses[core.tasks.len()])
}

/// The largest execution time that some core takes, or else the shortest period.
fn hint(cores: &[Core], task: RtTask, jitter_ns: Option<u64>, config: &Config) -> Option<Hint> {
    let fits = |task: RtTask| cores.iter().take(HINT_CORES_MAX).any(|core| with(core, task, jitter_ns, config).is_ok());
    let shorter = |wcet_ns: u64| RtTask { wcet_ns, section_ns: task.section_ns.min(wcet_ns), ..task };
    if let Some(most) = largest(1, task.wcet_ns.saturating_sub(1), |wcet| fits(shorter(wcet))) {
        return Some(Hint::MaxWcetNs(most));
    }
    let rarer = |period_ns: u64| {
        let deadline_ns = if task.deadline_ns == task.period_ns { period_ns } else { task.deadline_ns };
        RtTask { period_ns, deadline_ns, ..task }
    };
    // Counted down, so that the search is the same.
    let least = largest(0, TIME_MAX_NS - task.period_ns, |less| fits(rarer(TIME_MAX_NS - less)));
    least.map(|less| Hint::MinPeriodNs(TIME_MAX_NS - less))
}

/// The largest of `from..=to` for which `holds`, which holds for everything below it too.
fn largest(from: u64, to: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    if from > to || !holds(from) {
        return None;
    }
    let (mut fine, mut beyond) = (from, to + 1);
    while beyond - fine > 1 {
        let middle = fine + (beyond - fine) / 2;
        if holds(middle) { fine = middle } else { beyond = middle }
    }
    Some(fine)
}

/// Where each of `tasks` goes, in their order, with bounds that hold once all are placed. A task that a reason names is
/// named by its place among `tasks`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// One for each task.
    pub verdicts: Vec<Result<Admitted, Rejected>>,
}

/// Places tasks on empty cores, those that want most first.
#[must_use]
pub fn partition(tasks: &[RtTask], cores: usize, config: &Config) -> Partition {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    // By utilisation, falling, exactly: a/b > c/d as a·d > c·b.
    let wants = |place: &usize| (u128::from(tasks[*place].wcet_ns), u128::from(tasks[*place].period_ns));
    order.sort_by(|a, b| {
        let ((a_wcet, a_period), (b_wcet, b_period)) = (wants(a), wants(b));
        (b_wcet * a_period).cmp(&(a_wcet * b_period)).then(a.cmp(b))
    });
    let mut held = vec![Core::default(); cores];
    let mut places = vec![Vec::new(); cores];
    let mut verdicts: Vec<Option<Result<Admitted, Rejected>>> = vec![None; tasks.len()];
    for place in order {
        let mut verdict = admit(&held, tasks[place], None, config);
        if let Err(Rejected { core, reason: Reason::Response { task, .. } | Reason::Jitter { task, .. }, .. }) =
            &mut verdict
        {
            *task = places[*core].get(*task).copied().unwrap_or(place);
        }
        if let Ok(admitted) = &verdict {
            held[admitted.core].tasks.push((tasks[place], None));
            places[admitted.core].push(place);
        }
        verdicts[place] = Some(verdict);
    }
    // What came later may make what came before take longer.
    for (core, places) in held.iter().zip(places) {
        let Ok(proof) = config.prove(&core.tasks, 0) else { continue };
        for (place, bound) in places.into_iter().zip(proof.responses) {
            if let Some(Ok(admitted)) = &mut verdicts[place] {
                (admitted.response_bound_ns, admitted.jitter_bound_ns) = (bound, bound);
            }
        }
    }
    Partition { verdicts: verdicts.into_iter().flatten().collect() }
}
