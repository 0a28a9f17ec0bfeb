//! Why a turn fails.

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
