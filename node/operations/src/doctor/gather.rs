//! Gathers the status of a node, and whether others can reach it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use althing_discovery::AbsentPeer;
use althing_execution::definition::{Difference, Unfit};
use althing_execution::{AgentState, AgentStatus, Level};
use althing_node::publish::{self, StoredAgent};
use althing_node::{Node, is_revoked_install, is_stopped_by_owner};
use althing_protocol::PublicKey;
use althing_protocol::group::GroupId;
use althing_td::RuntimeSpec;

use super::{DialBack, GroupHealth, Mesh, NodeStatus, RegistryHealth, Report, Sessions, diagnose};
use crate::operations::Operations;
use althing_coordination::Reader;
use althing_coordination::machine::group::Group;
use althing_coordination::machine::read_scope::ReadScope;
use althing_coordination::machine::work::Conflict;

/// Peers that are asked to dial back.
const ASKED: usize = 3;
/// Decisions, and undecided resources, of one group that are described.
const CONFLICTS_SHOWN: usize = 3;
/// Refused tools of one agent that are described.
const REFUSED_TOOLS_MAX: usize = 16;

/// Examines a node: asks peers to dial it back, and whether another node uses its key.
pub async fn examine(node: &Operations) -> Report {
    let (asked, ()) = tokio::join!(node.communication.request_dial_backs(ASKED), node.discovery.look_for_twin());
    let dialled_back: Vec<DialBack> = asked
        .into_iter()
        .map(|asked| DialBack {
            peer: short(&asked.peer.did()),
            from_internet: asked.from_internet,
            outcome: asked.outcome.map(|dials| dials.into_iter().map(|dial| (dial.address, dial.reason)).collect()),
        })
        .collect();
    let status = gather(node, dialled_back, node.registries.examine().await).await;
    Report { findings: diagnose(&status), dialled_back: status.dialled_back }
}

/// A DID short enough for a line.
#[must_use]
pub fn short(did: &str) -> String {
    let key = did.strip_prefix("did:key:").unwrap_or(did);
    if key.len() > 14 { format!("{}…{}", &key[..6], &key[key.len() - 6..]) } else { key.to_owned() }
}

/// The tools that an agent is not given, each with the reason and the fields that differ.
#[must_use]
pub fn refused_tools(agent: &AgentStatus) -> Vec<String> {
    let difference = |one: &Difference| format!("{}: was {:?}, is {:?}", one.field, one.old, one.new);
    let told = |(tool, unfit): (&String, &Unfit)| {
        let differences: Vec<String> = unfit.differences().iter().map(difference).collect();
        let more = if differences.is_empty() { String::new() } else { format!(" ({})", differences.join(", ")) };
        format!("{} {tool:?}: {}{more}", unfit.reason(), unfit.brief())
    };
    agent.unfit.iter().take(REFUSED_TOOLS_MAX).map(told).collect()
}

/// The groups that the node belongs to.
fn groups(node: &Node) -> Vec<GroupHealth> {
    let network = node.communication.network();
    let connected = network.connected();
    let groups = node.groups.list().into_iter().filter(|group| ["member", "joining"].contains(&group.standing));
    let health = |group: althing_coordination::Overview| {
        let voters = node.groups.look(group.id, |state| state.members().voters().clone()).unwrap_or_default();
        let is_reached = |voter: &&PublicKey| **voter == network.local() || connected.contains(*voter);
        GroupHealth {
            differing: group.differing.iter().map(PublicKey::did).collect(),
            is_led: group.is_led(),
            reached: voters.iter().filter(is_reached).count(),
            silent: silent(node, group.id, voters.iter().filter(|voter| !is_reached(voter))),
            voters: voters.len(),
            name: group.name,
            failure: group.failure,
            alarms: Reader::of(&node.groups, group.id).look(alarms).unwrap_or_default(),
            undecided: node.groups.look(group.id, undecided).unwrap_or_default(),
            conflicts: node.groups.look(group.id, conflicts).unwrap_or_default(),
            equivocated: node
                .groups
                .look(group.id, |state| {
                    // Those that the owners removed are their matter no more.
                    let proven = group.equivocated.iter().map(|proven| proven.leader);
                    let members = proven.filter(|node| state.members().get(node).is_some());
                    members.map(|node| node.did()).collect()
                })
                .unwrap_or_default(),
        }
    };
    groups.map(health).collect()
}

