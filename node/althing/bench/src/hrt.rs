//! `althing bench hrt`: an agent of 10 ms under contract, beside a bare real-time thread and a task of plain tokio, all
//! under the same load; and how jobs that exceed their budget are stopped.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use althing_client::Out;
use althing_control::machine;
use althing_execution::admission::{Config, Core, Policy, Preemption, RtTask, admit};
use althing_execution::hrt::{
    Executor, ExecutorConfig, Fiber, Interrupt, JobRecord, Outcome, Params, Progress, SIGNALS_MAX, Template, Values,
};
use althing_execution::kernel::{Kernel, KernelConfig};
use althing_execution::realtime::{Lateness, Level, RtPriorities, cores, now_ns};
use althing_protocol::contract::OnOverrun;
use serde_json::{Value, json};

use crate::args::BenchHrt;
use crate::error::BenchError;
use crate::figures::{Row, times};
use crate::load::{self, Load};
use crate::summary::{Adherence, Summary};
use crate::windows::{self, BUDGET_US, PERIOD_NS, WORK};
use crate::{goal, not_judged, progress};

/// Jobs of one window.
const WINDOW: u64 = 100;
/// Jobs of the bare thread for each of the agent's.
const NATIVE_SHARE: u64 = 4;
/// Rounds of the calibration job.
const TRIED: u64 = 100_000;
/// One of this many jobs has an injected stall.
const STALL_EVERY: u64 = 20;
const STALL: Duration = Duration::from_millis(20);
/// Jobs on each side from which on a ratio of misses is judged: among fewer a single stall decides.
const RATIO_JOBS_MIN: usize = 1_000;

/// What was measured.
struct Measured {
    native: Row,
    agent: Row,
    missed: u64,
    explained: u64,
    bound_us: f64,
}

/// Runs the benchmark.
pub async fn run(args: &BenchHrt, out: &Out) -> Result<Value, BenchError> {
    let kernel = Kernel::start(KernelConfig::default(), althing_wasm::make_hard);
    let kernel = kernel.map_err(BenchError::not_measured)?;
    progress(out, "probing the machine");
    let probed =
        kernel.promises.probed().await.ok_or_else(|| BenchError::not_measured("the machine could not be probed"))?;
    let module = calibrated(&kernel).await?;
    let priorities = RtPriorities::detect().map_err(BenchError::not_measured)?;
    let core = cores().last().copied().unwrap_or_default();
    let dt = Load::delay_tolerant(&kernel.runtimes, cores().len() * 2);
    dt.soft(&kernel.runtimes, cores().len());
    let measured = windows(args, &kernel, &module, priorities, core, out).await?;
    progress(out, "what runs over its budget");
    let stuck = args.jobs.clamp(20, 1_000);
    let stops = stops(&kernel, stuck).await?;
    progress(out, "a stall planted in a host call");
    let planted = planted(priorities, core, args.jobs.clamp(100, 400)).await?;
    drop(dt);
    progress(out, "the same as a task of plain tokio");
    let plain = Row {
        name: "plain tokio",
        jobs: windows::plain(priorities, core, args.jobs.clamp(20, 1_000), cores().len() * 2).await?,
        deadline_ns: PERIOD_NS,
    };
    let admission = admissions();
    let kept = stops.len() as u64;
    let summary = summary(&measured, Adherence { decided: stuck.max(kept), kept });
    let goals = goals(&measured, &stops, &planted, &admission);
    Ok(json!({
        "benchmark": "althing-hrt/1",
        "machine": machine(&probed),
        "cores": cores().len(),
        "work": { "periodUs": PERIOD_NS / 1_000, "workUs": WORK.as_micros(), "budgetUs": BUDGET_US,
            "load": "2 delay-tolerant tasks that never rest and a 2 ms soft real-time turn each 50 ms, for each core" },
        "classes": [summary.report()],
        "rows": [measured.native.report(), measured.agent.report(), plain.report()],
        "agent": {
            "responseBoundUs": measured.bound_us,
            "missed": measured.missed,
            "explained": measured.explained,
            "misses": measured.agent.misses_listed(),
            "slowest": measured.agent.slowest(),
            "faults": measured.agent.jobs.iter().map(|job| job.faults).sum::<u64>(),
        },
        "stopUs": times(stops),
        "planted": { "jobs": planted.0, "unexplained": planted.1 },
        "admissionUs": times(admission),
        "goals": goals,
    }))
}

/// The agent's jobs; of the contract is decided about those that never end, which it stops after their budget.
fn summary(measured: &Measured, adherence: Adherence) -> Summary {
    let jobs = &measured.agent.jobs;
    let done: Vec<&JobRecord> = jobs.iter().filter(|job| job.outcome == Outcome::Done).collect();
    let used: u64 = done.iter().map(|job| job.used_ns).sum();
    Summary {
        class: "hrt",
        jobs: jobs.len() as u64,
        completed: done.len() as u64,
        missed: Some(measured.missed),
        onset_ns: jobs.iter().map(|job| job.noticed_ns - job.release_ns).collect(),
        adherence,
        processor_us: (!done.is_empty()).then(|| used as f64 / done.len() as f64 / 1e3),
        tokens: None,
    }
}

