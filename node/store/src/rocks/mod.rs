//! The store on disk. `open` finds and checks it, `view` reads, `commit` writes, `damage` remembers what is stopped, `reopen`
//! opens it again after a failure that damaged nothing, `wal` tells a torn last write from damage in the write-ahead log.

mod commit;
mod damage;
mod open;
mod reopen;
mod scrub;
mod slot;
mod view;
mod wal;

use crate::{
    Batch, Durability, Family, OpenError, Range, ReadError, Rows, Snapshot, Store, StoreConfig, WriteError,
    lock::StoreLock,
};
use commit::Queue;
use damage::Damage;
pub use damage::free_bytes;
use futures::future::BoxFuture;
use slot::DatabaseSlot;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};
use tokio::sync::oneshot;
use view::{FrozenView, LiveView};

/// RocksDB has a lock file of its own, so it gets a directory of its own.
const DATABASE: &str = "db";

/// A store on disk. Dropping it commits what has been queued; the directory is free again once its snapshots are
/// dropped too.
pub struct RocksStore {
    database: Arc<Database>,
    queue: Arc<Queue>,
    committer: Option<JoinHandle<()>>,
}

/// What has happened since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Batches applied.
    pub batches: u64,
    /// Puts and deletes applied.
    pub rows: u64,
    /// Writes to RocksDB; each held one batch or more.
    pub commits: u64,
    /// Those commits that were synced to disk.
    pub syncs: u64,
    /// Bytes at the end of the write-ahead log that held a torn last write and were dropped when the store was
    /// opened. Fewer bytes than the header of a record are dropped by RocksDB and not counted.
    pub torn_bytes: u64,
}

/// The open database with what belongs to it; the fields are dropped in this order, the lock last.
struct Database {
    db: DatabaseSlot,
    families: BTreeSet<Family>,
    damage: Damage,
    dir: PathBuf,
    torn_bytes: u64,
    _lock: StoreLock,
}

/// A process that was killed holds its files until the kernel has taken it down, which takes as long as its memory is large.
const ENDING_MAX: Duration = Duration::from_secs(5);
const ENDING_PAUSE: Duration = Duration::from_millis(20);

impl RocksStore {
    /// Opens the store in `dir` with these families, and creates what is missing (the directory with mode 0700).
    /// Families that are on disk but not named are kept untouched. Blocks while the write-ahead log is replayed.
    ///
    /// # Errors
    /// [`OpenError`]; the store on disk is then as it was, but for a torn last write, which may have been cut off.
    pub fn open(dir: &Path, families: &[Family], config: StoreConfig) -> Result<RocksStore, OpenError> {
        let database = Arc::new(open::open(dir, families, &config)?);
        let queue = Arc::new(Queue::new(dir, &config));
        let committer = commit::start(queue.clone(), database.clone()).map_err(|source| OpenError::Io {
            doing: "start the committing thread of",
            path: dir.to_owned(),
            source,
        })?;
        Ok(RocksStore { database, queue, committer: Some(committer) })
    }

    /// Opens the store as [`RocksStore::open`] does; a holder that ends at the moment, as one that was killed just now, is waited
    /// for.
    ///
    /// # Errors
    /// See [`RocksStore::open`].
    pub async fn open_after(dir: &Path, families: &[Family], config: StoreConfig) -> Result<RocksStore, OpenError> {
        for _ in 0..ENDING_MAX.as_millis() / ENDING_PAUSE.as_millis() {
            match RocksStore::open(dir, families, config.clone()) {
                Err(error) if error.is_passing() => tokio::time::sleep(ENDING_PAUSE).await,
                opened => return opened,
            }
        }
        RocksStore::open(dir, families, config)
    }

    /// Counts since the store was opened.
    pub fn stats(&self) -> StoreStats {
        StoreStats { torn_bytes: self.database.torn_bytes, ..self.queue.stats() }
    }
}

impl Store for RocksStore {
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        LiveView(&self.database).read(family, key)
    }

    fn read_many(&self, family: Family, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, ReadError> {
        LiveView(&self.database).read_many(family, keys)
    }

    fn scan(&self, family: Family, range: Range) -> Result<Rows, ReadError> {
        LiveView(&self.database).scan(family, &range)
    }

    fn keys(&self, family: Family, range: Range) -> Result<Vec<Vec<u8>>, ReadError> {
        LiveView(&self.database).keys(family, &range)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        FrozenView::of(self.database.clone())
    }

    fn write(&self, batch: Batch, durability: Durability) -> BoxFuture<'static, Result<(), WriteError>> {
        let checked = batch.check(|family| self.database.families.contains(&family));
        // Whoever has not polled it yet does not keep the store open.
        let (queue, database) = (self.queue.clone(), Arc::downgrade(&self.database));
        Box::pin(async move {
            checked?;
            match durability {
                Durability::Synced => queue.submit(batch, durability).await,
                _ if commit::write_at_once(&queue, &database, (&batch, durability)) => Ok(()),
                _ => queue.submit(batch, durability).await,
            }
        })
    }

    fn scrub(&self, rows: Vec<(Family, Vec<u8>)>) -> BoxFuture<'static, Result<(), WriteError>> {
        let (database, queue) = (self.database.clone(), self.queue.clone());
        Box::pin(async move {
            // What was written before is in the tables that are merged.
            queue.submit(Batch::new(), Durability::Synced).await?;
            let closed = WriteError::Closed { dir: database.dir.clone() };
            let (done, answer) = oneshot::channel();
            let work = move || {
                let _ = done.send(database.scrub(&rows, queue.reserve_bytes()));
            };
            match std::thread::Builder::new().name("althing-scrub".into()).spawn(work) {
                Ok(_) => answer.await.unwrap_or(Err(closed)),
                Err(_) => Err(closed),
            }
        })
    }
}

impl Drop for RocksStore {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(committer) = self.committer.take()
            && committer.join().is_err()
        {
            tracing::error!(dir = %self.database.dir.display(), "the committing thread of the store panicked");
        }
    }
}
