//! What a node keeps of registries.

use std::collections::BTreeMap;

use althing_node::revocations::all;
use althing_protocol::tlog::{Checkpoint, NoteKey};
use althing_store::{Family, Store};
use serde::{Deserialize, Serialize};

use super::RegistriesError;

/// Registries that are followed, by their addresses.
pub const REGISTRIES: Family = Family("althing.registries");

/// Registries of one node.
pub const REGISTRIES_MAX: usize = 16;

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

/// The registries that the store has, by their addresses.
pub fn followed(store: &dyn Store) -> Result<BTreeMap<String, RegistryRow>, RegistriesError> {
    Ok(all(store, REGISTRIES, REGISTRIES_MAX)?)
}
