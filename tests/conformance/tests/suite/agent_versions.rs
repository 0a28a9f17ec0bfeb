//! Two versions of one agent run on one node: a new message goes to the stable one, a task goes on with the version that works
//! on it, and when one of them is stopped the other goes on.

use std::path::Path;

use althing_calls::{HostedAgent, Operation};
use althing_communication::{CallerRule, Priority};
use althing_conformance::mesh::{Node, message};
use althing_conformance::program::heard_beside;
use althing_conformance::world::until;
use althing_protocol::{AgentId, AgentRef};
use althing_td::{AgentFile, RuntimeSpec};
use serde_json::{Value, json};

use crate::mesh::{actor, calm, pair};

/// A later version of `actor`, which is another program: it answers messages without a task.
fn later() -> AgentFile {
    let runtime = RuntimeSpec::Native { builtin: "program".to_owned(), config: json!({}) };
    AgentFile { version: "1.1.0-rc.1".to_owned(), runtime, ..actor() }
}

/// Starts a version of an agent as a node starts any, beside those that run.
fn start(node: &Node, file: &AgentFile) -> AgentRef {
    node.host.start_pinned(file, Path::new("/"), None).expect("no other one of that version runs");
    let agent = AgentRef::new(node.owner.id(), &file.name, &file.version).expect("a name");
    node.hosting.add(HostedAgent {
        agent: agent.clone(),
        callers: CallerRule::Trusted,
        input_modes: vec!["text/plain".to_owned()],
        barge_in: false,
        is_told_again: false,
        priority: Priority::default(),
    });
    agent
}

/// Stops one version, as a node stops each that an agent has.
async fn stop(node: &Node, agent: &AgentRef) {
    node.hosting.remove(agent);
    assert!(node.host.stop(agent).await, "it runs");
}

/// Sends a message, to a task if there is one; gives the version that answered it.
async fn version_of(from: &Node, agent: &AgentId, task: Option<&Value>) -> &'static str {
    let mut params = message("message hello");
    if let Some(task) = task {
        params["message"]["taskId"] = task["id"].clone();
    }
    let answer = from.one(agent, Operation::SendMessage, params).await.expect("an answer");
    let (echoed, said) = (&answer["task"]["artifacts"][0]["parts"][0]["text"], &answer["message"]["parts"][0]["text"]);
    match (echoed.as_str(), said.as_str()) {
        (Some("message hello"), None) => "1.0.0",
        (None, Some("hello")) => "1.1.0-rc.1",
        _ => panic!("neither version answers so: {answer}"),
    }
}

/// A task that waits for a message, of the version that is stable; `text` makes it ask.
async fn waiting(from: &Node, agent: &AgentId, text: &str) -> Value {
    let task = from.send(agent, text).await;
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task}");
    task
}

async fn state(from: &Node, agent: &AgentId, operation: Operation, task: &Value) -> Value {
    let task = from.one(agent, operation, json!({ "id": task })).await.expect("the task");
    task["status"]["state"].clone()
}

#[tokio::test(start_paused = true)]
async fn each_version_is_given_what_is_of_its_tasks_and_the_stable_one_what_is_new() {
    let (a, b, id) = pair(&calm()).await;
    let ask = || waiting(&a, &id, "ask");
    let [one, other, third] = [ask().await, ask().await, ask().await];
    let first = b.stable(&id);
    let second = start(&b, &later());
    assert_eq!(b.host.versions("actor"), [first.clone(), second.clone()]);
    assert!(b.host.start_pinned(&later(), Path::new("/"), None).is_err(), "a version runs once");

    // From another node, and from the node itself.
    for from in [&a, &b] {
        assert_eq!(version_of(from, &id, None).await, "1.0.0");
    }
    assert_eq!(version_of(&a, &id, Some(&one)).await, "1.0.0");

    stop(&b, &first).await;
    assert_eq!(b.stable(&id), second);
    for from in [&a, &b] {
        assert_eq!(version_of(from, &id, None).await, "1.1.0-rc.1");
    }
    assert_eq!(version_of(&a, &id, Some(&third)).await, "1.1.0-rc.1", "its own runs no more");
    let of_second = waiting(&a, &id, "ask two-versions").await;

    // The one that is stable stays it, and the other one has its tasks again.
    let first = start(&b, &actor());
    assert_eq!(b.host.versions("actor"), [second.clone(), first.clone()]);
    assert_eq!(version_of(&a, &id, None).await, "1.1.0-rc.1");
    assert_eq!(version_of(&a, &id, Some(&other)).await, "1.0.0");
    assert_eq!(version_of(&a, &id, Some(&of_second)).await, "1.1.0-rc.1");

    // What is told of a task beside messages goes to its version too.
    stop(&b, &second).await;
    start(&b, &later());
    assert_eq!(b.stable(&id), first);
    assert_eq!(version_of(&a, &id, None).await, "1.0.0");
    assert_eq!(state(&a, &id, Operation::CancelTask, &of_second["id"]).await, "TASK_STATE_CANCELED");
    assert_eq!(heard_beside("cancel two-versions").len(), 1, "its program was told");

    // Both are the agent.
    b.agents.remove("actor").await.expect("it was added");
    assert!(b.host.versions("actor").is_empty() && b.host.status().is_empty() && !b.hosting.hosts(&id));
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_stopped_ends_its_own_turns_and_no_others() {
    let (a, b, id) = pair(&calm()).await;
    let first = b.stable(&id);
    let stuck = a.begin(&id, "stuck").await;
    let second = start(&b, &later());
    until("it works", || b.hosting.live_tasks() == 1).await;
    stop(&b, &first).await;
    until("its turn is over", || b.hosting.live_tasks() == 0).await;
    assert_eq!(state(&a, &id, Operation::GetTask, &stuck).await, "TASK_STATE_CANCELED");

    let slow = a.begin(&id, "slow answer").await;
    let first = start(&b, &actor());
    until("it works", || b.hosting.live_tasks() == 1).await;
    stop(&b, &first).await;
    assert_eq!(b.hosting.live_tasks(), 1, "it is the turn of {second:?}");
    assert_eq!(state(&a, &id, Operation::CancelTask, &slow).await, "TASK_STATE_CANCELED");
}
