//! What a member says of itself in the log, so that members with other rules, or another state, are noticed.

use minicbor::{Decode, Encode};

use crate::Digest;

/// The version of the rules by which a group executes its log that this build knows (SPEC.md, chapter 18).
pub const RULES: u32 = 2;
/// The version from which on a task may say its channel.
pub(super) const RULES_OF_CHANNELS: u32 = 2;

/// A member declares which rules it knows, and what its state was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Declaration {
    /// The version of the rules: it knows those of each lower one too.
    #[n(0)]
    pub rules: u32,
    /// Its last mark.
    #[n(1)]
    pub mark: Option<StateMark>,
}

/// The digest of a member's state at one entry of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct StateMark {
    /// Before the first entry of this part of the group's time.
    #[n(0)]
    pub at: u64,
    /// The digest.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub digest: Digest,
}
