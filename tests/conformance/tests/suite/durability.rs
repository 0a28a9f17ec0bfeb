//! Each reported state of a task is on disk: acknowledged, completed, cancelled; a state that could not be written is not reported.

use std::sync::Arc;

use althing_calls::{Operation, OperationError, Reply};
use althing_conformance::disk::{Disk, SYNC};
use althing_conformance::mesh::{Node, file, file_asking, message};
use althing_protocol::AgentId;
use althing_simnet::{LinkConfig, SimNet};
use futures::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::time::Instant;

async fn node(disk: Arc<Disk>) -> (Node, AgentId) {
    let node = Node::start(&SimNet::new(1, LinkConfig::default()), 1, 100, &[], disk).await;
    let id = node.host(&file("actor", "does as it is told", "acting.do", "do", "play")).await;
    (node, id)
}

/// The same with an agent that may answer without a task.
async fn node_with_program(disk: Arc<Disk>) -> (Node, AgentId) {
    let (node, _) = node(disk).await;
    let mut program = file("program", "does as it is told", "acting.do", "do", "play");
    program.runtime = althing_td::RuntimeSpec::Native { builtin: "program".to_owned(), config: json!({}) };
    let id = node.host(&program).await;
    (node, id)
}

fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().expect("a state")
}

async fn task(node: &Node, agent: &AgentId, id: &Value) -> Result<Value, OperationError> {
    node.one(agent, Operation::GetTask, json!({ "id": id })).await
}

/// The task as a node shows it that starts on what a power cut left of the disk.
async fn after_power_cut(disk: &Disk, id: &Value) -> Value {
    let (node, agent) = node(disk.after_power_cut()).await;
    task(&node, &agent, id).await.expect("what was acknowledged is there")
}

async fn events(node: &Node, agent: &AgentId, text: &str) -> impl futures::Stream<Item = Value> + Unpin {
    let Reply::Events(events) = node.ask(agent, Operation::SendStreamingMessage, message(text)).await.expect("events")
    else {
        panic!("it streams");
    };
    events.map(|event| serde_json::from_slice(&event.expect("an event")).expect("JSON"))
}

fn told(event: &Value) -> Option<&str> {
    event.get("task").or(event.get("statusUpdate")).map(state)
}

#[tokio::test(start_paused = true)]
async fn an_acknowledged_task_is_on_the_disk() {
    let disk = Arc::new(Disk::default());
    let (node, agent) = node(disk.clone()).await;
    let begun = Instant::now();
    let id = node.begin(&agent, "stuck").await;
    assert!(begun.elapsed() >= SYNC, "it was acknowledged before it was written: {:?}", begun.elapsed());
    let kept = after_power_cut(&disk, &id).await;
    assert_eq!(state(&kept), "TASK_STATE_FAILED");
    assert_eq!(kept["history"][0]["parts"][0]["text"], "stuck");
}

/// The tasks that a node lists which starts on what a power cut left of the disk.
async fn listed_after_power_cut(disk: &Disk) -> Value {
    let (node, agent) = node(disk.after_power_cut()).await;
    node.one(&agent, Operation::ListTasks, json!({})).await.expect("a list")
}

