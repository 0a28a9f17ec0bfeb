//! The agents that a group's members host: an owner deploys them, the leader places them, each member hosts its own.

use std::collections::BTreeMap;
use std::time::Duration;

use althing_protocol::group::{Command, Deployment, GroupId, Remove, Set, Target};
use althing_protocol::{Authored, PublicKey, object};

use tokio::time::Instant;

use super::work::Report;
use super::{Groups, OwnerNow};
use crate::error::GroupError;
use crate::machine::agents::DEPLOYED_MAX;
use crate::machine::group::Group;
use crate::machine::placement::{self, AGENTS, HOSTS, Host, Placed};
use crate::machine::work::WorkItem;

/// How long an agent has few tasks until instances that were started for more of them end.
const REST: Duration = Duration::from_secs(10);
/// Tasks of one member, and tasks that wait, that are counted for an agent.
const TASKS_COUNTED: usize = 256;

/// The deployments of a group, as far as they can be read; each is verified once.
#[derive(Debug, Default)]
pub(super) struct Deployments {
    known: BTreeMap<String, (u64, Option<Authored<Deployment>>)>,
    /// When an agent had more tasks than its least instances do at one time, as this leader saw it last.
    busy: BTreeMap<String, Instant>,
}

impl Deployments {
    /// Reads what changed.
    fn read(&mut self, state: &Group, network: &str) {
        let scope = state.id().to_string();
        let mut known = std::mem::take(&mut self.known);
        for key in state.values().keys(AGENTS).take(DEPLOYED_MAX) {
            let Some(value) = state.values().get(key) else { continue };
            let name = key[AGENTS.len()..].to_owned();
            let read = known.remove(&name).filter(|(version, _)| *version == value.version).unwrap_or_else(|| {
                let opened = object::open::<Deployment>(&value.bytes, network, &scope);
                let sound = opened.ok().filter(|signed| signed.body.agent == name && signed.body.group == state.id());
                if sound.is_none() {
                    tracing::warn!(group = %state.id(), agent = %name, "a deployment cannot be read, and is not hosted");
                }
                (value.version, sound)
            });
            self.known.insert(name, read);
        }
    }

    /// Those that are the last ones of their agents: whoever sent a snapshot may have put earlier ones in their place.
    fn signed<'a>(&'a self, state: &'a Group) -> impl Iterator<Item = &'a Authored<Deployment>> {
        let all = self.known.values().filter_map(|(_, signed)| signed.as_ref());
        all.filter(move |signed| state.agents().is_last(&signed.body))
    }

    /// The values that the leader writes: where agents are to be hosted from now on.
    pub(super) fn changes(
        &mut self,
        state: &Group,
        network: &str,
        reports: &BTreeMap<PublicKey, Report>,
        may_move: bool,
    ) -> Vec<Command> {
        if state.values().keys(AGENTS).next().is_none() && state.values().keys(HOSTS).next().is_none() {
            self.known.clear();
            return Vec::new();
        }
        self.read(state, network);
        let agents: Vec<Placed> = self.signed(state).map(|signed| placed(state, &signed.body)).collect();
        let agents = self.with_demand(agents, state, reports);
        let member = |(node, member): (&PublicKey, &crate::machine::members::Member)| {
            let report = reports.get(node);
            Host {
                node: *node,
                owner: member.owner,
                labels: report.map(|report| report.labels.clone()).unwrap_or_default(),
                agents: report.map(Report::hosted).unwrap_or_default(),
                healthy: report.is_some(),
                load_permille: report.map_or(0, |report| report.load_permille),
            }
        };
        let members: Vec<Host> = state.members().iter().map(member).collect();
        let placed = placement::place(&agents, &members, may_move).into_iter().map(|(agent, hosts)| {
            let dids: Vec<String> = hosts.iter().map(PublicKey::did).collect();
            let value = serde_json::to_vec(&dids).expect("texts are JSON").into();
            Command::Set(Set { key: format!("{HOSTS}{agent}"), value, if_version: None })
        });
        let left = state.values().keys(HOSTS).filter(|key| !self.known.contains_key(&key[HOSTS.len()..]));
        let removed = left.map(|key| Command::Remove(Remove { key: key.to_owned(), if_version: None }));
        placed.chain(removed).collect()
    }

