//! How much of the evidence of a step one origin may be, and one conversation: whoever calls most decides nothing alone.
//!
//! What is left out is left out by what was counted before, never by how a call went, and to the same share of both versions.

use std::collections::BTreeSet;

use minicbor::{Decode, Encode};

use super::bins::Bins;
use super::outcome::Side;

/// In so many bins origins and conversations are counted. Two in one bin count as one: that leaves out more, never less.
const BINS: usize = 256;
/// So many calls of the new version count of each origin and of each conversation in any case.
const LEAST: u64 = 2;
/// Above these, an origin is this part of the calls of a step at most.
const PART_OF_ORIGIN: u64 = 5;
/// And a conversation is this part.
const PART_OF_CONVERSATION: u64 = 10;
/// A version is worse when calls of so many origins went badly.
const WITNESSES_MIN: usize = 2;

/// The calls of both versions, by their bins; nothing before the first. Where a bin is full all are halved: parts stay parts, and a
/// row stays small.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct BinCounts {
    #[cbor(n(0), with = "minicbor::bytes")]
    stable: Vec<u8>,
    #[cbor(n(1), with = "minicbor::bytes")]
    new: Vec<u8>,
}

impl BinCounts {
    /// Whether one more call of a bin is at most that part of all, or one of the least.
    fn has_room(&self, side: Side, bin: Option<u8>, (least, part): (u64, u64)) -> bool {
        let Some(bin) = bin else { return true };
        let counts = match side {
            Side::Stable => &self.stable,
            Side::New => &self.new,
        };
        let own = counts.get(usize::from(bin)).map_or(0, |count| u64::from(*count));
        let all = || counts.iter().map(|count| u64::from(*count)).sum::<u64>();
        // Of most there are few, and nothing is added up.
        own < least || own < least.saturating_add(all() / part)
    }

    fn add(&mut self, side: Side, bin: Option<u8>) {
        let Some(bin) = bin else { return };
        let counts = match side {
            Side::Stable => &mut self.stable,
            Side::New => &mut self.new,
        };
        counts.resize(BINS, 0);
        if counts.get(usize::from(bin)) == Some(&u8::MAX) {
            counts.iter_mut().for_each(|count| *count /= 2);
        }
        if let Some(count) = counts.get_mut(usize::from(bin)) {
            *count = count.saturating_add(1);
        }
    }

    fn is_sound(&self) -> bool {
        [&self.stable, &self.new].iter().all(|counts| counts.is_empty() || counts.len() == BINS)
    }
}

/// Of what a step has as many calls as it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShareLimit {
    Origin,
    Conversation,
}

/// Calls of one version that are no evidence, by what there was too much of at their steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Surplus {
    /// Of their origins.
    #[n(0)]
    pub of_origins: u64,
    /// Of their conversations.
    #[n(1)]
    pub of_conversations: u64,
}

impl Surplus {
    /// One more is left out.
    pub(super) fn add(&mut self, limit: ShareLimit) {
        let calls = match limit {
            ShareLimit::Origin => &mut self.of_origins,
            ShareLimit::Conversation => &mut self.of_conversations,
        };
        *calls = calls.saturating_add(1);
    }
}

/// What was counted at one step, by origins and by conversations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(super) struct Weights {
    #[n(0)]
    origins: BinCounts,
    #[n(1)]
    conversations: BinCounts,
}

impl Weights {
    /// Takes a call; there are so many calls of stable for each of the new version.
    ///
    /// # Errors
    /// [`ShareLimit`]: its origin or its conversation is as much of the evidence already as it may be.
    pub fn take(&mut self, side: Side, bins: Bins, stable_per_new: u64) -> Result<(), ShareLimit> {
        let least = match side {
            Side::Stable => LEAST.saturating_mul(stable_per_new),
            Side::New => LEAST,
        };
        if !self.origins.has_room(side, bins.origin, (least, PART_OF_ORIGIN)) {
            return Err(ShareLimit::Origin);
        }
        if !self.conversations.has_room(side, bins.conversation, (least, PART_OF_CONVERSATION)) {
            return Err(ShareLimit::Conversation);
        }
        self.origins.add(side, bins.origin);
        self.conversations.add(side, bins.conversation);
        Ok(())
    }

    /// Whether it can have been counted.
    pub fn is_sound(&self) -> bool {
        self.origins.is_sound() && self.conversations.is_sound()
    }
}

/// Whose calls of the new version went badly.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(super) struct Witnesses {
    /// The bins of their origins.
    #[n(0)]
    origins: BTreeSet<u8>,
    /// Whether the agent's owner is among them, or a labelled case or a job of a control loop: one of these is enough.
    #[n(1)]
    has_own: bool,
}

impl Witnesses {
    /// A call of the new version went badly.
    pub fn add(&mut self, bins: Bins) {
        match bins.origin {
            Some(origin) => {
                self.origins.insert(origin);
            }
            None => self.has_own = true,
        }
    }

    /// Whether no single stranger says that the version is worse.
    pub fn are_enough(&self) -> bool {
        self.has_own || self.origins.len() >= WITNESSES_MIN
    }
}
