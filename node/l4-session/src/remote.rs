//! Tasks on other nodes that were called through this one: on which node they are, where they went, and their last known state.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use a2a::{StreamResponse, Task};
use althing_protocol::{AgentId, Label, PublicKey};
use althing_store::{Batch, Durability, Family, Range, ReadError, Store};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::machine::moves::{self, Home, MoveError};

/// Tasks on other nodes that were asked for through this one, by task id.
pub const REMOTE_TASKS: Family = Family("calls.remote");
/// Tasks that are remembered; beyond that the oldest are deleted, this many at once.
const KEPT_MAX: usize = 10_000;
const FORGET_AT_ONCE: usize = 256;
/// Rows that are counted at once.
const PAGE: usize = 64;
/// Bytes of a task, as JSON, that is remembered with its artifacts.
const TASK_BYTES_MAX: usize = 64 << 10;
/// The key in a task's `metadata` that marks it as last known: its node cannot be reached.
pub const STALE: &str = "https://althing.dev/ext/stale/v1";

/// A node's key as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
struct PublicKeyText(PublicKey);

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

/// The node of a task, and the task as last seen.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct TaskLocation {
    node: PublicKeyText,
    task: Task,
    seen_ms: u64,
    /// The label of its data, as the node said it; none where nothing was said. Rows from before there were labels have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<Label>,
    /// Of the move that led there (SPEC P-205); 0 where none was heard of, as in rows from before tasks could move.
    #[serde(default)]
    fence: u64,
}

impl TaskLocation {
    fn home(&self) -> Home {
        Home { node: self.node.0, fence: self.fence }
    }
}

/// Where a task is asked for next, since it moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskHome {
    /// The id that the task keeps.
    pub task: String,
    /// The node that has it now.
    pub node: PublicKey,
    /// Of the move that led there: a lower one is older.
    pub fence: u64,
}

/// The index of remote tasks.
pub struct Remote {
    store: Arc<dyn Store>,
    /// This node, and the network in which moves of tasks are signed.
    me: PublicKey,
    network: Arc<str>,
    /// Tasks that were added since the start.
    new: AtomicU64,
}

