//! Attestations: what somebody measured or found of an agent's release, or of a model on a machine.

use minicbor::{Decode, Encode};

use super::{Release, Version, text};
use crate::Digest;
use crate::identity::{AgentId, PublisherId};
use crate::limits::{ATTESTATION_LIFE_MAX_MS, ATTESTATION_VALUE_BYTES_MAX};
use crate::object::{Kind, ObjectError, Statement, in_time, life};

/// Bytes of the name of a kind of attestation, such as `audit` or a URI.
const NAME_BYTES_MAX: usize = 128;

/// Bytes of the name of a model or a machine.
const BLUEPRINT_BYTES_MAX: usize = 256;

/// A model on a machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(map)]
pub struct Blueprint {
    /// The model's name where it runs.
    #[n(0)]
    pub model: String,
    /// The machine, for people.
    #[n(1)]
    pub machine: String,
}

impl Blueprint {
    fn check(&self) -> Result<(), ObjectError> {
        for (what, said) in [("the model of a blueprint", &self.model), ("the machine of a blueprint", &self.machine)] {
            text(what, said, BLUEPRINT_BYTES_MAX)?;
            if said.is_empty() {
                return Err(ObjectError::Shape(format!("{what} has a name")));
            }
        }
        Ok(())
    }
}

/// What an attestation is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A version of an agent; none: all of them.
    Agent(AgentId, Option<Version>),
    /// A model on a machine.
    Blueprint(Blueprint),
}

