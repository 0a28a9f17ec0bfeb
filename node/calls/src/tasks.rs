//! The task store of the hosting node: every task on disk, and what is needed to list them in memory.

use std::sync::{Arc, Mutex, MutexGuard};

use a2a::Task;
use althing_protocol::PublicKey;
use althing_store::{Batch, Durability, Family, Range, ReadError, Store, WriteError};
use serde::{Deserialize, Serialize};

use crate::machine::listing::{Filter, Listing, Page};

/// Tasks of the agents that this node hosts, by task id.
pub const TASKS: Family = Family("calls.tasks");

/// Tasks that are read at once on start.
const PAGE: usize = 512;

/// Why the task store failed.
#[derive(Debug, thiserror::Error)]
pub enum TaskStoreError {
    /// The store could not be read.
    #[error("tasks could not be read: {0}")]
    Read(#[from] ReadError),
    /// The store could not be written.
    #[error("the task could not be kept: {0}")]
    Write(#[from] WriteError),
    /// A stored task is not one.
    #[error("the stored task {id} cannot be read: {reason}")]
    Record {
        /// Which.
        id: String,
        /// Why.
        reason: String,
    },
}

/// A task with what is not shown of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub task: Task,
    /// The agent's name.
    pub agent: String,
    /// Whose task it is: the caller's owner, or the calling node where that has none.
    pub scope: PublicKeyText,
    /// What the runtime asked to have kept.
    pub remembered: Option<String>,
}

/// A public key as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct PublicKeyText(pub PublicKey);

impl From<PublicKeyText> for String {
    fn from(key: PublicKeyText) -> String {
        key.0.did()
    }
}

impl TryFrom<String> for PublicKeyText {
    type Error = althing_protocol::IdentityError;
    fn try_from(did: String) -> Result<Self, Self::Error> {
        PublicKey::from_did(&did).map(PublicKeyText)
    }
}

/// The task store.
pub(crate) struct Tasks {
    store: Arc<dyn Store>,
    listing: Mutex<Listing>,
}

impl Tasks {
    /// Opens the store; also gives the tasks that were not at rest when the node ended.
    pub fn open(store: Arc<dyn Store>) -> Result<(Tasks, Vec<Record>), TaskStoreError> {
        let mut listing = Listing::default();
        let mut interrupted = Vec::new();
        let mut after: Option<Vec<u8>> = None;
        loop {
            let mut range = Range::all(PAGE);
            if let Some(after) = after.take() {
                range = range.after(after);
            }
            let rows = store.scan(TASKS, range)?;
            for (key, value) in &rows {
                let record = decode(key, value)?;
                listing.note(&record);
                if !crate::machine::task::rests(&record.task.status.state) {
                    interrupted.push(record);
                }
            }
            match rows.into_iter().next_back() {
                Some((key, _)) => after = Some(key),
                None => break,
            }
        }
        Ok((Tasks { store, listing: Mutex::new(listing) }, interrupted))
    }

    pub fn read(&self, id: &str) -> Result<Option<Record>, TaskStoreError> {
        let value = self.store.read(TASKS, id.as_bytes())?;
        value.map(|value| decode(id.as_bytes(), &value)).transpose()
    }

    /// Keeps a task; with `Synced` it survives a power cut once this completes.
    pub async fn write(&self, record: &Record, durability: Durability) -> Result<(), TaskStoreError> {
        let mut bytes = Vec::new();
        ciborium::into_writer(record, &mut bytes)
            .map_err(|error| TaskStoreError::Record { id: record.task.id.clone(), reason: error.to_string() })?;
        let mut batch = Batch::new();
        batch.put(TASKS, record.task.id.as_bytes(), bytes);
        let old = self.lock().surplus(record);
        for id in &old {
            batch.delete(TASKS, id.as_bytes());
        }
        self.store.write(batch, durability).await?;
        // Only now: what is not kept is not listed.
        let mut listing = self.lock();
        old.iter().for_each(|id| listing.forget(id));
        listing.note(record);
        Ok(())
    }

    pub fn page(&self, filter: &Filter<'_>, token: Option<&str>, size: usize) -> Option<Page> {
        self.lock().page(filter, token, size)
    }

    fn lock(&self) -> MutexGuard<'_, Listing> {
        self.listing.lock().expect("no holder of the listing panics")
    }
}

fn decode(key: &[u8], value: &[u8]) -> Result<Record, TaskStoreError> {
    ciborium::from_reader(value).map_err(|error| TaskStoreError::Record {
        id: String::from_utf8_lossy(key).into_owned(),
        reason: error.to_string(),
    })
}
