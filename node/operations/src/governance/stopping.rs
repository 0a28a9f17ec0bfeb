//! Stops agents by an order of their owner: on this node at once, on the owner's other nodes as soon as they hear of it, and, where
//! they are revoked, for everybody.

use althing_discovery::Query;
use althing_governance::{OwnerChange, records};
use althing_node::{NameHolder, Node, NodeError, end_revoked};
use althing_protocol::object::{OrderSubject, OrderWord};
use althing_protocol::{AgentId, PublicKey};

/// What is stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopTarget {
    /// One agent of the owner, by its name or its id.
    Agent(String),
    /// All of them.
    All,
}

/// What became of an order to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopReport {
    /// What holds from now on.
    pub word: OrderWord,
    /// Whether this node has the agent, or has heard of a node that does; true for all agents.
    pub is_known: bool,
    /// The owner's other nodes that are connected, and why they did not hear of it, if they did not.
    pub nodes: Vec<(PublicKey, Result<(), String>)>,
}

/// Stops an agent of the owner, or all of them; nobody may call what is revoked. What was revoked before stays so. It runs again once it
/// is added again.
///
/// # Errors
/// [`NodeError::NoAgent`] for another owner's, and those of the order.
pub async fn stop(node: &Node, target: &StopTarget, revoke: bool) -> Result<StopReport, NodeError> {
    let owner = node.owner();
    let wanted = if revoke { OrderWord::Revoke } else { OrderWord::Stop };
    let (subject, word, is_known) = match target {
        StopTarget::All => {
            let word = wanted.max(node.orders.word_of_all());
            (OrderSubject::AllAgents(word), word, true)
        }
        StopTarget::Agent(text) => {
            let agent = match text.parse::<AgentId>() {
                Ok(agent) if agent.publisher() == owner.id() => agent,
                Ok(_) => return Err(NodeError::NoAgent(text.clone())),
                Err(_) => AgentId::new(owner.id(), text)?,
            };
            let word = wanted.max(node.orders.word_of(&agent));
            (OrderSubject::Agent(agent.name().to_owned(), word), word, is_known(node, &agent)?)
        }
    };
    let what = if revoke { "revoking" } else { "stopping" };
    let after = match target {
        StopTarget::All => "all agents",
        StopTarget::Agent(agent) => agent,
    };
    let change = OwnerChange { what, agent: None, before: "", after };
    // What is stopped must stop, also where nothing can be recorded.
    records::change_in_any_case(&node.governance, change).await;
    let report = node.orders.give(subject, &owner).await?;
    // Their turns end before this is answered; no effect of theirs was permitted since the order was given.
    end_revoked(&node.agents).await;
    Ok(StopReport { word, is_known, nodes: report.nodes })
}

/// Whether this node has an agent, or has heard of a node that does.
fn is_known(node: &Node, agent: &AgentId) -> Result<bool, NodeError> {
    if node.discovery.is_hosted(agent.name()) || node.agents.names.holder(agent.name())? == Some(NameHolder::Agent) {
        return Ok(true);
    }
    let (all, _) = node.discovery.find(&Query::default());
    Ok(all.iter().any(|found| found.candidate.verified.agent == *agent))
}
