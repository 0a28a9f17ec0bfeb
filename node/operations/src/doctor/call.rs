//! Diagnoses why an agent cannot be called from this node: it is looked up, its hosts are reached, and one of them is asked for
//! this node's tasks with it, which starts nothing.

use althing_calls::{
    Among, Asker, CallRequest, Callee, Operation, OperationError, OperationRequest, Principal, Purpose, Refusal,
};
use althing_execution::AgentState;
use althing_failure::{AgentStep, CallStep, NodeStep, RegistryStep, Remedy};
use althing_governance::is_policy_denial;
use althing_node::Node;
use althing_node::publish;
use althing_protocol::object::OrderWord;
use althing_protocol::{AgentId, PublicKey, near};

use super::finding::{Finding, fine, wrong};
use super::gather::is_suspended;
use super::{Report, Storage, short};

/// What a call of an agent met on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallPath {
    /// No agent of that name or identifier is known, and why.
    Unknown(String),
    /// It was added to this node, which stopped it because its release was revoked: by whom, and why.
    Stopped(String),
    /// This node's owner ordered that it stops.
    StopOrder {
        /// The agent's name.
        agent: String,
        /// Whether nobody is to call it any more: it was revoked, and not only stopped.
        is_revoked: bool,
    },
    /// It is known, and its hosts were asked in this order.
    Asked {
        /// The agent's name.
        agent: String,
        /// The hosts, each by its short name, and whether there is a connection; this node counts as connected.
        hosts: Vec<(String, bool)>,
        /// Why it does not run, if this node hosts it and it does not.
        down: Option<AgentOutage>,
        /// The refusal, and its text; none where the agent answers.
        refused: Option<(Refusal, String)>,
    },
}

/// Why an agent of this node does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentOutage {
    /// Why, for people.
    pub why: String,
    /// Whether it is a control loop that runs no more jobs until it is added again.
    pub is_suspended: bool,
}

/// Examines the way to an agent.
pub async fn examine_call(node: &Node, agent: &str, among: Among) -> Report {
    let mut findings = diagnose_call(&walk(node, agent, among).await);
    // A call that is only read for does not meet it.
    let mut storage = Vec::new();
    super::storage::judge(&Storage::look(node).await, 0, &mut storage);
    findings.extend(storage.into_iter().filter(|finding| !finding.fine));
    Report { findings, dialled_back: Vec::new() }
}

async fn walk(node: &Node, name: &str, among: Among) -> CallPath {
    if let Some(ordered) = added_here(node, name).and_then(|agent| stop_order(node, &agent)) {
        return ordered;
    }
    let callee = Callee::Named(name.to_owned(), among);
    let agent = match node.calls.target(&Asker::Owner, &callee, Purpose::Read).await {
        Ok(target) => target.agent,
        Err(error) if error.refusal == Refusal::AgentRevoked => {
            // It may be on another node of this one's owner.
            let meant = name.parse::<AgentId>().ok().or_else(|| AgentId::new(node.owner().id(), name).ok());
            let ordered = meant.and_then(|agent| stop_order(node, &agent));
            return ordered.unwrap_or(CallPath::Stopped(error.message));
        }
        Err(error) => return CallPath::Unknown(error.message + &meant(node, name)),
    };
    if let Some(ordered) = stop_order(node, &agent) {
        return ordered;
    }
    let hosts = node.discovery.search_hosts(&agent).await;
    let network = node.communication.network();
    // The call connects to hosts that it is not connected to yet.
    let asked = ask(node, &agent).await;
    let connected = network.connected();
    let local = network.local();
    let reached = |host: &PublicKey| (short(&host.did()), *host == local || connected.contains(host));
    CallPath::Asked {
        down: hosts.contains(&local).then(|| down(node, agent.name())).flatten(),
        hosts: hosts.iter().map(reached).collect(),
        agent: agent.name().to_owned(),
        refused: asked.err().map(|error| (error.refusal.clone(), error.message)),
    }
}

/// The agent of that name or id, if it was added to this node.
fn added_here(node: &Node, name: &str) -> Option<AgentId> {
    let owner = node.owner();
    let known = publish::all(node.store.as_ref()).unwrap_or_default();
    let ids = known.into_iter().filter_map(|added| publish::agent_id(&owner, &added.file).ok());
    ids.into_iter().find(|id| id.name() == name || id.to_string() == name)
}

/// Which agent of this node may be meant by a name that nothing has; nothing where none is like it.
fn meant(node: &Node, name: &str) -> String {
    let known = publish::all(node.store.as_ref()).unwrap_or_default();
    near::hint(name, known.iter().map(|added| added.file.name.as_str()))
}

/// What this node's owner ordered of an agent of its own, if that keeps it from running.
fn stop_order(node: &Node, agent: &AgentId) -> Option<CallPath> {
    let is_revoked = match node.orders.word_of(agent) {
        OrderWord::Lift => return None,
        OrderWord::Stop => false,
        OrderWord::Revoke => true,
    };
    let is_own = agent.publisher() == node.owner().id();
    is_own.then(|| CallPath::StopOrder { agent: agent.name().to_owned(), is_revoked })
}