    /// The work that there is for agents that may have more instances.
    fn with_demand(
        &mut self,
        mut agents: Vec<Placed>,
        state: &Group,
        reports: &BTreeMap<PublicKey, Report>,
    ) -> Vec<Placed> {
        self.busy.retain(|name, _| agents.iter().any(|agent| agent.deployment.agent == *name));
        for agent in agents.iter_mut().filter(|agent| agent.deployment.instances_max.is_some()) {
            agent.demand = demand(agent, state, reports);
            let (name, is_busy) = (agent.deployment.agent.clone(), agent.is_busy());
            // A leader that saw no work yet may have taken over in the middle of it.
            let last = self.busy.entry(name).or_insert_with(Instant::now);
            if is_busy {
                *last = Instant::now();
            }
            agent.demand.rests = last.elapsed() >= REST;
        }
        agents
    }

    /// What `here` hosts: what its own owner signed last, with a key that is valid now, and the leader placed here.
    pub(super) fn here(
        &mut self,
        state: &Group,
        network: &str,
        here: PublicKey,
        owner: &althing_protocol::KeyLog,
        now_ms: u64,
    ) -> Vec<Deployment> {
        self.read(state, network);
        let is_own = |signed: &&Authored<Deployment>| {
            signed.body.owner == owner.publisher() && owner.accepts(signed.signer, now_ms).is_ok()
        };
        let own = self.signed(state).filter(is_own);
        let wanted = own.filter(|signed| hosts(state, &signed.body.agent).contains(&here));
        wanted.map(|signed| signed.body.clone()).collect()
    }

    /// What the owner signed with the key before a rotation, signed again with the present one while the former is still
    /// accepted: it is the same deployment, and no later one. What is accepted no more stays as it is: a key that was replaced
    /// without overlap may have been stolen. Nothing tells whether the owner or a thief signed with a key before the group knew
    /// its rotation: as long as it is accepted, what it signed is the owner's (P-144).
    pub(super) fn renewed(&self, state: &Group, network: &str, owner: &OwnerNow, now_ms: u64) -> Vec<Command> {
        if owner.key.public() != owner.log.current() {
            return Vec::new();
        }
        let is_former = |signed: &&Authored<Deployment>| {
            signed.body.owner == owner.log.publisher()
                && signed.signer != owner.log.current()
                && owner.log.accepts(signed.signer, now_ms).is_ok()
        };
        let again = |signed: &Authored<Deployment>| {
            let key = format!("{AGENTS}{}", signed.body.agent);
            let if_version = state.values().get(&key).map(|value| value.version);
            let signed = object::sign(signed.body.clone(), network, &state.id().to_string(), &owner.key).ok()?;
            Some(Command::Set(Set { key, value: signed.bytes.into(), if_version }))
        };
        self.signed(state).filter(is_former).filter_map(again).collect()
    }
}

/// Whether a group has agents of its own.
pub(super) fn has_agents(state: &Group) -> bool {
    state.values().keys(AGENTS).next().is_some()
}

/// An agent, and where it was placed.
fn placed(state: &Group, deployment: &Deployment) -> Placed {
    Placed {
        hosts: hosts(state, &deployment.agent),
        deployment: deployment.clone(),
        demand: placement::Demand::default(),
    }
}