/// A signed finding. What it is worth depends on who signs it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Attestation {
    #[n(0)]
    kind: Kind,
    /// Who found it, and signs.
    #[n(1)]
    pub by: PublisherId,
    /// Of which agent, unless it is of a model on a machine.
    #[n(2)]
    pub agent: Option<AgentId>,
    /// Of which version; none: of all.
    #[n(3)]
    pub version: Option<Version>,
    /// What kind of finding.
    #[n(4)]
    pub name: String,
    /// The finding, as JSON. `null` takes back what the signer found before.
    #[n(5)]
    pub value: String,
    /// Higher in later ones of the same signer, subject and name, which take the place of earlier ones.
    #[n(6)]
    pub sequence: u64,
    /// Unix milliseconds.
    #[n(7)]
    pub not_before_ms: u64,
    /// Unix milliseconds, at most a year after `not_before_ms`.
    #[n(8)]
    pub not_after_ms: u64,
    /// Of which model on which machine, unless it is of an agent.
    #[n(9)]
    pub blueprint: Option<Blueprint>,
    /// What that version is made of ([`Release::content`]): another registry may show another release
    /// as it. Of a version only.
    #[cbor(n(10), with = "minicbor::bytes")]
    pub content: Option<Digest>,
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
        Attestation::of(by, Subject::Agent(agent, None), name, value, not_before_ms, not_after_ms)
    }

    /// An attestation, to be signed.
    #[must_use]
    pub fn of(
        by: PublisherId,
        subject: Subject,
        name: &str,
        value: &serde_json::Value,
        not_before_ms: u64,
        not_after_ms: u64,
    ) -> Attestation {
        let (agent, version, blueprint) = match subject {
            Subject::Agent(agent, version) => (Some(agent), version, None),
            Subject::Blueprint(blueprint) => (None, None, Some(blueprint)),
        };
        Attestation {
            kind: Kind::Attestation,
            by,
            agent,
            version,
            name: name.to_owned(),
            value: value.to_string(),
            sequence: not_before_ms,
            not_before_ms,
            not_after_ms,
            blueprint,
            content: None,
        }
    }

    /// The same, of a version that is made of that.
    #[must_use]
    pub fn made_of(self, content: Digest) -> Attestation {
        Attestation { content: Some(content), ..self }
    }

    /// Whether it is of this release: of that version, made of that, or of all versions of its agent.
    #[must_use]
    pub fn is_of(&self, release: &Release) -> bool {
        self.agent.as_ref() == Some(&release.agent)
            && self.version.as_ref().is_none_or(|version| *version == release.version)
            && self.content.is_none_or(|content| content == release.content())
    }

    /// What it is about; none if it is no valid one.
    #[must_use]
    pub fn subject(&self) -> Option<Subject> {
        match (&self.agent, &self.version, &self.blueprint) {
            (Some(agent), version, None) => Some(Subject::Agent(agent.clone(), version.clone())),
            (None, None, Some(blueprint)) => Some(Subject::Blueprint(blueprint.clone())),
            _ => None,
        }
    }

    /// The finding; null if the signer takes back what it found before.
    #[must_use]
    pub fn finding(&self) -> serde_json::Value {
        serde_json::from_str(&self.value).unwrap_or_default()
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
        if self.subject().is_none() {
            let message = "an attestation is of an agent, with a version or without, or of a model on a machine";
            return Err(ObjectError::Shape(message.to_owned()));
        }
        if let Some(blueprint) = &self.blueprint {
            blueprint.check()?;
        }
        if self.content.is_some() != self.version.is_some() {
            let message = "an attestation of a version names the digest of its content, and no other one does";
            return Err(ObjectError::Shape(message.to_owned()));
        }
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
    use crate::registry::{Audience, Bundle};

    #[test]
    fn an_attestation_of_a_version_is_of_what_that_is_made_of() {
        let by = PublisherId::from_digest([1; 32]);
        let agent = |name: &str| AgentId::new(PublisherId::from_digest([2; 32]), name).expect("a name");
        let version = |text: &str| text.parse::<Version>().expect("a version");
        let mut release = Release::new(agent("echo"), version("1.0.0"), [7; 32], Audience::public(), 0);
        let of = |agent: AgentId, number: Option<Version>| {
            Attestation::of(by, Subject::Agent(agent, number), "audit", &json!(true), 0, 1_000)
        };
        let of_it = of(agent("echo"), Some(version("1.0.0")));
        assert!(of_it.clone().made_of([7; 32]).is_of(&release), "its description, where it has no bundle");
        release.bundle = Some(Bundle { digest: [8; 32], bytes: 1 });
        assert!(of_it.clone().made_of([8; 32]).is_of(&release));
        assert!(!of_it.made_of([7; 32]).is_of(&release), "another content");
        assert!(!of(agent("echo"), Some(version("1.0.1"))).made_of([8; 32]).is_of(&release), "another version");
        assert!(of(agent("echo"), None).is_of(&release), "all versions");
        assert!(!of(agent("other"), None).is_of(&release), "another agent");
        assert!(!of(agent("other"), Some(version("1.0.0"))).made_of([8; 32]).is_of(&release), "of that content too");
        let blueprint = Blueprint { model: "qwen3:8b".to_owned(), machine: "a machine".to_owned() };
        let of_model = Attestation::of(by, Subject::Blueprint(blueprint), "audit", &json!(true), 0, 1_000);
        assert!(!of_model.is_of(&release), "no agent");
    }

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
            Attestation { name: "a\u{202E}b".to_owned(), ..body.clone() },
            Attestation { not_after_ms: ATTESTATION_LIFE_MAX_MS + 1, ..body.clone() },
            Attestation { version: Some("1.0.0".parse().expect("a version")), ..body.clone() },
            body.clone().made_of([3; 32]),
        ] {
            assert!(object::sign(bad, "net", "", &key).is_err());
        }
    }

    #[test]
    fn an_attestation_is_of_an_agent_or_of_a_model_on_a_machine() {
        let key = SecretKey::from_seed(&[1; 32]);
        let by = PublisherId::from_digest([1; 32]);
        let agent = AgentId::new(PublisherId::from_digest([2; 32]), "echo").expect("a name");
        let blueprint = Blueprint { model: "qwen3:8b".to_owned(), machine: "a machine, 8 cores".to_owned() };
        let subject = Subject::Blueprint(blueprint.clone());
        let body = Attestation::of(by, subject.clone(), "blueprint", &json!({ "tokensPerSecond": 22 }), 0, 1_000);
        assert_eq!(body.subject(), Some(subject));
        assert!(object::sign(body.clone(), "net", "", &key).is_ok());
        for bad in [
            Attestation { agent: Some(agent), ..body.clone() },
            Attestation { version: Some("1.0.0".parse().expect("a version")), ..body.clone() },
            Attestation { blueprint: None, ..body.clone() },
            Attestation { blueprint: Some(Blueprint { model: String::new(), ..blueprint.clone() }), ..body.clone() },
            Attestation { blueprint: Some(Blueprint { machine: "a\nb".to_owned(), ..blueprint }), ..body.clone() },
        ] {
            assert!(object::sign(bad, "net", "", &key).is_err());
        }
    }
}
