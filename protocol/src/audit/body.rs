//! Bodies beside an audit log, which its leaves name without telling anything of them.

use minicbor::{Decode, Encode};
use sha2::Digest as _;

use crate::Digest;

/// Random bytes beside a body: who does not have them cannot try out what a commitment is of.
pub type BodySalt = [u8; 32];

/// What a body is of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum BodyRole {
    /// The arguments of a call.
    #[n(0)]
    Arguments,
    /// What came of the call.
    #[n(1)]
    Result,
    /// Why something was denied, or failed.
    #[n(2)]
    Reason,
    /// What was there before a change.
    #[n(3)]
    Before,
    /// What is there after it.
    #[n(4)]
    After,
}

impl BodyRole {
    /// All of them, ascending.
    pub const ALL: [BodyRole; 5] =
        [BodyRole::Arguments, BodyRole::Result, BodyRole::Reason, BodyRole::Before, BodyRole::After];

    /// Its word, which does not change.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            BodyRole::Arguments => "arguments",
            BodyRole::Result => "result",
            BodyRole::Reason => "reason",
            BodyRole::Before => "before",
            BodyRole::After => "after",
        }
    }
}

/// The name that a leaf has of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct BodyCommitment {
    /// What it is.
    #[n(0)]
    pub role: BodyRole,
    /// See [`commitment`].
    #[cbor(n(1), with = "minicbor::bytes")]
    pub commitment: Digest,
}

impl BodyCommitment {
    /// The commitment to a body with that salt.
    #[must_use]
    pub fn of(role: BodyRole, salt: &BodySalt, body: &[u8]) -> BodyCommitment {
        BodyCommitment { role, commitment: commitment(salt, body) }
    }

    /// Whether it is of that body, with that salt.
    #[must_use]
    pub fn names(&self, salt: &BodySalt, body: &[u8]) -> bool {
        self.commitment == commitment(salt, body)
    }
}

/// SHA-256 of the salt and the body after it.
#[must_use]
pub fn commitment(salt: &BodySalt, body: &[u8]) -> Digest {
    sha2::Sha256::new().chain_update(salt).chain_update(body).finalize().into()
}
