//! Why an operation of the node failed. The command line maps these to exit codes, each face to its own answers.

use std::path::PathBuf;

use althing_calls::TaskStoreError;
use althing_communication::AcceptError;
use althing_coordination::GroupError;
use althing_execution::StartError;
use althing_execution::kernel::LeaseError;
use althing_failure::{AgentStep, Kind, RegistryStep, Remedy};
use althing_governance::NodeProfile;
use althing_governance::machine::node_profile::{ProfileGap, UngatedAgent};
use althing_governance::machine::orders::OrderError;
use althing_protocol::IdentityError;
use althing_protocol::object::ObjectError;
use althing_store::file::FileError;
use althing_store::{ReadError, WriteError};
use althing_td::AgentFileError;

use crate::owner::OwnerError;
use crate::revocations::RevocationError;
use crate::rollouts::RolloutError;

/// Why an operation of the node failed.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The task store cannot be opened.
    #[error(transparent)]
    Tasks(#[from] TaskStoreError),
    /// What governance goes by cannot be read.
    #[error(transparent)]
    Governance(#[from] althing_governance::OpenError),
    /// The owner's policies do not permit it.
    #[error(transparent)]
    Forbidden(#[from] althing_governance::PolicyRefusal),
    /// What must be on record cannot be recorded.
    #[error(transparent)]
    Unrecorded(#[from] althing_governance::RecordError),
    /// Another handler serves a protocol of the node's.
    #[error(transparent)]
    Accept(#[from] AcceptError),
    /// The owner's keys.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// An object could not be signed or verified.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// An identifier is invalid.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The agent file is wrong.
    #[error(transparent)]
    File(#[from] AgentFileError),
    /// The agent cannot be started, or bound.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The agent's reservation cannot be claimed.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The node has an agent of that name.
    #[error("this node has an agent {0:?} already")]
    AgentExists(String),
    /// A workflow that was installed has that name.
    #[error("a workflow that was installed on this node has the name {0:?}")]
    WorkflowExists(String),
    /// Nobody agreed to what an agent would be given more than was agreed to here, or to a program of it without a sandbox.
    #[error("{0:?} would reach more than was agreed to here for that name or that file, and nobody agreed to that")]
    Wider(String),
    /// An agent of that name runs for `althing run`.
    #[error("this node runs an agent {0:?} already")]
    AgentRuns(String),
    /// The node has the maximum number of agents.
    #[error("a node hosts at most {0} agents")]
    TooManyAgents(usize),
    /// The node has no agent of that name.
    #[error("this node has no agent {0:?}")]
    NoAgent(String),
    /// A group placed the agent here.
    #[error("the group {group} placed the agent {agent:?} on this node")]
    OfGroup {
        /// The agent.
        agent: String,
        /// The group.
        group: String,
    },
    /// An agent that a group places here cannot be read.
    #[error("the group {group} places the agent {agent:?} here, and {why}")]
    Deployment {
        /// The group.
        group: String,
        /// The agent.
        agent: String,
        /// What is wrong.
        why: String,
    },
    /// Neither an agent nor a manifest has that name or hash.
    #[error("no agent {0:?} runs on this node, and no manifest of that hash was sealed here")]
    NoBinding(String),
    /// Its publisher revoked the release.
    #[error("{0}")]
    Revoked(String),
    /// What is kept of registries cannot be read.
    #[error("what is kept of registries: {why}")]
    Registries {
        /// Why not.
        why: String,
        /// What to do next.
        remedy: Option<Box<Remedy>>,
    },
    /// The owner stopped the agent, or revoked it.
    #[error("{0}")]
    Stopped(String),
    /// Something is missing that the node's profile demands.
    #[error("the node does not start: its profile is {profile}, and\n{}", lines(.gaps))]
    Profile {
        /// Which.
        profile: NodeProfile,
        /// All that is missing.
        gaps: Vec<ProfileGap>,
    },
    /// The node's profile demands that something looks at what the agent answers.
    #[error("it does not start on this node, whose profile is {profile}: {}", ProfileGap::Gate(.agent.clone()))]
    Ungated {
        /// Which.
        profile: NodeProfile,
        /// The agent, and what it may call.
        agent: UngatedAgent,
    },
    /// An order of an owner does not count.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// What is kept of orders cannot be read.
    #[error("what is kept of orders ({of}): {why}")]
    Orders {
        /// Whose order it is, and what it is about.
        of: String,
        /// What is wrong.
        why: String,
    },
    /// A rollout is not begun, or not changed.
    #[error(transparent)]
    Rollout(#[from] RolloutError),
    /// No policy set is in force.
    #[error("no policy set is in force on this node, so there is none to give to the owner's other nodes")]
    NoPolicySet,
    /// The owner revoked its keys.
    #[error("the owner revoked its keys: no agent can run on this node")]
    OwnerRevoked,
    /// The owner withdrew the node.
    #[error("the owner has taken back what it let this node do")]
    NodeWithdrawn,
    /// The tool definitions of when the agent was added are not stored.
    #[error("the tool definitions of when agent {0:?} was added are not stored, and nobody agreed to those of now")]
    ToolsUnknown(String),
    /// A row of the store about an agent is damaged.
    #[error("agent {name:?} as stored {why}")]
    StoredAgent {
        /// Its name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// The agent file names a role, and the node has none.
    #[error("the agent file names a role, and `[binding] roles` of this node names no folder")]
    NoRoles,
    /// A policy or role cannot be read.
    #[error("the {what} {}: {why}", .path.display())]
    Policy {
        /// `policy` or `role`.
        what: &'static str,
        /// Its file.
        path: PathBuf,
        /// Why.
        why: PolicyError,
    },
    /// The contract, merged with its role and the node's policy, is invalid.
    #[error("the contract, merged with its role and this node's policy, is invalid: {0}")]
    Contract(String),
    /// An operation of the node panicked.
    #[error("an operation of the node panicked: {0}")]
    Broken(#[from] tokio::task::JoinError),
    /// What the node keeps of its groups cannot be read.
    #[error(transparent)]
    Groups(#[from] GroupError),
    /// A value cannot be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Why a policy or role cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// Its file.
    #[error(transparent)]
    File(#[from] FileError),
    /// What it holds.
    #[error(transparent)]
    Contract(#[from] AgentFileError),
}

impl From<RevocationError> for NodeError {
    fn from(error: RevocationError) -> NodeError {
        NodeError::Registries { why: error.to_string(), remedy: None }
    }
}

/// Each on a line of its own.
fn lines(gaps: &[ProfileGap]) -> String {
    gaps.iter().map(|gap| format!("- {gap}")).collect::<Vec<_>>().join("\n")
}

impl NodeError {
    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        use althing_execution::kernel::AdmitError;
        match self {
            NodeError::Owner(error) => error.kind(),
            NodeError::Rollout(error) => error.kind(),
            NodeError::Start(StartError::Admission { reason: AdmitError::NotProbed, .. }) => Kind::NotYet,
            NodeError::Start(
                StartError::Admission { .. } | StartError::Unbound { .. } | StartError::Forbidden { .. },
            )
            | NodeError::Lease(LeaseError::TooMany(_) | LeaseError::NotConfirmed | LeaseError::AnotherContract)
            | NodeError::Forbidden(_)
            | NodeError::OwnerRevoked
            | NodeError::Revoked(_)
            | NodeError::Stopped(_)
            | NodeError::NoPolicySet
            | NodeError::NodeWithdrawn
            | NodeError::Wider(_)
            | NodeError::WorkflowExists(_)
            | NodeError::OfGroup { .. }
            | NodeError::Profile { .. }
            | NodeError::Ungated { .. }
            | NodeError::ToolsUnknown(_) => Kind::Refused,
            NodeError::Start(_)
            | NodeError::File(_)
            | NodeError::Identity(_)
            | NodeError::NoRoles
            | NodeError::Policy { .. }
            | NodeError::Contract(_) => Kind::Invalid,
            NodeError::AgentExists(_) | NodeError::AgentRuns(_) | NodeError::TooManyAgents(_) => Kind::Conflict,
            NodeError::NoAgent(_) | NodeError::NoBinding(_) | NodeError::Lease(LeaseError::Unknown) => Kind::NotFound,
            NodeError::Read(_)
            | NodeError::Write(_)
            | NodeError::Tasks(_)
            | NodeError::Governance(_)
            | NodeError::Unrecorded(_)
            | NodeError::Accept(_)
            | NodeError::Object(_)
            | NodeError::StoredAgent { .. }
            | NodeError::Deployment { .. }
            | NodeError::Broken(_)
            | NodeError::Groups(_)
            | NodeError::Registries { .. }
            | NodeError::Order(_)
            | NodeError::Orders { .. }
            | NodeError::Json(_) => Kind::Failed,
        }
    }

    /// What to do next, where that is a step of its own.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        Some(match self {
            NodeError::Owner(error) => return error.remedy(),
            NodeError::Groups(error) => return error.remedy(),
            NodeError::Start(error) => return error.remedy(),
            NodeError::Registries { remedy, .. } => return remedy.as_deref().cloned(),
            NodeError::AgentExists(name) => AgentStep::Remove(name.clone()).into(),
            NodeError::WorkflowExists(name) => RegistryStep::RenameOrUninstall(name.clone()).into(),
            NodeError::Wider(_) => AgentStep::Agree.into(),
            NodeError::AgentRuns(_) => AgentStep::EndRun.into(),
            NodeError::TooManyAgents(_) => AgentStep::MakeRoom.into(),
            NodeError::NoAgent(_) => AgentStep::List.into(),
            NodeError::OfGroup { .. } => AgentStep::RemoveApp.into(),
            NodeError::ToolsUnknown(name) => AgentStep::Rebind(name.clone()).into(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_already_is_a_conflict() {
        let name = || "echo".to_owned();
        for error in [NodeError::AgentExists(name()), NodeError::AgentRuns(name()), NodeError::TooManyAgents(256)] {
            assert_eq!(error.kind(), Kind::Conflict, "{error}");
        }
    }

    #[test]
    fn a_failure_names_its_next_step_and_its_text_no_command() {
        let name = || "echo".to_owned();
        let table: [(NodeError, Option<Remedy>); 6] = [
            (NodeError::AgentExists(name()), Some(AgentStep::Remove(name()).into())),
            (NodeError::WorkflowExists(name()), Some(RegistryStep::RenameOrUninstall(name()).into())),
            (NodeError::NoAgent(name()), Some(AgentStep::List.into())),
            (NodeError::ToolsUnknown(name()), Some(AgentStep::Rebind(name()).into())),
            (
                NodeError::Registries { why: "none".to_owned(), remedy: Some(Box::new(RegistryStep::Follow.into())) },
                Some(RegistryStep::Follow.into()),
            ),
            (NodeError::OwnerRevoked, None),
        ];
        for (error, remedy) in table {
            assert_eq!(error.remedy(), remedy, "{error}");
            assert!(!error.to_string().contains('`'), "{error}");
        }
    }
}
