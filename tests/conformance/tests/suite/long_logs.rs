//! A log is as short as its entries are large, not only as they are many (SG-8).

use std::sync::Arc;

use althing_conformance::groups::{GroupNode, Owner, settled, store};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_coordination::{RAFT_LOG, ReplicaConfig};
use althing_protocol::group::{GroupId, Policy};
use althing_simnet::{LinkConfig, SimNet};
use althing_store::Range;

/// Bytes after which a snapshot is due, and that are kept.
const BYTES: u64 = 256 << 10;

async fn start(net: &SimNet, number: u8, store: Arc<dyn althing_store::Store>) -> GroupNode {
    let replica = ReplicaConfig { snapshot_bytes: BYTES, ..ReplicaConfig::default() };
    GroupNode::start_with(net, &key(number), &Owner::new(101), store, replica).await
}

/// Bytes of the log that a node has on disk.
fn on_disk(node: &GroupNode, id: GroupId) -> u64 {
    let rows = node.store.scan(RAFT_LOG, Range::prefix(id.as_bytes().as_slice(), usize::MAX)).expect("readable");
    rows.iter().map(|(key, entry)| (key.len() + entry.len()) as u64).sum()
}

#[tokio::test(start_paused = true)]
async fn large_entries_go_from_the_log_though_they_are_few() {
    let net = SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS);
    let mut nodes = Vec::new();
    for number in 1..=3 {
        nodes.push(start(&net, number, store()).await);
    }
    let id = nodes[0].groups.create("team", Policy::default()).await.expect("a group");
    for node in &nodes[1..] {
        nodes[0].admit(id, node).await;
    }
    settled(&nodes, id, 3).await;
    let value = "x".repeat(32 << 10);
    for number in 0..60 {
        nodes[0].set(id, &format!("key-{}", number % 4), &value).await;
    }
    let snapshot = |node: &GroupNode| node.groups.overview(id).expect("the group").replica.expect("it runs").snapshot;
    until("each has made a snapshot", || nodes.iter().all(|node| snapshot(node).is_some())).await;
    // Of 60 entries with 2 MB in all.
    let is_short = |node: &GroupNode| on_disk(node, id) <= 2 * BYTES;
    until("each has a short log", || nodes.iter().all(is_short)).await;
    assert!(nodes.iter().all(|node| on_disk(node, id) >= BYTES / 2), "some is kept for those who lag behind");
    // One that is new, and one that starts again, have everything.
    let late = start(&net, 9, store()).await;
    nodes[0].admit(id, &late).await;
    assert_eq!(late.get(id, "key-3").await.as_deref(), Some(value.as_str()));
    let (secret, kept) = nodes.remove(2).crash(&net).await;
    let replica = ReplicaConfig { snapshot_bytes: BYTES, ..ReplicaConfig::default() };
    let again = GroupNode::start_with(&net, &secret, &Owner::new(101), kept, replica).await;
    nodes[1].set(id, "later", "1").await;
    assert_eq!(again.get(id, "later").await.as_deref(), Some("1"));
    assert_eq!(again.peek(id, "key-0").as_deref(), Some(value.as_str()));
}
