//! A call that broke off is not retried on another node, since its work could be done twice.

use althing_calls::{Operation, OperationError};
use althing_conformance::mesh::{Node, file, message, store};
use althing_conformance::program::heard_beside;
use althing_conformance::world::until;
use althing_protocol::AgentId;
use althing_simnet::{LinkConfig, SimNet};
use serde_json::json;

/// A node that asks, and two that host the same agent.
async fn scene(net: &SimNet) -> (Node, [Node; 2], AgentId) {
    let asks = Node::start(net, 1, 100, &[], store()).await;
    let mut program = file("program", "does as it is told", "acting.do", "do", "play");
    program.runtime = althing_td::RuntimeSpec::Native { builtin: "program".to_owned(), config: json!({}) };
    let hosts = [Node::start(net, 2, 100, &[], store()).await, Node::start(net, 3, 100, &[], store()).await];
    let id = hosts[0].host(&program).await;
    assert_eq!(hosts[1].host(&program).await, id);
    for host in &hosts {
        asks.connect(host).await;
    }
    until("both are found", || asks.discovery.hosts(&id).len() == 2).await;
    (asks, hosts, id)
}

/// Asks in either way, for an answer that takes 90 s.
async fn call(node: &Node, id: &AgentId, operation: Operation, text: &str) -> Result<(), OperationError> {
    if operation.streams() {
        node.all(id, operation, message(text)).await.map(drop)
    } else {
        node.one(id, operation, message(text)).await.map(drop)
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_a_host_took_before_it_died_is_not_sent_to_another_host() {
    for operation in [Operation::SendMessage, Operation::SendStreamingMessage] {
        let net = SimNet::new(1, LinkConfig::default());
        let (asks, hosts, id) = scene(&net).await;
        let text = format!("late {}", operation.name());
        let dies = async {
            let works = || hosts.iter().find(|host| host.hosting.live_tasks() == 1);
            until("one works on it", || works().is_some()).await;
            net.crash(works().expect("one of them").id());
        };
        let (outcome, ()) = tokio::join!(call(&asks, &id, operation, &text), dies);
        assert_eq!(outcome.expect_err("nobody knows what became of it").reason(), "AGENT_UNREACHABLE", "{operation:?}");
        assert_eq!(heard_beside(&text).len(), 1, "{operation:?}: it is worked on once");
        // The other one is well, and takes what is asked next.
        until("the one that died is gone", || asks.discovery.hosts(&id).len() == 1).await;
        let next = format!("message after {}", operation.name());
        call(&asks, &id, operation, &next).await.expect("an answer");
        assert_eq!(heard_beside(&next).len(), 1);
    }
}
