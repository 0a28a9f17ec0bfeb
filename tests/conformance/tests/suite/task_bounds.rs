//! The size of a task is limited as it is stored, and the error of a larger one discloses nothing of the store.

use althing_calls::{HostedAgent, Operation};
use althing_communication::{CallerRule, Priority};
use althing_conformance::mesh::{Node, file, message, store};
use althing_protocol::AgentId;
use althing_simnet::{LinkConfig, SimNet};
use serde_json::{Value, json};

async fn node(disk: std::sync::Arc<althing_store::MemoryStore>) -> (Node, AgentId) {
    let node = Node::start(&SimNet::new(1, LinkConfig::default()), 1, 100, &[], disk).await;
    let id = node.host(&file("actor", "does as it is told", "acting.do", "do", "play")).await;
    node.hosting.add(HostedAgent {
        agent: node.stable(&id),
        callers: CallerRule::Trusted,
        input_modes: vec!["text/plain".to_owned()],
        barge_in: true,
        is_told_again: false,
        priority: Priority::default(),
    });
    (node, id)
}

/// A message with so many bytes of numbers that take four bytes of JSON each, and nine where they are stored.
fn numbers(text: &str, bytes: usize) -> Value {
    let mut params = message(text);
    let parts = params["message"]["parts"].as_array_mut().expect("parts");
    parts.push(json!({ "data": vec![0.1; bytes / 4] }));
    params
}

fn to(task: &Value, mut params: Value) -> Value {
    params["message"]["taskId"] = task["id"].clone();
    params
}

#[tokio::test(start_paused = true)]
async fn numbers_that_grow_where_they_are_stored_neither_break_a_task_nor_the_next_start() {
    let disk = store();
    let (node, agent) = node(disk.clone()).await;
    let asked = node.one(&agent, Operation::SendMessage, numbers("ask", 1_000_000)).await.expect("an answer");
    let asked = &asked["task"];
    // As JSON both are less than what may be said in a task; stored they are more than twice that, and fit.
    let more = node.one(&agent, Operation::SendMessage, to(asked, numbers("ask", 860_000))).await.expect("an answer");
    assert_eq!(more["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let refused = node.one(&agent, Operation::SendMessage, to(asked, message(&"x".repeat(800_000)))).await;
    assert!(refused.expect_err("more than may be said").message.contains("begin another task"));
    let answer = node.one(&agent, Operation::SendMessage, to(asked, message("say"))).await.expect("an answer");
    let (again, agent) = self::node(disk).await;
    let kept = again.one(&agent, Operation::GetTask, json!({ "id": asked["id"] })).await.expect("the task");
    assert_eq!(kept["status"], answer["task"]["status"], "how it ended is on the disk");
}
