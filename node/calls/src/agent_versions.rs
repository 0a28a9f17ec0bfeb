//! The agents that are hosted here, each in one version or in several at once.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use althing_protocol::{AgentId, AgentRef};
use althing_session::HostedAgent;

/// The versions of each agent, in the order in which they were added. The first is the stable one, which answers whatever is not
/// of a task; the next takes its place when it is removed. No agent has none.
#[derive(Default)]
pub(crate) struct AgentVersions(Mutex<BTreeMap<AgentId, Vec<HostedAgent>>>);

impl AgentVersions {
    /// Adds a version of an agent beside the others that it has, or in the place of the same one.
    pub fn add(&self, agent: HostedAgent) {
        let mut agents = self.lock();
        let versions = agents.entry(agent.id().clone()).or_default();
        match versions.iter_mut().find(|other| other.agent == agent.agent) {
            Some(same) => *same = agent,
            None => versions.push(agent),
        }
    }

    /// Lets a version be the stable one; the others stay in their order.
    pub fn prefer(&self, agent: &AgentRef) {
        let mut agents = self.lock();
        let Some(versions) = agents.get_mut(&agent.id) else { return };
        if let Some(at) = versions.iter().position(|version| version.agent == *agent) {
            versions[..=at].rotate_right(1);
        }
    }

    /// Removes a version of an agent.
    pub fn remove(&self, agent: &AgentRef) {
        let mut agents = self.lock();
        let Some(versions) = agents.get_mut(&agent.id) else { return };
        versions.retain(|version| version.agent != *agent);
        if versions.is_empty() {
            agents.remove(&agent.id);
        }
    }

    /// Whether an agent is hosted here, in any version.
    pub fn has(&self, agent: &AgentId) -> bool {
        self.lock().contains_key(agent)
    }

    /// The stable version of an agent.
    pub fn stable(&self, agent: &AgentId) -> Option<HostedAgent> {
        self.lock().get(agent)?.first().cloned()
    }

    /// That version of an agent.
    pub fn version(&self, agent: &AgentId, version: &str) -> Option<HostedAgent> {
        self.lock().get(agent)?.iter().find(|hosted| *hosted.agent.version == *version).cloned()
    }

    /// Whether an agent has one version only, which answers all that comes for it.
    pub fn is_alone(&self, agent: &AgentId) -> bool {
        self.lock().get(agent).is_some_and(|versions| versions.len() == 1)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AgentId, Vec<HostedAgent>>> {
        self.0.lock().expect("no holder of the agents panics")
    }
}

#[cfg(test)]
mod tests {
    use althing_communication::{CallerRule, Priority};
    use althing_protocol::PublisherId;

    use super::*;

    fn hosted(version: &str, barge_in: bool) -> HostedAgent {
        HostedAgent {
            agent: AgentRef::new(PublisherId::from_digest([1; 32]), "echo", version).expect("a name"),
            callers: CallerRule::Own,
            input_modes: Vec::new(),
            barge_in,
            is_told_again: false,
            priority: Priority::default(),
        }
    }

    #[test]
    fn the_version_that_was_added_first_is_stable_until_it_is_removed() {
        let agents = AgentVersions::default();
        let [old, new] = ["2.0.0", "10.0.0"].map(|version| hosted(version, false));
        let id = old.id().clone();
        let stable = || agents.stable(&id).map(|hosted| hosted.agent);
        assert_eq!((stable(), agents.has(&id), agents.is_alone(&id)), (None, false, false));
        agents.add(old.clone());
        assert!(agents.has(&id) && agents.is_alone(&id));
        agents.add(new.clone());
        assert_eq!(stable(), Some(old.agent.clone()));
        assert!(!agents.is_alone(&id));
        // The same one, changed, keeps its place.
        agents.add(hosted("2.0.0", true));
        assert!(agents.stable(&id).is_some_and(|stable| stable.agent == old.agent && stable.barge_in));
        assert_eq!(agents.version(&id, "10.0.0").map(|hosted| hosted.agent), Some(new.agent.clone()));
        assert!(agents.version(&id, "3.0.0").is_none());

        agents.prefer(&new.agent);
        assert_eq!(stable(), Some(new.agent.clone()));
        agents.prefer(&old.agent);
        assert_eq!(stable(), Some(old.agent.clone()));

        agents.remove(&old.agent);
        assert_eq!((stable(), agents.is_alone(&id)), (Some(new.agent.clone()), true));
        agents.remove(&old.agent);
        assert!(agents.has(&id), "the other one is hosted");
        agents.remove(&new.agent);
        assert!(!agents.has(&id) && stable().is_none());
    }
}