/// These voters of a group, and for how long each is silent, as its leader saw it.
fn silent<'a>(node: &Node, group: GroupId, voters: impl Iterator<Item = &'a PublicKey>) -> Vec<String> {
    let now_ms = node.clock().now_ms();
    let since = |voter: &PublicKey| node.groups.look(group, |state| state.members().silent_since(voter)).ok().flatten();
    let told = |voter: &PublicKey| match since(voter) {
        Some(ms) => format!("{} is silent for {} s", short(&voter.did()), now_ms.saturating_sub(ms) / 1_000),
        None => format!("{} is not connected", short(&voter.did())),
    };
    voters.map(told).collect()
}

/// The schedules with an alarm that are shown here.
fn alarms(group: &Group, scope: &ReadScope<'_>) -> Vec<String> {
    let shown = group.flows().schedules().alarms().filter(|known| scope.of_author(known.author));
    shown.map(|known| known.schedule.name.clone()).collect()
}

/// The resources that several tasks want and that nobody was given, and how many want each.
fn undecided(group: &Group) -> Vec<(String, usize)> {
    let work = group.work();
    let free = work.resources().iter().filter(|(name, _)| work.tasks().user_of(name).is_none());
    let wanted = free.map(|(name, _)| (name.to_owned(), work.tasks().wanting(name).count()));
    wanted.filter(|(_, tasks)| *tasks > 1).take(CONFLICTS_SHOWN).collect()
}

/// The last decisions between tasks that wanted the same resource, newest first.
fn conflicts(group: &Group) -> Vec<String> {
    let told = |conflict: &Conflict| {
        format!(
            "the task {} was given {:?}, which {} more wanted (rule `{}`, {} dissented); they wait, and keep their input",
            conflict.winner,
            conflict.resource,
            conflict.losers_count,
            format!("{:?}", conflict.rule).to_lowercase(),
            conflict.dissent_count
        )
    };
    let all: Vec<&Conflict> = group.work().resources().conflicts().collect();
    all.into_iter().rev().take(CONFLICTS_SHOWN).map(told).collect()
}

/// The agents among these whose programs are reached at a port of this machine.
fn open_ports(agents: &[StoredAgent], running: &[AgentStatus]) -> Vec<String> {
    let is_apart = |name: &str| {
        let one = running.iter().find(|agent| agent.name == name).and_then(|agent| agent.containment.get("runtime"));
        // Its port is one of its own loopback.
        one.is_some_and(|containment| containment.level == Level::Namespaces)
    };
    let open = |added: &&StoredAgent| {
        matches!(added.file.runtime, RuntimeSpec::Process { port: Some(_), .. }) && !is_apart(&added.file.name)
    };
    agents.iter().filter(open).map(|added| added.file.name.clone()).collect()
}

