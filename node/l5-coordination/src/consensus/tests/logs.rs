//! What a log returns, and what it reads for that.

use althing_protocol::GroupId;
use openraft::RaftLogReader as _;
use openraft::entry::RaftEntry as _;
use openraft::storage::{IOFlushed, RaftLogStorage as _};

use super::super::log_rows::{RAFT_LOG, entry_key};
use super::super::records::{Ballot, EntryRecord, Payload, Position, encode};
use super::super::types::{Entry, LogId, Vote};
use super::super::wire::PART_BYTES_MAX;
use super::held::{Held, settled, until};
use super::*;

pub fn group() -> GroupId {
    GroupId::from_digest(GROUP)
}

fn record(term: u64, index: u64, bytes: usize) -> EntryRecord {
    EntryRecord { at: Position { term, index }, payload: Payload::Batch(0, vec![7u8; bytes].into()) }
}

/// Adds entries with so many bytes each, and does not wait for the disk.
pub async fn append(log: &mut LogStore, term: u64, indexes: std::ops::Range<u64>, bytes: usize) -> std::io::Result<()> {
    let entries = indexes.map(|index| record(term, index, bytes).into_entry().expect("an entry"));
    log.append(entries.collect::<Vec<Entry>>(), IOFlushed::noop()).await
}

/// Waits until all that was added before is on disk: what is written later is on disk later.
pub async fn synced(log: &mut LogStore) {
    let node = althing_protocol::SecretKey::from_seed(&[1; 32]).public();
    let vote = Vote::from(Ballot { term: 9, node, elected: false });
    log.save_vote(&vote).await.expect("it is on disk");
}

/// The positions of the entries, as (term, index).
pub fn places(entries: &[Entry]) -> Vec<(u64, u64)> {
    entries.iter().map(|entry| Position::from(entry.log_id())).map(|at| (at.term, at.index)).collect()
}

/// What of the log is on disk, as (term, index).
pub fn on_disk(store: &Held) -> Vec<(u64, u64)> {
    let position = |row: &[u8]| minicbor::decode::<EntryRecord>(row).expect("an entry").at;
    store.rows(RAFT_LOG).iter().map(|(_, row)| position(row)).map(|at| (at.term, at.index)).collect()
}

fn at(term: u64, index: u64) -> LogId {
    Position { term, index }.into()
}

/// SG-15: the state would differ from all others, and nobody would notice.
#[tokio::test]
async fn a_log_with_a_gap_is_not_read_over_it() {
    let store = Held::new();
    for index in [0, 1, 2, 4, 5] {
        store.put(RAFT_LOG, entry_key(group(), index), encode(&record(1, index, 10))).await;
    }
    let mut log = LogStore::open(group(), Pen::new(store)).expect("a log");
    assert_eq!(places(&log.try_get_log_entries(0..3).await.expect("no gap")), [(1, 0), (1, 1), (1, 2)]);
    assert_eq!(places(&log.try_get_log_entries(4..9).await.expect("no gap")), [(1, 4), (1, 5)]);
    let error = log.try_get_log_entries(1..6).await.expect_err("there is a gap");
    assert!(error.to_string().contains("the entry 3 is missing"), "{error}");
    for missing in [log.try_get_log_entries(3..6).await, log.limited_get_log_entries(3, 6).await] {
        assert!(missing.is_err(), "nor behind it: {missing:?}");
    }
    let error = log.limited_get_log_entries(0, 6).await.expect_err("there is a gap");
    assert!(error.to_string().contains("the entry 3 is missing"), "{error}");
}

/// SG-15: a write that was queued before entries were cut off does not say of those that took their place that they are on disk.
#[tokio::test]
async fn what_was_written_before_a_cut_puts_nothing_of_what_came_after_it_on_disk() {
    let store = Held::new();
    let mut log = LogStore::open(group(), Pen::new(store.clone())).expect("a log");
    append(&mut log, 1, 0..3, 10).await.expect("it is added");
    synced(&mut log).await;
    store.hold();
    let before = store.begun();
    append(&mut log, 1, 3..9, 10).await.expect("it is added");
    until("it is being written", || store.begun() > before).await;
    // It ends before those entries are off the disk, and so after they went from memory.
    let mut cutting = log.clone();
    let cut = tokio::spawn(async move { cutting.truncate_after(Some(at(1, 2))).await });
    settled().await;
    store.open();
    cut.await.expect("no panic").expect("it is cut");
    assert_eq!(on_disk(&store), [(1, 0), (1, 1), (1, 2)]);
    assert_replaces(&mut log, &store).await;
}

/// That others take the place of what was cut off behind the third entry, without a gap while they come to disk.
async fn assert_replaces(log: &mut LogStore, store: &Held) {
    const LARGE: usize = 2 << 20;
    // More than memory holds of what is on disk; the first one alone comes there.
    store.hold();
    let before = store.begun();
    append(log, 2, 3..8, LARGE).await.expect("it is added");
    until("the first one is being written", || store.begun() > before).await;
    store.let_one_through();
    until("the next one is", || store.begun() > before + 1).await;
    let all = [(1, 0), (1, 1), (1, 2), (2, 3), (2, 4), (2, 5), (2, 6), (2, 7)];
    assert_eq!(places(&log.try_get_log_entries(0..9).await.expect("no gap")), all);
    store.open();
    synced(log).await;
    assert_eq!(places(&log.try_get_log_entries(0..9).await.expect("no gap")), all);
    assert_eq!(on_disk(store), all);
}

