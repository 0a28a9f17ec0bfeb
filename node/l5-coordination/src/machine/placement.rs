//! Which members of a group host which of its agents: a pure decision of the leader.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::group::Deployment;
use althing_protocol::{PublicKey, PublisherId};

/// Keys that begin so have signed deployments as values.
pub const AGENTS: &str = "agent/";
/// Keys that begin so name the members that host an agent: a list of their DIDs in JSON.
pub const HOSTS: &str = "host/";

/// A member that may host agents, as the leader knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its key.
    pub node: PublicKey,
    /// Its owner.
    pub owner: PublisherId,
    /// Its labels.
    pub labels: Vec<String>,
    /// The agents that it hosts, by name.
    pub agents: Vec<String>,
    /// Whether it is alive.
    pub healthy: bool,
    /// Its load, thousandths.
    pub load_permille: u16,
}

/// An agent, and the members that host it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// What its owner signed.
    pub deployment: Deployment,
    /// The members that were told to host it.
    pub hosts: Vec<PublicKey>,
    /// The work that there is for it.
    pub demand: Demand,
}

/// The work that there is for an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Demand {
    /// Its tasks that wait or are worked on.
    pub tasks: usize,
    /// The members that work on one of them.
    pub working: BTreeSet<PublicKey>,
    /// Whether there was little enough for long enough that instances end.
    pub rests: bool,
}

impl Placed {
    fn fits(&self, host: &Host) -> bool {
        let Deployment { owner, labels, .. } = &self.deployment;
        host.owner == *owner && labels.iter().all(|label| host.labels.contains(label))
    }

    /// Whether there is more to do than its least instances do at one time.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.demand.tasks > usize::from(self.deployment.instances)
    }

    /// On how many members it is to run: on as many as there are tasks, within its bounds. What was started for tasks goes on
    /// until it rests.
    fn wanted(&self) -> usize {
        let least = usize::from(self.deployment.instances);
        let most = self.deployment.instances_max.map_or(least, usize::from).max(least);
        let needed = self.demand.tasks.clamp(least, most);
        if self.demand.rests { needed } else { needed.max(self.hosts.len().min(most)) }
    }
}

/// The agents whose hosts change, with the new ones. A host stays as long as it is alive and fits; what it hosted goes, when
/// `may_move`, to the fitting members that host the fewest agents, then to those with the least load. An agent is placed for
/// the first time when those that it needs are hosted.
#[must_use]
pub fn place(agents: &[Placed], members: &[Host], may_move: bool) -> Vec<(String, Vec<PublicKey>)> {
    let mut counts: BTreeMap<PublicKey, usize> = BTreeMap::new();
    for node in agents.iter().flat_map(|agent| &agent.hosts) {
        *counts.entry(*node).or_default() += 1;
    }
    let mut changes = Vec::new();
    for agent in agents {
        let hosts = hosts_of(agent, members, may_move, &counts);
        if hosts == agent.hosts || (agent.hosts.is_empty() && !is_ready(&agent.deployment, members)) {
            continue;
        }
        for node in hosts.iter().filter(|node| !agent.hosts.contains(node)) {
            *counts.entry(*node).or_default() += 1;
        }
        changes.push((agent.deployment.agent.clone(), hosts));
    }
    changes
}

fn is_ready(deployment: &Deployment, members: &[Host]) -> bool {
    deployment.needs.iter().all(|need| members.iter().any(|member| member.healthy && member.agents.contains(need)))
}

fn hosts_of(agent: &Placed, members: &[Host], may_move: bool, counts: &BTreeMap<PublicKey, usize>) -> Vec<PublicKey> {
    let able: Vec<&Host> = members.iter().filter(|member| agent.fits(member)).collect();
    let wanted = agent.wanted();
    if wanted == 0 {
        let mut all: Vec<PublicKey> = able.iter().map(|host| host.node).collect();
        all.sort_unstable();
        return all;
    }
    let is_able = |node: &&PublicKey| able.iter().any(|host| host.node == **node);
    let lives = |node: &PublicKey| able.iter().any(|host| host.node == *node && host.healthy);
    let (mut hosts, silent): (Vec<PublicKey>, Vec<PublicKey>) =
        agent.hosts.iter().filter(is_able).partition(|node| lives(node) || !may_move);
    let mut spare: Vec<&&Host> = able.iter().filter(|host| host.healthy && !hosts.contains(&host.node)).collect();
    spare.sort_by_key(|host| (counts.get(&host.node).copied().unwrap_or_default(), host.load_permille, host.node));
    hosts.extend(spare.into_iter().map(|host| host.node).take(wanted.saturating_sub(hosts.len())));
    // Where nobody else can host it, who is silent goes on when it is back.
    hosts.extend(silent.into_iter().take(wanted.saturating_sub(hosts.len())));
    if hosts.len() > wanted {
        // Who works on a task of it keeps it.
        hosts.sort_by_key(|node| !agent.demand.working.contains(node));
        hosts.truncate(wanted);
    }
    hosts
}

#[cfg(test)]
mod tests {
    use althing_protocol::group::GroupId;

    use super::*;

    fn node(number: u8) -> PublicKey {
        althing_protocol::SecretKey::from_seed(&[number; 32]).public()
    }

    fn owner(number: u8) -> PublisherId {
        PublisherId::from_digest([number; 32])
    }

