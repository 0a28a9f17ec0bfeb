//! Reading: the newest rows, or those of a snapshot. Damage ends in an error, never in fewer rows.

use super::Database;
use crate::{Family, Range, ReadError, Rows, Snapshot};
use rocksdb::{ColumnFamily, DB, DBRawIterator, ReadOptions};
use std::sync::Arc;

/// The newest rows.
pub(super) struct LiveView<'a>(pub(super) &'a Database);

impl LiveView<'_> {
    pub(super) fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        let db = self.0.readable(family)?;
        let handle = handle(&db, family)?;
        db.get_cf_opt(handle, key, &ReadOptions::default()).map_err(|error| self.0.read_failed(family, error))
    }

    pub(super) fn read_many(&self, family: Family, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, ReadError> {
        let db = self.0.readable(family)?;
        let handle = handle(&db, family)?;
        let values = db.batched_multi_get_cf_opt(handle, keys, keys.is_sorted(), &ReadOptions::default());
        let owned = |value: Option<rocksdb::DBPinnableSlice<'_>>| value.map(|value| value.to_vec());
        values.into_iter().map(|value| value.map(owned).map_err(|error| self.0.read_failed(family, error))).collect()
    }

    pub(super) fn scan(&self, family: Family, range: &Range) -> Result<Rows, ReadError> {
        let db = self.0.readable(family)?;
        let handle = handle(&db, family)?;
        let rows = collect(db.raw_iterator_cf_opt(handle, bounds(range)), range);
        rows.map_err(|error| self.0.read_failed(family, error))
    }

    pub(super) fn keys(&self, family: Family, range: &Range) -> Result<Vec<Vec<u8>>, ReadError> {
        let db = self.0.readable(family)?;
        let handle = handle(&db, family)?;
        let mut options = bounds(range);
        // What is asked for by its keys alone is to be deleted: it must not push out of the cache what is read.
        options.fill_cache(false);
        let keys = collect_keys(db.raw_iterator_cf_opt(handle, options), range);
        keys.map_err(|error| self.0.read_failed(family, error))
    }
}

type View<'a> = rocksdb::Snapshot<'a>;

/// What a snapshot keeps: the fields are dropped in this order.
struct SnapshotOwner {
    db: Arc<DB>,
    database: Arc<Database>,
}

self_cell::self_cell!(
    struct Pinned {
        owner: SnapshotOwner,
        #[covariant]
        dependent: View,
    }
);

/// The rows at the time of its creation; keeps the database open.
pub(super) struct FrozenView(Pinned);

impl FrozenView {
    pub(super) fn of(database: Arc<Database>) -> Box<dyn Snapshot> {
        match database.db.get() {
            Some(db) => Box::new(FrozenView(Pinned::new(SnapshotOwner { db, database }, |kept| kept.db.snapshot()))),
            None => Box::new(NoView(database)),
        }
    }
}

impl Snapshot for FrozenView {
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        let SnapshotOwner { db, database } = self.0.borrow_owner();
        database.check_readable(family)?;
        let handle = handle(db, family)?;
        self.0.borrow_dependent().get_cf(handle, key).map_err(|error| database.read_failed(family, error))
    }

    fn scan(&self, family: Family, range: Range) -> Result<Rows, ReadError> {
        let SnapshotOwner { db, database } = self.0.borrow_owner();
        database.check_readable(family)?;
        let handle = handle(db, family)?;
        let rows = collect(self.0.borrow_dependent().raw_iterator_cf_opt(handle, bounds(&range)), &range);
        rows.map_err(|error| database.read_failed(family, error))
    }
}

/// A snapshot of a database that cannot be opened again yet.
struct NoView(Arc<Database>);

impl Snapshot for NoView {
    fn read(&self, family: Family, _key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        Err(self.0.not_open(family))
    }

    fn scan(&self, family: Family, _range: Range) -> Result<Rows, ReadError> {
        Err(self.0.not_open(family))
    }
}

impl Database {
    fn check_readable(&self, family: Family) -> Result<(), ReadError> {
        if !self.families.contains(&family) {
            return Err(ReadError::UnknownFamily { family });
        }
        self.damage.check(family)
    }

    fn readable(&self, family: Family) -> Result<Arc<DB>, ReadError> {
        self.check_readable(family)?;
        self.db.get().ok_or_else(|| self.not_open(family))
    }

    fn not_open(&self, family: Family) -> ReadError {
        let detail = "it is being opened again".to_owned();
        ReadError::Io { family, dir: self.dir.clone(), detail }
    }
}

fn handle(db: &DB, family: Family) -> Result<&ColumnFamily, ReadError> {
    db.cf_handle(family.0).ok_or(ReadError::UnknownFamily { family })
}

/// Keeps the iterator inside the prefix, so that it reads no file beside it.
fn bounds(range: &Range) -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_iterate_lower_bound(range.prefix.clone());
    if let Some(end) = range.prefix_end() {
        options.set_iterate_upper_bound(end);
    }
    options
}

fn collect(mut rows: DBRawIterator<'_>, range: &Range) -> Result<Rows, rocksdb::Error> {
    seek(&mut rows, range);
    let (mut found, mut taken) = (Vec::new(), 0);
    while let Some((key, value)) = rows.item()
        && range.has_room(found.len(), taken, key.len() + value.len())
    {
        taken += key.len() + value.len();
        found.push((key.to_vec(), value.to_vec()));
        step(&mut rows, range);
    }
    rows.status()?;
    Ok(found)
}

fn collect_keys(mut rows: DBRawIterator<'_>, range: &Range) -> Result<Vec<Vec<u8>>, rocksdb::Error> {
    seek(&mut rows, range);
    let mut found = Vec::new();
    while found.len() < range.limit
        && let Some(key) = rows.key()
    {
        found.push(key.to_vec());
        step(&mut rows, range);
    }
    rows.status()?;
    Ok(found)
}

fn step(rows: &mut DBRawIterator<'_>, range: &Range) {
    if range.reverse { rows.prev() } else { rows.next() }
}

/// Moves to the first row of the scan. RocksDB itself clips a seek to the bounds.
fn seek(rows: &mut DBRawIterator<'_>, range: &Range) {
    match (&range.after, range.reverse) {
        (None, false) => rows.seek_to_first(),
        (None, true) => rows.seek_to_last(),
        (Some(after), false) => {
            rows.seek(after);
            if rows.key() == Some(after) {
                rows.next();
            }
        }
        (Some(after), true) => {
            rows.seek_for_prev(after);
            if rows.key() == Some(after) {
                rows.prev();
            }
        }
    }
}
