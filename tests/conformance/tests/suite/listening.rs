//! Subscribers of a task: only its own caller, and none that has disconnected.

use althing_calls::{Operation, OperationError, Reply};
use althing_conformance::mesh::{Node, file, store};
use althing_conformance::world::until;
use althing_protocol::AgentId;
use althing_simnet::{LinkConfig, SimNet};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde_json::{Value, json};

/// Listeners that came and went: more than a task has room for.
const VISITS: usize = 100;

type Events = BoxStream<'static, Result<Vec<u8>, OperationError>>;

/// An agent that everybody may call.
async fn open(node: &Node, name: &str) -> AgentId {
    node.host_for_anyone(&file(name, "does as it is told", "acting.do", "do", "play")).await
}

async fn listen(node: &Node, agent: &AgentId, task: &Value) -> Result<Events, OperationError> {
    match node.ask(agent, Operation::SubscribeToTask, json!({ "id": task })).await? {
        Reply::Events(events) => Ok(events),
        Reply::One(_) => panic!("it streams"),
    }
}

async fn refused(node: &Node, agent: &AgentId, task: &Value) -> String {
    listen(node, agent, task)
        .await
        .err()
        .map_or_else(|| "it is heard".to_owned(), |refusal| refusal.reason().to_owned())
}

fn state(event: &[u8]) -> Value {
    let event: Value = serde_json::from_slice(event).expect("JSON");
    let status = event.get("task").or(event.get("statusUpdate")).expect("a task, or how it is");
    status["status"]["state"].clone()
}

/// Whether its turn runs, or it waits for an answer.
#[tokio::test(start_paused = true)]
async fn a_task_is_heard_only_by_the_caller_and_through_the_agent_that_it_belongs_to() {
    let net = SimNet::new(1, LinkConfig::default());
    let host = Node::start(&net, 1, 100, &[], store()).await;
    let (agent, other_agent) = (open(&host, "actor").await, open(&host, "other").await);
    let own = Node::start(&net, 2, 101, &[], store()).await;
    let other = Node::start(&net, 3, 102, &[], store()).await;
    for caller in [&own, &other] {
        caller.connect(&host).await;
        let found = || [&agent, &other_agent].iter().all(|id| caller.discovery.hosts(id).len() == 1);
        until("the agents are found", found).await;
    }
    for (text, expected) in [("stuck", "TASK_STATE_WORKING"), ("ask", "TASK_STATE_INPUT_REQUIRED")] {
        let task = own.begin(&agent, text).await;
        let mut heard = listen(&own, &agent, &task).await.expect("it is its own");
        let mut now = state(&heard.next().await.expect("an event").expect("the task"));
        while now != expected {
            now = state(&heard.next().await.expect("an event").expect("how it is"));
        }
        assert_eq!(refused(&other, &agent, &task).await, "TASK_NOT_FOUND", "{text}: another caller");
        assert_eq!(refused(&host, &agent, &task).await, "TASK_NOT_FOUND", "{text}: the agent's own node");
        assert_eq!(refused(&own, &other_agent, &task).await, "TASK_NOT_FOUND", "{text}: through another agent");
    }
}

#[tokio::test(start_paused = true)]
async fn listeners_that_hung_up_take_no_place_at_a_task_that_runs_or_waits() {
    let net = SimNet::new(1, LinkConfig::default());
    let node = Node::start(&net, 1, 100, &[], store()).await;
    let agent = open(&node, "actor").await;
    let runs = node.begin(&agent, "stuck").await;
    let waits = node.send(&agent, "ask").await["id"].clone();
    for task in [runs, waits] {
        for visit in 0..VISITS {
            let listening = listen(&node, &agent, &task).await;
            drop(listening.unwrap_or_else(|refusal| panic!("visit {visit}: {refusal}")));
        }
        let last = listen(&node, &agent, &task).await.expect("there is room");
        node.one(&agent, Operation::CancelTask, json!({ "id": task })).await.expect("cancelled");
        let heard: Vec<Value> = last.map(|event| state(&event.expect("an event"))).collect().await;
        assert_eq!(heard.last(), Some(&json!("TASK_STATE_CANCELED")));
    }
}
