//! Earliest deadline first on one core.

use crate::admission::task::{Preemption, Reason, RtTask};

/// The maximum intervals, or steps towards the end of a busy period, of one proof.
const STEPS_MAX: usize = 200_000;

/// The parameters of a task in the sums.
#[derive(Clone, Copy)]
struct Entry {
    task: RtTask,
    /// From the latest release until the deadline.
    due: u64,
    section: u64,
}

/// The tasks of one core.
pub(crate) struct Edf {
    entries: Vec<Entry>,
    /// Lengths at which the blocking changes, ascending.
    edges: Vec<u64>,
}

impl Edf {
    /// The tasks, with a total utilisation of at most 1.
    ///
    /// # Errors
    /// A task whose jitter leaves less than its execution time.
    pub fn new(tasks: &[RtTask], preemption: Preemption) -> Result<Edf, Reason> {
        let mut entries = Vec::with_capacity(tasks.len());
        for task in tasks {
            let due = task.deadline_ns.saturating_sub(task.jitter_ns);
            let wanted = task.wcet_ns + task.blocking_ns;
            if due < wanted {
                return Err(Reason::Demand { at_ns: due, excess_ns: wanted - due });
            }
            // Time is discrete: a blocking section began one unit before.
            entries.push(Entry { task: *task, due, section: task.section(preemption).saturating_sub(1) });
        }
        let mut edges: Vec<u64> = entries.iter().flat_map(|entry| [entry.due, entry.task.deadline_ns]).collect();
        edges.sort_unstable();
        edges.dedup();
        Ok(Edf { entries, edges })
    }

    /// The demand within `length` of a critical instant.
    fn demand(&self, length: u64) -> u64 {
        let due = self.entries.iter().filter(|entry| entry.due <= length);
        due.map(|entry| ((length - entry.due) / entry.task.period_ns + 1) * entry.task.wcet_ns).sum()
    }

    /// The blocking: one section of a job with a later deadline that began before, and shared resources.
    fn blocking(&self, length: u64) -> u64 {
        let later = self.entries.iter().filter(|entry| entry.task.deadline_ns > length).map(|entry| entry.section);
        let shared = self.entries.iter().filter(|entry| entry.due <= length).map(|entry| entry.task.blocking_ns);
        later.max().unwrap_or(0) + shared.max().unwrap_or(0)
    }

    /// The last length before `length` at which a job is due.
    fn due_before(&self, length: u64) -> Option<u64> {
        let early = self.entries.iter().filter(|entry| entry.due < length);
        early.map(|entry| entry.due + (length - 1 - entry.due) / entry.task.period_ns * entry.task.period_ns).max()
    }

    fn blocking_most(&self) -> u64 {
        let sections = self.entries.iter().map(|entry| entry.section).max();
        sections.unwrap_or(0) + self.entries.iter().map(|entry| entry.task.blocking_ns).max().unwrap_or(0)
    }

    /// The length of the longest busy period.
    pub fn busy_period(&self) -> Option<u64> {
        let blocking = self.blocking_most();
        let mut length = blocking + self.entries.iter().map(|entry| entry.task.wcet_ns).sum::<u64>();
        for _ in 0..STEPS_MAX {
            let longer = blocking + self.entries.iter().map(|entry| arrived(&entry.task, length)).sum::<u64>();
            if longer == length {
                return Some(length);
            }
            length = longer;
            if length > u64::MAX >> 8 {
                return None;
            }
        }
        None
    }

    /// (B + Σ Uᵢ·max(0, Tᵢ − Dᵢ)) ÷ (1 − U), rounded up, with U in 2⁻⁶⁴ rounded up: beyond it nothing fails.
    fn bound_by_utilisation(&self) -> Option<u64> {
        let share = |entry: &Entry| (u128::from(entry.task.wcet_ns) << 64).div_ceil(u128::from(entry.task.period_ns));
        let free = (1u128 << 64).checked_sub(self.entries.iter().map(share).sum()).filter(|free| *free > 0)?;
        let early = self.entries.iter().map(|entry| {
            let early = u128::from(entry.task.period_ns.saturating_sub(entry.due));
            (early * u128::from(entry.task.wcet_ns)).div_ceil(u128::from(entry.task.period_ns))
        });
        let most = u128::from(self.blocking_most()) + early.sum::<u128>();
        u64::try_from(most.checked_mul(1u128 << 64)?.div_ceil(free)).ok()
    }

