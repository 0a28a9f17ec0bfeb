//! The presence of hosts: nodes announce themselves with what they host, and are named to those who look for their agents.

use std::collections::BTreeSet;
use std::sync::MutexGuard;

use althing_protocol::registry::{Presence, VerifiedPresence};
use althing_protocol::{AgentId, PublisherId};
use althing_td::Description;

use super::hosts::{Host, HostQuery, Hosts, LEASE_MS};
use super::{Registry, RequestError};
use crate::machine::{RegistryState, Statement};

/// Registers nodes that announce themselves, and finds them by what they host.
pub struct HostPresence<'a>(pub(super) &'a Registry);

impl HostPresence<'_> {
    /// Takes what a node tells of itself; how many of its agents are published here, and for how long that holds,
    /// milliseconds. Agents that are not published here are left out.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn host(&self, presence: &Presence) -> Result<(usize, u64), RequestError> {
        let now_ms = (self.0.clock)();
        // Anybody may send it: nothing is verified of what is left out anyway, nor where there is no room.
        let shown: BTreeSet<AgentId> = {
            let seen = self.0.seen();
            presence.claimed_agents().filter(|agent| is_shown(&seen.machine, agent)).collect()
        };
        if shown.is_empty() {
            return Ok((0, LEASE_MS));
        }
        let publishers: BTreeSet<PublisherId> = shown.iter().map(AgentId::publisher).collect();
        let node = presence.claimed_node();
        if node.is_some_and(|node| !self.hosts().has_room(node, &publishers, now_ms)) {
            return Err(RequestError::NoRoom);
        }
        let VerifiedPresence { contact, grants } =
            presence.verify_of(self.0.network(), now_ms, |agent| shown.contains(agent))?;
        let mut agents = BTreeSet::new();
        let mut current = Vec::new();
        {
            let seen = self.0.state.read().expect("no holder panics");
            for grant in &grants {
                let agent = &grant.body.agent;
                let versions = seen.machine.agent(agent).filter(|_| is_shown(&seen.machine, agent));
                let Some(versions) = versions else { continue };
                let log = seen.machine.key_log(agent.publisher());
                if log.is_none_or(|log| log.accepts(grant.signer, now_ms).is_err()) {
                    continue;
                }
                agents.insert(agent.clone());
                current.extend(versions.current().map(|(_, released)| (agent.clone(), released.index)));
            }
        }
        let (count, none) = (agents.len(), agents.is_empty());
        if !none && !self.hosts().renew(contact, agents, now_ms) {
            return Err(RequestError::NoRoom);
        }
        for (agent, entry) in current {
            if !self.hosts().knows(&agent, entry) {
                let (_, statement) = self.0.statement(entry)?;
                let Statement::Release(_, described) = statement else { return Err(RequestError::Damaged(entry)) };
                let description = Description::parse(&described.body.td).map_err(|_| RequestError::Damaged(entry))?;
                self.hosts().describe(agent, entry, description.capabilities().to_vec());
            }
        }
        Ok((count, LEASE_MS))
    }

    /// Nodes that host what is looked for.
    #[must_use]
    pub fn find_hosts(&self, query: &HostQuery) -> Vec<Host> {
        let now_ms = (self.0.clock)();
        let seen = self.0.seen();
        // What they told may be hidden by now.
        self.hosts().find(query, now_ms, |agent| is_shown(&seen.machine, agent))
    }

    /// How many nodes are known.
    #[must_use]
    pub fn host_count(&self) -> usize {
        let now_ms = (self.0.clock)();
        self.hosts().len(now_ms)
    }

    fn hosts(&self) -> MutexGuard<'_, Hosts> {
        self.0.hosts.lock().expect("no holder of the hosts panics")
    }
}

/// Whether hosts of an agent are named. They are named to everybody: of what is not for everybody it is as if it were not here.
fn is_shown(machine: &RegistryState, agent: &AgentId) -> bool {
    machine.agent(agent).is_some_and(|versions| versions.public().next().is_some())
}
