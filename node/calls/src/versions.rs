//! Who says which of several versions of an agent answers.

use std::sync::Arc;

use althing_protocol::{AgentId, AgentRef, digest, hex};
use futures::future::BoxFuture;

/// A message that begins a task, as far as it decides which version answers it.
#[derive(Debug, Clone, Copy)]
pub struct NewCall<'a> {
    /// The agent that it is about.
    pub agent: &'a AgentId,
    /// On whose behalf it comes, as the owners of tasks are written.
    pub caller: &'a str,
    /// The id of its conversation.
    pub context: &'a str,
    /// The id of the message.
    pub message: &'a str,
    /// Whether the conversation has tasks already.
    pub is_known: bool,
    /// The group whose work it is, by its id, if it is for a task of one: as this node's part in that group says, and nobody else.
    pub group: Option<&'a str>,
    /// The channel of that group by which the task came, if it has one: likewise.
    pub channel: Option<&'a str>,
}

/// Says which of several versions of an agent answers.
pub trait Versions: Send + Sync + 'static {
    /// Whether several versions divide the calls of an agent: asked for each message, and answered at once.
    fn divides(&self, agent: &AgentId) -> bool;

    /// The version that answers a message; none if that is the stable one. Other messages of the conversation are answered by the
    /// same one, whatever happens to this node in between.
    fn route<'a>(&'a self, call: &'a NewCall<'a>) -> BoxFuture<'a, Option<Arc<str>>>;

    /// Whether a version may go on with tasks that it had: not if it went back.
    fn may_answer(&self, agent: &AgentRef) -> bool;

    /// The versions of an agent that may answer, and have not run since this node started: for as long as that takes them at most,
    /// afterwards none. Asked of a message whose version is not here.
    fn starting(&self, agent: &AgentId) -> Vec<Arc<str>>;
}

/// The id of the conversation that a message begins which names none: the same one when it is sent again.
pub(crate) fn conversation_of(agent: &AgentId, caller: &str, message: &str) -> String {
    let name = format!("conversation\n{agent}\n{caller}\n{message}");
    hex(&digest(name.as_bytes())[..16])
}

#[cfg(test)]
mod tests {
    use althing_protocol::PublisherId;

    use super::*;

    #[test]
    fn a_message_that_is_sent_again_begins_the_same_conversation() {
        let agent = AgentId::new(PublisherId::from_digest([1; 32]), "echo").expect("a name");
        let of = |caller, message| conversation_of(&agent, caller, message);
        assert_eq!(of("a", "m-1"), of("a", "m-1"));
        assert_eq!(of("a", "m-1").len(), 32);
        assert_ne!(of("a", "m-1"), of("a", "m-2"));
        assert_ne!(of("a", "m-1"), of("b", "m-1"), "another caller's message may have the same id");
    }
}
