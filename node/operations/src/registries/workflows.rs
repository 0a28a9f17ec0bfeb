//! Workflows that are installed from registries: files of the node, which run in its groups by their names.

use std::collections::BTreeMap;
use std::path::Path;

use althing_node::revocations::{INSTALLED_MAX, InstalledRow, remove_folder};
use althing_node::{Agents, NodeError};
use althing_protocol::AgentId;
use althing_protocol::group::Workflow;
use althing_store::file::read_text;
use althing_td::{WORKFLOW_FILE_BYTES_MAX, WorkflowFileError, parse_workflow};

use super::contents::WORKFLOW_FILE;
use super::install::Offer;
use super::{Registries, RegistriesError};

/// Workflows that are installed.
pub struct InstalledWorkflows<'a>(pub(super) &'a Registries);

impl InstalledWorkflows<'_> {
    /// The names of those that are installed.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.0.revocations.workflows().into_keys().collect()
    }

    /// Writes the workflow of an offer into the node's folder. Its caller holds the lock of installing.
    pub(super) async fn install(
        &self,
        agents: &Agents,
        data: Option<&Path>,
        offer: &Offer,
    ) -> Result<(), RegistriesError> {
        let _claimed = agents.names.claim(&offer.name).await.map_err(|error| match error {
            NodeError::AgentExists(name) => RegistriesError::NameTaken(name),
            error => error.into(),
        })?;
        if self.0.revocations.workflows().len() >= INSTALLED_MAX {
            return Err(RegistriesError::FullOfWorkflows(INSTALLED_MAX));
        }
        self.put(data, offer).await
    }

    /// Puts the workflow of an offer in the place of the one of that name.
    pub(super) async fn put(&self, data: Option<&Path>, offer: &Offer) -> Result<(), RegistriesError> {
        let folder = offer.write_files(data.ok_or(RegistriesError::NoFolder)?)?;
        let before = match self.0.revocations.set_workflow(&offer.name, Some(offer.row(&folder))).await {
            Ok(before) => before,
            Err(error) => {
                let kept = self.0.revocations.workflows().get(&offer.name).is_some_and(|row| row.folder == folder);
                if !kept {
                    remove_folder(&folder);
                }
                return Err(error.into());
            }
        };
        before.iter().filter(|before| before.folder != folder).for_each(|before| remove_folder(&before.folder));
        Ok(())
    }

    /// Removes the workflow of that name; runs that began go on.
    ///
    /// # Errors
    /// [`RegistriesError::NotInstalled`], and those of the store.
    pub async fn remove(&self, name: &str) -> Result<(), RegistriesError> {
        let _installing = self.0.inventory.lock().await;
        if !self.0.revocations.workflows().contains_key(name) {
            return Err(RegistriesError::NotInstalled(name.to_owned(), String::new()));
        }
        let row = self.0.revocations.set_workflow(name, None).await?;
        row.iter().for_each(|row| remove_folder(&row.folder));
        Ok(())
    }

    /// The installed workflow that is meant, if there is one: by its name here, by the organisation's name or the id that it
    /// was installed by. None is given whose release its publisher revoked.
    ///
    /// # Errors
    /// [`NodeError::Revoked`], [`RegistriesError::SeveralInstalled`], [`RegistriesError::InstalledFile`].
    pub fn find(&self, named: &str) -> Result<Option<Workflow>, RegistriesError> {
        let Some((name, row)) = meant(self.0.revocations.workflows(), named)? else { return Ok(None) };
        let agent: AgentId = row.agent.parse()?;
        if let Some(why) = self.0.revocations.of(&agent, &row.version) {
            return Err(NodeError::Revoked(why).into());
        }
        let path = row.folder.join(WORKFLOW_FILE);
        let most = u64::try_from(WORKFLOW_FILE_BYTES_MAX).unwrap_or(u64::MAX);
        let text = read_text(&path, most).map_err(|source| RegistriesError::Read { path: path.clone(), source })?;
        let damaged =
            |source: WorkflowFileError| RegistriesError::InstalledFile { name, path, source: Box::new(source) };
        parse_workflow(&text).map(Some).map_err(damaged)
    }
}

/// The row that a name means.
fn meant(
    mut rows: BTreeMap<String, InstalledRow>,
    named: &str,
) -> Result<Option<(String, InstalledRow)>, RegistriesError> {
    if let Some(found) = rows.remove_entry(named) {
        return Ok(Some(found));
    }
    rows.retain(|_, row| row.agent == named || row.named.as_deref() == Some(named));
    if rows.len() > 1 {
        return Err(RegistriesError::SeveralInstalled(rows.into_keys().collect()));
    }
    Ok(rows.pop_first())
}

#[cfg(test)]
mod tests {
    use althing_protocol::PublisherId;

    use super::*;

    fn row(agent: &str, named: Option<&str>) -> InstalledRow {
        InstalledRow {
            agent: AgentId::new(PublisherId::from_digest([1; 32]), agent).expect("an id").to_string(),
            version: "1.0.0".to_owned(),
            range: "*".to_owned(),
            named: named.map(str::to_owned),
            registry: "http://r/".to_owned(),
            folder: "/nowhere".into(),
            ..InstalledRow::default()
        }
    }

    #[test]
    fn a_workflow_is_meant_by_its_name_here_or_by_what_it_was_installed_by() {
        let rows: BTreeMap<String, InstalledRow> = [
            ("mine".to_owned(), row("review", Some("example.org/review"))),
            ("other".to_owned(), row("report", None)),
            ("third".to_owned(), row("report", Some("example.org/report"))),
        ]
        .into();
        let found = |named: &str| meant(rows.clone(), named).map(|found| found.map(|(name, _)| name));
        assert_eq!(found("mine").expect("one"), Some("mine".to_owned()));
        assert_eq!(found("example.org/review").expect("one"), Some("mine".to_owned()));
        assert_eq!(found(&rows["mine"].agent).expect("one"), Some("mine".to_owned()));
        for nothing in ["review", "example.org/none", "", "../mine"] {
            assert_eq!(found(nothing).expect("none"), None, "{nothing}");
        }
        let several = found(&rows["other"].agent).expect_err("two come from that release");
        assert!(several.to_string().contains("other, third"), "{several}");
    }
}
