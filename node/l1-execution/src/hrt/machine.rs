//! The schedule of a hard real-time executor: which job runs, until when, and how it ends. Pure, without a clock.
//!
//! Jobs of one task run in the order of their release. A job whose deadline passes before it begins is dropped: its result
//! is useless by then, and running it would delay other jobs.

use std::collections::VecDeque;

use crate::admission::Policy;

/// The timing parameters of a task, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params {
    /// Between two releases.
    pub period_ns: u64,
    /// From a release until its job must be done.
    pub deadline_ns: u64,
    /// What a job may run.
    pub budget_ns: u64,
    /// True: a job is released each period; false: on request (sporadic).
    pub periodic: bool,
}

/// One job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// From 0, in the order of release.
    pub number: u64,
    /// When it was released.
    pub release_ns: u64,
    /// When it must be done.
    pub deadline_ns: u64,
    /// When the executor saw that it was released.
    pub noticed_ns: u64,
    /// When it first ran.
    pub begun_ns: Option<u64>,
    /// How long it has run.
    pub used_ns: u64,
}

/// Why a sporadic job cannot be released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ArriveError {
    /// The queue of the task is full.
    #[error("too many jobs wait already")]
    Full,
    /// There is no such task, or it is periodic.
    #[error("there is no sporadic task at that index")]
    NoTask,
}

#[derive(Debug)]
struct PeriodicTask {
    params: Params,
    /// When the next periodic job is released; the earliest moment at which a sporadic one may be.
    next_ns: u64,
    numbers: u64,
    waiting: VecDeque<Job>,
    /// Whether it has a fiber.
    ready: bool,
    /// The order in which tasks were added, as in the analysis.
    order: u64,
}

/// The tasks of one executor.
#[derive(Debug)]
pub struct Schedule {
    policy: Policy,
    tasks: Vec<Option<PeriodicTask>>,
    /// Tasks that were added so far.
    added: u64,
}

/// Queued jobs of one task, beyond those that its deadline allows for.
const WAITING_SPARE: u64 = 2;
const WAITING_MAX: u64 = 64;

impl Schedule {
    /// Room for `places` tasks.
    #[must_use]
    pub fn new(policy: Policy, places: usize) -> Schedule {
        Schedule { policy, tasks: (0..places).map(|_| None).collect(), added: 0 }
    }

    /// Adds a task at a free index; periodic jobs are released from `first_ns` on.
    pub fn add(&mut self, place: usize, params: Params, first_ns: u64) {
        let room = (params.deadline_ns / params.period_ns.max(1) + WAITING_SPARE).min(WAITING_MAX);
        let waiting = VecDeque::with_capacity(usize::try_from(room).unwrap_or_default());
        self.tasks[place] =
            Some(PeriodicTask { params, next_ns: first_ns, numbers: 0, waiting, ready: true, order: self.added });
        self.added += 1;
    }

    /// Removes a task.
    pub fn remove(&mut self, place: usize) {
        self.tasks[place] = None;
    }

    /// Sets whether the task has a fiber; while it has none, its jobs wait.
    pub fn set_ready(&mut self, place: usize, ready: bool) {
        if let Some(task) = self.tasks[place].as_mut() {
            task.ready = ready;
        }
    }

    /// Releases the jobs that are due, and drops jobs that have not begun by their deadline; calls `gone` for each job that
    /// will not run.
    pub fn release(&mut self, now_ns: u64, mut gone: impl FnMut(usize, Job)) {
        for (place, task) in self.tasks.iter_mut().enumerate() {
            let Some(task) = task else { continue };
            loop {
                // Expired jobs first, which makes room.
                while let Some(job) =
                    task.waiting.front().filter(|job| job.begun_ns.is_none() && job.deadline_ns <= now_ns)
                {
                    gone(place, *job);
                    task.waiting.pop_front();
                }
                if !task.params.periodic || task.next_ns > now_ns {
                    break;
                }
                let release_ns = task.next_ns;
                task.next_ns += task.params.period_ns;
                let job = task.job(release_ns, now_ns);
                if task.waiting.len() < task.waiting.capacity() {
                    task.waiting.push_back(job);
                } else {
                    gone(place, job);
                }
            }
        }
    }