/// A module whose job works about as long as the bare thread's.
async fn calibrated(kernel: &Kernel) -> Result<String, BenchError> {
    let contract = windows::contract(PERIOD_NS / 1_000, BUDGET_US);
    let (_, records) = windows::agent(kernel, "calibration", &windows::module(TRIED), &contract, 20).await?;
    let took = Lateness::of(records.iter().map(|record| record.used_ns).collect()).quantile(500).max(1);
    let wanted = u64::try_from(WORK.as_nanos()).unwrap_or(u64::MAX);
    Ok(windows::module((TRIED * wanted / took).max(1)))
}

async fn windows(
    args: &BenchHrt,
    kernel: &Kernel,
    module: &str,
    priorities: RtPriorities,
    core: usize,
    out: &Out,
) -> Result<Measured, BenchError> {
    let contract = windows::contract(PERIOD_NS / 1_000, BUDGET_US);
    let row = |name| Row { name, jobs: Vec::new(), deadline_ns: PERIOD_NS };
    let mut measured =
        Measured { native: row("bare thread"), agent: row("agent"), missed: 0, explained: 0, bound_us: 0.0 };
    let mut left = args.jobs;
    while left > 0 {
        let window = left.min(WINDOW);
        progress(out, &format!("jobs of 10 ms: {} of {}", args.jobs - left, args.jobs));
        measured.native.jobs.extend(windows::native(priorities, core, (window / NATIVE_SHARE).max(1)).await?);
        let (hard, records) = windows::agent(kernel, "bench", module, &contract, window).await?;
        measured.agent.jobs.extend(records);
        let tally = &hard.cell.counters;
        measured.missed += tally.missed.load(Ordering::Relaxed);
        measured.explained += tally.explained.load(Ordering::Relaxed);
        measured.bound_us = measured.bound_us.max(hard.admitted.response_bound_ns as f64 / 1e3);
        left -= window;
    }
    Ok(measured)
}

/// How long after its budget was used up a job that never ends was stopped, nanoseconds.
async fn stops(kernel: &Kernel, jobs: u64) -> Result<Vec<u64>, BenchError> {
    let module = r#"(module (func (export "turn") (loop $for_ever (br $for_ever))))"#;
    let budget_us = 1_000;
    let contract = windows::contract(PERIOD_NS / 1_000, budget_us);
    let (_, records) = windows::agent(kernel, "stuck", module, &contract, jobs).await?;
    let stopped = records.iter().filter(|record| record.outcome == Outcome::Overrun);
    Ok(stopped.map(|record| record.used_ns.saturating_sub(budget_us * 1_000)).collect())
}

/// A fiber that blocks the executor, as an unbounded host call would.
struct StallingFiber {
    jobs: u64,
    outputs: Values,
}

impl Fiber for StallingFiber {
    fn begin(&mut self, _: &Values, _: u64) {
        self.jobs += 1;
    }

    fn resume(&mut self) -> Progress {
        load::work(if self.jobs.is_multiple_of(STALL_EVERY) { STALL } else { WORK });
        Progress::Done
    }

    fn outputs(&self) -> &Values {
        &self.outputs
    }
}

struct StallingTemplate;

impl Template for StallingTemplate {
    fn make(&self) -> Result<Box<dyn Fiber>, String> {
        Ok(Box::new(StallingFiber { jobs: 0, outputs: [0.0; SIGNALS_MAX] }))
    }
}

struct Nothing;

impl Interrupt for Nothing {
    fn interrupt(&self) {}
}

/// Jobs with an injected stall, and how many of these count as unexplained misses. The job after a stall is late too and is
/// not counted: each stall counts once.
fn injected_stalls(records: &[JobRecord]) -> (u64, u64) {
    let half_ns = u64::try_from(STALL.as_nanos()).unwrap_or(u64::MAX) / 2;
    let held = || records.iter().filter(|record| record.used_ns >= half_ns);
    let unexplained = held().filter(|record| record.missed && !record.explained);
    (held().count() as u64, unexplained.count() as u64)
}

