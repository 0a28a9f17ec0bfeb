//! What a node keeps of registries.

use std::collections::BTreeMap;
use std::path::PathBuf;

use althing_protocol::AgentId;
use althing_protocol::registry::Version;
use althing_protocol::tlog::{Checkpoint, NoteKey};
use althing_store::{Family, Range, Store};
use serde::{Deserialize, Serialize};

use super::RegistriesError;

/// Registries that are followed, by their addresses.
pub const REGISTRIES: Family = Family("althing.registries");
/// Revoked releases, by agent and version.
pub const REVOKED: Family = Family("althing.revoked");
/// Agents that were installed, by their names here.
pub const INSTALLED: Family = Family("althing.installed");

/// Workflows that were installed, by their names here.
pub const WORKFLOWS: Family = Family("althing.installed-workflows");

/// Registries of one node.
pub const REGISTRIES_MAX: usize = 16;
/// Revocations that a node remembers.
pub const REVOKED_MAX: usize = 65_536;
/// Those of one publisher: nobody takes the room of others.
pub const REVOKED_OF_PUBLISHER_MAX: usize = 4_096;
/// Agents that are installed; and as many workflows.
pub const INSTALLED_MAX: usize = 1_024;

/// A registry that is followed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RegistryRow {
    /// The key of its log.
    pub key: String,
    /// The newest checkpoint that was accepted.
    pub checkpoint: String,
    /// The index from which revocations are asked for.
    pub revoked_from: u64,
    /// Two signed checkpoints, neither of which goes on from the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked: Option<(String, String)>,
    /// Witnesses of which some must have cosigned what is believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witnesses: Option<WitnessesRow>,
}

/// The witnesses that the owner wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WitnessesRow {
    /// Their keys.
    pub keys: Vec<String>,
    /// How many of them must have cosigned.
    pub wanted: usize,
}

impl RegistryRow {
    /// Its key and its newest checkpoint.
    pub fn read(&self, at: &str) -> Result<(NoteKey, Checkpoint), RegistriesError> {
        let damaged = || RegistriesError::Damaged(at.to_owned());
        let key: NoteKey = self.key.parse().map_err(|_| damaged())?;
        let checkpoint = Checkpoint::open(&self.checkpoint, &key).map_err(|_| damaged())?;
        Ok((key, checkpoint))
    }

    /// The keys of the witnesses of which some must have cosigned; none if no witness is wanted.
    pub fn witness_keys(&self, at: &str) -> Result<Vec<NoteKey>, RegistriesError> {
        let keys = self.witnesses.iter().flat_map(|witnesses| &witnesses.keys).map(|key| key.parse::<NoteKey>());
        keys.collect::<Result<Vec<_>, _>>().map_err(|_| RegistriesError::Damaged(at.to_owned()))
    }

    /// Checks that as many witnesses cosigned a checkpoint as the owner wants.
    pub fn check_cosigned(&self, at: &str, shown: &Checkpoint) -> Result<(), RegistriesError> {
        let Some(WitnessesRow { wanted, .. }) = &self.witnesses else { return Ok(()) };
        let found = shown.cosigned_by(&self.witness_keys(at)?);
        if found >= *wanted {
            return Ok(());
        }
        let (at, size, wanted) = (at.to_owned(), shown.head.size, *wanted);
        Err(RegistriesError::NotCosigned { at, size, found, wanted })
    }
}

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

/// All rows of a family, by their keys; one that cannot be read is an error.
pub fn all<T: serde::de::DeserializeOwned>(
    store: &dyn Store,
    family: Family,
) -> Result<BTreeMap<String, T>, RegistriesError> {
    let limit = match family {
        REGISTRIES => REGISTRIES_MAX,
        REVOKED => REVOKED_MAX,
        _ => INSTALLED_MAX,
    };
    let mut rows = BTreeMap::new();
    for (key, row) in store.scan(family, Range::all(limit))? {
        let key = String::from_utf8_lossy(&key).into_owned();
        let row = serde_json::from_slice(&row).map_err(|_| RegistriesError::Damaged(key.clone()))?;
        rows.insert(key, row);
    }
    Ok(rows)
}

/// The bytes of a row.
pub fn bytes<T: Serialize>(row: &T) -> Vec<u8> {
    serde_json::to_vec(row).expect("rows are plain")
}