    /// Releases a job of a sporadic task, at once or a period after the previous one.
    ///
    /// # Errors
    /// See [`ArriveError`].
    pub fn arrive(&mut self, place: usize, now_ns: u64) -> Result<u64, ArriveError> {
        let task = self.tasks.get_mut(place).and_then(Option::as_mut).filter(|task| !task.params.periodic);
        let task = task.ok_or(ArriveError::NoTask)?;
        if task.waiting.len() == task.waiting.capacity() {
            return Err(ArriveError::Full);
        }
        let release_ns = task.next_ns.max(now_ns);
        task.next_ns = release_ns + task.params.period_ns;
        let job = task.job(release_ns, now_ns);
        task.waiting.push_back(job);
        Ok(job.number)
    }

    /// The next periodic release.
    #[must_use]
    pub fn next_release(&self, now_ns: u64) -> Option<u64> {
        self.tasks.iter().flatten().filter_map(|task| task.next_release(now_ns)).min()
    }

    /// The task to run now.
    #[must_use]
    pub fn choose(&self, now_ns: u64) -> Option<usize> {
        let ready = self.tasks.iter().enumerate().filter_map(|(place, task)| {
            let task = task.as_ref().filter(|task| task.ready)?;
            let job = task.waiting.front().filter(|job| job.release_ns <= now_ns)?;
            Some((self.urgency(task, job), place))
        });
        ready.min().map(|(_, place)| place)
    }

    /// The smaller value runs first. Of jobs with equal deadlines the one that has begun runs first; of tasks with equal
    /// periods the one that is first in the analysis, even if the other has begun.
    fn urgency(&self, task: &PeriodicTask, job: &Job) -> (u64, u64, u64, u64) {
        match self.policy {
            Policy::Edf => (job.deadline_ns, u64::from(job.begun_ns.is_none()), job.release_ns, 0),
            Policy::Rm => task.rank(),
        }
    }

    /// The current or next job of a task.
    #[must_use]
    pub fn job(&self, place: usize) -> Option<&Job> {
        self.tasks[place].as_ref().and_then(|task| task.waiting.front())
    }

    /// Starts or continues that job at `now_ns`; gives the time at which it must be interrupted (its budget is exhausted, or
    /// a more urgent job is released), and whether it starts.
    pub fn run(&mut self, place: usize, now_ns: u64) -> Option<(u64, bool)> {
        let policy = self.policy;
        let task = self.tasks[place].as_mut()?;
        let (params, own) = (task.params, task.rank());
        let job = task.waiting.front_mut()?;
        let begins = job.begun_ns.is_none();
        job.begun_ns.get_or_insert(now_ns);
        let (used_ns, rank) = (job.used_ns, job.deadline_ns);
        let budget_ends = now_ns + params.budget_ns.saturating_sub(used_ns);
        let outranks = |other: &&PeriodicTask| match (policy, other.next_release(now_ns)) {
            (_, None) => false,
            (Policy::Edf, Some(next)) => next + other.params.deadline_ns < rank,
            (Policy::Rm, Some(_)) => other.rank() < own,
        };
        let others = self.tasks.iter().enumerate().filter(|(at, _)| *at != place).filter_map(|(_, task)| task.as_ref());
        let next =
            others.filter(|other| other.ready).filter(outranks).filter_map(|other| other.next_release(now_ns)).min();
        Some((next.map_or(budget_ends, |next| next.min(budget_ends)), begins))
    }

    /// Charges `used_ns` to the job; true when its budget is exhausted.
    pub fn charge(&mut self, place: usize, used_ns: u64) -> bool {
        let Some(task) = self.tasks[place].as_mut() else { return false };
        let budget_ns = task.params.budget_ns;
        let Some(job) = task.waiting.front_mut() else { return false };
        job.used_ns += used_ns;
        job.used_ns >= budget_ns
    }

