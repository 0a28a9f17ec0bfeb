//! A simulated disk that loses unsynced writes in a power cut, is slow, and fails on demand.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_simulations::mesh::FAMILIES;
use althing_store::{Batch, Durability, Family, MemoryStore, Range, ReadError, Rows, Snapshot, Store, WriteError};
use futures::FutureExt as _;
use futures::future::BoxFuture;

/// How long a synced write takes: an answer that does not wait for one comes earlier.
pub const SYNC: Duration = Duration::from_secs(10);

/// The disk of a node. Clones are the same disk.
#[derive(Clone)]
pub struct Disk {
    /// What readers see.
    seen: MemoryStore,
    /// The synced contents, which survive a power cut.
    synced: MemoryStore,
    /// Unsynced writes.
    buffered: Arc<Mutex<Vec<Batch>>>,
    failure: Arc<Mutex<Option<Failure>>>,
    sync: Duration,
}

#[derive(Clone)]
struct Failure {
    above_bytes: usize,
    error: WriteError,
}

impl Default for Disk {
    fn default() -> Disk {
        Disk {
            seen: MemoryStore::new(&FAMILIES),
            synced: MemoryStore::new(&FAMILIES),
            buffered: Arc::default(),
            failure: Arc::default(),
            sync: SYNC,
        }
    }
}

impl Disk {
    /// A disk for tests in real time, whose synced writes take no longer than others.
    #[must_use]
    pub fn prompt() -> Disk {
        Disk { sync: Duration::ZERO, ..Disk::default() }
    }

    /// The disk after a power cut now.
    #[must_use]
    pub fn after_power_cut(&self) -> Arc<Disk> {
        let disk = Disk { sync: self.sync, ..Disk::default() };
        for family in FAMILIES {
            let rows = self.synced.scan(family, Range::all(usize::MAX)).expect("a family of ours");
            let mut batch = Batch::new();
            for (key, value) in rows {
                batch.put(family, key, value);
            }
            for store in [&disk.seen, &disk.synced] {
                store.write(batch.clone(), Durability::Synced).now_or_never().expect("memory").expect("it fits");
            }
        }
        Arc::new(disk)
    }

    /// From now on batches of more bytes fail, as on a full disk.
    pub fn fail_above(&self, above_bytes: usize) {
        let error = WriteError::Full { path: "/secret/place".into(), free_bytes: 12_345, reserve_bytes: 67_890 };
        *self.failure.lock().expect("nobody panics with it") = Some(Failure { above_bytes, error });
    }

    fn check(&self, batch: &Batch) -> Result<(), WriteError> {
        match &*self.failure.lock().expect("nobody panics with it") {
            Some(failure) if batch.bytes() > failure.above_bytes => Err(failure.error.clone()),
            _ => Ok(()),
        }
    }

    async fn apply(self, batch: Batch, durability: Durability) -> Result<(), WriteError> {
        if durability != Durability::Synced {
            self.check(&batch)?;
            self.buffered.lock().expect("nobody panics with it").push(batch.clone());
            return self.seen.write(batch, Durability::Buffered).await;
        }
        tokio::time::sleep(self.sync).await;
        self.check(&batch)?;
        self.seen.write(batch.clone(), Durability::Buffered).await?;
        let earlier = std::mem::take(&mut *self.buffered.lock().expect("nobody panics with it"));
        for batch in earlier.into_iter().chain([batch]) {
            self.synced.write(batch, Durability::Synced).await?;
        }
        Ok(())
    }
}

impl Store for Disk {
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.seen.read(family, key)
    }

    fn scan(&self, family: Family, range: Range) -> Result<Rows, ReadError> {
        self.seen.scan(family, range)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.seen.snapshot()
    }

    fn write(&self, batch: Batch, durability: Durability) -> BoxFuture<'static, Result<(), WriteError>> {
        self.clone().apply(batch, durability).boxed()
    }
}
