//! Proposals: what owners of a group are asked to sign, until as many signed as must, or time is up.

use std::collections::BTreeMap;

use althing_protocol::group::Motion;
use althing_protocol::limits::{PROPOSALS_OF_OWNER_BYTES_MAX, PROPOSALS_OF_OWNER_MAX};
use althing_protocol::{Digest, PublisherId};
use minicbor::{Decode, Encode};

use super::outcome::Refusal;

/// A proposal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Proposal {
    /// What is to be signed, with the signatures so far.
    #[n(0)]
    pub motion: Motion,
    /// The owner that made it, in whose room it is.
    #[n(1)]
    pub proposer: PublisherId,
    /// When it is given up, Unix milliseconds.
    #[n(2)]
    pub expires_ms: u64,
}

/// The proposals of a group, each named by the digest of the payload that its owners sign.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proposals {
    by_id: BTreeMap<Digest, Proposal>,
}

impl Proposals {
    /// The proposal of that name.
    #[must_use]
    pub fn get(&self, id: &Digest) -> Option<&Proposal> {
        self.by_id.get(id)
    }

    /// All, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Digest, &Proposal)> {
        self.by_id.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Adds a proposal, or one of its signatures. Each owner has room of its own, so that none can keep the others from
    /// proposing.
    pub(crate) fn put(&mut self, id: Digest, proposal: Proposal) -> Result<(), Refusal> {
        let others = self.by_id.iter().filter(|(known, it)| **known != id && it.proposer == proposal.proposer);
        let (count, bytes) = others.fold((0, 0), |(count, bytes), (_, it)| (count + 1, bytes + it.motion.bytes_max()));
        if count >= PROPOSALS_OF_OWNER_MAX {
            return Err(Refusal::Full(format!("{PROPOSALS_OF_OWNER_MAX} proposals of this owner wait already")));
        }
        if bytes + proposal.motion.bytes_max() > PROPOSALS_OF_OWNER_BYTES_MAX {
            let most = format!("proposals of one owner have at most {PROPOSALS_OF_OWNER_BYTES_MAX} bytes");
            return Err(Refusal::Full(most));
        }
        self.by_id.insert(id, proposal);
        Ok(())
    }

    pub(crate) fn remove(&mut self, id: &Digest) {
        self.by_id.remove(id);
    }

    /// Time passes.
    pub(crate) fn expire(&mut self, now_ms: u64) {
        self.by_id.retain(|_, proposal| proposal.expires_ms > now_ms);
    }

    /// The epoch ends: no expulsion that was signed in it is executed any more.
    pub(crate) fn end_expulsions(&mut self) {
        self.by_id.retain(|_, proposal| !matches!(proposal.motion, Motion::Expel(_)));
    }
}
