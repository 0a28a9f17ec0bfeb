//! Why a turn fails.

use crate::journal::JournalError;
use crate::ruling::TurnRest;

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
    /// The agent rejected the request.
    #[error("rejected: {0}")]
    Rejected(String),
    /// What the agent needs does not answer now: the same request may succeed in a moment.
    #[error("{0}")]
    Busy(String),
    /// The agent failed.
    #[error("{0}")]
    Failed(String),
    /// A gate refused its answer, after all repairs; what is said of that may be shown to the caller.
    #[error("{0}")]
    GateRefused(String),
    /// A part of this node that the agent uses failed. The details, with paths and addresses, are only in the log, for the
    /// operator.
    #[error("{0}; the log of its node says why")]
    Internal(&'static str),
    /// The agent answered with an error of A2A or of JSON-RPC.
    #[error("{message}")]
    Refused {
        /// JSON-RPC code.
        code: i32,
        /// The message of the agent.
        message: String,
        /// The `data` of the error, if it is a list.
        details: Vec<serde_json::Value>,
    },
    /// The agent's program answered with something that is not A2A.
    #[error("the agent's program answered with {0}")]
    NotA2a(String),
    /// The journal of the turn cannot go on.
    #[error(transparent)]
    Journal(JournalError),
    /// Somebody is asked about a call of the turn, which goes on when that is answered.
    #[error("{0}")]
    Parked(TurnRest),
    /// The receiver of the outputs is gone: the turn was cancelled.
    #[error("the turn was cancelled")]
    Cancelled,
}

impl From<JournalError> for AgentError {
    fn from(error: JournalError) -> AgentError {
        match error {
            JournalError::Parked(parking) => AgentError::Parked(parking),
            error => AgentError::Journal(error),
        }
    }
}

impl AgentError {
    /// Whether the turn has not ended: it goes on later, and makes again what it made since it began.
    #[must_use]
    pub fn is_interruption(&self) -> bool {
        matches!(self, AgentError::Parked(_) | AgentError::Journal(JournalError::Preempted))
    }

    /// `what` is shown to the caller; `detail` goes to the log.
    #[must_use]
    pub fn internal(what: &'static str, detail: impl std::fmt::Display) -> AgentError {
        tracing::warn!(%detail, "a turn failed: {what}");
        AgentError::Internal(what)
    }
}
