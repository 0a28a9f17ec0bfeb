//! Proposals: what owners are asked to sign, gathered in the group's log; and voters that are silent.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::Endorsed;
use crate::Digest;
use crate::identity::PublicKey;
use crate::limits::GROUP_OWNERS_MAX;

/// A later charter takes effect.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Amendment {
    /// The charter, signed by the owners that the present one names.
    #[n(0)]
    pub charter: Endorsed,
    /// The events of the key log of each owner that it adds.
    #[n(1)]
    pub logs: Vec<Vec<ByteVec>>,
}

/// A statement that waits for signatures.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Motion {
    /// A later charter.
    #[n(0)]
    Amend(#[n(0)] Amendment),
    /// A node is to be no member any more: an [`Expulsion`](super::Expulsion).
    #[n(1)]
    Expel(#[n(0)] Endorsed),
    /// The group is to end: a [`Dissolution`](super::Dissolution).
    #[n(2)]
    Dissolve(#[n(0)] Endorsed),
    /// A node may join: an [`Invitation`](super::Invitation).
    #[n(3)]
    Invite(#[n(0)] Endorsed),
}

impl Motion {
    /// The statement with its signatures.
    #[must_use]
    pub fn signed(&self) -> &Endorsed {
        match self {
            Motion::Amend(amendment) => &amendment.charter,
            Motion::Expel(signed) | Motion::Dissolve(signed) | Motion::Invite(signed) => signed,
        }
    }

    /// The same statement with other signatures.
    #[must_use]
    pub fn with(&self, signed: Endorsed) -> Motion {
        match self {
            Motion::Amend(amendment) => Motion::Amend(Amendment { charter: signed, logs: amendment.logs.clone() }),
            Motion::Expel(_) => Motion::Expel(signed),
            Motion::Dissolve(_) => Motion::Dissolve(signed),
            Motion::Invite(_) => Motion::Invite(signed),
        }
    }

    /// The key logs in it.
    #[must_use]
    pub fn logs(&self) -> &[Vec<ByteVec>] {
        match self {
            Motion::Amend(amendment) => &amendment.logs,
            Motion::Expel(_) | Motion::Dissolve(_) | Motion::Invite(_) => &[],
        }
    }

    /// The bytes that it may come to have: its key logs, and its first object as often as there can be signatures.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        let first = self.signed().objects().next().map_or(0, <[u8]>::len);
        let logs: usize = self.logs().iter().flatten().map(|event| event.len()).sum();
        first * GROUP_OWNERS_MAX + logs
    }
}

/// A member brings a motion of an owner.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Propose {
    /// What is to be signed, with one owner's signature or several.
    #[n(0)]
    pub motion: Motion,
    /// When it is given up, Unix milliseconds.
    #[n(1)]
    pub expires_ms: u64,
}

/// A member brings the signature of another owner.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Endorse {
    /// The proposal: the digest of the payload that is signed.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub proposal: Digest,
    /// The authored object.
    #[n(1)]
    pub signed: ByteVec,
}

/// A learner votes in the place of a voter that was silent for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Replace {
    /// The voter, which only learns from now on.
    #[n(0)]
    pub voter: PublicKey,
    /// The learner, which votes from now on.
    #[n(1)]
    pub learner: PublicKey,
}
