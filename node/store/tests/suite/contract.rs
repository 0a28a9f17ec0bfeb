//! What every store promises; the same checks run on both stores.

use crate::support::{FAMILIES, LEFT, RIGHT, put, wait};
use althing_store::{
    BATCH_BYTES_MAX, Batch, Durability, Family, MemoryStore, Range, ReadError, RocksStore, Store, StoreConfig,
    WriteError,
};
use std::sync::Arc;

/// A fresh store with [`FAMILIES`].
trait Factory {
    fn make(&self) -> Arc<dyn Store>;
}

struct Memory;

impl Factory for Memory {
    fn make(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new(&FAMILIES))
    }
}

/// Stores on disk, each in a directory of its own, all removed at the end.
struct Rocks(tempfile::TempDir);

impl Factory for Rocks {
    fn make(&self) -> Arc<dyn Store> {
        let dir = tempfile::tempdir_in(self.0.path()).expect("a temporary directory").keep();
        Arc::new(RocksStore::open(&dir, &FAMILIES, StoreConfig::default()).expect("a new store opens"))
    }
}

macro_rules! contract {
    ($($promise:ident),* $(,)?) => {
        mod memory {
            $(#[test] fn $promise() { super::$promise(&super::Memory); })*
        }
        mod rocks {
            $(#[test] fn $promise() { super::$promise(&super::Rocks(tempfile::tempdir().expect("a temporary directory"))); })*
        }
    };
}

contract!(
    what_was_written_is_read,
    many_keys_are_read_as_one_by_one,
    the_last_change_in_a_batch_wins,
    families_are_apart,
    an_unknown_family_is_an_error_and_nothing_is_applied,
    a_batch_over_the_limit_is_refused,
    an_empty_batch_is_a_barrier,
    a_scan_is_ordered_and_bounded,
    a_scan_pages_with_after,
    a_scan_is_bounded_by_bytes_and_keys_are_not,
    a_prefix_of_the_largest_bytes_is_scanned,
    a_snapshot_does_not_change,
    a_snapshot_outlives_its_store,
    an_unpolled_write_does_nothing,
);

fn keys(store: &dyn Store, range: Range) -> Vec<Vec<u8>> {
    store.scan(LEFT, range).expect("the scan succeeds").into_iter().map(|(key, _)| key).collect()
}

fn filled(factory: &dyn Factory, keys: &[&str]) -> Arc<dyn Store> {
    let store = factory.make();
    let mut batch = Batch::new();
    for key in keys {
        batch.put(LEFT, *key, format!("value of {key}"));
    }
    wait(store.write(batch, Durability::Synced)).expect("the write succeeds");
    store
}

fn what_was_written_is_read(factory: &dyn Factory) {
    let store = factory.make();
    assert_eq!(store.read(LEFT, b"key"), Ok(None));
    for durability in [Durability::Buffered, Durability::Synced] {
        let mut batch = Batch::new();
        batch.put(LEFT, "key", format!("{durability:?}")).put(LEFT, "", "under the empty key").put(LEFT, "empty", "");
        wait(store.write(batch, durability)).expect("the write succeeds");
        assert_eq!(store.read(LEFT, b"key"), Ok(Some(format!("{durability:?}").into_bytes())));
    }
    assert_eq!(store.read(LEFT, b""), Ok(Some(b"under the empty key".to_vec())));
    assert_eq!(store.read(LEFT, b"empty"), Ok(Some(Vec::new())));
}

fn many_keys_are_read_as_one_by_one(factory: &dyn Factory) {
    let store = factory.make();
    for number in [1_u8, 3, 5, 7] {
        put(&*store, LEFT, [number], [number, number]);
    }
    put(&*store, RIGHT, [2], "beside");
    for keys in [vec![], vec![1], vec![1, 2, 3, 7, 9], vec![7, 1, 1, 2, 5], vec![2]] {
        let keys: Vec<Vec<u8>> = keys.into_iter().map(|key: u8| vec![key]).collect();
        let alone: Result<Vec<_>, _> = keys.iter().map(|key| store.read(LEFT, key)).collect();
        assert_eq!(store.read_many(LEFT, &keys), alone, "{keys:?}");
    }
    let unknown = Family("unknown");
    assert_eq!(store.read_many(unknown, &[vec![1]]), Err(ReadError::UnknownFamily { family: unknown }));
}

fn the_last_change_in_a_batch_wins(factory: &dyn Factory) {
    let store = filled(factory, &["gone"]);
    let mut batch = Batch::new();
    batch.put(LEFT, "a", "1").delete(LEFT, "a").put(LEFT, "b", "1").put(LEFT, "b", "2");
    batch.delete(LEFT, "gone").delete(LEFT, "never there");
    assert_eq!(batch.len(), 6);
    wait(store.write(batch, Durability::Buffered)).expect("the write succeeds");
    assert_eq!(store.scan(LEFT, Range::all(9)), Ok(vec![(b"b".to_vec(), b"2".to_vec())]));
}

fn families_are_apart(factory: &dyn Factory) {
    let store = factory.make();
    let mut batch = Batch::new();
    batch.put(LEFT, "key", "l").put(RIGHT, "key", "r").delete(RIGHT, "other");
    wait(store.write(batch, Durability::Synced)).expect("the write succeeds");
    assert_eq!(store.read(LEFT, b"key"), Ok(Some(b"l".to_vec())));
    assert_eq!(store.read(RIGHT, b"key"), Ok(Some(b"r".to_vec())));
    assert_eq!(store.scan(RIGHT, Range::all(9)).map(|rows| rows.len()), Ok(1));
}

fn an_unknown_family_is_an_error_and_nothing_is_applied(factory: &dyn Factory) {
    const OTHER: Family = Family("other");
    let store = factory.make();
    let unknown = ReadError::UnknownFamily { family: OTHER };
    assert_eq!(store.read(OTHER, b"key"), Err(unknown.clone()));
    assert_eq!(store.scan(OTHER, Range::all(1)), Err(unknown.clone()));
    assert_eq!(store.snapshot().read(OTHER, b"key"), Err(unknown.clone()));
    assert_eq!(store.snapshot().scan(OTHER, Range::all(1)), Err(unknown));
    let mut batch = Batch::new();
    batch.put(LEFT, "key", "value").put(OTHER, "key", "value");
    assert_eq!(wait(store.write(batch, Durability::Synced)), Err(WriteError::UnknownFamily { family: OTHER }));
    assert_eq!(store.read(LEFT, b"key"), Ok(None));
}

fn a_batch_over_the_limit_is_refused(factory: &dyn Factory) {
    let store = factory.make();
    let mut batch = Batch::new();
    batch.put(LEFT, "k", vec![7; BATCH_BYTES_MAX - 1]);
    assert_eq!(batch.bytes(), BATCH_BYTES_MAX);
    wait(store.write(batch.clone(), Durability::Buffered)).expect("the limit itself is allowed");
    batch.delete(LEFT, "x");
    assert_eq!(
        wait(store.write(batch, Durability::Buffered)),
        Err(WriteError::TooLarge { bytes: BATCH_BYTES_MAX + 1, bytes_max: BATCH_BYTES_MAX })
    );
}

fn an_empty_batch_is_a_barrier(factory: &dyn Factory) {
    let store = factory.make();
    assert!(Batch::new().is_empty());
    assert_eq!(wait(store.write(Batch::new(), Durability::Synced)), Ok(()));
    assert_eq!(wait(store.write(Batch::new(), Durability::Buffered)), Ok(()));
}

fn a_scan_is_ordered_and_bounded(factory: &dyn Factory) {
    let store = filled(factory, &["b2", "a", "b1", "b", "c", "b3"]);
    let scan = |range| keys(&*store, range);
    assert_eq!(scan(Range::all(99)), [&b"a"[..], b"b", b"b1", b"b2", b"b3", b"c"]);
    assert_eq!(scan(Range::all(2)), [b"a", b"b"]);
    assert_eq!(scan(Range::all(2).reversed()), [&b"c"[..], b"b3"]);
    assert_eq!(scan(Range::prefix("b", 3)), [&b"b"[..], b"b1", b"b2"]);
    assert_eq!(scan(Range::prefix("b", 9).reversed()), [&b"b3"[..], b"b2", b"b1", b"b"]);
    assert_eq!(scan(Range::all(0)), Vec::<Vec<u8>>::new());
    assert_eq!(scan(Range::prefix("d", 9)), Vec::<Vec<u8>>::new());
    let rows = store.scan(LEFT, Range::prefix("c", 9)).expect("the scan succeeds");
    assert_eq!(rows, [(b"c".to_vec(), b"value of c".to_vec())]);
}

fn a_scan_pages_with_after(factory: &dyn Factory) {
    let store = filled(factory, &["a", "b1", "b2", "b4", "c"]);
    let scan = |range| keys(&*store, range);
    assert_eq!(scan(Range::prefix("b", 1).after("b1")), [b"b2"]);
    assert_eq!(scan(Range::prefix("b", 9).after("b3")), [b"b4"]);
    assert_eq!(scan(Range::prefix("b", 9).after("a")), [b"b1", b"b2", b"b4"]);
    assert_eq!(scan(Range::prefix("b", 9).after("b4")), Vec::<Vec<u8>>::new());
    assert_eq!(scan(Range::prefix("b", 9).after("c")), Vec::<Vec<u8>>::new());
    assert_eq!(scan(Range::prefix("b", 9).reversed().after("b2")), [b"b1"]);
    assert_eq!(scan(Range::prefix("b", 9).reversed().after("b3")), [b"b2", b"b1"]);
    assert_eq!(scan(Range::prefix("b", 9).reversed().after("c")), [b"b4", b"b2", b"b1"]);
    assert_eq!(scan(Range::prefix("b", 9).reversed().after("a")), Vec::<Vec<u8>>::new());
    assert_eq!(scan(Range::all(9).after("")), [&b"a"[..], b"b1", b"b2", b"b4", b"c"]);
    assert_eq!(scan(Range::all(9).reversed().after("")), Vec::<Vec<u8>>::new());
}

fn a_scan_is_bounded_by_bytes_and_keys_are_not(factory: &dyn Factory) {
    let store = factory.make();
    for (key, bytes) in [("a", 9), ("b", 9), ("c", 99), ("d", 9)] {
        put(&*store, LEFT, key, vec![7u8; bytes]);
    }
    let scan = |range: Range, bytes: usize| keys(&*store, range.within(bytes));
    assert_eq!(scan(Range::all(9), 20), [b"a", b"b"]);
    assert_eq!(scan(Range::all(9), 19), [b"a"]);
    assert_eq!(scan(Range::all(9), 0), [b"a"], "one in any case");
    assert_eq!(scan(Range::all(9).after("b"), 20), [b"c"], "also one that is larger");
    assert_eq!(scan(Range::all(9).reversed(), 109), [b"d"]);
    assert_eq!(scan(Range::all(9).reversed(), 110), [b"d", b"c"]);
    assert_eq!(scan(Range::all(1), 110), [b"a"]);
    assert_eq!(scan(Range::all(0), 110), Vec::<Vec<u8>>::new());
    let all = [&b"a"[..], b"b", b"c", b"d"].map(<[u8]>::to_vec);
    assert_eq!(store.keys(LEFT, Range::all(9).within(0)), Ok(all.to_vec()));
    assert_eq!(store.keys(LEFT, Range::all(2).after("a")), Ok(all[1..3].to_vec()));
    assert_eq!(store.keys(LEFT, Range::all(1).reversed()), Ok(all[3..].to_vec()));
    assert_eq!(store.keys(LEFT, Range::prefix("e", 9)), Ok(Vec::new()));
    assert_eq!(store.keys(Family("other"), Range::all(9)), Err(ReadError::UnknownFamily { family: Family("other") }));
}

fn a_prefix_of_the_largest_bytes_is_scanned(factory: &dyn Factory) {
    let store = factory.make();
    let all = [vec![0xfe, 0xff], vec![0xfe, 0xff, 0xff], vec![0xff], vec![0xff, 0xff], vec![0xff, 0xff, 0x00]];
    for key in &all {
        put(&*store, LEFT, key.clone(), "");
    }
    assert_eq!(keys(&*store, Range::prefix([0xff, 0xff], 9)), all[3..]);
    assert_eq!(keys(&*store, Range::prefix([0xfe, 0xff], 9)), all[..2]);
    assert_eq!(keys(&*store, Range::prefix([0xff, 0xff], 1).reversed()), all[4..]);
    assert_eq!(keys(&*store, Range::prefix([0xfe], 1).reversed()), all[1..2]);
}

fn a_snapshot_does_not_change(factory: &dyn Factory) {
    let store = filled(factory, &["a", "b"]);
    let before = store.snapshot();
    let mut batch = Batch::new();
    batch.put(LEFT, "a", "new").delete(LEFT, "b").put(LEFT, "c", "new").put(RIGHT, "r", "new");
    wait(store.write(batch, Durability::Buffered)).expect("the write succeeds");
    assert_eq!(before.read(LEFT, b"a"), Ok(Some(b"value of a".to_vec())));
    assert_eq!(before.read(RIGHT, b"r"), Ok(None));
    let rows = before.scan(LEFT, Range::all(9).reversed()).expect("the scan succeeds");
    assert_eq!(rows, [(b"b".to_vec(), b"value of b".to_vec()), (b"a".to_vec(), b"value of a".to_vec())]);
    let after = store.snapshot();
    assert_eq!(after.read(LEFT, b"b"), Ok(None));
    assert_eq!(after.scan(LEFT, Range::all(9)), store.scan(LEFT, Range::all(9)));
}

fn a_snapshot_outlives_its_store(factory: &dyn Factory) {
    let store = filled(factory, &["a"]);
    let snapshot = store.snapshot();
    drop(store);
    assert_eq!(snapshot.read(LEFT, b"a"), Ok(Some(b"value of a".to_vec())));
}

fn an_unpolled_write_does_nothing(factory: &dyn Factory) {
    let store = factory.make();
    let mut batch = Batch::new();
    batch.put(LEFT, "key", "value");
    drop(store.write(batch, Durability::Synced));
    wait(store.write(Batch::new(), Durability::Synced)).expect("the barrier succeeds");
    assert_eq!(store.read(LEFT, b"key"), Ok(None));
}