#[tokio::test(start_paused = true)]
async fn a_message_is_on_the_disk_before_an_agent_that_can_act_is_given_it() {
    let (node, agent) = node(Arc::new(Disk::default())).await;
    let asks = file_asking("asks", "asks others", "acting.ask", ("ask", "play"), &["other".to_owned()]);
    let acting = node.host(&asks).await;
    let begun = Instant::now();
    node.send(&acting, "hello").await;
    assert!(begun.elapsed() >= SYNC * 2, "written before its turn and after it: {:?}", begun.elapsed());
    let begun = Instant::now();
    node.send(&agent, "hello").await;
    assert!((SYNC..SYNC * 2).contains(&begun.elapsed()), "written once: {:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_task_of_an_agent_that_cannot_act_is_on_the_disk_when_its_turn_takes_long() {
    let disk = Arc::new(Disk::default());
    let (node, agent) = node(disk.clone()).await;
    let mut asking = std::pin::pin!(node.one(&agent, Operation::SendMessage, message("stuck")));
    assert!(tokio::time::timeout(SYNC / 200, &mut asking).await.is_err(), "it is stuck");
    assert_eq!(node.hosting.live_tasks(), 1);
    assert_eq!(listed_after_power_cut(&disk).await["totalSize"], 0, "nobody was told, and nothing was done");
    assert!(tokio::time::timeout(SYNC * 2, &mut asking).await.is_err(), "it is stuck");
    let listed = listed_after_power_cut(&disk).await;
    assert_eq!((&listed["totalSize"], state(&listed["tasks"][0])), (&json!(1), "TASK_STATE_FAILED"), "{listed}");
}

#[tokio::test(start_paused = true)]
async fn a_message_to_a_task_is_on_the_disk_when_it_is_acknowledged() {
    let disk = Arc::new(Disk::default());
    let (node, agent) = node(disk.clone()).await;
    let asked = node.send(&agent, "ask").await;
    let mut params = message("stuck");
    params["message"]["taskId"] = asked["id"].clone();
    params["configuration"] = json!({ "returnImmediately": true });
    node.one(&agent, Operation::SendMessage, params).await.expect("an answer");
    let kept = after_power_cut(&disk, &asked["id"]).await;
    assert_eq!(kept["history"].as_array().map(Vec::len), Some(3), "{kept}");
}

#[tokio::test(start_paused = true)]
async fn completed_is_told_to_nobody_before_it_is_on_the_disk() {
    let disk = Arc::new(Disk::default());
    let (node, agent) = node(disk.clone()).await;
    // By the answer.
    let done = node.send(&agent, "hello").await;
    assert_eq!(state(&done), "TASK_STATE_COMPLETED");
    let kept = after_power_cut(&disk, &done["id"]).await;
    assert_eq!((state(&kept), &kept["artifacts"]), ("TASK_STATE_COMPLETED", &done["artifacts"]));
    // By the stream, and by whoever asks meanwhile.
    let mut heard = events(&node, &agent, "hello").await;
    let id = heard.next().await.expect("the task")["task"]["id"].clone();
    let mut asked = 0;
    loop {
        let shown = task(&node, &agent, &id).await.expect("it is known");
        if state(&shown) == "TASK_STATE_COMPLETED" {
            let kept = after_power_cut(&disk, &id).await;
            assert_eq!(state(&kept), "TASK_STATE_COMPLETED", "it was shown as completed before it was");
            break;
        }
        asked += 1;
        tokio::time::sleep(SYNC / 8).await;
    }
    assert!(asked > 2, "it was asked while the end was being written");
    let mut heard = events(&node, &agent, "hello").await;
    let id = heard.next().await.expect("the task")["task"]["id"].clone();
    while let Some(event) = heard.next().await {
        if told(&event) == Some("TASK_STATE_COMPLETED") {
            assert_eq!(state(&after_power_cut(&disk, &id).await), "TASK_STATE_COMPLETED");
            return;
        }
    }
    panic!("nobody was told of the end");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_task_is_on_the_disk_whether_it_ran_or_waited() {
    let disk = Arc::new(Disk::default());
    let (node, agent) = node(disk.clone()).await;
    let waits = node.send(&agent, "ask").await["id"].clone();
    let runs = node.begin(&agent, "stuck").await;
    for id in [waits, runs] {
        let begun = Instant::now();
        let cancelled = node.one(&agent, Operation::CancelTask, json!({ "id": id })).await.expect("the task");
        assert_eq!(state(&cancelled), "TASK_STATE_CANCELED");
        assert!(begun.elapsed() >= SYNC, "{:?}", begun.elapsed());
        assert_eq!(state(&after_power_cut(&disk, &id).await), "TASK_STATE_CANCELED");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_that_cannot_be_written_is_told_to_nobody_who_listens() {
    let disk = Arc::new(Disk::default());
    let (node, agent) = node(disk.clone()).await;
    let by_id = json!({ "id": node.send(&agent, "ask").await["id"] });
    let Reply::Events(heard) = node.ask(&agent, Operation::SubscribeToTask, by_id.clone()).await.expect("events")
    else {
        panic!("it streams");
    };
    let mut heard = heard.map(|event| serde_json::from_slice::<Value>(&event.expect("an event")).expect("JSON"));
    assert_eq!(told(&heard.next().await.expect("the task")), Some("TASK_STATE_INPUT_REQUIRED"));
    disk.fail_above(0);
    node.one(&agent, Operation::CancelTask, by_id.clone()).await.expect_err("nothing can be written");
    assert_eq!(heard.next().now_or_never(), None, "it waits still, and nobody stopped listening");
    disk.fail_above(usize::MAX);
    node.one(&agent, Operation::CancelTask, by_id).await.expect("cancelled");
    let rest: Vec<Value> = heard.collect().await;
    assert_eq!(rest.iter().map(told).collect::<Vec<_>>(), [Some("TASK_STATE_CANCELED")]);
}

#[tokio::test(start_paused = true)]
async fn an_end_that_cannot_be_written_is_told_as_a_failure_to_everybody() {
    // The disk takes nothing any more; or nothing but that the task failed.
    for (above_bytes, noted) in [(0, "the node ended"), (600, "could not keep the result")] {
        let disk = Arc::new(Disk::default());
        let (node, agent) = node(disk.clone()).await;
        let mut heard = events(&node, &agent, "pieces").await;
        let id = heard.next().await.expect("the task")["task"]["id"].clone();
        let subscribed = node.all(&agent, Operation::SubscribeToTask, json!({ "id": id }));
        let own = async {
            disk.fail_above(above_bytes);
            heard.collect::<Vec<Value>>().await
        };
        let (subscribed, own) = tokio::join!(subscribed, own);
        for events in [subscribed.expect("events"), own] {
            assert_eq!(told(events.last().expect("an event")), Some("TASK_STATE_FAILED"));
            let text = json!(events).to_string();
            assert!(!text.contains("TASK_STATE_COMPLETED"), "{text}");
            for secret in ["/secret", "12345", "67890"] {
                assert!(!text.contains(secret), "{secret}: {text}");
            }
        }
        assert_eq!(node.hosting.live_tasks(), 0);
        assert_eq!(state(&task(&node, &agent, &id).await.expect("the task")), "TASK_STATE_FAILED");
        let kept = after_power_cut(&disk, &id).await;
        assert_eq!(state(&kept), "TASK_STATE_FAILED");
        let why = kept["status"]["message"]["parts"][0]["text"].as_str().expect("a reason");
        assert!(why.contains(noted), "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_written_is_refused_without_paths_and_sizes_of_the_disk() {
    let disk = Arc::new(Disk::default());
    let (node, agent) = node(disk.clone()).await;
    let waits = node.send(&agent, "ask").await["id"].clone();
    disk.fail_above(0);
    let refused = [
        node.one(&agent, Operation::SendMessage, message("hello")).await,
        node.one(&agent, Operation::CancelTask, json!({ "id": waits })).await,
    ];
    for refused in refused {
        let refused = refused.expect_err("nothing can be written");
        assert_eq!((refused.code(), refused.reason()), (-32_000, "DISK_FULL"));
        assert!(refused.message.contains("disk"), "{refused}");
        for secret in ["/secret", "12345", "67890"] {
            assert!(!refused.message.contains(secret), "{refused}");
        }
    }
    assert_eq!(node.hosting.live_tasks(), 0);
    assert_eq!(state(&task(&node, &agent, &waits).await.expect("the task")), "TASK_STATE_INPUT_REQUIRED");
    let listed = node.one(&agent, Operation::ListTasks, json!({})).await.expect("a list");
    assert_eq!(listed["totalSize"], 1, "what was refused is not listed");
}

#[tokio::test(start_paused = true)]
async fn a_message_without_a_task_is_given_when_nothing_of_it_is_left_on_the_disk() {
    let disk = Arc::new(Disk::default());
    let (node, agent) = node_with_program(disk.clone()).await;
    let asked = node.one(&agent, Operation::SendMessage, message("ask which")).await.expect("an answer");
    let begun = Instant::now();
    let answer = node.one(&agent, Operation::SendMessage, message("message hello")).await.expect("an answer");
    assert_eq!(answer["message"]["parts"][0]["text"], "hello");
    assert!(begun.elapsed() < SYNC, "nothing of it was written: {:?}", begun.elapsed());
    let events = node.all(&agent, Operation::SendStreamingMessage, message("message hello")).await.expect("events");
    assert_eq!(events[0]["message"]["parts"][0]["text"], "hello");
    // One that goes into a task leaves that as it was.
    let mut params = message("message hello");
    params["message"]["taskId"] = asked["task"]["id"].clone();
    let answer = node.one(&agent, Operation::SendMessage, params).await.expect("an answer");
    assert_eq!(answer["message"]["parts"][0]["text"], "hello");
    let (again, agent) = node_with_program(disk.after_power_cut()).await;
    let listed = again.one(&agent, Operation::ListTasks, json!({})).await.expect("a list");
    assert_eq!(listed["totalSize"], 1, "{listed}");
    let kept = task(&again, &agent, &asked["task"]["id"]).await.expect("the task");
    assert_eq!(kept, asked["task"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_cannot_be_forgotten_does_not_stay_without_an_end() {
    let disk = Arc::new(Disk::default());
    let (node, agent) = node_with_program(disk.clone()).await;
    let answer = node.one(&agent, Operation::SendMessage, message("late hello"));
    let fails = async {
        // The message is on the disk, and the program works on it.
        tokio::time::sleep(SYNC * 2).await;
        disk.fail_above(0);
    };
    let (answer, ()) = tokio::join!(answer, fails);
    assert_eq!(answer.expect("an answer")["message"]["parts"][0]["text"], "hello");
    assert_eq!(node.hosting.live_tasks(), 0);
    for node in [node, node_with_program(disk.after_power_cut()).await.0] {
        let listed = node.one(&agent, Operation::ListTasks, json!({})).await.expect("a list");
        assert_eq!(listed["totalSize"], 1, "what is on the disk is counted");
        assert_eq!(state(&listed["tasks"][0]), "TASK_STATE_FAILED");
    }
}

/// Whoever sends a message again while the only write of its task fails is told of no task.
#[tokio::test(start_paused = true)]
async fn a_task_that_was_never_written_is_told_to_nobody_who_asks_meanwhile() {
    let disk = Arc::new(Disk::default());
    let (node, agent) = node_with_program(disk.clone()).await;
    disk.fail_above(0);
    let mut again = message("work hello");
    let first = node.one(&agent, Operation::SendMessage, again.clone());
    again["configuration"] = json!({ "returnImmediately": true });
    let second = async {
        tokio::time::sleep(SYNC / 10).await;
        node.one(&agent, Operation::SendMessage, again).await
    };
    let (first, second) = tokio::join!(first, second);
    for (who, answer) in [("the first", first), ("who sent it again", second)] {
        if let Ok(answer) = answer {
            let id = answer["task"]["id"].clone();
            assert!(id.is_string(), "{who}: {answer}");
            let kept = task(&node, &agent, &id).await;
            assert!(kept.is_ok(), "{who} was told of a task that is not there: {answer}");
        }
    }
}
