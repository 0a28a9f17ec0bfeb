//! A task that moves: the node that had it says which one has it from then on.

use minicbor::{Decode, Encode};

use super::{Kind, ObjectError, Statement};
use crate::Digest;
use crate::identity::{AgentId, PublicKey};
use crate::limits::TASK_ID_BYTES_MAX;

/// What the node that had a task signs when it hands it over.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct TaskMove {
    #[n(0)]
    kind: Kind,
    /// Which agent works on the task, on both nodes.
    #[n(1)]
    pub agent: AgentId,
    /// The task's id, 1 to 256 bytes, which it keeps.
    #[n(2)]
    pub task: String,
    /// The node that has the task from then on.
    #[n(3)]
    pub to: PublicKey,
    /// How often the task has moved, with this time: of two moves of a task the one with the lower fence is older.
    #[n(4)]
    pub fence: u64,
    /// The digest of what is handed over, for the node that takes it.
    #[cbor(n(5), with = "minicbor::bytes")]
    pub contents: Digest,
}

impl TaskMove {
    /// A move to be signed by the node that has the task.
    #[must_use]
    pub fn new(agent: AgentId, task: impl Into<String>, to: PublicKey, fence: u64, contents: Digest) -> TaskMove {
        TaskMove { kind: Kind::TaskMove, agent, task: task.into(), to, fence, contents }
    }
}

impl Statement for TaskMove {
    const KIND: Kind = Kind::TaskMove;
    fn kind(&self) -> Kind {
        self.kind
    }
    fn check(&self) -> Result<(), ObjectError> {
        if self.task.is_empty() || self.task.len() > TASK_ID_BYTES_MAX {
            let length = self.task.len();
            return Err(ObjectError::Shape(format!(
                "a task's id has 1 to {TASK_ID_BYTES_MAX} bytes, and not {length}"
            )));
        }
        if self.fence == 0 {
            return Err(ObjectError::Shape("the first move of a task has the fence 1, and none has 0".to_owned()));
        }
        Ok(())
    }
}
