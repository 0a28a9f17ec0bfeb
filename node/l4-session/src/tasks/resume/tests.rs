//! The node ends at each write, and starts again on what is on its disk.

mod ahead;
mod cancelled;
mod doubts;
mod interrupted;
mod parked;
mod preempted;
mod recorded;
mod restart;
mod sealed;
mod shares;
mod tenures;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use a2a::{Artifact, Part};
use althing_call::{Operation, OperationError, OperationRequest, Params, Principal, Refusal, Reply};
use althing_communication::{CallerRule, Entropy, Priority, WallClock};
use althing_execution::agent::Made;
use althing_execution::journal::{Effect, NextStep, Step, StepOutcome};
use althing_execution::process::ProcessConfig;
use althing_execution::tools::CallKind;
use althing_execution::{Agent, AgentError, Builtins, Host, Output, Ports, SystemCalls, Turn, TurnRights};
use althing_protocol::{PublisherId, SecretKey};
use althing_store::{Batch, Durability, Family, MemoryStore, Range, Store};
use althing_td::AgentFile;
use althing_testing_store::{FaultStore, WriteEnd};
use futures::StreamExt as _;
use serde_json::{Value, json};

use super::*;
use crate::journal::{SESSION_HEADS, SESSION_ROWS};
use crate::machine::moves::Signer;
use crate::machine::record::Scope;
use crate::machine::session::DOUBT_MS_MAX;
use crate::push::{PUSH_CONFIGS, PUSH_OUTBOX};
use crate::tasks::absence::FIRST_LOOK;
use crate::tasks::answers::ANSWERS;
use crate::tasks::service::TaskService;
use crate::tasks::sessions::{Resolution, ResolutionError, SessionState, Sessions};
use crate::tasks::store::{TASK_SUMMARIES, TASKS};
use crate::tasks::{HANDOFFS_IN, HANDOFFS_OUT};

mod waiting;

const FAMILIES: [Family; 9] =
    [TASKS, TASK_SUMMARIES, ANSWERS, PUSH_CONFIGS, PUSH_OUTBOX, SESSION_HEADS, SESSION_ROWS, HANDOFFS_IN, HANDOFFS_OUT];
const NOW_MS: u64 = 1_700_000_000_000;
/// What the agent of these tests does.
const STEPS: [Effect; 6] =
    [Effect::Repeatable, Effect::Final, Effect::Keyed, Effect::None, Effect::Final, Effect::Final];

/// The keys with which the call of each step was made.
type Keys = BTreeMap<usize, Vec<[u8; 32]>>;

/// What calls did outside, by the number of the world.
static WORLDS: Mutex<BTreeMap<u64, Keys>> = Mutex::new(BTreeMap::new());
static NEXT_WORLD: AtomicU64 = AtomicU64::new(0);

/// From which step on the agent does something else than before, by the number of the world.
static OTHERS: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());

/// The calls of one world.
fn calls(world: u64) -> Keys {
    WORLDS.lock().expect("nobody panics with it").get(&world).cloned().unwrap_or_default()
}

/// Makes the steps one after another.
struct Worker {
    world: u64,
}

