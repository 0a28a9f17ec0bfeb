//! The budget for bytes of incomplete frames, and who may use it. All bytes of a frame are counted when its length is announced,
//! so that some of many frames that have begun are completed.
//!
//! Less trusted peers may fill less of the budget, so that there is always room for more trusted ones; strangers of one origin
//! share a quota, and each stranger reads one long frame at a time. A frame that does not fit waits. After a while its waiting
//! ends an older frame of a holder that has more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use althing_protocol::PublicKey;

use super::trust_level::{Holder, QuotaGroup, TrustLevel};

/// A frame that waited this long displaces one that was granted as long ago.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// A stranger's frames above this are read one at a time; a usual request fits below it.
const LONG: usize = 64 << 10;
/// Waiting frames of one stranger; each occupies up to 256 KiB of the connection's receive window.
const WAITING_PER_STRANGER: usize = 32;
/// Waiting frames of all strangers: 64 MiB in their connections.
const WAITING_STRANGERS: usize = 256;

/// Limits on the bytes of incomplete frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLimits {
    /// Of all peers. Strangers fill up to half of it, peers in use up to five eighths, trusted ones up to seven.
    pub total: usize,
    /// Of one peer.
    pub per_peer: usize,
    /// Of one stranger.
    pub per_stranger: usize,
    /// Of all strangers of one origin.
    pub per_origin: usize,
}

impl Default for FrameLimits {
    /// Twice eight longest requests of one peer, the longest answer of a stranger, and an eighth of the memory that a node
    /// under fire may take for all.
    fn default() -> FrameLimits {
        FrameLimits { total: 64 << 20, per_peer: 18 << 20, per_stranger: 5 << 20, per_origin: 8 << 20 }
    }
}

/// Names one frame; earlier frames have smaller numbers.
pub(crate) type FrameId = u64;

/// An event of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// Its length is known.
    Announced { frame: FrameId, holder: Holder, bytes: usize, now: Duration },
    /// It waited for [`PATIENCE`].
    Pressed { frame: FrameId, now: Duration },
    /// It is complete and handed on, or dropped.
    Done { frame: FrameId, now: Duration },
}

/// What the shell must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Its bytes may be read.
    Grant { frame: FrameId },
    /// Its stream is to be closed.
    End { frame: FrameId },
}

#[derive(Debug, Clone, Copy)]
struct Held {
    holder: Holder,
    bytes: usize,
    /// Since when its bytes may be read.
    granted: Option<Duration>,
}

/// The frames that hold or await bytes.
#[derive(Debug)]
pub(crate) struct FrameBudget {
    limits: FrameLimits,
    frames: BTreeMap<FrameId, Held>,
    waiting: BTreeMap<PublicKey, BTreeSet<FrameId>>,
    total: usize,
    groups: BTreeMap<QuotaGroup, usize>,
    peers: BTreeMap<PublicKey, usize>,
    /// Strangers that read a long frame.
    long: BTreeSet<PublicKey>,
}

impl FrameBudget {
    /// An empty budget.
    pub fn new(limits: FrameLimits) -> FrameBudget {
        FrameBudget {
            limits,
            frames: BTreeMap::new(),
            waiting: BTreeMap::new(),
            total: 0,
            groups: BTreeMap::new(),
            peers: BTreeMap::new(),
            long: BTreeSet::new(),
        }
    }

    /// Granted bytes.
    pub fn held(&self) -> usize {
        self.total
    }

