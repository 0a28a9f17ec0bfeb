//! A replica whose core ends, by a panic or because its disk failed, starts again from disk by itself: it serves, and has all
//! that was acknowledged.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_conformance::groups::{GroupNode, Owner, group_of, hand_over, leader, settled};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_coordination::{GROUPS, RAFT_LOG, RAFT_SNAPSHOTS, RAFT_STATE, RESULTS, ReplicaConfig};
use althing_protocol::group::{Command, Declaration, GroupId, Policy, RULES, Set};
use althing_simnet::{LinkConfig, SimNet};
use althing_store::{Batch, Durability, Family, MemoryStore, Range, ReadError, Rows, Snapshot, Store, WriteError};
use althing_testing::at_night;
use futures::future::BoxFuture;

/// How a store breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// Reading the log from disk panics. What cuts the log off reads it, within the core.
    Panics,
    /// Writing the log fails.
    Fails,
}

/// A store that breaks once, when it is told to.
struct Breaking {
    inner: MemoryStore,
    next: Mutex<Option<How>>,
}

impl Breaking {
    fn new() -> Arc<Breaking> {
        let inner = MemoryStore::new(&[GROUPS, RAFT_LOG, RAFT_STATE, RAFT_SNAPSHOTS, RESULTS]);
        Arc::new(Breaking { inner, next: Mutex::new(None) })
    }

    fn break_next(&self, how: How) {
        *self.next.lock().expect("no panic") = Some(how);
    }

    fn is_whole(&self) -> bool {
        self.next.lock().expect("no panic").is_some()
    }

    /// Whether it breaks so now.
    fn breaks(&self, how: How) -> bool {
        self.next.lock().expect("no panic").take_if(|next| *next == how).is_some()
    }
}

impl Store for Breaking {
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.inner.read(family, key)
    }

    fn scan(&self, family: Family, range: Range) -> Result<Rows, ReadError> {
        assert!(family != RAFT_LOG || !self.breaks(How::Panics), "the core was to panic");
        self.inner.scan(family, range)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.inner.snapshot()
    }

    fn write(&self, batch: Batch, durability: Durability) -> BoxFuture<'static, Result<(), WriteError>> {
        let is_log = batch.changes().any(|(family, ..)| family == RAFT_LOG);
        if is_log && self.breaks(How::Fails) {
            let failed = WriteError::Stopped { dir: PathBuf::new(), detail: "it was to fail".to_owned() };
            return Box::pin(std::future::ready(Err(failed)));
        }
        self.inner.write(batch, durability)
    }
}

/// A group whose logs are short.
async fn group(net: &SimNet, count: u8) -> (Vec<GroupNode>, Vec<Arc<Breaking>>, GroupId) {
    let (mut nodes, mut stores) = (Vec::new(), Vec::new());
    for number in 1..=count {
        let (owner, store) = (Owner::new(101), Breaking::new());
        let replica = ReplicaConfig { snapshot_entries: 10, ..ReplicaConfig::default() };
        nodes.push(GroupNode::start_with(net, &key(number), &owner, store.clone(), replica).await);
        stores.push(store);
    }
    let id = nodes[0].groups.create("team", Policy::default()).await.expect("a group");
    for node in &nodes[1..] {
        nodes[0].admit(id, node).await;
    }
    settled(&nodes, id, usize::from(count)).await;
    (nodes, stores, id)
}

/// Writes through a member; whether that was acknowledged.
async fn write(by: &GroupNode, id: GroupId, key: &str) -> bool {
    let set = Set { key: key.to_owned(), value: b"value".to_vec().into(), if_version: None };
    by.groups.command(id, Command::Set(set)).await.is_ok()
}

/// Writes through a member until the store of one is broken; the keys whose writes were acknowledged.
async fn write_until_it_breaks(by: &GroupNode, id: GroupId, store: &Breaking) -> Vec<String> {
    let mut written = Vec::new();
    for number in 0..200 {
        if !store.is_whole() {
            return written;
        }
        let key = format!("key-{number}");
        if write(by, id, &key).await {
            written.push(key);
        }
    }
    panic!("nothing broke");
}

