//! Power cuts and bit-rot in the write-ahead log of a real store: a torn last write is dropped, all other damage is said
//! before anything is changed.

use crate::support::{FAMILIES, LEFT, copied, copy_tree, files, flip, key, keys, logged, only_log, open, put, value};
use althing_store::{OpenError, RocksStore, StoreConfig};
use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

/// RocksDB writes its log in blocks of this length.
const BLOCK_BYTES: usize = 32 << 10;
/// The length of a record's header: checksum, length, kind.
const HEADER_BYTES: usize = 7;
/// Many times what an opening takes; RocksDB can be made to read a log for ever.
const OPENS_WITHIN: Duration = Duration::from_secs(20);

/// A store whose write-ahead log holds 50 rows, one write in four blocks, and `later` rows; returns the log's only file
/// and where in it the parts of the long write lie.
fn logged_with_a_long_write(dir: &Path, later: u32) -> (PathBuf, Vec<Range<usize>>) {
    let store = open(dir);
    for number in 0..50 {
        put(&store, LEFT, key(number), value(number));
    }
    let log = only_log(dir);
    let length = || fs::metadata(&log).expect("it exists").len() as usize;
    let begins = length();
    put(&store, LEFT, key(50), vec![7; 100 << 10]);
    let end = length();
    for number in 51..51 + later {
        put(&store, LEFT, key(number), value(number));
    }
    drop(store);
    assert_eq!(only_log(dir), log);
    let part = |block: usize| begins.max(block * BLOCK_BYTES)..end.min((block + 1) * BLOCK_BYTES);
    let parts: Vec<_> = (begins / BLOCK_BYTES..=(end - 1) / BLOCK_BYTES).map(part).collect();
    assert_eq!(parts.len(), 4);
    (log, parts)
}

fn zero(file: &Path, places: &[Range<usize>]) {
    let mut bytes = fs::read(file).expect("readable");
    for place in places {
        bytes[place.clone()].fill(0);
    }
    fs::write(file, bytes).expect("writable");
}

#[test]
fn a_flipped_byte_in_the_last_write_drops_that_write_only() {
    let good = tempfile::tempdir().expect("a temporary directory");
    let log = logged(good.path(), 50);
    let end = fs::metadata(&log).expect("it exists").len() as usize;
    for back in [1, 3, 100, 196] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        copy_tree(good.path(), dir.path());
        flip(&dir.path().join("db").join(log.file_name().expect("named")), end - back);
        let store = open(dir.path());
        assert_eq!(keys(&store), (0..49).map(key).collect::<Vec<_>>(), "flipped {back} bytes before the end");
        assert!(store.stats().torn_bytes > 196);
        put(&store, LEFT, key(49), value(49));
        drop(store);
        let store = open(dir.path());
        assert_eq!((keys(&store).len(), store.stats().torn_bytes), (50, 0));
    }
}

#[test]
fn a_last_write_cut_short_is_dropped() {
    let good = tempfile::tempdir().expect("a temporary directory");
    let log = logged(good.path(), 50);
    let bytes = fs::read(&log).expect("readable");
    for cut in [1, 50, 200] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        copy_tree(good.path(), dir.path());
        fs::write(dir.path().join("db").join(log.file_name().expect("named")), &bytes[..bytes.len() - cut])
            .expect("writable");
        assert_eq!(keys(&open(dir.path())), (0..49).map(key).collect::<Vec<_>>(), "cut {cut} bytes");
    }
}

#[test]
fn a_long_last_write_that_lacks_whole_parts_is_dropped() {
    let good = tempfile::tempdir().expect("a temporary directory");
    let (log, parts) = logged_with_a_long_write(good.path(), 0);
    for lacking in [0..1, 1..2, 2..3, 3..4, 0..2, 1..3, 2..4, 0..3] {
        let (dir, log) = copied(good.path(), &log);
        zero(&log, &parts[lacking.clone()]);
        let store = open(dir.path());
        assert_eq!(keys(&store), (0..50).map(key).collect::<Vec<_>>(), "without the parts {lacking:?}");
        assert_eq!(store.stats().torn_bytes, (parts[3].end - parts[0].start) as u64, "without the parts {lacking:?}");
        put(&store, LEFT, key(50), value(50));
        drop(store);
        let store = open(dir.path());
        assert_eq!((keys(&store).len(), store.stats().torn_bytes), (51, 0));
    }
}

