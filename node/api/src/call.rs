//! Calls of agents.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Problem;

/// Calls an agent.
#[derive(Debug, Serialize, Deserialize)]
pub struct CallRequest {
    /// Identifier or name.
    pub agent: String,
    /// The message.
    pub text: String,
    /// The task to continue.
    pub task: Option<String>,
    /// Whether to report which nodes host the agent.
    pub explain: bool,
    /// Whether an untrusted publisher's agent may be called.
    #[serde(default)]
    pub anyone: bool,
}

/// One line of a call's answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CallLine {
    /// The nodes that host the agent, and which is called.
    Explain(Value),
    /// An A2A `StreamResponse`.
    Event(Value),
    /// Why it ended.
    Error(Problem),
}
