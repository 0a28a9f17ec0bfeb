//! An owner stops an agent, and its nodes take a newer policy set from each other: what was ordered on one node holds on all that are
//! connected, within the time that a person waits, and others hear what is for them.

use std::time::Duration;

use althing_calls::{Operation, OperationError, Refusal};
use althing_communication::refusal::said;
use althing_communication::{CallError, Request};
use althing_conformance::mesh::{Node, message, store};
use althing_conformance::world::until;
use althing_governance::machine::delivery::Notice;
use althing_operations::governance::{Actor, Messenger, StopTarget, stop};
use althing_protocol::object::OrderWord;
use althing_protocol::{AgentId, CallerId, hex};
use althing_simnet::SimNet;
use althing_store::{Family, Range, Store as _};
use althing_td::ReachSpec;
use serde_json::json;
use tokio::time::Instant;

use crate::mesh::{OWNER, STRANGER, actor, calm, found};

/// How long an order may take to the owner's nodes that are connected.
const OWN: Duration = Duration::from_secs(2);
/// How long a revocation may take to the nodes of others.
const OTHERS: Duration = Duration::from_secs(10);
/// Where a node keeps orders.
const ORDERS: Family = Family("governance.orders");

fn refused<T: std::fmt::Debug>(outcome: Result<T, OperationError>) -> Option<Refusal> {
    outcome.err().map(|error| error.refusal)
}

fn named(agent: &AgentId) -> StopTarget {
    StopTarget::Agent(agent.name().to_owned())
}

/// Two nodes of one owner and one of somebody whom that owner trusts: the second hosts `actor`, which the others have found.
async fn three(net: &SimNet) -> (Node, Node, Node, AgentId) {
    let first = Node::start(net, 1, OWNER, &[], store()).await;
    let stranger = Node::start(net, 3, STRANGER, &[CallerId::Publisher(first.owner.id())], store()).await;
    let trusted = [CallerId::Publisher(stranger.owner.id())];
    let second = Node::start(net, 2, OWNER, &trusted, store()).await;
    let id = second.host(&actor()).await;
    first.connect(&second).await;
    stranger.connect(&second).await;
    found(&first, &id).await;
    found(&stranger, &id).await;
    until("they know each other's owner", || first.communication.owner(second.id()) == Some(first.owner.id())).await;
    (first, second, stranger, id)
}

