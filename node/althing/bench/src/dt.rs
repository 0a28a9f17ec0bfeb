//! `althing bench dt`: which share of the processor time that the other classes leave delay-tolerant work gets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use althing_client::Out;
use althing_control::machine;
use althing_execution::kernel::{Kernel, KernelConfig};
use althing_execution::realtime::{Lateness, cores, now_ns};
use serde_json::{Value, json};

use crate::args::BenchDt;
use crate::error::BenchError;
use crate::load::{self, Load};
use crate::summary::{Summary, adherence};
use crate::windows::{self, BUDGET_US, PERIOD_NS};
use crate::{goal, progress};

/// Rounds of the hard real-time agent's jobs: about half a millisecond.
const ROUNDS: u64 = 200_000;
/// Soft real-time turns: 2 ms of each 50 ms.
const SOFT_SHARE: f64 = 0.04;

/// Runs the benchmark: windows of delay-tolerant work alone, and beside the other two classes, in turn.
pub async fn run(args: &BenchDt, out: &Out) -> Result<Value, BenchError> {
    let kernel = Kernel::start(KernelConfig::default(), althing_wasm::make_hard);
    let kernel = kernel.map_err(BenchError::not_measured)?;
    let probed =
        kernel.promises.probed().await.ok_or_else(|| BenchError::not_measured("the machine could not be probed"))?;
    let all = cores().len();
    let adherence = Box::pin(adherence()).await?;
    let (mut alone, mut beside, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for window in 1..=args.windows {
        progress(out, &format!("window {window} of {}", args.windows));
        alone.push(throughput(&kernel, all, args.seconds).await);
        let load = Load::delay_tolerant(&kernel.runtimes, 0);
        load.soft(&kernel.runtimes, all);
        let jobs = args.seconds * 1_000_000_000 / PERIOD_NS;
        let contract = windows::contract(PERIOD_NS / 1_000, BUDGET_US);
        let module = windows::module(ROUNDS);
        let agent = windows::agent(&kernel, "bench", &module, &contract, jobs);
        let (rate, agent) = tokio::join!(throughput(&kernel, all, args.seconds), agent);
        beside.push(rate);
        let (_, records) = agent?;
        let used: u64 = records.iter().map(|record| record.used_ns).sum();
        shares.push(used as f64 / (records.len().max(1) as u64 * PERIOD_NS) as f64);
    }
    // What is begun is done: nothing stops a unit of work.
    let units = alone.iter().chain(&beside).sum::<f64>() * args.seconds as f64;
    let median = |values: &[f64]| {
        let scaled = values.iter().map(|value| (value * 1e3) as u64).collect();
        Lateness::of(scaled).quantile(500) as f64 / 1e3
    };
    progress(out, "beside threads that never rest");
    let crowded = {
        let _busy = BusyThreads::new(all);
        // The kernel checks once a second whether delay-tolerant work gets its minimum share.
        throughput(&kernel, all, args.seconds.max(5)).await
    };
    let (alone, beside, hard) = (median(&alone), median(&beside), median(&shares));
    let left = (all as f64 - hard - SOFT_SHARE * all as f64) / all as f64;
    let share = beside / (alone * left).max(1.0);
    let summary = Summary {
        class: "dt",
        jobs: units as u64,
        completed: units as u64,
        missed: None,
        onset_ns: Vec::new(),
        adherence,
        processor_us: Some(all as f64 * 1e6 / alone.max(1.0)),
        tokens: None,
    };
    Ok(json!({
        "benchmark": "althing-dt/1",
        "machine": machine(&probed),
        "classes": [summary.report()],
        "cores": all,
        "unitsPerSecond": { "alone": alone, "beside": beside, "besideThreadsThatNeverRest": crowded },
        "promisedShare": { "hrt": hard, "srt": SOFT_SHARE * all as f64, "leftOver": left },
        "slowdown": alone / beside.max(1.0),
        "goals": [
            goal("share of what is left over", share, "≥", 0.95),
            goal("share beside threads that never rest", crowded / alone.max(1.0), "≥", 0.05),
        ],
    }))
}

/// A busy ordinary thread for each core.
struct BusyThreads(Arc<AtomicBool>);

impl BusyThreads {
    fn new(threads: usize) -> BusyThreads {
        let stop = Arc::<AtomicBool>::default();
        for _ in 0..threads {
            let stop = stop.clone();
            std::thread::spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    load::work(Duration::from_millis(5));
                }
            });
        }
        BusyThreads(stop)
    }
}

impl Drop for BusyThreads {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Units of work per second.
async fn throughput(kernel: &Kernel, tasks: usize, seconds: u64) -> f64 {
    let load = Load::delay_tolerant(&kernel.runtimes, tasks * 2);
    // Skips the first moments: earlier load may still run.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (before, begun) = (load.done.load(Ordering::Relaxed), now_ns());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (after, ended) = (load.done.load(Ordering::Relaxed), now_ns());
    (after - before) as f64 * 1e9 / (ended - begun) as f64
}
