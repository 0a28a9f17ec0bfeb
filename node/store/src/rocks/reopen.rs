//! Opens the database again when it takes no writes: RocksDB stays so after a failure that damaged nothing, such as a want of
//! file descriptors that has passed.

use super::{Database, open, slot::DatabaseSlot};
use std::{
    fs::File,
    path::Path,
    sync::{Arc, PoisonError},
};

/// Descriptors beside those for tables that opening takes: logs, the manifest, and some for others meanwhile.
const SPARE: usize = 64;

impl Database {
    /// Opens the database again if it takes no writes; tells whether it takes them now. Whoever reads waits meanwhile. A snapshot
    /// keeps the old database open, and this from happening, until it is dropped.
    pub(super) fn reopen(&self) -> bool {
        let DatabaseSlot { db, config, .. } = &self.db;
        let Some(why) = self.db.why_stopped() else { return true };
        // What is closed for want of descriptors could not be opened.
        let needed = usize::try_from(config.open_files).unwrap_or_default() + SPARE;
        if !has_descriptors(&self.dir, needed) {
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

/// Whether so many files can be opened.
fn has_descriptors(dir: &Path, many: usize) -> bool {
    (0..many).map(|_| File::open(dir)).collect::<Result<Vec<File>, _>>().is_ok()
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
        // The committing thread does it before the next write, if not by itself already.
        put(&store, "after").expect("it takes writes again");
        assert!(weak.upgrade().is_none() && store.database.db.why_stopped().is_none(), "it is another one");
        for key in ["before", "after"] {
            assert_eq!(store.read(FAMILY, key.as_bytes()), Ok(Some(b"row".to_vec())), "{key}");
        }
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
