use std::sync::Arc;

use a2a::{Message, Part, Role, TaskState};
use althing_call::{CallMetadata, Operation, Params, Refusal, Reply};
use althing_communication::{CallerRule, Entropy, Priority, WallClock};
use althing_execution::process::ProcessConfig;
use althing_execution::{Builtins, Host};
use althing_protocol::contract::DataLabel;
use althing_protocol::{AgentRef, CallerId, Label, PublisherId, SecretKey};
use althing_store::{Family, MemoryStore};
use chrono::DateTime;
use serde_json::{Value, json};

use super::*;
use crate::journal::{SESSION_HEADS, SESSION_ROWS};
use crate::machine::moves::Signer;
use crate::machine::record::Scope;
use crate::machine::task;
use crate::push::{PUSH_CONFIGS, PUSH_OUTBOX};
use crate::tasks::answers::ANSWERS;
use crate::tasks::runner::HostedAgent;
use crate::tasks::store::{TASK_SUMMARIES, TASKS};
use crate::tasks::{HANDOFFS_IN, HANDOFFS_OUT};

const FAMILIES: [Family; 9] =
    [TASKS, TASK_SUMMARIES, ANSWERS, PUSH_CONFIGS, PUSH_OUTBOX, SESSION_HEADS, SESSION_ROWS, HANDOFFS_IN, HANDOFFS_OUT];
const TASK: &str = "018bcfe5-6800-7000-8000-000000000001";

fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed(&[seed; 32])
}

fn scope(seed: u8) -> Scope {
    Scope::of(CallerId::Publisher(PublisherId::from_digest([seed; 32])))
}

fn disk() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(&FAMILIES))
}

/// The tasks of the node with that key, as they are on its disk.
async fn tasks(seed: u8, disk: &Arc<MemoryStore>) -> TaskService {
    let host = Arc::new(Host::new(Builtins::new(), ProcessConfig::default()));
    let signer = Signer { key: key(seed), network: "testnet".into() };
    let (clock, entropy) = (WallClock::new(|| 1_700_000_000_000), Entropy::new(|bytes| bytes.fill(7)));
    TaskService::open(disk.clone(), host, scope(1), signer, clock, entropy).await.expect("the disk can be read")
}

fn agent() -> HostedAgent {
    HostedAgent {
        agent: AgentRef {
            id: AgentId::new(PublisherId::from_digest([1; 32]), "echo").expect("a name"),
            version: "1.0.0".into(),
        },
        callers: CallerRule::Anyone,
        input_modes: Vec::new(),
        barge_in: false,
        is_told_again: false,
        priority: Priority::default(),
    }
}

fn message(id: &str) -> Message {
    let mut message = Message::new(Role::User, vec![Part::text("hi")]);
    message.message_id = id.to_owned();
    message
}

fn label() -> Option<Label> {
    Some(Label { level: DataLabel::Confidential, trusted: false })
}

/// Writes a task that waits for a message, of the first caller.
async fn begin(tasks: &TaskService) {
    let now = DateTime::from_timestamp_millis(1_700_000_000_000).expect("a time");
    let mut task = task::submitted(TASK.to_owned(), "c".to_owned(), message("m-1"), now);
    task::set_status(&mut task, TaskState::InputRequired, None, now);
    let record = Record { label: label(), ..Record::new(task, "echo", scope(1)) };
    tasks.runner.store().write(Encoded::of(&record).expect("it can be stored")).await.expect("written");
}

/// Asks for each operation on the task.
async fn ask(tasks: &TaskService, scope: Scope, operation: Operation) -> Result<Reply, OperationError> {
    let (agent, call) = (agent(), CallMetadata::default());
    let params = match operation {
        Operation::SendMessage | Operation::SendStreamingMessage => {
            json!({ "message": { "messageId": "m-2", "taskId": TASK, "role": "ROLE_USER", "parts": [{ "text": "on" }] } })
        }
        Operation::ListTasks => json!({ "contextId": "c" }),
        Operation::CreatePushConfig => json!({ "taskId": TASK, "url": "https://receiver.example" }),
        Operation::GetPushConfig | Operation::DeletePushConfig => json!({ "taskId": TASK, "id": "1" }),
        Operation::ListPushConfigs => json!({ "taskId": TASK }),
        _ => json!({ "id": TASK }),
    };
    match Params::parse(operation, params.to_string().as_bytes()).expect("parameters") {
        Params::Send(request) if operation.streams() => {
            tasks.send_streaming(&agent, scope, *request, &call, None).await
        }
        Params::Send(request) => tasks.send(&agent, scope, *request, &call, None).await,
        Params::Get(request) => tasks.get(&agent, scope, &request, &call),
        Params::List(request) => tasks.list(&agent, scope, request, &call).await,
        Params::Cancel(request) => tasks.cancel(&agent, scope, &request, &call).await,
        Params::Subscribe(request) => tasks.subscribe(&agent, scope, &request, &call).await,
        push => tasks.push(&agent, scope, push).await,
    }
}

async fn refusal(tasks: &TaskService, scope: Scope, operation: Operation) -> Option<Refusal> {
    ask(tasks, scope, operation).await.err().map(|error| error.refusal)
}

async fn shown(tasks: &TaskService) -> Value {
    let Ok(Reply::One(task)) = ask(tasks, scope(1), Operation::GetTask).await else { panic!("a task was asked for") };
    serde_json::from_slice(&task).expect("JSON")
}

const ALL: [Operation; 10] = [
    Operation::SendMessage,
    Operation::SendStreamingMessage,
    Operation::GetTask,
    Operation::ListTasks,
    Operation::CancelTask,
    Operation::SubscribeToTask,
    Operation::CreatePushConfig,
    Operation::GetPushConfig,
    Operation::ListPushConfigs,
    Operation::DeletePushConfig,
];

