//! Agents of which not everybody sees everything.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use althing_protocol::AgentId;
use althing_protocol::registry::{Reach, Release};

/// Agents that have had a release which is not for everybody. Of one that was purged the agent stays, with nothing to see.
#[derive(Debug, Clone, Default)]
pub struct Limited(BTreeSet<AgentId>);

impl Limited {
    /// Takes note of a release.
    pub(super) fn note(&mut self, release: &Release) {
        if release.audience.reach != Reach::Public {
            self.0.insert(release.agent.clone());
        }
    }

    /// Those after an agent, in the order of their ids.
    pub fn after(&self, agent: Option<&AgentId>) -> impl Iterator<Item = &AgentId> {
        self.0.range((agent.map_or(Unbounded, Excluded), Unbounded))
    }
}
