//! The stopped families, and the mapping of RocksDB's errors.

use super::{DATABASE, Database};
use crate::{Cause, Family, ReadError, WriteError};
use rocksdb::{DB, Error};
use std::{
    collections::BTreeMap,
    io,
    path::Path,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// How files of tables end, and the file that each database has.
const TABLE: &str = ".sst";
const CURRENT: &str = "CURRENT";

/// The families that a read has found damaged, each with the error of that read.
#[derive(Default)]
pub(super) struct Damage {
    /// Avoids a lock on every read of a healthy store.
    any: AtomicBool,
    stopped: RwLock<BTreeMap<Family, ReadError>>,
}

impl Damage {
    /// Fails with the error that stopped the family, when one has.
    pub(super) fn check(&self, family: Family) -> Result<(), ReadError> {
        if !self.any.load(Ordering::Acquire) {
            return Ok(());
        }
        let stopped = self.stopped.read().unwrap_or_else(PoisonError::into_inner);
        stopped.get(&family).map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Stops the family; the first error stays.
    fn stop(&self, family: Family, error: ReadError) -> ReadError {
        let mut stopped = self.stopped.write().unwrap_or_else(PoisonError::into_inner);
        let first = stopped.entry(family).or_insert(error).clone();
        self.any.store(true, Ordering::Release);
        first
    }
}

impl Database {
    /// Maps the error of a read. Damage stops the family.
    pub(super) fn read_failed(&self, family: Family, error: Error) -> ReadError {
        let detail = error.into_string();
        if !is_damage(&detail) && !is_lost(&self.dir, &detail) {
            return ReadError::Io { family, dir: self.dir.clone(), detail };
        }
        tracing::error!(%family, dir = %self.dir.display(), detail, "the store is damaged; the column family is stopped");
        // Merging files would meet the same damage, and RocksDB then refuses writes to every family.
        if let Some(db) = self.db.get()
            && let Some(handle) = db.cf_handle(family.0)
            && let Err(error) = db.set_options_cf(handle, &[("disable_auto_compactions", "true")])
        {
            tracing::warn!(%family, %error, "files of the damaged column family are still merged");
        }
        self.damage.stop(family, ReadError::Damaged { family, dir: self.dir.clone(), detail })
    }

    /// Why nothing can be written while the database cannot be opened again.
    pub(super) fn not_writable(&self) -> WriteError {
        WriteError::Stopped { dir: self.dir.clone(), detail: "it is being opened again".to_owned() }
    }

    /// Maps the error of a commit.
    pub(super) fn write_failed(&self, error: Error, reserve_bytes: u64) -> WriteError {
        let mut detail = error.into_string();
        if is_full(&detail) {
            // From a full disk RocksDB recovers by itself, but not from a quota.
            if Cause::of(&detail) == Cause::Quota {
                self.db.stop(&detail);
            }
            let free_bytes = free_bytes(&self.dir).unwrap_or_default();
            return WriteError::Full { path: self.dir.clone(), free_bytes, reserve_bytes };
        }
        // What is lost is not there either when it is opened again.
        if !is_lost(&self.dir, &detail) {
            self.db.stop(&detail);
        }
        if let Some(family) = self.db.get().and_then(|db| family_of_file(&db, &detail)) {
            detail = format!("column family \"{family}\": {detail}");
        }
        tracing::error!(dir = %self.dir.display(), detail, "the store refuses writes");
        WriteError::Stopped { dir: self.dir.clone(), detail }
    }
}

/// Whether a message of RocksDB reports damaged bytes.
pub(super) fn is_damage(message: &str) -> bool {
    Cause::of(message) == Cause::Damage
}

/// Whether a message of RocksDB reports that something is not there.
pub(super) fn is_missing(message: &str) -> bool {
    Cause::of(message) == Cause::Missing
}

/// Whether a message reports a file of tables that is not there while the rest of the database in `dir` is: that is damage. Where all
/// is gone, its volume may come back.
fn is_lost(dir: &Path, message: &str) -> bool {
    let database = dir.join(DATABASE);
    let table = message.split(['/', ' ', ':', '"']).find(|word| word.ends_with(TABLE));
    is_missing(message) && table.is_some_and(|table| !database.join(table).exists() && database.join(CURRENT).exists())
}

/// Whether a message of RocksDB reports a full disk or an exhausted quota.
pub(super) fn is_full(message: &str) -> bool {
    matches!(Cause::of(message), Cause::Full | Cause::Quota)
}

/// Bytes that this user may still write to the file system of `dir`.
///
/// # Errors
/// The file system does not tell.
pub fn free_bytes(dir: &Path) -> io::Result<u64> {
    let facts = nix::sys::statvfs::statvfs(dir)?;
    // The types of these fields differ between systems.
    #[allow(clippy::unnecessary_cast)]
    Ok(facts.blocks_available() as u64 * facts.fragment_size() as u64)
}

/// The family whose table file a message names.
fn family_of_file(db: &DB, message: &str) -> Option<String> {
    let files = db.live_files().ok()?;
    files
        .into_iter()
        .find(|file| message.contains(file.name.trim_start_matches('/')))
        .map(|file| file.column_family_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_gone_is_lost_and_what_is_gone_with_its_volume_is_not() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let database = dir.path().join(DATABASE);
        let missing = |name: &str| {
            let path = database.join(name);
            format!("IO error: While open a file for random read: {}: No such file or directory", path.display())
        };
        assert!(!is_lost(dir.path(), &missing("000012.sst")), "the volume is not there");
        std::fs::create_dir(&database).expect("a directory");
        assert!(!is_lost(dir.path(), &missing("000012.sst")), "nor is it now");
        for name in [CURRENT, "000013.sst"] {
            std::fs::write(database.join(name), "x").expect("a file");
        }
        assert!(is_lost(dir.path(), &missing("000012.sst")));
        assert!(!is_lost(dir.path(), &missing("000013.sst")), "it came back");
        assert!(!is_lost(dir.path(), &missing("000014.log")), "a file that was to be made");
        assert!(!is_lost(dir.path(), "IO error: 000012.sst: Input/output error"));
    }
}
