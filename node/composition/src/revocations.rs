//! Releases that their publishers revoked: this node neither runs nor calls them.

mod error;
mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, RwLock};

use althing_execution::process::remove_all;
use althing_protocol::AgentId;
use althing_protocol::registry::Version;
use althing_store::{Batch, Durability, Family, Store};

pub use error::RevocationError;
pub use rows::{
    INSTALLED, INSTALLED_MAX, InstalledRow, PassedRow, REVOKED, RevokedRow, TrialRow, UpdateRule, WORKFLOWS, all, bytes,
};
use rows::{REVOKED_MAX, REVOKED_OF_PUBLISHER_MAX, release_key};

use crate::smooth::release_of;

/// Revoked releases, and from which releases the agents here were installed.
pub struct Revocations {
    store: Arc<dyn Store>,
    known: RwLock<Known>,
}

struct Known {
    revoked: BTreeMap<String, RevokedRow>,
    installed: BTreeMap<String, InstalledRow>,
    workflows: BTreeMap<String, InstalledRow>,
}

impl Revocations {
    /// Those that the store has.
    pub(crate) fn open(store: Arc<dyn Store>) -> Result<Revocations, RevocationError> {
        let revoked = all(store.as_ref(), REVOKED, REVOKED_MAX)?;
        let installed = all(store.as_ref(), INSTALLED, INSTALLED_MAX)?;
        let workflows = all(store.as_ref(), WORKFLOWS, INSTALLED_MAX)?;
        Ok(Revocations { store, known: RwLock::new(Known { revoked, installed, workflows }) })
    }

    /// Why that version of an agent must not be used, if its publisher revoked it.
    ///
    /// # Panics
    /// If another holder panicked, as everywhere here.
    #[must_use]
    pub fn of(&self, agent: &AgentId, version: &str) -> Option<String> {
        let known = self.known.read().expect("no holder panics");
        why(&known, agent, version)
    }

    /// The same of any version of an agent.
    ///
    /// # Panics
    /// If another holder panicked, as everywhere here.
    #[must_use]
    pub fn any(&self, agent: &AgentId) -> Option<String> {
        let known = self.known.read().expect("no holder panics");
        let first = format!("{agent} ");
        let (key, _) = known.revoked.range(first.clone()..).next()?;
        why(&known, agent, key.strip_prefix(&first)?)
    }

    /// The same for an agent of this node, by its name: also for the release that it was installed from.
    #[must_use]
    pub fn here(&self, own: &AgentId, version: &str) -> Option<String> {
        let known = self.known.read().expect("no holder panics");
        why(&known, own, version).or_else(|| {
            let from = known.installed.get(own.name())?;
            let agent = from.agent.parse().ok()?;
            // The version may be another release beside that one: one that is tried, or that ends.
            why(&known, &agent, &from.version).or_else(|| why(&known, &agent, version))
        })
    }

    /// The agents that were installed.
    ///
    /// # Panics
    /// If another holder panicked, as everywhere here.
    #[must_use]
    pub fn installed(&self) -> BTreeMap<String, InstalledRow> {
        self.known.read().expect("no holder panics").installed.clone()
    }

    /// The names here of the agents that were installed.
    ///
    /// # Panics
    /// If another holder panicked, as everywhere here.
    #[must_use]
    pub fn installed_names(&self) -> BTreeSet<String> {
        self.known.read().expect("no holder panics").installed.keys().cloned().collect()
    }

    /// From which release the agent of that name was installed; none where it was not.
    ///
    /// # Panics
    /// If another holder panicked, as everywhere here.
    #[must_use]
    pub fn installed_row(&self, name: &str) -> Option<InstalledRow> {
        self.known.read().expect("no holder panics").installed.get(name).cloned()
    }

    /// The workflows that were installed.
    ///
    /// # Panics
    /// If another holder panicked, as everywhere here.
    #[must_use]
    pub fn workflows(&self) -> BTreeMap<String, InstalledRow> {
        self.known.read().expect("no holder panics").workflows.clone()
    }