/// P-205, P-157: also after the node started again, and nobody else learns of it.
#[tokio::test]
async fn every_operation_on_a_task_that_was_handed_over_says_where_it_is() {
    let disk = disk();
    let here = tasks(1, &disk).await;
    begin(&here).await;
    let to_itself = freeze(&here, agent().id(), TASK, key(1).public()).await;
    assert!(matches!(to_itself, Err(HandoverError::ToItself)));
    let pack = freeze(&here, agent().id(), TASK, key(2).public()).await.expect("it is handed over");
    let moved = Some(Refusal::TaskMoved { proof: moves::text_of(&pack.proof) });
    let again = tasks(1, &disk).await;
    for tasks in [&here, &again] {
        for operation in ALL {
            assert_eq!(refusal(tasks, scope(1), operation).await, moved, "{operation:?}");
        }
        // The message that began it, sent again.
        let begun = json!({ "message": { "messageId": "m-1", "role": "ROLE_USER", "parts": [{ "text": "hi" }] } });
        let request = serde_json::from_value(begun).expect("a message");
        let sent = tasks.send(&agent(), scope(1), request, &CallMetadata::default(), None).await;
        assert_eq!(sent.err().map(|error| error.refusal), moved);
        for operation in [Operation::SendMessage, Operation::GetTask, Operation::CancelTask, Operation::SubscribeToTask]
        {
            let hidden = refusal(tasks, scope(2), operation).await;
            assert_eq!(hidden, Some(Refusal::TaskNotFound), "{operation:?}");
        }
        assert_eq!(refusal(tasks, scope(2), Operation::ListTasks).await, None, "an empty list");
    }
}

/// P-204
#[tokio::test]
async fn a_task_is_taken_once_with_all_that_belongs_to_it_and_comes_back_with_a_higher_fence() {
    let (agent, disks) = (agent().id().clone(), [disk(), disk()]);
    let (here, there) = (tasks(1, &disks[0]).await, tasks(2, &disks[1]).await);
    let [first, second] = [1, 2].map(|seed| key(seed).public());
    begin(&here).await;
    let before = shown(&here).await;
    let pack = freeze(&here, &agent, TASK, second).await.expect("it is handed over");
    assert_eq!(thaw(&there, &agent, first, &pack).await.expect("it is taken"), TASK);
    assert_eq!(shown(&there).await, before);
    let record = there.runner.store().read(TASK).expect("readable").expect("there");
    assert_eq!((record.label, record.fence), (label(), 1));

    let older = |refused: Result<String, HandoverError>, known: u64| match refused {
        Err(HandoverError::Move(why)) => assert_eq!(why, MoveError::Older { fence: 1, known }),
        other => panic!("{other:?}"),
    };
    older(thaw(&there, &agent, first, &pack).await, 1);
    // A pack that was lost is made again, for the same node alone.
    let again = freeze(&here, &agent, TASK, second).await.expect("once more");
    older(thaw(&there, &agent, first, &again).await, 1);
    let third = freeze(&here, &agent, TASK, key(3).public()).await;
    assert!(matches!(third, Err(HandoverError::Departed { to, .. }) if to == second));

    let back = freeze(&there, &agent, TASK, first).await.expect("it is handed back");
    older(thaw(&there, &agent, first, &pack).await, 2);
    assert_eq!(thaw(&here, &agent, second, &back).await.expect("it comes back"), TASK);
    assert_eq!(shown(&here).await, before);
    let restarted = tasks(1, &disks[0]).await;
    assert_eq!(shown(&restarted).await, before, "it was on disk");
}

#[tokio::test]
async fn what_is_not_here_is_not_handed_over_and_what_is_not_signed_is_not_taken() {
    let (agent, here, there) = (agent().id().clone(), tasks(1, &disk()).await, tasks(2, &disk()).await);
    let [first, second] = [1, 2].map(|seed| key(seed).public());
    let other = AgentId::new(PublisherId::from_digest([1; 32]), "other").expect("a name");
    begin(&here).await;
    for (of, task) in [(&agent, "none"), (&other, TASK)] {
        assert!(matches!(freeze(&here, of, task, second).await, Err(HandoverError::NotHere { .. })), "{task}");
    }
    let good = freeze(&here, &agent, TASK, second).await.expect("it is handed over");
    for bad in [
        TaskPack { proof: Vec::new(), ..good.clone() },
        TaskPack { record: good.record[1..].to_vec(), ..good.clone() },
        TaskPack { push: vec![Vec::new()], ..good.clone() },
    ] {
        assert!(matches!(thaw(&there, &agent, first, &bad).await, Err(HandoverError::Move(_))));
    }
    assert_eq!(refusal(&there, scope(1), Operation::GetTask).await, Some(Refusal::TaskNotFound), "nothing was taken");
    thaw(&there, &agent, first, &good).await.expect("it is taken");
}

/// Whoever waits for the next turn of a task hears the end of the stream, and finds it where it is.
#[tokio::test]
async fn streams_of_a_task_end_where_it_leaves() {
    use futures::StreamExt as _;

    let here = tasks(1, &disk()).await;
    begin(&here).await;
    let Ok(Reply::Events(events)) = ask(&here, scope(1), Operation::SubscribeToTask).await else {
        panic!("it can be subscribed to");
    };
    freeze(&here, agent().id(), TASK, key(2).public()).await.expect("it is handed over");
    assert_eq!(events.count().await, 1, "the task as it was");
}
