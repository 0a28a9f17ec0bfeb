//! The registries that a node follows: publishes in, installs from, and hears revocations of.
//!
//! A registry is believed in nothing but what publishers signed and its log proves. One that shows two histories is asked
//! nothing more, and both are kept as evidence.

mod attesting;
mod build;
mod contents;
mod error;
mod follow;
mod held;
mod holder;
mod install;
mod inventory;
mod organisation;
mod outdated;
mod portable;
mod presence;
mod publishing;
mod purge;
mod receipt_book;
mod receipts;
mod requirement;
mod rows;
mod stage;
mod standing;
mod thing;
mod witnesses;
mod workflows;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use althing_discovery::{Fetch, SystemResolver};
use althing_node::revocations::{Revocations, bytes};
use althing_node::{Event, Events, Identity, Node};
use althing_protocol::registry::{VerifiedRelease, Version};
use althing_protocol::tlog::{Checkpoint, NoteKey};
use althing_protocol::{AgentId, near};
use althing_registry_client::RegistryClient;
use althing_store::{Batch, Durability, Store};

use crate::doctor::RegistryHealth;

pub use althing_registry_client::{
    ListedAgent, ListedVersion, Pending, RegistryError, Said, ShownDomain, ShownProof, Watched,
};
pub use attesting::{Attested, Attesting, Claim, ShownRelease};
pub use build::{BuildStage, BuiltStage};
pub use error::RegistriesError;
pub(crate) use follow::Following;
pub use held::HeldRelease;
pub use holder::HolderError;
pub use install::{Installation, Installing, NamedBy, Offer, UpdateTerms};
pub use inventory::Inventory;
pub use organisation::{MemberRow, ORGANISATIONS, OrganisationRow, Organising, Proof, WatchedLog};
pub use outdated::Outdated;
pub use publishing::{Mark, Publication, Published, Publishing};
pub use receipt_book::{FoundReceipt, KeptReceipt, KeptReceipts, ReceiptBook, ReceiptError, WantedReceipts};
pub use receipts::RECEIPTS;
pub use requirement::{AttestedRow, Lack, Requirement};
pub(crate) use rows::followed;
pub use rows::{REGISTRIES, RegistryRow, WitnessesRow};
pub use stage::{Approvable, read_audience};
pub use witnesses::Witnesses;
pub use workflows::InstalledWorkflows;

pub use thing::{PublishedThing, ReleasedThings};

use receipts::Receipts;
use rows::REGISTRIES_MAX;

/// The registries that a node follows.
pub struct Registries {
    store: Arc<dyn Store>,
    identity: Arc<Identity>,
    revocations: Arc<Revocations>,
    inventory: Inventory,
    /// The proofs that logs have what the owner sent.
    receipts: Receipts,
    /// What must be attested of releases before they are installed.
    requirements: Vec<Requirement>,
    fetch: OnceLock<Fetch>,
    known: Mutex<BTreeMap<String, RegistryRow>>,
    /// Held while what is known of one changes.
    changing: tokio::sync::Mutex<()>,
    /// Told when a registry is added.
    added: tokio::sync::Notify,
    events: Events,
}

impl Registries {
    /// Those that a node follows, of which all that is installed must have what is required.
    pub(crate) fn open(
        followed: BTreeMap<String, RegistryRow>,
        node: &Node,
        requirements: Vec<Requirement>,
    ) -> Registries {
        let (store, identity, revocations) = (node.store.clone(), node.identity.clone(), node.revocations.clone());
        let receipts = Receipts::new(store.clone());
        let inventory = Inventory::new(revocations.clone());
        let (fetch, changing, added) = Default::default();
        Registries {
            store,
            identity,
            revocations,
            inventory,
            receipts,
            requirements,
            fetch,
            known: Mutex::new(followed),
            changing,
            added,
            events: node.events.clone(),
        }
    }