    /// Removes the current job of a task.
    pub fn end(&mut self, place: usize) -> Option<Job> {
        self.tasks[place].as_mut().and_then(|task| task.waiting.pop_front())
    }
}

impl PeriodicTask {
    /// Rate monotonic: by period, then deadline, then the order in which tasks were added.
    fn rank(&self) -> (u64, u64, u64, u64) {
        (self.params.period_ns, self.params.deadline_ns, self.order, 0)
    }

    fn job(&mut self, release_ns: u64, noticed_ns: u64) -> Job {
        let number = self.numbers;
        self.numbers += 1;
        let deadline_ns = release_ns + self.params.deadline_ns;
        Job { number, release_ns, deadline_ns, noticed_ns, begun_ns: None, used_ns: 0 }
    }

    fn next_release(&self, now_ns: u64) -> Option<u64> {
        if !self.ready {
            // Nothing runs it, but what it misses must still be told.
            return self.params.periodic.then_some(self.next_ns);
        }
        let waits = self.waiting.iter().map(|job| job.release_ns).find(|release| *release > now_ns);
        waits.or(self.params.periodic.then_some(self.next_ns))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Runs the schedule in a time that passes as it says; gives when each job was done.
    fn drive(policy: Policy, tasks: &[Params], wcet: &[u64], until: u64) -> BTreeMap<(usize, u64), u64> {
        let mut schedule = Schedule::new(policy, tasks.len());
        tasks.iter().enumerate().for_each(|(place, params)| schedule.add(place, *params, 0));
        let (mut now, mut done) = (0, BTreeMap::new());
        while now < until {
            schedule.release(now, |_, _| {});
            let Some(place) = schedule.choose(now) else {
                now = schedule.next_release(now).unwrap_or(until);
                continue;
            };
            let (interrupt_at, _) = schedule.run(place, now).expect("a job");
            let left = wcet[place] - schedule.job(place).expect("a job").used_ns;
            let ran = left.min(interrupt_at.max(now + 1) - now);
            now += ran;
            schedule.charge(place, ran);
            if ran == left {
                let job = schedule.end(place).expect("a job");
                done.insert((place, job.number), now);
            }
        }
        done
    }

    /// The same by brute force, unit by unit.
    fn reference(policy: Policy, tasks: &[Params], wcet: &[u64], until: u64) -> BTreeMap<(usize, u64), u64> {
        struct Job {
            place: usize,
            number: u64,
            release: u64,
            left: u64,
        }
        let (mut jobs, mut done): (Vec<Job>, _) = (Vec::new(), BTreeMap::new());
        for now in 0..until {
            for (place, task) in tasks.iter().enumerate() {
                if now % task.period_ns == 0 {
                    jobs.push(Job { place, number: now / task.period_ns, release: now, left: wcet[place] });
                }
            }
            let begun = |job: &Job| job.left < wcet[job.place];
            jobs.retain(|job| begun(job) || now < job.release + tasks[job.place].deadline_ns);
            // Of one task the oldest job only.
            let heads = (0..tasks.len()).filter_map(|place| (0..jobs.len()).find(|at| jobs[*at].place == place));
            let place = |job: &Job| job.place as u64;
            let rank = |job: &Job| match policy {
                Policy::Edf => {
                    let due = job.release + tasks[job.place].deadline_ns;
                    (due, u64::from(!begun(job)), job.release, place(job))
                }
                Policy::Rm => (tasks[job.place].period_ns, tasks[job.place].deadline_ns, place(job), 0),
            };
            let Some(at) = heads.min_by_key(|at| rank(&jobs[*at])) else {
                continue;
            };
            jobs[at].left -= 1;
            if jobs[at].left == 0 {
                done.insert((jobs[at].place, jobs[at].number), now + 1);
                jobs.remove(at);
            }
        }
        done
    }

    fn sets() -> impl Strategy<Value = (Vec<Params>, Vec<u64>)> {
        let task = (2_u64..20, 1_u64..40).prop_flat_map(|(period_ns, deadline_ns)| {
            (1..=period_ns.min(deadline_ns).min(8))
                .prop_map(move |wcet| (Params { period_ns, deadline_ns, budget_ns: wcet + 1, periodic: true }, wcet))
        });
        prop::collection::vec(task, 1..5).prop_map(|tasks| tasks.into_iter().unzip())
    }

    proptest! {
        /// What is done, and when, is what a simulation by brute force does (requirement T1).
        #[test]
        fn jobs_run_as_in_the_reference((tasks, wcet) in sets(), rm in any::<bool>()) {
            // Sets that are never done would fill the queues, whose length is no concern of the reference.
            let load: f64 = tasks.iter().zip(&wcet).map(|(task, wcet)| *wcet as f64 / task.period_ns as f64).sum();
            prop_assume!(load <= 1.0);
            let policy = if rm { Policy::Rm } else { Policy::Edf };
            let until = 200;
            let mut found = drive(policy, &tasks, &wcet, until);
            found.retain(|_, done| *done <= until);
            prop_assert_eq!(found, reference(policy, &tasks, &wcet, until));
        }
    }

    const TASK: Params = Params { period_ns: 10, deadline_ns: 10, budget_ns: 4, periodic: true };

    #[test]
    fn a_job_is_interrupted_at_its_budget_or_for_one_that_is_more_urgent() {
        let mut schedule = Schedule::new(Policy::Edf, 2);
        schedule.add(0, Params { period_ns: 100, deadline_ns: 100, budget_ns: 50, periodic: true }, 0);
        schedule.add(1, TASK, 20);
        schedule.release(0, |_, _| {});
        assert_eq!(schedule.run(0, 0), Some((20, true)));
        assert!(!schedule.charge(0, 20));
        schedule.release(20, |_, _| {});
        assert_eq!(schedule.choose(20), Some(1));
        assert_eq!(schedule.run(1, 20), Some((24, true)));
        assert!(schedule.charge(1, 4));
        assert_eq!(schedule.end(1).map(|job| job.used_ns), Some(4));
        assert_eq!(schedule.run(0, 24), Some((30, false)));
    }

    #[test]
    fn what_is_too_late_is_not_begun_and_is_told() {
        let mut schedule = Schedule::new(Policy::Edf, 1);
        schedule.add(0, TASK, 0);
        let mut gone = Vec::new();
        schedule.release(35, |_, job| gone.push(job.number));
        assert_eq!(gone, [0, 1, 2]);
        assert_eq!(schedule.job(0).map(|job| (job.number, job.release_ns)), Some((3, 30)));
        // What cannot run waits, and is told of too.
        schedule.set_ready(0, false);
        assert_eq!(schedule.choose(36), None);
        schedule.release(40, |_, job| gone.push(job.number));
        assert_eq!(gone, [0, 1, 2, 3]);
    }

    #[test]
    fn sporadic_jobs_keep_their_distance() {
        let mut schedule = Schedule::new(Policy::Rm, 1);
        schedule.add(0, Params { periodic: false, ..TASK }, 0);
        assert_eq!(schedule.next_release(5), None);
        assert_eq!(schedule.arrive(0, 5), Ok(0));
        assert_eq!(schedule.arrive(0, 6), Ok(1));
        assert_eq!(schedule.choose(6), Some(0));
        schedule.end(0);
        assert_eq!((schedule.choose(14), schedule.next_release(14)), (None, Some(15)));
        assert_eq!(schedule.choose(15), Some(0));
        assert_eq!((schedule.arrive(0, 15), schedule.arrive(0, 15)), (Ok(2), Ok(3)));
        assert_eq!(schedule.arrive(0, 15), Err(ArriveError::Full));
        assert_eq!(schedule.arrive(9, 15), Err(ArriveError::NoTask));
    }
}