    /// Checks that the demand fits into every interval; gives the number of intervals that were checked.
    ///
    /// Quick processor-demand analysis, from the longest interval down. Between two edges the blocking is the same, and
    /// the demand does not grow towards shorter intervals: where it is `wanted` at `at`, nothing from `wanted` up to
    /// `at` fails.
    ///
    /// # Errors
    /// The interval that fails, or that the proof would take too long.
    pub fn check(&self) -> Result<usize, Reason> {
        let mut top = match (self.busy_period(), self.bound_by_utilisation()) {
            (Some(busy), Some(bound)) => busy.min(bound),
            (busy, bound) => busy.or(bound).ok_or(Reason::TooComplex)?,
        };
        // The shortest intervals with demand are always checked.
        top = top.max(self.edges.last().copied().unwrap_or(0)) + 1;
        let mut steps = 0;
        for bottom in self.edges.iter().rev() {
            while let Some(at) = self.due_before(top).filter(|at| at >= bottom) {
                steps += 1;
                if steps > STEPS_MAX {
                    return Err(Reason::TooComplex);
                }
                let wanted = self.demand(at) + self.blocking(at);
                if wanted > at {
                    return Err(Reason::Demand { at_ns: at, excess_ns: wanted - at });
                }
                top = wanted;
            }
            top = *bottom;
        }
        Ok(steps)
    }

    /// The worst-case response time of the task at `place` (Spuri 1996). `busy` is the busy period. `None` if that takes more
    /// than `effort` steps, which are deducted.
    pub fn response(&self, place: usize, busy: u64, effort: &mut usize) -> Option<u64> {
        let own = &self.entries[place].task;
        let mut longest = own.jitter_ns + own.wcet_ns;
        for entry in &self.entries {
            // Arrivals at which this job's deadline is one of that task's deadlines. Times after the critical
            // instant, which a late release moves by the jitter: so everything is counted from `jitter` before it.
            let other = &entry.task;
            let base = i128::from(other.deadline_ns) - i128::from(other.jitter_ns) - i128::from(own.deadline_ns);
            let first = div_ceil((-i128::from(own.jitter_ns) - base).max(0), other.period_ns);
            let mut arrival = base + first * i128::from(other.period_ns);
            while arrival < i128::from(busy) - i128::from(own.jitter_ns) {
                let end = self.completion(place, arrival, busy, effort)?;
                let response = i128::from(end) - arrival;
                longest = longest.max(u64::try_from(response).unwrap_or(0));
                arrival += i128::from(other.period_ns);
            }
        }
        Some(longest)
    }

    /// When the job that arrives at `arrival` completes, if all jobs with earlier deadlines arrive as early as possible.
    fn completion(&self, place: usize, arrival: i128, busy: u64, effort: &mut usize) -> Option<u64> {
        let own = &self.entries[place].task;
        let due = arrival + i128::from(own.deadline_ns);
        let jobs = |task: &RtTask, slack: i128| u64::try_from(slack / i128::from(task.period_ns)).unwrap_or(0) + 1;
        let before = jobs(own, arrival + i128::from(own.jitter_ns)) * own.wcet_ns;
        let later = self.entries.iter().filter(|entry| i128::from(entry.task.deadline_ns) > due);
        let fixed = before + own.blocking_ns + later.map(|entry| entry.section).max().unwrap_or(0);
        let mut end = fixed;
        loop {
            *effort = effort.checked_sub(self.entries.len())?;
            let mut longer = fixed;
            for (at, entry) in self.entries.iter().enumerate() {
                let slack = due + i128::from(entry.task.jitter_ns) - i128::from(entry.task.deadline_ns);
                if at != place && slack >= 0 {
                    longer += arrived(&entry.task, end).min(jobs(&entry.task, slack) * entry.task.wcet_ns);
                }
            }
            if longer == end || longer > busy {
                return Some(longer.min(busy.max(end)));
            }
            end = longer;
        }
    }
}

/// The work of jobs released within `length` of a critical instant.
fn arrived(task: &RtTask, length: u64) -> u64 {
    (length + task.jitter_ns).div_ceil(task.period_ns) * task.wcet_ns
}

/// `value` ÷ `divisor`, rounded up; neither is negative.
fn div_ceil(value: i128, divisor: u64) -> i128 {
    (value + i128::from(divisor) - 1) / i128::from(divisor)
}
