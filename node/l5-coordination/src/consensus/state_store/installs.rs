//! A snapshot that was checked takes the place of the state only if that still holds.

use althing_protocol::group::{Author, Charter, Command, Policy};
use althing_protocol::{PublisherId, SecretKey};
use althing_store::MemoryStore;
use futures::stream;

use super::super::arriving::{Arriving, Room};
use super::super::records::{EntryRecord, Payload as Record};
use super::super::wire::{Ballot, SnapshotPart};
use super::*;

const GROUP: [u8; 32] = [3; 32];

/// A snapshot of another member that was checked, and is of a state of that epoch.
fn arrived(epoch: u64) -> Arc<Image> {
    let (id, node) = (GroupId::from_digest(GROUP), SecretKey::from_seed(&[1; 32]).public());
    let group = Group { epoch, ..Group::new(id, "test") };
    let part = SnapshotPart {
        group: id,
        leader: Ballot { term: 1, node, elected: true },
        last: None,
        members: MembersRecord { at: None, voters: Vec::new(), learners: Vec::new() },
        offset: 0,
        rows: group.rows().into_iter().map(Into::into).collect(),
        is_last: true,
    };
    let arrived = Arriving::new(Room::new()).take(node, part).expect("it is small").expect("it is complete");
    Image::checked(arrived.rows, group, arrived.share)
}

/// The description of a snapshot up to that entry.
fn at(index: u64) -> SnapshotMeta {
    let last_log_id = Some(LogId::from(Position { term: 1, index }));
    SnapshotMeta { last_log_id, last_membership: StoredMembership::default() }
}

/// P-105, SG-1
#[tokio::test]
async fn a_snapshot_does_not_take_back_what_was_executed_since_it_was_checked() {
    let store = Arc::new(MemoryStore::new(&[RAFT_SNAPSHOTS]));
    let opened = StateStore::open(GroupId::from_digest(GROUP), "test", Pen::new(store), 1 << 20);
    let mut state = opened.expect("a state");
    state.state.write().expect("no holder panics").group.epoch = 5;
    let refused = state.install_snapshot(&at(8), arrived(4)).await.expect_err("it is of an earlier epoch");
    assert!(refused.to_string().contains("older"), "{refused}");
    assert_eq!(state.view().group.epoch, 5);
    assert!(state.view().applied.is_none());
    assert!(state.get_current_snapshot().await.expect("it can be read").is_none(), "nothing of it is on disk");
    state.install_snapshot(&at(9), arrived(5)).await.expect("nothing is taken back");
    assert_eq!(state.view().applied.map(|id| id.index), Some(9));
}

/// P-109, SG-1: who is told by a majority that it was removed deletes what it has, and no snapshot shows who signed that.
#[tokio::test]
async fn who_left_by_an_entry_is_known_also_after_a_restart_and_who_left_by_a_snapshot_is_not() {
    let store = Arc::new(MemoryStore::new(&[RAFT_SNAPSHOTS]));
    let open = || {
        let opened = StateStore::open(GroupId::from_digest(GROUP), "test", Pen::new(store.clone()), 1 << 20);
        opened.expect("a state")
    };
    let [stays, leaves] = [1, 2].map(|seed| SecretKey::from_seed(&[seed; 32]));
    let owner = PublisherId::from_digest([1; 32]);
    let join = |state: &StateStore, node: &SecretKey| {
        let group = &mut state.state.write().expect("no holder panics").group;
        group.members.join(node.public(), owner, Vec::new(), None, 1).expect("there is room");
    };
    let execute = |index: u64, author: &SecretKey| {
        let (epoch, id) = (open().view().group.epoch, GroupId::from_digest(GROUP));
        let leave = CommandBatch::new(epoch, Author::Node(author.public()), 1, 1, vec![Command::Leave]);
        let signed = object::sign(leave, "test", &id.to_string(), author).expect("it is signed").bytes;
        let record = EntryRecord { at: Position { term: 1, index }, payload: Record::Batch(1, signed.into()) };
        stream::iter([Ok((record.into_entry().expect("an entry"), None))])
    };
    let mut state = open();
    let charter = Charter::first("team", [owner], 1, stays.public(), Policy::default(), 0, [0; 16]);
    state.state.write().expect("no holder panics").group.charter = Some(charter);
    [&stays, &leaves].into_iter().for_each(|node| join(&state, node));
    state.apply(execute(1, &leaves)).await.expect("it is executed");
    assert_eq!(state.view().leavers, [leaves.public()]);
    // A snapshot of an empty group needs no invitations.
    state.state.write().expect("no holder panics").group = Group::new(GroupId::from_digest(GROUP), "test");
    // With the next snapshot that it makes itself it knows it yet, and with one of another member.
    state.build_snapshot().await.expect("it is written");
    let mut again = open();
    assert_eq!(again.view().leavers, [leaves.public()]);
    let rows = Group::new(again.id, "test").rows();
    again.install_snapshot(&at(9), Image::new(rows)).await.expect("it can be read");
    let last = open();
    assert_eq!(last.view().leavers, [leaves.public()], "nobody has seen the other one leave");
    join(&last, &leaves);
    let mut last = last;
    last.apply(execute(10, &stays)).await.expect("it is executed");
    assert!(last.view().leavers.is_empty(), "it is a member again");
}
