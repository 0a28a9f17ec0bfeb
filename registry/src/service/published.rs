//! What was released and is hosted by no node, Things that run elsewhere and workflows: it is found by what its description says.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use althing_protocol::AgentId;
use althing_protocol::registry::Version;
use althing_td::{Capability, Description};

use super::hosts::HostQuery;
use super::releases::Reader;
use super::{Registry, RequestError};
use crate::machine::{Released, Statement};

/// Things of one answer.
const ANSWER_MAX: usize = 32;
/// Descriptions in memory that are not for everybody.
const LIMITED_MAX: usize = 4_096;

/// What the description of a Thing says that it can do.
struct Described {
    /// The entry of the release whose description it is.
    entry: u64,
    capabilities: Vec<Capability>,
}

/// What was read of descriptions.
#[derive(Default)]
pub struct PublishedThings {
    /// Of those that everybody sees.
    public: BTreeMap<AgentId, Described>,
    /// Of others, by the entries of their releases. They lie apart: what somebody reads of them makes others read nothing anew.
    limited: BTreeMap<u64, Vec<Capability>>,
}

impl PublishedThings {
    /// What the description of a release says that the Thing can do.
    fn capabilities(
        &mut self,
        registry: &Registry,
        (agent, entry): (&AgentId, u64),
        is_public: bool,
    ) -> Result<&[Capability], RequestError> {
        if is_public {
            if self.public.get(agent).is_none_or(|described| described.entry != entry) {
                let capabilities = read(registry, entry)?;
                self.public.insert(agent.clone(), Described { entry, capabilities });
            }
            return Ok(self.public.get(agent).map_or(&[][..], |described| &described.capabilities[..]));
        }
        if self.limited.len() >= LIMITED_MAX {
            self.limited.clear();
        }
        let known = match self.limited.entry(entry) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(read(registry, entry)?),
        };
        Ok(&known[..])
    }
}

/// Reads the description of a release.
fn read(registry: &Registry, entry: u64) -> Result<Vec<Capability>, RequestError> {
    let (_, statement) = registry.statement(entry)?;
    let Statement::Release(_, described) = statement else { return Err(RequestError::Damaged(entry)) };
    let description = Description::parse(&described.body.td).map_err(|_| RequestError::Damaged(entry))?;
    Ok(description.capabilities().to_vec())
}

/// The Things of a registry that were released.
pub struct Published<'a>(pub(super) &'a Registry);

impl Published<'_> {
    /// Those that a reader sees and that match, in the current versions that it sees.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn find(&self, query: &HostQuery, reader: Reader) -> Result<Vec<(AgentId, Version)>, RequestError> {
        let now_ms = (self.0.clock)();
        let current: Vec<(AgentId, Version, u64, bool)> = {
            let seen = self.0.seen();
            let machine = &seen.machine;
            let of = |agent: &AgentId| {
                let sees = |released: &Released| machine.sees(reader, agent, released, now_ms);
                let (_, version, released) = machine.agent(agent)?.seen(sees)?;
                let found = || (agent.clone(), version.clone(), released.index, released.is_public());
                released.is_unhosted.then(found)
            };
            machine.published_things().filter_map(of).collect()
        };
        let mut known = self.0.published.lock().expect("no holder of the descriptions panics");
        let mut found = Vec::new();
        for (agent, version, entry, is_public) in current {
            if query.matches(&agent, known.capabilities(self.0, (&agent, entry), is_public)?) {
                found.push((agent, version));
                if found.len() >= ANSWER_MAX {
                    break;
                }
            }
        }
        Ok(found)
    }
}
