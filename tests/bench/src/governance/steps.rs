//! A step that must not be made twice, with policies and audit, beside a synced write of the bytes of its rows and leaves. Both
//! alternate in one turn.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use althing_execution::Turn;
use althing_execution::journal::{Journal, NextStep, Step, StepOutcome};
use althing_execution::tools::{CallKind, ToolCall, ToolGate};
use althing_governance::{FAMILIES, Governance};
use althing_protocol::contract::DataLabel;
use althing_protocol::{AgentRef, Attributes};
use althing_session::SESSION_ROWS;
use althing_store::{Batch, Durability, Range, Store};
use althing_td::Effect;
use futures::future::BoxFuture;
use serde_json::json;

use super::office;
use crate::figures::{Goals, percentile, us};
use crate::sessions::desk::{Desk, FLOOR, store_with};

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
    gate: Arc<dyn ToolGate>,
    agent: AgentRef,
    attributes: Attributes,
    principals: Vec<String>,
    definition: String,
    times: Mutex<Times>,
}

impl Bench {
    async fn step(&self, journal: &dyn Journal, number: usize) -> Duration {
        let begun = Instant::now();
        let arguments = json!({ "step": number });
        let call = ToolCall {
            kind: CallKind::Tool,
            agent: &self.agent,
            task: "task",
            trace: None,
            binding_hash: "",
            label: DataLabel::Internal,
            attributes: &self.attributes,
            carries: None,
            server: "count",
            tool: office::TOOL,
            definition: &self.definition,
            arguments: &arguments,
            principals: &self.principals,
            is_journalled: true,
        };
        let step = Step {
            kind: CallKind::Tool,
            name: office::TOOL,
            arguments: &arguments,
            effect: Effect::Final,
            callee: None,
            gate: Some(self.gate.decide(&call)),
        };
        let (intent, permit) = match journal.step(step).await.expect("the journal takes it") {
            NextStep::Go(intent, permit) => (intent, permit),
            other => panic!("it is permitted: {other:?}"),
        };
        let result = json!({ "content": [{ "type": "text", "text": "Hello" }], "isError": false });
        let settled = self.gate.settle(&call, &permit, Ok(&result)).await;
        let mut rows = permit.rows;
        rows.append(settled);
        let outcome = StepOutcome { result: Ok(result), tokens: 0, label: None };
        journal.done(intent, &outcome, rows).await.expect("the journal takes it");
        begun.elapsed()
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

    /// Bytes of all rows of journals and of governance.
    fn rows(&self) -> usize {
        let of = |family| {
            let rows = self.store.scan(family, Range::all(1 << 16).within(usize::MAX)).expect("rows");
            rows.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>()
        };
        of(SESSION_ROWS) + FAMILIES.into_iter().map(of).sum::<usize>()
    }

    async fn measure(&self, turn: &Turn) -> Result<(), String> {
        let journal = turn.parameters.rights.journal.clone().ok_or("the turn has no journal")?;
        for number in 0..WARMING {
            self.step(&*journal, number).await;
        }
        let before = self.rows();
        self.step(&*journal, WARMING).await;
        let bytes = self.rows() - before;
        let mut times = Times { bytes, ..Times::default() };
        // As in a node, leaves are moved into the log meanwhile.
        let governance = self.governance.clone();
        let keeping = tokio::spawn(async move { governance.run().await });
        for number in 0..STEPS {
            self.settle().await;
            times.steps.push(self.step(&*journal, WARMING + 1 + number).await);
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
    let bench = Arc::new(Bench {
        store: store.clone(),
        gate: office::gate(Some(&governance), Effect::Final),
        governance,
        agent: office::agent(),
        attributes: Attributes::default(),
        principals: vec!["local".to_owned()],
        definition: "ab".repeat(32),
        times: Mutex::default(),
    });
    let measuring = bench.clone();
    let desk = Desk::open(
        store,
        Arc::new(move |turn: Turn| -> BoxFuture<'static, Result<(), String>> {
            let bench = measuring.clone();
            Box::pin(async move { bench.measure(&turn).await })
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
