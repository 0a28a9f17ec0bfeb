//! One step of a turn. Steps and what they are compared with alternate in one turn, so that both see the same disk.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use althing_execution::Turn;
use althing_execution::tools::{ContractGate, Tools};
use althing_session::SESSION_ROWS;
use althing_store::{Batch, Durability, Range, Store};
use althing_td::Effect;
use futures::future::BoxFuture;

use super::desk::{self, Desk, FLOOR, store};
use super::step_tool;
use crate::figures::{Goals, percentile, us};
use crate::tool;

/// Steps of each kind, after those that warm up.
const STEPS: usize = 400;
const WARMING: usize = 40;
/// A step that may be repeated, beside a call and a write that the process outlives.
const REPEATABLE_MAX: f64 = 2.0;
/// A step that must not be made twice, without its call, beside a synced write of its bytes; by their medians.
const FINAL_MAX: f64 = 1.25;

/// The times of both.
#[derive(Default)]
struct Times {
    steps: Vec<Duration>,
    floor: Vec<Duration>,
    /// Bytes of one step's rows, with their keys.
    bytes: usize,
}

/// What one turn measures, and with what.
struct Bench {
    store: Arc<dyn Store>,
    tools: Tools,
    /// What the tool asks: a server, where the call counts too.
    asked: Option<(reqwest::Client, String)>,
    effect: Effect,
    times: Mutex<Times>,
}

impl Bench {
    /// The call of a step that may be repeated; nothing where the sync is what counts.
    async fn call(&self) {
        if let Some((http, tool)) = &self.asked {
            tool::call(http, tool).await;
        }
    }

    async fn step(&self, number: usize) -> Result<Duration, String> {
        let begun = Instant::now();
        step_tool::call(&self.tools, number).await?;
        Ok(begun.elapsed())
    }

    async fn floor(&self, number: usize, bytes: usize) -> Duration {
        let begun = Instant::now();
        self.call().await;
        let mut batch = Batch::new();
        batch.put(FLOOR, u64::try_from(number).expect("few").to_be_bytes(), vec![7; bytes]);
        let durability = if self.effect == Effect::Repeatable { Durability::Buffered } else { Durability::Synced };
        self.store.write(batch, durability).await.expect("it is written");
        begun.elapsed()
    }

    /// Waits until the disk has all that was written: nothing of what was before is in the next time.
    async fn settle(&self) {
        self.store.write(Batch::new(), Durability::Synced).await.expect("it is synced");
    }

    /// Bytes of all rows of journals.
    fn rows(&self) -> usize {
        let rows = self.store.scan(SESSION_ROWS, Range::all(1 << 16).within(usize::MAX)).expect("rows");
        rows.iter().map(|(key, value)| key.len() + value.len()).sum()
    }

    async fn measure(&self) -> Result<(), String> {
        for number in 0..WARMING {
            self.step(number).await?;
        }
        let before = self.rows();
        self.step(WARMING).await?;
        let bytes = self.rows() - before;
        if bytes == 0 {
            return Err("the step is in no journal".to_owned());
        }
        let mut times = Times { bytes, ..Times::default() };
        for number in 0..STEPS {
            self.settle().await;
            times.steps.push(self.step(WARMING + 1 + number).await?);
            self.settle().await;
            times.floor.push(self.floor(number, bytes).await);
        }
        *self.times.lock().expect("no holder of it panics") = times;
        Ok(())
    }
}

/// Prints both figures.
pub async fn run(goals: &mut Goals) {
    let (_server, tool) = tool::started().await;
    for (effect, what, beside, most) in [
        (Effect::Repeatable, "a repeatable step", "the call and a buffered write", REPEATABLE_MAX),
        (Effect::Final, "a final step without its call", "a synced write of its bytes", FINAL_MAX),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path());
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let asked = (effect == Effect::Repeatable).then(|| (http, tool.clone()));
        let gate = Arc::new(ContractGate::new(vec![step_tool::TOOL.to_owned()]));
        let tools = step_tool::tools(desk::agent(), gate, effect, asked.clone()).await;
        let bench = Arc::new(Bench { store: store.clone(), tools, asked, effect, times: Mutex::default() });
        let measuring = bench.clone();
        let desk = Desk::open(
            store,
            Arc::new(move |_: Turn| -> BoxFuture<'static, Result<(), String>> {
                let bench = measuring.clone();
                Box::pin(async move { bench.measure().await })
            }),
        )
        .await;
        let task = desk.send(0, false).await;
        assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
        let mut times = std::mem::take(&mut *bench.times.lock().expect("no holder of it panics"));
        let (ours, floor) = (percentile(&mut times.steps, 0.5), percentile(&mut times.floor, 0.5));
        let ratio = ours.as_secs_f64() / floor.as_secs_f64();
        println!(
            "  {what}: p50 {:.0} µs, p99 {:.0} µs; {beside} ({} bytes): p50 {:.0} µs, p99 {:.0} µs; ratio of p50 {ratio:.2} {}",
            us(ours),
            us(percentile(&mut times.steps, 0.99)),
            times.bytes,
            us(floor),
            us(percentile(&mut times.floor, 0.99)),
            goals.at_most(ratio, most),
        );
    }
}
