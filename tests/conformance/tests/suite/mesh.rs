//! Whole nodes in virtual time: L1, L2, L3 and calls over the simulated network.

use std::sync::Arc;
use std::time::Duration;

use althing_calls::{Among, Asker, Callee, HostedAgent, Operation, OperationError, Purpose, Reply};
use althing_communication::{CallerRule, Priority, Request};
use althing_conformance::mesh::{Node, Owner, agent, file, message, store};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_discovery::{Learned, Query};
use althing_protocol::AgentId;
use althing_protocol::object::{self, Hosted, Placement};
use althing_simnet::{LinkConfig, SimNet};
use futures::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};

pub(crate) const OWNER: u8 = 100;
pub(crate) const STRANGER: u8 = 101;

pub(crate) fn actor() -> althing_td::AgentFile {
    file("actor", "does as it is told", "acting.do", "do", "play")
}

/// Two nodes of one owner, the second hosting `actor`, which the first has found.
pub(crate) async fn pair(net: &SimNet) -> (Node, Node, AgentId) {
    let a = Node::start(net, 1, OWNER, &[], store()).await;
    let b = Node::start(net, 2, OWNER, &[], store()).await;
    let id = b.host(&actor()).await;
    a.connect(&b).await;
    found(&a, &id).await;
    (a, b, id)
}

pub(crate) fn nodes_of(node: &Node, id: &AgentId) -> usize {
    let (all, _) = node.discovery.find(&Query::default());
    all.iter().filter(|found| found.candidate.verified.agent == *id).count()
}

pub(crate) async fn found(node: &Node, id: &AgentId) {
    until("the agent is found", || nodes_of(node, id) == 1).await;
}

pub(crate) fn calm() -> SimNet {
    SimNet::new(1, LinkConfig::default())
}

fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().expect("a state")
}

fn reason(outcome: Result<Value, OperationError>) -> String {
    outcome.expect_err("a refusal").reason().to_owned()
}

fn continuing(task: &Value, text: &str) -> Value {
    let mut params = message(text);
    params["message"]["taskId"] = task["id"].clone();
    params
}

