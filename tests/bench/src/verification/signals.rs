//! What limits of signals take of a control loop's job, on the executor that runs the job: the example arm with limits and without,
//! and what it takes to show an output that has some.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use althing_execution::hrt::{OutputSignal, SIGNALS_MAX, Values, show};
use althing_execution::kernel::{HardAgent, Kernel, KernelConfig};
use althing_execution::realtime::Lateness;
use althing_protocol::Contract;
use althing_protocol::contract::Class;
use serde_json::{Value, json};

use crate::figures::{Goals, median};

const ARM: &str = include_str!("../../../../examples/robot-arm/arm.wat");
/// Jobs of each of both loops, which run beside each other, one each 10 ms.
const JOBS: usize = 500;
const PERIOD_US: u64 = 10_000;
const DEADLINE_US: u64 = 5_000;
const BUDGET_US: u64 = 500;
/// Outputs that are shown in one round, with limits and without.
const SHOWN: u32 = 200_000;
const ROUNDS: usize = 21;
/// What limits may take, as a share of the time that the job runs.
const SHARE_MAX: f64 = 0.01;
/// Misses more of the loop with limits: a stall of the machine meets one of both.
const MISSES_MORE_MAX: f64 = 1.0;
/// Longer than the jobs take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The contract of the arm whose signals have that prefix.
fn contract(arm: &str, limits: &Value) -> Contract {
    let value = json!({
        "class": {
            "latency": "hrt", "period_us": PERIOD_US, "deadline_us": DEADLINE_US, "budget_us": BUDGET_US,
        },
        "placement": { "min_grade": "C" },
        "signals": {
            "inputs": [format!("{arm}.target"), format!("{arm}.angle"), format!("{arm}.speed")],
            "outputs": [format!("{arm}.torque")],
            "limits": limits,
        },
    });
    Contract::from_value(&value).expect("a sound contract")
}

/// Nanoseconds that it takes to show one output of that contract.
fn showing(contract: &Contract) -> f64 {
    let outputs = OutputSignal::of(&contract.signals, vec![Arc::default()]);
    let mut values: Values = [0.0; SIGNALS_MAX];
    let begun = Instant::now();
    for number in 0..SHOWN {
        values[0] = f64::from(number % 8);
        let broken = show(black_box(&outputs), black_box(&mut values), u64::from(number) + 1);
        assert_eq!(broken, 0, "it is within its limits");
    }
    begun.elapsed().as_secs_f64() * 1e9 / f64::from(SHOWN)
}

/// A loop that runs.
struct Loop {
    hard: HardAgent,
    /// How long its jobs ran, nanoseconds.
    used: Vec<u64>,
}

impl Loop {
    fn start(kernel: &Kernel, name: &str, contract: &Contract) -> Result<Loop, String> {
        let Class::Hrt(class) = &contract.class else { return Err("it is no control loop".to_owned()) };
        let hard = kernel.run_hard(name, contract, class, ARM.as_bytes()).map_err(|error| error.to_string())?;
        Ok(Loop { hard, used: Vec::with_capacity(JOBS) })
    }

    async fn run(&mut self) {
        let mut jobs = self.hard.cell.watch();
        while self.used.len() < JOBS {
            let Some((job, _)) = jobs.next().await else { break };
            self.used.push(job.used_ns);
        }
    }

    fn missed(&self) -> f64 {
        let counters = &self.hard.cell.counters;
        let explained = counters.explained.load(Ordering::Relaxed);
        let unexplained = counters.missed.load(Ordering::Relaxed).saturating_sub(explained);
        f64::from(u32::try_from(unexplained).unwrap_or(u32::MAX))
    }
}

/// Prints both figures; false if no control loop can run here.
pub async fn run(goals: &mut Goals) -> bool {
    let limits = json!({ "limited.torque": { "min": -100, "max": 100, "step": 50 } });
    let (limited, free) = (contract("limited", &limits), contract("free", &json!({})));
    let loops = match run_both(&limited, &free).await {
        Ok(loops) => loops,
        Err(why) => {
            println!("  limits of signals: not measured: {why}");
            return false;
        }
    };
    let mut added = Vec::new();
    for round in 0..=ROUNDS {
        let difference = showing(&limited) - showing(&free);
        if round > 0 {
            added.push(difference); // the first warms up
        }
    }
    let [[limited_ns, limited_missed], [free_ns, free_missed]] = loops;
    let added = median(added);
    let share = added / free_ns;
    println!(
        "  limits of signals: {added:.1} ns of a job that runs {free_ns:.0} ns ({limited_ns:.0} ns with them); share {share:.4} {}; {limited_missed:.0} of {JOBS} jobs missed without a reason, {free_missed:.0} without limits {}",
        goals.at_most(share, SHARE_MAX),
        goals.at_most(limited_missed, free_missed + MISSES_MORE_MAX),
    );
    true
}

/// Of both loops the median time of a job, nanoseconds, and the jobs that missed without a reason.
async fn run_both(limited: &Contract, free: &Contract) -> Result<[[f64; 2]; 2], String> {
    let kernel = Kernel::start(KernelConfig::default(), althing_wasm::make_hard).map_err(|error| error.to_string())?;
    kernel.promises.probed().await.ok_or("the machine could not be probed")?;
    let mut both = [Loop::start(&kernel, "limited", limited)?, Loop::start(&kernel, "free", free)?];
    let [first, second] = &mut both;
    let running = async { tokio::join!(first.run(), second.run()) };
    let ended = tokio::time::timeout(PATIENCE, running).await;
    for one in &both {
        kernel.stop_hard(&one.hard).await;
    }
    ended.map_err(|_| format!("they did not run {JOBS} jobs within {} s", PATIENCE.as_secs()))?;
    Ok(both.map(|one| {
        let (missed, used) = (one.missed(), Lateness::of(one.used).quantile(500));
        [f64::from(u32::try_from(used).unwrap_or(u32::MAX)), missed]
    }))
}
