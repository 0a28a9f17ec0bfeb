//! Opens the database again when it takes no writes: RocksDB stays so after a failure that damaged nothing, such as a disk that
//! could not be reached for a moment, a quota that was used up, or a want of file descriptors.

use super::{Database, open, slot::DatabaseSlot};
use std::{
    fs::File,
    io::{self, Write as _},
    path::Path,
    sync::{Arc, PoisonError},
    time::Duration,
};

/// Descriptors beside those for tables that opening takes: logs, the manifest, and some for others meanwhile.
const SPARE: usize = 64;
/// The file by which the directory is tried, and its bytes.
const PROBE: &str = "probe";
const PROBE_BYTES: usize = 64 << 10;
/// The longest time between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// How long to wait after so many attempts that failed.
pub(super) fn pause_after(failures: u32) -> Duration {
    Duration::from_secs(1 << failures.min(4)).min(PAUSE_MAX)
}

impl Database {
    /// Opens the database again if it takes no writes; tells whether it takes them now. Whoever reads waits meanwhile. A snapshot
    /// keeps the old database open, and this from happening, until it is dropped.
    pub(super) fn reopen(&self) -> bool {
        let DatabaseSlot { db, config, .. } = &self.db;
        let Some(why) = self.db.why_stopped() else { return true };
        // What is closed while the disk takes nothing, or for want of descriptors, could not be opened, and is read until then.
        let needed = usize::try_from(config.open_files).unwrap_or_default() + SPARE;
        if let Err(error) = is_well(&self.dir, needed) {
            tracing::warn!(dir = %self.dir.display(), why, %error, "the store takes no writes, and cannot be opened again yet");
            return false;
        }
        let mut slot = db.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = slot.take() {
            match Arc::try_unwrap(old) {
                // It ends its threads and gives its lock back.
                Ok(old) => drop(old),
                Err(shared) => {
                    *slot = Some(shared);
                    return false;
                }
            }
        }
        match open::again(&self.dir, &self.families, config) {
            Ok(opened) => {
                *slot = Some(Arc::new(opened));
                *self.db.stopped() = None;
                tracing::warn!(dir = %self.dir.display(), why, "the store took no writes, was opened again, and takes them now");
                true
            }
            Err(error) => {
                tracing::error!(dir = %self.dir.display(), %error, "the store cannot be opened again; it is tried again");
                false
            }
        }
    }
}

/// Whether the directory takes a file, and so many files can be opened.
fn is_well(dir: &Path, many: usize) -> io::Result<()> {
    let probe = dir.join(PROBE);
    let written = File::create(&probe).and_then(|mut file| {
        file.write_all(&[0; PROBE_BYTES])?;
        file.sync_all()
    });
    // An error means that it was not created; the next attempt writes over it.
    let _ = std::fs::remove_file(&probe);
    written?;
    (0..many).map(|_| File::open(dir)).collect::<io::Result<Vec<File>>>().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, Durability, Family, ReadError, Store as _, StoreConfig, WriteError, rocks::RocksStore};

    const FAMILY: Family = Family("rows");

    fn wait<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(future)
    }

    fn put(store: &RocksStore, key: &str) -> Result<(), WriteError> {
        let mut batch = Batch::new();
        batch.put(FAMILY, key, "row");
        wait(store.write(batch, Durability::Synced))
    }

    /// The committing thread opens it before a write, or after a pause if it has tried already.
    fn put_until_opened(store: &RocksStore, key: &str) {
        while store.database.db.why_stopped().is_some() {
            put(store, key).expect("this one takes writes all the time");
        }
        put(store, key).expect("it takes writes again");
    }

    #[test]
    fn a_store_that_took_no_writes_is_opened_again_once_nobody_looks_at_the_old_one() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = RocksStore::open(dir.path(), &[FAMILY], StoreConfig::default()).expect("a new store opens");
        put(&store, "before").expect("it takes writes");
        let before = store.database.db.get().expect("it is open");
        store.database.db.stop("IO error: While open a file for appending: Too many open files");
        let (weak, snapshot) = (Arc::downgrade(&before), store.snapshot());
        drop(before);
        assert!(!store.database.reopen(), "somebody looks");
        assert_eq!(snapshot.read(FAMILY, b"before"), Ok(Some(b"row".to_vec())));
        drop(snapshot);
        put_until_opened(&store, "after");
        assert!(weak.upgrade().is_none() && store.database.db.why_stopped().is_none(), "it is another one");
        for key in ["before", "after"] {
            assert_eq!(store.read(FAMILY, key.as_bytes()), Ok(Some(b"row".to_vec())), "{key}");
        }
    }

    /// As when the file system became read-only, the quota is used up, or the disk fails.
    #[test]
    fn while_the_directory_refuses_files_what_is_there_is_read_and_then_it_is_opened_again() {
        for why in ["Read-only file system", "Disk quota exceeded", "Input/output error", "Permission denied"] {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let store = RocksStore::open(dir.path(), &[FAMILY], StoreConfig::default()).expect("a new store opens");
            put(&store, "before").expect("it takes writes");
            let weak = Arc::downgrade(&store.database.db.get().expect("it is open"));
            // No file can be made in its place, also by root.
            std::fs::create_dir(dir.path().join(PROBE)).expect("a directory");
            store.database.db.stop(&format!("IO error: While appending to file: 000004.log: {why}"));
            assert!(!store.database.reopen() && weak.upgrade().is_some(), "{why}: it is not closed");
            assert_eq!(store.read(FAMILY, b"before"), Ok(Some(b"row".to_vec())), "{why}");
            std::fs::remove_dir(dir.path().join(PROBE)).expect("it is empty");
            put_until_opened(&store, "after");
            assert!(weak.upgrade().is_none(), "{why}: it is another one");
            for key in ["before", "after"] {
                assert_eq!(store.read(FAMILY, key.as_bytes()), Ok(Some(b"row".to_vec())), "{why}: {key}");
            }
            assert!(!dir.path().join(PROBE).exists(), "{why}");
        }
    }

    #[test]
    fn attempts_are_made_at_longer_and_longer_times() {
        let pauses: Vec<u64> = (0..7).map(|failures| pause_after(failures).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 15, 15, 15]);
        assert_eq!(pause_after(u32::MAX), PAUSE_MAX);
    }

    #[test]
    fn what_is_damaged_is_not_opened_again() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = RocksStore::open(dir.path(), &[FAMILY], StoreConfig::default()).expect("a new store opens");
        store.database.db.stop("Corruption: block checksum mismatch");
        assert_eq!(store.database.db.why_stopped(), None);
    }

    #[test]
    fn while_it_cannot_be_opened_reads_fail_and_damage_nothing() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = RocksStore::open(dir.path(), &[FAMILY], StoreConfig::default()).expect("a new store opens");
        put(&store, "before").expect("it takes writes");
        drop(store.database.db.db.write().expect("no holder panics").take());
        store.database.db.stop("IO error: Too many open files");
        assert!(matches!(store.read(FAMILY, b"before"), Err(ReadError::Io { .. })));
        assert!(matches!(store.snapshot().read(FAMILY, b"before"), Err(ReadError::Io { .. })));
        assert!(matches!(put(&store, "meanwhile"), Err(WriteError::Stopped { .. }) | Ok(())));
        put(&store, "after").expect("it is open again");
        assert_eq!(store.read(FAMILY, b"before"), Ok(Some(b"row".to_vec())));
    }
}
