//! A step that must not be made twice, with policies and audit, beside a synced write of the bytes of its rows and leaves. Both
//! alternate in one turn.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use althing_execution::Turn;
use althing_execution::tools::Tools;
use althing_governance::{FAMILIES, Governance};
use althing_session::SESSION_ROWS;
use althing_store::{Batch, Durability, Family, Range, Store};
use althing_td::Effect;
use futures::future::BoxFuture;

use super::office;
use crate::figures::{Goals, percentile, us};
use crate::sessions::desk::{Desk, FLOOR, store_with};
use crate::sessions::step_tool;

/// Steps, after those that warm up.
const STEPS: usize = 400;
const WARMING: usize = 40;
/// A step without its call, as a multiple of the write; by their medians.
const RATIO_MAX: f64 = 1.35;

#[derive(Default)]
struct Times {
    steps: Vec<Duration>,
    floor: Vec<Duration>,
    /// Bytes of one step's rows and leaves, with their keys.
    bytes: usize,
}

/// What the turn measures, and with what.
struct Bench {
    store: Arc<dyn Store>,
    governance: Governance,
    tools: Tools,
    times: Mutex<Times>,
}

impl Bench {
    async fn step(&self, number: usize) -> Result<Duration, String> {
        let begun = Instant::now();
        step_tool::call(&self.tools, number).await?;
        Ok(begun.elapsed())
    }

    async fn floor(&self, number: usize, bytes: usize) -> Duration {
        let begun = Instant::now();
        let mut batch = Batch::new();
        batch.put(FLOOR, u64::try_from(number).expect("few").to_be_bytes(), vec![7; bytes]);
        self.store.write(batch, Durability::Synced).await.expect("it is written");
        begun.elapsed()
    }

    /// Waits until the disk has all that was written: nothing of what was before is in the next time.
    async fn settle(&self) {
        self.store.write(Batch::new(), Durability::Synced).await.expect("it is synced");
    }

    /// Bytes of all rows of these families.
    fn rows_of(&self, families: &[Family]) -> usize {
        let of = |family: &Family| {
            let rows = self.store.scan(*family, Range::all(1 << 16).within(usize::MAX)).expect("rows");
            rows.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>()
        };
        families.iter().map(of).sum()
    }

    async fn measure(&self) -> Result<(), String> {
        for number in 0..WARMING {
            self.step(number).await?;
        }
        let before = [self.rows_of(&[SESSION_ROWS]), self.rows_of(&FAMILIES)];
        self.step(WARMING).await?;
        let rows = [self.rows_of(&[SESSION_ROWS]) - before[0], self.rows_of(&FAMILIES) - before[1]];
        if rows.contains(&0) {
            return Err(format!("the step wrote {} bytes of its journal and {} of leaves", rows[0], rows[1]));
        }
        let bytes = rows[0] + rows[1];
        let mut times = Times { bytes, ..Times::default() };
        // As in a node, leaves are moved into the log meanwhile.
        let governance = self.governance.clone();
        let keeping = tokio::spawn(async move { governance.run().await });
        for number in 0..STEPS {
            self.settle().await;
            times.steps.push(self.step(WARMING + 1 + number).await?);
            // The floor waits for nothing that moves leaves.
            self.governance.audit().drain().await.map_err(|error| error.to_string())?;
            self.settle().await;
            times.floor.push(self.floor(number, bytes).await);
        }
        keeping.abort();
        *self.times.lock().expect("no holder of it panics") = times;
        Ok(())
    }
}

/// Prints the figure.
pub async fn run(goals: &mut Goals) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = store_with(&folder.path().join("store"), &FAMILIES);
    let governance = office::open(store.clone(), folder.path()).await;
    office::load(&governance).await;
    let gate = office::gate(Some(&governance), Effect::Final);
    let tools = step_tool::tools(office::agent(), gate, Effect::Final, None).await;
    let bench = Arc::new(Bench { store: store.clone(), governance, tools, times: Mutex::default() });
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
        "  a final step without its call, with policies and audit: p50 {:.0} µs, p99 {:.0} µs; a synced write of its bytes and leaves ({} bytes): p50 {:.0} µs, p99 {:.0} µs; ratio of p50 {ratio:.2} {}",
        us(ours),
        us(percentile(&mut times.steps, 0.99)),
        times.bytes,
        us(floor),
        us(percentile(&mut times.floor, 0.99)),
        goals.at_most(ratio, RATIO_MAX),
    );
}
