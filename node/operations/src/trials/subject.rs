//! Whom a test is about.

use althing_protocol::AgentRef;

/// The agent that is tested.
pub(super) enum Subject {
    /// It runs on this node.
    Here(AgentRef),
    /// It runs on another one, in the version that it says it has.
    Elsewhere(AgentRef),
}

impl Subject {
    /// Which agent it is.
    pub fn agent(&self) -> &AgentRef {
        match self {
            Subject::Here(agent) | Subject::Elsewhere(agent) => agent,
        }
    }
}