    /// Those that are followed, by their addresses.
    ///
    /// # Panics
    /// If another holder panicked.
    #[must_use]
    pub fn list(&self) -> BTreeMap<String, RegistryRow> {
        self.known().clone()
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, RegistryRow>> {
        self.known.lock().expect("no holder of the registries panics")
    }

    /// Follows the registry at `url`, whose key its operator gave; asks for its checkpoint first, which as many of the
    /// witnesses must have cosigned as are wanted. Of one that is followed it changes the witnesses, if any are named.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub async fn add(
        &self,
        url: &str,
        key: &str,
        witnesses: &Witnesses,
    ) -> Result<(String, RegistryRow), RegistriesError> {
        let (key, witnesses) = (key.parse::<NoteKey>()?, witnesses.row()?);
        let client = RegistryClient::new(self.fetch()?, url, key.clone())?;
        let at = client.address().to_owned();
        let _changing = self.changing.lock().await;
        match self.known().get(&at) {
            Some(known) if known.key != key.to_string() => {
                return Err(RegistriesError::OtherKey { at, key: known.key.clone() });
            }
            Some(known) if witnesses.is_none() || known.witnesses == witnesses => return Ok((at, known.clone())),
            _ => {}
        }
        let before = self.known().get(&at).cloned();
        if before.is_none() && self.known().len() >= REGISTRIES_MAX {
            return Err(RegistriesError::Full(REGISTRIES_MAX));
        }
        let checkpoint = client.checkpoint(None).await?;
        if let Some(mut known) = before {
            known.witnesses = witnesses;
            known.check_cosigned(&at, &checkpoint)?;
            self.write(&at, Some(known.clone())).await?;
            return Ok((at, known));
        }
        let (theirs, ours) = (client.network().await?, self.identity.network().to_owned());
        if theirs != ours {
            return Err(RegistriesError::OtherNetwork { at, theirs, ours });
        }
        let row = RegistryRow {
            key: key.to_string(),
            checkpoint: checkpoint.note().to_owned(),
            revoked_from: 0,
            forked: None,
            witnesses,
        };
        row.check_cosigned(&at, &checkpoint)?;
        self.write(&at, Some(row.clone())).await?;
        self.added.notify_waiters();
        Ok((at, row))
    }

    /// Waits until at least one registry is followed; most nodes follow none, and do nothing for it.
    async fn some(&self) -> BTreeMap<String, RegistryRow> {
        loop {
            let added = self.added.notified();
            let known = self.list();
            if !known.is_empty() {
                return known;
            }
            added.await;
        }
    }

    /// Stops to follow a registry. What its publishers revoked stays revoked, and its receipts are kept.
    ///
    /// # Errors
    /// [`RegistriesError::Unknown`], and those of the store.
    pub async fn remove(&self, named: &str) -> Result<String, RegistriesError> {
        let _changing = self.changing.lock().await;
        let at = self.named(Some(named))?;
        let log = self.known().get(&at).map(|row| row.key.clone()).unwrap_or_default();
        self.write(&at, None).await?;
        let followed = self.known().values().map(|row| row.key.clone()).collect();
        self.receipts.forget_former(&followed, &log).await;
        Ok(at)
    }

