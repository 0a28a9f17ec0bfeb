//! The log on a store: an oracle of another project agrees, and no failure of a write changes history.

use std::sync::Arc;

use althing_log::{AppendError, Head, Log, LogError, LogFamilies, Tile};
use althing_store::{Batch, Durability, Family, MemoryStore, Store};
use althing_testing_store::{FaultStore, WriteEnd};
use tlog_tiles::tlog;

const ENTRIES: Family = Family("test.entries");
const HASHES: Family = Family("test.hashes");
const STATE: Family = Family("test.state");
const FAMILIES: LogFamilies = LogFamilies { entries: ENTRIES, hashes: HASHES };

fn memory() -> MemoryStore {
    MemoryStore::new(&[ENTRIES, HASHES, STATE])
}

fn open(store: &(impl Store + Clone)) -> Log {
    Log::open(Arc::new(store.clone()), FAMILIES).expect("a whole log")
}

fn entry(index: u64) -> Vec<u8> {
    format!("entry {index}").into_bytes()
}

async fn grown(store: &MemoryStore, size: u64) -> Log {
    let log = open(store);
    let mut writer = log.writer().await;
    let mut at = 0;
    while at < size {
        // Batches of different sizes, over the ends of tiles.
        let end = size.min(at + 1 + at % 300);
        let entries: Vec<Vec<u8>> = (at..end).map(entry).collect();
        writer.append(&entries, |_| Batch::new()).await.expect("it is written");
        at = end;
    }
    drop(writer);
    log
}

/// All hashes, as the oracle stores them.
struct Oracle(Vec<tlog::Hash>);

impl tlog::HashReader for Oracle {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<tlog::Hash>, tlog::Error> {
        Ok(indexes.iter().map(|&index| self.0[usize::try_from(index).expect("few")]).collect())
    }
}

fn oracle(size: u64) -> Oracle {
    let mut oracle = Oracle(Vec::new());
    for index in 0..size {
        let more = tlog::stored_hashes(index, &entry(index), &oracle).expect("its hashes");
        oracle.0.extend(more);
    }
    oracle
}

#[tokio::test]
async fn an_oracle_computes_the_same_roots_and_proofs() {
    let size = 70_000;
    let (log, oracle) = (grown(&memory(), size).await, oracle(size));
    for at in [1, 2, 3, 255, 256, 257, 511, 513, 4_096, 65_535, 65_536, 65_537, 69_999, 70_000] {
        let head = log.head_at(at).expect("it was that large");
        let root = tlog::tree_hash(at, &oracle).expect("a root");
        assert_eq!(head.root, root.0, "{at}");
        for index in [0, at / 3, at - 1] {
            let proof = log.inclusion(index, at).expect("a proof");
            assert_eq!(head.check_inclusion(&entry(index), index, &proof), Ok(()));
            let theirs = tlog::prove_record(at, index, &oracle).expect("a proof");
            assert_eq!(proof, theirs.iter().map(|hash| hash.0).collect::<Vec<_>>(), "{index} of {at}");
        }
        for old in [1, at / 2, at - 1, at].into_iter().filter(|&old| old > 0) {
            let proof = log.consistency(old, at).expect("a proof");
            assert_eq!(head.check_extends(&log.head_at(old).expect("a head"), &proof), Ok(()), "{old} to {at}");
            let (old_root, mut hashes) = (log.head_at(old).expect("a head").root, tlog::TreeProof::new());
            hashes.extend(proof.iter().map(|&hash| tlog::Hash(hash)));
            tlog::check_tree(&hashes, at, root, old, tlog::Hash(old_root)).expect("the oracle accepts it");
        }
    }
    assert_eq!(log.head(), log.head_at(size).expect("a head"));
    assert!(matches!(log.inclusion(0, size + 1), Err(LogError::Tree(_))));
}

/// P-184
#[tokio::test]
async fn tiles_are_those_of_the_oracle() {
    let size = 66_000;
    let (log, oracle) = (grown(&memory(), size).await, oracle(size));
    for tile in tlog_tiles::tile::Tile::new_tiles(8, 0, size) {
        let name = tile.path();
        let name = name.strip_prefix("tile/8/").expect("of height 8");
        let ours: Tile = name.parse().unwrap_or_else(|_| panic!("{name}"));
        let data = tile.read_data(&oracle).expect("its hashes");
        assert_eq!(log.tile(ours).expect("it is whole"), Some(data), "{name}");
    }
    for absent in ["0/258", "0/257.p/209", "1/001.p/2", "2/000.p/2", "3/000.p/1", "5/000"] {
        assert_eq!(log.tile(absent.parse().expect("a tile")).expect("no damage"), None, "{absent}");
    }
    let bundle = log.bundle("0/257.p/2".parse().expect("a tile")).expect("it is whole").expect("it is there");
    let expected: Vec<u8> = [entry(65_792), entry(65_793)].iter().flat_map(|it| [&[0, 11][..], it].concat()).collect();
    assert_eq!(bundle, expected);
}

