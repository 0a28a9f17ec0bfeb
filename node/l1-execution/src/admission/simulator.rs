//! Against a simulated core: what is admitted never misses, bounds hold, and what is refused for its demand does miss.

use proptest::prelude::*;

use crate::admission::edf::Edf;
use crate::admission::partition::{Admitted, Config, Core, Hint, Rejected, admit, bounds, partition};
use crate::admission::task::{Policy, Preemption, Reason, RtTask};

/// A job under way.
#[derive(Debug, Clone)]
struct Job {
    task: usize,
    arrived: u64,
    released: u64,
    due: u64,
    left: u64,
    /// Until then no other task runs.
    holds: u64,
}

/// Runs jobs unit by unit; gives the longest response of each task. `late(task, number)` says how late a job is
/// released, up to its jitter; `section` how long a job holds the core once it runs.
fn run(
    tasks: &[RtTask],
    offsets: &[u64],
    until: u64,
    config: &Config,
    mut late: impl FnMut(usize, u64) -> u64,
) -> Vec<u64> {
    let mut longest = vec![0; tasks.len()];
    let mut next: Vec<(u64, u64)> = offsets.iter().map(|offset| (*offset, 0)).collect();
    let mut jobs: Vec<Job> = Vec::new();
    let mut running: Option<usize> = None;
    for now in 0..until {
        for (task, (arrives, number)) in next.iter_mut().enumerate() {
            // A job may be released late, but still arrives in time.
            if *arrives == now {
                let released = now + late(task, *number).min(tasks[task].jitter_ns);
                let due = now + tasks[task].deadline_ns;
                jobs.push(Job { task, arrived: now, released, due, left: tasks[task].wcet_ns, holds: 0 });
                (*arrives, *number) = (now + tasks[task].period_ns, *number + 1);
            }
        }
        let held = running.filter(|at| jobs[*at].holds > 0 && jobs[*at].left > 0);
        let urgent = |job: &Job| match config.policy {
            Policy::Edf => (job.due, job.arrived, job.task),
            Policy::Rm => (tasks[job.task].period_ns, tasks[job.task].deadline_ns, job.task),
        };
        let ready = (0..jobs.len()).filter(|at| jobs[*at].released <= now && jobs[*at].left > 0);
        let Some(at) = held.or_else(|| ready.min_by_key(|at| (urgent(&jobs[*at]), jobs[*at].arrived))) else {
            running = None;
            continue;
        };
        let job = &mut jobs[at];
        if held.is_none() {
            job.holds = tasks[job.task].section(config.preemption).max(1);
        }
        (job.left, job.holds) = (job.left - 1, job.holds - 1);
        running = Some(at);
        if job.left == 0 {
            longest[job.task] = longest[job.task].max(now + 1 - job.arrived);
            jobs.remove(at);
            running = None;
        }
    }
    // Who is not done yet takes longer still.
    for job in &jobs {
        longest[job.task] = longest[job.task].max(until - job.arrived);
    }
    longest
}

fn task() -> impl Strategy<Value = RtTask> {
    (1u64..8, 3u64..30, 0u64..4, 0u64..5).prop_flat_map(|(wcet, period, jitter, section)| {
        (wcet..period * 2 + 8).prop_map(move |deadline_ns| RtTask {
            wcet_ns: wcet,
            period_ns: period,
            deadline_ns,
            jitter_ns: jitter,
            section_ns: section,
            blocking_ns: 0,
        })
    })
}

fn config() -> impl Strategy<Value = Config> {
    let policy = prop_oneof![Just(Policy::Edf), Just(Policy::Rm)];
    let preemption = prop_oneof![Just(Preemption::Full), Just(Preemption::Limited), Just(Preemption::None)];
    (policy, preemption).prop_map(|(policy, preemption)| Config {
        policy,
        preemption,
        cap_ppm: 1_000_000,
        platform_ns: 0,
    })
}

/// One core, one task after the other; gives those that were taken, and the last answer.
fn fill(tasks: &[RtTask], config: &Config) -> (Core, Vec<Result<Admitted, Rejected>>) {
    let mut core = Core::default();
    let mut answers = Vec::new();
    for task in tasks {
        let answer = admit(std::slice::from_ref(&core), *task, None, config);
        if answer.is_ok() {
            core.tasks.push((*task, None));
        }
        answers.push(answer);
    }
    (core, answers)
}

