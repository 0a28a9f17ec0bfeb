//! What several owners sign: each signs the same statement, and the signatures count by owner.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::{Charter, GroupId};
use crate::identity::{PublicKey, PublisherId};
use crate::limits::{GROUP_OWNERS_MAX, INVITATION_LIFE_MAX_MS};
use crate::object::{self, Kind, ObjectError, Statement};
use crate::{Digest, KeyLog};

/// The key logs by which signatures are checked.
pub type KeyLogs = BTreeMap<PublisherId, Arc<KeyLog>>;

/// A statement with the signatures of owners: one authored object for each, all with the same body.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct Endorsed(#[n(0)] Vec<ByteVec>);

/// Why an endorsed statement is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndorsementError {
    /// No signature, or more than a charter has owners.
    #[error("{0} signatures: 1 to {GROUP_OWNERS_MAX} are possible")]
    Count(usize),
    /// A signature is not valid, or the statement is not.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The signatures are on different statements.
    #[error("its signatures are on different statements")]
    Different,
    /// A signer is no owner of the group, or its key is not valid now.
    #[error("{0} is not the key of an owner of the group")]
    NotAnOwner(PublicKey),
    /// Too few owners signed.
    #[error("{signed} of its owners signed, and {threshold} must")]
    TooFew {
        /// Owners that signed.
        signed: usize,
        /// The threshold of the charter.
        threshold: u8,
    },
}

/// Whether a key of an owner is accepted at `now_ms`, by the owner's log.
fn accepted(logs: &KeyLogs, now_ms: u64) -> impl Fn(PublisherId, PublicKey) -> bool {
    move |owner, signer| logs.get(&owner).is_some_and(|log| log.accepts(signer, now_ms).is_ok())
}

impl Endorsed {
    /// The statement with these signatures.
    #[must_use]
    pub fn new(signed: impl IntoIterator<Item = Vec<u8>>) -> Endorsed {
        Endorsed(signed.into_iter().map(ByteVec::from).collect())
    }

    /// The authored objects.
    pub fn objects(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|bytes| bytes.as_slice())
    }

    /// The statement, without a check of who signed it.
    ///
    /// # Errors
    /// [`EndorsementError`].
    pub fn read<T: Statement + PartialEq>(&self, network: &str, scope: &str) -> Result<T, EndorsementError> {
        self.open(network, scope)
    }

    fn open<T: Statement + PartialEq>(&self, network: &str, scope: &str) -> Result<T, EndorsementError> {
        if !(1..=GROUP_OWNERS_MAX).contains(&self.0.len()) {
            return Err(EndorsementError::Count(self.0.len()));
        }
        let mut body: Option<T> = None;
        for bytes in &self.0 {
            let said = object::open::<T>(bytes, network, scope)?.body;
            match &body {
                Some(body) if *body != said => return Err(EndorsementError::Different),
                _ => body = Some(said),
            }
        }
        Ok(body.expect("there is at least one"))
    }

    /// The statement, if as many owners of `charter` signed it as its threshold says, by their key logs at `now_ms`.
    ///
    /// # Errors
    /// [`EndorsementError`].
    pub fn verify<T: Statement + PartialEq>(
        &self,
        network: &str,
        scope: &str,
        charter: &Charter,
        logs: &KeyLogs,
        now_ms: u64,
    ) -> Result<T, EndorsementError> {
        self.verify_by(network, scope, charter, accepted(logs, now_ms))
    }

    /// As [`Endorsed::verify`], for what took effect in the past: each key counts that an owner's log ever named, since the
    /// log does not say which one the group knew then.
    ///
    /// # Errors
    /// [`EndorsementError`].
    pub fn verify_past<T: Statement + PartialEq>(
        &self,
        network: &str,
        scope: &str,
        charter: &Charter,
        logs: &KeyLogs,
    ) -> Result<T, EndorsementError> {
        self.verify_by(network, scope, charter, |owner, signer| {
            logs.get(&owner).is_some_and(|log| log.events().any(|event| event.key == signer))
        })
    }

    /// The statement, and the owners of `charter` that signed it, though they may be fewer than its threshold says.
    ///
    /// # Errors
    /// [`EndorsementError`], but not [`EndorsementError::TooFew`].
    pub fn signed_by<T: Statement + PartialEq>(
        &self,
        network: &str,
        scope: &str,
        charter: &Charter,
        logs: &KeyLogs,
        now_ms: u64,
    ) -> Result<(T, BTreeSet<PublisherId>), EndorsementError> {
        self.signed_by_keys(network, scope, charter, accepted(logs, now_ms))
    }

    /// As [`Endorsed::verify`], where the caller says which keys are an owner's.
    ///
    /// # Errors
    /// [`EndorsementError`].
    pub fn verify_by<T: Statement + PartialEq>(
        &self,
        network: &str,
        scope: &str,
        charter: &Charter,
        is_key_of: impl Fn(PublisherId, PublicKey) -> bool,
    ) -> Result<T, EndorsementError> {
        let (body, owners) = self.signed_by_keys(network, scope, charter, is_key_of)?;
        if owners.len() < usize::from(charter.threshold) {
            return Err(EndorsementError::TooFew { signed: owners.len(), threshold: charter.threshold });
        }
        Ok(body)
    }

    fn signed_by_keys<T: Statement + PartialEq>(
        &self,
        network: &str,
        scope: &str,
        charter: &Charter,
        is_key_of: impl Fn(PublisherId, PublicKey) -> bool,
    ) -> Result<(T, BTreeSet<PublisherId>), EndorsementError> {
        if !(1..=GROUP_OWNERS_MAX).contains(&self.0.len()) {
            return Err(EndorsementError::Count(self.0.len()));
        }
        // Whose they say they are comes before any is verified: what strangers sign costs little.
        let mut owners = BTreeSet::new();
        for bytes in &self.0 {
            let signer = object::claimed_signer(bytes)?;
            let is_of = |owner: &&PublisherId| is_key_of(**owner, signer);
            owners.insert(*charter.owners.iter().find(is_of).ok_or(EndorsementError::NotAnOwner(signer))?);
        }
        self.open(network, scope).map(|body| (body, owners))
    }
}

