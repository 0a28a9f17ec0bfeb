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

/// A revoked release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokedRow {
    /// The publisher's reason.
    pub reason: Option<String>,
    /// The registry that showed it.
    pub registry: String,
}

/// Where an agent or a workflow was installed from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
