//! A replica that ended writes nothing any more, however slow the disk is (SG-7).

use std::time::Duration;

use althing_store::Range;
use openraft::RaftLogReader as _;
use openraft::RaftSnapshotBuilder as _;
use openraft::storage::{RaftLogStorage as _, RaftStateMachine as _};

use super::super::arriving::{Arriving, Room};
use super::super::image::Image;
use super::super::records::Position;
use super::super::types::{SnapshotMeta, StoredMembership};
use super::super::wire::{Ballot, MembersRecord, SnapshotPart};
use super::held::{Held, settled, until};
use super::logs::{append, group, on_disk, places, synced};
use super::*;
use crate::machine::group::Group;

/// Puts a pen down, while the store holds a write.
async fn putting_down(pen: &Arc<Pen>) -> tokio::task::JoinHandle<()> {
    let pen = pen.clone();
    let putting = tokio::spawn(async move { pen.put_down().await });
    settled().await;
    assert!(!putting.is_finished(), "it waits for what is being written");
    putting
}

#[tokio::test]
async fn what_was_queued_for_the_log_does_not_come_after_the_next_replica_began() {
    let store = Held::new();
    let pen = Pen::new(store.clone());
    let mut before = LogStore::open(group(), pen.clone()).expect("a log");
    append(&mut before, 1, 0..3, 10).await.expect("it is added");
    synced(&mut before).await;
    store.hold();
    let begun = store.begun();
    append(&mut before, 1, 3..6, 10).await.expect("it is added");
    until("it is being written", || store.begun() > begun).await;
    append(&mut before, 1, 6..20, 10).await.expect("it is queued");
    let putting = putting_down(&pen).await;
    store.open();
    putting.await.expect("no panic");
    assert_eq!(on_disk(&store).len(), 6, "what was being written is there, and nothing of what was queued");

    let mut next = LogStore::open(group(), Pen::new(store.clone())).expect("a log");
    assert_eq!(next.get_log_state().await.expect("it can be read").last_log_id.map(|id| id.index), Some(5));
    append(&mut next, 2, 6..9, 10).await.expect("it is added");
    synced(&mut next).await;
    // The one before is there yet, and is asked for more.
    append(&mut before, 1, 20..22, 10).await.expect_err("it is closed");
    settled().await;
    let acknowledged = [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (2, 6), (2, 7), (2, 8)];
    assert_eq!(on_disk(&store), acknowledged);
    let mut again = LogStore::open(group(), Pen::new(store)).expect("a log");
    assert_eq!(places(&again.try_get_log_entries(0..30).await.expect("no gap")), acknowledged);
}

#[tokio::test]
async fn what_was_queued_for_the_log_does_not_come_after_it_was_deleted() {
    let store = Held::new();
    let pen = Pen::new(store.clone());
    let mut log = LogStore::open(group(), pen.clone()).expect("a log");
    store.hold();
    append(&mut log, 1, 0..3, 10).await.expect("it is added");
    until("it is being written", || store.begun() == 1).await;
    append(&mut log, 1, 3..6, 10).await.expect("it is queued");
    let putting = putting_down(&pen).await;
    store.open();
    putting.await.expect("no panic");
    let mut batch = althing_store::Batch::new();
    for key in store.keys(RAFT_LOG, Range::all(99)).expect("a family of ours") {
        batch.delete(RAFT_LOG, key);
    }
    store.write(batch, althing_store::Durability::Buffered).await.expect("it is deleted");
    drop(log);
    settled().await;
    assert_eq!(on_disk(&store), []);
}

/// A snapshot as of an entry, with rows that nobody looks at.
fn arrived(rows: usize, bytes: usize) -> Arc<Image> {
    let arriving = Arriving::new(Room::new());
    let node = althing_protocol::SecretKey::from_seed(&[1; 32]).public();
    let part = SnapshotPart {
        group: group(),
        leader: Ballot { term: 1, node, elected: true },
        last: None,
        members: MembersRecord { at: None, voters: Vec::new(), learners: Vec::new() },
        offset: 0,
        rows: vec![vec![7u8; bytes].into(); rows],
        is_last: true,
    };
    let arrived = arriving.take(node, part).expect("it is small").expect("it is complete");
    Image::checked(arrived.rows, Group::new(group(), "test"), arrived.share)
}

fn meta(index: u64) -> SnapshotMeta {
    let last_log_id = Some(Position { term: 1, index }.into());
    SnapshotMeta { last_log_id, last_membership: StoredMembership::default() }
}

#[tokio::test]
async fn a_snapshot_that_was_being_written_is_not_mixed_with_that_of_the_next_replica() {
    let store = Held::new();
    let pen = Pen::new(store.clone());
    let mut before = StateStore::open(group(), "test", pen.clone(), LOG_BYTES).expect("a state");
    store.hold();
    // A batch for each row.
    let installing = tokio::spawn(async move { before.install_snapshot(&meta(9), arrived(5, 2 << 20)).await });
    until("its first rows are being written", || store.begun() == 1).await;
    let putting = putting_down(&pen).await;
    store.open();
    putting.await.expect("no panic");
    installing.await.expect("no panic").expect_err("it has ended");
    assert_eq!(store.rows(RAFT_SNAPSHOTS).len(), 1, "what was being written, and no description");

    let pen = Pen::new(store.clone());
    let mut next = StateStore::open(group(), "test", pen.clone(), LOG_BYTES).expect("a state");
    assert!(next.get_current_snapshot().await.expect("it can be read").is_none());
    next.build_snapshot().await.expect("it is written");
    let kept = next.get_current_snapshot().await.expect("it can be read").expect("it is there");
    assert_eq!(kept.snapshot.rows(), Group::new(group(), "test").rows());
    assert_eq!(
        store.rows(RAFT_SNAPSHOTS).len(),
        kept.snapshot.rows().len() + 1,
        "its description, and nothing of the other one"
    );
    StateStore::open(group(), "test", pen, LOG_BYTES).expect("it opens again");
}

/// A write that never ends: whoever puts the pen down waits for it, however long.
#[tokio::test(start_paused = true)]
async fn a_pen_is_put_down_when_nothing_is_written_and_not_before() {
    let store = Held::new();
    let pen = Pen::new(store.clone());
    pen.write(althing_store::Batch::new(), althing_store::Durability::Buffered).await.expect("it writes");
    store.hold();
    let writing = pen.clone();
    let held = tokio::spawn(async move {
        writing.write(althing_store::Batch::new(), althing_store::Durability::Synced).await.is_ok()
    });
    until("it writes", || store.begun() == 2).await;
    assert!(tokio::time::timeout(Duration::from_secs(3_600), pen.put_down()).await.is_err());
    // Whoever gave up waiting has not put it down.
    store.open();
    assert!(held.await.expect("no panic"));
    pen.write(althing_store::Batch::new(), althing_store::Durability::Buffered).await.expect("it writes yet");
    pen.put_down().await;
    pen.write(althing_store::Batch::new(), althing_store::Durability::Buffered).await.expect_err("no more");
}
