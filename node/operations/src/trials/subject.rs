//! Whom a test is about.

use althing_protocol::{AgentId, AgentRef};

/// The agent that is tested.
pub(super) enum Subject {
    /// It runs on this node.
    Here(AgentRef),
    /// It runs on another one.
    Elsewhere {
        /// Which agent it is.
        agent: AgentId,
        /// The version that it says it has, where that is known.
        version: Option<String>,
    },
}

impl Subject {
    /// How its owner calls it.
    pub fn name(&self) -> &str {
        match self {
            Subject::Here(agent) => agent.name(),
            Subject::Elsewhere { agent, .. } => agent.name(),
        }
    }

    /// Its version, where that is known.
    pub fn version(&self) -> Option<String> {
        match self {
            Subject::Here(agent) => Some(agent.version.to_string()),
            Subject::Elsewhere { version, .. } => version.clone(),
        }
    }
}
