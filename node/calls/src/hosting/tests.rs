use std::collections::BTreeSet;
use std::thread::{self, ThreadId};

use a2a::{Message, Part, Role};
use althing_execution::Builtins;
use althing_execution::process::ProcessConfig;
use althing_protocol::SecretKey;
use althing_store::{Batch, Durability, Family, MemoryStore, Range, ReadError, Rows, Snapshot, WriteError};
use chrono::DateTime;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::*;
use crate::error::Refusal;
use crate::machine::record::Record;
use crate::operation::Operation;
use crate::push::{PUSH_CONFIGS, PUSH_OUTBOX};
use crate::tasks::live::LISTENERS_MAX;
use crate::tasks::{TASK_SUMMARIES, TASKS};

/// A store that notes on which threads tasks are read.
struct Recorder {
    inner: MemoryStore,
    readers: Mutex<Vec<ThreadId>>,
}

impl Store for Recorder {
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        if family == TASKS {
            self.readers.lock().expect("no panic").push(thread::current().id());
        }
        self.inner.read(family, key)
    }

    fn scan(&self, family: Family, range: Range) -> Result<Rows, ReadError> {
        self.inner.scan(family, range)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.inner.snapshot()
    }

    fn write(&self, batch: Batch, durability: Durability) -> BoxFuture<'static, Result<(), WriteError>> {
        self.inner.write(batch, durability)
    }
}

/// The hosting of an agent for everybody, a caller that has tasks with it, and another one.
struct Setup {
    store: Arc<Recorder>,
    hosting: Hosting,
    agent: AgentId,
    own: Caller,
    other: Caller,
}

impl Setup {
    async fn new() -> Setup {
        let caller = |seed: u8| Caller {
            node: SecretKey::from_seed(&[seed; 32]).public(),
            owner: Some(PublisherId::from_digest([seed; 32])),
        };
        let (own, other, owner) = (caller(1), caller(2), PublisherId::from_digest([1; 32]));
        let inner = MemoryStore::new(&[TASKS, TASK_SUMMARIES, PUSH_CONFIGS, PUSH_OUTBOX]);
        let store = Arc::new(Recorder { inner, readers: Mutex::default() });
        let host = Arc::new(Host::new(Builtins::new(), ProcessConfig::default()));
        let trust = Trust { node: own.node, owner, trusted: BTreeSet::new(), private: false };
        let clock = WallClock::new(|| 1_700_000_000_000);
        let entropy = Entropy::new(|bytes| bytes.fill(7));
        let hosting = Hosting::open(store.clone(), host, watch::channel(trust).1, clock, entropy).await;
        let hosting = hosting.expect("an empty store");
        let agent = AgentId::new(owner, "echo").expect("a name");
        hosting.add(HostedAgent {
            id: agent.clone(),
            callers: CallerRule::Anyone,
            input_modes: Vec::new(),
            barge_in: false,
            is_told_again: false,
            priority: Priority::default(),
        });
        Setup { store, hosting, agent, own, other }
    }

    /// Writes a task of the first caller.
    async fn keep(&self, id: &str, state: TaskState) {
        let now = DateTime::from_timestamp_millis(1_700_000_000_000).expect("a time");
        let message = Message::new(Role::User, vec![Part::text("hi")]);
        let mut task = task::submitted(id.to_owned(), "c".to_owned(), message, now);
        task::set_status(&mut task, state, None, now);
        let scope = Scope::of(self.own.id());
        let record = Record { task, agent: self.agent.name().to_owned(), scope, remembered: None };
        let encoded = Encoded::of(&record).expect("it can be stored");
        self.hosting.tasks().store().write(encoded).await.expect("written");
    }

    async fn call(&self, caller: &Caller, operation: Operation, params: Value) -> Result<Reply, OperationError> {
        let request = OperationRequest::parse(operation, params.to_string().into_bytes())?;
        self.hosting.handle(caller, &self.agent, request, &CallMetadata::default()).await
    }

    async fn subscribe(&self, caller: &Caller, id: &str) -> Result<Reply, OperationError> {
        self.call(caller, Operation::SubscribeToTask, json!({ "id": id })).await
    }
}

/// SG-12: to refuse a listener costs no reading of the task, which may be large. What is on disk here cannot be read.
#[tokio::test]
async fn a_listener_is_refused_before_the_task_is_read() {
    let setup = Setup::new().await;
    setup.keep("waits", TaskState::InputRequired).await;
    setup.keep("over", TaskState::Completed).await;
    let mut listening = Vec::new();
    for _ in 0..LISTENERS_MAX {
        listening.push(setup.subscribe(&setup.own, "waits").await.expect("there is room"));
    }
    let mut damage = Batch::new();
    damage.put(TASKS, b"waits", b"no CBOR").put(TASKS, b"over", b"no CBOR");
    setup.store.write(damage, Durability::Synced).await.expect("written");
    let why = async |caller: &Caller, id: &str| setup.subscribe(caller, id).await.err().map(|error| error.refusal);
    assert_eq!(why(&setup.own, "waits").await, Some(Refusal::Overloaded));
    assert_eq!(why(&setup.other, "waits").await, Some(Refusal::TaskNotFound));
    assert_eq!(why(&setup.own, "over").await, Some(Refusal::Unsupported));
    assert_eq!(why(&setup.own, "none").await, Some(Refusal::TaskNotFound));
    drop(listening);
    assert_eq!(why(&setup.own, "waits").await, Some(Refusal::Internal), "there is room again, and it is read");
}

/// SG-12
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn tasks_are_read_for_lists_and_listeners_where_nothing_else_waits() {
    let setup = Setup::new().await;
    setup.keep("waits", TaskState::InputRequired).await;
    let Ok(Reply::One(page)) = setup.call(&setup.own, Operation::ListTasks, json!({})).await else {
        panic!("a page was asked for");
    };
    let page: Value = serde_json::from_slice(&page).expect("JSON");
    assert_eq!((&page["tasks"][0]["id"], &page["totalSize"]), (&json!("waits"), &json!(1)), "{page}");
    drop(setup.subscribe(&setup.own, "waits").await.expect("there is room"));
    let readers = setup.store.readers.lock().expect("no panic").clone();
    assert_eq!(readers.len(), 2);
    assert!(!readers.contains(&thread::current().id()), "this thread serves everybody");
}
