//! Visits: a publisher shows a registry who it is, to see what is not for everybody.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::cbor::{self, CborError};
use crate::identity::PublisherId;
use crate::keylog::{KeyLog, KeyLogError};
use crate::limits::{KEYLOG_EVENTS_MAX, SUBMISSION_BYTES_MAX, VISIT_LIFE_MAX_MS};
use crate::object::{self, Authored, Kind, ObjectError, Statement, in_time, life};
use crate::tlog::NoteKey;

/// A publisher's request to be known at one registry, whose key is the scope of the signature: no registry can show it to
/// another.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Visit {
    #[n(0)]
    kind: Kind,
    /// Who asks, and signs.
    #[n(1)]
    pub by: PublisherId,
    /// Unix milliseconds.
    #[n(2)]
    pub not_before_ms: u64,
    /// Unix milliseconds, at most 5 min after `not_before_ms`.
    #[n(3)]
    pub not_after_ms: u64,
}

/// A visit, with what verifies it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SignIn {
    /// The publisher's key log.
    #[n(0)]
    pub key_log: Vec<ByteVec>,
    /// The signed visit.
    #[n(1)]
    pub visit: ByteVec,
}

/// Why nobody is signed in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignInError {
    /// Not strict CBOR.
    #[error("the request to sign in is not strict CBOR: {0}")]
    Cbor(#[from] CborError),
    /// Strict CBOR of another shape.
    #[error("the request to sign in has the wrong shape: {0}")]
    Shape(String),
    /// The key log is invalid, or does not accept the signer.
    #[error(transparent)]
    KeyLog(#[from] KeyLogError),
    /// The visit is invalid, over, or for another registry.
    #[error("the visit: {0}")]
    Visit(#[from] ObjectError),
    /// The visit is somebody else's.
    #[error("the visit is of {0}, and the key log of somebody else")]
    OtherKeyLog(PublisherId),
}

impl Visit {
    /// A visit to be signed.
    #[must_use]
    pub fn new(by: PublisherId, now_ms: u64) -> Visit {
        Visit { kind: Kind::Visit, by, not_before_ms: now_ms, not_after_ms: now_ms + VISIT_LIFE_MAX_MS }
    }
}

impl Statement for Visit {
    const KIND: Kind = Kind::Visit;

    fn kind(&self) -> Kind {
        self.kind
    }

    fn check(&self) -> Result<(), ObjectError> {
        life(self.not_before_ms, self.not_after_ms, VISIT_LIFE_MAX_MS)
    }
}

impl SignIn {
    /// The bytes to send.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Reads what somebody sent; nothing in it is verified yet.
    ///
    /// # Errors
    /// [`SignInError::Cbor`] or [`SignInError::Shape`].
    pub fn decode(bytes: &[u8]) -> Result<SignIn, SignInError> {
        cbor::check(bytes, SUBMISSION_BYTES_MAX)?;
        let read: SignIn = minicbor::decode(bytes).map_err(|error| SignInError::Shape(error.to_string()))?;
        if read.key_log.len() > KEYLOG_EVENTS_MAX || read.encode() != bytes {
            return Err(SignInError::Shape("too many events, or members that this version does not know".to_owned()));
        }
        Ok(read)
    }

    /// The publisher who asks, if the key log is its own. Verifies nothing.
    #[must_use]
    pub fn claimed(&self) -> Option<PublisherId> {
        let events: Vec<&[u8]> = self.key_log.iter().map(|event| event.as_slice()).collect();
        KeyLog::claimed(&events)
    }

    /// Verifies the visit at the registry with that key, at `now_ms`; gives the publisher's key log.
    ///
    /// # Errors
    /// See [`SignInError`].
    pub fn verify(&self, network: &str, registry: &NoteKey, now_ms: u64) -> Result<KeyLog, SignInError> {
        let events: Vec<&[u8]> = self.key_log.iter().map(|event| event.as_slice()).collect();
        let key_log = KeyLog::verify(&events)?;
        let visit: Authored<Visit> = object::open(&self.visit, network, &registry.to_string())?;
        if visit.body.by != key_log.publisher() {
            return Err(SignInError::OtherKeyLog(visit.body.by));
        }
        key_log.accepts(visit.signer, now_ms)?;
        in_time(visit.body.not_before_ms, visit.body.not_after_ms, now_ms)?;
        Ok(key_log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::SecretKey;
    use crate::keylog;
    use crate::tlog::NoteKeyKind;

    const NOW: u64 = 1_700_000_000_000;

    #[test]
    fn a_visit_is_for_one_registry_and_for_some_minutes() {
        let keys = [1, 2, 3].map(|seed| SecretKey::from_seed(&[seed; 32]));
        let inception = keylog::inception(&keys[0], [keys[1].public(), keys[2].public()], NOW - 1_000);
        let log = KeyLog::verify(&[inception.bytes]).expect("an inception");
        let registry = |name| NoteKey::new(name, NoteKeyKind::Note, keys[2].public()).expect("a key");
        let (one, other) = (registry("one.example/log"), registry("other.example/log"));
        let sign_in = |key: &SecretKey, by| {
            let visit = object::sign(Visit::new(by, NOW), "net", &one.to_string(), key).expect("a good visit");
            SignIn { key_log: log.to_bytes().into_iter().map(Into::into).collect(), visit: visit.bytes.into() }
        };
        let good = sign_in(&keys[0], log.publisher());
        assert_eq!(SignIn::decode(&good.encode()), Ok(good.clone()));
        assert_eq!(good.claimed(), Some(log.publisher()));
        assert_eq!(good.verify("net", &one, NOW).map(|log| log.publisher()), Ok(log.publisher()));
        assert!(matches!(good.verify("net", &other, NOW), Err(SignInError::Visit(_))));
        assert!(matches!(good.verify("other", &one, NOW), Err(SignInError::Visit(_))));
        let late = good.verify("net", &one, NOW + VISIT_LIFE_MAX_MS + 1);
        assert!(matches!(late, Err(SignInError::Visit(ObjectError::Expired { .. }))));
        let stolen = sign_in(&keys[1], log.publisher());
        assert!(matches!(stolen.verify("net", &one, NOW), Err(SignInError::KeyLog(_))));
        let somebody = sign_in(&keys[0], PublisherId::from_digest([9; 32]));
        assert!(matches!(somebody.verify("net", &one, NOW), Err(SignInError::OtherKeyLog(_))));
    }
}
