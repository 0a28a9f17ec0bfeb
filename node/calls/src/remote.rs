//! What a gateway remembers of tasks on other nodes: where they are, and how they were when last seen.

use std::sync::Arc;

use a2a::{StreamResponse, Task};
use althing_protocol::PublicKey;
use althing_store::{Batch, Durability, Family, Store};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::tasks::PublicKeyText;

/// Tasks on other nodes that were asked for through this one, by task id.
pub const REMOTE_TASKS: Family = Family("calls.remote");
/// The key in a task's `metadata` that says that its node is gone and this is how it was last known.
pub const STALE: &str = "https://althing.dev/ext/stale/v1";

/// Where a task is, and how it was.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Whereabouts {
    node: PublicKeyText,
    task: Task,
    seen_ms: u64,
}

/// The index of remote tasks.
pub(crate) struct Remote {
    store: Arc<dyn Store>,
}

impl Remote {
    pub fn new(store: Arc<dyn Store>) -> Remote {
        Remote { store }
    }

    /// The node that hosts the task, if it was asked for through this one.
    pub fn node(&self, id: &str) -> Option<PublicKey> {
        self.read(id).map(|known| known.node.0)
    }

    /// The task as it was last known, marked as stale.
    pub fn last_known(&self, id: &str) -> Option<Task> {
        let known = self.read(id)?;
        let mut task = known.task;
        let mark = json!({ "node": known.node.0.did(), "lastSeenUnixMs": known.seen_ms });
        task.metadata.get_or_insert_default().insert(STALE.to_owned(), mark);
        Some(task)
    }

    fn read(&self, id: &str) -> Option<Whereabouts> {
        let bytes = self.store.read(REMOTE_TASKS, id.as_bytes());
        let bytes = bytes.inspect_err(|error| tracing::error!(%error, "remote tasks cannot be read")).ok()??;
        ciborium::from_reader(&bytes[..])
            .inspect_err(|error| tracing::error!(id, %error, "remote task cannot be read"))
            .ok()
    }

    /// Notes what was seen of a task. Not synced: the hosting node owns the task, this is a memory of it.
    pub async fn note(&self, node: PublicKey, task: Task, seen_ms: u64) {
        let id = task.id.clone();
        let mut bytes = Vec::new();
        let known = Whereabouts { node: PublicKeyText(node), task, seen_ms };
        if let Err(error) = ciborium::into_writer(&known, &mut bytes) {
            tracing::error!(%error, "remote task cannot be written");
            return;
        }
        let mut batch = Batch::new();
        batch.put(REMOTE_TASKS, id.as_bytes(), bytes);
        if let Err(error) = self.store.write(batch, Durability::Buffered).await {
            tracing::error!(%error, "remote task cannot be written");
        }
    }
}

/// The task that a stream is about, kept up to date with its events.
#[derive(Default)]
pub(crate) struct Follower(Option<Task>);

impl Follower {
    /// Takes one event; gives the task when it is worth remembering: when it is new, and when it rests.
    pub fn follow(&mut self, event: &[u8]) -> Option<Task> {
        match serde_json::from_slice(event).ok()? {
            StreamResponse::Task(task) => {
                self.0 = Some(task.clone());
                Some(task)
            }
            StreamResponse::StatusUpdate(update) => {
                let task = self.0.as_mut()?;
                task.status = update.status;
                crate::machine::task::rests(&task.status.state).then(|| task.clone())
            }
            StreamResponse::ArtifactUpdate(_) | StreamResponse::Message(_) => None,
        }
    }
}
