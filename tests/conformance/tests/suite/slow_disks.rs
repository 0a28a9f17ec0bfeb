//! A replica that ends while its disk is slow: what it queued comes neither after what its next one writes, nor after its data is
//! deleted (SG-7).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use althing_conformance::groups::{GroupNode, Owner, leader, settled};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_coordination::consensus::wire::EntryRecord;
use althing_coordination::{GROUPS, RAFT_LOG, RAFT_SNAPSHOTS, RAFT_STATE, RESULTS, ReplicaConfig};
use althing_protocol::group::{Command, GroupId, Policy, Set};
use althing_simnet::{LinkConfig, SimNet};
use althing_store::{Batch, Durability, Family, MemoryStore, Range, ReadError, Rows, Snapshot, Store, WriteError};
use futures::future::BoxFuture;
use tokio::sync::watch;

/// A store whose writes of entries wait while it is held.
struct Slow {
    inner: MemoryStore,
    is_held: watch::Sender<bool>,
    waiting: Arc<AtomicUsize>,
}

impl Slow {
    fn new() -> Arc<Slow> {
        let inner = MemoryStore::new(&[GROUPS, RAFT_LOG, RAFT_STATE, RAFT_SNAPSHOTS, RESULTS]);
        Arc::new(Slow { inner, is_held: watch::channel(false).0, waiting: Arc::default() })
    }

    fn hold(&self, is_held: bool) {
        self.is_held.send_replace(is_held);
    }

    fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// All rows of a group but its record.
    fn rows(&self, id: GroupId) -> Rows {
        let of = |family| self.inner.scan(family, Range::prefix(id.as_bytes().as_slice(), usize::MAX));
        [RAFT_LOG, RAFT_STATE, RAFT_SNAPSHOTS].into_iter().flat_map(|family| of(family).expect("readable")).collect()
    }

    fn log(&self, id: GroupId) -> Vec<EntryRecord> {
        let range = Range::prefix(id.as_bytes().as_slice(), usize::MAX);
        let rows = self.inner.scan(RAFT_LOG, range).expect("readable");
        rows.iter().map(|(_, entry)| minicbor::decode(entry).expect("an entry")).collect()
    }
}

impl Store for Slow {
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.inner.read(family, key)
    }

    fn scan(&self, family: Family, range: Range) -> Result<Rows, ReadError> {
        self.inner.scan(family, range)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.inner.snapshot()
    }

    fn write(&self, batch: Batch, durability: Durability) -> BoxFuture<'static, Result<(), WriteError>> {
        let waits = batch.changes().any(|(family, _, value)| family == RAFT_LOG && value.is_some());
        let (inner, waiting, mut is_held) = (self.inner.clone(), self.waiting.clone(), self.is_held.subscribe());
        Box::pin(async move {
            if waits {
                waiting.fetch_add(1, Ordering::SeqCst);
                is_held.wait_for(|is_held| !*is_held).await.expect("the store is there");
                waiting.fetch_sub(1, Ordering::SeqCst);
            }
            inner.write(batch, durability).await
        })
    }
}

fn set(key: &str) -> Command {
    Command::Set(Set { key: key.to_owned(), value: b"value".to_vec().into(), if_version: None })
}

/// A group on slow stores, which are not held yet.
async fn group(net: &SimNet, count: u8) -> (Vec<GroupNode>, Vec<Arc<Slow>>, GroupId) {
    let (mut nodes, mut stores) = (Vec::new(), Vec::new());
    for number in 1..=count {
        let store = Slow::new();
        let (owner, replica) = (Owner::new(101), ReplicaConfig::default());
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

/// Begins to write through a node.
fn begin(node: &GroupNode, id: GroupId, key: &str) -> tokio::task::JoinHandle<bool> {
    let (groups, command) = (node.groups.clone(), set(key));
    tokio::spawn(async move { groups.command(id, command).await.is_ok() })
}

#[tokio::test(start_paused = true)]
async fn who_is_told_to_forget_a_group_while_its_disk_is_slow_has_nothing_of_it_afterwards() {
    let net = SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS);
    let (nodes, stores, id) = group(&net, 1).await;
    nodes[0].set(id, "before", "value").await;
    stores[0].hold(true);
    let writing = begin(&nodes[0], id, "never");
    until("it is being written", || stores[0].waiting() == 1).await;
    let groups = nodes[0].groups.clone();
    let forgetting = tokio::spawn(async move { groups.forget(id).await });
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(!forgetting.is_finished(), "it waits for its disk");
    stores[0].hold(false);
    forgetting.await.expect("no panic").expect("it is removed");
    assert!(!writing.await.expect("no panic"), "nobody was told that it was written");
    assert_eq!(stores[0].rows(id), []);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(stores[0].rows(id), [], "nor does anything come later");
    assert!(nodes[0].groups.overview(id).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_starts_again_waits_for_what_it_was_writing() {
    let net = SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS);
    let (nodes, stores, id) = group(&net, 3).await;
    let (at, _) = leader(&nodes, id).await;
    nodes[at].set(id, "before", "value").await;
    stores.iter().for_each(|store| store.hold(true));
    let writing: Vec<_> = nodes.iter().zip(["a", "b", "c"]).map(|(node, key)| begin(node, id, key)).collect();
    until("it is being written", || stores[at].waiting() == 1).await;
    // No majority has it on disk: the leader gives up, and is to start again.
    let overview = || nodes[at].groups.overview(id).expect("the group");
    until("it is stopped", || overview().replica.is_none()).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(overview().replica.is_none(), "it waits for its disk: {:?}", overview());
    stores.iter().for_each(|store| store.hold(false));
    until("it runs again", || overview().failure.is_none()).await;
    let mut is_written = false;
    for _ in 0..40 {
        is_written = is_written || nodes[at].groups.command(id, set("after")).await.is_ok();
    }
    assert!(is_written, "{:?}", overview());
    for (node, key) in nodes.iter().zip(["a", "b", "c"]) {
        node.groups.catch_up(id).await.expect("the group answers");
        assert!(
            ["before", "after"].iter().all(|key| node.peek(id, key).is_some()),
            "what was acknowledged is there: {key}"
        );
    }
    for (one, key) in writing.into_iter().zip(["a", "b", "c"]) {
        let is_there = nodes[at].peek(id, key).is_some();
        assert!(is_there || !one.await.expect("no panic"), "{key} was acknowledged");
    }
    // The logs on disk are one log.
    let log = stores[at].log(id);
    until("all have the same", || stores.iter().all(|store| store.log(id) == stores[at].log(id))).await;
    assert!(log.windows(2).all(|pair| pair[0].at.index + 1 == pair[1].at.index && pair[0].at.term <= pair[1].at.term));
}
