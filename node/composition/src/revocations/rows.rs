//! What a node keeps of releases: which ones their publishers revoked, and from which ones its agents and workflows were
//! installed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use althing_protocol::AgentId;
use althing_protocol::registry::Version;
use althing_store::{Family, Range, Store};
use serde::{Deserialize, Serialize};

use super::error::RevocationError;

/// Revoked releases, by agent and version.
pub const REVOKED: Family = Family("althing.revoked");
/// Agents that were installed, by their names here.
pub const INSTALLED: Family = Family("althing.installed");

/// Workflows that were installed, by their names here.
pub const WORKFLOWS: Family = Family("althing.installed-workflows");

/// Revocations that a node remembers.
pub const REVOKED_MAX: usize = 65_536;
/// Those of one publisher: nobody takes the room of others.
pub const REVOKED_OF_PUBLISHER_MAX: usize = 4_096;
/// Agents that are installed; and as many workflows.
pub const INSTALLED_MAX: usize = 1_024;
/// Releases of one agent that were tried, did not stay and are remembered besides the last one.
const PASSED_MAX: usize = 64;

/// A revoked release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokedRow {
    /// The publisher's reason.
    pub reason: Option<String>,
    /// The registry that showed it.
    pub registry: String,
}

/// How newer releases of what was installed come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpdateRule {
    /// Whoever owns the node asks for each of them.
    #[default]
    Asked,
    /// Each of them begins a rollout by itself.
    Rollout,
}

/// A newer release whose rollout the node began by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialRow {
    /// Which release is tried, such as `1.3.0`.
    pub version: String,
    /// The folder with its files.
    pub folder: PathBuf,
    /// By what its rollout is known, hexadecimal; none before that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// A newer release that was tried, and is not tried again by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedRow {
    /// Which release was tried, such as `1.3.0`.
    pub version: String,
    /// Why, for people.
    pub why: String,
    /// By what its rollout is known, hexadecimal.
    pub digest: Option<String>,
    /// When that was known, Unix milliseconds.
    #[serde(default)]
    pub at_ms: u64,
    /// How many releases went back by themselves since one stayed.
    #[serde(default)]
    pub reversals: u32,
}

/// Where an agent or a workflow was installed from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledRow {
    /// The publisher's agent.
    pub agent: String,
    /// The version.
    pub version: String,
    /// The range that `update` stays in.
    pub range: String,
    /// The organisation's name that it was found by, such as `example.org/billing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<String>,
    /// The registry.
    pub registry: String,
    /// The folder with its files.
    pub folder: PathBuf,
    /// How newer releases come.
    #[serde(default, skip_serializing_if = "is_default")]
    pub update: UpdateRule,
    /// The newer release that is tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<TrialRow>,
    /// The newer release that was tried last and did not stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<PassedRow>,
    /// The versions of releases that did not stay before that one, the latest last: they are not tried again by themselves either,
    /// also where newer ones are yanked. Of more than 64, those are forgotten that were tried first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_before: Vec<String>,
    /// The folders of other releases, of which something may run still.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<PathBuf>,
}

impl InstalledRow {
    /// Another release did not stay, or one did (none): those before it stay known.
    pub fn pass(&mut self, passed: Option<PassedRow>) {
        if let Some(before) = std::mem::replace(&mut self.passed, passed) {
            self.passed_before.retain(|version| *version != before.version);
            self.passed_before.push(before.version);
        }
        let surplus = self.passed_before.len().saturating_sub(PASSED_MAX);
        self.passed_before.drain(..surplus);
    }

    /// Whether a release was tried, and did not stay.
    #[must_use]
    pub fn is_passed(&self, version: &str) -> bool {
        let last = self.passed.as_ref().map(|passed| &passed.version);
        self.passed_before.iter().chain(last).any(|passed| passed == version)
    }

    /// All folders with files of its releases.
    pub fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        let tried = self.trial.iter().map(|trial| &trial.folder);
        [&self.folder].into_iter().chain(tried).chain(&self.former)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The key of a release in [`REVOKED`].
pub fn release_key(agent: &AgentId, version: &Version) -> String {
    format!("{agent} {version}")
}

/// All rows of a family, by their keys, `limit` at most; one that cannot be read is an error.
///
/// # Errors
/// Those of the store, and [`RevocationError::Damaged`].
pub fn all<T: serde::de::DeserializeOwned>(
    store: &dyn Store,
    family: Family,
    limit: usize,
) -> Result<BTreeMap<String, T>, RevocationError> {
    let mut rows = BTreeMap::new();
    for (key, row) in store.scan(family, Range::all(limit))? {
        let key = String::from_utf8_lossy(&key).into_owned();
        let row = serde_json::from_slice(&row).map_err(|_| RevocationError::Damaged(key.clone()))?;
        rows.insert(key, row);
    }
    Ok(rows)
}

/// The bytes of a row.
///
/// # Panics
/// If the row has a map whose keys are no texts; those of nodes have none.
pub fn bytes<T: Serialize>(row: &T) -> Vec<u8> {
    serde_json::to_vec(row).expect("rows are plain")
}
