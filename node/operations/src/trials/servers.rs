//! Which servers may be changed in a live test.

use std::collections::BTreeSet;

use althing_execution::Host;
use althing_protocol::{AgentRef, Contract};

use super::error::TestError;

/// The servers of whose tools the contracts of agents let these call some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AgentServers(BTreeSet<String>);

impl AgentServers {
    /// Those of agents that run on a host.
    pub fn of(host: &Host, agents: &[&AgentRef]) -> AgentServers {
        let bindings = agents.iter().filter_map(|agent| host.binding(*agent));
        AgentServers(bindings.flat_map(|binding| servers(&binding.bound.manifest.contract)).collect())
    }

    /// Whether one of the agents, `named` as their owner does, uses each server that a live test permits to be changed.
    ///
    /// # Errors
    /// [`TestError::NoServer`]: what is denied under a name that was mistyped would look like a fault of the agent.
    pub fn check(self, permitted: Option<&BTreeSet<String>>, named: &str) -> Result<(), TestError> {
        let unused = permitted.and_then(|permitted| permitted.difference(&self.0).next().cloned());
        match unused {
            Some(server) => Err(TestError::NoServer { agent: named.to_owned(), server, servers: self.0 }),
            None => Ok(()),
        }
    }
}

/// Those of one contract.
fn servers(contract: &Contract) -> BTreeSet<String> {
    let named = contract.capabilities.iter().filter_map(|capability| capability.split_once('/'));
    named.map(|(server, _)| server.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use althing_failure::Kind;
    use althing_protocol::contract::{Class, Srt};

    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_test_server_that_the_agent_does_not_use_is_refused_with_those_that_it_uses() {
        let capabilities = ["desk/*", "count/add", "count/clear"].map(str::to_owned).to_vec();
        let contract = Contract { capabilities, ..Contract::of(Class::Srt(Srt::default())) };
        let check = |permitted: &[&str]| AgentServers(servers(&contract)).check(Some(&set(permitted)), "clerk");
        assert_eq!(AgentServers(set(&[])).check(None, "clerk"), Ok(()));
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&["desk", "count"]), Ok(()));
        let error = check(&["count", "decs"]).expect_err("it was mistyped");
        let told = error.to_string();
        assert!(told.contains("uses no server \"decs\"") && told.ends_with("has tools of count, desk"), "{told}");
        assert_eq!(error.kind(), Kind::Invalid);
        let none = AgentServers(set(&[])).check(Some(&set(&["count"])), "clerk");
        let none = none.expect_err("it calls nothing").to_string();
        assert!(none.contains("has no capabilities"), "{none}");
    }
}
