//! Why calls of agents are refused whose publishers revoked them, also where the agent was stopped and nobody hosts it.

use std::sync::Arc;

use althing_calls::RevocationCheck;
use althing_protocol::{AgentId, PublisherId};
use althing_store::Store;

use crate::orders::Orders;
use crate::publish;
use crate::revocations::Revocations;

/// The revocations that this node knows, of others' agents and of its own.
pub(crate) struct KnownRevocations {
    pub(crate) revocations: Arc<Revocations>,
    pub(crate) orders: Arc<Orders>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) owner: PublisherId,
}

impl RevocationCheck for KnownRevocations {
    fn version(&self, agent: &AgentId, version: &str) -> Option<String> {
        self.revocations.of(agent, version)
    }

    fn order(&self, agent: &AgentId) -> Option<String> {
        self.orders.why_stopped(agent)
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
