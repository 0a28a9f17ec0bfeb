//! The port by which a host of an agent learns that another one does what it cannot.

use althing_call::Redirect;
use althing_protocol::AgentId;

/// Which node does what this one cannot.
pub trait Elsewhere: Send + Sync {
    /// The node that does what a new message asks of `agent`, if this one cannot and that one can. None: this node takes the
    /// message. Asked for each new message, so it must be fast for agents that it does not concern.
    fn served_by(&self, agent: &AgentId) -> Option<Redirect>;

    /// Why nobody does now what a new message asks of `agent`, if that is known; asked as often, where nobody else does it.
    fn refused(&self, _agent: &AgentId) -> Option<String> {
        None
    }
}
