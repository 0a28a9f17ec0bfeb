//! What the profile of a node demands before the node starts, and of each agent that starts on it.

use althing_execution::Host;
use althing_governance::machine::node_profile::{APPROVER_ROLE, Demand, ProfileFacts, UngatedAgent, ungated_tool};
use althing_governance::machine::profile::Statements;
use althing_governance::{Governance, NodeProfile};
use althing_store::Store;
use althing_td::{AgentFile, RuntimeSpec};

use crate::config::GovernanceTerms;
use crate::error::NodeError;
use crate::publish;

/// Refuses to go on where something is missing that the profile demands.
pub(crate) fn check(
    terms: &GovernanceTerms,
    governance: &Governance,
    host: &Host,
    store: &dyn Store,
) -> Result<(), NodeError> {
    let GovernanceTerms { profile, witnesses } = terms;
    let mut ungated = Vec::new();
    // Agents of `once` are forgotten when the node starts.
    for added in publish::all(store)?.into_iter().filter(|added| !added.once) {
        ungated.extend(ungated_agent(*profile, host, &added.file));
    }
    let approvers = governance.people().able(APPROVER_ROLE);
    let gaps = profile.gaps(&ProfileFacts { witnesses: witnesses.len(), approvers, ungated });
    if gaps.is_empty() { Ok(()) } else { Err(NodeError::Profile { profile: *profile, gaps }) }
}

/// Refuses an agent that the profile does not let run.
pub(crate) fn check_agent(profile: NodeProfile, host: &Host, file: &AgentFile) -> Result<(), NodeError> {
    match ungated_agent(profile, host, file) {
        Some(agent) => Err(NodeError::Ungated { profile, agent }),
        None => Ok(()),
    }
}

/// The agent, if the profile demands that gates look at what it answers, and none does.
fn ungated_agent(profile: NodeProfile, host: &Host, file: &AgentFile) -> Option<UngatedAgent> {
    if !profile.demands(Demand::Gates) {
        return None;
    }
    let said = host.ports.statements(file);
    let ([node_effects, file_effects], [node_terms, file_terms]) = (&said.effects, &said.terms);
    let of_file =
        Statements { effects: [node_effects, file_effects], terms: [node_terms, file_terms], here: &said.here };
    let is_model = matches!(file.runtime, RuntimeSpec::Model { .. });
    let tool = ungated_tool(file.contract.as_ref()?, is_model, of_file)?;
    Some(UngatedAgent { agent: file.name.clone(), tool })
}

/// What whoever starts a node with this profile should know.
pub(crate) fn note(profile: NodeProfile) -> Option<String> {
    let unseen = profile.blind_spots()?;
    Some(format!("the profile {profile} is fulfilled; it does not check {unseen}"))
}
