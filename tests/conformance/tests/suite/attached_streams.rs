//! The stream of a task goes on when the node of the task ended and is back: it has one task, its first event, and after that updates
//! alone, which tell in the end what the task has.

use std::collections::BTreeMap;
use std::sync::Arc;

use althing_calls::{Operation, OperationError, Reply};
use althing_conformance::disk::Disk;
use althing_conformance::mesh::{Node, file, message, store};
use althing_conformance::world::until;
use althing_protocol::AgentId;
use althing_simnet::{LinkConfig, SimNet};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde_json::{Value, json};

const OWNER: u8 = 100;

/// A node with an agent that says something in pieces.
async fn host(net: &SimNet, disk: Arc<Disk>) -> (Node, AgentId) {
    let host = Node::start(net, 2, OWNER, &[], disk).await;
    let id = host.host(&file("actor", "does as it is told", "acting.do", "do", "play")).await;
    (host, id)
}

async fn next(events: &mut BoxStream<'static, Result<Vec<u8>, OperationError>>) -> Option<Value> {
    let event = events.next().await?.expect("it does not break off");
    Some(serde_json::from_slice(&event).expect("JSON"))
}

/// The text of parts.
fn text(parts: &Value) -> String {
    parts.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()).collect()
}

/// What the artifacts say whose updates these events are, all together.
fn said(events: &[Value]) -> String {
    let mut artifacts: BTreeMap<&str, String> = BTreeMap::new();
    for update in events.iter().map(|event| &event["artifactUpdate"]).filter(|update| update.is_object()) {
        let of = artifacts.entry(update["artifact"]["artifactId"].as_str().expect("an id")).or_default();
        if update["append"] != true {
            of.clear();
        }
        of.push_str(&text(&update["artifact"]["parts"]));
    }
    artifacts.into_values().collect()
}

#[tokio::test(start_paused = true)]
async fn a_stream_has_one_task_though_the_node_of_the_task_ended_and_is_back() {
    let (net, disk) = (SimNet::new(1, LinkConfig::default()), Arc::new(Disk::prompt()));
    let (serving, id) = host(&net, disk.clone()).await;
    let caller = Node::start(&net, 1, OWNER, &[], store()).await;
    caller.connect(&serving).await;
    until("the agent is found", || caller.discovery.hosts(&id).len() == 1).await;
    let asked = caller.ask(&id, Operation::SendStreamingMessage, message("pieces")).await.expect("events");
    let Reply::Events(mut events) = asked else { panic!("it streams") };
    let mut told = Vec::new();
    while said(&told) != "0 1 " {
        told.push(next(&mut events).await.expect("it is not over"));
    }

    net.crash(serving.id());
    let (again, _) = host(&net, disk.after_power_cut()).await;
    again.connect(&caller).await;
    while let Some(event) = next(&mut events).await {
        told.push(event);
    }
    let tasks: Vec<bool> = told.iter().map(|event| event["task"].is_object()).collect();
    assert!(tasks[0] && !tasks[1..].contains(&true), "{told:?}");
    let last = told.last().expect("an event");
    assert_eq!(last["statusUpdate"]["status"]["state"], "TASK_STATE_FAILED", "its agent cannot go on: {told:?}");
    let task = caller.one(&id, Operation::GetTask, json!({ "id": told[0]["task"]["id"] })).await.expect("the task");
    assert_eq!(task["status"], last["statusUpdate"]["status"]);
    let whole: String =
        task["artifacts"].as_array().into_iter().flatten().map(|artifact| text(&artifact["parts"])).collect();
    assert_eq!(said(&told), whole, "{told:?}");
}
