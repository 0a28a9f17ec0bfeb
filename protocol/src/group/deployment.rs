//! Deployments: an owner says which agent runs on how many of its nodes in a group.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::GroupId;
use super::work::named;
use crate::identity::{AgentId, PublisherId};
use crate::limits::{DEPLOYMENT_FILE_BYTES_MAX, DEPLOYMENT_INSTANCES_MAX, DEPLOYMENT_NEEDS_MAX, WORK_LABELS_MAX};
use crate::object::{Kind, ObjectError, Statement};

/// An agent that members of a group host: nodes of the owner that signs this, and no others.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Deployment {
    #[n(0)]
    kind: Kind,
    /// Of which group.
    #[n(1)]
    pub group: GroupId,
    /// Who signs it: the agent is its own.
    #[n(2)]
    pub owner: PublisherId,
    /// The agent's name.
    #[n(3)]
    pub agent: String,
    /// The agent file, as JSON. What it means is not a group's business.
    #[n(4)]
    pub file: ByteVec,
    /// Where relative paths in the file begin.
    #[n(5)]
    pub folder: String,
    /// On so many members; 0: on each.
    #[n(6)]
    pub instances: u8,
    /// Labels that a member must have.
    #[n(7)]
    pub labels: Vec<String>,
    /// Agents that must be hosted in the group before this one is.
    #[n(8)]
    pub needs: Vec<String>,
    /// The application that it is part of.
    #[n(9)]
    pub app: Option<String>,
    /// When it was made, Unix milliseconds: a later one of the same agent replaces it.
    #[n(10)]
    pub made_ms: u64,
    /// On so many members at most, more than `instances` while there are more tasks for it.
    #[n(11)]
    pub instances_max: Option<u8>,
}

impl Deployment {
    /// A deployment on one member, to be signed.
    #[must_use]
    pub fn new(group: GroupId, owner: PublisherId, agent: &str, file: Vec<u8>, made_ms: u64) -> Deployment {
        Deployment {
            kind: Kind::Deployment,
            group,
            owner,
            agent: agent.to_owned(),
            file: file.into(),
            folder: String::new(),
            instances: 1,
            labels: Vec::new(),
            needs: Vec::new(),
            app: None,
            made_ms,
            instances_max: None,
        }
    }
}

impl Statement for Deployment {
    const KIND: Kind = Kind::Deployment;

    fn kind(&self) -> Kind {
        self.kind
    }

    fn check(&self) -> Result<(), ObjectError> {
        let wrong = |what: String| Err(ObjectError::Shape(what));
        for name in self.needs.iter().chain([&self.agent]).chain(&self.app) {
            // The rule for agents' names holds for applications too.
            AgentId::new(self.owner, name).map_err(|error| ObjectError::Shape(error.to_string()))?;
        }
        self.labels.iter().try_for_each(|label| named("a label", label))?;
        if self.file.len() > DEPLOYMENT_FILE_BYTES_MAX {
            return wrong(format!("the agent file has at most {DEPLOYMENT_FILE_BYTES_MAX} bytes as JSON"));
        }
        if self.instances > DEPLOYMENT_INSTANCES_MAX || self.folder.len() > DEPLOYMENT_FILE_BYTES_MAX {
            return wrong(format!("an agent has at most {DEPLOYMENT_INSTANCES_MAX} instances, or one on each member"));
        }
        let is_bound = |most: u8| self.instances > 0 && (self.instances..=DEPLOYMENT_INSTANCES_MAX).contains(&most);
        if !self.instances_max.is_none_or(is_bound) {
            return wrong(format!(
                "the most instances are `instances` to {DEPLOYMENT_INSTANCES_MAX}, of an agent that is not on each member"
            ));
        }
        if self.labels.len() > WORK_LABELS_MAX || self.needs.len() > DEPLOYMENT_NEEDS_MAX {
            return wrong(format!("at most {WORK_LABELS_MAX} labels, and {DEPLOYMENT_NEEDS_MAX} agents that it needs"));
        }
        Ok(())
    }
}