impl Remote {
    /// The index in `store`, which has the family [`REMOTE_TASKS`], of the node `me` in the network of that name.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, me: PublicKey, network: Arc<str>) -> Remote {
        Remote { store, me, network, new: AtomicU64::new(0) }
    }

    /// The node that hosts the task, if it was asked for through this one.
    #[must_use]
    pub fn node(&self, agent: &AgentId, id: &str) -> Option<PublicKey> {
        self.read(&key(agent, id)).map(|known| known.node.0)
    }

    /// The task as it was last known, marked as stale, and the label of its data.
    #[must_use]
    pub fn last_known(&self, agent: &AgentId, id: &str) -> Option<(Task, Option<Label>)> {
        let known = self.read(&key(agent, id))?;
        let mut task = known.task;
        let mark = json!({ "node": known.node.0.did(), "lastSeenUnixMs": known.seen_ms });
        task.metadata.get_or_insert_default().insert(STALE.to_owned(), mark);
        Some((task, known.label))
    }

    /// Where a task of the agent is asked for next, since the node `from` showed the proof that it handed it over. `task` is
    /// the one that was asked for; none if the call names none.
    ///
    /// # Errors
    /// Why the proof is not believed.
    pub fn moved(
        &self,
        agent: &AgentId,
        task: Option<&str>,
        from: PublicKey,
        proof: &str,
    ) -> Result<TaskHome, MoveError> {
        let moved = moves::read(proof, &self.network)?;
        moves::check_subject(&moved.body, agent, task)?;
        let known = self.read(&key(agent, &moved.body.task)).map(|known| known.home());
        let Home { node, fence } = moves::next_home(known, self.me, from, &moved)?;
        Ok(TaskHome { task: moved.body.task, node, fence })
    }

    /// Remembers where a task went, of those that are remembered; not synced. A home with a lower fence changes nothing.
    pub async fn follow(&self, agent: &AgentId, home: &TaskHome) {
        let key = key(agent, &home.task);
        let Some(known) = self.read(&key).filter(|known| known.fence < home.fence) else { return };
        tracing::debug!(%agent, task = home.task, from = %known.node.0, to = %home.node, fence = home.fence, "a task moved");
        let followed = TaskLocation { node: PublicKeyText(home.node), fence: home.fence, ..known };
        self.write(Batch::new(), key, &followed).await;
    }

    fn read(&self, key: &[u8]) -> Option<TaskLocation> {
        let bytes = self.store.read(REMOTE_TASKS, key);
        let bytes = bytes.inspect_err(|error| tracing::error!(%error, "remote tasks cannot be read")).ok()??;
        ciborium::from_reader(&bytes[..])
            .inspect_err(
                |error| tracing::error!(key = %String::from_utf8_lossy(key), %error, "remote task cannot be read"),
            )
            .ok()
    }

    /// Remembers a task as seen, with what is said of its data. Not synced: the hosting node owns the task, this is a cache. A
    /// task that is known from one node is not accepted from another, but where it moved to ([`Remote::follow`]).
    pub async fn note(&self, node: PublicKey, agent: &AgentId, (mut task, label): (Task, Option<Label>), seen_ms: u64) {
        let key = key(agent, &task.id);
        let known = self.read(&key);
        if known.as_ref().is_some_and(|known| known.node.0 != node) {
            tracing::warn!(%node, %agent, task = task.id, "a node sent a task that belongs to another node; it is ignored");
            return;
        }
        // The hosting node keeps the history.
        task.history = None;
        if serde_json::to_vec(&task).map_or(0, |json| json.len()) > TASK_BYTES_MAX {
            task.artifacts = None;
        }
        let label = Label::of_both(known.as_ref().and_then(|known| known.label), label);
        let fence = known.as_ref().map_or(0, |known| known.fence);
        let seen = TaskLocation { node: PublicKeyText(node), task, seen_ms, label, fence };
        let mut batch = Batch::new();
        if known.is_none() {
            self.make_room(&mut batch);
        }
        self.write(batch, key, &seen).await;
    }

    /// Writes a row, with the changes of `batch` before it.
    async fn write(&self, mut batch: Batch, key: Vec<u8>, row: &TaskLocation) {
        let mut bytes = Vec::new();
        if let Err(error) = ciborium::into_writer(row, &mut bytes) {
            tracing::error!(%error, "remote task cannot be written");
            return;
        }
        batch.put(REMOTE_TASKS, key, bytes);
        if let Err(error) = self.store.write(batch, Durability::Buffered).await {
            tracing::error!(%error, "remote task cannot be written");
        }
    }

    /// Deletes the oldest tasks when there are too many: keys of one agent sort by creation time (UUIDv7).
    fn make_room(&self, batch: &mut Batch) {
        if !self.new.fetch_add(1, Ordering::Relaxed).is_multiple_of(FORGET_AT_ONCE as u64) {
            return;
        }
        let counted = self.count();
        let Ok(counted) = counted.inspect_err(|error| tracing::error!(%error, "remote tasks cannot be counted")) else {
            return;
        };
        let surplus = counted.saturating_sub(KEPT_MAX - FORGET_AT_ONCE);
        if let Ok(oldest) = self.store.scan(REMOTE_TASKS, Range::all(surplus.min(FORGET_AT_ONCE * 2))) {
            for (key, _) in oldest.into_iter().take(surplus) {
                batch.delete(REMOTE_TASKS, key);
            }
        }
    }

    fn count(&self) -> Result<usize, ReadError> {
        let (mut count, mut after) = (0, None);
        loop {
            let mut range = Range::all(PAGE);
            if let Some(after) = after.take() {
                range = range.after(after);
            }
            let rows = self.store.scan(REMOTE_TASKS, range)?;
            count += rows.len();
            match rows.into_iter().next_back() {
                Some((key, _)) => after = Some(key),
                None => return Ok(count),
            }
        }
    }
}

/// The key of a task's row: two agents may have tasks of one id.
fn key(agent: &AgentId, id: &str) -> Vec<u8> {
    format!("{agent}/{id}").into_bytes()
}

/// The task of a stream, updated by its events.
#[derive(Default)]
pub struct Follower(Option<Task>);