#[tokio::test(start_paused = true)]
async fn what_is_stopped_on_one_node_runs_on_no_node_of_the_owner_until_it_is_added_again() {
    let net = calm();
    let (first, second, _stranger, id) = three(&net).await;
    let task = first.begin(&id, "stuck").await;
    until("it works", || second.hosting.live_tasks() == 1).await;
    let begun = Instant::now();
    let report = stop(&first, &named(&id), false).await.expect("it is ordered");
    assert_eq!((report.word, report.is_known), (OrderWord::Stop, true));
    assert_eq!(report.nodes, [(second.id(), Ok(()))]);
    assert!(second.orders.why_stopped(&id).is_some() && begun.elapsed() <= OWN, "{:?}", begun.elapsed());
    until("its turn ended", || second.hosting.live_tasks() == 0).await;
    assert!(begun.elapsed() <= OWN, "{:?}", begun.elapsed());
    for node in [&first, &second] {
        let sent = node.one(&id, Operation::SendMessage, message("go on")).await;
        assert_eq!(refused(sent), Some(Refusal::AgentRevoked));
    }
    let ended = second.one(&id, Operation::GetTask, json!({ "id": task })).await;
    assert_eq!(refused(ended), Some(Refusal::AgentRevoked), "not even its tasks are shown");
    assert!(second.agents.starts.failed().get("actor").is_some_and(|why| why.contains("was stopped by its owner")));
    // Adding it again, here under the name that it has, lets it run.
    second.agents.remove("actor").await.expect("it is there");
    let again = second.host(&actor()).await;
    assert_eq!((again, second.orders.why_stopped(&id)), (id.clone(), None));
    until("the other node heard", || first.orders.why_stopped(&id).is_none()).await;
    let answered = async || first.one(&id, Operation::SendMessage, message("hello")).await.is_ok();
    for _ in 0..100 {
        if answered().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it does not answer again");
}

#[tokio::test(start_paused = true)]
async fn all_agents_stop_and_a_node_that_was_away_hears_of_it_when_it_comes_back() {
    let net = calm();
    let first = Node::start(&net, 1, OWNER, &[], store()).await;
    let second = Node::start(&net, 2, OWNER, &[], store()).await;
    let id = second.host(&actor()).await;
    let report = stop(&first, &StopTarget::All, false).await.expect("it is ordered");
    assert_eq!((report.nodes.len(), second.orders.why_stopped(&id)), (0, None), "it is not connected");
    first.connect(&second).await;
    until("it hears of it", || second.orders.why_stopped(&id).is_some()).await;
    until("it does not run", || second.agents.starts.failed().contains_key("actor")).await;
}

#[tokio::test(start_paused = true)]
async fn others_refuse_a_revoked_agent_and_are_not_told_of_what_is_only_stopped() {
    // P-214, P-215.
    let net = calm();
    let (first, second, stranger, id) = three(&net).await;
    assert!(stranger.one(&id, Operation::SendMessage, message("hello")).await.is_ok());
    stop(&first, &named(&id), false).await.expect("it is ordered");
    tokio::time::sleep(OTHERS).await;
    assert_eq!(stranger.orders.word_of(&id), OrderWord::Lift, "it is not for others");
    let begun = Instant::now();
    stop(&first, &named(&id), true).await.expect("it is ordered");
    until("others hear of it", || stranger.orders.word_of(&id) == OrderWord::Revoke).await;
    assert!(begun.elapsed() <= OTHERS, "{:?}", begun.elapsed());
    let sent = stranger.one(&id, Operation::SendMessage, message("hello")).await;
    assert_eq!(refused(sent), Some(Refusal::AgentRevoked));
    // What is revoked is not stopped only by being stopped once more.
    assert_eq!(stop(&second, &named(&id), false).await.expect("it is ordered").word, OrderWord::Revoke);
    let other = AgentId::new(stranger.owner.id(), "actor").expect("a name");
    let refused = stop(&first, &StopTarget::Agent(other.to_string()), true).await;
    assert!(refused.is_err(), "nobody stops the agents of others");
}

#[tokio::test(start_paused = true)]
async fn an_order_holds_after_a_restart() {
    let net = calm();
    let disk = store();
    let first = Node::start(&net, 1, OWNER, &[], disk.clone()).await;
    let id = AgentId::new(first.owner.id(), "actor").expect("a name");
    let report = stop(&first, &named(&id), true).await.expect("it is ordered");
    assert!(!report.is_known, "no node has it");
    let rows = disk.scan(ORDERS, Range::all(9)).expect("readable");
    assert_eq!(rows.len(), 1);
    first.shut_down().await;
    drop(first);
    let again = Node::start(&calm(), 1, OWNER, &[], disk).await;
    assert_eq!(again.orders.word_of(&id), OrderWord::Revoke);
}

#[tokio::test(start_paused = true)]
async fn the_newer_policy_set_of_the_owner_wins_and_each_node_says_which_it_has() {
    // P-215.
    let net = calm();
    let (first, second, stranger, _) = three(&net).await;
    assert!(first.orders.give_policy_set(&first.owner()).await.is_err(), "there is none");
    let (all, some) = ("permit(principal, action, resource);", "@id(\"some\") permit(principal, action, resource);");
    for (text, giver, other) in [(all, &first, &second), (some, &second, &first)] {
        giver.governance.load_policy(text, Actor::Owner).await.expect("it is loaded");
        giver.orders.give_policy_set(&giver.owner()).await.expect("it is ordered");
        until("the other node took it over", || other.governance.policy_text().as_deref() == Some(text)).await;
    }
    assert_eq!(stranger.governance.policy_text(), None, "others are not told");
    let asked = stranger.communication.call(second.id(), "/althing/orders/1", Request::new("status", Vec::new())).await;
    assert!(
        matches!(asked, Err(CallError::Refused { ref body, .. }) if said(body).0 == "CALLER_NOT_ALLOWED"),
        "{asked:?}"
    );
    let told = first.orders.policy_sets().await;
    let standing = told[0].standing.as_ref().expect("it answers");
    assert_eq!((told.len(), told[0].node), (1, second.id()));
    let theirs = second.governance.policy().digest;
    assert_eq!(standing.digest.map(|digest| hex(&digest)), theirs, "the set's own digest, as both tell it");
    assert_eq!(theirs, first.governance.policy().digest);
    assert_eq!(standing.serial, first.orders.policy_set().serial);
    assert_eq!(standing.failure, None);
}

#[tokio::test(start_paused = true)]
async fn a_person_is_told_by_an_agent() {
    let net = calm();
    let (first, second, _stranger, id) = three(&net).await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let messenger = Messenger::new(None, first.calls.clone(), first.host.clone());
    let way = ReachSpec::Agent(id.to_string());
    let notice = Notice { ask: [7; 16], person: "grace".to_owned(), way, attempt: 1, is_escalation: false };
    let body = json!({ "kind": "question", "answer": "althing approve 0707" });
    for _ in 0..2 {
        messenger.send(&notice, &body).await.expect("it is taken, and taken again");
    }
    until("it was told", || second.hosting.live_tasks() == 0).await;
    let told = first.one(&id, Operation::ListTasks, json!({})).await.expect("a list");
    let tasks = told["tasks"].as_array().expect("tasks");
    assert_eq!(tasks.len(), 1, "the second attempt is the first one again: {told}");
    let nobody = Notice { way: ReachSpec::Agent("nobody".to_owned()), ..notice };
    assert!(messenger.send(&nobody, &body).await.is_err());
}