/// Asks for the newest of this node's tasks with the agent.
async fn ask(node: &Node, agent: &AgentId) -> Result<(), OperationError> {
    let request = OperationRequest::parse(Operation::ListTasks, br#"{"pageSize":1}"#.to_vec())?;
    let target = node.calls.target(&Asker::Owner, &Callee::Id(agent.clone()), Purpose::Call).await?;
    node.calls.ask(CallRequest::new(target, request, vec![Principal::Local])).await.map(drop)
}

/// Why an agent of this node does not run.
fn down(node: &Node, name: &str) -> Option<AgentOutage> {
    if let Some(why) = node.agents.starts.failed().get(name) {
        return Some(AgentOutage { why: why.clone(), is_suspended: false });
    }
    let agent = node.host.status().into_iter().find(|agent| agent.name == name)?;
    let is_suspended = is_suspended(&agent);
    match agent.state {
        AgentState::Restarting { why, .. } | AgentState::Suspended { why } | AgentState::Unreachable { why } => {
            Some(AgentOutage { why, is_suspended })
        }
        AgentState::Ready | AgentState::Starting | AgentState::Degraded { .. } => None,
    }
}

/// Judges the way to an agent, layer by layer; the first layer at fault is the last finding.
#[must_use]
pub fn diagnose_call(path: &CallPath) -> Vec<Finding> {
    let (agent, hosts, down, refused) = match path {
        CallPath::Unknown(why) => {
            return vec![wrong("L3", why.clone(), "").then(CallStep::CheckName)];
        }
        CallPath::Stopped(why) => return vec![stopped(why)],
        CallPath::StopOrder { agent, is_revoked } => {
            let what = match is_revoked {
                true => format!("{agent:?} was revoked by its owner, for everybody who calls it"),
                false => format!("{agent:?} was stopped by its owner, on all of the owner's nodes"),
            };
            let remedy = "it does nothing until its owner starts it again";
            return vec![wrong("L7", what, remedy).then(AgentStep::AddAgain(agent.clone()))];
        }
        CallPath::Asked { hosts, refused: Some((Refusal::AgentRevoked, why)), .. } if hosts.is_empty() => {
            return vec![stopped(why)];
        }
        CallPath::Asked { agent, hosts, down, refused } => (agent, hosts, down, refused),
    };
    let named = |(host, connected): &(String, bool)| {
        if *connected { host.clone() } else { format!("{host} (not connected)") }
    };
    let names: Vec<String> = hosts.iter().map(named).collect();
    if hosts.is_empty() {
        return vec![wrong(
            "L3",
            format!("{agent:?} is known, and no node is found that hosts it now"),
            "start its node; a host that left is forgotten after some minutes",
        )];
    }
    let mut findings = vec![fine("L3", format!("{agent:?} is hosted by {}", names.join(", ")))];
    if let Some(AgentOutage { why, is_suspended }) = down {
        let told = |remedy| wrong("L1", format!("{agent:?} does not run on this node: {why}"), remedy);
        findings.push(match is_suspended {
            true => told("").then(AgentStep::StartAgain(agent.clone())),
            false => told("fix that; the node tries again by itself").then(NodeStep::Diagnose),
        });
        return findings;
    }
    let Some((refusal, why)) = refused else {
        findings.push(fine("L2", format!("{agent:?} answers this node")));
        return findings;
    };
    let (layer, remedy, next) = fault(refusal, why);
    findings.push(Finding { next, ..wrong(layer, format!("a call of {agent:?} fails: {why}"), remedy) });
    findings
}

/// An agent of this node that was stopped, since its release was revoked.
fn stopped(why: &str) -> Finding {
    wrong("L1", why, "it runs no more in that version").then(AgentStep::UpdateInstalled)
}

/// The layer at fault, what to do, and the step that does it or goes on from there.
fn fault(refusal: &Refusal, why: &str) -> (&'static str, &'static str, Option<Remedy>) {
    let next = |step: NodeStep| Some(step.into());
    match refusal {
        Refusal::AgentUnreachable => (
            "L2",
            "check that its node runs and that this machine can reach it: firewalls, networks",
            next(NodeStep::DiagnoseBoth),
        ),
        Refusal::CallerNotAllowed if is_policy_denial(why) => (
            "L7",
            "a policy of the owner who refuses must permit it: a permit whose principal, action and resource are those of the reason",
            next(NodeStep::LoadPolicy),
        ),
        Refusal::CallerNotAllowed => (
            "L2",
            "its owner decides who may call it: ask to be trusted there, or for `callers` of its agent file to admit you",
            None,
        ),
        Refusal::ConsentRequired { .. } => {
            ("L2", "somebody must consent to calls of it first, and nobody is asked for one that only looks", None)
        }
        Refusal::AgentRevoked => (
            "L3",
            "its owner stopped it, or its publisher revoked that version: ask them, or install another one",
            Some(RegistryStep::ListReleases.into()),
        ),
        Refusal::AgentUnknown | Refusal::AgentNotHere => {
            ("L3", "its host does not have it any more, or not for this node's owner", Some(CallStep::FindAgain.into()))
        }
        Refusal::VersionNotSupported | Refusal::MethodNotFound | Refusal::OfNewerNode(_) => {
            ("L2", "the two nodes speak different versions: upgrade the older one", None)
        }
        Refusal::Overloaded | Refusal::TurnLeft | Refusal::Redirected { .. } | Refusal::TaskMoved { .. } => {
            ("L1", "its node has too much to do: try again later, or host it on more nodes", None)
        }
        Refusal::DiskFull => ("L1", "the disk of its node is full: its operator has to free space there", None),
        Refusal::StoreStopped => ("L1", "the store of its node takes no writes", next(NodeStep::DiagnoseThere)),
        Refusal::DeadlineExceeded => ("L1", "its node did not answer in time", next(NodeStep::LookAtLoad)),
        _ => ("L1", "look at the agent on its node", Some(AgentStep::LookAt.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(refused: Option<Refusal>) -> CallPath {
        CallPath::Asked {
            agent: "billing".to_owned(),
            hosts: vec![("z6Mk".to_owned(), true)],
            down: None,
            refused: refused.map(|refusal| (refusal, "why".to_owned())),
        }
    }

    fn first_wrong(path: &CallPath) -> Option<&'static str> {
        let findings = diagnose_call(path);
        let wrong: Vec<&Finding> = findings.iter().filter(|finding| !finding.fine).collect();
        let says = |finding: &&Finding| !finding.remedy.is_empty() || finding.next.is_some();
        assert!(wrong.iter().all(says) && wrong.len() <= 1, "{findings:?}");
        wrong.first().map(|finding| finding.layer)
    }

    #[test]
    fn the_layer_at_fault_is_named() {
        assert_eq!(first_wrong(&asked(None)), None);
        assert_eq!(first_wrong(&CallPath::Unknown("no such agent".to_owned())), Some("L3"));
        assert_eq!(first_wrong(&CallPath::Stopped("it leaks".to_owned())), Some("L1"), "it is known, and does not run");
        for (is_revoked, what) in [(false, "was stopped by its owner"), (true, "was revoked by its owner")] {
            let ordered = CallPath::StopOrder { agent: "billing".to_owned(), is_revoked };
            assert_eq!(first_wrong(&ordered), Some("L7"), "its owner wanted that");
            assert!(diagnose_call(&ordered)[0].what.contains(what), "{ordered:?}");
        }
        let reason = "no policy of the owner permits it: Action::\"call\"".to_owned();
        let CallPath::Asked { agent, hosts, .. } = asked(None) else { unreachable!() };
        let denied = CallPath::Asked { agent, hosts, down: None, refused: Some((Refusal::CallerNotAllowed, reason)) };
        assert_eq!(first_wrong(&denied), Some("L7"), "trust changes nothing about it");
        let CallPath::Asked { agent, .. } = asked(None) else { unreachable!() };
        let refused = Some((Refusal::AgentRevoked, "it leaks".to_owned()));
        let by_id = CallPath::Asked { agent, hosts: Vec::new(), down: None, refused };
        assert_eq!(first_wrong(&by_id), Some("L1"), "also by its id");
        let CallPath::Asked { agent, .. } = asked(None) else { unreachable!() };
        let gone = CallPath::Asked { agent: agent.clone(), hosts: Vec::new(), down: None, refused: None };
        assert_eq!(first_wrong(&gone), Some("L3"));
        let hosts = vec![("z6Mk".to_owned(), true)];
        let steps: [Remedy; 2] = [NodeStep::Diagnose.into(), AgentStep::StartAgain(agent.clone()).into()];
        for (is_suspended, next) in [false, true].into_iter().zip(steps) {
            let down = Some(AgentOutage { why: "no such program".to_owned(), is_suspended });
            let down = CallPath::Asked { agent: agent.clone(), hosts: hosts.clone(), down, refused: None };
            assert_eq!(first_wrong(&down), Some("L1"), "also where it answers what needs no turn");
            let last = diagnose_call(&down).pop().expect("what is wrong");
            assert_eq!((last.next, last.remedy.contains("by itself")), (Some(next), !is_suspended));
        }
        for (refusal, layer) in [
            (Refusal::AgentUnreachable, "L2"),
            (Refusal::CallerNotAllowed, "L2"),
            (Refusal::ConsentRequired { to: "a look".to_owned() }, "L2"),
            (Refusal::AgentNotHere, "L3"),
            (Refusal::AgentRevoked, "L3"),
            (Refusal::Overloaded, "L1"),
            (Refusal::DeadlineExceeded, "L1"),
            (Refusal::DiskFull, "L1"),
            (Refusal::StoreStopped, "L1"),
            (Refusal::Internal, "L1"),
        ] {
            assert_eq!(first_wrong(&asked(Some(refusal.clone()))), Some(layer), "{refusal:?}");
        }
    }
}
