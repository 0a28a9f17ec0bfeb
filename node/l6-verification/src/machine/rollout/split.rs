//! Which version a conversation belongs to: a function of what it is and of when it began, so that it stays with its version
//! without a row of its own.

use althing_protocol::{Digest, digest};
use minicbor::{Decode, Encode};

use super::bins::Bins;
use super::plan::Unit;

/// In so many parts calls are divided.
const BUCKETS: u64 = 10_000;
const BUCKETS_PER_PERCENT: u64 = BUCKETS / 100;

/// A conversation that a call is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conversation<'a> {
    /// What all its tasks have in common.
    pub id: &'a str,
    /// What [`Route::began_ms`](super::Route::began_ms) was for its first call; none if this is the first.
    pub began_ms: Option<u64>,
}

/// A call, as far as it decides which version answers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'a> {
    /// The task's id.
    pub task: &'a str,
    /// The conversation that it is in; none of a call that stands alone.
    pub conversation: Option<Conversation<'a>>,
    /// On whose behalf it is made.
    pub caller: Option<&'a str>,
    /// Whose calls are weighed together with it: the owner of the caller. None of a call of the agent's own owner, who may decide
    /// alone.
    pub origin: Option<&'a str>,
    /// The channel of its group, if it came by one: a name that no channel of another group has.
    pub channel: Option<&'a str>,
    /// The group, if it is for one.
    pub group: Option<&'a str>,
    /// Now, Unix milliseconds.
    pub now_ms: u64,
}

impl Call<'_> {
    /// When its conversation began, if an earlier call did that.
    pub(super) fn began_ms(&self) -> Option<u64> {
        self.conversation.and_then(|conversation| conversation.began_ms)
    }

    /// With what it has one version, and what that is.
    fn unit(&self, by: Unit) -> Option<(Unit, &str)> {
        let conversation = || (Unit::Call, self.conversation.map_or(self.task, |conversation| conversation.id));
        let group = self.group.map(|group| (Unit::Group, group));
        match by {
            Unit::Call => Some(conversation()),
            Unit::Caller => self.caller.map(|caller| (Unit::Caller, caller)),
            Unit::Channel => {
                let channel = self.channel.map(|channel| (Unit::Channel, channel));
                Some(channel.or(group).unwrap_or_else(conversation))
            }
            Unit::Group => group,
        }
    }
}

/// From when on the new version had which share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(super) struct Share {
    #[n(0)]
    pub from_ms: u64,
    #[n(1)]
    pub percent: u8,
}

/// How the conversations of one rollout are divided.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(super) struct Split {
    /// The number of the rollout: another one draws conversations and callers anew.
    #[n(0)]
    pub number: u64,
    #[n(1)]
    pub by: Unit,
    #[cbor(n(2), with = "minicbor::bytes")]
    pub from: Digest,
    #[cbor(n(3), with = "minicbor::bytes")]
    pub to: Digest,
    /// In the order of time; the last one is 100 percent after a promotion, and there is none after going back.
    #[n(4)]
    pub shares: Vec<Share>,
    /// How long `from` goes on with its conversations after a promotion, milliseconds.
    #[n(5)]
    pub drain_ms: u64,
    /// See [`Plan::salt`](super::Plan::salt).
    #[n(6)]
    pub salt: Option<u64>,
}

impl Split {
    /// Whether a conversation that began then was divided by this.
    pub fn covers(&self, began_ms: u64) -> bool {
        self.shares.first().is_some_and(|first| first.from_ms <= began_ms)
    }

    /// Whether a call has what the shares are shares of: one without stays with stable, and says nothing of either version.
    pub fn divides(&self, call: &Call) -> bool {
        call.unit(self.by).is_some()
    }

    /// The version of a call whose conversation began under this.
    pub fn version(&self, call: &Call, began_ms: u64) -> Digest {
        let before = self.shares.iter().rev().find(|share| share.from_ms <= began_ms);
        let percent = before.map_or(0, |share| share.percent);
        let is_drawn =
            || call.unit(self.by).is_some_and(|unit| self.bucket(unit) < u64::from(percent) * BUCKETS_PER_PERCENT);
        if percent >= 100 || is_drawn() { self.to } else { self.from }
    }

    /// Until when the older version answers for conversations of its own, if the newer one took its place.
    pub fn drains_until_ms(&self) -> Option<u64> {
        Some(self.promoted_ms()?.saturating_add(self.drain_ms))
    }

    /// When the newer version took the place of the older one, if it did.
    pub fn promoted_ms(&self) -> Option<u64> {
        self.shares.last().filter(|last| last.percent >= 100).map(|last| last.from_ms)
    }

    /// Among which calls one is weighed: among those of its origin, and among those of its conversation.
    pub fn bins(&self, call: &Call) -> Bins {
        let conversation = call.conversation.map_or(call.task, |conversation| conversation.id);
        let conversation = self.bin(&["conversation", call.caller.unwrap_or_default(), conversation]);
        Bins { origin: call.origin.map(|origin| self.bin(&["origin", origin])), conversation: Some(conversation) }
    }

    /// Nobody chooses whose calls are weighed with his: each rollout draws that anew.
    fn bin(&self, names: &[&str]) -> u8 {
        let mut bytes = b"althing rollout bin".to_vec();
        bytes.extend(self.to);
        bytes.extend(self.number.to_be_bytes());
        bytes.extend(self.salt.map(u64::to_be_bytes).into_iter().flatten());
        for name in names {
            // With their lengths, or two could have one name.
            bytes.extend(format!("{} {name}", name.len()).into_bytes());
        }
        let [bin, ..] = digest(&bytes);
        bin
    }

    fn bucket(&self, (kind, unit): (Unit, &str)) -> u64 {
        let mut bytes = b"althing rollout".to_vec();
        bytes.extend(self.to);
        // What several nodes have a part in they draw alike, whatever each of them decided before.
        if matches!(kind, Unit::Call | Unit::Caller) {
            bytes.extend(self.number.to_be_bytes());
            bytes.extend(self.salt.map(u64::to_be_bytes).into_iter().flatten());
        }
        bytes.extend(unit.as_bytes());
        let drawn = digest(&bytes);
        let number = drawn.iter().take(8).fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
        u64::try_from((u128::from(number) * u128::from(BUCKETS)) >> 64).unwrap_or_default()
    }
}
