//! A message to a working task interrupts its turn where the contract allows it, and the artifacts made so far stay, also when the node
//! starts again.

use std::sync::Arc;
use std::time::Duration;

use althing_calls::{HostedAgent, LATENCY, Operation};
use althing_communication::{CallerRule, Priority};
use althing_conformance::disk::Disk;
use althing_conformance::mesh::{Node, file, message, store};
use althing_protocol::AgentId;
use althing_simnet::{LinkConfig, SimNet};
use althing_store::Store;
use serde_json::{Value, json};

async fn node(barge_in: bool) -> (Node, AgentId) {
    node_on(store(), barge_in).await
}

/// The same, on that disk.
async fn node_on(disk: Arc<dyn Store>, barge_in: bool) -> (Node, AgentId) {
    let node = Node::start(&SimNet::new(1, LinkConfig::default()), 1, 100, &[], disk).await;
    let id = node.host(&file("actor", "does as it is told", "acting.do", "do", "play")).await;
    let input_modes = vec!["text/plain".to_owned()];
    node.hosting.add(HostedAgent {
        agent: node.stable(&id),
        callers: CallerRule::Trusted,
        input_modes,
        barge_in,
        is_told_again: false,
        priority: Priority::default(),
    });
    (node, id)
}

fn to(task: &Value, text: &str) -> Value {
    let mut params = message(text);
    params["message"]["taskId"] = task.clone();
    params
}

#[tokio::test(start_paused = true)]
async fn a_new_message_stops_the_answer_and_what_was_said_stays() {
    let (node, id) = node(true).await;
    let task = node.begin(&id, "pieces").await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    let begun = tokio::time::Instant::now();
    let answer = node.one(&id, Operation::SendMessage, to(&task, "something else")).await.expect("an answer");
    assert!(begun.elapsed() < Duration::from_millis(50), "{:?}", begun.elapsed());
    let answered = &answer["task"];
    assert_eq!(answered["status"]["state"], "TASK_STATE_COMPLETED");
    let artifacts = answered["artifacts"].as_array().expect("artifacts");
    let text = |at: usize| {
        artifacts[at]["parts"]
            .as_array()
            .expect("parts")
            .iter()
            .map(|part| part["text"].as_str().unwrap_or_default())
            .collect::<String>()
    };
    assert_eq!((text(0).as_str(), text(1).as_str()), ("0 1 ", "something else"));
    let history = answered["history"].as_array().expect("a history");
    assert!(history.iter().any(|message| message["parts"][0]["text"] == "pieces"), "{history:?}");
}

/// What an artifact of a task says.
fn said(task: &Value, artifact: usize) -> String {
    let parts = task["artifacts"][artifact]["parts"].as_array().into_iter().flatten();
    parts.filter_map(|part| part["text"].as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_the_next_message_goes_on_from_what_was_said_before_the_interruption() {
    let disk = Arc::new(Disk::prompt());
    let (node, id) = node_on(disk.clone(), true).await;
    let task = node.begin(&id, "pieces").await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    let asked = node.one(&id, Operation::SendMessage, to(&task, "ask")).await.expect("a question");
    assert_eq!(asked["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{asked}");

    let (again, id) = node_on(disk.after_power_cut(), true).await;
    let kept = again.one(&id, Operation::GetTask, json!({ "id": task })).await.expect("the task");
    assert_eq!((&kept["status"], said(&kept, 0).as_str()), (&asked["task"]["status"], "0 1 "), "{kept}");
    let answer = again.one(&id, Operation::SendMessage, to(&task, "this one")).await.expect("an answer");
    let done = &answer["task"];
    assert_eq!((&done["id"], &done["status"]["state"]), (&task, &json!("TASK_STATE_COMPLETED")), "{done}");
    assert_eq!([said(done, 0), said(done, 1)], ["0 1 ", "this one"]);
    let history = done["history"].as_array().expect("a history").iter();
    let heard: Vec<&Value> = history.map(|message| &message["parts"][0]["text"]).collect();
    for text in ["pieces", "ask", "which?", "this one"] {
        assert!(heard.iter().any(|heard| *heard == text), "{text}: {heard:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_many_messages_at_once_each_has_its_turn() {
    let (node, id) = node(true).await;
    let task = node.begin(&id, "stuck").await;
    let (first, second) = tokio::join!(node.one(&id, Operation::SendMessage, to(&task, "stuck")), async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        node.one(&id, Operation::SendMessage, to(&task, "ask")).await
    });
    let state = |answer: &Value| answer["task"]["status"]["state"].clone();
    assert_eq!(state(&first.expect("interrupted")), "TASK_STATE_INPUT_REQUIRED");
    assert_eq!(state(&second.expect("asked")), "TASK_STATE_INPUT_REQUIRED");
    let cancelled = node.one(&id, Operation::CancelTask, json!({ "id": task })).await.expect("cancelled");
    assert_eq!(cancelled["status"]["state"], "TASK_STATE_CANCELED");
}

#[tokio::test(start_paused = true)]
async fn without_that_in_the_contract_it_is_refused() {
    let (node, id) = node(false).await;
    let task = node.begin(&id, "stuck").await;
    let refused = node.one(&id, Operation::SendMessage, to(&task, "something else")).await.expect_err("a refusal");
    assert!(refused.message.contains("is being worked on"), "{}", refused.message);
}

/// `latency/v1`
#[tokio::test(start_paused = true)]
async fn a_turn_ends_when_its_sender_waits_no_longer() {
    let (node, id) = node(false).await;
    let within = |text: &str, within_ms: Value| {
        let mut params = message(text);
        params["metadata"] = json!({ LATENCY: { "withinMs": within_ms } });
        params
    };
    let begun = tokio::time::Instant::now();
    let answer = node.one(&id, Operation::SendMessage, within("stuck", json!(500))).await.expect("an answer");
    let took = begun.elapsed();
    assert!((500..600).contains(&took.as_millis()), "{took:?}");
    let status = &answer["task"]["status"];
    assert_eq!(status["state"], "TASK_STATE_FAILED", "{answer}");
    let why = status["message"]["parts"][0]["text"].as_str().expect("why");
    assert!(why.contains("within the 500 ms that its caller gave it"), "{why}");
    assert_eq!(node.hosting.live_tasks(), 0, "the turn is over");
    let answer = node.one(&id, Operation::SendMessage, within("hello", json!(500.0))).await.expect("an answer");
    assert_eq!(answer["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{answer}");
    // The message may say it too; the request counts first.
    let in_message = |within_ms: Value| {
        let mut params = message("stuck");
        params["message"]["metadata"] = json!({ LATENCY: { "withinMs": within_ms } });
        params
    };
    let answer = node.one(&id, Operation::SendMessage, in_message(json!(400))).await.expect("an answer");
    assert!(answer.to_string().contains("within the 400 ms that its caller gave it"), "{answer}");
    let mut both = in_message(json!(400));
    both["metadata"] = json!({ LATENCY: { "withinMs": 300 } });
    let answer = node.one(&id, Operation::SendMessage, both).await.expect("an answer");
    assert!(answer.to_string().contains("within the 300 ms that its caller gave it"), "{answer}");
    let refused = node.one(&id, Operation::SendMessage, in_message(json!(0))).await.expect_err("a refusal");
    assert!(refused.message.contains("withinMs"), "{}", refused.message);
    for wrong in [json!(0), json!("soon"), json!(-1), json!(86_400_001)] {
        let refused = node.one(&id, Operation::SendMessage, within("hello", wrong)).await.expect_err("a refusal");
        assert!(refused.message.contains("withinMs"), "{}", refused.message);
    }
}
