//! Agents of which not everybody sees everything.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use althing_protocol::registry::{Reach, Release};
use althing_protocol::{AgentId, PublisherId};

/// Agents that have had a release which is not for everybody, and those who were named as its readers. Of one that was purged
/// they stay, with nothing to see.
#[derive(Debug, Clone, Default)]
pub struct Limited {
    agents: BTreeSet<AgentId>,
    readers: BTreeSet<PublisherId>,
}

impl Limited {
    /// Takes note of a release.
    pub(super) fn note(&mut self, release: &Release) {
        if release.audience.reach != Reach::Public {
            self.agents.insert(release.agent.clone());
            self.readers.extend(&release.audience.readers);
        }
    }

    /// Whether a publisher was ever named as a reader.
    #[must_use]
    pub fn has_reader(&self, publisher: PublisherId) -> bool {
        self.readers.contains(&publisher)
    }

    /// Those after an agent, in the order of their ids.
    pub fn after(&self, agent: Option<&AgentId>) -> impl Iterator<Item = &AgentId> {
        self.agents.range((agent.map_or(Unbounded, Excluded), Unbounded))
    }
}
