//! A task is cancelled whose work is given away, before anybody knows whether that has begun; and its result comes before its agent
//! runs.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Mutex;

use a2a::Artifact;
use althing_communication::{Entropy, WallClock};
use althing_execution::agent::{Hold, OutputGate};
use althing_execution::process::ProcessConfig;
use althing_execution::{Agent, Builtins, GatedTurn, Host, Output, Ports, Turn};
use althing_protocol::{AgentId, AgentRef, CallerId, PublicKey, PublisherId, SecretKey, object};
use althing_store::{MemoryStore, Store as _};
use althing_td::AgentFile;
use chrono::DateTime;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::time::Instant;

use super::*;
use crate::journal::{SESSION_HEADS, SESSION_ROWS};
use crate::machine::handoff::COMMIT_WITHIN_MS;
use crate::machine::moves::Signer;
use crate::machine::record::{Record, Scope};
use crate::push::{PUSH_CONFIGS, PUSH_OUTBOX};
use crate::tasks::answers::ANSWERS;
use crate::tasks::handoffs::{HANDOFFS_IN, HANDOFFS_OUT, HandoffCall, HandoffService};
use crate::tasks::service::TaskService;
use crate::tasks::store::{Encoded, TASK_SUMMARIES, TASKS};

const NETWORK: &str = "testnet";
const ID: [u8; 16] = [0x01, 0x8b, 0xcf, 0xe5, 0x68, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, 0xaa];
/// The task of which the work is given away, and the one that the work becomes.
const OURS: &str = "t-1";
const THEIRS: &str = "t-2";
/// What the recipient made.
const WORD: &str = "quicksand";

/// What an agent that takes work answers to whoever cancels that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// It is cancelled.
    Cancelled,
    /// It has no such task.
    NotFound,
    /// It is over.
    Over,
    /// Nothing comes.
    Nothing,
}

/// An agent that takes work, and whose answer to a commit never comes.
struct Recipient {
    /// In turn; the last one again and again.
    answers: Mutex<VecDeque<Answer>>,
    /// How the work's task is, if that is shown.
    state: Option<TaskState>,
}

fn task_of(id: &str, state: TaskState) -> Task {
    let now = DateTime::UNIX_EPOCH;
    let mut made =
        task::submitted(id.to_owned(), "c".to_owned(), Message::new(Role::User, vec![Part::text("go")]), now);
    task::set_status(&mut made, state, None, now);
    made
}

impl Recipient {
    fn answer(&self, operation: Operation) -> Result<Reply, OperationError> {
        let nothing = || OperationError::agent_unreachable("no host of it answers");
        if operation == Operation::GetTask {
            let shown = task_of(THEIRS, self.state.clone().ok_or_else(nothing)?);
            let made = Artifact {
                artifact_id: "answer".to_owned(),
                name: None,
                description: None,
                parts: vec![Part::text(WORD)],
                metadata: None,
                extensions: None,
            };
            return Reply::json(&Task { artifacts: Some(vec![made]), ..shown });
        }
        if operation != Operation::CancelTask {
            return Err(nothing());
        }
        let mut answers = self.answers.lock().expect("nobody panics with it");
        let next = answers.front().copied().unwrap_or(Answer::Nothing);
        if answers.len() > 1 {
            answers.pop_front();
        }
        match next {
            Answer::Cancelled => Reply::json(&task_of(THEIRS, TaskState::Canceled)),
            Answer::NotFound => Err(OperationError::task_not_found(THEIRS)),
            Answer::Over => Err(OperationError::task_not_cancelable(THEIRS)),
            Answer::Nothing => Err(nothing()),
        }
    }
}

impl HandoffWay for Recipient {
    fn call(&self, call: HandoffCall) -> BoxFuture<'static, Result<Reply, OperationError>> {
        Box::pin(std::future::ready(self.answer(call.request.operation())))
    }

    fn is_host<'a>(&'a self, _: &'a AgentId, _: PublicKey) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(true))
    }
}

fn owner() -> PublisherId {
    PublisherId::from_digest([1; 32])
}

/// Its work is done elsewhere.
struct Clerk;

impl Agent for Clerk {
    fn turn<'a>(&'a self, _: Turn, _: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Lets nothing pass.
struct Barrier;

impl OutputGate for Barrier {
    fn hold(&self, made: Made) -> Hold {
        Hold::Keep(made)
    }

    fn release(&self, _: Vec<Made>) -> BoxFuture<'_, Result<Vec<Made>, AgentError>> {
        Box::pin(std::future::ready(Err(AgentError::GateRefused("the gate `closed` is closed".to_owned()))))
    }
}

/// A host on which nothing runs yet, and that has a gate for agents whose contracts want one.
fn host() -> Arc<Host> {
    let mut builtins = Builtins::new();
    builtins.insert("clerk", |_, _, _| Ok(Arc::new(Clerk)));
    let gates = |_: &GatedTurn<'_>| -> Vec<Box<dyn OutputGate>> { vec![Box::new(Barrier)] };
    let ports = Ports { owner: owner(), output_gates: Arc::new(gates), ..Ports::none() };
    Arc::new(Host::new(builtins, ProcessConfig::default()).with_ports(ports))
}

