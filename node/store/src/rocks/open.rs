//! Opening: lock, format, then RocksDB, with every bound set.

use super::{
    DATABASE, Database,
    damage::{Damage, free_bytes, is_damage, is_full, is_missing},
    slot::DatabaseSlot,
    wal::{self, Tail},
};
use crate::{
    Family, OpenError, StoreConfig,
    durable::create_dirs,
    format::{self, State},
    lock::StoreLock,
};
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompressionType, DBRecoveryMode, LogLevel, Options,
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Bytes of one of RocksDB's own log files, and how many are kept.
const INFO_LOG_BYTES: usize = 256 << 10;
const INFO_LOGS: usize = 2;
/// Bytes of the manifest before it is rewritten (RocksDB's default is 1 GiB).
const MANIFEST_BYTES: usize = 1 << 20;
/// Bytes a write buffer grows by.
const ARENA_BYTES: usize = 128 << 10;

/// Opens or creates the store in `dir`.
pub(super) fn open(dir: &Path, families: &[Family], config: &StoreConfig) -> Result<Database, OpenError> {
    create_dirs(dir).map_err(|source| OpenError::Io { doing: "create the directory", path: dir.to_owned(), source })?;
    let lock = StoreLock::acquire(dir)?;
    let place = Place { dir, database: dir.join(DATABASE) };
    let state = format::check(dir, &place.database)?;
    let families: BTreeSet<Family> = families.iter().copied().collect();
    let (db, torn_bytes) = place.open(state, &families, config)?;
    if state == State::Creating {
        format::mark(dir, State::Ready)?;
    }
    let db = DatabaseSlot::of(db, config);
    Ok(Database { db, families, damage: Damage::default(), dir: dir.to_owned(), torn_bytes, _lock: lock })
}

/// Opens the database of a store whose lock is held, and which was open before.
pub(super) fn again(dir: &Path, families: &BTreeSet<Family>, config: &StoreConfig) -> Result<DB, OpenError> {
    let place = Place { dir, database: dir.join(DATABASE) };
    place.open(State::Ready, families, config).map(|(db, _)| db)
}

struct Place<'a> {
    dir: &'a Path,
    database: PathBuf,
}

impl Place<'_> {
    /// The database, and how many bytes of a torn last write were dropped.
    fn open(&self, state: State, families: &BTreeSet<Family>, config: &StoreConfig) -> Result<(DB, u64), OpenError> {
        let mut options = database_options(config);
        options.create_if_missing(state == State::Creating);
        let names = self.names(state, families, &options)?;
        let torn_bytes = self.mend_log()?;
        let cache = Cache::new_lru_cache(config.cache_bytes);
        let family = |name: &String| ColumnFamilyDescriptor::new(name, family_options(config, &cache));
        DB::open_cf_descriptors(&options, &self.database, names.iter().map(family))
            .map(|db| (db, torn_bytes))
            .map_err(|error| self.failed(error.into_string()))
    }

    /// Refuses a damaged write-ahead log, and cuts off a torn last write; returns how many bytes that was.
    fn mend_log(&self) -> Result<u64, OpenError> {
        match wal::inspect(&self.database).map_err(|source| self.io("read", source))? {
            Tail::Sound => Ok(0),
            Tail::Damaged { path, detail } => Err(OpenError::Damaged { path, detail }),
            Tail::Torn { path, offset, bytes } => {
                tracing::warn!(path = %path.display(), bytes, "the last write to the store was torn and is dropped");
                wal::cut(&path, offset).map_err(|source| OpenError::Io { doing: "shorten", path, source })?;
                Ok(bytes)
            }
        }
    }

    /// The families to open: those asked for and those on disk, since RocksDB insists on all of them.
    fn names(
        &self,
        state: State,
        families: &BTreeSet<Family>,
        options: &Options,
    ) -> Result<BTreeSet<String>, OpenError> {
        let mut names: BTreeSet<String> = families.iter().map(|family| family.0.to_owned()).collect();
        names.insert(rocksdb::DEFAULT_COLUMN_FAMILY_NAME.to_owned());
        match DB::list_cf(options, &self.database) {
            Ok(found) => names.extend(found),
            // An interrupted first opening may have left parts of an empty database.
            Err(_) if state == State::Creating => {}
            Err(error) => return Err(self.failed(error.into_string())),
        }
        Ok(names)
    }

    fn failed(&self, message: String) -> OpenError {
        if is_full(&message) {
            let free_bytes = free_bytes(self.dir).unwrap_or_default();
            return OpenError::Full { path: self.dir.to_owned(), free_bytes };
        }
        // "Invalid argument: … does not exist (create_if_missing is false)": the database of a finished store is gone.
        if is_damage(&message) || is_missing(&message) || message.contains("does not exist") {
            return OpenError::Damaged { path: self.database.clone(), detail: message };
        }
        self.io("open", std::io::Error::other(message))
    }

    fn io(&self, doing: &'static str, source: std::io::Error) -> OpenError {
        OpenError::Io { doing, path: self.database.clone(), source }
    }
}

fn database_options(config: &StoreConfig) -> Options {
    let mut options = Options::default();
    options.create_missing_column_families(true);
    // The log was checked before; the default mode (point in time) would silently skip damage.
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    options.set_paranoid_checks(true);
    options.set_db_write_buffer_size(config.write_buffers_bytes);
    options.set_max_total_wal_size(config.wal_bytes);
    options.set_max_open_files(config.open_files);
    options.set_max_background_jobs(config.background_threads);
    options.set_max_file_opening_threads(1);
    options.set_max_manifest_file_size(MANIFEST_BYTES);
    options.set_max_log_file_size(INFO_LOG_BYTES);
    options.set_keep_log_file_num(INFO_LOGS);
    options.set_log_level(LogLevel::Warn);
    options.set_stats_dump_period_sec(0);
    options.set_stats_persist_period_sec(0);
    options
}

fn family_options(config: &StoreConfig, cache: &Cache) -> Options {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(cache);
    table.set_cache_index_and_filter_blocks(true);
    table.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.set_block_based_table_factory(&table);
    options.set_write_buffer_size(config.write_buffer_bytes);
    options.set_max_write_buffer_number(2);
    options.set_arena_block_size(ARENA_BYTES);
    options.set_compression_type(DBCompressionType::Lz4);
    options
}
