//! How members compare what a leader sent them, and accuse one that equivocated.

use althing_protocol::PublicKey;
use althing_protocol::group::{Equivocation, GroupId, SignedAppend};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

/// Bytes of each entry's digest that are compared: finding two entries with the same takes 2^64 attempts.
pub const DIGEST_BYTES: usize = 16;
/// Entries that are compared at once.
pub const NOTES_MAX: usize = 1_024;

/// A member says what entries a leader sent it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Compare {
    /// Which group.
    #[n(0)]
    pub group: GroupId,
    /// The leader.
    #[n(1)]
    pub leader: PublicKey,
    /// Its term.
    #[n(2)]
    pub term: u64,
    /// The index of the first entry.
    #[n(3)]
    pub first: u64,
    /// The first [`DIGEST_BYTES`] of the digest of each entry, from that one on.
    #[n(4)]
    pub digests: ByteVec,
}

impl Compare {
    /// Whether it compares at least one entry, and not too many.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        let (count, rest) = (self.digests.len() / DIGEST_BYTES, self.digests.len() % DIGEST_BYTES);
        if rest != 0 || !(1..=NOTES_MAX).contains(&count) || self.first > super::INDEX_MAX {
            return Err(format!("it compares no whole digests, or none, or more than {NOTES_MAX}"));
        }
        Ok(())
    }

    /// The entries: their indexes, and the beginnings of their digests.
    pub fn entries(&self) -> impl Iterator<Item = (u64, &[u8])> {
        (self.first..).zip(self.digests.chunks_exact(DIGEST_BYTES))
    }
}

/// The answer to [`Compare`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Compared {
    /// The answering member was sent no other entry at these indexes, as far as it remembers.
    #[n(0)]
    Same,
    /// It was sent another one: the append, as the leader signed it.
    #[n(1)]
    Differs(#[n(0)] SignedAppend),
}

/// A member proves that another one equivocated when it led.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Accuse {
    /// Which group.
    #[n(0)]
    pub group: GroupId,
    /// The proof.
    #[n(1)]
    pub proof: Equivocation,
}

/// The answer to [`Accuse`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Accused {
    /// The proof holds, and is kept.
    #[n(0)]
    Kept,
    /// It proves nothing against a member of this group.
    #[n(1)]
    Unproven,
}
