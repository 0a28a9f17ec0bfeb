//! Who writes a group's rows. openraft joins only the core of a replica that ends: what is queued for the disk, what is being
//! installed and the snapshot that is being built go on. So a replica writes with a pen of its own, and before another one
//! begins, or the rows are deleted, that is put down.

use std::io;
use std::sync::Arc;

use althing_store::{Batch, Durability, Store, WriteError};
use tokio::sync::RwLock;

/// What one replica writes its group's rows with.
pub(crate) struct Pen {
    store: Arc<dyn Store>,
    /// Whether it writes yet. Each write holds it until the store has answered.
    writes: RwLock<bool>,
}

/// Why rows were not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PenError {
    /// The replica has ended.
    #[error("the replica has ended")]
    Ended,
    /// The disk.
    #[error(transparent)]
    Store(#[from] WriteError),
}

impl From<PenError> for io::Error {
    fn from(error: PenError) -> io::Error {
        io::Error::other(error)
    }
}

impl Pen {
    pub fn new(store: Arc<dyn Store>) -> Arc<Pen> {
        Arc::new(Pen { store, writes: RwLock::new(true) })
    }

    /// What is on disk. Reading harms nobody, whoever writes.
    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// Writes, unless the pen was put down. The future must be polled to its end, as those of tasks of their own are: one that is
    /// dropped leaves open what the store does with the batch.
    pub async fn write(&self, batch: Batch, durability: Durability) -> Result<(), PenError> {
        let writes = self.writes.read().await;
        if !*writes {
            return Err(PenError::Ended);
        }
        self.store.write(batch, durability).await.map_err(PenError::from)
    }

    /// Waits for what is being written. Nothing is written afterwards.
    pub async fn put_down(&self) {
        *self.writes.write().await = false;
    }
}