    /// The address of a registry, and the releases of an agent that it lists; of the first hundred agents if none is named.
    /// A list is its word: only a release itself is verified.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub async fn releases(
        &self,
        agent: Option<&str>,
        registry: Option<&str>,
    ) -> Result<(String, Vec<ListedAgent>), RegistriesError> {
        let at = self.named(registry)?;
        let mut client = self.client(&at)?;
        let agent = agent.map(|agent| self.agent(agent)).transpose()?;
        // Of the owner's own it shows those too that are not for everybody, or that its operator hides.
        if agent.as_ref().is_none_or(|agent| agent.publisher() == self.identity.owner().id()) {
            client = self.organising().visitor(&client).await;
        }
        let Some(agent) = agent else { return Ok((at, client.agents(None).await?)) };
        Ok((at, vec![client.agent(&agent).await?]))
    }

    /// How the registries are, each asked now.
    pub(crate) async fn examine(&self) -> Vec<RegistryHealth> {
        let asked = self.list().into_iter().map(|(at, row)| async move {
            let seen = row.read(&at).map_or(0, |(_, checkpoint)| checkpoint.head.size);
            let shown = match self.client(&at) {
                Ok(client) => match client.checkpoint(None).await {
                    Ok(shown) => row.check_cosigned(&at, &shown).map(|()| shown).map_err(|error| error.to_string()),
                    Err(error) => Err(error.to_string()),
                },
                Err(error) => Err(error.to_string()),
            };
            let entries = shown.map(|checkpoint| checkpoint.head.size);
            let held = self.inventory.held_of(&at);
            RegistryHealth { at, forked: row.forked.is_some(), entries, seen, held }
        });
        futures::future::join_all(asked).await
    }

    /// A release, verified by what this node knows of its publisher's keys.
    async fn release(
        &self,
        client: &RegistryClient,
        agent: &AgentId,
        version: &Version,
    ) -> Result<VerifiedRelease, RegistryError> {
        let accepted = self.identity.keys_of(agent.publisher());
        client.release_under(self.identity.network(), agent, version, accepted.as_deref()).await
    }

    /// The agent of that id, or the owner's of that name.
    fn agent(&self, named: &str) -> Result<AgentId, RegistriesError> {
        if named.starts_with("urn:") {
            return Ok(named.parse()?);
        }
        Ok(AgentId::new(self.identity.owner().id(), named)?)
    }

    /// Releases, marks and approvals of the owner's.
    #[must_use]
    pub fn publishing(&self) -> Publishing<'_> {
        Publishing(self)
    }

    /// What the owner sends to registries, and the receipts of it.
    #[must_use]
    pub fn receipt_book(&self) -> ReceiptBook<'_> {
        ReceiptBook(self)
    }

    /// What was found of releases.
    #[must_use]
    pub fn attesting(&self) -> Attesting<'_> {
        Attesting(self)
    }

    /// Things that were released.
    #[must_use]
    pub fn things(&self) -> ReleasedThings<'_> {
        ReleasedThings(self)
    }

    /// What was installed from registries, and how newer releases of it come.
    #[must_use]
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// What is installed from registries.
    #[must_use]
    pub fn installing(&self) -> Installing<'_> {
        Installing(self)
    }

    /// The workflows that are installed from registries.
    #[must_use]
    pub fn workflows(&self) -> InstalledWorkflows<'_> {
        InstalledWorkflows(self)
    }

    /// The owner as an organisation.
    #[must_use]
    pub fn organising(&self) -> Organising<'_> {
        Organising(self)
    }

    /// What is heard of registries, and what they are told, for as long as the node runs.
    pub(crate) fn following(&self) -> Following<'_> {
        Following(self)
    }

    async fn write(&self, at: &str, row: Option<RegistryRow>) -> Result<(), RegistriesError> {
        let mut batch = Batch::new();
        match &row {
            Some(row) => batch.put(REGISTRIES, at.as_bytes(), bytes(row)),
            None => batch.delete(REGISTRIES, at.as_bytes()),
        };
        self.store.write(batch, Durability::Synced).await?;
        let before = match row {
            Some(row) => self.known().insert(at.to_owned(), row),
            None => self.known().remove(at),
        };
        note(&self.events, at, before.as_ref(), self.known().get(at));
        Ok(())
    }

    /// The address of the registry that is meant: by its address, by its name, or the only one.
    fn named(&self, named: Option<&str>) -> Result<String, RegistriesError> {
        let known = self.known();
        match named {
            None => match known.len() {
                0 => Err(RegistriesError::None),
                1 => Ok(known.keys().next().cloned().unwrap_or_default()),
                _ => Err(RegistriesError::Several(known.keys().cloned().collect())),
            },
            Some(named) => {
                let is_meant = |(at, row): &(&String, &RegistryRow)| {
                    at.trim_end_matches('/') == named.trim_end_matches('/')
                        || row.key.split('+').next().is_some_and(|name| name == named)
                };
                let found = known.iter().find(is_meant).map(|(at, _)| at.clone());
                found.ok_or_else(|| {
                    let names = known.values().filter_map(|row| row.key.split('+').next());
                    let hint = near::hint(named, known.keys().map(String::as_str).chain(names));
                    RegistriesError::Unknown(named.to_owned(), hint)
                })
            }
        }
    }

    /// A client of a registry, unless it showed two histories.
    fn client(&self, at: &str) -> Result<RegistryClient, RegistriesError> {
        let unknown = || RegistriesError::Unknown(at.to_owned(), String::new());
        let row = self.known().get(at).cloned().ok_or_else(unknown)?;
        if row.forked.is_some() {
            return Err(RegistriesError::Distrusted(at.to_owned()));
        }
        Ok(RegistryClient::new(self.fetch()?, at, row.read(at)?.0)?)
    }

    /// Made when it is first needed: most nodes follow no registry.
    fn fetch(&self) -> Result<Fetch, RegistriesError> {
        if let Some(fetch) = self.fetch.get() {
            return Ok(fetch.clone());
        }
        let made = Fetch::new(Vec::new(), Arc::new(SystemResolver));
        let made = made.map_err(|error| RegistriesError::Client(error.to_string()))?;
        Ok(self.fetch.get_or_init(|| made).clone())
    }

    /// Accepts a checkpoint that a registry showed, with whatever it proved: its log must go on from the one before, and as
    /// many witnesses as the owner wants must have cosigned it.
    async fn accept(&self, at: &str, client: &RegistryClient, shown: Checkpoint) -> Result<(), RegistriesError> {
        let row = self.known().get(at).cloned();
        self.compare(at, client, shown.clone()).await?;
        row.map_or(Ok(()), |row| row.check_cosigned(at, &shown))
    }

    /// Compares a checkpoint with the one before, from which its log must go on. That is enough to hear what a publisher
    /// revoked: it stops calls, and begins none.
    async fn compare(&self, at: &str, client: &RegistryClient, shown: Checkpoint) -> Result<(), RegistriesError> {
        loop {
            let Some(row) = self.known().get(at).cloned() else { return Ok(()) };
            let (_, before) = row.read(at)?;
            // Not while others wait: the registry takes as long as it likes.
            let compared = client.newer(&before, shown.clone()).await;
            let _changing = self.changing.lock().await;
            let Some(mut now_known) = self.known().get(at).cloned() else { return Ok(()) };
            if now_known.checkpoint != row.checkpoint {
                // Another one was accepted meanwhile, with which this one is compared too.
                continue;
            }
            return match compared {
                Ok(newer) if newer == before => Ok(()),
                Ok(newer) => {
                    now_known.checkpoint = newer.note().to_owned();
                    self.write(at, Some(now_known)).await
                }
                Err(RegistryError::Forked { old, new, error, before, now }) => {
                    tracing::error!(registry = at, old, new, %error, "a registry shows two histories; it is asked nothing more");
                    now_known.forked = Some((before.clone(), now.clone()));
                    self.write(at, Some(now_known)).await?;
                    Err(RegistryError::Forked { old, new, error, before, now }.into())
                }
                Err(error) => Err(error.into()),
            };
        }
    }
}

