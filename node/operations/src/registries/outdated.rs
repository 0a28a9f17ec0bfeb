//! What registries have now of what was installed.

use althing_node::revocations::InstalledRow;
use althing_protocol::AgentId;
use althing_protocol::registry::{Standing, Version};
use althing_registry_client::{ListedVersion, chosen, passed_over, quarantined, yanked};

use super::RegistriesError;
use super::install::Installing;

/// An installed agent or workflow, and the version that its registry has now.
#[derive(Debug, Clone)]
pub struct Outdated {
    /// Its name here.
    pub name: String,
    /// From where it was installed.
    pub from: InstalledRow,
    /// The highest version there, unless the registry cannot be asked; never a lower one, unless the installed one was revoked.
    pub newest: Result<Option<String>, String>,
    /// Why its range does not choose higher ones, as the registry says.
    pub passed_over: Vec<String>,
    /// Why it must not run, if its publisher revoked it.
    pub revoked: Option<String>,
    /// Why its publisher yanked it, as the registry says; empty without a reason.
    pub yanked: Option<String>,
    /// Why the registry's operator hides it, if that is so: the operator's word, which stops no call.
    pub quarantined: Option<String>,
    /// The agent that the name leads to now by which it was installed, if that is another publisher's: no update takes it unasked.
    pub passed_to: Option<AgentId>,
    /// The newer release that the node does not try by itself, and why, where it follows its publisher by rollouts.
    pub held: Option<String>,
}

/// What a registry lists of what was installed.
struct Newest {
    version: Option<String>,
    /// Only lower versions are there.
    lower: bool,
    passed_over: Vec<String>,
    yanked: Option<String>,
    quarantined: Option<String>,
}

impl Installing<'_> {
    /// What was installed, agents and workflows, and what their registries have now.
    pub async fn outdated(&self) -> Vec<Outdated> {
        let mut all = Vec::new();
        for (name, from) in self.0.inventory.all() {
            let newest = self.newest(&from).await;
            let passed_to = self.passed_to(&from).await;
            all.push(Outdated { passed_to, ..self.to_outdated(name, from, newest) });
        }
        all
    }

    /// The agent that the name leads to by which something was installed, if it is another publisher's; none where that cannot be told.
    async fn passed_to(&self, from: &InstalledRow) -> Option<AgentId> {
        let (name, client) = (from.named.as_ref()?, self.0.client(&from.registry).ok()?);
        let meant = match self.meant(&from.registry, &client, name).await {
            // A registry hears who asks only where what is wanted is not for everybody.
            Err(absent) if absent.is_absence() => {
                let client = self.0.organising().visiting(&client).await.ok()?;
                self.meant(&from.registry, &client, name).await
            }
            meant => meant,
        };
        let (agent, ..) = meant.ok()?;
        let was: AgentId = from.agent.parse().ok()?;
        (agent.publisher() != was.publisher()).then_some(agent)
    }

    /// What has that name, if its version was taken back, or is gone, and nothing newer is there: it stays, since a lower
    /// version is no update. None where an update can be looked for.
    ///
    /// # Errors
    /// [`RegistriesError::NotInstalled`].
    pub async fn kept(&self, name: &str) -> Result<Option<Outdated>, RegistriesError> {
        let (from, _) = self.0.inventory.of(name)?;
        // Whoever looks for the update is told what is wrong.
        let Ok(newest) = self.newest(&from).await else { return Ok(None) };
        let taken_back = newest.lower || newest.yanked.is_some() || newest.quarantined.is_some();
        if newest.version.is_some() || !taken_back || self.revoked(&from).is_some() {
            return Ok(None);
        }
        Ok(Some(self.to_outdated(name.to_owned(), from, Ok(newest))))
    }

    fn to_outdated(&self, name: String, from: InstalledRow, asked: Result<Newest, RegistriesError>) -> Outdated {
        let revoked = self.revoked(&from);
        let (newest, passed_over, yanked, quarantined) = match asked {
            Ok(newest) => (Ok(newest.version), newest.passed_over, newest.yanked, newest.quarantined),
            Err(error) => (Err(error.to_string()), Vec::new(), None, None),
        };
        let held = self.0.inventory.held().of(&name, &from).map(|held| format!("{}: {}", held.version, held.why));
        Outdated { name, from, newest, passed_over, revoked, yanked, quarantined, passed_to: None, held }
    }

    /// The version above the installed one that its range chooses; none of one that was revoked, as that is updated to a lower
    /// one too.
    pub(crate) async fn above(&self, from: &InstalledRow) -> Result<Option<Version>, RegistriesError> {
        if self.revoked(from).is_some() {
            return Ok(None);
        }
        let newest = self.newest(from).await?.version.and_then(|version| version.parse::<Version>().ok());
        let here: Option<Version> = from.version.parse().ok();
        Ok(newest.filter(|newest| here.is_some_and(|here| here < *newest)))
    }

    fn revoked(&self, from: &InstalledRow) -> Option<String> {
        let agent: AgentId = from.agent.parse().ok()?;
        self.0.revocations.of(&agent, &from.version)
    }

    /// The highest version of the range, why it chooses no higher one, and why the installed one was taken back, if it was.
    async fn newest(&self, from: &InstalledRow) -> Result<Newest, RegistriesError> {
        let listed = self.listed(from).await?;
        // An exact version stays as it is.
        let range = if from.range.parse::<Version>().is_ok() { format!("={}", from.range) } else { from.range.clone() };
        let range = range.parse().map_err(|_| RegistriesError::Range(from.range.clone()))?;
        let here: Option<Version> = from.version.parse().ok();
        let is_revoked = |one: &ListedVersion| one.version == from.version && one.standing == Standing::Revoked.name();
        let must_go = self.revoked(from).is_some() || listed.iter().any(is_revoked);
        let found = chosen(&listed, &range);
        let is_lower = |found: &Version| here.as_ref().is_some_and(|here| found < here);
        let lower = !must_go && found.as_ref().is_some_and(is_lower);
        let newest = found.filter(|_| !lower);
        let mut passed_over = passed_over(&listed, &range, newest.as_ref().or(here.as_ref()));
        // Of the installed one it is said apart.
        passed_over.retain(|why| !why.starts_with(&format!("{} ", from.version)));
        Ok(Newest {
            version: newest.map(|version| version.to_string()),
            lower,
            passed_over,
            yanked: yanked(&listed, &from.version),
            quarantined: quarantined(&listed, &from.version),
        })
    }

    /// The versions of what was installed.
    async fn listed(&self, from: &InstalledRow) -> Result<Vec<ListedVersion>, RegistriesError> {
        let client = self.0.client(&from.registry)?;
        let agent: AgentId = from.agent.parse()?;
        let listed = client.versions(&agent).await;
        let is_there = |listed: &Vec<ListedVersion>| listed.iter().any(|one| one.version == from.version);
        if listed.as_ref().is_ok_and(is_there) {
            return Ok(listed?);
        }
        // A registry hears who asks only where what is wanted is not for everybody.
        match self.0.organising().visiting(&client).await {
            Ok(client) => Ok(client.versions(&agent).await?),
            Err(_) => Ok(listed?),
        }
    }
}