impl Agent for Worker {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move {
            let journal =
                turn.parameters.rights.journal.clone().ok_or_else(|| AgentError::Failed("none".to_owned()))?;
            let other = OTHERS.lock().expect("nobody panics with it").get(&self.world).copied().unwrap_or(usize::MAX);
            let mut said = Vec::new();
            for (number, effect) in STEPS.into_iter().enumerate() {
                let arguments = if number < other { json!({ "step": number }) } else { json!({ "other": number }) };
                let gate = parked::gate(self.world, number);
                let (kind, name) = (CallKind::Tool, "count/add");
                let step = Step { kind, name, arguments: &arguments, effect, callee: None, gate, meanwhile: None };
                let outcome = match journal.step(step).await? {
                    NextStep::Replayed(outcome) => {
                        turn.parameters.answer.add_label(outcome.label);
                        outcome
                    }
                    NextStep::Denied(denied) => StepOutcome { result: Err(denied.to_string()), tokens: 0, label: None },
                    NextStep::Ask(ask) => return Err(AgentError::Parked(ask.rest())),
                    NextStep::Go(intent, permit) => {
                        let times = {
                            let mut worlds = WORLDS.lock().expect("nobody panics with it");
                            let keys = worlds.entry(self.world).or_default().entry(number).or_default();
                            // Whoever is called by a key does nothing the second time.
                            if effect != Effect::Keyed || !keys.contains(&intent.key) {
                                keys.push(intent.key);
                            }
                            keys.len()
                        };
                        let outcome = StepOutcome { result: Ok(json!(times)), tokens: 0, label: None };
                        journal.done(intent, &outcome, permit.rows).await?;
                        outcome
                    }
                };
                said.push(outcome.result.unwrap_or_else(|reason| json!(reason)));
            }
            let artifact = Artifact {
                artifact_id: "answer".to_owned(),
                name: None,
                description: None,
                parts: vec![Part::data(json!({ "said": said, "principals": turn.parameters.principals }))],
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

fn worker(config: &Value, _: &Path, _: &SystemCalls) -> Result<Arc<dyn Agent>, String> {
    Ok(Arc::new(Worker { world: config["world"].as_u64().unwrap_or_default() }))
}

/// A disk that the node writes to until it ends: at that write, or just after it. Nothing is written then any more. `left` is twice
/// the writes that take place before that one, and one more if that one still takes place.
fn mortal(disk: &MemoryStore, left: usize) -> FaultStore {
    let (store, mut number) = (FaultStore::over(disk.clone()), 0);
    store.decide(move |batch, _| {
        number += usize::from(!batch.is_empty());
        if batch.is_empty() || number <= left / 2 {
            return WriteEnd::Done;
        }
        WriteEnd::Never { is_applied: left % 2 == 1 && number == left / 2 + 1 }
    });
    store
}

fn owner() -> PublisherId {
    PublisherId::from_digest([1; 32])
}

fn scope() -> Scope {
    Scope::of(CallerId::Publisher(owner()))
}

fn agent_file(world: u64, version: &str, contract: &Value) -> AgentFile {
    let file = json!({
        "name": "worker",
        "version": version,
        "description": "Makes calls",
        "runtime": { "native": { "builtin": "worker", "config": { "world": world } } },
        "contract": contract,
    });
    AgentFile::parse(&file.to_string()).expect("an agent file")
}

fn hosted(version: &str) -> HostedAgent {
    HostedAgent {
        agent: AgentRef::new(owner(), "worker", version).expect("a name"),
        callers: CallerRule::Anyone,
        input_modes: Vec::new(),
        barge_in: false,
        is_told_again: false,
        priority: Priority::default(),
    }
}

/// A node on a disk, until it ends.
struct Node {
    tasks: TaskService,
    agent: HostedAgent,
    /// Its time of day, which stands still.
    now_ms: Arc<AtomicU64>,
}

impl Node {
    async fn start(disk: &MemoryStore, world: u64, version: &str, left: usize) -> Node {
        let contract = json!({ "class": { "latency": "srt" } });
        Node::start_with(disk, (world, version), left, Ports::none(), contract).await
    }

    /// A node with these ports, whose agent has that contract.
    async fn start_with(
        disk: &MemoryStore,
        (world, version): (u64, &str),
        left: usize,
        ports: Ports,
        contract: Value,
    ) -> Node {
        let mut builtins = Builtins::new();
        builtins.insert("worker", worker);
        builtins.insert("waiter", waiting::waiter);
        builtins.insert("caller", doubts::caller);
        let ports = Ports { owner: owner(), ..ports };
        let host = Host::new(builtins, ProcessConfig::default()).with_ports(ports);
        host.start(&agent_file(world, version, &contract), Path::new("/")).expect("it starts");
        Node::over(disk, host, version, left).await
    }

    /// A node with these agents.
    async fn over(disk: &MemoryStore, host: Host, version: &str, left: usize) -> Node {
        Node::on(Arc::new(mortal(disk, left)), host, version, left).await
    }

    /// A node with these agents on that disk; what it draws begins with that number.
    async fn on(store: Arc<dyn Store>, host: Host, version: &str, left: usize) -> Node {
        let now_ms = Arc::new(AtomicU64::new(NOW_MS));
        let (clock, drawn) = (now_ms.clone(), AtomicU64::new(u64::try_from(left).unwrap_or_default()));
        let clock = WallClock::new(move || clock.load(Ordering::Relaxed));
        let entropy = Entropy::new(move |bytes| {
            let drawn = drawn.fetch_add(1, Ordering::Relaxed).to_be_bytes();
            bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = drawn[at % 8]);
        });
        let signer = Signer { key: SecretKey::from_seed(&[1; 32]), network: "testnet".into() };
        let tasks = TaskService::open(store, Arc::new(host), scope(), signer, clock, entropy).await.expect("readable");
        Node { tasks, agent: hosted(version), now_ms }
    }

    /// Adds the agent; its callers may still call it.
    fn add(&self) {
        self.add_if(|| Decision::Allow);
    }

    /// Adds the agent; that is decided on its callers.
    fn add_if(&self, decide: impl Fn() -> Decision + Send + Sync + 'static) {
        let recheck = move |_: Standing| -> BoxFuture<'static, Decision> { Box::pin(std::future::ready(decide())) };
        self.sessions().resume(&self.agent, Arc::new(recheck));
    }

    fn sessions(&self) -> Sessions {
        Sessions::of(&self.tasks)
    }

    /// Sends the message, and does not wait for the end of its turn.
    async fn send(&self) -> Result<String, OperationError> {
        let answer = self.ask(true, TurnRights::default()).await?;
        Ok(answer["task"]["id"].as_str().expect("an id").to_owned())
    }

    /// Sends the message of a task of a group, under that lease, and waits for the end of its turn.
    async fn work(&self, lease: Lease) -> Value {
        self.ask(false, TurnRights::under(lease)).await.expect("it is answered")
    }

    async fn ask(&self, at_once: bool, rights: TurnRights) -> Result<Value, OperationError> {
        self.ask_as(scope(), at_once, rights).await
    }

    /// The same for another caller.
    async fn ask_as(&self, scope: Scope, at_once: bool, rights: TurnRights) -> Result<Value, OperationError> {
        let message = json!({ "messageId": "m-1", "contextId": "c", "role": "ROLE_USER", "parts": [{ "text": "go" }] });
        let params = json!({ "message": message, "configuration": { "returnImmediately": at_once } });
        let request = OperationRequest::parse(Operation::SendMessage, params.to_string().into_bytes());
        let Params::Send(request) = request.expect("a message").params else { panic!("it is a message") };
        let call = CallMetadata { principals: vec![Principal::Local], rights, ..CallMetadata::default() };
        match self.tasks.send(&self.agent, scope, *request, &call, None).await? {
            Reply::One(answer) => Ok(json(&answer)),
            Reply::Events(_) => panic!("one answer"),
        }
    }

    fn task(&self, id: &str) -> Value {
        let request = serde_json::from_value(json!({ "id": id })).expect("a request");
        match self.tasks.get(&self.agent, scope(), &request, &CallMetadata::default()) {
            Ok(Reply::One(task)) => json(&task),
            Ok(Reply::Events(_)) => panic!("one answer"),
            Err(error) => panic!("{error}"),
        }
    }

    fn state(&self, id: &str) -> String {
        self.task(id)["status"]["state"].as_str().expect("a state").to_owned()
    }

    fn said(&self, id: &str) -> String {
        self.task(id)["status"]["message"].to_string()
    }

    async fn settle(&self) {
        settle().await;
    }
}

/// Lets everything run that can, on the one thread of the test. Time stands still meanwhile.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("JSON")
}

fn disk() -> MemoryStore {
    MemoryStore::new(&FAMILIES)
}

fn world() -> u64 {
    NEXT_WORLD.fetch_add(1, Ordering::Relaxed)
}

const UNENDING: usize = usize::MAX;

/// Runs a turn whose node ends at that write; gives the task, if it was begun.
async fn cut_off(disk: &MemoryStore, world: u64, left: usize) -> Option<String> {
    // If the node ends before it answered, or while it starts, nobody is told of a task.
    let living = tokio::spawn({
        let disk = disk.clone();
        async move { Node::start(&disk, world, "1.0.0", left).await.send().await }
    });
    settle().await;
    living.abort();
    let keys = disk.keys(TASKS, Range::all(2)).expect("readable");
    keys.first().map(|key| String::from_utf8_lossy(key).into_owned())
}

#[tokio::test(start_paused = true)]
async fn at_whichever_write_the_node_ends_each_call_takes_place_once_or_is_told_to_be_in_doubt() {
    let (mut doubts, mut whole) = (0, false);
    for left in 0.. {
        assert!(left < 64, "the turn never ended by itself");
        let (disk, world) = (disk(), world());
        let Some(id) = cut_off(&disk, world, left).await else { continue };
        let was_over = Node::start(&disk, world, "1.0.0", UNENDING).await.state(&id) == "TASK_STATE_COMPLETED";
        let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
        let mut again = 0;
        if !was_over {
            assert_eq!(node.sessions().list()[0].state, SessionState::Waiting, "write {left}");
        }
        node.add();
        node.settle().await;
        let in_doubt = node.sessions().list().into_iter().find(|session| session.state == SessionState::InDoubt);
        if let Some(session) = in_doubt {
            doubts += 1;
            let doubt = &session.doubts[0];
            assert_eq!(STEPS[doubt.seq as usize], Effect::Final, "write {left}");
            assert_eq!(node.state(&id), "TASK_STATE_WORKING");
            assert!(node.said(&id).contains("count/add"), "{}", node.said(&id));
            let before = calls(world);
            node.settle().await;
            assert_eq!(calls(world), before, "write {left}: it is not repeated");
            // The owner looks.
            let how = match before.get(&(doubt.seq as usize)) {
                Some(keys) => Resolution::Done(json!(keys.len())),
                None => Resolution::Again,
            };
            node.sessions().settle(&id, doubt.seq, how, &Principal::Local).await.expect("it is in doubt");
            node.settle().await;
            again += 1;
        }
        assert_eq!(node.state(&id), "TASK_STATE_COMPLETED", "write {left}: {}", node.task(&id));
        let answer = &node.task(&id)["artifacts"];
        assert_eq!(answer.as_array().map(Vec::len), Some(1), "write {left}");
        assert_eq!(answer[0]["parts"][0]["data"]["principals"], json!(["local"]), "write {left}");
        let made = calls(world);
        for (number, effect) in STEPS.into_iter().enumerate() {
            let keys = &made[&number];
            if matches!(effect, Effect::Keyed | Effect::Final) {
                assert_eq!(keys.len(), 1, "write {left}, step {number}");
            }
            assert!(keys.iter().all(|key| *key == keys[0]), "write {left}, step {number}: one key");
        }
        assert!(again <= 1);
        for family in [SESSION_ROWS, SESSION_HEADS] {
            assert!(
                disk.keys(family, Range::all(1)).expect("readable").is_empty(),
                "write {left}: it ends with its task"
            );
        }
        if was_over {
            whole = true;
            break;
        }
    }
    assert!(whole && doubts >= 3, "{doubts} calls were in doubt");
}

/// A node on whose disk a call is in doubt.
async fn in_doubt() -> (MemoryStore, u64, String) {
    for left in 0..64 {
        let (disk, world) = (disk(), world());
        let Some(id) = cut_off(&disk, world, left).await else { continue };
        let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
        if node.sessions().list().iter().any(|session| !session.doubts.is_empty()) {
            return (disk, world, id);
        }
    }
    panic!("no call was in doubt");
}

#[tokio::test(start_paused = true)]
async fn a_doubt_that_nobody_ends_fails_its_task_after_a_day_and_survives_other_ends_of_the_node() {
    let (disk, world, id) = in_doubt().await;
    for _ in 0..2 {
        let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
        node.add();
        node.settle().await;
        assert_eq!(node.state(&id), "TASK_STATE_WORKING");
        node.tasks.end_turns();
        node.settle().await;
        assert_eq!(node.tasks.count(), 0);
    }
    let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
    node.add();
    node.settle().await;
    node.now_ms.store(NOW_MS + DOUBT_MS_MAX, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(DOUBT_MS_MAX + 1)).await;
    node.settle().await;
    assert_eq!(node.state(&id), "TASK_STATE_FAILED");
    assert!(node.said(&id).contains("IN_DOUBT: "), "{}", node.said(&id));
    assert!(node.sessions().list().is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_what_is_in_doubt_can_be_ended() {
    let (disk, world, id) = in_doubt().await;
    let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
    let say =
        async |task: &str, seq: u32, how: Resolution| node.sessions().settle(task, seq, how, &Principal::Local).await;
    let none = say("no-such-task", 1, Resolution::Again).await;
    assert_eq!(none, Err(ResolutionError::NoTask { task: "no-such-task".to_owned() }));
    let early = say(&id, 1, Resolution::Again).await;
    let waiting = ResolutionError::Waiting { task: id.clone(), agent: "worker".to_owned() };
    assert_eq!(early, Err(waiting), "it is listed, and its agent is not here yet");
    node.add();
    node.settle().await;
    let doubt = node.sessions().list()[0].doubts[0].seq;
    let other = say(&id, doubt + 1, Resolution::Again).await;
    assert_eq!(other, Err(ResolutionError::NotInDoubt { task: id.clone(), seq: doubt + 1, doubts: vec![doubt] }));
    assert!(other.is_err_and(|error| error.to_string().ends_with(&format!("is not in doubt: its step {doubt} is"))));
    let long = say(&id, doubt, Resolution::Done(json!("x".repeat(5 << 20)))).await;
    assert!(matches!(long, Err(ResolutionError::TooLong { .. })));
    assert_eq!(say(&id, doubt, Resolution::Failed).await, Ok(()));
    node.settle().await;
    assert_eq!(node.state(&id), "TASK_STATE_COMPLETED", "the agent goes on with the failure");
}

#[tokio::test(start_paused = true)]
async fn whoever_subscribes_before_the_agent_is_there_hears_the_end() {
    let (disk, world) = (disk(), world());
    let id = cut_off(&disk, world, 4).await.expect("it was begun");
    let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
    let request = a2a::SubscribeToTaskRequest { id: id.clone(), tenant: None };
    let subscribed = node.tasks.subscribe(&node.agent, scope(), &request, &CallMetadata::default()).await;
    let Ok(Reply::Events(events)) = subscribed else { panic!("it is not over") };
    node.add();
    let heard: Vec<Value> = events.map(|event| json(&event.expect("an event"))).collect().await;
    assert_eq!(heard[0]["task"]["id"], json!(id));
    assert_eq!(heard.last().expect("an end")["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");
}

#[tokio::test(start_paused = true)]
async fn a_task_says_why_it_does_not_go_on() {
    // Another version, a caller that may not call it any more, and rows that are damaged.
    for (version, may, is_damaged, why) in [
        ("1.0.1", true, false, "VERSION_CHANGED: "),
        ("1.0.0", false, false, "may not call this agent any more"),
        ("1.0.0", true, true, "DAMAGED: "),
    ] {
        let (disk, world) = (disk(), world());
        // Rows come after the task itself.
        let id = cut_off(&disk, world, if is_damaged { 8 } else { 4 }).await.expect("it was begun");
        if is_damaged {
            let rows = disk.scan(SESSION_ROWS, Range::all(1)).expect("readable");
            let (key, _) = rows.first().expect("it has rows");
            let mut damage = Batch::new();
            damage.put(SESSION_ROWS, key.clone(), b"no row".to_vec());
            disk.write(damage, Durability::Synced).await.expect("written");
        }
        let before = calls(world);
        let node = Node::start(&disk, world, version, UNENDING).await;
        node.add_if(move || if may { Decision::Allow } else { Decision::Deny(OperationError::internal("no")) });
        node.settle().await;
        tokio::time::sleep(VERSION_PATIENCE + RETRY * 2).await;
        node.settle().await;
        assert_eq!(node.state(&id), "TASK_STATE_FAILED", "{why}");
        assert!(node.said(&id).contains(why), "{}", node.said(&id));
        assert_eq!(calls(world), before, "nothing was called again");
        // What its agent lost is named; where its caller may not go on, it lost nothing.
        let lost = node.sessions().lost();
        let named: Vec<bool> = lost.iter().map(|loss| loss.task == id && loss.why.contains(why)).collect();
        assert_eq!(named, if may { vec![true] } else { Vec::new() }, "{why}: {lost:?}");
        // Another one is taken all the same.
        let other = Node::start(&self::disk(), self::world(), version, UNENDING).await;
        let other_id = other.send().await.expect("it is accepted");
        other.settle().await;
        assert_eq!(other.state(&other_id), "TASK_STATE_COMPLETED");
    }
}

/// Nobody is asked again at once, and the task fails neither when it is asked about nor while that takes.
#[tokio::test(start_paused = true)]
async fn a_turn_to_which_somebody_must_consent_waits_until_then() {
    let (disk, world) = (disk(), world());
    let id = cut_off(&disk, world, 4).await.expect("it was begun");
    let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
    let (asked, consents) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
    let (counted, given) = (asked.clone(), consents.clone());
    node.add_if(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        let to = || Consent { to: "going on".to_owned() };
        if given.load(Ordering::Relaxed) { Decision::Allow } else { Decision::Ask(to()) }
    });
    let before = calls(world);
    for times in 1..=3 {
        node.settle().await;
        tokio::time::sleep(RETRY * 2).await;
        node.settle().await;
        assert_eq!(asked.load(Ordering::Relaxed), times);
        let list = node.sessions().list();
        assert_eq!((list.len(), list[0].state, &list[0].task), (1, SessionState::Waiting, &id));
        assert_eq!(calls(world), before, "nothing was called");
        if times == 3 {
            consents.store(true, Ordering::Relaxed);
        }
        tokio::time::sleep(CONSENT_RETRY).await;
    }
    node.settle().await;
    assert_eq!(asked.load(Ordering::Relaxed), 4);
    assert_eq!(node.state(&id), "TASK_STATE_COMPLETED", "{}", node.task(&id));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_stopped_leaves_its_turns_and_goes_on_with_them() {
    let (disk, world, id) = in_doubt().await;
    let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
    node.add();
    node.settle().await;
    node.tasks.end_turns();
    node.settle().await;
    let again = Node::start(&disk, world, "1.0.0", UNENDING).await;
    assert_eq!(again.sessions().list()[0].state, SessionState::Waiting);
    again.add();
    again.settle().await;
    let list = again.sessions().list();
    assert_eq!((list.len(), list[0].state, &list[0].task), (1, SessionState::InDoubt, &id));
}

#[tokio::test(start_paused = true)]
async fn whoever_follows_a_task_is_told_that_its_node_is_being_stopped_and_the_task_goes_on() {
    let (disk, world, id) = in_doubt().await;
    let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
    node.add();
    node.settle().await;
    let follow = async || {
        let request = a2a::SubscribeToTaskRequest { id: id.clone(), tenant: None };
        node.tasks.subscribe(&node.agent, scope(), &request, &CallMetadata::default()).await
    };
    let Ok(Reply::Events(events)) = follow().await else { panic!("it is not over") };
    node.tasks.end_turns();
    node.settle().await;
    let told: Vec<Result<Vec<u8>, OperationError>> = events.collect().await;
    assert_eq!(json(told[0].as_ref().expect("the task"))["task"]["id"], json!(id));
    let refused: Vec<&OperationError> = told.iter().filter_map(|event| event.as_ref().err()).collect();
    assert!(refused.len() == 1 && told.last().is_some_and(Result::is_err), "{refused:?}");
    assert_eq!(refused[0].refusal, Refusal::TurnLeft, "{refused:?}");
    let again = follow().await.err().expect("nothing more is told of it here");
    assert_eq!(again.refusal, Refusal::TurnLeft, "{again}");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ended_has_no_session() {
    let node = Node::start(&disk(), world(), "1.0.0", UNENDING).await;
    let id = node.send().await.expect("it is accepted");
    node.settle().await;
    assert_eq!(node.state(&id), "TASK_STATE_COMPLETED");
    assert!(node.sessions().list().is_empty());
    let said = node.sessions().settle(&id, 1, Resolution::Again, &Principal::Local).await;
    assert!(matches!(said, Err(ResolutionError::NoTask { .. })), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_agent_does_not_come_back_fails_after_a_day_and_says_what_is_in_doubt() {
    let (disk, world, id) = in_doubt().await;
    let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
    assert_eq!(node.state(&id), "TASK_STATE_SUBMITTED");
    tokio::time::sleep(FIRST_LOOK + RETRY).await;
    node.settle().await;
    node.now_ms.store(NOW_MS + DOUBT_MS_MAX, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(DOUBT_MS_MAX + 1)).await;
    node.settle().await;
    assert_eq!(node.state(&id), "TASK_STATE_FAILED");
    let said = node.said(&id);
    assert!(said.contains("NOT_RESUMABLE: ") && said.contains("count/add"), "{said}");
}

const HOUR_MS: u64 = DOUBT_MS_MAX / 24;

/// A node that is up for its first look, that many hours after the first one.
async fn hours_later(disk: &MemoryStore, world: u64, hours: u64) -> Node {
    let node = Node::start(disk, world, "1.0.0", UNENDING).await;
    node.now_ms.store(NOW_MS + hours * HOUR_MS, Ordering::Relaxed);
    tokio::time::sleep(FIRST_LOOK + RETRY).await;
    node.settle().await;
    node
}

#[tokio::test(start_paused = true)]
async fn the_day_for_a_task_whose_agent_does_not_come_back_goes_on_over_starts_of_its_node() {
    let (disk, world, id) = in_doubt().await;
    for hours in [0, 12, 23] {
        let node = hours_later(&disk, world, hours).await;
        assert_eq!(node.state(&id), "TASK_STATE_SUBMITTED", "after {hours} hours");
    }
    let node = hours_later(&disk, world, 24).await;
    assert_eq!(node.state(&id), "TASK_STATE_FAILED");
    assert!(node.said(&id).contains("NOT_RESUMABLE: "), "{}", node.said(&id));
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_agent_came_back_has_waited_no_time() {
    let (disk, world, id) = in_doubt().await;
    drop(hours_later(&disk, world, 0).await);
    let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
    let waits_ms = |node: &Node| node.tasks.runner.store().summary(&id).and_then(|summary| summary.waits_ms);
    assert_eq!(waits_ms(&node), Some(NOW_MS));
    node.add();
    node.settle().await;
    assert_eq!((node.state(&id).as_str(), waits_ms(&node)), ("TASK_STATE_WORKING", None));
    node.tasks.end_turns();
    node.settle().await;
    let node = hours_later(&disk, world, 30).await;
    assert_ne!(node.state(&id), "TASK_STATE_FAILED", "it waits from now on");
}