    /// Remembers a revocation that was verified; whether it is new.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn add(&self, agent: &AgentId, version: &Version, row: RevokedRow) -> Result<bool, RevocationError> {
        let key = release_key(agent, version);
        {
            let known = self.known.read().expect("no holder panics");
            if known.revoked.contains_key(&key) {
                return Ok(false);
            }
            let is_used = known
                .installed
                .values()
                .chain(known.workflows.values())
                .any(|installed| installed.agent == agent.to_string());
            let publisher = format!("{}:", agent.publisher());
            let of_publisher =
                known.revoked.range(publisher.clone()..).take_while(|(key, _)| key.starts_with(&publisher)).count();
            if !is_used && (known.revoked.len() >= REVOKED_MAX || of_publisher >= REVOKED_OF_PUBLISHER_MAX) {
                tracing::error!(%agent, %version, "a revocation is not remembered: there is no room for more of that publisher");
                return Ok(false);
            }
        }
        let mut batch = Batch::new();
        batch.put(REVOKED, key.as_bytes(), bytes(&row));
        self.store.write(batch, Durability::Synced).await?;
        self.known.write().expect("no holder panics").revoked.insert(key, row);
        Ok(true)
    }

    /// Remembers where the agent of that name was installed from, or forgets it; gives what was remembered before.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn set_installed(
        &self,
        name: &str,
        row: Option<InstalledRow>,
    ) -> Result<Option<InstalledRow>, RevocationError> {
        if row.is_none() && !self.known.read().expect("no holder panics").installed.contains_key(name) {
            return Ok(None);
        }
        self.put(INSTALLED, name, row.as_ref()).await?;
        Ok(put(&mut self.known.write().expect("no holder panics").installed, name, row))
    }

    /// The same for the workflow of that name.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn set_workflow(
        &self,
        name: &str,
        row: Option<InstalledRow>,
    ) -> Result<Option<InstalledRow>, RevocationError> {
        self.put(WORKFLOWS, name, row.as_ref()).await?;
        Ok(put(&mut self.known.write().expect("no holder panics").workflows, name, row))
    }

    async fn put(&self, family: Family, name: &str, row: Option<&InstalledRow>) -> Result<(), RevocationError> {
        let mut batch = Batch::new();
        match row {
            Some(row) => batch.put(family, name.as_bytes(), bytes(row)),
            None => batch.delete(family, name.as_bytes()),
        };
        Ok(self.store.write(batch, Durability::Synced).await?)
    }
}

fn put(rows: &mut BTreeMap<String, InstalledRow>, name: &str, row: Option<InstalledRow>) -> Option<InstalledRow> {
    match row {
        Some(row) => rows.insert(name.to_owned(), row),
        None => rows.remove(name),
    }
}

fn why(known: &Known, agent: &AgentId, version: &str) -> Option<String> {
    if known.revoked.is_empty() {
        return None;
    }
    let row = |version: &str| known.revoked.get(&format!("{agent} {version}"));
    // Another model makes no other release.
    let row = row(version).or_else(|| row(release_of(version)))?;
    let said = row.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
    Some(format!("{agent} {version} was revoked by its publisher{said}"))
}

