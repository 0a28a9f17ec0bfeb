//! Members of one group that have other states, or say that they know other rules, over the simulated network and by a clock
//! that jumps: they notice it by what each of them declares by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use althing_communication::WallClock;
use althing_conformance::groups::{GroupNode, Owner, hand_over, settled, store};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_coordination::machine::group::Group;
use althing_coordination::machine::group::comparison::{self, Agreement, MARK_MS};
use althing_coordination::{RAFT_SNAPSHOTS, ReplicaConfig};
use althing_protocol::group::{Command, Declaration, GroupId, Policy, RULES};
use althing_protocol::{PublicKey, SecretKey};
use althing_simnet::{LinkConfig, SimNet};
use althing_store::{Batch, Durability, Range, Rows, Store};

/// Entries after which a snapshot is due.
const SNAPSHOT_ENTRIES: u64 = 10;
/// The member whose disk is changed.
const WRONG: usize = 2;
/// What the group wrote.
const WRITTEN: &str = "written by the group";
/// What is there instead of it, in as many bytes.
const CHANGED: &str = "changed on this disk";

/// A group of three members, of whom the first one leads. All have one clock.
struct World {
    net: SimNet,
    nodes: Vec<GroupNode>,
    id: GroupId,
    clock: WallClock,
    /// By how much the clock is ahead of that of the network.
    ahead_ms: Arc<AtomicU64>,
}

async fn start(net: &SimNet, key: &SecretKey, store: Arc<dyn Store>, clock: &WallClock) -> GroupNode {
    let replica = ReplicaConfig { snapshot_entries: SNAPSHOT_ENTRIES, ..ReplicaConfig::default() };
    GroupNode::start_at(net, key, &Owner::new(101), store, replica, clock.clone()).await
}

impl World {
    async fn new() -> World {
        let net = SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS);
        let (right, ahead_ms) = (net.clock(), Arc::<AtomicU64>::default());
        let ahead = ahead_ms.clone();
        let clock = WallClock::new(move || right.now_ms() + ahead.load(Ordering::Relaxed));
        let mut nodes = Vec::new();
        for number in 1..=3 {
            nodes.push(start(&net, &key(number), store(), &clock).await);
        }
        let id = nodes[0].groups.create("team", Policy::default()).await.expect("a group");
        for node in &nodes[1..] {
            nodes[0].admit(id, node).await;
        }
        settled(&nodes, id, 3).await;
        hand_over(&nodes, id, 0).await;
        World { net, nodes, id, clock, ahead_ms }
    }

    /// Another part of the group's time begins with an entry; waits until each member has declared its
    /// state before that to all others.
    async fn begin_part(&self) {
        self.ahead_ms.fetch_add(MARK_MS - self.clock.now_ms() % MARK_MS, Ordering::Relaxed);
        self.nodes[0].set(self.id, "part", "another one").await;
        let at = self.clock.now_ms() / MARK_MS;
        let declared =
            |state: &Group| state.members().iter().all(|(_, member)| member.mark.is_some_and(|mark| mark.at == at));
        let knows_all = |node: &GroupNode| node.groups.look(self.id, declared).unwrap_or(false);
        until("each has declared its mark", || self.nodes.iter().all(knows_all)).await;
    }

    /// What a member makes of the marks of all.
    fn agreements(&self, by: &GroupNode) -> Vec<Agreement> {
        let all = |state: &Group| {
            state.members().iter().map(|(node, _)| comparison::agreement(state, node)).collect::<Vec<Agreement>>()
        };
        by.groups.look(self.id, all).expect("the group")
    }

    /// Of whom a member shows that their state is another one.
    fn differing(&self, by: &GroupNode) -> Vec<PublicKey> {
        by.groups.overview(self.id).expect("the group").differing
    }

    /// Writes a value, and changes it in the snapshot that one member has on disk, while that is down.
    async fn change_disk(&mut self) {
        self.nodes[0].set(self.id, "a", WRITTEN).await;
        for number in 0..2 * SNAPSHOT_ENTRIES {
            self.nodes[0].set(self.id, &format!("key-{number}"), "value").await;
        }
        let kept = self.nodes[WRONG].store.clone();
        until("it is in a snapshot", || !rows_with_value(kept.as_ref(), self.id).is_empty()).await;
        let (secret, kept) = self.nodes.remove(WRONG).crash(&self.net).await;
        let mut batch = Batch::new();
        for (key, mut row) in rows_with_value(kept.as_ref(), self.id) {
            let at = value_in(&row).expect("it has the value");
            row[at..at + WRITTEN.len()].copy_from_slice(CHANGED.as_bytes());
            batch.put(RAFT_SNAPSHOTS, key, row);
        }
        kept.write(batch, Durability::Synced).await.expect("it is written");
        self.nodes.push(start(&self.net, &secret, kept, &self.clock).await);
        settled(&self.nodes, self.id, 3).await;
    }
}

/// Where in a row the value is.
fn value_in(row: &[u8]) -> Option<usize> {
    row.windows(WRITTEN.len()).position(|bytes| bytes == WRITTEN.as_bytes())
}

/// The rows of snapshots that hold the value.
fn rows_with_value(store: &dyn Store, id: GroupId) -> Rows {
    let range = Range::prefix(id.as_bytes().as_slice(), 4_096);
    let rows = store.scan(RAFT_SNAPSHOTS, range).expect("it can be read");
    rows.into_iter().filter(|(_, row)| value_in(row).is_some()).collect()
}

/// P-199, SG-13
#[tokio::test(start_paused = true)]
async fn running_members_notice_that_the_state_of_one_of_them_is_another_one() {
    let mut world = World::new().await;
    world.begin_part().await;
    for node in &world.nodes {
        assert_eq!(world.agreements(node), [Agreement::Same; 3]);
        assert!(world.differing(node).is_empty());
    }
    world.change_disk().await;
    let (wrong, id) = (&world.nodes[WRONG], world.id);
    assert_eq!(wrong.get(id, "a").await.as_deref(), Some(CHANGED), "it goes on with what it has");
    assert_eq!(world.nodes[0].get(id, "a").await.as_deref(), Some(WRITTEN));
    world.begin_part().await;
    let mut right: Vec<PublicKey> = world.nodes[..WRONG].iter().map(GroupNode::id).collect();
    right.sort_unstable();
    for node in &world.nodes[..WRONG] {
        assert_eq!(world.differing(node), [wrong.id()]);
    }
    assert_eq!(world.differing(wrong), right, "who is alone with its state sees that, too");
}

/// P-198, SG-13: after it was set back to an earlier build, a member takes back what the later one said of it. Otherwise the
/// group would go over to rules that it does not know.
#[tokio::test(start_paused = true)]
async fn a_member_declares_by_itself_which_rules_it_knows() {
    let world = World::new().await;
    let (id, node) = (world.id, &world.nodes[1]);
    let later = Command::Declare(Declaration { rules: RULES + 1, mark: None });
    let used = node.groups.command(id, later).await.expect("a member says so of itself");
    assert_eq!(used, Some(u64::from(RULES)), "the others do not say so");
    for other in &world.nodes {
        other.groups.catch_up(id).await.expect("the group answers");
    }
    let said = |state: &Group| state.members().get(&node.id()).map(|member| member.rules);
    let is_right = |by: &GroupNode| by.groups.look(id, said).is_ok_and(|rules| rules == Some(RULES));
    until("what it knows itself is known to all", || world.nodes.iter().all(is_right)).await;
}
