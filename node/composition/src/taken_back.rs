//! Why calls of agents are refused whose publishers revoked them, also where the agent was stopped and nobody hosts it.

use std::sync::Arc;

use althing_calls::TakenBack;
use althing_protocol::{AgentId, PublisherId};
use althing_store::Store;

use crate::publish;
use crate::revocations::Revocations;

/// What this node knows to be revoked, of others' agents and of its own.
pub(crate) struct KnownRevoked {
    pub(crate) revocations: Arc<Revocations>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) owner: PublisherId,
}

impl TakenBack for KnownRevoked {
    fn version(&self, agent: &AgentId, version: &str) -> Option<String> {
        self.revocations.of(agent, version)
    }

    fn stopped(&self, agent: &AgentId) -> Option<String> {
        if agent.publisher() != self.owner {
            return None;
        }
        let added = publish::named(self.store.as_ref(), agent.name()).ok()??;
        let why = self.revocations.here(agent, &added.file.version)?;
        Some(format!("{:?} was stopped on this node: {why}", agent.name()))
    }

    fn any(&self, agent: &AgentId) -> Option<String> {
        self.revocations.any(agent)
    }
}
