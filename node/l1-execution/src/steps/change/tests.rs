//! A node that ends while a component changes its memory.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use althing_protocol::contract;
use althing_store::{Durability, MemoryStore, Store as _};
use futures::future::BoxFuture;
use serde_json::json;

use super::*;
use crate::context::{CALL_CONTEXT, CallContext};
use crate::journal::{Checkpoint, Reading, Replay, TurnRights};
use crate::memory::{Embedder, MEMORY, Memories, Memory};
use crate::ports::Ports;
use crate::tools::{ContractGate, Tools};

/// What a step was said to do if it is made twice, and its outcome.
type StepRow = (Effect, Option<StepOutcome>);

/// What is on the disk of a node.
#[derive(Clone)]
struct Disk {
    store: Arc<MemoryStore>,
    rows: Arc<Mutex<Vec<StepRow>>>,
}

/// The journal of one life of a turn.
struct Life {
    disk: Disk,
    next: AtomicUsize,
    /// Whether the node ends before the next write.
    ends: bool,
    /// Whether it has more than steps.
    is_for_code: bool,
}

impl Life {
    fn write(&self, seq: u32, outcome: &StepOutcome) -> Result<(), JournalError> {
        if self.ends {
            return Err(JournalError::Write);
        }
        let place = usize::try_from(seq).expect("few steps");
        self.disk.rows.lock().expect("nobody panics with it")[place].1 = Some(outcome.clone());
        Ok(())
    }
}

impl Journal for Life {
    fn step<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, Result<NextStep, JournalError>> {
        let place = self.next.fetch_add(1, Ordering::SeqCst);
        let mut rows = self.disk.rows.lock().expect("nobody panics with it");
        if rows.len() == place {
            rows.push((step.effect, None));
        }
        let outcome = rows[place].1.clone();
        let intent = Intent { seq: u32::try_from(place).expect("few steps"), key: [0; 32], callee: None };
        let go = NextStep::Go(intent, Permit::default());
        Box::pin(async move { Ok(outcome.map_or(go, NextStep::Replayed)) })
    }

    fn done<'a>(
        &'a self,
        intent: Intent,
        outcome: &'a StepOutcome,
        _: Batch,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(std::future::ready(self.write(intent.seq, outcome)))
    }

    fn replay(&self) -> Option<&dyn Replay> {
        self.is_for_code.then_some(self as &dyn Replay)
    }
}

impl Replay for Life {
    fn seed(&self) -> [u8; 32] {
        [0; 32]
    }

    fn read_clock(&self, now: Reading) -> Result<Reading, JournalError> {
        Ok(now)
    }

    fn checkpoint(&self) -> Option<Checkpoint> {
        None
    }

    fn save<'a>(&'a self, _: &'a Checkpoint) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn done_with<'a>(
        &'a self,
        intent: Intent,
        outcome: &'a StepOutcome,
        changes: Batch,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async move {
            self.write(intent.seq, outcome)?;
            self.disk.store.write(changes, Durability::Synced).await.map_err(|_| JournalError::Write)
        })
    }
}

impl Disk {
    fn new() -> Disk {
        Disk { store: Arc::new(MemoryStore::new(&[MEMORY])), rows: Arc::default() }
    }

    /// The memory of an agent, as after a start of its node.
    fn memory(&self) -> Memory {
        let memories = Memories::new(
            self.store.clone(),
            Arc::new(|| 1_000_000),
            Arc::new(|bytes: &mut [u8]| bytes.fill(7)),
            Arc::new(|_: &str| Ok(None)),
        );
        memories.open("guest", &contract::Memory::default(), Arc::new(Embedder::Words)).expect("opened")
    }

    /// One life of a turn that keeps a value, deletes it, and asks which keys there are.
    async fn live(&self, ends: bool, is_for_code: bool) -> [Result<Value, String>; 3] {
        let life = Life { disk: self.clone(), next: AtomicUsize::new(0), ends, is_for_code };
        let rights = TurnRights { lease: None, journal: Some(Arc::new(life)) };
        let agent = Ports::none().agent_ref("guest", "1.0.0").expect("a name");
        let gate = Arc::new(ContractGate::new(vec!["memory/*".to_owned()]));
        let (tools, memory) = (Tools::new(agent, BTreeMap::new(), gate), self.memory());
        let key = json!({ "key": "a" });
        let turn = async {
            let text = |error: crate::memory::MemoryError| error.to_string();
            let put = async { memory.put("a", b"one").await.map_err(text) };
            let put = tools.permitted("memory/put", &key, put).await.map(|()| Value::Null);
            let delete = async { memory.delete("a").await.map_err(text) };
            let delete = tools.permitted("memory/delete", &key, delete).await.map(Value::from);
            let keys = async { memory.keys("").await.map_err(text) };
            let keys = tools.permitted("memory/keys", &json!({}), keys).await.map(Value::from);
            [put, delete, keys]
        };
        CALL_CONTEXT.scope(CallContext { rights, ..CallContext::default() }, turn).await
    }

    fn effects(&self) -> Vec<Effect> {
        self.rows.lock().expect("nobody panics with it").iter().map(|(effect, _)| *effect).collect()
    }
}

#[tokio::test]
async fn what_a_component_changes_and_what_it_is_told_of_that_are_written_at_once() {
    let disk = Disk::new();
    let cut_off = disk.live(true, true).await;
    assert!(cut_off.iter().all(Result::is_err), "{cut_off:?}");
    assert_eq!(disk.memory().keys("").await, Ok(Vec::new()), "what is not in the journal has not happened");
    disk.rows.lock().expect("nobody panics with it").clear();
    let told = [Ok(Value::Null), Ok(json!(true)), Ok(json!([]))];
    assert_eq!(disk.live(false, true).await, told);
    assert_eq!(disk.effects(), [Effect::Repeatable; 3]);
    // Another turn keeps something there: what goes on does not delete it.
    disk.memory().put("a", b"two").await.expect("kept");
    assert_eq!(disk.live(false, true).await, told, "what it heard");
    assert_eq!(disk.memory().get("a").await, Ok(Some(b"two".to_vec())));
}

#[tokio::test]
async fn a_change_whose_row_cannot_be_in_its_batch_must_not_be_made_twice() {
    let disk = Disk::new();
    assert_eq!(disk.live(false, false).await, [Ok(Value::Null), Ok(json!(true)), Ok(json!([]))]);
    assert_eq!(disk.effects(), [Effect::Final, Effect::Final, Effect::Repeatable]);
}
