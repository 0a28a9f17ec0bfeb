//! Releases: a publisher says that an agent has a version, and who may see it.

use minicbor::{Decode, Encode};

use super::Version;
use crate::Digest;
use crate::identity::{AgentId, PublisherId};
use crate::limits::{BUNDLE_BYTES_MAX, RELEASE_READERS_MAX};
use crate::object::{Kind, ObjectError, Statement, in_time};

/// How far a release is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Reach {
    /// To everybody.
    #[n(1)]
    Public,
    /// To those whom the organisation's roster names.
    #[n(2)]
    Organisation,
    /// To the publisher itself and those that are listed.
    #[n(3)]
    Listed,
}

/// Who may see a release.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Audience {
    /// How far it is shown.
    #[n(0)]
    pub reach: Reach,
    /// Those who see a release that is [`Reach::Listed`], in ascending order; else none.
    #[n(1)]
    pub readers: Vec<PublisherId>,
}

impl Audience {
    /// Everybody.
    #[must_use]
    pub fn public() -> Audience {
        Audience { reach: Reach::Public, readers: Vec::new() }
    }

    /// The organisation.
    #[must_use]
    pub fn organisation() -> Audience {
        Audience { reach: Reach::Organisation, readers: Vec::new() }
    }

    /// The publisher itself, and these.
    #[must_use]
    pub fn listed(readers: impl IntoIterator<Item = PublisherId>) -> Audience {
        let readers: std::collections::BTreeSet<PublisherId> = readers.into_iter().collect();
        Audience { reach: Reach::Listed, readers: readers.into_iter().collect() }
    }

    fn check(&self) -> Result<(), ObjectError> {
        let wrong = |what: &str| Err(ObjectError::Shape(what.to_owned()));
        if self.reach != Reach::Listed && !self.readers.is_empty() {
            return wrong("only a release for listed readers has a list of them");
        }
        if self.readers.len() > RELEASE_READERS_MAX {
            return Err(ObjectError::Shape(format!("a release has at most {RELEASE_READERS_MAX} readers")));
        }
        if !self.readers.is_sorted_by(|one, next| one < next) {
            return wrong("readers are listed once, in ascending order");
        }
        Ok(())
    }
}

/// What an agent runs from: its file, and what belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Bundle {
    /// The digest of its bytes.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub digest: Digest,
    /// How many there are.
    #[n(1)]
    pub bytes: u64,
}

/// A version of an agent. What it names never changes, and no other release may name the version.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Release {
    #[n(0)]
    kind: Kind,
    /// The agent.
    #[n(1)]
    pub agent: AgentId,
    /// Its version.
    #[n(2)]
    pub version: Version,
    /// The digest of the signed description.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub description: Digest,
    /// What it runs from, where others may install it.
    #[n(4)]
    pub bundle: Option<Bundle>,
    /// Who may see it.
    #[n(5)]
    pub audience: Audience,
    /// Who signs: the agent's publisher, or one who approves beside it.
    #[n(6)]
    pub by: PublisherId,
    /// Higher in later statements of the signer about the agent.
    #[n(7)]
    pub sequence: u64,
    /// When it was made, Unix milliseconds.
    #[n(8)]
    pub made_ms: u64,
}

impl Release {
    /// A release of the agent's publisher, to be signed.
    #[must_use]
    pub fn new(agent: AgentId, version: Version, description: Digest, audience: Audience, made_ms: u64) -> Release {
        let by = agent.publisher();
        Release {
            kind: Kind::Release,
            agent,
            version,
            description,
            bundle: None,
            audience,
            by,
            sequence: made_ms,
            made_ms,
        }
    }

    /// Whether another signer approves the same.
    #[must_use]
    pub fn approves(&self, other: &Release) -> bool {
        let same = Release { by: other.by, sequence: other.sequence, made_ms: other.made_ms, ..self.clone() };
        same == *other
    }

    /// The digest of what it is made of: of its bundle, or of its description where it has none.
    #[must_use]
    pub fn content(&self) -> Digest {
        self.bundle.map_or(self.description, |bundle| bundle.digest)
    }

    /// Checks that it was made by `now_ms`, within the allowed clock skew.
    ///
    /// # Errors
    /// [`ObjectError::NotYetValid`].
    pub fn made(&self, now_ms: u64) -> Result<(), ObjectError> {
        in_time(self.made_ms, u64::MAX, now_ms)
    }
}

impl Statement for Release {
    const KIND: Kind = Kind::Release;

    fn kind(&self) -> Kind {
        self.kind
    }

    fn check(&self) -> Result<(), ObjectError> {
        if self.bundle.is_some_and(|bundle| bundle.bytes == 0 || bundle.bytes > BUNDLE_BYTES_MAX) {
            return Err(ObjectError::Shape(format!("a bundle has 1 to {BUNDLE_BYTES_MAX} bytes")));
        }
        self.audience.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::SecretKey;
    use crate::object;

    fn publisher(seed: u8) -> PublisherId {
        PublisherId::from_digest([seed; 32])
    }

    fn release() -> Release {
        let agent = AgentId::new(publisher(1), "echo").expect("a name");
        Release::new(agent, "1.2.3".parse().expect("a version"), [7; 32], Audience::public(), 1_000)
    }

    #[test]
    fn a_release_is_opened_as_it_was_signed_and_as_nothing_else() {
        let key = SecretKey::from_seed(&[1; 32]);
        let mut body = release();
        body.bundle = Some(Bundle { digest: [8; 32], bytes: 12 });
        let signed = object::sign(body.clone(), "net", "", &key).expect("a good release");
        assert_eq!(object::open::<Release>(&signed.bytes, "net", "").expect("its own bytes").body, body);
        assert!(object::open::<Release>(&signed.bytes, "other", "").is_err());
        assert!(object::open::<super::super::Mark>(&signed.bytes, "net", "").is_err());
    }

    #[test]
    fn bounds_hold_when_signing() {
        let key = SecretKey::from_seed(&[1; 32]);
        let refused = |change: &dyn Fn(&mut Release)| {
            let mut body = release();
            change(&mut body);
            object::sign(body, "net", "", &key).is_err()
        };
        assert!(!refused(&|_| ()));
        assert!(refused(&|it| it.bundle = Some(Bundle { digest: [0; 32], bytes: 0 })));
        assert!(refused(&|it| it.bundle = Some(Bundle { digest: [0; 32], bytes: BUNDLE_BYTES_MAX + 1 })));
        assert!(refused(&|it| it.audience.readers = vec![publisher(2)]));
        assert!(refused(&|it| it.audience = Audience { reach: Reach::Listed, readers: vec![publisher(2); 2] }));
        let many = (0..=RELEASE_READERS_MAX).map(|index| {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&(index as u64).to_be_bytes());
            PublisherId::from_digest(digest)
        });
        assert!(refused(&|it| it.audience = Audience::listed(many.clone())));
    }

    #[test]
    fn an_approval_differs_in_its_signer_only() {
        let first = release();
        let approval = Release { by: publisher(2), sequence: 9, made_ms: 9, ..first.clone() };
        assert!(approval.approves(&first));
        assert!(!Release { description: [9; 32], ..approval }.approves(&first));
    }
}
