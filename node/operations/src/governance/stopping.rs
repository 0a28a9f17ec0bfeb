//! Stops agents by an order of their owner: on this node at once, on the owner's other nodes as soon as they hear of it, and, where
//! they are revoked, for everybody.

use althing_discovery::Query;
use althing_governance::{OwnerChange, records, stopped_questions};
use althing_node::{NameHolder, Node, NodeError, end_stopped};
use althing_protocol::object::{OrderSubject, OrderWord};
use althing_protocol::{AgentId, AgentRef, PublicKey};

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
    /// How many questions to people about what is stopped are over on this node by that, with each yes that was not used.
    pub questions: usize,
    /// Why they could not be ended, and wait on; none where they are over.
    pub unended: Option<String>,
}

/// Stops an agent of the owner, or all of them; nobody may call what is revoked. What was revoked before stays so. It runs again once it
/// is added again.
///
/// # Errors
/// [`NodeError::NoAgent`] for another owner's, and for one that nobody can have: no node that is known has it, no other node of the owner
/// is known, and it is neither to be revoked nor stopped already; and those of the order.
pub async fn stop(node: &Node, target: &StopTarget, revoke: bool) -> Result<StopReport, NodeError> {
    let owner = node.owner();
    let wanted = if revoke { OrderWord::Revoke } else { OrderWord::Stop };
    let (subject, word, is_known, stopped) = match target {
        StopTarget::All => {
            let word = wanted.max(node.orders.word_of_all());
            (OrderSubject::AllAgents(word), word, true, None)
        }
        StopTarget::Agent(text) => {
            let agent = match text.parse::<AgentId>() {
                Ok(agent) if agent.publisher() == owner.id() => agent,
                Ok(_) => return Err(NodeError::NoAgent(text.clone())),
                Err(_) => AgentId::new(owner.id(), text)?,
            };
            let word = wanted.max(node.orders.word_of(&agent));
            let is_known = is_known(node, &agent)?;
            // A revocation is for the nodes of others too, of which nobody knows all.
            let may_exist = is_known || revoke || node.orders.word_of(&agent) != OrderWord::Lift || has_others(node);
            if !may_exist {
                return Err(NodeError::NoAgent(text.clone()));
            }
            let subject = OrderSubject::Agent(agent.name().to_owned(), word);
            // All of its versions.
            (subject, word, is_known, Some(AgentRef { id: agent, version: "".into() }))
        }
    };
    let what = if revoke { "revoking" } else { "stopping" };
    let after = match target {
        StopTarget::All => "all agents",
        StopTarget::Agent(agent) => agent,
    };
    let change = OwnerChange { what, agent: stopped.as_ref(), before: "", after };
    let is_stopped = |agent: &AgentId| match &stopped {
        Some(one) => *agent == one.id,
        None => agent.publisher() == owner.id(),
    };
    let before = stopped_questions(&node.governance, is_stopped);
    // What is stopped must stop, also where nothing can be recorded.
    records::change_in_any_case(&node.governance, change).await;
    let report = node.orders.give(subject, &owner).await?;
    // Their turns end before this is answered; no effect of theirs was permitted since the order was given.
    let unended = end_stopped(&node.agents).await.err().map(|error| error.to_string());
    // What was asked until then counts too, and also what was ended by whoever hears of orders.
    let questions = stopped_questions(&node.governance, is_stopped).difference(&before).count();
    Ok(StopReport { word, is_known, nodes: report.nodes, questions, unended })
}

/// Whether this node has an agent, or has heard of a node that does.
fn is_known(node: &Node, agent: &AgentId) -> Result<bool, NodeError> {
    if node.discovery.is_hosted(agent.name()) || node.agents.names.holder(agent.name())? == Some(NameHolder::Agent) {
        return Ok(true);
    }
    let (all, _) = node.discovery.find(&Query::default());
    Ok(all.iter().any(|found| found.candidate.verified.agent == *agent))
}

