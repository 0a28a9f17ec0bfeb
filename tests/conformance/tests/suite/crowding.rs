//! The callers of one agent share its quota of running turns, and block no other agent.

use althing_calls::Operation;
use althing_conformance::mesh::{Node, Setup, file, message, store};
use althing_conformance::world::until;
use althing_protocol::AgentId;
use althing_simnet::{LinkConfig, SimNet};
use serde_json::{Value, json};

async fn open(node: &Node, name: &str) -> AgentId {
    node.host_for_anyone(&file(name, "does as it is told", "acting.do", "do", "play")).await
}

/// A node of an owner of its own, at an address.
async fn stranger_at(net: &SimNet, number: u8, owner: u8, ip: [u8; 4]) -> Node {
    let setup = Setup { ip: Some(ip.into()), ..Setup::new(net, u32::from(number), u32::from(owner)) };
    Node::assemble(net, setup, store()).await
}

fn at_once(text: &str) -> Value {
    let mut params = message(text);
    params["configuration"] = json!({ "returnImmediately": true });
    params
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_fills_a_slow_agent_shuts_out_no_other_agent_and_no_other_caller() {
    let net = SimNet::new(1, LinkConfig::default());
    let host = Node::start(&net, 1, 100, &[], store()).await;
    let (slow, echo) = (open(&host, "slow").await, open(&host, "echo").await);
    let mut strangers = Vec::new();
    for number in 2..=3u8 {
        let stranger = stranger_at(&net, number, 100 + number, [10, 0, 0, number]).await;
        stranger.connect(&host).await;
        let found = || [&slow, &echo].iter().all(|agent| stranger.discovery.hosts(agent).len() == 1);
        until("the agents are found", found).await;
        strangers.push(stranger);
    }
    let greedy = &strangers[0];
    let mut begun = Vec::new();
    let refused = loop {
        match greedy.one(&slow, Operation::SendMessage, at_once("stuck")).await {
            Ok(sent) => begun.push(sent["task"]["id"].clone()),
            Err(refused) => break refused,
        }
        assert!(begun.len() < 4_096, "one caller has all turns");
    };
    assert_eq!(refused.reason(), "OVERLOADED");
    assert_eq!(host.hosting.live_tasks(), begun.len());
    let works = |task: Value| assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
    for agent in [&slow, &echo] {
        works(strangers[1].send(agent, "hello").await);
        works(host.send(agent, "hello").await);
    }
    // What ends is given back, and a refusal left nothing behind.
    let cancelled = greedy.one(&slow, Operation::CancelTask, json!({ "id": begun[0] })).await;
    assert_eq!(cancelled.expect("the task")["status"]["state"], "TASK_STATE_CANCELED");
    works(greedy.send(&slow, "hello").await);
    assert_eq!(host.hosting.live_tasks(), begun.len() - 1);
}

#[tokio::test(start_paused = true)]
async fn many_keys_of_one_address_have_one_share_and_shut_out_nobody() {
    let net = SimNet::new(1, LinkConfig::default());
    let host = Node::start(&net, 1, 100, &[], store()).await;
    let slow = open(&host, "slow").await;
    let mut begun = Vec::new();
    for number in 2..=5u8 {
        let greedy = stranger_at(&net, number, 100 + number, [10, 0, 0, 9]).await;
        greedy.connect(&host).await;
        until("the agent is found", || greedy.discovery.hosts(&slow).len() == 1).await;
        let mut count = 0;
        while greedy.one(&slow, Operation::SendMessage, at_once("stuck")).await.is_ok() {
            count += 1;
            assert!(count < 4_096, "one caller has all turns");
        }
        begun.push(count);
    }
    assert!(begun[0] > 0 && begun[1..].iter().all(|count| *count == 0), "{begun:?}");
    let elsewhere = stranger_at(&net, 6, 106, [10, 0, 1, 1]).await;
    elsewhere.connect(&host).await;
    until("the agent is found", || elsewhere.discovery.hosts(&slow).len() == 1).await;
    assert_eq!(elsewhere.send(&slow, "hello").await["status"]["state"], "TASK_STATE_COMPLETED");
}

/// Numbers in a list take many times as much memory as JSON.
#[tokio::test(start_paused = true)]
async fn what_tasks_take_in_memory_is_bounded_for_each_caller() {
    let net = SimNet::new(1, LinkConfig::default());
    let host = Node::start(&net, 1, 100, &[], store()).await;
    let slow = open(&host, "slow").await;
    let stranger = Node::start(&net, 2, 101, &[], store()).await;
    stranger.connect(&host).await;
    until("the agent is found", || stranger.discovery.hosts(&slow).len() == 1).await;
    let large = || {
        let mut params = at_once("stuck");
        let parts = params["message"]["parts"].as_array_mut().expect("parts");
        parts.push(json!({ "data": vec![1; 200_000] }));
        params
    };
    let mut begun = 0;
    let refused = loop {
        match stranger.one(&slow, Operation::SendMessage, large()).await {
            Ok(_) => begun += 1,
            Err(refused) => break refused,
        }
        assert!(begun < 100, "{begun} tasks of 200,000 values");
    };
    assert_eq!(refused.reason(), "OVERLOADED");
    assert!((1..=2).contains(&begun), "{begun} tasks of 200,000 values");
    assert_eq!(host.send(&slow, "hello").await["status"]["state"], "TASK_STATE_COMPLETED");
}
