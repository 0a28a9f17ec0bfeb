//! What is configured of the audit log: who signs it.

use althing_node::AuditWitness;
use althing_protocol::tlog::{NoteKey, NoteKeyKind};
use serde::{Deserialize, Serialize};

/// Witnesses that are asked.
const WITNESSES_MAX: usize = 8;

/// `[audit]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Audit {
    /// Those who are asked to sign it.
    pub witnesses: Vec<WitnessEntry>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WitnessEntry {
    /// Its address, up to `/add-checkpoint`.
    pub url: String,
    /// The key that it prints when it starts.
    pub vkey: String,
}

impl Audit {
    /// The witnesses; invalid ones were refused when the configuration was read.
    pub fn witnesses(&self) -> Vec<AuditWitness> {
        self.witnesses.iter().filter_map(|entry| entry.read().ok()).collect()
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.witnesses.len() > WITNESSES_MAX {
            let count = self.witnesses.len();
            return Err(format!("`audit.witnesses` has {count} entries, and {WITNESSES_MAX} is the most"));
        }
        let mut seen: Vec<AuditWitness> = Vec::new();
        for entry in &self.witnesses {
            let witness = entry.read().map_err(|wrong| format!("`audit.witnesses`: {wrong}"))?;
            // One witness under two names would count twice.
            if seen.iter().any(|other| other.key.key() == witness.key.key()) {
                return Err(format!("`audit.witnesses` names {} twice", witness.key));
            }
            seen.push(witness);
        }
        Ok(())
    }
}

impl WitnessEntry {
    fn read(&self) -> Result<AuditWitness, String> {
        let WitnessEntry { url, vkey } = self;
        if !(url.starts_with("http://") || url.starts_with("https://")) {
            return Err(format!("{url:?} is no address of a witness; one begins with http:// or https://"));
        }
        let key: NoteKey = vkey.parse().map_err(|error| format!("{vkey:?} is no key of a witness: {error}"))?;
        if key.kind() != NoteKeyKind::Cosignature {
            return Err(format!(
                "{key} is the key of a log, and none of a witness, which prints its key when it starts"
            ));
        }
        Ok(AuditWitness { url: url.trim_end_matches('/').to_owned(), key })
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::SecretKey;

    use super::*;

    fn entry(url: &str, kind: NoteKeyKind, seed: u8) -> WitnessEntry {
        let key = NoteKey::new("witness.example", kind, SecretKey::from_seed(&[seed; 32]).public());
        WitnessEntry { url: url.to_owned(), vkey: key.expect("a good name").to_string() }
    }

    #[test]
    fn a_witness_has_an_address_and_a_key_of_its_own() {
        let good = entry("https://witness.example/", NoteKeyKind::Cosignature, 1);
        let audit = Audit { witnesses: vec![good.clone(), entry("http://10.0.0.7:7481", NoteKeyKind::Cosignature, 2)] };
        assert_eq!(audit.check(), Ok(()));
        assert_eq!(audit.witnesses()[0].url, "https://witness.example");
        for (wrong, says) in [
            (vec![entry("witness.example", NoteKeyKind::Cosignature, 1)], "no address"),
            (vec![entry("https://witness.example", NoteKeyKind::Note, 1)], "key of a log"),
            (vec![WitnessEntry { vkey: "nothing".to_owned(), ..good.clone() }], "no key of a witness"),
            (vec![good.clone(), good.clone()], "twice"),
            (vec![good.clone(); WITNESSES_MAX + 1], "is the most"),
        ] {
            let told = Audit { witnesses: wrong }.check().expect_err(says);
            assert!(told.contains("`audit.witnesses`") && told.contains(says), "{told}");
        }
    }
}
