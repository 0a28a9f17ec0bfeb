//! Agents whose names look like those of others.

use althing_protocol::AgentId;

use super::RegistryState;

/// Agents or domains that look like another one, at most.
pub const TWINS_MAX: usize = 8;

/// Agents that everybody sees, of other publishers, that were here before an agent and whose names look like its own; the oldest
/// first. An organisation's agents and those of its members are no strangers to each other.
#[must_use]
pub fn twins_of(machine: &RegistryState, agent: &AgentId) -> Vec<AgentId> {
    let shown = machine.shown_agents();
    let hidden = || machine.agent(agent)?.iter().map(|(_, released)| released.index).min();
    let Some(first) = shown.get(agent).map(|shown| shown.first).or_else(hidden) else { return Vec::new() };
    // The word of whoever was here first: anybody can name a stranger a member.
    let names = |other: &AgentId| {
        machine.organisations().roster(other.publisher()).is_some_and(|held| held.roster.names(agent))
    };
    let strangers = shown.twins().before(agent, first).filter(|other| !names(other));
    strangers.take(TWINS_MAX).cloned().collect()
}