    fn agent(name: &str, instances: u8, hosts: &[u8]) -> Placed {
        let mut deployment = Deployment::new(GroupId::from_digest([9; 32]), owner(1), name, b"{}".to_vec(), 1);
        deployment.instances = instances;
        let hosts = hosts.iter().map(|number| node(*number)).collect();
        Placed { deployment, hosts, demand: Demand::default() }
    }

    fn host(number: u8) -> Host {
        let (node, owner) = (node(number), owner(1));
        Host { node, owner, labels: Vec::new(), agents: Vec::new(), healthy: true, load_permille: u16::from(number) }
    }

    fn placed(agents: &[Placed], members: &[Host], may_move: bool) -> Vec<(String, Vec<PublicKey>)> {
        let changes = place(agents, members, may_move);
        let settled: Vec<Placed> = agents
            .iter()
            .map(|agent| {
                let change = changes.iter().find(|(name, _)| *name == agent.deployment.agent);
                Placed {
                    hosts: change.map_or_else(|| agent.hosts.clone(), |(_, hosts)| hosts.clone()),
                    ..agent.clone()
                }
            })
            .collect();
        assert_eq!(place(&settled, members, may_move), [], "a placement is stable");
        changes
    }

    #[test]
    fn agents_are_spread_over_the_owners_members_that_have_the_labels() {
        let mut members = [host(1), host(2), host(3), host(4)];
        members[0].owner = owner(2);
        members[3].labels = vec!["gpu".to_owned()];
        let one = |name: &str, hosts: &[u8]| (name.to_owned(), hosts.iter().map(|number| node(*number)).collect());
        let agents = [agent("a", 1, &[]), agent("b", 1, &[]), agent("c", 2, &[])];
        assert_eq!(placed(&agents, &members, true), [one("a", &[2]), one("b", &[3]), one("c", &[4, 2])]);
        let mut labelled = agent("d", 2, &[]);
        labelled.deployment.labels = vec!["gpu".to_owned()];
        assert_eq!(placed(&[labelled], &members, true), [one("d", &[4])]);
        let mut all = placed(&[agent("e", 0, &[2])], &members, true);
        all[0].1.sort_unstable();
        let mut expected = vec![node(2), node(3), node(4)];
        expected.sort_unstable();
        assert_eq!(all, [("e".to_owned(), expected)]);
    }

    #[test]
    fn more_tasks_start_more_instances_within_the_bound_which_end_when_it_rests() {
        let members: Vec<Host> = (1..=5).map(host).collect();
        let busy = |hosts: &[u8], tasks: usize, working: &[u8], rests: bool| {
            let mut agent = agent("a", 1, hosts);
            agent.deployment.instances_max = Some(4);
            let working = working.iter().map(|number| node(*number)).collect();
            agent.demand = Demand { tasks, working, rests };
            agent
        };
        let hosts = |agent: Placed| {
            let changes = placed(std::slice::from_ref(&agent), &members, true);
            changes.into_iter().next().map_or(agent.hosts, |(_, hosts)| hosts)
        };
        let nodes = |numbers: &[u8]| numbers.iter().map(|number| node(*number)).collect::<Vec<_>>();
        assert_eq!(hosts(busy(&[1], 1, &[1], true)), nodes(&[1]));
        assert_eq!(hosts(busy(&[1], 3, &[1], false)), nodes(&[1, 2, 3]));
        assert_eq!(hosts(busy(&[1], 9, &[1], false)), nodes(&[1, 2, 3, 4]), "its bound");
        assert_eq!(hosts(busy(&[1, 2, 3, 4], 1, &[3], false)), nodes(&[1, 2, 3, 4]), "it worked a moment ago");
        assert_eq!(hosts(busy(&[1, 2, 3, 4], 1, &[3], true)), nodes(&[3]), "who works goes on");
        assert_eq!(hosts(busy(&[1, 2, 3, 4], 0, &[], true)), nodes(&[1]));
        let mut fixed = agent("a", 1, &[1]);
        fixed.demand = Demand { tasks: 9, ..Demand::default() };
        assert_eq!(hosts(fixed), nodes(&[1]), "without a bound it stays as it is");
    }

    #[test]
    fn a_silent_host_is_replaced_only_when_it_may_be_and_somebody_can() {
        let mut members = [host(1), host(2)];
        members[0].healthy = false;
        assert_eq!(placed(&[agent("a", 1, &[1])], &members, false), []);
        assert_eq!(placed(&[agent("a", 1, &[1])], &members, true), [("a".to_owned(), vec![node(2)])]);
        assert_eq!(placed(&[agent("a", 2, &[1, 2])], &members, true), [("a".to_owned(), vec![node(2), node(1)])]);
        assert_eq!(placed(&[agent("a", 1, &[1])], &members[..1], true), [], "nobody else");
        assert_eq!(placed(&[agent("a", 1, &[3])], &members, true), [("a".to_owned(), vec![node(2)])], "it left");
    }

    #[test]
    fn an_agent_waits_for_those_that_it_needs() {
        let mut members = [host(1), host(2)];
        let mut needy = agent("a", 1, &[]);
        needy.deployment.needs = vec!["b".to_owned()];
        assert_eq!(place(&[needy.clone()], &members, true), []);
        members[1].agents = vec!["b".to_owned()];
        assert_eq!(place(&[needy.clone()], &members, true), [("a".to_owned(), vec![node(1)])]);
        members[1].agents.clear();
        needy.hosts = vec![node(1)];
        assert_eq!(place(&[needy], &members, true), [], "what runs goes on");
    }
}
