//! Crashes, and bit-rot in tables, on real files: what was acknowledged is there, and damage is said. The write-ahead
//! log has a file of its own, `log_faults`.

use crate::support::{
    CHILD, FAMILIES, LEFT, RIGHT, copy_tree, files, flip, key, logged, open, put, try_put, value, wait,
};
use althing_store::{Batch, Durability, OpenError, Range, ReadError, RocksStore, Store, StoreConfig, WriteError};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Not a test: the process that `rows_acknowledged_before_kill_9_are_there` kills.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Some(dir) = std::env::var_os(CHILD) else { return };
    let store = open(Path::new(&dir));
    std::thread::scope(|scope| {
        for writer in 0..4u32 {
            let store = &store;
            scope.spawn(move || {
                for number in (writer..).step_by(4) {
                    let mut batch = Batch::new();
                    batch.put(LEFT, key(number), value(number)).put(RIGHT, key(number), value(number));
                    // Of each writer every other one: both survive the process.
                    let durability = if number % 8 < 4 { Durability::Synced } else { Durability::Buffered };
                    wait(store.write(batch, durability)).expect("the write succeeds");
                    let line = format!("\nacknowledged {number}\n");
                    std::io::stdout().write_all(line.as_bytes()).expect("the parent reads");
                }
            });
        }
    });
}

#[test]
fn rows_acknowledged_before_kill_9_are_there() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut acknowledged = Vec::new();
    // The second child finds the store as the first one left it.
    for enough in [300, 700] {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "faults::child_that_writes_until_it_is_killed", "--nocapture"])
            .env(CHILD, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this test runs again");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        for line in lines.map_while(Result::ok) {
            let Some(number) = line.strip_prefix("acknowledged ") else { continue };
            acknowledged.push(number.parse::<u32>().expect("a whole line"));
            if acknowledged.len() == enough {
                child.kill().expect("SIGKILL");
            }
        }
        child.wait().expect("it is dead");
    }
    assert!(acknowledged.len() >= 700);
    let store = open(dir.path());
    for number in &acknowledged {
        for family in FAMILIES {
            assert_eq!(store.read(family, &key(*number)), Ok(Some(value(*number))), "row {number} of {family}");
        }
    }
    // Batches whole or not at all, also those that were never acknowledged.
    let [left, right] = FAMILIES.map(|family| store.scan(family, Range::all(usize::MAX)).expect("the scan succeeds"));
    assert_eq!(left, right);
}

/// A store with one table file in `LEFT` that holds `rows`, and one in `RIGHT`.
fn tabled(dir: &Path, rows: u32) -> PathBuf {
    logged(dir, rows);
    let before = files(dir, "sst");
    // Opening replays the log and writes tables.
    drop(open(dir));
    let table = files(dir, "sst").into_iter().find(|file| !before.contains(file)).expect("a new table");
    let store = open(dir);
    put(&store, RIGHT, "sound", "value");
    drop(store);
    drop(open(dir));
    table
}

#[test]
fn flipped_bytes_in_a_table_are_said_and_no_row_is_skipped() {
    const ROWS: u32 = 300;
    let good = tempfile::tempdir().expect("a temporary directory");
    let table = tabled(good.path(), ROWS);
    let end = fs::metadata(&table).expect("it exists").len() as usize;
    let (mut found, mut scanned) = (0, 0);
    for at in (0..24).map(|part| part * end / 24 + 11).chain([end - 1, end - 30]) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        copy_tree(good.path(), dir.path());
        flip(&dir.path().join("db").join(table.file_name().expect("named")), at);
        match RocksStore::open(dir.path(), &FAMILIES, StoreConfig::default()) {
            Ok(store) => {
                found += u32::from(meets_damage(&store, ROWS));
                drop(store);
                // A family that nothing has stopped yet: the scan itself must meet the damage.
                scanned += u32::from(scan_meets_damage(&open(dir.path()), ROWS));
            }
            Err(OpenError::Damaged { detail, .. }) => {
                found += 1;
                assert!(detail.contains("sst"), "{detail}");
            }
            Err(error) => panic!("flipped at {at}: {error}"),
        }
    }
    assert!(found >= 20, "of 26 flipped bytes {found} were met");
    assert!(scanned >= 15, "of 26 flipped bytes scans met {scanned}");
}

