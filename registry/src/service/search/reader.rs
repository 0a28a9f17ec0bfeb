//! What a reader sees of agents and others do not: releases that are not for everybody. The index does not know them, so that each
//! is looked at.

use althing_protocol::AgentId;

use super::{PICKED_AT_ONCE, Search, SearchError};
use crate::machine::{RegistryState, Released};
use crate::service::releases::Reader;
use crate::service::things::Picked;

impl Search<'_> {
    /// Looks at the agents of which the reader sees another current release than everybody does, or one where others see none.
    pub(super) fn of_reader(&mut self) -> Result<(), SearchError> {
        let mut after: Option<AgentId> = None;
        loop {
            let (picked, last) = {
                let seen = self.registry.seen();
                let all = seen.machine.limited().after(after.as_ref());
                let some: Vec<&AgentId> = all.take(PICKED_AT_ONCE).collect();
                let pick = |agent: &&AgentId| as_seen(&seen.machine, self.reader, agent, self.now_ms);
                let picked: Vec<Picked> = some.iter().filter_map(pick).collect();
                (picked, some.last().copied().cloned())
            };
            self.check_time()?;
            for pick in &picked {
                self.within_time()?;
                self.look_at(pick)?;
            }
            match last {
                Some(last) => after = Some(last),
                None => return Ok(()),
            }
        }
    }
}

/// An agent as a reader sees it, if that is not as everybody does.
fn as_seen(machine: &RegistryState, reader: Reader, agent: &AgentId, now_ms: u64) -> Option<Picked> {
    let sees = |released: &Released| machine.sees(reader, agent, released, now_ms);
    let (first, _, current) = machine.agent(agent)?.seen(sees)?;
    let is_as_shown = machine.shown_agents().get(agent).is_some_and(|shown| shown.current == current.index);
    (!is_as_shown).then(|| Picked::Agent(agent.clone(), first, current.index))
}
