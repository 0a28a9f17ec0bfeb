//! One output of an agent.

use std::collections::HashMap;

use a2a::{Artifact, Message, TaskState};
use serde::Serialize;

/// A2A's `metadata`, in the type of a2a-lf.
pub type Metadata = HashMap<String, serde_json::Value>;

/// One output of an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Made {
    /// An artifact, or a piece of one.
    Artifact {
        /// The artifact, or the parts to append to it.
        artifact: Artifact,
        /// True: append to the artifact of that id.
        append: bool,
        /// True: this is the last piece.
        last: bool,
    },
    /// The status of the task: `WORKING` with a progress message, or the end of the turn.
    Status(TaskState, Option<Message>),
    /// State for the next turn of the task; shown to nobody.
    Remember(String),
    /// An agent that may answer without a task created one. Earlier outputs are part of its beginning.
    Begun {
        /// `SUBMITTED` or `WORKING`; the end of a turn is a status.
        state: TaskState,
        /// The task's `metadata`.
        metadata: Option<Metadata>,
    },
    /// The complete answer of an agent that created no task.
    Reply(Message),
    /// A status or an artifact, with the `metadata` of its event.
    Annotated(Box<Made>, Metadata),
}

impl Made {
    /// The same with the metadata of its event, if that has any.
    #[must_use]
    pub fn annotated(self, metadata: Option<Metadata>) -> Made {
        match metadata {
            Some(metadata) if !metadata.is_empty() => Made::Annotated(Box::new(self), metadata),
            _ => self,
        }
    }

    /// Whether it is a part of the answer, or ends the turn: callers read those in the order in which they were emitted.
    pub(super) fn is_answer(&self) -> bool {
        match self {
            Made::Remember(_) | Made::Begun { .. } | Made::Status(TaskState::Working, _) => false,
            Made::Annotated(made, _) => made.is_answer(),
            Made::Artifact { .. } | Made::Status(..) | Made::Reply(_) => true,
        }
    }

    /// Bytes of its content as JSON, metadata counted in.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Made::Artifact { artifact, .. } => json_bytes(artifact),
            Made::Status(_, message) => json_bytes(message),
            Made::Remember(text) => text.len(),
            Made::Begun { metadata, .. } => json_bytes(metadata),
            Made::Reply(message) => json_bytes(message),
            Made::Annotated(made, metadata) => made.bytes() + json_bytes(metadata),
        }
    }
}

fn json_bytes(content: &impl Serialize) -> usize {
    serde_json::to_vec(content).map_or(0, |json| json.len())
}