/// Starts the agent that gave its work away, in that version; its contract may say what answers must be.
fn start_clerk(host: &Host, version: &str, verify: &Value) {
    let file = json!({
        "name": "clerk",
        "description": "Gives its work away",
        "version": version,
        "runtime": { "native": { "builtin": "clerk" } },
        "contract": { "class": { "latency": "srt" }, "verify": verify },
    });
    host.start(&AgentFile::parse(&file.to_string()).expect("an agent file"), Path::new("/")).expect("it starts");
}

/// A node with a task whose work is given away, so far.
async fn following(recipient: Recipient, stage: Stage, host: &Arc<Host>) -> TaskService {
    let families = [TASKS, TASK_SUMMARIES, ANSWERS, PUSH_CONFIGS, PUSH_OUTBOX, SESSION_HEADS, SESSION_ROWS];
    let store = MemoryStore::new(&[&families[..], &[HANDOFFS_IN, HANDOFFS_OUT]].concat());
    let (owner, key) = (owner(), SecretKey::from_seed(&[1; 32]));
    let agent = |name: &str| AgentId::new(owner, name).expect("a name");
    let own = Scope::of(CallerId::Publisher(owner));
    let body = object::Handoff::new(ID, OURS, (agent("clerk"), agent("auditor")), 1, 2);
    let signed = Arc::new(object::sign(body, NETWORK, "", &key).expect("a good shape"));
    let mut batch = Batch::large();
    OutRow { signed, stage, host: key.public(), answer: b"answer".to_vec() }.put(&mut batch);
    let mut record = Record::new(task_of(OURS, TaskState::Working), "clerk", own);
    record.version = Some("1.0.0".to_owned());
    batch.put(TASKS, OURS.as_bytes(), Encoded::of(&record).expect("it can be stored").into_bytes());
    store.write(batch, Durability::Synced).await.expect("written");
    let (clock, entropy) = (WallClock::new(|| 1_700_000_000_000), Entropy::new(|bytes| bytes.fill(7)));
    let signer = Signer { key, network: NETWORK.into() };
    let tasks = TaskService::open(Arc::new(store), host.clone(), own, signer, clock, entropy).await.expect("readable");
    HandoffService::of(&tasks).connect(Arc::new(recipient));
    tasks
}

/// Cancels the task, of which the commit is not answered; gives how it ended, with what it says then, and how long that took.
async fn cancelled(answers: &[Answer], state: Option<TaskState>) -> (TaskState, String, Duration) {
    let host = host();
    start_clerk(&host, "1.0.0", &json!({}));
    cancelled_on(&host, answers, state).await
}

async fn cancelled_on(host: &Arc<Host>, answers: &[Answer], state: Option<TaskState>) -> (TaskState, String, Duration) {
    let answers = Mutex::new(answers.iter().copied().collect());
    let stage = Stage::Committing { task: THEIRS.to_owned(), acceptance: 1, tries: 0 };
    let tasks = following(Recipient { answers, state }, stage, host).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let live = tasks.runner.live().running(OURS).expect("it commits again and again");
    let begun = Instant::now();
    live.cancel.cancel();
    let ended = live.state.subscribe().wait_for(task::is_idle).await.map(|state| state.clone());
    let said = tasks.runner.store().read(OURS).expect("readable").expect("it is there").task.status;
    assert_eq!(ended.ok(), Some(said.state.clone()));
    assert!(!tasks.runner.store().handoffs().is_given(OURS), "it is followed no more");
    let text = said.message.as_ref().and_then(Message::text).unwrap_or_default();
    (said.state, text.to_owned(), begun.elapsed())
}

const MINUTE: Duration = Duration::from_millis(COMMIT_WITHIN_MS);