/// The status of a node, with what was found out of peers and registries.
pub(super) async fn gather(
    node: &Operations,
    dialled_back: Vec<DialBack>,
    registries: Vec<RegistryHealth>,
) -> NodeStatus {
    let network = node.communication.network();
    let troubles = node.discovery.troubles();
    let failed = failures(node);
    let refused =
        |agent: &AgentStatus| refused_tools(agent).into_iter().map(|why| (agent.name.clone(), why)).collect::<Vec<_>>();
    let running = node.host.status();
    let unauthorised =
        running.iter().flat_map(|agent| agent.unauthorised.iter().map(|service| (agent.name.clone(), service.clone())));
    // All agents that run, also those of `althing run`.
    let mut agents = publish::all(node.store.as_ref()).unwrap_or_default();
    let adopted = names(&agents, |added| crate::adopted(&added.file).is_some());
    let revoked = names(&agents, |added| is_revoked_install(&node.agents, added));
    let halted = names(&agents, |added| is_stopped_by_owner(&node.agents, added));
    let forbidden = node.agents.starts.forbidden().clone();
    agents.retain(|added| running.iter().any(|agent| agent.name == added.file.name));
    let of = |agent: &AgentStatus| {
        let name = agent.name.clone();
        agent.containment.clone().into_iter().map(move |(program, how)| (format!("{name} ({program})"), how))
    };
    let containment = running.iter().flat_map(of).collect();
    let open_ports = open_ports(&agents, &running);
    let agents = agents.into_iter().filter(|added| failed.iter().all(|(failed, _)| *failed != added.file.name));
    let last = |name: &String| Some((name.clone(), node.host.process.logs.get(name)?.last()?.text));
    NodeStatus {
        said: failed.iter().filter_map(|(name, _)| last(name)).collect(),
        agents: agents.map(|added| (added.file.name, format!("{:?}", added.file.exposure).to_lowercase())).collect(),
        failed,
        adopted,
        revoked,
        halted,
        forbidden,
        suspended: running.iter().filter(|agent| is_suspended(agent)).map(|agent| agent.name.clone()).collect(),
        tools: running.iter().flat_map(refused).collect(),
        unauthorised: unauthorised.collect(),
        open_ports,
        containment,
        listed: super::tool_lists::all(&node.discovery),
        silent: super::tool_lists::silent(&running),
        storage: super::Storage::look(node).await,
        owner_keys: node.identity.key_state().state.to_owned(),
        refused_by: troubles.refused_by.into_iter().map(|(peer, why)| (short(&peer.did()), why)).collect(),
        peers: network.peers().len(),
        unreachable: troubles.unreachable,
        configured: node.config.discovery.bootstrap.len(),
        lan: node.lan.is_wanted,
        lan_trouble: node.lan.failure.clone(),
        mesh: mesh(node),
        dialled_back,
        reach: node.reach().to_owned(),
        table: network.routing().stats().nodes,
        sessions: Sessions::of(node.hosting.own_tasks().sessions(), node.hosting.own_tasks().lost_turns()),
        turns: super::verification::of(&running),
        rollouts: althing_node::rollouts::troubles(&node.rollouts),
        governance: super::GovernanceHealth::of(node),
        groups: groups(node),
        registries,
        unread: node.discovery.reading_things().1,
        collector: node.collector.get().map(|collector| collector.troubles()),
        faces: node.faces.get().cloned().unwrap_or_default(),
    }
}

/// Whether it is a control loop that runs no more jobs until it is added again. An agent of another program waits for its card.
pub(super) fn is_suspended(agent: &AgentStatus) -> bool {
    agent.hard.is_some() && matches!(agent.state, AgentState::Suspended { .. })
}

/// The agents that do not run, and why.
fn failures(node: &Node) -> Vec<(String, String)> {
    let mut failed: Vec<(String, String)> =
        node.agents.starts.failed().iter().map(|(name, why)| (name.clone(), why.clone())).collect();
    failed.extend(node.host.status().into_iter().filter_map(|agent| match agent.state {
        AgentState::Restarting { why, .. } | AgentState::Suspended { why } | AgentState::Unreachable { why } => {
            Some((agent.name, why))
        }
        AgentState::Ready | AgentState::Starting | AgentState::Degraded { .. } => None,
    }));
    failed
}

