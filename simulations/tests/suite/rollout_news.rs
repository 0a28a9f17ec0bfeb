//! Whole nodes of one owner, in virtual time, that try the same new version each for itself: what came of it on one of them holds on
//! all that are connected within a second, and on those that were apart when they are connected again.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use althing_communication::refusal::said;
use althing_communication::{CallError, Request};
use althing_node::NodeError;
use althing_node::rollouts::{self, CaseResult, ROLLOUTS_PROTOCOL, RolloutPhase, RolloutPlan};
use althing_protocol::AgentId;
use althing_simnet::{LinkConfig, SimNet};
use althing_simulations::mesh::{Node, file, store};
use althing_store::{Family, Store};
use althing_td::AgentFile;
use tokio::time::{Instant, sleep};

const OWNER: u8 = 100;
const STRANGER: u8 = 101;
/// From the verdict on one node to all that are connected.
const SOON: Duration = Duration::from_secs(1);
/// As long as anything here may take.
const LATE: Duration = Duration::from_secs(30);

fn actor(version: &str, about: &str) -> AgentFile {
    AgentFile { version: version.to_owned(), ..file("actor", about, "acting.do", "do", "play") }
}

/// A node that hosts the agent in version 1.0.0.
async fn host(net: &SimNet, number: u8, owner: u8) -> Node {
    host_on(net, number, owner, store()).await
}

async fn host_on(net: &SimNet, number: u8, owner: u8, disk: Arc<dyn Store>) -> Node {
    let node = Node::start(net, number, owner, &[], disk).await;
    node.host(&actor("1.0.0", "does as it is told")).await;
    node
}

fn calm() -> SimNet {
    SimNet::new(1, LinkConfig::default())
}

/// Begins a rollout of the new version, which is the same one on each node.
async fn begin(node: &Node) -> Result<(), NodeError> {
    let plan = RolloutPlan { steps: vec![50, 100], ..RolloutPlan::default() };
    let new = actor("1.1.0", "does as it is told and faster");
    Box::pin(rollouts::begin(node, "actor", new, (Path::new("/"), &[]), plan, None)).await
}

fn phase(node: &Node) -> RolloutPhase {
    rollouts::report(node, "actor").expect("one was begun").phase
}

fn is_back(node: &Node) -> bool {
    matches!(phase(node), RolloutPhase::WentBack(_))
}

/// Whether something is on disk of what was decided of the agent's versions.
fn has_row(node: &Node) -> bool {
    node.store.read(Family("althing.rollouts"), b"actor").expect("readable").is_some()
}

/// The version that new messages are given.
fn stable(node: &Node) -> String {
    let id = AgentId::new(node.owner.id(), "actor").expect("a name");
    node.stable(&id).version.to_string()
}

/// Waits until it is so; gives how long that took.
async fn until(most: Duration, what: &str, is_so: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < most, "{what}: not within {most:?}");
        sleep(Duration::from_millis(5)).await;
    }
    begun.elapsed()
}

async fn connect(one: &Node, other: &Node) {
    one.connect(other).await;
    let knows = |one: &Node, other: &Node| one.communication.owner(other.id()) == Some(other.owner.id());
    until(LATE, "they know each other's owner", || knows(one, other) && knows(other, one)).await;
}

/// The new version answers wrongly until it goes back.
async fn fail(node: &Node) {
    for _ in 0..200 {
        let [right, wrong] = [true, false].map(|is_right| CaseResult { is_right, first_token_ms: None });
        node.rollouts.count_case("actor", [right, wrong]).await;
        if is_back(node) {
            return;
        }
    }
    panic!("it does not go back");
}

#[tokio::test(start_paused = true)]
async fn what_goes_back_on_one_node_goes_back_on_all_that_are_connected_and_is_begun_nowhere() {
    let net = calm();
    let (first, second, third) = (host(&net, 1, OWNER).await, host(&net, 2, OWNER).await, host(&net, 3, OWNER).await);
    let stranger = host(&net, 4, STRANGER).await;
    stranger.connect(&first).await;
    for other in [&second, &third] {
        connect(&first, other).await;
    }
    for node in [&first, &second, &stranger] {
        begin(node).await.expect("it is begun");
    }
    fail(&first).await;
    let took = until(SOON, "the other node sends it back", || is_back(&second)).await;
    println!("it was back on the other node after {took:?}");
    let RolloutPhase::WentBack(reason) = phase(&second) else { panic!("it is back") };
    assert_eq!(reason, format!("it went back on another node of its owner, {}, which tells why", first.id()));
    assert!([&first, &second].iter().all(|node| stable(node) == "1.0.0"));
    until(LATE, "it is remembered where it was not tried", || has_row(&third)).await;
    let refused = begin(&third).await.expect_err("it went back").to_string();
    assert!(refused.contains("went back before: it went back on another node of its owner"), "{refused}");
    sleep(LATE).await;
    assert_eq!(phase(&stranger), RolloutPhase::Running, "another owner's node tries a version of its own");
    let asked = stranger.communication.call(first.id(), ROLLOUTS_PROTOCOL, Request::new("compare", Vec::new())).await;
    let refusal = matches!(&asked, Err(CallError::Refused { body, .. }) if said(body).0 == "CALLER_NOT_ALLOWED");
    assert!(refusal, "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_promoted_on_one_node_is_promoted_on_the_other_one_also_where_it_begins_later_and_stays_so() {
    let net = calm();
    let disk = store();
    let (first, third) = (host(&net, 1, OWNER).await, host(&net, 3, OWNER).await);
    let second = host_on(&net, 2, OWNER, disk.clone()).await;
    connect(&first, &second).await;
    connect(&first, &third).await;
    for node in [&first, &second] {
        begin(node).await.expect("it is begun");
    }
    rollouts::promote(&first, "actor").await.expect("it is under way");
    let took = until(SOON, "the other node promotes it", || stable(&second) == "1.1.0").await;
    println!("it was promoted on the other node after {took:?}");
    assert_eq!(phase(&second), RolloutPhase::PromotedElsewhere(first.id().did()));
    assert_eq!(stable(&third), "1.0.0", "it is not tried there");
    begin(&third).await.expect("it is begun");
    until(SOON, "others knew what came of it", || stable(&third) == "1.1.0").await;
    second.shut_down().await;
    drop(second);
    let again = host_on(&calm(), 2, OWNER, disk).await;
    assert_eq!((stable(&again).as_str(), phase(&again)), ("1.1.0", RolloutPhase::PromotedElsewhere(first.id().did())));
}

#[tokio::test(start_paused = true)]
async fn nodes_that_decided_apart_have_one_stable_version_when_they_are_connected_again() {
    let net = calm();
    let (first, second) = (host(&net, 1, OWNER).await, host(&net, 2, OWNER).await);
    for node in [&first, &second] {
        begin(node).await.expect("it is begun");
    }
    rollouts::promote(&first, "actor").await.expect("it is under way");
    fail(&second).await;
    assert_eq!((stable(&first).as_str(), stable(&second).as_str()), ("1.1.0", "1.0.0"));
    connect(&first, &second).await;
    let both = || [&first, &second].iter().all(|node| stable(node) == "1.0.0" && is_back(node));
    let took = until(2 * SOON, "both have one stable version", both).await;
    println!("after they were connected, it took {took:?}");
    sleep(LATE).await;
    assert!(both(), "and that stays");
}