#[test]
fn a_long_write_that_lacks_whole_parts_before_other_writes_is_damage_and_nothing_is_dropped() {
    let good = tempfile::tempdir().expect("a temporary directory");
    let (log, parts) = logged_with_a_long_write(good.path(), 1);
    for lacking in [0..1, 1..2, 2..3, 0..2, 1..3, 0..3] {
        let (dir, log) = copied(good.path(), &log);
        let whole = fs::read(&log).expect("readable");
        zero(&log, &parts[lacking.clone()]);
        match RocksStore::open(dir.path(), &FAMILIES, StoreConfig::default()) {
            Err(OpenError::Damaged { path, detail }) => {
                assert_eq!(path, log, "{detail}");
                let wanted = format!("damaged at byte {}; writes follow", parts[0].start);
                assert!(detail.contains(&wanted), "without the parts {lacking:?}: {detail}");
            }
            Err(error) => panic!("without the parts {lacking:?}: {error}"),
            Ok(store) => panic!("without the parts {lacking:?}: opened with {} of 52 rows", keys(&store).len()),
        }
        fs::write(&log, whole).expect("writable");
        assert_eq!(keys(&open(dir.path())).len(), 52, "the refusal changed nothing");
    }
}

#[test]
fn a_flipped_byte_before_other_writes_is_damage_and_nothing_is_dropped() {
    let good = tempfile::tempdir().expect("a temporary directory");
    // Several blocks of 32 KiB, so that damage hides a whole block from RocksDB.
    let log = logged(good.path(), 500);
    let end = fs::metadata(&log).expect("it exists").len() as usize;
    assert!(end > 3 * BLOCK_BYTES);
    for at in [0, 5, 6, 100, end / 3, end / 2, end - 300] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        copy_tree(good.path(), dir.path());
        let log = dir.path().join("db").join(log.file_name().expect("named"));
        flip(&log, at);
        match RocksStore::open(dir.path(), &FAMILIES, StoreConfig::default()) {
            Err(OpenError::Damaged { path, detail }) => {
                assert_eq!(path, log, "{detail}");
                assert!(detail.contains("damaged at byte"), "{detail}");
            }
            Err(error) => panic!("flipped at {at}: {error}"),
            Ok(store) => panic!("flipped at {at}: opened with {} of 500 rows", keys(&store).len()),
        }
        flip(&log, at);
        assert_eq!(keys(&open(dir.path())).len(), 500, "the refusal changed nothing");
    }
}

/// The rows of a store, or why it does not open. A hang fails the test.
fn opened(dir: &Path) -> Result<(usize, u64), OpenError> {
    let (done, answer) = mpsc::sync_channel(1);
    let place = dir.to_owned();
    thread::spawn(move || {
        let store = RocksStore::open(&place, &FAMILIES, StoreConfig::default());
        done.send(store.map(|store| (keys(&store).len(), store.stats().torn_bytes)))
    });
    answer.recv_timeout(OPENS_WITHIN).expect("the opening comes to its end")
}

/// Where the records of a log of one block lie.
fn records(log: &Path) -> Vec<Range<usize>> {
    let bytes = fs::read(log).expect("readable");
    assert!(bytes.len() < BLOCK_BYTES);
    let (mut records, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let ends = at + HEADER_BYTES + usize::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]));
        records.push(at..ends);
        at = ends;
    }
    records
}

/// Every file in the store's directories, with what it holds, but for RocksDB's own messages and the locks.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("readable").path();
        let name = path.file_name().expect("named").to_string_lossy().to_uppercase();
        if path.is_dir() {
            found.extend(contents(&path));
        } else if !name.starts_with("LOG") && !name.contains("LOCK") {
            let bytes = fs::read(&path).expect("readable");
            found.push((path, bytes));
        }
    }
    found.sort();
    found
}

/// Changes the log of a store with 50 rows with `fault`, and expects damage at the record of that number.
fn assert_damage(record: usize, fault: impl FnOnce(&mut [u8], &[Range<usize>])) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let log = logged(dir.path(), 50);
    let places = records(&log);
    assert_eq!(places.len(), 50);
    let whole = fs::read(&log).expect("readable");
    let mut bad = whole.clone();
    fault(&mut bad, &places);
    fs::write(&log, bad).expect("writable");
    let before = contents(dir.path());
    match opened(dir.path()) {
        Err(OpenError::Damaged { path, detail }) => {
            assert_eq!(path, log, "{detail}");
            let at = places[record].start;
            assert!(detail.contains(&format!("damaged at byte {at}; writes follow")), "{detail}");
        }
        other => panic!("rows and torn bytes: {other:?}"),
    }
    assert!(contents(dir.path()) == before, "the refusal changed nothing");
    fs::write(&log, whole).expect("writable");
    assert_eq!(opened(dir.path()).expect("sound"), (50, 0));
}

#[test]
fn a_flipped_bit_of_a_length_is_damage() {
    for bit in 0..8 {
        assert_damage(20, |log, at| log[at[20].start + 4] ^= 1 << bit);
        assert_damage(20, |log, at| log[at[20].start + 5] ^= 1 << bit);
    }
}

