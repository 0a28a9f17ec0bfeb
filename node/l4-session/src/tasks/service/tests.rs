use std::sync::Mutex;
use std::thread::{self, ThreadId};

use a2a::{Message, Part, Role, TaskState};
use althing_call::{CallMetadata, Refusal};
use althing_communication::{CallerRule, Priority};
use althing_execution::Builtins;
use althing_execution::process::ProcessConfig;
use althing_protocol::contract::DataLabel;
use althing_protocol::{Attributes, CallerId, Label, PublisherId, SecretKey};
use althing_store::{Batch, Durability, Family, MemoryStore, Range, ReadError, Rows, Snapshot, WriteError};
use chrono::DateTime;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::*;
use crate::journal::{SESSION_HEADS, SESSION_ROWS};
use crate::machine::record::Record;
use crate::machine::task;
use crate::push::{PUSH_CONFIGS, PUSH_OUTBOX};
use crate::tasks::answers::ANSWERS;
use crate::tasks::live::LISTENERS_MAX;
use crate::tasks::store::{Encoded, TASK_SUMMARIES, TASKS};
use crate::tasks::{HANDOFFS_IN, HANDOFFS_OUT};

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

/// The tasks of an agent, a caller that has tasks with it, and another one.
struct Setup {
    store: Arc<Recorder>,
    tasks: TaskService,
    agent: HostedAgent,
    own: Scope,
    other: Scope,
    /// The label of the tasks that are written.
    label: Option<Label>,
}

impl Setup {
    async fn new() -> Setup {
        let owner = |seed: u8| PublisherId::from_digest([seed; 32]);
        let [own, other] = [1, 2].map(|seed| Scope::of(CallerId::Publisher(owner(seed))));
        let families = [TASKS, TASK_SUMMARIES, ANSWERS, PUSH_CONFIGS, PUSH_OUTBOX, SESSION_HEADS, SESSION_ROWS];
        let inner = MemoryStore::new(&[&families[..], &[HANDOFFS_IN, HANDOFFS_OUT]].concat());
        let store = Arc::new(Recorder { inner, readers: Mutex::default() });
        let host = Arc::new(Host::new(Builtins::new(), ProcessConfig::default()));
        let clock = WallClock::new(|| 1_700_000_000_000);
        let entropy = Entropy::new(|bytes| bytes.fill(7));
        let signer = Signer { key: SecretKey::from_seed(&[1; 32]), network: "testnet".into() };
        let tasks = TaskService::open(store.clone(), host, own, signer, clock, entropy);
        let tasks = tasks.await.expect("an empty store");
        let agent = HostedAgent {
            agent: AgentRef::new(owner(1), "echo", "1.0.0").expect("a name"),
            callers: CallerRule::Anyone,
            input_modes: Vec::new(),
            barge_in: false,
            is_told_again: false,
            priority: Priority::default(),
        };
        Setup { store, tasks, agent, own, other, label: None }
    }

    /// Writes a task of the first caller.
    async fn keep(&self, id: &str, state: TaskState) {
        let now = DateTime::from_timestamp_millis(1_700_000_000_000).expect("a time");
        let message = Message::new(Role::User, vec![Part::text("hi")]);
        let mut task = task::submitted(id.to_owned(), "c".to_owned(), message, now);
        task::set_status(&mut task, state, None, now);
        let record = Record { label: self.label, ..Record::new(task, self.agent.name(), self.own) };
        let encoded = Encoded::of(&record).expect("it can be stored");
        self.tasks.runner.store().write(encoded).await.expect("written");
    }

    async fn subscribe(&self, scope: Scope, id: &str) -> Result<Reply, OperationError> {
        let request = a2a::SubscribeToTaskRequest { id: id.to_owned(), tenant: None };
        self.tasks.subscribe(&self.agent, scope, &request, &CallMetadata::default()).await
    }

