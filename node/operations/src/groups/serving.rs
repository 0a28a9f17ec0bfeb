//! Agents that stand for a group: each member of their owner hosts one, and it has the group do what it is told.

use std::collections::BTreeSet;

use althing_coordination::{GroupAgents, GroupError};
use althing_discovery::Query;
use althing_protocol::PublicKey;
use althing_protocol::group::{Deployment, GroupId};
use althing_td::AgentFile;

use super::apps::{AGENTS_MAX, AppError, POLL, STARTED_MAX};
use super::machine::app::PlanError;
use crate::operations::Operations;

/// Has each member of this node's owner host an agent that stands for the group, and waits until this node does. How many
/// members are known to have another agent with the capability that it names first; none if it names none.
///
/// # Errors
/// See [`AppError`].
pub async fn serve(node: &Operations, group: GroupId, file: &AgentFile) -> Result<Option<usize>, AppError> {
    let name = file.name.as_str();
    let bytes = serde_json::to_vec(file).map_err(|_| PlanError::File(name.to_owned()))?;
    let on_each = |mut made: Deployment| {
        made.instances = 0;
        made
    };
    GroupAgents::of(&node.groups, group).deploy(name, bytes, on_each).await?;
    let until = tokio::time::Instant::now() + STARTED_MAX;
    while node.agents.status(name).is_none() && tokio::time::Instant::now() < until {
        tokio::time::sleep(POLL).await;
    }
    let capability = file.skills.first().map(|skill| skill.id.as_str());
    Ok(capability.map(|capability| able(node, group, capability, name)).transpose()?)
}

/// How many members are known to host an agent with that capability, other than the group's own.
fn able(node: &Operations, group: GroupId, capability: &str, own: &str) -> Result<usize, GroupError> {
    let query = Query { capability: Some(capability.to_owned()), limit: Some(AGENTS_MAX), ..Query::default() };
    let (found, _) = node.discovery.find(&query);
    let found = found.iter().filter(|found| found.candidate.verified.agent.name() != own);
    let nodes: BTreeSet<PublicKey> = found.map(|found| found.node).collect();
    node.groups.look(group, |state| state.members().iter().filter(|(key, _)| nodes.contains(*key)).count())
}
