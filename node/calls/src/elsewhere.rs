//! The port by which a host of an agent learns that another one does what it cannot.

use althing_call::{CallMetadata, OperationError, Redirect};
use althing_protocol::AgentId;
use althing_session::{HostedAgent, Scope, TaskService};

use crate::machine::redirects::NO_REDIRECT;

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

/// Whether a message for an agent that is hosted here is answered here.
///
/// # Errors
/// `REDIRECTED` where another node does what it asks for, unless its caller wants none of that; the refusal of a busy node where
/// nobody does.
pub(crate) fn check(
    elsewhere: &dyn Elsewhere,
    tasks: &TaskService,
    (agent, scope): (&HostedAgent, Scope),
    message: &a2a::Message,
    metadata: &CallMetadata,
) -> Result<(), OperationError> {
    let may_redirect = metadata.extensions.iter().all(|extension| extension != NO_REDIRECT);
    if may_redirect && let Some(redirect) = redirect(elsewhere, tasks, (agent, scope), message) {
        return Err(OperationError::redirected(redirect));
    }
    elsewhere.refused(agent.id()).map_or(Ok(()), |why| Err(OperationError::busy(why)))
}

/// Where a new message is sent instead. One that was taken here before is answered by its task.
fn redirect(
    elsewhere: &dyn Elsewhere,
    tasks: &TaskService,
    (agent, scope): (&HostedAgent, Scope),
    message: &a2a::Message,
) -> Option<Redirect> {
    if message.task_id.is_some() {
        return None;
    }
    let redirect = elsewhere.served_by(agent.id())?;
    (!tasks.has_begun(agent, scope, &message.message_id)).then_some(redirect)
}
