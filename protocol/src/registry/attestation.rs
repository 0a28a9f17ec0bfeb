//! Attestations: what somebody measured or found of an agent's release, or of a model on a machine.

use minicbor::{Decode, Encode};

use super::{Version, text};
use crate::identity::{AgentId, PublisherId};
use crate::limits::{ATTESTATION_LIFE_MAX_MS, ATTESTATION_VALUE_BYTES_MAX};
use crate::object::{Kind, ObjectError, Statement, in_time, life};

/// Bytes of the name of a kind of attestation, such as `audit` or a URI.
const NAME_BYTES_MAX: usize = 128;

/// A signed finding. What it is worth depends on who signs it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Attestation {
    #[n(0)]
    kind: Kind,
    /// Who found it, and signs.
    #[n(1)]
    pub by: PublisherId,
    /// Of which agent.
    #[n(2)]
    pub agent: AgentId,
    /// Of which version; none: of all.
    #[n(3)]
    pub version: Option<Version>,
    /// What kind of finding.
    #[n(4)]
    pub name: String,
    /// The finding, as JSON.
    #[n(5)]
    pub value: String,
    /// Higher in later ones of the same signer, agent, version and name.
    #[n(6)]
    pub sequence: u64,
    /// Unix milliseconds.
    #[n(7)]
    pub not_before_ms: u64,
    /// Unix milliseconds, at most a year after `not_before_ms`.
    #[n(8)]
    pub not_after_ms: u64,
}

impl Attestation {
    /// An attestation of all versions of an agent, to be signed.
    #[must_use]
    pub fn new(
        by: PublisherId,
        agent: AgentId,
        name: &str,
        value: &serde_json::Value,
        not_before_ms: u64,
        not_after_ms: u64,
    ) -> Attestation {
        Attestation {
            kind: Kind::Attestation,
            by,
            agent,
            version: None,
            name: name.to_owned(),
            value: value.to_string(),
            sequence: not_before_ms,
            not_before_ms,
            not_after_ms,
        }
    }

    /// Checks that it is valid at `now_ms`.
    ///
    /// # Errors
    /// [`ObjectError::Expired`] or [`ObjectError::NotYetValid`].
    pub fn in_force(&self, now_ms: u64) -> Result<(), ObjectError> {
        in_time(self.not_before_ms, self.not_after_ms, now_ms)
    }
}

impl Statement for Attestation {
    const KIND: Kind = Kind::Attestation;

    fn kind(&self) -> Kind {
        self.kind
    }

    fn check(&self) -> Result<(), ObjectError> {
        text("the name of an attestation", &self.name, NAME_BYTES_MAX)?;
        if self.name.is_empty() {
            return Err(ObjectError::Shape("an attestation has a name".to_owned()));
        }
        if self.value.len() > ATTESTATION_VALUE_BYTES_MAX
            || serde_json::from_str::<serde_json::Value>(&self.value).is_err()
        {
            return Err(ObjectError::Shape(format!(
                "the value of an attestation is JSON of at most {ATTESTATION_VALUE_BYTES_MAX} bytes"
            )));
        }
        life(self.not_before_ms, self.not_after_ms, ATTESTATION_LIFE_MAX_MS)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::identity::SecretKey;
    use crate::object;

    #[test]
    fn an_attestation_is_opened_as_it_was_signed() {
        let key = SecretKey::from_seed(&[1; 32]);
        let by = PublisherId::from_digest([1; 32]);
        let agent = AgentId::new(PublisherId::from_digest([2; 32]), "echo").expect("a name");
        let body = Attestation::new(by, agent, "audit", &json!({ "passed": true }), 0, 1_000);
        let signed = object::sign(body.clone(), "net", "", &key).expect("a good attestation");
        assert_eq!(object::open::<Attestation>(&signed.bytes, "net", "").expect("its own bytes").body, body);
        for bad in [
            Attestation { value: "{".to_owned(), ..body.clone() },
            Attestation { value: format!("\"{}\"", "x".repeat(ATTESTATION_VALUE_BYTES_MAX)), ..body.clone() },
            Attestation { name: String::new(), ..body.clone() },
            Attestation { name: "a\nb".to_owned(), ..body.clone() },
            Attestation { not_after_ms: ATTESTATION_LIFE_MAX_MS + 1, ..body.clone() },
        ] {
            assert!(object::sign(bad, "net", "", &key).is_err());
        }
    }
}
