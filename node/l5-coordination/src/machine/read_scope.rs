//! What a member's node may show of a group: a charter can leave reading to the owners.
//!
//! The members keep values and tasks on their own disks whatever the charter says. So this binds what a node shows to its
//! users, and what it hands to other members beside the log.

use althing_protocol::group::{Author, Content, Rule};
use althing_protocol::{CallerId, Digest, PublicKey, PublisherId};

use super::group::Group;
use super::work::WorkItem;

/// What is shown to the node of a member, and to its users.
#[derive(Debug, Clone, Copy)]
pub struct ReadScope<'a> {
    state: &'a Group,
    node: PublicKey,
    /// Whose node it is, if it is a member.
    owner: Option<PublisherId>,
    is_whole: bool,
}

impl<'a> ReadScope<'a> {
    /// What `node` is shown of this state.
    #[must_use]
    pub fn of(state: &'a Group, node: PublicKey) -> ReadScope<'a> {
        let owner = state.members().get(&node).map(|member| member.owner);
        let is_whole = state.charter().is_none_or(|charter| {
            charter.policy.readers() == Rule::Members || owner.is_some_and(|owner| charter.owners.contains(&owner))
        });
        ReadScope { state, node, owner, is_whole }
    }

    /// Whether it is shown everything.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether it is shown what this author gave the group: all that the node, its owner, or another node of its owner did.
    #[must_use]
    pub fn of_author(&self, author: Author) -> bool {
        let is_own = |owner| self.state.on_behalf_of(author) == CallerId::Publisher(owner);
        self.is_whole || author == Author::Node(self.node) || self.owner.is_some_and(is_own)
    }

    /// Whether it is shown a task: one of its own, or one that it was given last.
    #[must_use]
    pub fn task(&self, task: &WorkItem) -> bool {
        self.of_author(task.author) || task.last == Some(self.node)
    }

    /// Whether `holder` hands it a large result: that of a task that is its own, and that `holder` completed. Any member can
    /// complete a task of its own with the digest of what another one holds.
    #[must_use]
    pub fn result(&self, holder: PublicKey, digest: &Digest) -> bool {
        let is_of = |task: &WorkItem| match &task.result {
            Some(Content::Reference(reference)) => reference.digest == *digest && task.last == Some(holder),
            _ => false,
        };
        self.is_whole || self.state.work().tasks().iter().any(|task| is_of(task) && self.task(task))
    }
}