/// The demand of all tasks, looked at for every length: what quick processor-demand analysis must agree with.
fn fits_everywhere(tasks: &[RtTask], preemption: Preemption, until: u64) -> bool {
    (0..until).all(|length| {
        let due = |task: &&RtTask| task.deadline_ns - task.jitter_ns <= length;
        let demand: u64 = tasks
            .iter()
            .filter(due)
            .map(|task| ((length - (task.deadline_ns - task.jitter_ns)) / task.period_ns + 1) * task.wcet_ns)
            .sum();
        let later = tasks.iter().filter(|task| task.deadline_ns > length);
        let blocking = later.map(|task| task.section(preemption).saturating_sub(1)).max().unwrap_or(0);
        demand == 0 || demand + blocking <= length
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, max_global_rejects: 60_000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_admitted_never_misses_and_keeps_its_bound(
        tasks in prop::collection::vec(task(), 1..6),
        offsets in prop::collection::vec(0u64..30, 6),
        config in config(),
        chances in prop::collection::vec(0u64..4, 64),
    ) {
        let (core, _) = fill(&tasks, &config);
        let admitted: Vec<RtTask> = core.tasks.iter().map(|(task, _)| *task).collect();
        // In the order in which they came: of two tasks with one period the first is the more urgent.
        let bounds = bounds(&core, &config).expect("each was admitted beside the others");
        for (offsets, jitter) in [(vec![0; 6], false), (offsets.clone(), false), (offsets, true), (vec![0; 6], true)] {
            let late = |task: usize, number: u64| {
                let chance = chances[(task * 7 + usize::try_from(number).expect("few jobs")) % chances.len()];
                if jitter { chance } else if number == 0 { 3 } else { 0 }
            };
            let longest = run(&admitted, &offsets[..admitted.len()], 600, &config, late);
            for ((task, longest), bound) in admitted.iter().zip(&longest).zip(&bounds) {
                prop_assert!(*longest <= task.deadline_ns, "{task:?} took {longest} among {admitted:?}");
                prop_assert!(longest <= bound, "{task:?} took {longest}, promised {bound}, among {admitted:?}");
            }
        }
    }

    #[test]
    fn quick_demand_analysis_is_demand_analysis(
        tasks in prop::collection::vec(task(), 1..6),
        preemption in prop_oneof![Just(Preemption::Full), Just(Preemption::Limited), Just(Preemption::None)],
    ) {
        let tasks: Vec<RtTask> =
            tasks.into_iter().filter(|task| task.deadline_ns >= task.jitter_ns + task.wcet_ns).collect();
        let wanted: u128 = tasks.iter().map(|t| (u128::from(t.wcet_ns) << 64) / u128::from(t.period_ns)).sum();
        prop_assume!(!tasks.is_empty() && wanted <= 1 << 64);
        let quick = Edf::new(&tasks, preemption).and_then(|edf| edf.check());
        if quick != Err(Reason::TooComplex) {
            prop_assert_eq!(quick.is_ok(), fits_everywhere(&tasks, preemption, 6_000), "{:?}", quick);
        }
    }

    #[test]
    fn who_follows_the_hint_is_admitted(tasks in prop::collection::vec(task(), 2..8), config in config()) {
        let (core, answers) = fill(&tasks, &config);
        for (task, answer) in tasks.iter().zip(answers) {
            let Err(rejected) = answer else { continue };
            let followed = match rejected.hint {
                // What was tried last was tried on fewer tasks than there are now: so ask again.
                _ if admit(std::slice::from_ref(&core), *task, None, &config).is_ok() => continue,
                None => continue,
                Some(_) => {
                    let again = admit(std::slice::from_ref(&core), *task, None, &config).expect_err("refused");
                    match again.hint {
                        Some(Hint::MaxWcetNs(wcet_ns)) => {
                            prop_assert!(wcet_ns < task.wcet_ns);
                            let one_more = RtTask { wcet_ns: wcet_ns + 1, section_ns: task.section_ns.min(wcet_ns + 1), ..*task };
                            let more = admit(std::slice::from_ref(&core), one_more, None, &config);
                            prop_assert!(more.is_err(), "the hint is the largest");
                            RtTask { wcet_ns, section_ns: task.section_ns.min(wcet_ns), ..*task }
                        }
                        Some(Hint::MinPeriodNs(period_ns)) => {
                            prop_assert!(period_ns > task.period_ns);
                            let implicit = task.deadline_ns == task.period_ns;
                            let deadline_ns = if implicit { period_ns } else { task.deadline_ns };
                            RtTask { period_ns, deadline_ns, ..*task }
                        }
                        None => continue,
                    }
                }
            };
            let admitted = admit(std::slice::from_ref(&core), followed, None, &config);
            prop_assert!(admitted.is_ok(), "{followed:?} among {:?}: {admitted:?}", core.tasks);
        }
    }

    #[test]
    fn a_set_that_holds_holds_without_any_of_its_tasks(tasks in prop::collection::vec(task(), 2..6), config in config()) {
        let all = |tasks: &[RtTask]| partition(tasks, 1, &config).verdicts.iter().all(Result::is_ok);
        prop_assume!(all(&tasks));
        for without in 0..tasks.len() {
            let mut fewer = tasks.clone();
            fewer.remove(without);
            prop_assert!(all(&fewer), "without {without}");
        }
    }
}

#[test]
fn a_bound_on_jitter_and_the_machines_own_delays_count() {
    let config = Config { policy: Policy::Edf, preemption: Preemption::Full, cap_ppm: 1_000_000, platform_ns: 0 };
    let mut core = Core::default();
    let tight = RtTask::new(2, 10);
    assert!(admit(std::slice::from_ref(&core), tight, Some(2), &config).is_ok());
    core.tasks.push((tight, Some(2)));
    // A shorter deadline comes in front of the first task, whose jitter was promised to be at most 2.
    let urgent = RtTask { deadline_ns: 3, ..RtTask::new(1, 10) };
    let refused = admit(std::slice::from_ref(&core), urgent, None, &config).expect_err("it would break a promise");
    assert_eq!(refused.reason, Reason::Jitter { task: 0, bound_ns: 3, wanted_ns: 2 });
    let slow = Config { platform_ns: 2, ..config };
    let refused = admit(&[Core::default()], RtTask { deadline_ns: 3, ..tight }, None, &slow).expect_err("too late");
    assert_eq!(refused.reason, Reason::Demand { at_ns: 3, excess_ns: 1 });
    let admitted = admit(&[Core::default()], tight, None, &slow).expect("in time");
    assert_eq!(admitted.response_bound_ns, 4);
}