#[tokio::test(start_paused = true)]
async fn a_cancellation_that_nobody_answers_says_that_the_work_may_go_on() {
    for state in [None, Some(TaskState::Working)] {
        let (state, said, _) = cancelled(&[Answer::Nothing], state).await;
        assert_eq!(state, TaskState::Failed, "{said}");
        assert!(said.contains(THEIRS) && said.contains("could not be cancelled, and may go on"), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn that_a_recipient_has_no_such_task_says_nothing_as_long_as_a_commit_may_be_on_its_way() {
    // It comes meanwhile.
    let (state, said, took) = cancelled(&[Answer::NotFound, Answer::NotFound, Answer::Cancelled], None).await;
    assert_eq!(state, TaskState::Canceled, "{said}");
    assert!(took > Duration::ZERO && took < MINUTE, "{took:?}");
    let (state, said, _) = cancelled(&[Answer::NotFound, Answer::Nothing], None).await;
    assert!(state == TaskState::Failed && said.contains("may go on"), "{said}");
    // It never comes, and would not be heeded any more.
    let (state, said, took) = cancelled(&[Answer::NotFound], None).await;
    assert_eq!(state, TaskState::Canceled, "{said}");
    assert!(took > MINUTE && took < 2 * MINUTE, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn work_that_was_done_before_it_was_cancelled_ends_the_task_as_it_ended() {
    let (state, said, _) = cancelled(&[Answer::Over], Some(TaskState::Completed)).await;
    assert_eq!(state, TaskState::Completed, "{said}");
}

#[tokio::test(start_paused = true)]
async fn of_work_that_was_done_before_it_was_cancelled_nothing_is_shown_whose_agent_does_not_run() {
    let (state, said, _) = cancelled_on(&host(), &[Answer::Over], Some(TaskState::Completed)).await;
    assert_eq!((state, said.as_str()), (TaskState::Canceled, ""));
}

/// A node with a task whose work is done elsewhere, and on which its agent does not run.
async fn done(host: &Arc<Host>) -> (TaskService, Arc<LiveTask>) {
    let recipient = Recipient { answers: Mutex::default(), state: Some(TaskState::Completed) };
    let stage = Stage::Ended(End::Given { task: THEIRS.to_owned() });
    let tasks = following(recipient, stage, host).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let live = tasks.runner.live().running(OURS).expect("its agent does not run yet");
    let shown = live.record().task;
    assert!(shown.status.state == TaskState::Working && shown.artifacts.is_none(), "{shown:?}");
    (tasks, live)
}

/// How the task ended, and whether it shows what the recipient made.
async fn ended(tasks: &TaskService, live: &LiveTask) -> (TaskState, bool) {
    live.state.subscribe().wait_for(task::is_idle).await.expect("it is watched as long as it is there");
    let task = tasks.runner.store().read(OURS).expect("readable").expect("it is there").task;
    let is_shown = format!("{task:?}").contains(WORD);
    (task.status.state, is_shown)
}

/// A contract for which nothing passes the gate of [`host`].
fn closed() -> Value {
    json!({ "media": ["text/*"] })
}

#[tokio::test(start_paused = true)]
async fn a_result_that_comes_before_its_agent_runs_waits_for_it_and_is_judged_by_its_contract() {
    for (verify, expected) in [(json!({}), (TaskState::Completed, true)), (closed(), (TaskState::Failed, false))] {
        let host = host();
        let (tasks, live) = done(&host).await;
        start_clerk(&host, "1.0.0", &verify);
        assert_eq!(ended(&tasks, &live).await, expected, "{verify}");
        assert!(!tasks.runner.store().handoffs().is_given(OURS), "it is followed no more");
    }
}

#[tokio::test(start_paused = true)]
async fn where_its_version_does_not_come_back_beside_another_one_that_one_s_contract_counts() {
    let host = host();
    let (tasks, live) = done(&host).await;
    start_clerk(&host, "2.0.0", &closed());
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert!(live.running(), "it may come back");
    assert_eq!(ended(&tasks, &live).await, (TaskState::Failed, false));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_waits_ends_with_its_agent_or_after_a_day_and_shows_nothing() {
    let host = host();
    let (tasks, live) = done(&host).await;
    // As of an agent that is removed, which did not run.
    tasks.cancel_all("clerk");
    assert_eq!(ended(&tasks, &live).await, (TaskState::Canceled, false));

    let (tasks, live) = done(&host).await;
    assert_eq!(ended(&tasks, &live).await, (TaskState::Failed, false));
    let said = tasks.runner.store().read(OURS).expect("readable").expect("it is there").task.status.message;
    let said = said.as_ref().and_then(Message::text).unwrap_or_default();
    assert!(said.contains("agent \"clerk\" is not running"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_result_that_waits_is_left_to_the_next_start_where_its_node_ends() {
    let (tasks, live) = done(&host()).await;
    tasks.end_turns();
    live.state.subscribe().wait_for(task::is_idle).await.expect("it is left");
    let kept = tasks.runner.store().read(OURS).expect("readable").expect("it is there").task;
    assert!(kept.status.state == TaskState::Working && kept.artifacts.is_none(), "{kept:?}");
    assert!(tasks.runner.store().handoffs().is_given(OURS), "it is followed again");
}

#[tokio::test(start_paused = true)]
async fn a_version_has_work_as_long_as_what_it_gave_away_is_not_done() {
    let host = host();
    let (tasks, live) = done(&host).await;
    let version = |version: &str| AgentRef { id: live.agent.id.clone(), version: version.into() };
    let (own, other) = (version("1.0.0"), version("2.0.0"));
    assert!(tasks.has_work(&own).await && !tasks.has_work(&other).await);
    start_clerk(&host, "1.0.0", &json!({}));
    ended(&tasks, &live).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!tasks.has_work(&own).await, "it is done");
}