/// Removes the files of an installed agent or workflow; what is left behind only takes room.
pub fn remove_folder(folder: &Path) {
    // Programs may have written there, as deep as they liked.
    if let Err(error) = remove_all(folder) {
        tracing::warn!(folder = %folder.display(), %error, "the files of what was installed could not be removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::PublisherId;
    use althing_store::MemoryStore;

    fn agent(publisher: u8) -> AgentId {
        AgentId::new(PublisherId::from_digest([publisher; 32]), "echo").expect("an id")
    }

    fn version(number: usize) -> Version {
        format!("1.0.{number}").parse().expect("a version")
    }

    fn row() -> RevokedRow {
        RevokedRow { reason: None, registry: "http://r/".to_owned() }
    }

    #[test]
    fn what_a_program_left_is_removed_however_deep_it_is_and_no_link_is_followed() {
        use std::os::fd::OwnedFd;

        use nix::fcntl::{OFlag, openat};
        use nix::sys::stat::{Mode, mkdirat};

        let place = tempfile::tempdir().expect("a folder");
        let [installed, other] = ["installed", "other"].map(|name| place.path().join(name));
        for folder in [&installed, &other] {
            std::fs::create_dir(folder).expect("a folder");
        }
        std::fs::write(other.join("file"), "").expect("a file");
        std::os::unix::fs::symlink(&other, installed.join("link")).expect("a link");
        let mut folder = OwnedFd::from(std::fs::File::open(&installed).expect("it is there"));
        for _ in 0..20_000 {
            mkdirat(&folder, "d", Mode::S_IRWXU).expect("a folder");
            folder = openat(&folder, "d", OFlag::O_DIRECTORY, Mode::empty()).expect("it opens");
        }
        remove_folder(&installed);
        assert!(!installed.exists() && other.join("file").exists());
    }

    #[tokio::test]
    async fn a_publisher_takes_the_room_of_no_other() {
        let revocations =
            Revocations::open(Arc::new(MemoryStore::new(&[REVOKED, INSTALLED, WORKFLOWS]))).expect("an empty store");
        for number in 0..REVOKED_OF_PUBLISHER_MAX {
            assert!(revocations.add(&agent(1), &version(number), row()).await.expect("it is written"));
        }
        let one_more = version(REVOKED_OF_PUBLISHER_MAX);
        assert!(!revocations.add(&agent(1), &one_more, row()).await.expect("it is left out"));
        assert!(revocations.add(&agent(2), &version(0), row()).await.expect("there is room for others"));
        let with_model = revocations.of(&agent(2), "1.0.0+smooth.small.1.3.0");
        assert!(with_model.is_some_and(|why| why.contains("was revoked")), "another model makes no other release");
        assert!(revocations.any(&agent(2)).is_some_and(|why| why.contains("1.0.0 was revoked by its publisher")));
        let longer = AgentId::new(PublisherId::from_digest([2; 32]), "ech").expect("an id");
        assert_eq!((revocations.any(&longer), revocations.any(&agent(3))), (None, None));
        let installed = InstalledRow {
            agent: agent(1).to_string(),
            version: one_more.to_string(),
            range: "*".to_owned(),
            named: None,
            registry: "http://r/".to_owned(),
            folder: "/nowhere".into(),
            ..InstalledRow::default()
        };
        revocations.set_installed("copy", Some(installed.clone())).await.expect("it is written");
        let names = revocations.installed_names();
        assert!(names.iter().eq(["copy"]), "{names:?}");
        assert_eq!(["copy", "echo"].map(|name| revocations.installed_row(name)), [Some(installed.clone()), None]);
        assert!(revocations.add(&agent(1), &one_more, row()).await.expect("there is room for what runs here"));
        let review = AgentId::new(PublisherId::from_digest([1; 32]), "review").expect("an id");
        assert!(!revocations.add(&review, &version(0), row()).await.expect("it is left out"));
        let workflow = InstalledRow { agent: review.to_string(), version: "1.0.0".to_owned(), ..installed.clone() };
        revocations.set_workflow("copy", Some(workflow)).await.expect("it is written");
        assert!(revocations.add(&review, &version(0), row()).await.expect("there is room for a workflow, too"));
        let own = AgentId::new(PublisherId::from_digest([3; 32]), "copy").expect("an id");
        assert!(revocations.here(&own, "9.9.9").is_some_and(|why| why.contains("was revoked by its publisher")));
        let newer = InstalledRow { version: "2.0.0".to_owned(), ..installed };
        revocations.set_installed("copy", Some(newer)).await.expect("it is written");
        assert_eq!(revocations.here(&own, "2.0.0"), None);
        let beside = revocations.here(&own, &one_more.to_string());
        assert!(beside.is_some_and(|why| why.contains("was revoked")), "a release beside that one");
    }
}