#[tokio::test]
async fn a_log_goes_on_after_it_was_closed() {
    let store = memory();
    let before = grown(&store, 700).await.head();
    let log = open(&store);
    assert_eq!(log.head(), before);
    let mut writer = log.writer().await;
    assert_eq!(writer.next().await.expect("nothing is pending"), 700);
    let after = writer.append(&[entry(700)], |_| Batch::new()).await.expect("it is written");
    assert_eq!(after.check_extends(&before, &log.consistency(700, 701).expect("a proof")), Ok(()));
    assert_eq!(log.entries(699, 2).expect("both"), [entry(699), entry(700)]);
}

#[tokio::test]
async fn damage_is_named_and_never_read_as_another_entry() {
    let store = memory();
    grown(&store, 600).await;
    let change = |family, key: Vec<u8>, value: Option<&[u8]>| {
        let mut batch = Batch::new();
        match value {
            Some(value) => batch.put(family, key, value),
            None => batch.delete(family, key),
        };
        let store = store.clone();
        async move { store.write(batch, Durability::Synced).await.expect("it is written") }
    };
    change(ENTRIES, 5u64.to_be_bytes().to_vec(), Some(b"another")).await;
    let log = open(&store);
    assert!(matches!(log.entry(5), Err(LogError::Damaged { what }) if what == "entry 5"));
    assert_eq!(log.entry(4).expect("it is whole"), entry(4));
    change(ENTRIES, 7u64.to_be_bytes().to_vec(), None).await;
    assert!(matches!(open(&store).entries(6, 3), Err(LogError::Damaged { .. })));
    change(HASHES, [&[0][..], &599u64.to_be_bytes()].concat(), None).await;
    let opened = Log::open(Arc::new(store.clone()), FAMILIES);
    assert!(matches!(opened, Err(LogError::Damaged { what }) if what == "hash 599 of level 0"));
}

#[tokio::test]
async fn a_write_of_unknown_outcome_is_done_again_before_the_next() {
    for applied in [true, false] {
        let store = FaultStore::over(memory());
        let log = open(&store);
        let mut writer = log.writer().await;
        writer.append(&[entry(0)], |_| Batch::new()).await.expect("it is written");
        let mut next = Some(WriteEnd::Full { is_applied: applied });
        store.decide(move |_, _| next.take().unwrap_or(WriteEnd::Done));
        let mut rows = Batch::new();
        rows.put(STATE, b"of 1", b"there");
        let mut over = Head::default();
        let made = |head| {
            over = head;
            rows
        };
        assert!(matches!(writer.append(&[entry(1)], made).await, Err(AppendError::Store(_))));
        assert_eq!(log.head().size, 1, "nobody is told of it");
        assert_eq!(writer.next().await.expect("it is done again"), 2);
        assert_eq!(log.head(), over, "the rows were made for this head");
        let head = writer.append(&[entry(2)], |_| Batch::new()).await.expect("it is written");
        assert_eq!(log.entries(0, 3).expect("all"), [entry(0), entry(1), entry(2)]);
        assert_eq!(store.read(STATE, b"of 1").expect("no damage").as_deref(), Some(&b"there"[..]));
        assert_eq!(open(&store).head(), head, "applied: {applied}");
    }
}

#[tokio::test]
async fn an_entry_that_is_too_long_is_refused() {
    let log = open(&memory());
    let mut writer = log.writer().await;
    let refused = writer.append(&[vec![0; 65_536]], |_| Batch::new()).await;
    assert!(matches!(refused, Err(AppendError::TooLong { bytes: 65_536, .. })));
    assert_eq!(writer.next().await.expect("nothing is pending"), 0);
    assert_eq!(log.head(), Head::default());
    writer.append(&[vec![0; 65_535]], |_| Batch::new()).await.expect("the longest");
}

#[tokio::test]
async fn logs_in_the_same_families_do_not_see_each_other() {
    let store = memory();
    let below = |prefix: u8| Log::open_below(Arc::new(store.clone()), FAMILIES, vec![0, prefix]).expect("a whole log");
    for (prefix, count) in [(1, 300), (2, 3)] {
        let log = below(prefix);
        let entries: Vec<Vec<u8>> = (0..count).map(|index| entry(index + u64::from(prefix))).collect();
        log.writer().await.append(&entries, |_| Batch::new()).await.expect("it is written");
    }
    let (one, two) = (below(1), below(2));
    assert_eq!((one.head().size, two.head().size, below(3).head().size), (300, 3, 0));
    assert_eq!((one.entry(299).expect("it is there"), two.entry(2).expect("it is there")), (entry(300), entry(4)));
    assert!(two.entry(3).is_err(), "that of the other log");
    let alone = memory();
    let entries: Vec<Vec<u8>> = (2..5).map(entry).collect();
    open(&alone).writer().await.append(&entries, |_| Batch::new()).await.expect("it is written");
    assert_eq!(two.head(), open(&alone).head(), "a prefix is no part of what is hashed");
}
