//! What several test files need.
use althing_store::{Batch, Durability, Family, Range, RocksStore, Store, StoreConfig, WriteError};
use std::{
    fs,
    path::{Path, PathBuf},
};

pub const LEFT: Family = Family("left");
pub const RIGHT: Family = Family("right");
pub const FAMILIES: [Family; 2] = [LEFT, RIGHT];

/// The variable that tells a test binary it is the child, and where its store is.
pub const CHILD: &str = "ALTHING_STORE_TEST_CHILD";

pub fn open(dir: &Path) -> RocksStore {
    RocksStore::open(dir, &FAMILIES, StoreConfig::default()).expect("a sound store opens")
}

pub fn wait<T>(future: impl Future<Output = T>) -> T {
    futures::executor::block_on(future)
}

pub fn put(store: &dyn Store, family: Family, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
    try_put(store, family, key, value).expect("the write succeeds");
}

pub fn try_put(
    store: &dyn Store,
    family: Family,
    key: impl Into<Vec<u8>>,
    value: impl Into<Vec<u8>>,
) -> Result<(), WriteError> {
    let mut batch = Batch::new();
    batch.put(family, key, value);
    wait(store.write(batch, Durability::Synced))
}

pub fn key(number: u32) -> Vec<u8> {
    format!("key-{number:06}").into_bytes()
}

/// A value that compression cannot shrink and that tells which row it belongs to.
pub fn value(number: u32) -> Vec<u8> {
    let mut word = u64::from(number) + 1;
    let mut value = number.to_be_bytes().to_vec();
    for _ in 0..24 {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        value.extend(word.to_be_bytes());
    }
    value
}

/// The files in the store's database with this extension, oldest first.
pub fn files(store: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(store.join("db"))
        .expect("the database is a directory")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}

pub fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).expect("readable");
    bytes[at] ^= 0x20;
    fs::write(file, bytes).expect("writable");
}

pub fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("writable");
    for entry in fs::read_dir(from).expect("a directory") {
        let path = entry.expect("readable").path();
        let target = to.join(path.file_name().expect("entries have names"));
        if path.is_dir() {
            copy_tree(&path, &target);
        } else {
            fs::copy(&path, &target).expect("copied");
        }
    }
}

/// A store whose write-ahead log holds `rows`; returns the log's only file.
pub fn logged(dir: &Path, rows: u32) -> PathBuf {
    let store = open(dir);
    for number in 0..rows {
        put(&store, LEFT, key(number), value(number));
    }
    drop(store);
    only_log(dir)
}

pub fn only_log(dir: &Path) -> PathBuf {
    let mut logs = files(dir, "log");
    logs.retain(|log| fs::metadata(log).expect("it exists").len() > 0);
    assert_eq!(logs.len(), 1, "one log holds everything: {logs:?}");
    logs.remove(0)
}

/// A copy of a store, and the path of one of its files in it.
pub fn copied(good: &Path, file: &Path) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    copy_tree(good, dir.path());
    let file = dir.path().join("db").join(file.file_name().expect("named"));
    (dir, file)
}

pub fn keys(store: &RocksStore) -> Vec<Vec<u8>> {
    store.scan(LEFT, Range::all(usize::MAX)).expect("the scan succeeds").into_iter().map(|(key, _)| key).collect()
}