/// See [`injected_stalls`].
async fn planted(priorities: RtPriorities, core: usize, jobs: u64) -> Result<(u64, u64), BenchError> {
    let config = ExecutorConfig {
        policy: Policy::Edf,
        priorities,
        core: Some(core),
        level: Level::Executor,
        interrupt: Arc::new(Nothing),
        best_effort: None,
    };
    let failed = |error: &dyn std::fmt::Display| BenchError::not_measured(error);
    let executor = Executor::start(&config).map_err(|error| failed(&error))?;
    let params = Params { period_ns: PERIOD_NS, deadline_ns: PERIOD_NS, budget_ns: 10 * PERIOD_NS, periodic: true };
    let placed = executor.add(params, OnOverrun::Skip, Arc::new(StallingTemplate), Vec::new(), Vec::new());
    let placed = placed.map_err(|error| failed(&error))?;
    let mut watch = placed.cell.watch();
    let mut records = Vec::new();
    while (records.len() as u64) < jobs {
        let Some((record, _)) = watch.next().await else { break };
        records.push(record);
    }
    executor.remove(placed.place).await;
    Ok(injected_stalls(&records))
}

/// How long the hundredth task of a core takes to be admitted, nanoseconds.
fn admissions() -> Vec<u64> {
    let config = Config { policy: Policy::Edf, preemption: Preemption::Limited, cap_ppm: 900_000, platform_ns: 50_000 };
    let task = |n: u64| RtTask { section_ns: 50_000, ..RtTask::new(50_000, 10_000_000 + n * 137_000) };
    let mut core = Core::default();
    for n in 0..99 {
        if admit(std::slice::from_ref(&core), task(n), None, &config).is_ok() {
            core.tasks.push((task(n), None));
        }
    }
    let timed = |_| {
        let begun = now_ns();
        std::hint::black_box(admit(std::slice::from_ref(&core), task(99), None, &config))
            .is_ok()
            .then(|| now_ns() - begun)
    };
    (0..200).filter_map(timed).collect()
}

/// A goal of a figure that was measured `times` times; it is missed if that is zero, however small the figure.
fn goal_of(times: usize, name: &str, measured: f64, relation: &str, wanted: f64) -> Value {
    if times > 0 {
        return goal(name, measured, relation, wanted);
    }
    let name = format!("{name}, which was never measured");
    json!({ "name": name, "measured": null, "relation": relation, "wanted": wanted, "holds": false })
}

fn rate(missed: f64, jobs: usize) -> f64 {
    missed / jobs.max(1) as f64
}

fn ratio_of_misses(ratio: f64, native_jobs: usize, agent_jobs: usize) -> Value {
    let (name, wanted) = ("misses, as a ratio to the bare thread's", 1.5);
    if native_jobs.min(agent_jobs) >= RATIO_JOBS_MIN {
        return goal(name, ratio, "≤", wanted);
    }
    let why = format!(
        "{native_jobs} jobs of the bare thread and {agent_jobs} of the agent, {RATIO_JOBS_MIN} of each are needed"
    );
    not_judged(name, ratio, "≤", wanted, &why)
}

fn goals(measured: &Measured, stops: &[u64], planted: &(u64, u64), admission: &[u64]) -> Vec<Value> {
    let Measured { native, agent, missed, explained, bound_us, .. } = measured;
    let native_rate = rate(native.misses().0 as f64, native.jobs.len());
    let agent_rate = rate(*missed as f64, agent.jobs.len());
    // The misses of a bare thread in as many jobs, at least one job: the resolution of the figure.
    let native_rate = native_rate.max(1.0 / agent.jobs.len().max(1) as f64);
    let p99 = |ns: &[u64]| Lateness::of(ns.to_vec()).quantile(990) as f64 / 1e3;
    let (probe, jobs, both) = (native.release_p99(), agent.jobs.len(), agent.jobs.len().min(native.jobs.len()));
    let stopped = "stopped after its budget, p99, µs (bare thread's p99 + 150)";
    let response = "longest response without stalls, µs (the bound that was promised)";
    let done = agent.jobs.iter().filter(|job| job.outcome == Outcome::Done).count();
    vec![
        goal_of(jobs, "unexplained misses of the agent", (missed - explained) as f64, "≤", 0.0),
        ratio_of_misses(agent_rate / native_rate, native.jobs.len(), jobs),
        goal_of(both, "release p99, as a ratio to the bare thread's", agent.release_p99() / probe.max(1.0), "≤", 2.0),
        goal_of(stops.len().min(native.jobs.len()), stopped, p99(stops), "≤", probe + 150.0),
        goal_of(done, response, agent.response_max(), "≤", *bound_us),
        goal("planted stalls that count as unexplained", planted.1 as f64, "≥", planted.0.max(1) as f64),
        goal_of(admission.len(), "admission of the 100th task, p99, µs", p99(admission), "≤", 1_000.0),
    ]
}

/// Job records are kept whole: their order is that of their release.
#[cfg(test)]
mod tests {
    use super::*;

