//! Takes what was deleted out of the files: RocksDB leaves it in the write-ahead log until everything in that log is in
//! tables, and in tables until they are merged.

use super::Database;
use crate::port::Range;
use crate::{Family, WriteError};
use rocksdb::{BottommostLevelCompaction, CompactOptions, DB, FlushOptions};

impl Database {
    /// Merges all tables that hold rows with these prefixes. Blocks for as long as that takes.
    pub(super) fn scrub(&self, rows: &[(Family, Vec<u8>)], reserve_bytes: u64) -> Result<(), WriteError> {
        for (family, _) in rows {
            if self.damage.check(*family).is_err() {
                return Err(WriteError::Damaged { family: *family, dir: self.dir.clone() });
            }
        }
        let failed = |error| self.write_failed(error, reserve_bytes);
        let db = self.db.get().ok_or_else(|| self.not_writable())?;
        // All families: a log goes when nothing in it is needed any more.
        let mut flush = FlushOptions::default();
        flush.set_wait(true);
        for family in &self.families {
            if let Some(handle) = db.cf_handle(family.0) {
                db.flush_cf_opt(handle, &flush).map_err(failed)?;
            }
        }
        let errors = background_errors(&db);
        let mut merge = CompactOptions::default();
        merge.set_exclusive_manual_compaction(false);
        merge.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        for (family, prefix) in rows {
            let Some(handle) = db.cf_handle(family.0) else {
                return Err(WriteError::UnknownFamily { family: *family });
            };
            let end = Range::prefix(prefix.clone(), 0).prefix_end();
            db.compact_range_cf_opt(handle, Some(prefix), end.as_ref(), &merge);
        }
        // Merging gives no result of its own.
        if background_errors(&db) > errors {
            let detail = "tables could not be merged".to_owned();
            return Err(WriteError::Stopped { dir: self.dir.clone(), detail });
        }
        // Files that nothing needs any more are deleted here, and not whenever there is time.
        db.disable_file_deletions().map_err(failed)?;
        db.enable_file_deletions().map_err(failed)
    }
}

fn background_errors(db: &DB) -> u64 {
    db.property_int_value(rocksdb::properties::BACKGROUND_ERRORS).ok().flatten().unwrap_or_default()
}
