//! The agents that run on a node, each in one version or in several at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use althing_protocol::AgentRef;

/// Which agent that runs is meant.
#[derive(Debug, Clone, Copy)]
pub enum AgentKey<'a> {
    /// The one of that name: of several versions the one that was started first.
    Name(&'a str),
    /// That version and no other one.
    Version(&'a AgentRef),
}

impl AgentKey<'_> {
    /// The name of the agent, whichever of its versions is meant.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            AgentKey::Name(name) => name,
            AgentKey::Version(agent) => agent.name(),
        }
    }
}

impl<'a> From<&'a str> for AgentKey<'a> {
    fn from(name: &'a str) -> AgentKey<'a> {
        AgentKey::Name(name)
    }
}

impl<'a> From<&'a String> for AgentKey<'a> {
    fn from(name: &'a String) -> AgentKey<'a> {
        AgentKey::Name(name)
    }
}

impl<'a> From<&'a AgentRef> for AgentKey<'a> {
    fn from(agent: &'a AgentRef) -> AgentKey<'a> {
        AgentKey::Version(agent)
    }
}

/// What runs of each version of each agent of one publisher.
pub(crate) struct RunningAgents<A>(Mutex<State<A>>);

struct State<A> {
    agents: BTreeMap<AgentRef, A>,
    /// The versions of each agent that run, by its name, in the order in which they were started.
    order: BTreeMap<String, Vec<AgentRef>>,
    /// Versions that are being started.
    starting: BTreeSet<AgentRef>,
}

/// Reserves a version of an agent while it is being started.
pub(crate) struct StartClaim<'a, A> {
    of: &'a RunningAgents<A>,
    agent: AgentRef,
}

impl<A> Drop for StartClaim<'_, A> {
    fn drop(&mut self) {
        self.of.lock().starting.remove(&self.agent);
    }
}

impl<A> RunningAgents<A> {
    /// None yet.
    pub fn new() -> RunningAgents<A> {
        RunningAgents(Mutex::new(State { agents: BTreeMap::new(), order: BTreeMap::new(), starting: BTreeSet::new() }))
    }

    /// Reserves a version that is being started; none if it runs, or is being started by somebody else.
    pub fn claim(&self, agent: &AgentRef) -> Option<StartClaim<'_, A>> {
        let mut state = self.lock();
        let is_free = !state.agents.contains_key(agent) && state.starting.insert(agent.clone());
        is_free.then(|| StartClaim { of: self, agent: agent.clone() })
    }

    /// The name under which an agent that is being started is known where names are given once on a node: that of the agent,
    /// as long as no other version of it runs.
    pub fn job_name(&self, agent: &AgentRef) -> String {
        let state = self.lock();
        let mut others = state.order.get(agent.name()).into_iter().flatten().chain(&state.starting);
        let is_shared = others.any(|other| other != agent && other.name() == agent.name());
        if is_shared { format!("{}@{}", agent.name(), agent.version) } else { agent.name().to_owned() }
    }

    /// Adds a version that was started.
    pub fn insert(&self, agent: AgentRef, running: A) {
        let mut state = self.lock();
        state.order.entry(agent.name().to_owned()).or_default().push(agent.clone());
        state.agents.insert(agent, running);
    }

    /// Takes out one that is being stopped.
    pub fn remove(&self, key: AgentKey<'_>) -> Option<A> {
        let mut state = self.lock();
        let agent = state.find(key)?.clone();
        if let Some(versions) = state.order.get_mut(agent.name()) {
            versions.retain(|version| *version != agent);
            if versions.is_empty() {
                state.order.remove(agent.name());
            }
        }
        state.agents.remove(&agent)
    }

    /// Lets a version that runs be the one that the agent's name means; the others stay in their order.
    pub fn prefer(&self, agent: &AgentRef) {
        let mut state = self.lock();
        let Some(versions) = state.order.get_mut(agent.name()) else { return };
        if let Some(at) = versions.iter().position(|version| version == agent) {
            versions[..=at].rotate_right(1);
        }
    }

    /// The versions of an agent that run, the one first that its name means, then in the order in which they were started.
    pub fn versions(&self, name: &str) -> Vec<AgentRef> {
        self.lock().order.get(name).cloned().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, State<A>> {
        self.0.lock().expect("no holder of the agents panics")
    }
}

impl<A: Clone> RunningAgents<A> {
    /// One that runs.
    pub fn get(&self, key: AgentKey<'_>) -> Option<A> {
        let state = self.lock();
        state.agents.get(state.find(key)?).cloned()
    }

    /// All that run, in the order of their ids and versions.
    pub fn all(&self) -> Vec<(AgentRef, A)> {
        self.lock().agents.iter().map(|(agent, running)| (agent.clone(), running.clone())).collect()
    }
}

impl<A> State<A> {
    fn find<'a>(&'a self, key: AgentKey<'a>) -> Option<&'a AgentRef> {
        match key {
            AgentKey::Name(name) => self.order.get(name)?.first(),
            AgentKey::Version(agent) => Some(agent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Ports;

    fn agent(version: &str) -> AgentRef {
        Ports::none().agent_ref("echo", version).expect("a name")
    }

    #[test]
    fn an_agent_runs_in_several_versions_and_its_name_means_the_first() {
        let running = RunningAgents::new();
        // Started later, though its version comes first in the alphabet.
        let [first, second] = ["9.0.0", "10.0.0"].map(agent);
        running.insert(first.clone(), "first");
        running.insert(second.clone(), "second");
        let shown = |key: AgentKey<'_>| running.get(key);
        assert_eq!(shown("echo".into()), Some("first"));
        assert_eq!((shown((&first).into()), shown((&second).into())), (Some("first"), Some("second")));
        assert_eq!(shown((&agent("9.0.1")).into()), None);
        assert_eq!(running.versions("echo"), [first.clone(), second.clone()]);
        assert_eq!(running.all(), [(second.clone(), "second"), (first.clone(), "first")]);

        running.prefer(&second);
        assert_eq!(shown("echo".into()), Some("second"));
        assert_eq!(running.versions("echo"), [second.clone(), first.clone()]);
        running.prefer(&agent("9.0.1"));
        assert_eq!(shown("echo".into()), Some("second"), "what does not run is not preferred");
        running.prefer(&first);
        assert_eq!(running.versions("echo"), [first.clone(), second.clone()]);

        assert_eq!(running.remove((&first).into()), Some("first"));
        assert_eq!(running.remove((&first).into()), None, "it is stopped once");
        assert_eq!(running.get("echo".into()), Some("second"));
        assert_eq!(running.remove("echo".into()), Some("second"));
        assert!(running.get("echo".into()).is_none() && running.versions("echo").is_empty());
    }

    #[test]
    fn a_version_is_started_once_and_another_one_beside_it_under_a_name_of_its_own() {
        let running = RunningAgents::new();
        let [one, other] = ["1.0.0", "2.0.0"].map(agent);
        let claim = running.claim(&one).expect("nobody starts it");
        assert!(running.claim(&one).is_none(), "it is being started");
        assert_eq!(running.job_name(&one), "echo");
        let beside = running.claim(&other).expect("it is another version");
        assert_eq!(running.job_name(&other), "echo@2.0.0");
        running.insert(one.clone(), ());
        drop(claim);
        assert!(running.claim(&one).is_none(), "it runs");
        drop(beside);
        assert!(running.claim(&other).is_some(), "it did not start");
        running.remove((&one).into());
        assert_eq!(running.job_name(&other), "echo", "nothing else has that name");
    }
}
