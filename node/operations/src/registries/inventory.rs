//! What was installed from registries, and how newer releases of it come.

use std::sync::Arc;

use althing_node::revocations::{InstalledRow, Revocations, UpdateRule};
use althing_protocol::near;
use althing_protocol::registry::Version;
use tokio::sync::{Mutex, MutexGuard, Notify};

use super::RegistriesError;
use super::held::{HeldRelease, HeldReleases};

/// What was installed on a node.
pub struct Inventory {
    revocations: Arc<Revocations>,
    held: HeldReleases,
    /// Held while something is installed, updated or removed.
    changing: Mutex<()>,
    /// Told when a newer release may be wanted.
    news: Notify,
}

impl Inventory {
    /// What the node remembers to have installed.
    pub(super) fn new(revocations: Arc<Revocations>) -> Inventory {
        let (held, changing, news) = Default::default();
        Inventory { revocations, held, changing, news }
    }

    /// The publisher's agent and the version of what has that name, as it is installed.
    ///
    /// # Errors
    /// [`RegistriesError::NotInstalled`].
    pub fn release_of(&self, name: &str) -> Result<(String, String), RegistriesError> {
        self.of(name).map(|(row, _)| (row.agent, row.version))
    }

    /// From now on newer releases of what has that name come so.
    ///
    /// # Errors
    /// [`RegistriesError::NotInstalled`], [`RegistriesError::NoRollouts`], and those of the store.
    pub async fn set_rule(&self, name: &str, update: UpdateRule) -> Result<(), RegistriesError> {
        let _changing = self.lock().await;
        let (row, is_agent) = self.of(name)?;
        check_rule(update, (name, &row.range), is_agent)?;
        if row.update != update {
            self.revocations.set_installed(name, Some(InstalledRow { update, ..row })).await?;
            self.tell();
        }
        Ok(())
    }

    /// From where what has that name was installed, and whether it is an agent.
    pub(super) fn of(&self, name: &str) -> Result<(InstalledRow, bool), RegistriesError> {
        let (mut agents, mut workflows) = (self.revocations.installed(), self.revocations.workflows());
        let agent = agents.remove(name).map(|row| (row, true));
        let found = agent.or_else(|| Some((workflows.remove(name)?, false)));
        found.ok_or_else(|| {
            let hint = near::hint(name, agents.keys().chain(workflows.keys()).map(String::as_str));
            RegistriesError::NotInstalled(name.to_owned(), hint)
        })
    }

    /// Agents first, then workflows, by their names here.
    pub(super) fn all(&self) -> impl Iterator<Item = (String, InstalledRow)> + use<> {
        self.revocations.installed().into_iter().chain(self.revocations.workflows())
    }

    /// What was installed from a registry, agents first.
    pub(super) fn of_registry(&self, registry: &str) -> Vec<InstalledRow> {
        self.all().map(|(_, row)| row).filter(|row| row.registry == registry).collect()
    }

    /// The newer releases in a registry of which no rollout was begun, by the names here of what was installed from it.
    pub(super) fn held_of(&self, registry: &str) -> Vec<(String, HeldRelease)> {
        let installed = self.revocations.installed().into_iter().filter(|(_, row)| row.registry == registry);
        installed.filter_map(|(name, row)| self.held.of(&name, &row).map(|held| (name, held))).collect()
    }

    /// Newer releases of which no rollout was begun.
    pub(crate) fn held(&self) -> &HeldReleases {
        &self.held
    }

    /// Waits until nobody else installs, updates or removes something, and keeps others from it.
    pub(crate) async fn lock(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().await
    }

    /// Tells that a log grew, or that a newer release may be wanted.
    pub(super) fn tell(&self) {
        self.news.notify_one();
    }

    /// Waits until a log grew, or a newer release may be wanted.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }
}

/// Refuses rollouts of what has none: a workflow, or a version that never changes.
pub(super) fn check_rule(
    update: UpdateRule,
    (name, range): (&str, &str),
    is_agent: bool,
) -> Result<(), RegistriesError> {
    let is_exact = range.parse::<Version>().is_ok();
    let why = match update {
        UpdateRule::Rollout if !is_agent => "it is a workflow, which has no calls to divide",
        UpdateRule::Rollout if is_exact => "an exact version is never updated; install a range, such as @^1",
        UpdateRule::Rollout | UpdateRule::Asked => return Ok(()),
    };
    Err(RegistriesError::NoRollouts { name: name.to_owned(), why })
}
