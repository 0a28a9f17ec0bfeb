//! Why an agent does not start, or a turn fails.

use crate::binding::Unmet;
use crate::kernel::AdmitError;
use crate::memory::MemoryError;
use crate::model::ModelError;

/// Why an agent could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The agent file names a native agent that this node does not have.
    #[error("there is no native agent {name:?}; this node has {known}")]
    UnknownBuiltin {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The agent file has no contract.
    #[error(
        "no contract: nothing says what agent {0:?} is promised and held to, and no agent runs without one; add \
         `contract: {{ class: {{ latency: srt }} }}` to its file, or the file of a contract"
    )]
    NoContract(String),
    /// The agent refused its configuration.
    #[error("agent {name:?} refused its configuration: {reason}")]
    Config {
        /// Which agent.
        name: String,
        /// Why.
        reason: String,
    },
    /// The contract is one of hard real-time, and the runtime cannot keep it.
    #[error("agent {name:?} has a contract of class {class}, and {why}")]
    Class {
        /// Which agent.
        name: String,
        /// Its class.
        class: &'static str,
        /// Why that cannot be.
        why: &'static str,
    },
    /// The scheduler refused it.
    #[error("agent {name:?} is refused: {reason}")]
    Admission {
        /// Which agent.
        name: String,
        /// The proof, or what the machine lacks.
        reason: AdmitError,
    },
    /// Its module cannot be read or run.
    #[error("agent {name:?} cannot run {module}: {reason}")]
    Module {
        /// Which agent.
        name: String,
        /// Its file.
        module: String,
        /// Why.
        reason: String,
    },
    /// Its models cannot be used.
    #[error("agent {name:?} cannot be run: {reason}")]
    Model {
        /// Which agent.
        name: String,
        /// Why.
        reason: ModelError,
    },
    /// Nothing satisfies a clause of its contract.
    #[error("agent {name:?} is not bound: {reason}")]
    Unbound {
        /// Which agent.
        name: String,
        /// The clause.
        reason: Unmet,
    },
    /// Its memory cannot be used.
    #[error("agent {name:?} cannot be run: {reason}")]
    Memory {
        /// Which agent.
        name: String,
        /// Why.
        reason: MemoryError,
    },
    /// The program could not be started.
    #[error("cannot start {program:?}: {reason}")]
    Spawn {
        /// What was run.
        program: String,
        /// The system's reason.
        reason: std::io::Error,
    },
    /// An agent of that name runs already.
    #[error("agent {0:?} runs already")]
    Running(String),
}

/// Why a turn failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// The agent is not running now.
    #[error("agent {agent:?} is not running: {why}")]
    Down {
        /// Which.
        agent: String,
        /// What happened to it.
        why: String,
    },
    /// The agent says that the request is not for it.
    #[error("rejected: {0}")]
    Rejected(String),
    /// The agent failed.
    #[error("{0}")]
    Failed(String),
    /// Something of this node that the agent works with failed. What exactly, with its paths and addresses, is the
    /// operator's, and stands in the log.
    #[error("{0}; the log of its node says why")]
    Internal(&'static str),
    /// The agent answered with an error of A2A or of JSON-RPC.
    #[error("{message}")]
    Refused {
        /// JSON-RPC code.
        code: i32,
        /// The agent's words.
        message: String,
        /// The error's `data`, where that is a list.
        details: Vec<serde_json::Value>,
    },
    /// The agent's program answered with something that is not A2A.
    #[error("the agent's program answered with {0}")]
    NotA2a(String),
    /// Nobody takes the outputs any more: the turn was cancelled.
    #[error("the turn was cancelled")]
    Cancelled,
}

impl AgentError {
    /// `what` failed, which whoever asked may know; `detail` goes to the log.
    #[must_use]
    pub fn internal(what: &'static str, detail: impl std::fmt::Display) -> AgentError {
        tracing::warn!(%detail, "a turn failed: {what}");
        AgentError::Internal(what)
    }
}