/// Notes that a registry is followed from now on, or no longer, or is asked nothing more; that its log grew is no event.
fn note(events: &Events, at: &str, before: Option<&RegistryRow>, now: Option<&RegistryRow>) {
    let shown = |row: Option<&RegistryRow>| (row.is_some(), row.is_some_and(|row| row.forked.is_some()));
    let (followed, forked) = shown(now);
    if shown(before) != (followed, forked) {
        events.note(Event::Registry { registry: at.to_owned(), followed, forked });
    }
}

#[cfg(test)]
mod tests {
    use althing_communication::WallClock;
    use futures::FutureExt as _;

    use super::*;
    use althing_node::EventNews;

    #[test]
    fn a_registry_is_told_of_when_it_is_followed_distrusted_and_left() {
        let row = |seen: &str, is_forked: bool| RegistryRow {
            key: "key".to_owned(),
            checkpoint: seen.to_owned(),
            revoked_from: 0,
            forked: is_forked.then(|| ("one".to_owned(), "other".to_owned())),
            witnesses: None,
        };
        let told = |before: Option<&RegistryRow>, now: Option<&RegistryRow>| {
            let events = Events::new(WallClock::new(|| 1));
            let mut follower = events.follow(None);
            note(&events, "at", before, now);
            match follower.next().now_or_never() {
                Some(EventNews::Entry(entry)) => Some(entry.event),
                Some(gap) => panic!("{gap:?}"),
                None => None,
            }
        };
        let event = |followed, forked| Some(Event::Registry { registry: "at".to_owned(), followed, forked });
        let (first, grown, forked) = (row("1", false), row("2", false), row("2", true));
        assert_eq!(told(None, Some(&first)), event(true, false));
        assert_eq!(told(Some(&first), Some(&grown)), None);
        assert_eq!(told(Some(&grown), Some(&forked)), event(true, true));
        assert_eq!(told(Some(&forked), None), event(false, false));
    }
}