    /// Processes an event. A frame that is ended counts as done.
    pub fn step(&mut self, input: Input) -> Vec<Effect> {
        match input {
            Input::Announced { frame, holder, bytes, now } => {
                self.frames.insert(frame, Held { holder, bytes, granted: None });
                if !self.waiting.contains_key(&holder.peer) && self.fits(&holder, bytes) {
                    self.grant(frame, now);
                    return vec![Effect::Grant { frame }];
                }
                self.waiting.entry(holder.peer).or_default().insert(frame);
                self.one_too_many(&holder).map(|frame| self.end(frame)).into_iter().collect()
            }
            Input::Pressed { frame, now } => {
                let Some(held) = self.frames.get(&frame).copied().filter(|held| held.granted.is_none()) else {
                    return Vec::new();
                };
                let mut effects = Vec::new();
                while !self.fits(&held.holder, held.bytes)
                    && let Some(other) = self.displaced_for(&held, now)
                {
                    effects.push(self.end(other));
                }
                effects.extend(self.grant_all(now));
                effects
            }
            Input::Done { frame, now } => {
                self.remove(frame);
                self.grant_all(now)
            }
        }
    }

    fn end(&mut self, frame: FrameId) -> Effect {
        self.remove(frame);
        Effect::End { frame }
    }

    /// Is there room for `bytes` more?
    fn fits(&self, holder: &Holder, bytes: usize) -> bool {
        self.fits_peer(holder, bytes)
            && self.fits_origin(holder, bytes)
            && self.total + bytes <= self.ceiling(holder.trust)
    }

    /// The total up to which holders of a trust level are granted bytes.
    fn ceiling(&self, trust: TrustLevel) -> usize {
        let eighths = match trust {
            TrustLevel::Stranger => 4,
            TrustLevel::InUse => 5,
            TrustLevel::Trusted => 7,
            TrustLevel::Own => 8,
        };
        self.limits.total / 8 * eighths
    }

    fn fits_peer(&self, holder: &Holder, bytes: usize) -> bool {
        let stranger = holder.trust == TrustLevel::Stranger;
        let max = if stranger { self.limits.per_stranger } else { self.limits.per_peer };
        let in_turn = !stranger || bytes <= LONG || !self.long.contains(&holder.peer);
        in_turn && self.peer(holder.peer) + bytes <= max
    }

    fn fits_origin(&self, holder: &Holder, bytes: usize) -> bool {
        holder.trust > TrustLevel::Stranger || self.group_bytes(holder.quota_group()) + bytes <= self.limits.per_origin
    }

    fn peer(&self, peer: PublicKey) -> usize {
        self.peers.get(&peer).copied().unwrap_or_default()
    }

    fn group_bytes(&self, group: QuotaGroup) -> usize {
        self.groups.get(&group).copied().unwrap_or_default()
    }

    /// Grants the first waiting frame of each peer while it fits: by trust level, then to the group that holds least.
    fn grant_all(&mut self, now: Duration) -> Vec<Effect> {
        let mut effects = Vec::new();
        loop {
            let heads = self.waiting.values().filter_map(BTreeSet::first);
            let fitting = heads.filter_map(|frame| Some((*frame, self.frames.get(frame)?)));
            let fitting = fitting.filter(|(_, held)| self.fits(&held.holder, held.bytes));
            let next = fitting.min_by_key(|(frame, held)| {
                (std::cmp::Reverse(held.holder.trust), self.group_bytes(held.holder.quota_group()), *frame)
            });
            let Some((frame, _)) = next else { return effects };
            self.grant(frame, now);
            effects.push(Effect::Grant { frame });
        }
    }

    fn grant(&mut self, frame: FrameId, now: Duration) {
        let Some(held) = self.frames.get_mut(&frame) else { return };
        held.granted = Some(now);
        let (holder, bytes) = (held.holder, held.bytes);
        self.total += bytes;
        *self.groups.entry(holder.quota_group()).or_default() += bytes;
        *self.peers.entry(holder.peer).or_default() += bytes;
        if holder.trust == TrustLevel::Stranger && bytes > LONG {
            self.long.insert(holder.peer);
        }
        self.not_waiting(holder.peer, frame);
    }

