//! The stopped families, and the mapping of RocksDB's errors.

use super::Database;
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
        if !is_damage(&detail) {
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
        self.db.stop(&detail);
        if let Some(family) = self.db.get().and_then(|db| family_of_file(&db, &detail)) {
            detail = format!("column family \"{family}\": {detail}");
        }
        tracing::error!(dir = %self.dir.display(), detail, "the store refuses writes");
        WriteError::Stopped { dir: self.dir.clone(), detail }
    }
}

/// Whether a message of RocksDB reports damaged bytes. A missing file is damage too.
pub(super) fn is_damage(message: &str) -> bool {
    Cause::of(message) == Cause::Damage
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