/// Writes through a member as soon as it can.
async fn write_again(by: &GroupNode, id: GroupId, key: &str) {
    for _ in 0..400 {
        if write(by, id, key).await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("it does not serve again: {:?}", by.groups.overview(id));
}

async fn a_core_ends(how: How, count: u8, is_leaders: bool) {
    let net = SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS);
    let (nodes, stores, id) = group(&net, count).await;
    let (leads, _) = leader(&nodes, id).await;
    let at = if is_leaders { leads } else { (leads + 1) % nodes.len() };
    let (node, by) = (&nodes[at], &nodes[(at + 1) % nodes.len()]);
    by.set(id, "before", "value").await;
    let term = || node.groups.overview(id).expect("the group").replica.map_or(0, |replica| replica.term);
    let before = term();
    stores[at].break_next(how);
    let mut written = write_until_it_breaks(by, id, &stores[at]).await;
    written.push("before".to_owned());
    let failure = || node.groups.overview(id).expect("the group").failure;
    if !is_leaders {
        // Under a leader the writes waited until it was over.
        until("it is noticed", || failure().is_some()).await;
    }
    write_again(node, id, "after").await;
    written.push("after".to_owned());
    assert_eq!(failure(), None, "it runs again");
    for member in &nodes {
        member.groups.catch_up(id).await.expect("the group answers");
        let lost: Vec<&String> = written.iter().filter(|key| member.peek(id, key).is_none()).collect();
        assert!(lost.is_empty(), "{how:?} at {at}: of {} acknowledged writes {lost:?} are lost", written.len());
    }
    assert_eq!(term() > before, is_leaders, "a leader is elected anew, and else none");
    settled(&nodes, id, usize::from(count)).await;
}

#[tokio::test(start_paused = true)]
async fn an_only_member_goes_on_after_its_core_ended() {
    a_core_ends(How::Panics, 1, true).await;
    a_core_ends(How::Fails, 1, true).await;
}

#[tokio::test(start_paused = true)]
async fn a_group_goes_on_after_the_core_of_its_leader_ended() {
    a_core_ends(How::Panics, 3, true).await;
    a_core_ends(How::Fails, 3, true).await;
}

#[tokio::test(start_paused = true)]
async fn a_follower_follows_again_after_its_core_ended() {
    a_core_ends(How::Panics, 3, false).await;
    a_core_ends(How::Fails, 3, false).await;
}

/// Deletes what a member has of the log, the votes and the snapshots of a group. It knows yet that it is a member.
async fn lose_the_log(store: &dyn Store, id: GroupId) {
    let mut batch = Batch::new();
    for family in [RAFT_LOG, RAFT_STATE, RAFT_SNAPSHOTS] {
        let rows = store.scan(family, Range::prefix(id.as_bytes().as_slice(), 4_096)).expect("it can be read");
        for (key, _) in rows {
            batch.delete(family, key);
        }
    }
    store.write(batch, Durability::Synced).await.expect("it is deleted");
}