#[tokio::test(start_paused = true)]
async fn an_agent_is_found_by_what_it_can_do_and_answers() {
    let net = calm();
    let (a, b, id) = pair(&net).await;
    let of = |query: Query| {
        let (all, _) = a.discovery.find(&query);
        all.into_iter().map(|found| (found.node, found.learned, found.load_permille)).collect::<Vec<_>>()
    };
    let expected = [(b.id(), Learned::Push, 20)];
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(of(Query { capability: text("acting.*"), ..Query::default() }), expected);
    assert_eq!(of(Query { action: text("DO"), target: text("play"), ..Query::default() }), expected);
    assert_eq!(of(Query { text: text("told what to do"), ..Query::default() }), expected);
    assert_eq!(of(Query { max_load: Some(0.02), ..Query::default() }), expected);
    assert_eq!(of(Query { max_load: Some(0.01), ..Query::default() }), []);
    assert_eq!(of(Query { action: text("do"), target: text("work"), ..Query::default() }), []);
    let task = a.send(&id, "hello").await;
    assert_eq!(state(&task), "TASK_STATE_COMPLETED");
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "hello");
    assert_eq!(task["history"][0]["parts"][0]["text"], "hello");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_is_gone_within_8_seconds_and_one_that_leaves_at_once() {
    for dies in [true, false] {
        let net = calm();
        let (a, b, id) = pair(&net).await;
        let begun = tokio::time::Instant::now();
        if dies {
            net.crash(b.id());
        } else {
            b.discovery.leave().await;
        }
        until("it is gone", || nodes_of(&a, &id) == 0).await;
        let limit = if dies { Duration::from_secs(8) } else { Duration::from_millis(100) };
        assert!(begun.elapsed() < limit, "dies: {dies}, {:?}", begun.elapsed());
        let unknown = reason(a.one(&id, Operation::SendMessage, message("hi")).await);
        assert_eq!(unknown, "AGENT_UNKNOWN");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_starts_again_is_believed_again() {
    let net = calm();
    let (a, b, id) = pair(&net).await;
    net.crash(b.id());
    until("it is gone", || nodes_of(&a, &id) == 0).await;
    let again = Node::start(&net, 2, OWNER, &[], store()).await;
    again.host(&actor()).await;
    again.connect(&a).await;
    found(&a, &id).await;
    assert_eq!(state(&a.send(&id, "hi").await), "TASK_STATE_COMPLETED");
}

#[tokio::test(start_paused = true)]
async fn a_stranger_finds_and_may_not_call() {
    let net = calm();
    let (a, b, id) = pair(&net).await;
    let stranger = Node::start(&net, 3, STRANGER, &[], store()).await;
    stranger.connect(&b).await;
    found(&stranger, &id).await;
    for operation in [Operation::SendMessage, Operation::GetTask, Operation::ListTasks, Operation::CancelTask] {
        let mut params = message("hi");
        params["id"] = json!("some");
        assert_eq!(reason(stranger.one(&id, operation, params).await), "CALLER_NOT_ALLOWED", "{operation:?}");
    }
    for operation in [Operation::SendStreamingMessage, Operation::SubscribeToTask] {
        let mut params = message("hi");
        params["id"] = json!("some");
        let refused = stranger.all(&id, operation, params).await.expect_err("a refusal");
        assert_eq!(refused.reason(), "CALLER_NOT_ALLOWED", "{operation:?}");
    }
    assert_eq!(b.hosting.live_tasks(), 0);

    // An agent for everybody; what one caller did is not shown to the other.
    b.hosting.add(HostedAgent {
        agent: b.stable(&id),
        callers: CallerRule::Anyone,
        input_modes: vec!["text/plain".to_owned()],
        barge_in: false,
        is_told_again: false,
        priority: Priority::default(),
    });
    let task = stranger.send(&id, "mine").await;
    assert_eq!(state(&task), "TASK_STATE_COMPLETED");
    let by_id = json!({ "id": task["id"] });
    assert_eq!(reason(a.one(&id, Operation::GetTask, by_id.clone()).await), "TASK_NOT_FOUND");
    assert_eq!(reason(a.one(&id, Operation::CancelTask, by_id).await), "TASK_NOT_FOUND");
    let listed = a.one(&id, Operation::ListTasks, json!({})).await.expect("a list");
    assert_eq!((listed["tasks"].clone(), listed["totalSize"].clone()), (json!([]), json!(0)));
}

#[tokio::test(start_paused = true)]
async fn a_task_asks_and_goes_on() {
    let net = calm();
    let (a, _b, id) = pair(&net).await;
    let task = a.send(&id, "ask").await;
    assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED");
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "which?");
    let by_id = json!({ "id": task["id"] });

    let mut elsewhere = continuing(&task, "that");
    elsewhere["message"]["contextId"] = json!("another");
    assert_eq!(a.one(&id, Operation::SendMessage, elsewhere).await.expect_err("a refusal").code(), -32_602);

    // Who subscribes while it waits hears of the next turn; who sends hears of its own.
    let Reply::Events(subscribed) = a.ask(&id, Operation::SubscribeToTask, by_id.clone()).await.expect("events") else {
        panic!("it streams");
    };
    let heard = tokio::spawn(subscribed.map(|event| parsed(&event.expect("an event"))).collect::<Vec<Value>>());
    let asked_again = a.all(&id, Operation::SendStreamingMessage, continuing(&task, "ask")).await.expect("events");
    assert_eq!(asked_again.last().map(states), Some("TASK_STATE_INPUT_REQUIRED".to_owned()));
    let done = a.all(&id, Operation::SendStreamingMessage, continuing(&task, "that")).await.expect("events");
    assert_eq!(done.last().map(states), Some("TASK_STATE_COMPLETED".to_owned()));
    let heard: Vec<String> = heard.await.expect("no panic").iter().map(states).collect();
    let (working, asks) = ("TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED");
    assert_eq!(heard, [asks, working, asks, working, "artifact", "TASK_STATE_COMPLETED"]);

    let whole = a.one(&id, Operation::GetTask, by_id.clone()).await.expect("the task");
    let said: Vec<&str> =
        whole["history"].as_array().expect("history").iter().filter_map(|m| m["parts"][0]["text"].as_str()).collect();
    assert_eq!(said, ["ask", "which?", "ask", "which?", "that"]);
    let short = json!({ "id": task["id"], "historyLength": 2 });
    let short = a.one(&id, Operation::GetTask, short).await.expect("the task");
    assert_eq!(short["history"].as_array().map(Vec::len), Some(2));

    // It is over: nothing goes on.
    let unsupported = "UNSUPPORTED_OPERATION";
    assert_eq!(reason(a.one(&id, Operation::SendMessage, continuing(&task, "more")).await), unsupported);
    let over = a.all(&id, Operation::SubscribeToTask, by_id.clone()).await.expect_err("a refusal");
    assert_eq!(over.reason(), unsupported);
    assert_eq!(reason(a.one(&id, Operation::CancelTask, by_id).await), "TASK_NOT_CANCELABLE");
}

fn parsed(json: &[u8]) -> Value {
    serde_json::from_slice(json).expect("JSON")
}

/// The state that an event tells, or what it is.
fn states(event: &Value) -> String {
    let status = event.get("task").or(event.get("statusUpdate")).map(|about| state(about).to_owned());
    status.unwrap_or_else(|| if event.get("artifactUpdate").is_some() { "artifact" } else { "?" }.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_task_is_cancelled_while_it_works_and_while_it_waits() {
    let net = calm();
    let (a, b, id) = pair(&net).await;
    b.hosting.add(HostedAgent {
        agent: b.stable(&id),
        callers: CallerRule::Trusted,
        input_modes: vec!["text/plain".to_owned()],
        barge_in: false,
        is_told_again: false,
        priority: Priority::default(),
    });
    let stuck = a.begin(&id, "stuck").await;
    until("it works", || b.hosting.live_tasks() == 1).await;
    let busy = a.one(&id, Operation::SendMessage, continuing(&json!({ "id": stuck }), "more")).await;
    assert_eq!(reason(busy), "UNSUPPORTED_OPERATION");
    let cancelled = a.one(&id, Operation::CancelTask, json!({ "id": stuck })).await.expect("the task");
    assert_eq!(state(&cancelled), "TASK_STATE_CANCELED");
    assert_eq!(b.hosting.live_tasks(), 0);

    let waits = a.send(&id, "ask").await;
    let by_id = json!({ "id": waits["id"] });
    let Reply::Events(subscribed) = a.ask(&id, Operation::SubscribeToTask, by_id.clone()).await.expect("events") else {
        panic!("it streams");
    };
    let heard = tokio::spawn(subscribed.map(|event| states(&parsed(&event.expect("an event")))).collect::<Vec<_>>());
    let cancelled = a.one(&id, Operation::CancelTask, by_id).await.expect("the task");
    assert_eq!(state(&cancelled), "TASK_STATE_CANCELED");
    assert_eq!(heard.await.expect("no panic"), ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_CANCELED"]);
}

#[tokio::test(start_paused = true)]
async fn who_sends_does_not_hear_of_the_next_turn() {
    let net = calm();
    let (a, _b, id) = pair(&net).await;
    let events = a.all(&id, Operation::SendStreamingMessage, message("ask")).await.expect("events");
    let told: Vec<String> = events.iter().map(states).collect();
    assert_eq!(told, ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED"]);
}

#[tokio::test(start_paused = true)]
async fn all_who_listen_hear_the_same_in_the_same_order() {
    let net = calm();
    let (a, b, id) = pair(&net).await;
    let c = Node::start(&net, 3, OWNER, &[], store()).await;
    c.connect(&b).await;
    found(&c, &id).await;
    let Reply::Events(sent) = a.ask(&id, Operation::SendStreamingMessage, message("pieces")).await.expect("events")
    else {
        panic!("it streams");
    };
    let mut sent = sent.map(|event| parsed(&event.expect("an event")));
    let first = sent.next().await.expect("an event");
    let by_id = json!({ "id": first["task"]["id"] });
    let listening = [&a, &c, &b].map(|node| node.all(&id, Operation::SubscribeToTask, by_id.clone()));
    let (own, others) = tokio::join!(sent.collect::<Vec<Value>>(), futures::future::join_all(listening));
    // Working, then five pieces and five words, and the end.
    assert_eq!(own.len(), 12);
    for heard in others {
        let heard = heard.expect("events");
        assert!(heard[0].get("task").is_some(), "the task as it is comes first");
        assert!(heard.len() > 10, "it listened from the beginning: {}", heard.len());
        assert_eq!(heard[1..], own[own.len() + 1 - heard.len()..]);
    }
    let task = a.one(&id, Operation::GetTask, by_id).await.expect("the task");
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "0 1 2 3 4 ");
}

#[tokio::test(start_paused = true)]
async fn a_restart_fails_what_ran_and_keeps_the_rest() {
    let net = calm();
    let disk = store();
    let a = Node::start(&net, 1, OWNER, &[], store()).await;
    let b = Node::start(&net, 2, OWNER, &[], disk.clone()).await;
    let id = b.host(&actor()).await;
    a.connect(&b).await;
    found(&a, &id).await;
    let done = a.send(&id, "hello").await;
    let asked = a.send(&id, "ask").await;
    let stuck = a.begin(&id, "stuck").await;

    net.crash(b.id());
    until("it is gone", || nodes_of(&a, &id) == 0).await;
    // Nobody can say how it is now: it is as it was last known, and says so.
    let stale = a.one(&id, Operation::GetTask, json!({ "id": asked["id"] })).await.expect("the task");
    assert_eq!(stale["metadata"][althing_calls::STALE]["node"], b.id().did());
    assert_eq!(state(&stale), "TASK_STATE_INPUT_REQUIRED");
    let refused = reason(a.one(&id, Operation::CancelTask, json!({ "id": stuck })).await);
    assert_eq!(refused, "AGENT_UNREACHABLE");

    let again = Node::start(&net, 2, OWNER, &[], disk).await;
    again.host(&actor()).await;
    again.connect(&a).await;
    found(&a, &id).await;
    for (task, expected) in [
        (&done["id"], "TASK_STATE_COMPLETED"),
        (&asked["id"], "TASK_STATE_INPUT_REQUIRED"),
        (&stuck, "TASK_STATE_FAILED"),
    ] {
        let shown = a.one(&id, Operation::GetTask, json!({ "id": task })).await.expect("the task");
        assert_eq!(state(&shown), expected);
        assert_eq!(shown["metadata"], Value::Null, "it is not stale any more");
    }
    let on = a.one(&id, Operation::SendMessage, continuing(&asked, "that")).await.expect("an answer");
    assert_eq!(state(&on["task"]), "TASK_STATE_COMPLETED");
}

#[tokio::test(start_paused = true)]
async fn tasks_are_listed_in_pages_across_all_nodes_of_an_agent() {
    let net = calm();
    let (a, b, id) = pair(&net).await;
    let c = Node::start(&net, 3, OWNER, &[], store()).await;
    assert_eq!(c.host(&actor()).await, id);
    for other in [&a, &b] {
        c.connect(other).await;
    }
    until("both are found", || nodes_of(&a, &id) == 2).await;
    let mut sent = Vec::new();
    for number in 0..7 {
        // Each node's own calls stay with it.
        let from = if number % 2 == 0 { &b } else { &c };
        let text = if number == 3 { "ask" } else { "hello" };
        sent.push(from.send(&id, text).await["id"].clone());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut token = String::new();
    let mut listed = Vec::new();
    loop {
        let params = json!({ "pageSize": 3, "pageToken": token });
        let page = a.one(&id, Operation::ListTasks, params).await.expect("a page");
        assert_eq!((&page["totalSize"], &page["pageSize"]), (&json!(7), &json!(3)));
        let tasks = page["tasks"].as_array().expect("tasks").clone();
        assert!(tasks.iter().all(|task| task.get("artifacts").is_none()), "only when asked for");
        listed.extend(tasks.iter().map(|task| task["id"].clone()));
        token = page["nextPageToken"].as_str().expect("always there").to_owned();
        if token.is_empty() {
            break;
        }
    }
    // P-57
    sent.reverse();
    assert_eq!(listed, sent);
    let params = json!({ "status": "TASK_STATE_INPUT_REQUIRED", "includeArtifacts": true, "historyLength": 0 });
    let waiting = a.one(&id, Operation::ListTasks, params).await.expect("a page");
    assert_eq!((&waiting["totalSize"], &waiting["tasks"][0]["id"]), (&json!(1), &sent[3]));
    for params in [json!({ "pageSize": 0 }), json!({ "pageSize": 101 }), json!({ "pageToken": "nonsense" })] {
        assert_eq!(a.one(&id, Operation::ListTasks, params).await.expect_err("a refusal").code(), -32_602);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_fails_over_to_the_node_that_is_left() {
    let net = calm();
    let (a, b, id) = pair(&net).await;
    let c = Node::start(&net, 3, OWNER, &[], store()).await;
    c.host(&actor()).await;
    c.connect(&a).await;
    until("both are found", || nodes_of(&a, &id) == 2).await;
    // The second has the lower load, and would be asked first.
    net.crash(b.id());
    assert_eq!(state(&a.send(&id, "hello").await), "TASK_STATE_COMPLETED");
}

/// Pushes a placement of `hosted`, signed by `signer`, as `pusher`; gives whether it was taken.
async fn push(net: &SimNet, pusher: u8, placed: u8, signer: u8, victim: &Node, hosted: Vec<Hosted>) -> bool {
    let peer = Node::start(net, pusher, STRANGER, &[], store()).await;
    peer.connect(victim).await;
    let mut placement = Placement::new(key(placed).public(), NOW_MS * 2, victim.clock.now_ms(), 6_000);
    placement.agents = hosted;
    let bytes = object::sign(placement, NETWORK, "", &key(signer)).expect("a placement").bytes;
    peer.communication.call(victim.id(), althing_discovery::PLACEMENTS, Request::new("placement", bytes)).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn forged_placements_are_refused_and_counted() {
    let net = calm();
    let (a, b, id) = pair(&net).await;
    assert!(!push(&net, 4, 2, 4, &a, Vec::new()).await, "another's placement, signed by the pusher");
    assert!(!push(&net, 5, 2, 2, &a, Vec::new()).await, "another's placement, pushed by a stranger");
    assert_eq!(a.discovery.status().refused, 2);
    assert_eq!(nodes_of(&a, &id), 1);
    assert_eq!(state(&a.send(&id, "hello").await), "TASK_STATE_COMPLETED");
    drop(b);
}

#[tokio::test(start_paused = true)]
async fn who_has_no_grant_is_not_believed() {
    let net = calm();
    let a = Node::start(&net, 1, OWNER, &[], store()).await;
    let rogue = Node::start(&net, 4, STRANGER, &[], store()).await;
    rogue.connect(&a).await;
    // Granted by the wrong owner; granted to another node; granted for a time that is over.
    let owner = key(OWNER);
    let forged = [
        agent(&Owner::new(owner.clone()), &key(STRANGER), rogue.id(), &actor(), 1, NOW_MS),
        agent(&Owner::new(owner.clone()), &owner, a.id(), &actor(), 1, NOW_MS),
        agent(&Owner::new(owner.clone()), &owner, rogue.id(), &actor(), 1, NOW_MS - 7_200_000),
    ];
    for (number, local) in (1..).zip(forged) {
        let id = local.verified.agent.clone();
        rogue.discovery.host(local);
        until("it is refused", || a.discovery.status().refused >= number).await;
        assert_eq!(nodes_of(&a, &id), 0);
        rogue.discovery.unhost(&id);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let honest = agent(&Owner::new(owner.clone()), &owner, rogue.id(), &actor(), 1, rogue.clock.now_ms());
    let id = honest.verified.agent.clone();
    rogue.discovery.host(honest);
    found(&a, &id).await;
}

#[tokio::test(start_paused = true)]
async fn newer_descriptions_win() {
    let net = calm();
    let (a, b, id) = pair(&net).await;
    let newer = file("actor", "sings", "acting.sing", "sing", "songs");
    b.publish(&newer, NOW_MS * 2);
    let titled = |text: &str| a.discovery.find(&Query { text: Some(text.to_owned()), ..Query::default() }).0.len();
    until("the new one is known", || titled("sings") == 1).await;
    assert_eq!(titled("told"), 0);
    // P-42: an older one, from a node that lags behind, does not describe it.
    let c = Node::start(&net, 0, OWNER, &[], store()).await;
    c.host(&actor()).await;
    c.connect(&a).await;
    until("both are known", || nodes_of(&a, &id) == 2).await;
    let described = a.discovery.describe(&id).expect("it is known");
    assert_eq!(described.verified.description.body.sequence, NOW_MS * 2);
    assert_eq!(a.discovery.hosts(&id), [b.id(), c.id()], "the stale version is asked last, although it is idle");
}

#[tokio::test(start_paused = true)]
async fn a_nodes_own_tasks_are_asked_for_there_although_another_has_a_newer_version() {
    let net = calm();
    let a = Node::start(&net, 1, OWNER, &[], store()).await;
    let id = a.host(&actor()).await;
    let task = a.send(&id, "ask").await;
    let b = Node::start(&net, 2, OWNER, &[], store()).await;
    b.host(&actor()).await;
    b.publish(&file("actor", "sings", "acting.sing", "sing", "songs"), NOW_MS * 2);
    a.connect(&b).await;
    until("the other is preferred", || a.discovery.hosts(&id) == [b.id(), a.id()]).await;
    let got = a.one(&id, Operation::GetTask, json!({ "id": task["id"] })).await.expect("it is here");
    assert_eq!(got["id"], task["id"]);
    // Where the preferred one cannot be reached, the agent here is called.
    net.cut(a.id(), b.id());
    a.communication.network().disconnect(b.id());
    assert_eq!(a.discovery.hosts(&id), [b.id(), a.id()], "its placement is still believed");
    assert_eq!(state(&a.send(&id, "hello").await), "TASK_STATE_COMPLETED");
}

#[tokio::test(start_paused = true)]
async fn a_cut_link_is_dialled_again_and_its_node_found_within_5_seconds() {
    let net = calm();
    let (a, b, id) = pair(&net).await;
    a.discovery.add_bootstrap(format!("sim:{}", b.id()));
    net.cut(a.id(), b.id());
    until("it is gone", || nodes_of(&a, &id) == 0).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    net.heal(a.id(), b.id());
    let begun = tokio::time::Instant::now();
    found(&a, &id).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(a.communication.network().peers().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn hidden_agents_are_seen_by_nobody_and_others_by_those_who_may() {
    let net = calm();
    let b = Node::start(&net, 2, OWNER, &[], store()).await;
    let a = Node::start(&net, 1, OWNER, &[], store()).await;
    for (name, exposure) in [("open", "public"), ("friends", "trusted"), ("mine", "own"), ("secret", "hidden")] {
        let mut local = agent(&b.owner, &b.owner.key, b.id(), &file(name, name, "x.y", "x", "y"), 1, b.clock.now_ms());
        local.exposure = serde_json::from_value(json!(exposure)).expect("an exposure");
        b.discovery.host(local);
    }
    let stranger = Node::start(&net, 3, STRANGER, &[], store()).await;
    a.connect(&b).await;
    stranger.connect(&b).await;
    let count = |node: &Node| node.discovery.find(&Query::default()).0.len();
    until("a node of the owner sees three, a stranger one", || (count(&a), count(&stranger)) == (3, 1)).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((count(&a), count(&stranger), count(&b)), (3, 1, 4));
    let described = Arc::new(AgentId::new(b.owner.id(), "secret").expect("a name"));
    assert!([&a, &stranger].iter().all(|node| node.discovery.describe(&described).is_none()));
}

#[tokio::test(start_paused = true)]
async fn large_tasks_are_shown_as_far_as_a_frame_carries() {
    let net = calm();
    let (a, _b, id) = pair(&net).await;
    // An answer may be longer than any request.
    let task = a.send(&id, &"x".repeat(1_000_000)).await;
    assert_eq!(state(&task), "TASK_STATE_COMPLETED");
    assert_eq!(task["artifacts"][0]["parts"][0]["text"].as_str().map(str::len), Some(1_000_000));
    assert!(task.to_string().len() > 1 << 20, "the message is shown beside it");
    let again = a.one(&id, Operation::GetTask, json!({ "id": task["id"] })).await.expect("the task");
    assert_eq!(again["artifacts"], task["artifacts"]);

    // A page ends where a frame does, and the next goes on there.
    let mut sent = vec![task["id"].clone()];
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        sent.insert(0, a.send(&id, &"y".repeat(1_000_000)).await["id"].clone());
    }
    let (mut listed, mut pages, mut token) = (Vec::new(), 0, json!(""));
    loop {
        let params = json!({ "includeArtifacts": true, "historyLength": 0, "pageToken": token });
        let page = a.one(&id, Operation::ListTasks, params).await.expect("a page");
        listed.extend(page["tasks"].as_array().expect("tasks").iter().map(|task| task["id"].clone()));
        (pages, token) = (pages + 1, page["nextPageToken"].clone());
        if token == "" {
            break;
        }
    }
    assert_eq!(listed, sent);
    assert!(pages > 1, "six tasks of this size are more than one page");
}

#[tokio::test(start_paused = true)]
async fn whoever_goes_away_while_asking_leaves_no_task_alive_for_ever() {
    let net = calm();
    let (a, b, id) = pair(&net).await;
    for steps in 0..40 {
        // Polled a few times, then dropped: at every point of the way, here and on the other node.
        for node in [&a, &b] {
            let mut asking = Box::pin(node.one(&id, Operation::SendMessage, message("hello")));
            for _ in 0..steps {
                if asking.as_mut().now_or_never().is_some() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
    }
    until("all turns end", || b.hosting.live_tasks() == 0).await;
    let all = b.one(&id, Operation::ListTasks, json!({ "pageSize": 100 })).await.expect("a list");
    let tasks = all["tasks"].as_array().expect("tasks");
    assert!(!tasks.is_empty());
    assert!(tasks.iter().all(|task| state(task) == "TASK_STATE_COMPLETED"), "{tasks:?}");
}

#[tokio::test(start_paused = true)]
async fn cancelling_and_going_on_at_once_are_told_one_story() {
    let net = calm();
    let (a, b, id) = pair(&net).await;
    for round in 0..40 {
        let asked = a.send(&id, "ask").await;
        let by_id = json!({ "id": asked["id"] });
        let cancelling = async {
            for _ in 0..round % 8 {
                tokio::task::yield_now().await;
            }
            a.one(&id, Operation::CancelTask, by_id.clone()).await
        };
        let going_on = b.one(&id, Operation::SendMessage, continuing(&asked, "that"));
        let (cancelled, went_on) = tokio::join!(cancelling, going_on);
        let told = a.one(&id, Operation::GetTask, by_id.clone()).await.expect("the task");
        let story = (cancelled.is_ok(), went_on.as_ref().ok().map(|sent| state(&sent["task"]).to_owned()));
        match state(&told) {
            "TASK_STATE_CANCELED" => {
                assert!(story.0 && story.1.as_deref().is_none_or(|state| state == "TASK_STATE_CANCELED"), "{story:?}");
            }
            "TASK_STATE_COMPLETED" => assert_eq!(story, (false, Some("TASK_STATE_COMPLETED".to_owned()))),
            other => panic!("{other}: {story:?}"),
        }
        assert_eq!(b.hosting.live_tasks(), 0);
    }
}

/// Answers calls with what it is given.
struct Liar(Vec<u8>);

impl althing_communication::Inbound for Liar {
    fn call(
        &self,
        _: althing_communication::Caller,
        _: Request,
    ) -> futures::future::BoxFuture<'static, althing_communication::Answer> {
        futures::future::ready(althing_communication::Answer::Response(self.0.clone())).boxed()
    }
}

/// A stranger's node that hosts an agent of its own and answers calls with `body`.
async fn liar(net: &SimNet, number: u8, victim: &Node, body: Vec<u8>) -> AgentId {
    let node = Node::start_serving(net, number, STRANGER, &[], store(), Some(Arc::new(Liar(body)))).await;
    let name = format!("liar{number}");
    let id = node.host(&file(&name, "lies", "lying.do", "do", "lie")).await;
    node.connect(victim).await;
    found(victim, &id).await;
    // It stays for as long as the network does.
    std::mem::forget(node);
    id
}

#[tokio::test(start_paused = true)]
async fn what_another_node_answers_is_a2a_or_an_error() {
    let net = calm();
    let a = Node::start(&net, 1, OWNER, &[], store()).await;
    let bodies = [&b"null,\"error\":{\"code\":1}"[..], b"", b"{}", b"[1]", b"{\"task\":{\"id\":7}}", b"\xff"];
    for (number, body) in (20..).zip(bodies) {
        let id = liar(&net, number, &a, body.to_vec()).await;
        for operation in [Operation::SendMessage, Operation::GetTask, Operation::CancelTask] {
            let mut params = message("hi");
            params["id"] = json!("t");
            let refused = a.one(&id, operation, params).await.expect_err("no A2A");
            assert_eq!(refused.code(), -32_006, "{operation:?} of {body:?}: {refused}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn another_nodes_word_about_a_task_does_not_lead_astray() {
    let net = calm();
    let (a, _b, id) = pair(&net).await;
    let asked = a.send(&id, "ask").await;
    let own = a.host(&file("own", "is here", "own.do", "do", "own")).await;
    let local = a.send(&own, "ask").await;
    for (number, of) in [(30, &asked), (31, &local)] {
        // It says that the task of another agent is its own.
        let lie = json!({ "task": { "id": of["id"], "contextId": "c", "status": { "state": "TASK_STATE_WORKING" } } });
        let liar = liar(&net, number, &a, lie.to_string().into_bytes()).await;
        let told = a.one(&liar, Operation::SendMessage, message("hi")).await.expect("its answer");
        assert_eq!(told["task"]["id"], of["id"]);
    }
    for (agent, task) in [(&id, &asked), (&own, &local)] {
        let on = a.one(agent, Operation::SendMessage, continuing(task, "that")).await.expect("an answer");
        assert_eq!(state(&on["task"]), "TASK_STATE_COMPLETED", "{agent}");
    }
}

/// What a name or an id means to the owner of a node.
pub(crate) async fn meant(node: &Node, text: &str, among: Among) -> Result<AgentId, OperationError> {
    let callee = Callee::Named(text.to_owned(), among);
    Ok(node.calls.target(&Asker::Owner, &callee, Purpose::Read).await?.agent)
}

/// Nodes of which each knows the first; the last hosts `actor`. More than a node's heartbeats reach.
pub(crate) async fn crowd(net: &SimNet, count: u8) -> (Vec<Node>, AgentId) {
    let mut nodes: Vec<Node> = Vec::new();
    for number in 1..=count {
        let node = Node::start(net, number, OWNER, &[], store()).await;
        if let Some(first) = nodes.first() {
            node.connect(first).await;
        }
        nodes.push(node);
    }
    let id = nodes.last().expect("some").host(&actor()).await;
    let told = || nodes.iter().map(|node| node.communication.network().routing().stats().providers).sum::<usize>();
    // Five keys (itself, two for its capability, action, target), on twenty nodes each.
    until("the table is told", || told() >= 100).await;
    (nodes, id)
}

#[tokio::test(start_paused = true)]
async fn evidence_of_a_publisher_whose_keys_are_revoked_is_refused_when_it_comes() {
    // The node that hosts the agent has not heard of the revocation; whoever reads its evidence has.
    let net = calm();
    let here = Node::start(&net, 1, OWNER, &[], store()).await;
    let there = Node::start(&net, 2, STRANGER, &[], store()).await;
    let id = there.host_for_anyone(&actor()).await;
    let revoked = there.owner.revocation(NOW_MS);
    here.communication.keys().watch([there.owner.id()]);
    here.communication.keys().learn(revoked).expect("a good log");
    here.connect(&there).await;
    until("its evidence is refused", || here.discovery.status().refused > 0 || nodes_of(&here, &id) > 0).await;
    assert_eq!((here.discovery.status().refused, nodes_of(&here, &id)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn what_was_never_heard_of_is_found_through_the_table_and_called() {
    let net = calm();
    let (nodes, id) = crowd(&net, 45).await;
    let unheard = |node: &&Node| nodes_of(node, &id) == 0;
    let seeker = nodes.iter().find(unheard).expect("somebody who does not hear the last one");
    let query = Query { capability: Some("acting.*".to_owned()), ..Query::default() };
    let (found, why) = seeker.discovery.search(&query).await;
    // It was connected to for that, and may have told its placement already.
    assert_eq!(found.iter().map(|found| found.node).collect::<Vec<_>>(), [nodes[44].id()]);
    let sought = why.sought.expect("it was looked for");
    assert_eq!((sought.confirmed, sought.silent, sought.refused), (1, 0, 0), "{sought:?}");
    assert_eq!(state(&seeker.send(&id, "hello").await), "TASK_STATE_COMPLETED");
    // By name it is looked for among the owner's own.
    let other = nodes.iter().rfind(unheard).expect("somebody else");
    assert_eq!(meant(other, "actor", Among::Near).await, Ok(id.clone()));
    let nobody = meant(other, "nobody", Among::Anyone).await.expect_err("there is none");
    assert_eq!(nobody.reason(), "AGENT_UNKNOWN");
}

/// Who was asked for one thing, and is heard of by that, may have another.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_asked_for_something_else_is_asked_again() {
    let net = calm();
    let (nodes, id) = crowd(&net, 45).await;
    let last = nodes.last().expect("some");
    let other = last.host(&file("other", "does something else", "other.do", "do", "other")).await;
    let told = || nodes.iter().map(|node| node.communication.network().routing().stats().providers).sum::<usize>();
    until("the table is told", || told() >= 180).await;
    let seeker = nodes.iter().find(|node| nodes_of(node, &id) == 0).expect("somebody who does not hear the last one");
    for (capability, agent) in [("acting.*", &id), ("other.*", &other)] {
        let query = Query { capability: Some(capability.to_owned()), ..Query::default() };
        let (found, _) = seeker.discovery.search(&query).await;
        assert_eq!(found.iter().map(|found| &found.candidate.verified.agent).collect::<Vec<_>>(), [agent]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_on_a_node_that_is_not_connected_any_more_is_asked_for_there() {
    let net = calm();
    let (nodes, id) = crowd(&net, 45).await;
    let seeker = nodes.iter().find(|node| nodes_of(node, &id) == 0).expect("somebody");
    seeker.discovery.search_hosts(&id).await;
    let task = seeker.send(&id, "hello").await;
    seeker.communication.network().disconnect(nodes[44].id());
    // Its placement has run out meanwhile, and its task is still known to be there.
    tokio::time::sleep(Duration::from_secs(20)).await;
    let got = seeker.one(&id, Operation::GetTask, json!({ "id": task["id"] })).await.expect("an answer");
    assert_eq!(got["id"], task["id"]);
}
