//! What publishers say of releases, as the registries that this node follows prove it.

use std::time::Duration;

use althing_protocol::AgentId;
use althing_protocol::registry::{Standing, Version};

use super::Registries;

/// How long registries may take; one that takes longer has said nothing.
const PATIENCE: Duration = Duration::from_secs(3);

impl Registries {
    /// How a release stands: the worst that a registry proves. None if none proves anything: a registry that is down costs
    /// only what it would have said.
    pub(crate) async fn standing(&self, agent: &AgentId, version: &str) -> Option<Standing> {
        if self.revocations.of(agent, version).is_some() {
            return Some(Standing::Revoked);
        }
        let version: &Version = &version.parse().ok()?;
        let asked = self.list().into_iter().filter(|(_, row)| row.forked.is_none()).map(|(at, _)| async move {
            let client = self.organising().visitor(&self.client(&at).ok()?).await;
            let verified = self.release(&client, agent, version).await.ok()?;
            self.accept(&at, &client, verified.checkpoint.clone()).await.ok()?;
            Some(verified.standing)
        });
        let asked = asked.map(|one| async { tokio::time::timeout(PATIENCE, one).await.ok().flatten() });
        futures::future::join_all(asked).await.into_iter().flatten().max()
    }
}