    fn not_waiting(&mut self, peer: PublicKey, frame: FrameId) {
        if let Some(frames) = self.waiting.get_mut(&peer) {
            frames.remove(&frame);
            if frames.is_empty() {
                self.waiting.remove(&peer);
            }
        }
    }

    fn remove(&mut self, frame: FrameId) {
        let Some(held) = self.frames.remove(&frame) else { return };
        let (holder, bytes) = (held.holder, held.bytes);
        if held.granted.is_none() {
            self.not_waiting(holder.peer, frame);
            return;
        }
        self.total -= bytes;
        take(&mut self.groups, holder.quota_group(), bytes);
        take(&mut self.peers, holder.peer, bytes);
        if holder.trust == TrustLevel::Stranger && bytes > LONG {
            self.long.remove(&holder.peer);
        }
    }

    /// The waiting frame to end when a stranger's frame has begun to wait and that is one too many.
    fn one_too_many(&self, holder: &Holder) -> Option<FrameId> {
        if holder.trust > TrustLevel::Stranger {
            return None;
        }
        let own = self.waiting.get(&holder.peer)?;
        if own.len() > WAITING_PER_STRANGER {
            return own.last().copied();
        }
        let is_stranger =
            |frame: &FrameId| self.frames.get(frame).is_some_and(|held| held.holder.trust == TrustLevel::Stranger);
        let of_strangers = || self.waiting.values().filter(|frames| frames.first().is_some_and(is_stranger));
        if of_strangers().map(BTreeSet::len).sum::<usize>() <= WAITING_STRANGERS {
            return None;
        }
        of_strangers().max_by_key(|frames| frames.len())?.last().copied()
    }

    /// The frame to end for one that waited: that of a less trusted peer where this makes enough room, or of an equal that holds
    /// more than the waiting one would; only one that was granted at least [`PATIENCE`] ago.
    fn displaced_for(&self, waits: &Held, now: Duration) -> Option<FrameId> {
        let (holder, bytes) = (&waits.holder, waits.bytes);
        if !self.fits_peer(holder, bytes) {
            return None;
        }
        let long_held = |held: &&Held| held.granted.is_some_and(|since| now.saturating_sub(since) >= PATIENCE);
        let oldest = |of: &dyn Fn(&Holder) -> bool| {
            let mut held = self.frames.iter().filter(|(_, held)| of(&held.holder) && long_held(held));
            held.next().map(|(frame, _)| *frame)
        };
        if !self.fits_origin(holder, bytes) {
            let of_group = self.frames.values().filter(|held| held.holder.quota_group() == holder.quota_group());
            let most = of_group.map(|held| held.holder.peer).max_by_key(|peer| self.peer(*peer))?;
            let more = self.peer(most) > self.peer(holder.peer) + bytes;
            return oldest(&|of| of.peer == most).filter(|_| more);
        }
        let lower = || self.frames.values().filter(long_held).filter(|held| held.holder.trust < holder.trust);
        let freed: usize = lower().map(|held| held.bytes).sum();
        let helps = self.total - freed + bytes <= self.ceiling(holder.trust);
        let from = lower().map(|held| held.holder.trust).min().filter(|_| helps);
        let trust = from.unwrap_or(holder.trust);
        let groups = self.frames.values().map(|held| held.holder).filter(|of| of.trust == trust);
        let most = groups.map(|of| of.quota_group()).max_by_key(|group| self.group_bytes(*group))?;
        let ends = from.is_some() || self.group_bytes(most) > self.group_bytes(holder.quota_group()) + bytes;
        oldest(&|of| of.trust == trust && of.quota_group() == most).filter(|_| ends)
    }
}

fn take<K: Ord>(from: &mut BTreeMap<K, usize>, of: K, bytes: usize) {
    if let std::collections::btree_map::Entry::Occupied(mut held) = from.entry(of) {
        *held.get_mut() -= bytes;
        if *held.get() == 0 {
            held.remove();
        }
    }
}

#[cfg(test)]
mod tests;
