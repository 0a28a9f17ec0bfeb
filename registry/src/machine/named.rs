//! Agents whose names look like those of others.

use althing_protocol::AgentId;

use super::Machine;

/// Agents or domains that look like another one, at most.
pub const TWINS_MAX: usize = 8;

impl Machine {
    /// Agents that everybody sees, of other publishers, that were here before an agent and whose names look like its own; the oldest
    /// first. An organisation's agents and those of its members are no strangers to each other.
    #[must_use]
    pub fn twins(&self, agent: &AgentId) -> Vec<AgentId> {
        let hidden = || self.agent(agent)?.iter().map(|(_, released)| released.index).min();
        let Some(first) = self.shown_agents().get(agent).map(|shown| shown.first).or_else(hidden) else {
            return Vec::new();
        };
        // The word of whoever was here first: anybody can name a stranger a member.
        let names = |other: &AgentId| {
            self.organisations().roster(other.publisher()).is_some_and(|held| held.roster.names(agent))
        };
        let strangers = self.shown_agents().twins().before(agent, first).filter(|other| !names(other));
        strangers.take(TWINS_MAX).cloned().collect()
    }
}
