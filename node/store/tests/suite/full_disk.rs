//! A disk that fills up: a small tmpfs in a mount namespace of its own, which vanishes with the process.

use crate::support::{CHILD, FAMILIES, LEFT, copy_tree, key, open, try_put, wait};
use althing_store::{Batch, Durability, Range, RocksStore, Store, StoreConfig, WriteError};
use althing_testing::{remedy, skip};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// RocksDB looks for free space every 5 s; the rest is for a slow machine.
const RESUMES_WITHIN: Duration = Duration::from_secs(60);
/// Nothing tells when RocksDB has looked.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const DISK_BYTES: u64 = 48 << 20;

/// Runs the ignored test `name` again in namespaces where it may mount.
fn in_namespace(name: &str) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let unshare = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "--"]).args(args).env(CHILD, dir.path());
        command.output()
    };
    let probe = dir.path().to_str().expect("a plain name");
    match unshare(&["mount", "-t", "tmpfs", "tmpfs", probe]) {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            return skip(&format!("this user may not mount: {}", why.trim()), remedy::ROOT);
        }
        Err(error) => {
            return skip(&format!("there is no `unshare`: {error}"), "apt-get install util-linux");
        }
    }
    let this = std::env::current_exe().expect("this test");
    let this = this.to_str().expect("a plain name");
    let output =
        unshare(&[this, "--exact", &format!("full_disk::{name}"), "--ignored", "--nocapture"]).expect("it ran before");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// In the namespace: the directory, with a small disk mounted on it. `None` when nobody asked for it.
fn small_disk() -> Option<PathBuf> {
    let dir = PathBuf::from(std::env::var_os(CHILD)?);
    let size = format!("size={DISK_BYTES}");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&dir).status();
    assert!(mounted.expect("it ran before").success());
    Some(dir)
}

fn fill(disk: &Path, leave_bytes: u64) -> PathBuf {
    let facts = nix::sys::statvfs::statvfs(disk).expect("it is mounted");
    let free = facts.blocks_available() * facts.fragment_size();
    let ballast = disk.join("ballast");
    let bytes = usize::try_from(free.saturating_sub(leave_bytes)).expect("a small disk");
    fs::write(&ballast, vec![7; bytes]).expect("there is room");
    ballast
}

/// Writes rows until one is refused; returns how many were acknowledged, and the refusal.
fn write_until_refused(store: &RocksStore) -> (u32, WriteError) {
    for number in 0..10_000 {
        if let Err(error) = try_put(store, LEFT, key(number), vec![number as u8; 8 << 10]) {
            return (number, error);
        }
    }
    panic!("80 MB went onto a disk of {DISK_BYTES} bytes");
}

fn assert_full(error: &WriteError, dir: &Path) {
    assert!(matches!(error, WriteError::Full { path, .. } if path == dir), "{error}");
    assert!(error.to_string().contains("MiB free"), "{error}");
}

#[test]
fn a_write_beyond_the_reserve_is_refused_and_the_next_one_succeeds_when_space_is_freed() {
    in_namespace("child_reserve");
}

#[test]
fn a_disk_that_is_full_to_the_last_byte_loses_nothing_and_writes_resume() {
    in_namespace("child_last_byte");
}

#[test]
fn below_the_reserve_a_batch_that_also_takes_rows_away_may_put_none() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    try_put(&open(dir.path()), LEFT, "old", "row").expect("there is room");
    // No disk has so much left.
    let config = StoreConfig { reserve_bytes: u64::MAX, ..StoreConfig::default() };
    let store = RocksStore::open(dir.path(), &FAMILIES, config).expect("a sound store opens");
    let old = (b"old".to_vec(), b"row".to_vec());
    let (mut first, mut last) = (Batch::new(), Batch::new());
    first.delete(LEFT, "old").put(LEFT, "new", "row");
    last.put(LEFT, "new", "row").delete(LEFT, "old");
    for batch in [first, last] {
        let refused = wait(store.write(batch, Durability::Synced)).expect_err("it would take room");
        assert_full(&refused, dir.path());
        assert_eq!(
            store.scan(LEFT, Range::all(9)).expect("readable"),
            std::slice::from_ref(&old),
            "nothing of it was done"
        );
    }
    let mut trim = Batch::new();
    trim.delete(LEFT, "old");
    wait(store.write(trim, Durability::Synced)).expect("what only deletes passes");
    assert_eq!(store.scan(LEFT, Range::all(9)).expect("readable"), []);
}

#[test]
#[ignore = "runs in a namespace of its own, started by the test above"]
fn child_reserve() {
    let Some(disk) = small_disk() else { return };
    let dir = disk.join("store");
    let store = RocksStore::open(&dir, &FAMILIES, StoreConfig::default()).expect("there is room");
    let ballast = fill(&disk, 20 << 20);
    let (rows, error) = write_until_refused(&store);
    assert_full(&error, &dir);
    assert!(matches!(error, WriteError::Full { free_bytes, reserve_bytes, .. } if free_bytes < reserve_bytes));
    assert!(rows > 0);
    let mut trim = Batch::new();
    trim.delete(LEFT, key(0));
    wait(store.write(trim, Durability::Synced)).expect("what only deletes still passes");
    fs::remove_file(ballast).expect("removable");
    try_put(&store, LEFT, "after", "space was freed").expect("at once: RocksDB never met the full disk");
    assert_eq!(store.scan(LEFT, Range::all(usize::MAX)).expect("readable").len(), rows as usize);
}

#[test]
#[ignore = "runs in a namespace of its own, started by the test above"]
fn child_last_byte() {
    let Some(disk) = small_disk() else { return };
    let dir = disk.join("store");
    let config = StoreConfig { reserve_bytes: 0, ..StoreConfig::default() };
    let store = RocksStore::open(&dir, &FAMILIES, config.clone()).expect("there is room");
    let ballast = fill(&disk, 2 << 20);
    let (rows, error) = write_until_refused(&store);
    assert_full(&error, &dir);
    for number in 0..rows {
        assert!(store.read(LEFT, &key(number)).expect("reads go on").is_some());
    }
    assert_full(&try_put(&store, LEFT, "again", "refused").expect_err("still full"), &dir);
    fs::remove_file(ballast).expect("removable");
    let resumed = async {
        let mut batch = Batch::new();
        batch.put(LEFT, "after", "space was freed");
        while let Err(error) = store.write(batch.clone(), Durability::Synced).await {
            assert_full(&error, &dir);
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let clock = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    clock.block_on(async { tokio::time::timeout(RESUMES_WITHIN, resumed).await }).expect("writes resume");
    // As a process that is killed now leaves it: the write that found no room may lie half in a log.
    let killed = disk.join("killed");
    copy_tree(&dir, &killed);
    drop(store);
    for dir in [killed, dir] {
        let store = RocksStore::open(&dir, &FAMILIES, config.clone()).expect("a sound store opens");
        for number in 0..rows {
            assert!(store.read(LEFT, &key(number)).expect("readable").is_some(), "row {number} of {rows}");
        }
        assert!(store.read(LEFT, b"after").expect("readable").is_some());
    }
}
