//! Peers that were useful are met again without anybody who leads there: after an outage of any length, and after a restart.

use std::sync::Arc;
use std::time::Duration;

use althing_conformance::mesh::{Node, file, store};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NOW_MS};
use althing_discovery::Query;
use althing_simnet::{LinkConfig, SimNet};
use althing_store::MemoryStore;
use tokio::time::{Instant, sleep};

const OWNER: u8 = 100;
const STRANGER: u8 = 101;
/// From when they can reach each other until they have met again.
const BACK_MAX: Duration = Duration::from_secs(8);

fn net() -> SimNet {
    SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS)
}

fn finds(node: &Node) -> bool {
    !node.discovery.find(&Query { capability: Some("acting.do".to_owned()), ..Query::default() }).0.is_empty()
}

/// A node on that store, and a stranger with an agent which it has found and remembers.
async fn two(net: &SimNet, disk: &Arc<MemoryStore>) -> (Node, Node) {
    let one = Node::start(net, 1, OWNER, &[], disk.clone()).await;
    let other = Node::start(net, 2, STRANGER, &[], store()).await;
    other.host(&file("actor", "does as it is told", "acting.do", "do", "play")).await;
    // The other one dialled: only what it says of itself tells where it listens.
    other.connect(&one).await;
    until("it is found", || finds(&one)).await;
    until("each remembers the other", || [&one, &other].iter().all(|node| node.discovery.remembered().peers == 1))
        .await;
    (one, other)
}

async fn back(node: &Node) {
    let begun = Instant::now();
    until("it is found again", || finds(node)).await;
    assert!(begun.elapsed() < BACK_MAX, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_half_a_minute_and_one_of_65_minutes_are_over_within_seconds() {
    for outage in [Duration::from_secs(30), Duration::from_secs(65 * 60)] {
        let net = net();
        let (one, other) = two(&net, &store()).await;
        net.cut(one.id(), other.id());
        sleep(outage).await;
        assert!(!finds(&one) && one.communication.network().peers().is_empty());
        let absent = one.discovery.remembered().absent;
        assert!(absent.len() == 1 && absent[0].failure.is_some(), "{absent:?}");
        net.heal(one.id(), other.id());
        back(&one).await;
        assert!(one.discovery.remembered().absent.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_starts_again_dials_whom_it_knew() {
    let (net, disk) = (net(), store());
    let (one, other) = two(&net, &disk).await;
    // It was written: as a power cut would, nothing is said to anybody.
    sleep(Duration::from_secs(2)).await;
    net.crash(one.id());
    // The other one must not lead there.
    drop(one);
    net.crash(other.id());
    drop(other);
    let other = Node::start(&net, 2, STRANGER, &[], store()).await;
    other.host(&file("actor", "does as it is told", "acting.do", "do", "play")).await;
    let again = Node::start(&net, 1, OWNER, &[], disk).await;
    assert_eq!(again.discovery.remembered().peers, 1);
    back(&again).await;
}

#[tokio::test(start_paused = true)]
async fn who_leaves_is_not_run_after_and_is_met_when_it_is_back() {
    let (net, disk) = (net(), store());
    let (one, other) = two(&net, &disk).await;
    one.shut_down().await;
    net.crash(one.id());
    drop(one);
    sleep(Duration::from_secs(60)).await;
    let again = Node::start(&net, 1, OWNER, &[], disk).await;
    back(&again).await;
    assert_eq!(other.communication.network().peers().len(), 1);
}