impl Follower {
    /// Applies one event; gives the task when it is to be remembered: when it is new, and when it becomes idle.
    ///
    /// # Errors
    /// If the bytes are no event.
    pub fn follow(&mut self, event: &[u8]) -> Result<Option<Task>, serde_json::Error> {
        Ok(match serde_json::from_slice(event)? {
            StreamResponse::Task(task) => {
                self.0 = Some(task.clone());
                Some(task)
            }
            StreamResponse::StatusUpdate(update) => self.0.as_mut().and_then(|task| {
                task.status = update.status;
                crate::machine::task::is_idle(&task.status.state).then(|| task.clone())
            }),
            StreamResponse::ArtifactUpdate(_) | StreamResponse::Message(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use a2a::{Message, Part, Role};
    use althing_protocol::contract::DataLabel;
    use althing_protocol::object::{self, TaskMove};
    use althing_protocol::{PublisherId, SecretKey};
    use althing_store::MemoryStore;

    use super::*;

    /// The index of node 9.
    fn index(store: &Arc<MemoryStore>) -> Remote {
        Remote::new(store.clone(), SecretKey::from_seed(&[9; 32]).public(), "testnet".into())
    }

    /// P-205
    #[tokio::test]
    async fn a_task_is_not_accepted_from_another_node() {
        let store = Arc::new(MemoryStore::new(&[REMOTE_TASKS]));
        let remote = index(&store);
        let node = |seed: u8| SecretKey::from_seed(&[seed; 32]).public();
        let agent = AgentId::new(PublisherId::from_digest([1; 32]), "a").expect("a name");
        let task = |context: &str| {
            let message = Message::new(Role::User, vec![Part::text("hi")]);
            let at = chrono::DateTime::UNIX_EPOCH;
            (crate::machine::task::submitted("t".to_owned(), context.to_owned(), message, at), None)
        };
        remote.note(node(1), &agent, task("its own"), 1).await;
        remote.note(node(2), &agent, task("another's"), 2).await;
        assert_eq!(remote.node(&agent, "t"), Some(node(1)));
        let (known, _) = remote.last_known(&agent, "t").expect("it is remembered");
        assert_eq!(known.context_id, "its own");
        assert_eq!(known.metadata.expect("a mark")[STALE]["node"], node(1).did());
        remote.note(node(1), &agent, task("newer"), 3).await;
        assert_eq!(remote.last_known(&agent, "t").expect("it is remembered").0.context_id, "newer");

        // But from where the node of the task handed it over, which that one signs.
        let proof = |by: u8, to: u8, fence: u64| {
            let moved = TaskMove::new(agent.clone(), "t", node(to), fence, [0; 32]);
            let key = SecretKey::from_seed(&[by; 32]);
            moves::text_of(&object::sign(moved, "testnet", "", &key).expect("a good move").bytes)
        };
        let moved = |from: u8, proof: String| remote.moved(&agent, Some("t"), node(from), &proof);
        for refused in [moved(1, proof(2, 2, 1)), moved(2, proof(2, 2, 1)), moved(1, "nonsense".to_owned())] {
            assert!(refused.is_err(), "{refused:?}");
        }
        assert!(remote.moved(&agent, Some("u"), node(1), &proof(1, 2, 1)).is_err(), "another task");
        let home = moved(1, proof(1, 2, 1)).expect("it is believed");
        assert_eq!(home, TaskHome { task: "t".to_owned(), node: node(2), fence: 1 });
        remote.follow(&agent, &home).await;
        remote.note(node(2), &agent, task("moved"), 4).await;
        remote.note(node(1), &agent, task("late"), 5).await;
        let remote = index(&store);
        assert_eq!(remote.node(&agent, "t"), Some(node(2)), "it is on disk");
        assert_eq!(remote.last_known(&agent, "t").expect("it is remembered").0.context_id, "moved");
        assert_eq!(remote.moved(&agent, None, node(1), &proof(1, 3, 1)).map(|home| home.node), Ok(node(2)), "older");
        remote.follow(&agent, &TaskHome { node: node(3), ..home }).await;
        assert_eq!(remote.node(&agent, "t"), Some(node(2)), "no lower fence, and no equal one");
    }

    /// A row as it was before there were labels.
    #[derive(Serialize)]
    struct UnlabelledRow {
        node: PublicKeyText,
        task: Task,
        seen_ms: u64,
    }

    /// P-201
    #[tokio::test]
    async fn a_task_that_is_remembered_keeps_its_label_and_a_row_without_one_is_read() {
        let store = Arc::new(MemoryStore::new(&[REMOTE_TASKS]));
        let remote = index(&store);
        let node = SecretKey::from_seed(&[1; 32]).public();
        let agent = AgentId::new(PublisherId::from_digest([1; 32]), "a").expect("a name");
        let message = Message::new(Role::User, vec![Part::text("hi")]);
        let at = chrono::DateTime::UNIX_EPOCH;
        let task = crate::machine::task::submitted("t".to_owned(), "c".to_owned(), message, at);
        let row = UnlabelledRow { node: PublicKeyText(node), task: task.clone(), seen_ms: 1 };
        let mut bytes = Vec::new();
        ciborium::into_writer(&row, &mut bytes).expect("memory takes any");
        let mut batch = Batch::new();
        batch.put(REMOTE_TASKS, key(&agent, "t"), bytes);
        store.write(batch, Durability::Buffered).await.expect("written");
        assert_eq!(remote.node(&agent, "t"), Some(node));
        let label = || remote.last_known(&agent, "t").expect("it is remembered").1;
        assert_eq!(label(), None);

        let said = |level, trusted| Some(Label { level, trusted });
        remote.note(node, &agent, (task.clone(), said(DataLabel::Confidential, false)), 2).await;
        assert_eq!(label(), said(DataLabel::Confidential, false));
        for later in [None, said(DataLabel::Public, true)] {
            remote.note(node, &agent, (task.clone(), later), 3).await;
            assert_eq!(label(), said(DataLabel::Confidential, false), "no label falls");
        }
    }
}
