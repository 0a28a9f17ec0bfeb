//! Many writers share one sync; a full queue makes them wait; a closing store answers everybody.

use crate::support::{FAMILIES, LEFT, key, open, value, wait};
use althing_store::{Batch, Durability, Range, RocksStore, Store, StoreConfig, WriteError};
use futures::future::join_all;

fn row(number: u32) -> Batch {
    let mut batch = Batch::new();
    batch.put(LEFT, key(number), value(number));
    batch
}

#[test]
fn concurrent_synced_writes_take_fewer_commits_than_rows() {
    const ROWS: u32 = 2_000;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let writes = (0..ROWS).map(|number| store.write(row(number), Durability::Synced));
    assert!(wait(join_all(writes)).into_iter().all(|outcome| outcome.is_ok()));
    let stats = store.stats();
    assert_eq!((stats.rows, stats.batches), (u64::from(ROWS), u64::from(ROWS)));
    assert_eq!(stats.syncs, stats.commits, "every commit held a synced write");
    assert!(stats.commits * 2 < u64::from(ROWS), "{} commits for {ROWS} rows", stats.commits);
    assert_eq!(store.scan(LEFT, Range::all(usize::MAX)).expect("the scan succeeds").len(), ROWS as usize);
}

#[test]
fn buffered_writes_are_not_synced() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    for number in 0..10 {
        wait(store.write(row(number), Durability::Buffered)).expect("the write succeeds");
    }
    assert_eq!((store.stats().syncs, store.stats().commits), (0, 10));
    wait(store.write(Batch::new(), Durability::Synced)).expect("the barrier succeeds");
    assert_eq!(store.stats().syncs, 1);
}

#[test]
fn a_buffered_write_that_finds_nobody_before_it_is_made_when_it_is_polled() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    for number in 0..50 {
        // Whoever was answered is before nobody any more.
        wait(store.write(row(2 * number), Durability::Synced)).expect("the write succeeds");
        let written = futures::FutureExt::now_or_never(store.write(row(2 * number + 1), Durability::Buffered));
        assert_eq!(written, Some(Ok(())), "row {number}");
    }
    assert_eq!((store.stats().syncs, store.stats().commits), (50, 100));
    drop(store);
    assert_eq!(open(dir.path()).scan(LEFT, Range::all(200)).expect("the scan succeeds").len(), 100);
}

#[test]
fn writers_wait_for_room_and_all_get_through() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // Room for two small writes at a time.
    let config = StoreConfig { queue_bytes: 2 << 10, ..StoreConfig::default() };
    let store = RocksStore::open(dir.path(), &FAMILIES, config).expect("a new store opens");
    let writes = (0..300).map(|number| store.write(row(number), Durability::Synced));
    assert!(wait(join_all(writes)).into_iter().all(|outcome| outcome.is_ok()));
    assert!(store.stats().commits >= 150, "at most two writes fit into a commit");
    // A batch larger than the whole room takes all of it.
    let mut large = Batch::new();
    large.put(LEFT, "large", vec![7; 1 << 20]);
    wait(store.write(large, Durability::Synced)).expect("the write succeeds");
}

#[test]
fn dropping_the_store_answers_every_writer_and_keeps_what_was_acknowledged() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let writes: Vec<_> = (0..200)
        .map(|number| {
            let mut write = store.write(row(number), Durability::Synced);
            // Polled once, so it is in the queue; half of the others are not polled before the store is gone.
            let polled = (number % 2 == 0).then(|| futures::FutureExt::now_or_never(&mut write)).flatten();
            (number, write, polled)
        })
        .collect();
    drop(store);
    let mut acknowledged = Vec::new();
    for (number, write, polled) in writes {
        match polled.unwrap_or_else(|| wait(write)) {
            Ok(()) => acknowledged.push(number),
            Err(error) => {
                assert!(matches!(error, WriteError::Closed { .. }), "{error}");
                assert!(number % 2 == 1, "a queued write is committed before the store closes");
            }
        }
    }
    assert_eq!(acknowledged.len(), 100);
    let store = open(dir.path());
    for number in acknowledged {
        assert_eq!(store.read(LEFT, &key(number)), Ok(Some(value(number))));
    }
}
