//! What was released and is hosted by no node, Things that run elsewhere and workflows: it is found by what its description says.

use std::collections::BTreeMap;

use althing_protocol::AgentId;
use althing_protocol::registry::Version;
use althing_td::{Capability, Description};

use super::hosts::HostQuery;
use super::{Registry, RequestError};
use crate::machine::Statement;

/// Things of one answer.
const ANSWER_MAX: usize = 32;

/// What the description of a Thing says that it can do.
struct Described {
    /// The entry of the release whose description it is.
    entry: u64,
    capabilities: Vec<Capability>,
}

/// What was read of descriptions.
#[derive(Default)]
pub struct PublishedThings(BTreeMap<AgentId, Described>);

/// The Things of a registry that were released.
pub struct Published<'a>(pub(super) &'a Registry);

impl Published<'_> {
    /// Those that everybody sees and that match, in their current versions.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn find(&self, query: &HostQuery) -> Result<Vec<(AgentId, Version)>, RequestError> {
        let current: Vec<(AgentId, Version, u64)> = {
            let seen = self.0.seen();
            let machine = &seen.machine;
            let of = |agent: &AgentId| {
                let (version, released) =
                    machine.agent(agent)?.current().filter(|(_, released)| released.is_unhosted)?;
                Some((agent.clone(), version.clone(), released.index))
            };
            machine.published_things().filter_map(of).collect()
        };
        let mut known = self.0.published.lock().expect("no holder of the descriptions panics");
        let mut found = Vec::new();
        for (agent, version, entry) in current {
            if known.0.get(&agent).is_none_or(|described| described.entry != entry) {
                let (_, statement) = self.0.statement(entry)?;
                let Statement::Release(_, described) = statement else { return Err(RequestError::Damaged(entry)) };
                let description = Description::parse(&described.body.td).map_err(|_| RequestError::Damaged(entry))?;
                let capabilities = description.capabilities().to_vec();
                known.0.insert(agent.clone(), Described { entry, capabilities });
            }
            if known.0.get(&agent).is_some_and(|described| query.matches(&agent, &described.capabilities)) {
                found.push((agent, version));
                if found.len() >= ANSWER_MAX {
                    break;
                }
            }
        }
        Ok(found)
    }
}
