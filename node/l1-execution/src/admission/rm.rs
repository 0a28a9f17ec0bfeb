//! Rate monotonic scheduling on one core: exact response-time analysis.

use crate::admission::task::{Preemption, Reason, RtTask};

/// The maximum steps of the analysis of one core.
const STEPS_MAX: usize = 2_000_000;

/// The indices of the tasks, the most urgent first: by period, then deadline, then index.
pub(crate) fn order(tasks: &[RtTask]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|place| (tasks[*place].period_ns, tasks[*place].deadline_ns, *place));
    order
}

/// The worst-case response time of each task, in the given order, the most urgent first. The utilisation must be at most 1.
///
/// # Errors
/// The first task that may be late, by its index in that order; or that the proof would take too long.
pub(crate) fn responses(tasks: &[RtTask], preemption: Preemption) -> Result<Vec<u64>, Reason> {
    let mut steps = STEPS_MAX;
    let mut all = Vec::with_capacity(tasks.len());
    for (place, task) in tasks.iter().enumerate() {
        // A section that began one unit of time before the arrival of this job.
        let lower = tasks[place + 1..].iter().map(|lower| lower.section(preemption).saturating_sub(1)).max();
        let blocking = task.blocking_ns + lower.unwrap_or(0);
        let response = response(task, &tasks[..place], blocking, preemption, &mut steps)?;
        if response > task.deadline_ns {
            let (deadline_ns, excess_ns) = (task.deadline_ns, response - task.deadline_ns);
            return Err(Reason::Response { task: place, deadline_ns, excess_ns });
        }
        all.push(response);
    }
    Ok(all)
}

/// Analyses every job of the busy period, since with deadlines beyond the period, and without preemption, a later one may take
/// longer than the first (Lehoczky 1990; Davis, Burns, Bril and Lukkien 2007).
fn response(
    task: &RtTask,
    higher: &[RtTask],
    blocking: u64,
    preemption: Preemption,
    steps: &mut usize,
) -> Result<u64, Reason> {
    let mut longest = 0;
    let busy = match preemption {
        Preemption::None => Some(busy_period(task, higher, blocking, steps)?),
        Preemption::Full | Preemption::Limited => None,
    };
    for earlier in 0.. {
        let done = match preemption {
            Preemption::None => start(blocking + earlier * task.wcet_ns, higher, steps)? + task.wcet_ns,
            Preemption::Full | Preemption::Limited => end(blocking + (earlier + 1) * task.wcet_ns, higher, steps)?,
        };
        let response = done + task.jitter_ns - (earlier * task.period_ns).min(done + task.jitter_ns);
        longest = longest.max(response);
        // The next job comes after the busy period: that ends when this one is done, unless others, which came while it
        // was not preempted, are still to run then.
        let over = busy.unwrap_or(done) + task.jitter_ns <= (earlier + 1) * task.period_ns;
        if longest > task.deadline_ns || over {
            break;
        }
    }
    Ok(longest)
}

/// How long the core is never idle, nor works on anything less urgent than `task`.
fn busy_period(task: &RtTask, higher: &[RtTask], blocking: u64, steps: &mut usize) -> Result<u64, Reason> {
    let released = |task: &RtTask, until: u64| (until + task.jitter_ns).div_ceil(task.period_ns) * task.wcet_ns;
    let all: Vec<RtTask> = higher.iter().copied().chain([*task]).collect();
    let first = blocking + all.iter().map(|task| task.wcet_ns).sum::<u64>();
    fixpoint(first, blocking, &all, released, steps)
}

/// When work that is preempted by `higher` is done.
fn end(work: u64, higher: &[RtTask], steps: &mut usize) -> Result<u64, Reason> {
    let released = |task: &RtTask, until: u64| (until + task.jitter_ns).div_ceil(task.period_ns) * task.wcet_ns;
    fixpoint(work, work, higher, released, steps)
}

/// The start of a job that waits for `work` and for `higher`; jobs that arrive at that instant go first.
fn start(work: u64, higher: &[RtTask], steps: &mut usize) -> Result<u64, Reason> {
    let released = |task: &RtTask, until: u64| ((until + task.jitter_ns) / task.period_ns + 1) * task.wcet_ns;
    fixpoint(work, work, higher, released, steps)
}

fn fixpoint(
    from: u64,
    work: u64,
    higher: &[RtTask],
    released: impl Fn(&RtTask, u64) -> u64,
    steps: &mut usize,
) -> Result<u64, Reason> {
    let mut at = from;
    loop {
        *steps = steps.checked_sub(higher.len() + 1).ok_or(Reason::TooComplex)?;
        let longer = work + higher.iter().map(|task| released(task, at)).sum::<u64>();
        if longer == at {
            return Ok(at);
        }
        if longer > u64::MAX >> 8 {
            return Err(Reason::TooComplex);
        }
        at = longer;
    }
}
