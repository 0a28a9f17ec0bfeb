//! Why an operation of the node failed. The command line makes exit codes of these, a face its own answers.

use std::path::PathBuf;

use althing_calls::TaskStoreError;
use althing_communication::AcceptError;
use althing_execution::StartError;
use althing_execution::kernel::LeaseError;
use althing_protocol::IdentityError;
use althing_protocol::object::ObjectError;
use althing_store::file::FileError;
use althing_store::{ReadError, WriteError};
use althing_td::AgentFileError;

use crate::owner::OwnerError;

/// Why an operation of the node failed.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The tasks of before cannot be opened.
    #[error(transparent)]
    Tasks(#[from] TaskStoreError),
    /// Something else serves a protocol of the node's.
    #[error(transparent)]
    Accept(#[from] AcceptError),
    /// The owner's keys.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// An object could not be signed, or opened again.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// What should be an identifier is none.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The agent file is wrong.
    #[error(transparent)]
    File(#[from] AgentFileError),
    /// The agent cannot be started, or bound.
    #[error(transparent)]
    Start(#[from] StartError),
    /// What was reserved for the agent cannot be had.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The node has an agent of that name.
    #[error("this node has an agent {0:?}; `althing agent remove {0}` takes it away first")]
    AgentExists(String),
    /// An agent of that name runs, which was not added to stay.
    #[error("this node runs an agent {0:?} already")]
    AgentRuns(String),
    /// The node has as many agents as it may.
    #[error("a node hosts at most {0} agents")]
    TooManyAgents(usize),
    /// The node has no agent of that name.
    #[error("this node has no agent {0:?}; `althing agent list` shows those it has")]
    NoAgent(String),
    /// Neither an agent nor a manifest.
    #[error("no agent {0:?} runs on this node, and no manifest of that hash was sealed here")]
    NoBinding(String),
    /// The owner is no more.
    #[error("the owner revoked its keys: nobody can let agents run here")]
    OwnerRevoked,
    /// The owner has taken back what it let the node do.
    #[error("the owner has taken back what it let this node do (`althing key revoke --node`)")]
    NodeWithdrawn,
    /// It is not known what an agent's tools were when it was added.
    #[error(
        "it is not known what its tools were when agent {0:?} was added, and as they are now they were never agreed to: \
         `althing agent remove {0}` and `althing agent add FILE` bind it to these"
    )]
    ToolsUnknown(String),
    /// A row of the store about an agent is damaged.
    #[error("agent {name:?} as stored {why}")]
    StoredAgent {
        /// Its name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// The agent file names a role, and the node has none.
    #[error("the agent file names a role, and `[binding] roles` of this node names no folder")]
    NoRoles,
    /// A policy or role cannot be read.
    #[error("the {what} {}: {why}", .path.display())]
    Policy {
        /// `policy` or `role`.
        what: &'static str,
        /// Its file.
        path: PathBuf,
        /// Why.
        why: PolicyError,
    },
    /// The contract, with its role and the node's policy, is none.
    #[error("the contract, with its role and this node's policy: {0}")]
    Contract(String),
    /// A task of the node's own ended without an answer.
    #[error("an operation of the node broke down: {0}")]
    Broken(#[from] tokio::task::JoinError),
    /// The node cannot tell what it knows in JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Why a policy or role cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// Its file.
    #[error(transparent)]
    File(#[from] FileError),
    /// What it holds.
    #[error(transparent)]
    Contract(#[from] AgentFileError),
}

/// What somebody can do about a failed operation: each face has codes of its own for these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What was given is wrong.
    Invalid,
    /// There is no such thing.
    NotFound,
    /// It is not allowed.
    Refused,
    /// It cannot be told yet; it is tried again.
    NotYet,
    /// It went wrong.
    Failed,
}

impl NodeError {
    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        use althing_execution::kernel::AdmitError;
        match self {
            NodeError::Owner(error) => error.kind(),
            NodeError::Start(StartError::Admission { reason: AdmitError::NotProbed, .. }) => Kind::NotYet,
            NodeError::Start(StartError::Admission { .. } | StartError::Unbound { .. })
            | NodeError::Lease(_)
            | NodeError::OwnerRevoked
            | NodeError::NodeWithdrawn
            | NodeError::ToolsUnknown(_) => Kind::Refused,
            NodeError::Start(_)
            | NodeError::File(_)
            | NodeError::Identity(_)
            | NodeError::NoRoles
            | NodeError::Policy { .. }
            | NodeError::Contract(_) => Kind::Invalid,
            NodeError::NoAgent(_) | NodeError::NoBinding(_) => Kind::NotFound,
            NodeError::Read(_)
            | NodeError::Write(_)
            | NodeError::Tasks(_)
            | NodeError::Accept(_)
            | NodeError::Object(_)
            | NodeError::AgentExists(_)
            | NodeError::AgentRuns(_)
            | NodeError::TooManyAgents(_)
            | NodeError::StoredAgent { .. }
            | NodeError::Broken(_)
            | NodeError::Json(_) => Kind::Failed,
        }
    }
}
