//! A task as it is stored, and its size limits.

use a2a::Task;
use althing_protocol::CallerId;
use althing_store::BATCH_BYTES_MAX;
use serde::{Deserialize, Serialize};

use super::task;

/// Bytes of a stored task: what a batch holds beside the summary (2 KiB at most) and the keys of the tasks that are
/// evicted with it (1,024 of 36 bytes, twice).
pub(crate) const RECORD_BYTES_MAX: usize = BATCH_BYTES_MAX - (256 << 10);
/// Bytes of a stored task when a turn begins, or adds an artifact: the final status message, the agent's earlier messages,
/// the task's metadata, and what the runtime stores must always fit beside it.
pub(crate) const WORKING_BYTES_MAX: usize = RECORD_BYTES_MAX
    - task::STATUS_MESSAGE_STORED_BYTES_MAX
    - task::AGENT_MESSAGES_STORED_BYTES_MAX
    - task::METADATA_STORED_BYTES_MAX
    - task::REMEMBERED_BYTES_MAX
    - (4 << 10);

/// A task with what A2A does not show of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub task: Task,
    /// The agent's name.
    pub agent: String,
    /// Whose task it is: the caller's owner, or the calling node if it has none.
    pub scope: Scope,
    /// What the runtime stores for the next turn.
    pub remembered: Option<String>,
}

/// Whose task it is, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Scope(pub CallerId);

impl From<Scope> for String {
    fn from(scope: Scope) -> String {
        scope.0.to_string()
    }
}

impl TryFrom<String> for Scope {
    type Error = althing_protocol::IdentityError;
    fn try_from(id: String) -> Result<Self, Self::Error> {
        id.parse().map(Scope)
    }
}