/// SG-15: nor are they there because those before them were.
#[tokio::test]
async fn what_takes_the_place_of_entries_that_were_on_disk_is_not_there_yet() {
    let store = Held::new();
    let mut log = LogStore::open(group(), Pen::new(store.clone())).expect("a log");
    append(&mut log, 1, 0..9, 10).await.expect("it is added");
    synced(&mut log).await;
    assert_eq!(on_disk(&store).len(), 9);
    log.truncate_after(Some(at(1, 2))).await.expect("it is cut");
    assert_eq!(on_disk(&store), [(1, 0), (1, 1), (1, 2)]);
    assert_replaces(&mut log, &store).await;
}

/// P-102: after a power cut the member would vote for another one in the same term.
#[tokio::test]
async fn a_vote_is_told_to_nobody_before_it_is_on_disk() {
    let store = Held::new();
    let mut log = LogStore::open(group(), Pen::new(store.clone())).expect("a log");
    let node = althing_protocol::SecretKey::from_seed(&[1; 32]).public();
    let vote = Vote::from(Ballot { term: 4, node, elected: false });
    store.hold();
    let mut voting = log.clone();
    let voted = tokio::spawn(async move { voting.save_vote(&vote).await });
    until("it is being written", || store.begun() == 1).await;
    settled().await;
    assert!(!voted.is_finished(), "the candidate would hear of it");
    assert_eq!(log.read_vote().await.expect("it can be read"), None);
    store.open();
    voted.await.expect("no panic").expect("it is on disk");
    assert_eq!(log.read_vote().await.expect("it can be read"), Some(vote));
    let mut again = LogStore::open(group(), Pen::new(store)).expect("a log");
    assert_eq!(again.read_vote().await.expect("it can be read"), Some(vote));
}

/// SG-2: the replica stops there; what it acknowledged before is not for a leader to drop when it has started again.
#[tokio::test]
async fn what_is_committed_is_not_cut_off_and_known_to_be_committed_after_a_restart() {
    let store = Held::new();
    let mut log = LogStore::open(group(), Pen::new(store.clone())).expect("a log");
    append(&mut log, 1, 0..9, 10).await.expect("it is added");
    log.save_committed(Some(at(1, 6))).await.expect("the log has it");
    log.truncate_after(Some(at(1, 4))).await.expect_err("it is committed");
    assert_eq!(on_disk(&store).len(), 9);
    let mut again = LogStore::open(group(), Pen::new(store.clone())).expect("a log");
    assert_eq!(again.committed(), Some(at(1, 6)));
    assert_eq!(again.read_committed().await.expect("it can be read"), Some(at(1, 6)));
    again.truncate_after(Some(at(1, 6))).await.expect("the others are not");
    assert_eq!(on_disk(&store).len(), 7);
}

/// SG-8: as openraft's replication asks for them.
#[tokio::test]
async fn who_lags_behind_is_sent_each_entry_that_is_read_for_it() {
    for (count, bytes) in [(300, 64 << 10), (20, 900 << 10), (4_000, 100)] {
        let store = Held::new();
        let mut log = LogStore::open(group(), Pen::new(store.clone())).expect("a log");
        append(&mut log, 1, 0..count, bytes).await.expect("it is added");
        synced(&mut log).await;
        // From disk alone, as after a restart.
        let mut log = LogStore::open(group(), Pen::new(store.clone())).expect("a log");
        store.take_read();
        let mut next = 0;
        while next < count {
            let some = log.limited_get_log_entries(next, count.min(next + 256)).await.expect("entries");
            let has = |entry: &Entry| encode(&EntryRecord::of(entry)).len();
            assert!(some.len() == 1 || some.iter().map(has).sum::<usize>() <= PART_BYTES_MAX);
            assert_eq!(some.first().expect("one in any case").index(), next);
            next += some.len() as u64;
        }
        let (read, all) = (store.take_read().0, count as usize * (bytes + 100));
        assert!(read <= all, "{read} bytes were read for {all}");
    }
}

/// SG-8
#[tokio::test]
async fn a_purge_deletes_what_it_should_and_reads_none_of_it() {
    const COUNT: u64 = 2_500;
    let store = Held::new();
    let mut log = LogStore::open(group(), Pen::new(store.clone())).expect("a log");
    append(&mut log, 1, 0..COUNT, 2_000).await.expect("it is added");
    synced(&mut log).await;
    store.take_read();
    log.purge(at(1, COUNT - 11)).await.expect("it is purged");
    let (bytes, keys) = store.take_read();
    assert_eq!(bytes, 0, "no row is read");
    assert!(keys <= 4, "{keys} keys are read");
    assert_eq!(on_disk(&store), (COUNT - 10..COUNT).map(|index| (1, index)).collect::<Vec<_>>());
    // A snapshot of another member covers more than there is, by far.
    log.purge(at(2, u64::MAX / 4)).await.expect("it is purged");
    assert_eq!(on_disk(&store), []);
    let state = log.get_log_state().await.expect("it can be read");
    assert_eq!((state.last_log_id, state.last_purged_log_id), (Some(at(2, u64::MAX / 4)), Some(at(2, u64::MAX / 4))));
}
