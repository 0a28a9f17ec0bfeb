//! Jobs of 10 ms, run in three ways: on a bare real-time thread, as an agent under contract, as a task of tokio.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use althing_execution::hrt::{JobRecord, Outcome};
use althing_execution::kernel::{HardAgent, Kernel};
use althing_execution::realtime::{Level, RtPriorities, now_ns, sleep_until, spawn};
use althing_protocol::Contract;
use serde_json::json;

use crate::error::BenchError;
use crate::load;

/// Period and deadline of a job.
pub const PERIOD_NS: u64 = 10_000_000;
/// The work of each job.
pub const WORK: Duration = Duration::from_micros(500);
/// The budget of a job.
pub const BUDGET_US: u64 = 2_000;
/// A check that is late by more than this is a stall.
const STALL_NS: u64 = 100_000;
const CHECK_NS: u64 = 500_000;

/// Records the machine's own stalls for a bare thread, with the same sentinel as an executor has.
struct StallSentinel {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<Vec<(u64, u64)>>>,
}

impl StallSentinel {
    fn start(priorities: RtPriorities, core: usize) -> Result<StallSentinel, BenchError> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = spawn("bench-sentinel", priorities, Level::Sentinel, Some(core), move || {
            let mut stalls = Vec::with_capacity(65_536);
            while !stopped.load(Ordering::Acquire) {
                let due = now_ns() + CHECK_NS;
                sleep_until(due);
                let now = now_ns();
                if now - due > STALL_NS {
                    stalls.push((due, now));
                }
            }
            stalls
        });
        let thread = thread.map_err(BenchError::not_measured)?;
        Ok(StallSentinel { stop, thread: Some(thread) })
    }

    fn end(mut self) -> Vec<(u64, u64)> {
        self.stop.store(true, Ordering::Release);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

fn judged(mut record: JobRecord, stalls: &[(u64, u64)]) -> JobRecord {
    let inside = |(from, to): &(u64, u64)| (*to).min(record.end_ns).saturating_sub((*from).max(record.release_ns));
    record.stalled_ns = stalls.iter().map(inside).sum();
    let over = record.end_ns.saturating_sub(record.release_ns + PERIOD_NS);
    record.missed = over > 0;
    record.explained = record.missed && record.stalled_ns >= over;
    record
}

fn record(number: u64, release_ns: u64, noticed_ns: u64) -> JobRecord {
    JobRecord {
        number,
        release_ns,
        noticed_ns,
        end_ns: now_ns(),
        used_ns: 0,
        outcome: Outcome::Done,
        missed: false,
        explained: false,
        stalled_ns: 0,
        stolen_ns: 0,
        faults: 0,
        out_of_limits: 0,
    }
}

/// The floor: a thread of the executor's level on its core, that sleeps until each release and works.
pub async fn native(priorities: RtPriorities, core: usize, jobs: u64) -> Result<Vec<JobRecord>, BenchError> {
    let sentinel = StallSentinel::start(priorities, core)?;
    let (done, records) = tokio::sync::oneshot::channel();
    let thread = spawn("bench-native", priorities, Level::Executor, Some(core), move || {
        let first = now_ns() + PERIOD_NS;
        let mut records = Vec::with_capacity(usize::try_from(jobs).unwrap_or_default());
        for number in 0..jobs {
            let release = first + number * PERIOD_NS;
            sleep_until(release);
            let noticed = now_ns().max(release);
            load::work(WORK);
            records.push(record(number, release, noticed));
        }
        let _ = done.send(records);
    });
    thread.map_err(BenchError::not_measured)?;
    let records = records.await.map_err(|_| BenchError::not_measured("the native thread broke down"))?;
    let stalls = sentinel.end();
    Ok(records.into_iter().map(|record| judged(record, &stalls)).collect())
}

/// The peer: a task of tokio's, on a runtime of its own that carries the same load; no contract, no class.
pub async fn plain(
    priorities: RtPriorities,
    core: usize,
    jobs: u64,
    tasks: usize,
) -> Result<Vec<JobRecord>, BenchError> {
    let sentinel = StallSentinel::start(priorities, core)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(BenchError::not_measured)?;
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..tasks {
        let stop = stop.clone();
        runtime.spawn(async move {
            while !stop.load(Ordering::Acquire) {
                load::work(Duration::from_millis(5));
                tokio::task::yield_now().await;
            }
        });
    }
    let ours = runtime.spawn(async move {
        let mut records = Vec::new();
        let first = now_ns();
        let mut ticks = tokio::time::interval(Duration::from_nanos(PERIOD_NS));
        ticks.tick().await;
        for number in 1..=jobs {
            ticks.tick().await;
            let release = first + number * PERIOD_NS;
            let noticed = now_ns().max(release);
            load::work(WORK);
            records.push(record(number, release, noticed));
        }
        records
    });
    let records = ours.await.map_err(BenchError::not_measured)?;
    stop.store(true, Ordering::Release);
    runtime.shutdown_background();
    let stalls = sentinel.end();
    Ok(records.into_iter().map(|record| judged(record, &stalls)).collect())
}

/// A module that works about as long as [`WORK`], and the contract of a job each 10 ms.
pub fn module(rounds: u64) -> String {
    format!(
        r#"(module
  (import "althing" "output" (func $output (param i32 f64)))
  (global $value (mut i64) (i64.const 1))
  (func (export "turn") (local $left i64)
    (local.set $left (i64.const {rounds}))
    (loop $again
      (global.set $value (i64.xor (i64.rotl (i64.mul (global.get $value) (i64.const 6364136223846793005)) (i64.const 17)) (local.get $left)))
      (br_if $again (i64.ne (local.tee $left (i64.sub (local.get $left) (i64.const 1))) (i64.const 0))))
    (call $output (i32.const 0) (f64.convert_i64_s (global.get $value)))))"#
    )
}

/// The contract of these jobs.
pub fn contract(deadline_us: u64, budget_us: u64) -> Contract {
    let value = json!({
        "class": { "latency": "hrt", "period_us": PERIOD_NS / 1_000, "deadline_us": deadline_us, "budget_us": budget_us },
        "placement": { "min_grade": "C" },
    });
    Contract::from_value(&value).expect("a sound contract: every run reads it")
}

/// Runs jobs of an agent until there are that many records.
pub async fn agent(
    kernel: &Kernel,
    name: &str,
    module: &str,
    contract: &Contract,
    jobs: u64,
) -> Result<(HardAgent, Vec<JobRecord>), BenchError> {
    let class = match &contract.class {
        althing_protocol::contract::Class::Hrt(hrt) => hrt,
        _ => return Err(BenchError::not_measured("not a contract of hard real-time")),
    };
    let hard = kernel.run_hard(name, contract, class, module.as_bytes());
    let hard = hard.map_err(|error| BenchError::not_measured(format!("the agent is not admitted: {error}")))?;
    let mut watch = hard.cell.watch();
    let mut records = Vec::new();
    let mut next = 0;
    while records.len() < usize::try_from(jobs).unwrap_or(usize::MAX) {
        let Some((record, _)) = watch.next().await else { break };
        if record.number > next && records.len() > 1 {
            // Lost records would hide misses.
            tracing::debug!(lost = record.number - next, "records come out of order, or are lost");
        }
        next = record.number + 1;
        records.push(record);
    }
    kernel.stop_hard(&hard).await;
    Ok((hard, records))
}