#[test]
fn a_header_of_zeros_is_damage() {
    assert_damage(20, |log, at| log[at[20].start..at[20].start + HEADER_BYTES].fill(0));
    assert_damage(0, |log, _| log[..HEADER_BYTES].fill(0));
}

#[test]
fn another_kind_in_the_first_record_is_damage() {
    assert_damage(0, |log, _| log[HEADER_BYTES - 1] = 5);
}

#[test]
fn another_kind_in_a_record_is_damage_and_no_endless_loop() {
    assert_damage(20, |log, at| log[at[20].start + HEADER_BYTES - 1] = 5);
}

#[test]
fn another_kind_in_the_last_record_drops_that_write_only() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let log = logged(dir.path(), 50);
    let last = records(&log).pop().expect("50 records");
    let mut bytes = fs::read(&log).expect("readable");
    bytes[last.start + HEADER_BYTES - 1] = 5;
    fs::write(&log, bytes).expect("writable");
    assert_eq!(opened(dir.path()).expect("without its last write"), (49, last.len() as u64));
    assert_eq!(opened(dir.path()).expect("sound"), (49, 0));
}

#[test]
fn blocks_of_zeros_before_other_writes_are_damage() {
    let good = tempfile::tempdir().expect("a temporary directory");
    let log = logged(good.path(), 500);
    for blocks in [0..1, 1..2, 0..2] {
        let (dir, log) = copied(good.path(), &log);
        let place = blocks.start * BLOCK_BYTES..blocks.end * BLOCK_BYTES;
        zero(&log, std::slice::from_ref(&place));
        let before = contents(dir.path());
        match opened(dir.path()) {
            Err(OpenError::Damaged { path, .. }) => assert_eq!(path, log),
            other => panic!("blocks {blocks:?}, rows and torn bytes: {other:?}"),
        }
        assert!(contents(dir.path()) == before, "the refusal changed nothing");
    }
}

/// RocksDB passes over zeros and goes on at the next block: the rows in that place would be lost without a word.
#[test]
fn zeros_before_a_whole_new_write_are_damage() {
    let written = |bytes: usize| {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = open(dir.path());
        put(&store, LEFT, key(0), vec![7; bytes]);
        let ends = fs::metadata(only_log(dir.path())).expect("it exists").len() as usize;
        (dir, store, ends)
    };
    // The first write fills a block.
    let bytes = BLOCK_BYTES - 1_000;
    let (_, _, ends) = written(bytes);
    let (dir, store, ends) = written(bytes + BLOCK_BYTES - ends);
    assert_eq!(ends, BLOCK_BYTES);
    put(&store, LEFT, key(1), value(1));
    drop(store);
    let log = only_log(dir.path());
    zero(&log, std::slice::from_ref(&(0..BLOCK_BYTES)));
    match opened(dir.path()) {
        Err(OpenError::Damaged { path, detail }) => {
            assert_eq!(path, log);
            assert!(detail.contains("damaged at byte 0; writes follow it from byte 32768"), "{detail}");
        }
        other => panic!("rows and torn bytes: {other:?}"),
    }
}

#[test]
fn room_behind_the_last_write_is_no_damage() {
    let good = tempfile::tempdir().expect("a temporary directory");
    let log = logged(good.path(), 50);
    let end = fs::metadata(&log).expect("it exists").len();
    for room in [1, HEADER_BYTES as u64, 5_000, 1 << 20] {
        let (dir, log) = copied(good.path(), &log);
        fs::File::options().write(true).open(&log).and_then(|file| file.set_len(end + room)).expect("writable");
        assert_eq!(opened(dir.path()).expect("sound"), (50, 0), "{room} bytes");
    }
}

#[test]
fn a_good_store_opens_with_its_log_as_it_was() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    logged(dir.path(), 50);
    for _ in 0..3 {
        assert_eq!(opened(dir.path()).expect("sound"), (50, 0));
    }
}

#[test]
fn a_store_with_an_empty_log_or_without_one_opens() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    logged(dir.path(), 50);
    drop(open(dir.path()));
    let empty = files(dir.path(), "log");
    assert!(empty.iter().all(|log| fs::metadata(log).expect("it exists").len() == 0), "all rows are in tables");
    assert_eq!(opened(dir.path()).expect("sound"), (50, 0));
    for log in files(dir.path(), "log") {
        fs::remove_file(log).expect("removable");
    }
    assert_eq!(opened(dir.path()).expect("sound"), (50, 0));
}

#[test]
fn the_only_write_of_a_log_may_be_torn() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let log = logged(dir.path(), 1);
    let end = fs::metadata(&log).expect("it exists").len();
    flip(&log, 50);
    assert_eq!(opened(dir.path()).expect("without it"), (0, end));
    assert_eq!(opened(dir.path()).expect("sound"), (0, 0));
}