    async fn list(&self, scope: Scope) -> Result<Reply, OperationError> {
        let request = serde_json::from_value(json!({})).expect("a request that asks for nothing special");
        self.tasks.list(&self.agent, scope, request, &CallMetadata::default()).await
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
        listening.push(setup.subscribe(setup.own, "waits").await.expect("there is room"));
    }
    let mut damage = Batch::new();
    damage.put(TASKS, b"waits", b"no CBOR").put(TASKS, b"over", b"no CBOR");
    setup.store.write(damage, Durability::Synced).await.expect("written");
    let why = async |scope: Scope, id: &str| setup.subscribe(scope, id).await.err().map(|error| error.refusal);
    assert_eq!(why(setup.own, "waits").await, Some(Refusal::Overloaded));
    assert_eq!(why(setup.other, "waits").await, Some(Refusal::TaskNotFound));
    assert_eq!(why(setup.own, "over").await, Some(Refusal::Unsupported));
    assert_eq!(why(setup.own, "none").await, Some(Refusal::TaskNotFound));
    drop(listening);
    assert_eq!(why(setup.own, "waits").await, Some(Refusal::Internal), "there is room again, and it is read");
}

/// SG-12: nobody else learns of it, nor has it read.
#[tokio::test]
async fn the_version_that_works_on_a_task_is_looked_up_for_its_caller_alone() {
    let setup = Setup::new().await;
    // As rows of before are.
    setup.keep("old", TaskState::InputRequired).await;
    let message = Message::new(Role::User, vec![Part::text("hi")]);
    let task = task::submitted("new".to_owned(), "c".to_owned(), message, DateTime::UNIX_EPOCH);
    let call = CallMetadata::default();
    let record = Record::new(task, setup.agent.name(), setup.own).given_to(&setup.agent.agent, &call);
    let encoded = Encoded::of(&record).expect("it can be stored");
    setup.tasks.runner.store().write(encoded).await.expect("written");
    let version = async |scope: Scope, id: &str| setup.tasks.version_of(&setup.agent, scope, id).await;
    assert_eq!(version(setup.other, "new").await, None);
    assert_eq!(version(setup.own, "none").await, None);
    assert!(setup.store.readers.lock().expect("no panic").is_empty(), "none of that read a task");
    assert_eq!(version(setup.own, "new").await.as_deref(), Some("1.0.0"));
    assert_eq!(version(setup.own, "old").await, None);
}

/// SG-12
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn tasks_are_read_for_lists_and_listeners_where_nothing_else_waits() {
    let setup = Setup::new().await;
    setup.keep("waits", TaskState::InputRequired).await;
    let Ok(Reply::One(page)) = setup.list(setup.own).await else {
        panic!("a page was asked for");
    };
    let page: Value = serde_json::from_slice(&page).expect("JSON");
    assert_eq!((&page["tasks"][0]["id"], &page["totalSize"]), (&json!("waits"), &json!(1)), "{page}");
    drop(setup.subscribe(setup.own, "waits").await.expect("there is room"));
    let readers = setup.store.readers.lock().expect("no panic").clone();
    assert_eq!(readers.len(), 2);
    assert!(!readers.contains(&thread::current().id()), "this thread serves everybody");
}

/// P-201
#[tokio::test]
async fn each_way_to_see_a_task_tells_its_label() {
    let label = Some(Label { level: DataLabel::Confidential, trusted: false });
    let setup = Setup { label, ..Setup::new().await };
    setup.keep("waits", TaskState::InputRequired).await;
    let (tasks, agent, own) = (&setup.tasks, &setup.agent, setup.own);
    let by_id = json!({ "id": "waits" });
    let of = |call: CallMetadata| call.answer.get();

    let call = CallMetadata::default();
    let request = serde_json::from_value(by_id.clone()).expect("a request");
    tasks.get(agent, own, &request, &call).expect("the task");
    let expected = Attributes { label, ..Attributes::default() };
    assert_eq!(of(call), expected);

    let call = CallMetadata::default();
    let request = serde_json::from_value(json!({})).expect("a request that asks for nothing special");
    tasks.list(agent, own, request, &call).await.expect("a page");
    assert_eq!(of(call), expected);

    let call = CallMetadata::default();
    let request = a2a::SubscribeToTaskRequest { id: "waits".to_owned(), tenant: None };
    let _listening = tasks.subscribe(agent, own, &request, &call).await.expect("there is room");
    assert_eq!(of(call), expected);

    let call = CallMetadata::default();
    let request = serde_json::from_value(json!({})).expect("a request that asks for nothing special");
    tasks.list(agent, setup.other, request, &call).await.expect("an empty page");
    assert_eq!(of(call), Attributes::default(), "nothing of it is shown");

    let call = CallMetadata::default();
    let request = serde_json::from_value(by_id).expect("a request");
    tasks.cancel(agent, own, &request, &call).await.expect("it is cancelled");
    assert_eq!(of(call), expected);
}