/// Where the node looks for others, whom it remembers, and who uses one key.
fn mesh(node: &Node) -> Mesh {
    let (interfaces, missing) = node.lan.interfaces();
    let known = node.discovery.remembered();
    let is_loopback_only = interfaces.iter().flat_map(|(_, addresses)| addresses).all(IpAddr::is_loopback);
    let texts = |all: Vec<IpAddr>| all.iter().map(ToString::to_string).collect();
    let served = node.lan.introductions.served();
    let named = |absent: AbsentPeer| (short(&absent.node.did()), absent.address, absent.failure);
    let places = |all: Vec<Vec<String>>| all.into_iter().map(|place| place.join(", ")).collect();
    let shared = node.discovery.shared_keys().into_iter();
    Mesh {
        interfaces: interfaces.into_iter().map(|(name, addresses)| (name, texts(addresses))).collect(),
        is_loopback_only,
        missing,
        introducing: served.map(|all| all.iter().map(ToString::to_string).collect()),
        remembered: known.peers,
        near: known.near,
        absent: known.absent.into_iter().map(named).collect(),
        twin: node.discovery.twin().map(|both| both.map(|addresses| addresses.join(", "))),
        shared_keys: shared.map(|(key, all)| (short(&key.did()), places(all))).collect(),
    }
}

/// The names of some of the agents.
fn names(agents: &[StoredAgent], is_one: impl Fn(&StoredAgent) -> bool) -> BTreeSet<String> {
    agents.iter().filter(|added| is_one(added)).map(|added| added.file.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use althing_calls::Among;

    use super::*;
    use crate::doctor::{Finding, examine_call};
    use crate::governance::{StopTarget, stop};
    use crate::tests::{program, started};

    #[tokio::test(flavor = "multi_thread")]
    async fn an_agent_that_its_owner_stopped_is_told_apart_from_one_that_fails_until_it_is_added_again() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let (node, _owner) = started(folder.path()).await;
        let add = async || node.agents.add(program("clerk", false), folder.path(), None, true).await.map(drop);
        add().await.expect("it is added");
        let report = examine_call(&node, "clark", Among::Near).await;
        assert!(report.findings.iter().any(|finding| finding.what.contains("did you mean \"clerk\"?")), "{report:?}");
        assert!(gather(&node, Vec::new(), Vec::new()).await.halted.is_empty());
        stop(&node, &StopTarget::Agent("clerk".to_owned()), false).await.expect("it is ordered");
        assert!(gather(&node, Vec::new(), Vec::new()).await.halted.contains("clerk"));
        let is_told = |finding: &Finding| finding.layer == "L7" && !finding.fine;
        let id = publish::agent_id(&node.owner(), &program("clerk", false)).expect("a name").to_string();
        for name in ["clerk", id.as_str()] {
            let report = examine_call(&node, name, Among::Near).await;
            assert!(report.findings.iter().any(is_told), "{name}: {report:?}");
        }
        node.agents.remove("clerk").await.expect("it is removed");
        add().await.expect("it is added again");
        assert!(gather(&node, Vec::new(), Vec::new()).await.halted.is_empty());
        // One that was revoked is not told as one that was stopped, also where it is on no node any more.
        stop(&node, &StopTarget::Agent("clerk".to_owned()), true).await.expect("it is ordered");
        let says =
            |report: Report| report.findings.iter().any(|finding| finding.what.contains("was revoked by its owner"));
        assert!(says(examine_call(&node, "clerk", Among::Near).await));
        node.agents.remove("clerk").await.expect("it is removed");
        assert!(says(examine_call(&node, "clerk", Among::Near).await));
        node.shut_down().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_program_on_a_port_is_named_for_as_long_as_it_runs() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let (node, _owner) = started(folder.path()).await;
        for (name, keep) in [("kept", true), ("looked-on", false)] {
            node.agents.add(program(name, true), folder.path(), None, keep).await.expect("it is added");
        }
        node.agents.add(program("closed", false), folder.path(), None, false).await.expect("it is added");
        let status = gather(&node, Vec::new(), Vec::new()).await;
        assert_eq!(status.open_ports, ["kept", "looked-on"]);
        node.agents.end("looked-on").await.expect("it ends");
        node.agents.remove("kept").await.expect("it is removed");
        let status = gather(&node, Vec::new(), Vec::new()).await;
        assert_eq!(status.open_ports, [""; 0]);
        node.shut_down().await;
    }
}
