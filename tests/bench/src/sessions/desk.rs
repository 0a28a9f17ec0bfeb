//! The tasks of one agent on a store on the disk, without a network: what a journal costs, and nothing else.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use althing_call::{CallMetadata, Decision, Operation, OperationRequest, Params, Principal, Reply};
use althing_communication::{CallerRule, Entropy, Priority, WallClock};
use althing_execution::agent::Made;
use althing_execution::process::ProcessConfig;
use althing_execution::{Agent, AgentError, Builtins, Host, Output, Ports, SystemCalls, Turn};
use althing_protocol::contract::TurnRecord;
use althing_protocol::{AgentRef, CallerId, PublisherId, SecretKey};
use althing_session::{
    ANSWERS, HANDOFFS_IN, HANDOFFS_OUT, HostedAgent, PUSH_CONFIGS, PUSH_OUTBOX, Recheck, SESSION_HEADS, SESSION_ROWS,
    Scope, Sessions, Signer, Standing, TASK_SUMMARIES, TASKS, TaskService,
};
use althing_store::{Family, RocksStore, Store, StoreConfig};
use althing_td::AgentFile;
use futures::future::BoxFuture;
use rand::Rng as _;
use serde_json::{Value, json};

/// What is written beside the journal, for comparison.
pub const FLOOR: Family = Family("bench.floor");
const FAMILIES: [Family; 10] = [
    TASKS,
    TASK_SUMMARIES,
    ANSWERS,
    PUSH_CONFIGS,
    PUSH_OUTBOX,
    SESSION_HEADS,
    SESSION_ROWS,
    HANDOFFS_IN,
    HANDOFFS_OUT,
    FLOOR,
];
const AGENT: &str = "worker";
const VERSION: &str = "1.0.0";

/// What a turn does.
pub type Work = Arc<dyn Fn(Turn) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// What the turns of this process do: builtins are given nothing but their configuration.
static WORK: Mutex<Option<Work>> = Mutex::new(None);

struct Worker(Work);

impl Agent for Worker {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move {
            (self.0)(turn).await.map_err(AgentError::Failed)?;
            let artifact = a2a::Artifact {
                artifact_id: "answer".to_owned(),
                name: None,
                description: None,
                parts: vec![a2a::Part::text("done")],
                metadata: None,
                extensions: None,
            };
            out.put(Made::Artifact { artifact, append: false, last: true }).await
        })
    }

    fn is_resumable(&self) -> bool {
        true
    }
}

fn worker(_: &Value, _: &Path, _: &SystemCalls) -> Result<Arc<dyn Agent>, String> {
    let work = WORK.lock().expect("no holder of it panics").clone();
    Ok(Arc::new(Worker(work.ok_or("there is nothing to do")?)))
}

/// The service, with the one agent and the store below it.
pub struct Desk {
    tasks: TaskService,
    agent: HostedAgent,
}

/// Opens the store in a folder.
pub fn store(folder: &Path) -> Arc<dyn Store> {
    store_with(folder, &[])
}

/// The same with more families.
pub fn store_with(folder: &Path, more: &[Family]) -> Arc<dyn Store> {
    let families = [&FAMILIES[..], more].concat();
    Arc::new(RocksStore::open(folder, &families, StoreConfig::default()).expect("a store"))
}

impl Desk {
    /// On that store, with an agent whose turns do that.
    pub async fn open(store: Arc<dyn Store>, work: Work) -> Desk {
        Desk::recording(store, work, TurnRecord::None).await
    }

    /// The same, which keeps that of turns that are over.
    pub async fn recording(store: Arc<dyn Store>, work: Work, record: TurnRecord) -> Desk {
        *WORK.lock().expect("no holder of it panics") = Some(work);
        let mut builtins = Builtins::new();
        builtins.insert(AGENT, worker);
        let ports = Ports { owner: owner(), ..Ports::none() };
        let host = Host::new(builtins, ProcessConfig::default()).with_ports(ports);
        let file = json!({
            "name": AGENT,
            "version": VERSION,
            "description": "Makes calls",
            "runtime": { "native": { "builtin": AGENT, "config": {} } },
            "contract": { "class": { "latency": "srt" }, "record": record },
        });
        let file = AgentFile::parse(&file.to_string()).expect("an agent file");
        host.start(&file, Path::new("/")).expect("it starts");
        let signer = Signer { key: SecretKey::from_seed(&[1; 32]), network: "bench".into() };
        let clock = WallClock::new(now_ms);
        let entropy = Entropy::new(|bytes| rand::rng().fill(bytes));
        let opened = TaskService::open(store, Arc::new(host), scope(), signer, clock, entropy).await;
        let agent = HostedAgent {
            agent: agent(),
            callers: CallerRule::Anyone,
            input_modes: Vec::new(),
            barge_in: false,
            is_told_again: false,
            priority: Priority::default(),
        };
        Desk { tasks: opened.expect("the store can be read"), agent }
    }

    /// Sends a message of its own; answered at once, or when its turn is over. Gives the task.
    pub async fn send(&self, number: usize, is_at_once: bool) -> Value {
        let message = json!({
            "messageId": format!("m-{number}"),
            "contextId": format!("c-{number}"),
            "role": "ROLE_USER",
            "parts": [{ "text": number.to_string() }],
        });
        let params = json!({ "message": message, "configuration": { "returnImmediately": is_at_once } });
        let request = OperationRequest::parse(Operation::SendMessage, params.to_string().into_bytes());
        let Params::Send(request) = request.expect("a message").params else { panic!("it is a message") };
        let call = CallMetadata { principals: vec![Principal::Local], ..CallMetadata::default() };
        let answer = self.tasks.send(&self.agent, scope(), *request, &call, None).await.expect("it is accepted");
        let Reply::One(answer) = answer else { panic!("it is one answer") };
        serde_json::from_slice::<Value>(&answer).expect("JSON")["task"].take()
    }

    /// Its unfinished turns go on, in the background.
    pub fn resume(&self) {
        let recheck: Recheck =
            Arc::new(|_: Standing| -> BoxFuture<'static, Decision> { Box::pin(std::future::ready(Decision::Allow)) });
        Sessions::of(&self.tasks).resume(&self.agent, recheck);
    }
}

/// Whose tasks those are.
pub fn agent() -> AgentRef {
    AgentRef::new(owner(), AGENT, VERSION).expect("a name")
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("a while yet")
}

fn owner() -> PublisherId {
    PublisherId::from_digest([1; 32])
}

fn scope() -> Scope {
    Scope::of(CallerId::Publisher(owner()))
}
