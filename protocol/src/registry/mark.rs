//! Marks: what a publisher says of a release later.

use minicbor::{Decode, Encode};

use super::{TEXT_BYTES_MAX, Version, text};
use crate::identity::{AgentId, PublisherId};
use crate::object::{Kind, ObjectError, Statement, in_time};

/// The standing of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum Standing {
    /// Nothing is said against it.
    #[n(1)]
    Good,
    /// It works, but another should be used.
    #[n(2)]
    Deprecated,
    /// No range chooses it; it is there by its exact version.
    #[n(3)]
    Yanked,
    /// It must not run. No later mark lifts this.
    #[n(4)]
    Revoked,
}

impl Standing {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Standing::Good => "good",
            Standing::Deprecated => "deprecated",
            Standing::Yanked => "yanked",
            Standing::Revoked => "revoked",
        }
    }
}

/// A publisher changes the standing of a release.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Mark {
    #[n(0)]
    kind: Kind,
    /// The agent.
    #[n(1)]
    pub agent: AgentId,
    /// The version.
    #[n(2)]
    pub version: Version,
    /// Its standing from now on.
    #[n(3)]
    pub standing: Standing,
    /// Why, for people.
    #[n(4)]
    pub reason: String,
    /// Who signs: the agent's publisher, or one whom the roster allows to.
    #[n(5)]
    pub by: PublisherId,
    /// Higher in later statements of the signer about the agent.
    #[n(6)]
    pub sequence: u64,
    /// When it was made, Unix milliseconds.
    #[n(7)]
    pub made_ms: u64,
}

impl Mark {
    /// A mark of the agent's publisher, to be signed.
    #[must_use]
    pub fn new(agent: AgentId, version: Version, standing: Standing, reason: &str, made_ms: u64) -> Mark {
        let by = agent.publisher();
        let reason = reason.to_owned();
        Mark { kind: Kind::Mark, agent, version, standing, reason, by, sequence: made_ms, made_ms }
    }

    /// Checks that it was made by `now_ms`, within the allowed clock skew.
    ///
    /// # Errors
    /// [`ObjectError::NotYetValid`].
    pub fn made(&self, now_ms: u64) -> Result<(), ObjectError> {
        in_time(self.made_ms, u64::MAX, now_ms)
    }
}

impl Statement for Mark {
    const KIND: Kind = Kind::Mark;

    fn kind(&self) -> Kind {
        self.kind
    }

    fn check(&self) -> Result<(), ObjectError> {
        text("the reason of a mark", &self.reason, TEXT_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::SecretKey;
    use crate::object;

    #[test]
    fn a_mark_is_opened_as_it_was_signed() {
        let key = SecretKey::from_seed(&[1; 32]);
        let agent = AgentId::new(PublisherId::from_digest([1; 32]), "echo").expect("a name");
        let version: Version = "1.0.0".parse().expect("a version");
        let mark = Mark::new(agent, version, Standing::Revoked, "it leaks", 5);
        let signed = object::sign(mark.clone(), "net", "", &key).expect("a good mark");
        assert_eq!(object::open::<Mark>(&signed.bytes, "net", "").expect("its own bytes").body, mark);
        for reason in ["x".repeat(TEXT_BYTES_MAX + 1), "\u{1b}[2J".to_owned()] {
            assert!(object::sign(Mark { reason, ..mark.clone() }, "net", "", &key).is_err());
        }
    }
}