/// The tasks that an agent can do: those that name it, and those that want a capability which its hosts report.
fn demand(agent: &Placed, state: &Group, reports: &BTreeMap<PublicKey, Report>) -> placement::Demand {
    let name = &agent.deployment.agent;
    let reported = |host: &PublicKey| reports.get(host).filter(|report| report.hosted().contains(name));
    let does = |task: &&WorkItem| match &task.submit.needs.target {
        Target::Agent(wanted) => wanted == name,
        Target::Capability(wanted) => {
            agent.hosts.iter().filter_map(reported).any(|report| report.capabilities.contains(wanted))
        }
    };
    let tasks = state.work().tasks();
    let mut found =
        placement::Demand { tasks: tasks.ready().take(TASKS_COUNTED).filter(does).count(), ..Default::default() };
    for (node, _) in state.members().iter() {
        let held = tasks.held_by(node).take(TASKS_COUNTED).filter(does).count();
        found.tasks += held;
        if held > 0 {
            found.working.insert(*node);
        }
    }
    found
}

/// The members that were told to host an agent.
fn hosts(state: &Group, agent: &str) -> Vec<PublicKey> {
    let value = state.values().get(&format!("{HOSTS}{agent}"));
    let dids: Vec<String> = value.and_then(|value| serde_json::from_slice(&value.bytes).ok()).unwrap_or_default();
    dids.iter().filter_map(|did| PublicKey::from_did(did).ok()).collect()
}

/// The agents that are deployed in one group, for its owners to change.
pub struct GroupAgents {
    groups: Groups,
    group: GroupId,
}

impl GroupAgents {
    /// Those of `group`.
    #[must_use]
    pub fn of(groups: &Groups, group: GroupId) -> GroupAgents {
        GroupAgents { groups: groups.clone(), group }
    }

    /// Deploys an agent of this node's owner, whose fields `describe` sets: members of this owner host it from now on.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub async fn deploy(
        &self,
        agent: &str,
        file: Vec<u8>,
        describe: impl FnOnce(Deployment) -> Deployment,
    ) -> Result<(), GroupError> {
        let shared = &self.groups.shared;
        // Another node of this owner may have deployed it by a clock that is ahead of this one.
        self.groups.catch_up(self.group).await?;
        let owner = (shared.owner)();
        let (publisher, now_ms) = (owner.log.publisher(), shared.clock.now_ms());
        let made_ms = self.groups.look(self.group, |state| state.agents().next_ms(agent, &publisher, now_ms))?;
        let made = Deployment::new(self.group, publisher, agent, file, made_ms);
        let signed = object::sign(describe(made), &shared.config.network, &self.group.to_string(), &owner.key)?;
        let set = Set { key: format!("{AGENTS}{agent}"), value: signed.bytes.into(), if_version: None };
        self.groups.command(self.group, Command::Set(set)).await.map(drop)
    }

    /// Ends a deployment: no member hosts the agent any more, and nobody brings it back but by a later one.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub async fn undeploy(&self, agent: &str) -> Result<(), GroupError> {
        let remove = Remove { key: format!("{AGENTS}{agent}"), if_version: None };
        self.groups.command(self.group, Command::Remove(remove)).await.map(drop)
    }

    /// All, with the members that host them, as far as it has arrived here.
    ///
    /// # Errors
    /// The group is not here.
    pub fn list(&self) -> Result<Vec<Deployed>, GroupError> {
        let shared = &self.groups.shared;
        let (owner, now_ms) = ((shared.owner)().log, shared.clock.now_ms());
        self.groups.look(self.group, |state| {
            let mut all = Deployments::default();
            all.read(state, &shared.config.network);
            let deployed = |signed: &Authored<Deployment>| {
                let publisher = signed.body.owner;
                let known = state.logs.get(&publisher).map(AsRef::as_ref);
                let log = if publisher == owner.publisher() { Some(&owner) } else { known };
                let is_signed = log.is_some_and(|log| log.accepts(signed.signer, now_ms).is_ok());
                Deployed { placed: placed(state, &signed.body), is_signed }
            };
            all.signed(state).map(deployed).collect()
        })
    }
}

/// An agent that an owner deployed.
#[derive(Debug, Clone)]
pub struct Deployed {
    /// What was deployed, and where it was placed.
    pub placed: Placed,
    /// Whether the key that signed it is still accepted. Otherwise no member hosts it, until its owner deploys it again.
    pub is_signed: bool,
}
