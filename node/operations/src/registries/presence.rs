//! Reports the presence of this node to registries: where it is, and what it hosts. Asks them for hosts of what is looked for.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use althing_communication::Provider;
use althing_discovery::{Discovery, HostHints};
use althing_protocol::AgentId;
use althing_protocol::inquiry::Inquiry;
use althing_protocol::limits::PRESENCE_GRANTS_MAX;
use althing_protocol::registry::Presence;
use futures::future::join_all;
use tokio::time::Instant;

use super::{Following, Registries};

/// How often it is checked whether registries are to be told something.
const LOOK: Duration = Duration::from_secs(1);
/// Between two times that a registry is told the same: a third of how long it believes that.
const TELL: Duration = Duration::from_secs(20);
/// How long a contact is valid that a registry is told.
const CONTACT_MS: u64 = 10 * 60 * 1_000;

impl Following<'_> {
    /// Tells each registry of this node again and again, for as long as the node runs; soon where something has changed.
    pub(crate) async fn tell(&self, discovery: &Discovery) {
        let (mut told, mut at) = (None, Instant::now());
        loop {
            let registries: Vec<String> = self.0.some().await.into_keys().collect();
            let agents: Vec<AgentId> =
                discovery.introduced().into_iter().map(|agent| agent.verified.agent.clone()).collect();
            let now = Some((registries, agents));
            if now != told || at.elapsed() >= TELL {
                (told, at) = (now, Instant::now());
                self.tell_all(discovery).await;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn tell_all(&self, discovery: &Discovery) {
        let known = self.0.list();
        let grants = discovery.introduced().into_iter().map(|agent| agent.verified.grant.bytes.clone().into());
        let grants: Vec<_> = grants.take(PRESENCE_GRANTS_MAX).collect();
        let Some(contact) = discovery.contact(CONTACT_MS).filter(|_| !grants.is_empty()) else { return };
        let presence = Presence { contact: contact.bytes.into(), grants };
        let presence = &presence;
        let told = known.keys().map(|at| async move {
            let told = match self.0.client(at) {
                Ok(client) => client.host(presence).await.map_err(Into::into),
                Err(error) => Err(error),
            };
            if let Err(error) = told {
                tracing::debug!(registry = at, %error, "a registry was not told what is hosted here");
            }
        });
        join_all(told).await;
    }
}

impl HostHints for Registries {
    fn available(&self) -> bool {
        self.known().values().any(|row| row.forked.is_none())
    }

    fn hosts<'a>(&'a self, inquiry: &'a Inquiry) -> Pin<Box<dyn Future<Output = Vec<Provider>> + Send + 'a>> {
        Box::pin(async move {
            let (network, now_ms) = (self.identity.network(), self.identity.clock().now_ms());
            let asked = self.list().into_keys().map(|at| async move {
                let client = self.client(&at).ok()?;
                match client.hosts(network, inquiry, now_ms).await {
                    Ok(contacts) => Some(contacts),
                    Err(error) => {
                        tracing::debug!(registry = at, %error, "a registry names no hosts");
                        None
                    }
                }
            });
            let named = join_all(asked).await.into_iter().flatten().flatten();
            named.map(|contact| Provider { node: contact.node, addresses: contact.addresses }).collect()
        })
    }
}
