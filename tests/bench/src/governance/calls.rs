//! What the gate costs a call without effect: processor time of the process, beside calls that the contract alone decides.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use althing_execution::tools::{Definition, Fault, ToolServer, Tools};
use althing_governance::{FAMILIES, Governance};
use althing_store::{RocksStore, StoreConfig};
use althing_td::Effect;
use futures::future::BoxFuture;
use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use super::office;
use crate::figures::{Goals, median, us};

const ROUNDS: usize = 21;
/// Calls of a round: fewer than the decisions that wait for the next write.
const CALLS: u32 = 1_000;
/// What the gate may add to a call where no policies are loaded, and under a hundred, microseconds.
const WITHOUT_MAX: f64 = 5.0;
const UNDER_POLICIES_MAX: f64 = 60.0;

/// A tool that does nothing.
struct Nothing;

impl ToolServer for Nothing {
    // Its definitions do not change: the listing is not measured.
    fn is_own(&self) -> bool {
        true
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        let tool = Definition::new("say", "", office::schema());
        Box::pin(async { Ok(vec![tool]) })
    }

    fn call<'a>(&'a self, _: &'a str, _: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async { Ok(json!({ "content": [] })) })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// The tools of an agent under some governance, or under its contract alone.
pub struct Caller {
    tools: Tools,
    governance: Option<Governance>,
}

impl Caller {
    pub async fn new(governance: Option<Governance>) -> Caller {
        let server: Arc<dyn ToolServer> = Arc::new(Nothing);
        let gate = office::gate(governance.as_ref(), Effect::None);
        let tools = Tools::new(office::agent(), BTreeMap::from([("count".to_owned(), server)]), gate);
        tools.listed().await;
        Caller { tools, governance }
    }

    /// One call.
    pub async fn call(&self) {
        let (called, _) = self.tools.invoke(office::TOOL, r#"{"step":7}"#).await;
        called.expect("it is permitted");
    }

    /// Writes what is to be written of the calls so far.
    pub async fn sweep(&self) {
        if let Some(governance) = &self.governance {
            governance.sweep().await;
        }
    }

    /// Processor time of a call, microseconds, with what is written of it later.
    async fn cost(&self) -> f64 {
        let begun = processor();
        for _ in 0..CALLS {
            self.call().await;
        }
        self.sweep().await;
        us(processor() - begun) / f64::from(CALLS)
    }
}

/// Processor time of this process so far.
fn processor() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("there is such a clock").into()
}

/// Governance on a store of its own in that folder.
pub async fn governed(folder: &Path) -> Governance {
    let store = RocksStore::open(&folder.join("store"), &FAMILIES, StoreConfig::default()).expect("a store");
    office::open(Arc::new(store), folder).await
}

/// Prints both figures.
pub async fn run(goals: &mut Goals) {
    let folders = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    let [open, ruled] = [governed(folders[0].path()).await, governed(folders[1].path()).await];
    office::load(&ruled).await;
    let floor = Caller::new(None).await;
    let (without, under) = (Caller::new(Some(open)).await, Caller::new(Some(ruled)).await);
    let (mut bare, mut added, mut added_under) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let costs = [floor.cost().await, without.cost().await, under.cost().await];
        if round == 0 {
            continue; // warming up
        }
        bare.push(costs[0]);
        added.push(costs[1] - costs[0]);
        added_under.push(costs[2] - costs[0]);
    }
    let (added, added_under) = (median(added), median(added_under));
    println!(
        "  a call without effect, by its contract alone: {:.1} µs of processor; governance without policies adds {added:.1} µs {}, with them {added_under:.1} µs {}",
        median(bare),
        goals.at_most(added, WITHOUT_MAX),
        goals.at_most(added_under, UNDER_POLICIES_MAX),
    );
}
