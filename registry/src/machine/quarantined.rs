//! What the operator of a registry hides, as far as the log says it.

use std::collections::BTreeMap;

use althing_protocol::AgentId;
use althing_protocol::registry::{Quarantine, Version};

/// What is hidden, and why.
#[derive(Debug, Clone, Default)]
pub(super) struct Quarantined(BTreeMap<(AgentId, Option<Version>), String>);

impl Quarantined {
    pub(super) fn apply(&mut self, record: &Quarantine) {
        let key = (record.agent.clone(), record.version.clone());
        match &record.reason {
            Some(reason) => self.0.insert(key, reason.clone()),
            None => self.0.remove(&key),
        };
    }

    /// Why a version is hidden by itself, not with all of its agent.
    pub(super) fn alone(&self, agent: &AgentId, version: &Version) -> Option<&String> {
        self.0.get(&(agent.clone(), Some(version.clone())))
    }

    /// Why all of an agent is hidden.
    pub(super) fn whole(&self, agent: &AgentId) -> Option<&String> {
        self.0.get(&(agent.clone(), None))
    }
}
