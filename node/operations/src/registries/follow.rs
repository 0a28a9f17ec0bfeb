//! Follows registries: their logs must grow, and what publishers revoke is heard within seconds.

use std::collections::BTreeSet;
use std::time::Duration;

use althing_node::revocations::{InstalledRow, RevokedRow};
use althing_node::{Agents, end_revoked};
use althing_protocol::AgentId;
use althing_protocol::registry::{Standing, Version};
use althing_registry_client::{ListedRevocation, RegistryClient, RegistryError};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;

use super::{Registries, RegistriesError};

/// Between two questions to a registry: half of the 10 s within which a revocation is heard.
const ASK: Duration = Duration::from_secs(5);
/// How often it is checked whether rosters get old.
const RENEW: Duration = Duration::from_secs(60);
/// Revocations of one page.
const AT_ONCE: usize = 100;

/// So many questions to a registry are one about each thing that was installed from it: one in a minute.
const LOOK_AGAIN: u64 = 12;

/// What one question to a registry brought.
#[derive(Debug, Clone, Copy, Default)]
struct Heard {
    /// Something was revoked.
    news: bool,
    /// There is more to ask for.
    more: bool,
}

/// Follows registries.
pub struct Following<'a>(pub(super) &'a Registries);

impl Following<'_> {
    /// Asks each registry again and again, for as long as the node runs; ends agents that were revoked. None waits for another.
    pub(crate) async fn follow(&self, agents: &Agents) {
        let (mut asking, mut known) = (FuturesUnordered::new(), BTreeSet::new());
        loop {
            let added = self.0.added.notified();
            for at in self.0.list().into_keys() {
                if known.insert(at.clone()) {
                    asking.push(self.follow_one(at, agents));
                }
            }
            tokio::select! {
                biased;
                () = added => {}
                Some(gone) = asking.next(), if !asking.is_empty() => { known.remove(&gone); }
            }
        }
    }

    /// Renews the rosters of the owner's organisations, for as long as the node runs.
    pub(crate) async fn renew(&self) {
        loop {
            self.0.some().await;
            self.0.organising().renew_rosters().await;
            tokio::time::sleep(RENEW).await;
        }
    }

    /// Asks one registry until it is followed no more; gives its address.
    async fn follow_one(&self, at: String, agents: &Agents) -> String {
        for asked in 1_u64.. {
            if !self.0.list().contains_key(&at) {
                break;
            }
            if asked.is_multiple_of(LOOK_AGAIN) && matches!(self.look_again(&at).await, Ok(true)) {
                end_revoked(agents).await;
            }
            let more = match self.ask(&at).await {
                Ok(Heard { news, more }) => {
                    if news {
                        end_revoked(agents).await;
                    }
                    more
                }
                Err(error) => {
                    tracing::debug!(registry = at, %error, "a registry could not be asked");
                    false
                }
            };
            if !more {
                tokio::time::sleep(ASK).await;
            }
        }
        at
    }

    /// Asks one registry for its checkpoint and for revocations.
    async fn ask(&self, at: &str) -> Result<Heard, RegistriesError> {
        let Some(row) = self.0.list().remove(at).filter(|row| row.forked.is_none()) else {
            return Ok(Heard::default());
        };
        let mut client = self.0.client(at)?;
        let before = row.read(at)?.1;
        let shown = client.checkpoint(None).await?;
        if shown.head == before.head && row.revoked_from >= before.head.size {
            return Ok(Heard::default());
        }
        let size = shown.head.size;
        self.0.compare(at, &client, shown).await?;
        if self.has_installed(at) {
            // What was installed may not be for everybody, and then neither is its revocation.
            // Without a sign-in what is for everybody is heard all the same.
            client = self.0.organising().visitor(&client).await;
        }
        let listed = client.revoked(row.revoked_from).await?;
        let more = listed.len() >= AT_ONCE;
        let (mut news, mut next) = (false, row.revoked_from);
        for one in listed.into_iter().take(AT_ONCE) {
            next = next.max(one.entry.saturating_add(1)).min(size);
            match self.hear(at, &client, &one).await {
                Ok(new) => news |= new,
                Err(error) if is_passing(&error) => return Err(error),
                // It is its word only: nobody revoked anything.
                Err(error) => {
                    tracing::warn!(registry = at, agent = one.agent, version = one.version, %error, "a revocation without proof");
                }
            }
        }
        self.asked(at, if more { next } else { size }).await?;
        self.0.inventory.tell();
        // A page that leads nowhere is not asked for again at once.
        Ok(Heard { news, more: more && next > row.revoked_from })
    }

    /// Whether a registry hears of the owner anyway: something was installed from it, or the owner is an organisation there.
    pub(super) fn is_known(&self, at: &str) -> bool {
        self.has_installed(at) || self.0.organising().is_organisation(at)
    }

    /// Whether an agent or a workflow was installed from a registry.
    fn has_installed(&self, at: &str) -> bool {
        !self.0.inventory.of_registry(at).is_empty()
    }

    /// Asks for the standing of what was installed from a registry, which may not have been shown when it was revoked; whether
    /// something was.
    async fn look_again(&self, at: &str) -> Result<bool, RegistriesError> {
        let mut news = false;
        let installed = self.0.inventory.of_registry(at);
        if installed.is_empty() {
            return Ok(news);
        }
        let client = self.0.organising().visitor(&self.0.client(at)?).await;
        for InstalledRow { agent, version, .. } in installed {
            let asked = ListedRevocation { entry: 0, agent, version };
            match self.hear(at, &client, &asked).await {
                Ok(new) => news |= new,
                Err(error) => {
                    tracing::debug!(registry = at, agent = asked.agent, %error, "what was installed is not shown");
                }
            }
        }
        Ok(news)
    }

    /// Verifies one revocation, and remembers it; whether it is new.
    async fn hear(&self, at: &str, client: &RegistryClient, one: &ListedRevocation) -> Result<bool, RegistriesError> {
        let (agent, version): (AgentId, Version) = (one.agent.parse()?, one.version.parse()?);
        if self.0.revocations.of(&agent, &one.version).is_some() {
            return Ok(false);
        }
        let verified = self.0.release(client, &agent, &version).await?;
        self.0.compare(at, client, verified.checkpoint.clone()).await?;
        if verified.standing != Standing::Revoked {
            return Ok(false);
        }
        tracing::warn!(%agent, %version, reason = verified.reason, "its publisher revoked a release");
        let row = RevokedRow { reason: verified.reason, registry: at.to_owned() };
        Ok(self.0.revocations.add(&agent, &version, row).await?)
    }

    /// Remembers up to where revocations were heard.
    async fn asked(&self, at: &str, from: u64) -> Result<(), RegistriesError> {
        let _changing = self.0.changing.lock().await;
        let Some(mut row) = self.0.known().get(at).cloned() else { return Ok(()) };
        row.revoked_from = row.revoked_from.max(from);
        self.0.write(at, Some(row)).await
    }
}

/// Whether an answer may be another one in a moment.
fn is_passing(error: &RegistriesError) -> bool {
    match error {
        RegistriesError::Registry(RegistryError::Unreachable { .. }) => true,
        RegistriesError::Registry(RegistryError::Refused { status, .. }) => *status == 429 || *status >= 500,
        _ => false,
    }
}