    fn job(release_us: u64, response_us: u64, stalled_us: u64) -> JobRecord {
        let (release_ns, end_ns) = (release_us * 1_000, (release_us + response_us) * 1_000);
        JobRecord {
            number: 0,
            release_ns,
            noticed_ns: release_ns + 20_000,
            end_ns,
            used_ns: 500_000,
            outcome: Outcome::Done,
            missed: response_us > 10_000,
            explained: response_us > 10_000 && stalled_us >= response_us - 10_000,
            stalled_ns: stalled_us * 1_000,
            stolen_ns: 0,
            faults: 0,
            out_of_limits: 0,
        }
    }

    fn measured(jobs: Vec<JobRecord>, missed: u64, explained: u64) -> Measured {
        let row = |name, jobs| Row { name, jobs, deadline_ns: PERIOD_NS };
        let native = row("bare thread", vec![job(0, 520, 0); RATIO_JOBS_MIN]);
        Measured { native, agent: row("agent", jobs), missed, explained, bound_us: 2_200.0 }
    }

    #[test]
    fn a_goal_that_is_missed_is_told() {
        let fine = measured((0..1_000).map(|n| job(n * 10_000, 600, 0)).collect(), 0, 0);
        let holds = |goals: &[Value]| goals.iter().map(|goal| goal["holds"] == true).collect::<Vec<_>>();
        assert!(holds(&goals(&fine, &[10_000; 10], &(5, 5), &[1_000; 10])).iter().all(|holds| *holds));
        let late = measured((0..1_000).map(|n| job(n * 10_000, 12_000, 0)).collect(), 1_000, 0);
        assert_eq!(
            holds(&goals(&late, &[900_000; 10], &(5, 3), &[2_000_000; 10])),
            [false, false, true, false, false, false, false]
        );
        // A miss that a stall explains is not the agent's fault, but still counts in the ratio.
        let stalled = measured((0..1_000).map(|n| job(n * 10_000, 12_000, 11_500)).collect(), 1_000, 1_000);
        assert_eq!(holds(&goals(&stalled, &[], &(5, 5), &[]))[..2], [true, false]);
    }

    #[test]
    fn what_was_never_measured_is_missed_and_not_held() {
        let fine = measured((0..1_000).map(|n| job(n * 10_000, 600, 0)).collect(), 0, 0);
        let missed = |goals: Vec<Value>| -> Vec<usize> {
            let missed = |goal: &Value| goal["holds"] == false && goal["measured"].is_null();
            (0..goals.len()).filter(|at| missed(&goals[*at])).collect()
        };
        assert!(missed(goals(&fine, &[10_000; 10], &(5, 5), &[1_000; 10])).is_empty());
        assert_eq!(missed(goals(&fine, &[], &(5, 5), &[1_000; 10])), [3], "no job was stopped");
        assert_eq!(missed(goals(&fine, &[10_000; 10], &(5, 5), &[])), [6], "no 100th task was admitted");
        let never = measured(Vec::new(), 0, 0);
        assert_eq!(missed(goals(&never, &[10_000; 10], &(5, 5), &[1_000; 10])), [0, 2, 4], "the agent had no job");
        let overrun = |n: u64| JobRecord { outcome: Outcome::Overrun, ..job(n * 10_000, 600, 0) };
        let undone = measured((0..1_000).map(overrun).collect(), 0, 0);
        assert_eq!(missed(goals(&undone, &[10_000; 10], &(5, 5), &[1_000; 10])), [4], "no response to measure");
    }

    #[test]
    fn each_planted_stall_counts_once_and_all_of_them_are_wanted() {
        let held = JobRecord { used_ns: 20_000_000, ..job(0, 20_000, 0) };
        let after = job(10_000, 10_600, 0);
        let excused = JobRecord { explained: true, ..held };
        assert_eq!(
            injected_stalls(&[held, after, held, after, job(0, 600, 0)]),
            (2, 2),
            "the job after one counts for nothing"
        );
        assert_eq!(
            injected_stalls(&[held, after, excused, after]),
            (2, 1),
            "two misses of one plant do not stand for another"
        );
        assert_eq!(injected_stalls(&[job(0, 600, 0)]), (0, 0));
        let fine = measured((0..1_000).map(|n| job(n * 10_000, 600, 0)).collect(), 0, 0);
        let planted = |planted: (u64, u64)| goals(&fine, &[], &planted, &[])[5]["holds"] == true;
        assert!(planted((19, 19)) && !planted((19, 18)) && !planted((0, 0)));
    }

    #[test]
    fn a_ratio_of_misses_is_judged_only_among_enough_jobs_on_both_sides() {
        let ratio = |native, agent| ratio_of_misses(4.0, native, agent)["holds"].as_bool();
        assert_eq!(ratio(RATIO_JOBS_MIN, RATIO_JOBS_MIN), Some(false));
        assert_eq!((ratio(RATIO_JOBS_MIN - 1, 100_000), ratio(100_000, RATIO_JOBS_MIN - 1)), (None, None));
    }
}