/// Owners admit a node.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Invitation {
    #[n(0)]
    kind: Kind,
    /// To which group.
    #[n(1)]
    pub group: GroupId,
    /// The node that may join.
    #[n(2)]
    pub node: PublicKey,
    /// The charter under which it was made: a later charter ends it.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub charter: Digest,
    /// Unix milliseconds.
    #[n(4)]
    pub not_before_ms: u64,
    /// Unix milliseconds, at most 7 days after `not_before_ms`.
    #[n(5)]
    pub not_after_ms: u64,
    /// Random: an invitation is used once.
    #[cbor(n(6), with = "minicbor::bytes")]
    pub nonce: [u8; 16],
    /// The group's epoch when it was made: an expulsion of the node ends it.
    #[n(7)]
    pub epoch: u64,
}

impl Invitation {
    /// An invitation to be signed.
    #[must_use]
    pub fn new(
        group: GroupId,
        charter: Digest,
        node: PublicKey,
        not_before_ms: u64,
        not_after_ms: u64,
        nonce: [u8; 16],
        epoch: u64,
    ) -> Invitation {
        Invitation { kind: Kind::Invitation, group, node, charter, not_before_ms, not_after_ms, nonce, epoch }
    }

    /// Checks that it is valid at `now_ms`.
    ///
    /// # Errors
    /// [`ObjectError::Expired`] or [`ObjectError::NotYetValid`].
    pub fn in_force(&self, now_ms: u64) -> Result<(), ObjectError> {
        object::in_time(self.not_before_ms, self.not_after_ms, now_ms)
    }
}

/// Owners remove a node.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Expulsion {
    #[n(0)]
    kind: Kind,
    /// From which group.
    #[n(1)]
    pub group: GroupId,
    /// Which node.
    #[n(2)]
    pub node: PublicKey,
    /// The group's epoch when it was made, so that it removes no node that joined later again.
    #[n(3)]
    pub epoch: u64,
}

impl Expulsion {
    /// An expulsion to be signed.
    #[must_use]
    pub fn new(group: GroupId, node: PublicKey, epoch: u64) -> Expulsion {
        Expulsion { kind: Kind::Expulsion, group, node, epoch }
    }
}

/// Owners end a group.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Dissolution {
    #[n(0)]
    kind: Kind,
    /// Which group.
    #[n(1)]
    pub group: GroupId,
    /// The charter under which it was made.
    #[cbor(n(2), with = "minicbor::bytes")]
    pub charter: Digest,
}

impl Dissolution {
    /// A dissolution to be signed.
    #[must_use]
    pub fn new(group: GroupId, charter: Digest) -> Dissolution {
        Dissolution { kind: Kind::Dissolution, group, charter }
    }
}

impl Statement for Invitation {
    const KIND: Kind = Kind::Invitation;
    fn kind(&self) -> Kind {
        self.kind
    }
    fn check(&self) -> Result<(), ObjectError> {
        object::life(self.not_before_ms, self.not_after_ms, INVITATION_LIFE_MAX_MS)
    }
}

impl Statement for Expulsion {
    const KIND: Kind = Kind::Expulsion;
    fn kind(&self) -> Kind {
        self.kind
    }
}

impl Statement for Dissolution {
    const KIND: Kind = Kind::Dissolution;
    fn kind(&self) -> Kind {
        self.kind
    }
}
