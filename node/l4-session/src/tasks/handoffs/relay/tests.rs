//! A task is cancelled whose work is given away, before anybody knows whether that has begun.

use std::collections::VecDeque;
use std::sync::Mutex;

use althing_communication::{Entropy, WallClock};
use althing_execution::process::ProcessConfig;
use althing_execution::{Builtins, Host};
use althing_protocol::{AgentId, CallerId, PublicKey, PublisherId, SecretKey, object};
use althing_store::{MemoryStore, Store as _};
use chrono::DateTime;
use futures::future::BoxFuture;
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
            let shown = self.state.clone().ok_or_else(nothing)?;
            return Reply::json(&task_of(THEIRS, shown));
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

/// A node with a task whose work is given away, and whose commit is not answered.
async fn committing(recipient: Recipient) -> TaskService {
    let families = [TASKS, TASK_SUMMARIES, ANSWERS, PUSH_CONFIGS, PUSH_OUTBOX, SESSION_HEADS, SESSION_ROWS];
    let store = MemoryStore::new(&[&families[..], &[HANDOFFS_IN, HANDOFFS_OUT]].concat());
    let (owner, key) = (PublisherId::from_digest([1; 32]), SecretKey::from_seed(&[1; 32]));
    let agent = |name: &str| AgentId::new(owner, name).expect("a name");
    let own = Scope::of(CallerId::Publisher(owner));
    let body = object::Handoff::new(ID, OURS, (agent("clerk"), agent("auditor")), 1, 2);
    let signed = Arc::new(object::sign(body, NETWORK, "", &key).expect("a good shape"));
    let stage = Stage::Committing { task: THEIRS.to_owned(), acceptance: 1, tries: 0 };
    let mut batch = Batch::large();
    OutRow { signed, stage, host: key.public(), answer: b"answer".to_vec() }.put(&mut batch);
    let mut record = Record::new(task_of(OURS, TaskState::Working), "clerk", own);
    record.version = Some("1.0.0".to_owned());
    batch.put(TASKS, OURS.as_bytes(), Encoded::of(&record).expect("it can be stored").into_bytes());
    store.write(batch, Durability::Synced).await.expect("written");
    let host = Arc::new(Host::new(Builtins::new(), ProcessConfig::default()));
    let (clock, entropy) = (WallClock::new(|| 1_700_000_000_000), Entropy::new(|bytes| bytes.fill(7)));
    let signer = Signer { key, network: NETWORK.into() };
    let tasks = TaskService::open(Arc::new(store), host, own, signer, clock, entropy).await.expect("readable");
    HandoffService::of(&tasks).connect(Arc::new(recipient));
    tasks
}

/// Cancels the task; gives how it ended, with what it says then, and how long that took.
async fn cancelled(answers: &[Answer], state: Option<TaskState>) -> (TaskState, String, Duration) {
    let answers = Mutex::new(answers.iter().copied().collect());
    let tasks = committing(Recipient { answers, state }).await;
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