/// openraft ends the core of a leader to whom a member shows that it lacks what it had ("follower log reversion is not
/// allowed", a `debug_assert!` of its `progress/entry/update.rs`); a release goes on with progress that is wrong. The links of
/// `consensus/network.rs` keep such an answer from it, whichever of the two heard of the entry: the member answers a
/// heartbeat; it takes an entry, by the link of entries; it loses its log; it answers the next heartbeat, which says that it
/// has that entry.
#[tokio::test(start_paused = true)]
async fn a_member_that_loses_its_log_between_two_heartbeats_ends_no_core() {
    let net = SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS);
    let (mut nodes, id) = group_of(&net, 3).await;
    hand_over(&nodes, id, 0).await;
    let replica = |node: &GroupNode| node.groups.overview(id).expect("the group").replica;
    let lead = |nodes: &[GroupNode]| replica(&nodes[0]).expect("it runs");
    let term = lead(&nodes).term;
    // Just after a heartbeat, of which five come in a second, it takes an entry.
    let beats = || nodes[2].asked.take("heartbeats");
    beats();
    until("a heartbeat", || beats() > 0).await;
    nodes[0].set(id, "a", "b").await;
    let has_all = || lead(&nodes).replicated.get(&nodes[2].id()) == Some(&lead(&nodes).last);
    until("the member has it, as the leader knows", has_all).await;
    assert_eq!(beats(), 0, "the leader has not said so in a heartbeat yet");
    let (secret, kept) = nodes.remove(2).crash(&net).await;
    lose_the_log(kept.as_ref(), id).await;
    let again = GroupNode::start(&net, &secret, &Owner::new(101), kept).await;
    for _ in 0..2 {
        until("a heartbeat that it answers", || again.asked.take("heartbeats") > 0).await;
    }
    assert_eq!(replica(&again).and_then(|status| status.last), None, "it has nothing of the log");
    nodes[0].set(id, "a", "c").await;
    assert_eq!(lead(&nodes).term, term, "its leader leads on");
    assert_eq!(nodes[1].get(id, "a").await.as_deref(), Some("c"));
}

/// Losses of one member: in a change, and at night.
const LOSSES: [u32; 2] = [10, 200];

/// SG-2: whoever lost its log is expelled and joins anew, however often: no core ends, and nothing that was acknowledged is lost.
#[tokio::test(start_paused = true)]
async fn a_member_that_loses_its_log_again_and_again_costs_the_group_nothing() {
    let net = SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS);
    let (mut nodes, id) = group_of(&net, 3).await;
    hand_over(&nodes, id, 0).await;
    for loss in 0..LOSSES[usize::from(at_night())] {
        let (before, after) = (format!("before-{loss}"), format!("after-{loss}"));
        nodes[0].set(id, &before, "value").await;
        let (secret, kept) = nodes.remove(2).crash(&net).await;
        lose_the_log(kept.as_ref(), id).await;
        let again = GroupNode::start(&net, &secret, &Owner::new(101), kept).await;
        until("a heartbeat that it answers", || again.asked.take("heartbeats") > 0).await;
        nodes[0].set(id, &after, "value").await;
        nodes[0].groups.expel(id, again.id()).await.expect("its owner may");
        again.groups.forget(id).await.expect("it is removed there");
        nodes[0].admit(id, &again).await;
        nodes.push(again);
        settled(&nodes, id, 3).await;
        for node in &nodes {
            node.groups.catch_up(id).await.expect("the group answers");
            assert_eq!(node.groups.overview(id).expect("the group").failure, None);
            let has = |key: &str| node.peek(id, key).is_some();
            assert!(has(&before) && has(&after), "loss {loss}");
        }
    }
}

/// P-198, SG-13: after it was set back to an earlier build, a member neither executes nor leads by the rules of that.
#[tokio::test(start_paused = true)]
async fn a_replica_whose_group_uses_later_rules_is_halted_and_says_so() {
    let net = SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS);
    let (nodes, id) = group_of(&net, 1).await;
    let node = nodes.into_iter().next().expect("one");
    node.set(id, "a", "b").await;
    // The later build said so. Whether that is answered before the replica is halted does not matter.
    drop(node.groups.command(id, Command::Declare(Declaration { rules: RULES + 1, mark: None })).await);
    let is_halted = |node: &GroupNode| {
        let group = node.groups.overview(id).expect("the group");
        group.replica.is_none() && group.failure.is_some_and(|why| why.contains("update it"))
    };
    until("it is halted", || is_halted(&node)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(is_halted(&node), "it does not begin again");
    assert!(!write(&node, id, "later").await);
    let (secret, kept) = node.crash(&net).await;
    let again = GroupNode::start(&net, &secret, &Owner::new(101), kept).await;
    until("it is halted again", || is_halted(&again)).await;
}
