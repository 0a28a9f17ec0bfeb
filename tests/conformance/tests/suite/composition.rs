//! The composition's background tasks in virtual time: renewal, watched keys, changing trust, and the state after a restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use althing_calls::Operation;
use althing_communication::WallClock;
use althing_conformance::mesh::{Node, Owner, Setup, file, message, store};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_protocol::CallerId;
use althing_simnet::{LinkConfig, SimNet};
use althing_store::MemoryStore;
use serde_json::json;
use tokio::time::sleep;

const OWNER: u32 = 100;
/// More than half of what grants and memberships hold.
const THIRTEEN_HOURS_MS: i64 = 13 * 3_600_000;
/// A little more than the interval at which a node checks what to renew.
const LOOK: Duration = Duration::from_secs(11);

/// A node whose clock the test advances.
async fn node(net: &SimNet, number: u32, ahead_ms: &Arc<AtomicI64>, store: Arc<MemoryStore>) -> Node {
    let (clock, ahead_ms) = (net.clone().named(NETWORK, NOW_MS).clock(), ahead_ms.clone());
    let mut setup = Setup::new(net, number, OWNER);
    setup.clock = WallClock::new(move || clock.now_ms().saturating_add_signed(ahead_ms.load(Ordering::Relaxed)));
    Node::assemble(net, setup, store).await
}

#[tokio::test(start_paused = true)]
async fn an_agent_is_believed_days_after_it_was_granted_while_its_node_renews_what_it_shows() {
    let (net, ahead_ms) = (SimNet::new(1, LinkConfig::default()), Arc::<AtomicI64>::default());
    let (host, asks) = (node(&net, 1, &ahead_ms, store()).await, node(&net, 2, &ahead_ms, store()).await);
    let id = host.host(&file("actor", "does as it is told", "acting.do", "do", "play")).await;
    asks.connect(&host).await;
    until("it is found", || !asks.discovery.hosts(&id).is_empty()).await;
    let granted = |node: &Node| {
        let known = node.discovery.describe(&id).expect("it is known");
        known.verified.grant.body.not_after_ms
    };
    let first = granted(&asks);
    for _ in 0..4 {
        ahead_ms.fetch_add(THIRTEEN_HOURS_MS, Ordering::Relaxed);
        sleep(LOOK).await;
    }
    until("its host is believed", || !asks.discovery.hosts(&id).is_empty()).await;
    assert!(granted(&asks) > first + 24 * 3_600_000, "by a grant that was made since");
    let sent = asks.one(&id, Operation::SendMessage, message("hello")).await.expect("an answer");
    assert_eq!(sent["task"]["status"]["state"], "TASK_STATE_COMPLETED");
}

#[tokio::test(start_paused = true)]
async fn whom_a_node_trusts_is_watched_and_trusted_after_a_restart_too() {
    let (net, on_time) = (SimNet::new(1, LinkConfig::default()), Arc::<AtomicI64>::default());
    let friend = Owner::new(key(200)).id();
    let watches = |node: &Node| node.communication.keys().watched().iter().any(|(publisher, _)| *publisher == friend);
    let disk = store();
    let first = node(&net, 1, &on_time, disk.clone()).await;
    assert!(!watches(&first));
    first.trust.set(CallerId::Publisher(friend), true).await.expect("it is kept");
    assert!(watches(&first) && first.trust.ids().contains(&CallerId::Publisher(friend)));
    net.crash(first.id());
    drop(first);
    let again = node(&net, 1, &on_time, disk.clone()).await;
    assert!(watches(&again) && again.trust.ids().contains(&CallerId::Publisher(friend)));
    again.trust.set(CallerId::Publisher(friend), false).await.expect("it is kept");
    assert!(!watches(&again) && again.trust.ids().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_was_added_is_there_again_after_a_restart_with_its_tasks() {
    let (net, on_time) = (SimNet::new(1, LinkConfig::default()), Arc::<AtomicI64>::default());
    let (disk, asks) = (store(), node(&net, 2, &on_time, store()).await);
    let host = node(&net, 1, &on_time, disk.clone()).await;
    let id = host.host(&file("actor", "does as it is told", "acting.do", "do", "play")).await;
    asks.connect(&host).await;
    until("it is found", || !asks.discovery.hosts(&id).is_empty()).await;
    let task = asks.send(&id, "hello").await;
    net.crash(host.id());
    drop(host);
    let host = node(&net, 1, &on_time, disk).await;
    asks.connect(&host).await;
    until("nobody adds it anew", || host.agents.status("actor").is_some()).await;
    until("it is found again", || !asks.discovery.hosts(&id).is_empty()).await;
    let kept = asks.one(&id, Operation::GetTask, json!({ "id": task["id"] })).await.expect("its task");
    assert_eq!(kept["status"]["state"], "TASK_STATE_COMPLETED");
}