/// Whether another node of the owner is connected, or remembered: it may have agents of which nothing was heard here.
fn has_others(node: &Node) -> bool {
    let owner = node.owner().id();
    let connected = node.communication.network().connected();
    // What is remembered as near may be one that is trusted only: then one order too many is given.
    connected.into_iter().any(|peer| node.communication.owner(peer) == Some(owner))
        || node.discovery.remembered().near > 0
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use althing_calls::{Decide, Decision, IncomingRequest, Judgement, OutgoingRequest, Principal, TrustRelation};
    use althing_governance::Actor;
    use althing_protocol::PublisherId;
    use althing_store::MemoryStore;
    use althing_testing_store::{FaultStore, WriteEnd};

    use super::*;
    use crate::tests::{program, started, started_on};

    /// Contracts that permit everything.
    struct Open;

    impl Decide for Open {
        fn decide(&self, _: &OutgoingRequest<'_>) -> Judgement {
            Judgement::Now(Decision::Allow)
        }
        fn decide_incoming(&self, _: &IncomingRequest<'_>) -> Judgement {
            Judgement::Now(Decision::Allow)
        }
        fn relation(&self, _: PublisherId) -> TrustRelation {
            TrustRelation::Own
        }
        fn near(&self) -> Vec<PublisherId> {
            Vec::new()
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_report_says_what_is_over_and_why_something_waits_on() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let store = FaultStore::over(MemoryStore::new(&crate::FAMILIES));
        let (node, _owner) = started_on(folder.path(), Arc::new(store.clone())).await.expect("it starts");
        node.agents.add(program("clerk", false), folder.path(), None, true).await.expect("it is added");
        let policies = "@ask(\"look at it\") permit(principal, action, resource);";
        node.governance.load_policy(policies, Actor::Owner).await.expect("they are good");
        let (agent, principals) = (AgentId::new(node.owner().id(), "clerk").expect("a name"), [Principal::Local]);
        let sent = OutgoingRequest::Message {
            agent: &agent,
            version: None,
            principals: &principals,
            label: None,
            content: None,
        };
        let decided = node.governance.decide(Arc::new(Open)).decide(&sent).decision().await;
        assert!(matches!(decided, Decision::Ask(_)), "{decided:?}");

        let clerk = StopTarget::Agent("clerk".to_owned());
        // Nothing about questions is written.
        store.decide(|batch, _| match batch.changes().any(|(family, ..)| family.0 == "governance.asks") {
            true => WriteEnd::Full { is_applied: false },
            false => WriteEnd::Done,
        });
        let report = stop(&node, &clerk, false).await.expect("it is stopped");
        let why = report.unended.expect("its question waits");
        assert!(why.contains("/full") && node.governance.pending().len() == 1, "{why}");
        assert_eq!(report.questions, 0, "none is over");
        store.set_full(false);
        let report = stop(&node, &clerk, false).await.expect("it is stopped");
        assert_eq!((report.questions, report.unended), (1, None));
        assert!(node.governance.pending().is_empty());
        assert_eq!(stop(&node, &clerk, false).await.expect("it is stopped").questions, 0, "it was over before");
        node.shut_down().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_name_that_nobody_has_is_not_stopped() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let (node, _owner) = started(folder.path()).await;
        node.agents.add(program("clerk", false), folder.path(), None, true).await.expect("it is added");
        let named = |name: &str| StopTarget::Agent(name.to_owned());
        let id = AgentId::new(node.owner().id(), "clerck").expect("a name");
        for name in ["clerck", id.to_string().as_str()] {
            let none = stop(&node, &named(name), false).await;
            assert!(matches!(&none, Err(NodeError::NoAgent(_))), "{name}: {none:?}");
        }
        assert_eq!(node.orders.word_of(&id), OrderWord::Lift, "nothing was ordered");
        assert!(stop(&node, &named("clerk"), false).await.expect("it is there").is_known);
        // Others may have what is revoked; and what was, may be stopped once more.
        for revoke in [true, false] {
            let report = stop(&node, &named("clerck"), revoke).await.expect("it is ordered");
            assert_eq!((report.word, report.is_known), (OrderWord::Revoke, false));
        }
        node.shut_down().await;
    }
}
