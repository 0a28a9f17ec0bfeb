//! Groups: nodes that agree on one state, and whom that state obeys.
//!
//! A group is named by the digest of its first charter, so that no other charter can found the same group. Whatever changes
//! who belongs to it is signed by the charter's owners, as many as its threshold says, never by a node alone.

mod charter;
mod command;
mod declaration;
mod deployment;
mod endorsed;
mod equivocation;
mod outline;
mod proposal;
mod template;
mod work;
mod work_id;
mod workflow;

use std::fmt;
use std::str::FromStr;

pub use charter::{Charter, Follows, Policy, REPLACE_AFTER_MS, Rule};
pub use command::{Author, Batch, Command, Founding, Join, Remove, Set};
pub use declaration::{Declaration, RULES, StateMark};
pub use deployment::Deployment;
pub use endorsed::{Dissolution, Endorsed, EndorsementError, Expulsion, Invitation, KeyLogs};
pub use equivocation::{Equivocated, Equivocation, EquivocationError, Said, SignedAppend};
pub use outline::Outline;
pub use proposal::{Amendment, Endorse, Motion, Propose, Replace};
pub use template::{Part, TemplateError, parts};
pub use work::{
    Abandon, Assign, Choice, Claim, Complete, ConflictRule, Content, Decline, Define, Depend, Fail, Needs, Priority,
    Reference, Refuse, Steal, Submit, Target,
};
pub use work_id::{WorkId, WorkIdError};
pub use workflow::{
    Action, Approve, Fire, Job, Missed, Overlap, Repeat, RunWorkflow, Schedule, Step, Test, When, Workflow,
    WorkflowError,
};

use crate::identity::{AgentId, IdentityError, PublisherId};
use crate::{Digest, digest};

/// The id of a group: the digest of its first charter. It is printed as a publisher's is, since a group publishes agents too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(PublisherId);

impl GroupId {
    /// The id with this digest.
    #[must_use]
    pub fn from_digest(digest: Digest) -> GroupId {
        GroupId(PublisherId::from_digest(digest))
    }

    /// The id of the group that `charter`, the first of its chain, founds.
    #[must_use]
    pub fn of(charter: &Charter) -> GroupId {
        GroupId::from_digest(digest(&minicbor::to_vec(charter).expect("writing to a vector cannot fail")))
    }

    /// The 32 bytes of the digest.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// The agent `name` of this group.
    ///
    /// # Errors
    /// [`IdentityError::AgentName`].
    pub fn agent(&self, name: &str) -> Result<AgentId, IdentityError> {
        AgentId::new(self.0, name)
    }
}

impl FromStr for GroupId {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<GroupId, IdentityError> {
        text.parse().map(GroupId)
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<C> minicbor::Encode<C> for GroupId {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut minicbor::Encoder<W>,
        context: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        self.0.encode(e, context)
    }
}

impl<'b, C> minicbor::Decode<'b, C> for GroupId {
    fn decode(d: &mut minicbor::Decoder<'b>, context: &mut C) -> Result<Self, minicbor::decode::Error> {
        PublisherId::decode(d, context).map(GroupId)
    }
}

#[cfg(test)]
mod tests;