/// Reads every row: each is right or an error. Returns whether damage was met.
fn meets_damage(store: &RocksStore, rows: u32) -> bool {
    for number in 0..rows {
        match store.read(LEFT, &key(number)) {
            Ok(found) => assert_eq!(found, Some(value(number)), "row {number}"),
            Err(error) => {
                stays_stopped(store, &error);
                return true;
            }
        }
    }
    scan_meets_damage(store, rows)
}

/// Scans every row in both directions: all are there, or it is an error. Returns whether damage was met.
fn scan_meets_damage(store: &RocksStore, rows: u32) -> bool {
    for range in [Range::all(usize::MAX), Range::all(usize::MAX).reversed()] {
        match store.scan(LEFT, range) {
            Ok(found) => assert_eq!(found.len(), rows as usize),
            Err(error) => {
                stays_stopped(store, &error);
                return true;
            }
        }
    }
    false
}

/// The family answers everything with the error that stopped it; the other family goes on.
fn stays_stopped(store: &RocksStore, error: &ReadError) {
    let ReadError::Damaged { family, detail, .. } = error else { panic!("not the typed error: {error}") };
    assert_eq!(*family, LEFT);
    assert!(detail.contains(".sst"), "it names the file: {detail}");
    assert!(error.to_string().contains("column family \"left\""), "{error}");
    for number in [0, 150, 299, 5_000] {
        assert_eq!(store.read(LEFT, &key(number)).as_ref(), Err(error));
    }
    assert_eq!(store.scan(LEFT, Range::all(1)).as_ref(), Err(error));
    assert_eq!(store.snapshot().read(LEFT, &key(0)).as_ref(), Err(error));
    assert!(matches!(try_put(store, LEFT, "new", "row"), Err(WriteError::Damaged { family: LEFT, .. })));
    assert_eq!(store.read(RIGHT, b"sound"), Ok(Some(b"value".to_vec())));
    put(store, RIGHT, "new", "row");
    assert_eq!(store.read(RIGHT, b"new"), Ok(Some(b"row".to_vec())));
}

#[test]
fn a_table_that_is_cut_or_gone_is_damage() {
    let good = tempfile::tempdir().expect("a temporary directory");
    let table = tabled(good.path(), 300);
    let bytes = fs::read(&table).expect("readable");
    for left in [None, Some(bytes.len() / 2)] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        copy_tree(good.path(), dir.path());
        let table = dir.path().join("db").join(table.file_name().expect("named"));
        match left {
            None => fs::remove_file(&table).expect("removable"),
            Some(left) => fs::write(&table, &bytes[..left]).expect("writable"),
        }
        match RocksStore::open(dir.path(), &FAMILIES, StoreConfig::default()) {
            Err(OpenError::Damaged { .. }) => {}
            Err(error) => panic!("{error}"),
            Ok(store) => assert!(meets_damage(&store, 300)),
        }
    }
}

#[test]
fn a_batch_with_one_row_in_a_damaged_family_is_refused_whole_wherever_that_row_stands() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let table = tabled(dir.path(), 300);
    let middle = fs::metadata(&table).expect("it exists").len() / 2;
    flip(&table, usize::try_from(middle).expect("a small file"));
    let store = open(dir.path());
    assert!(store.scan(LEFT, Range::all(usize::MAX)).is_err(), "the scan meets the damage");
    let (mut first, mut last, mut deleted) = (Batch::new(), Batch::new(), Batch::new());
    first.put(LEFT, "new", "row").put(RIGHT, "new", "row");
    last.put(RIGHT, "new", "row").put(LEFT, "new", "row");
    deleted.delete(RIGHT, "sound").delete(LEFT, key(0));
    for batch in [first, last, deleted] {
        let refused = wait(store.write(batch, Durability::Synced));
        assert!(matches!(refused, Err(WriteError::Damaged { family: LEFT, .. })), "{refused:?}");
        let rows = store.scan(RIGHT, Range::all(9)).expect("the other family goes on");
        assert_eq!(rows, [(b"sound".to_vec(), b"value".to_vec())], "nothing of the batch was done");
    }
}
