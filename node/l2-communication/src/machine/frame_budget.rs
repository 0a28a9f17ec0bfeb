//! How many bytes of frames that are not finished yet may lie here, and whose. A frame's bytes are counted when its length is
//! announced, all of them: of many that are begun, some are then finished.
//!
//! Farther peers have fewer of all, so that there is always room for nearer ones; strangers of one origin have a share among
//! them, and each of them reads one long frame at a time. What does not fit waits. Whoever waited for a while has a frame ended
//! that is held as long, of who has more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use althing_protocol::PublicKey;

use super::nearness::{Crowd, Holder, Nearness};

/// Who waited this long has a frame ended that was begun before.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// Strangers' frames above this are read one after another: those below hold a request of any usual kind.
const LONG: usize = 64 << 10;
/// Frames of one stranger that wait: what was sent of each lies in the connection, up to 256 KiB.
const WAITING_PER_STRANGER: usize = 32;
/// Frames of all strangers that wait: 64 MiB in their connections.
const WAITING_STRANGERS: usize = 256;

/// Bytes of unfinished frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLimits {
    /// Of all peers. Strangers have a half of it at most, with those in use five eighths, with trusted ones seven.
    pub total: usize,
    /// Of one peer.
    pub per_peer: usize,
    /// Of one stranger.
    pub per_stranger: usize,
    /// Of all strangers of one origin.
    pub per_origin: usize,
}

impl Default for FrameLimits {
    /// Twice eight longest frames of one peer, and an eighth of the memory that a node under fire may take for all.
    fn default() -> FrameLimits {
        FrameLimits { total: 64 << 20, per_peer: 18 << 20, per_stranger: 4 << 20, per_origin: 8 << 20 }
    }
}

/// Names one frame; who was announced first has the smallest.
pub(crate) type FrameId = u64;

/// What happens to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// Its length is known.
    Announced { frame: FrameId, holder: Holder, bytes: usize, now: Duration },
    /// It waited for [`PATIENCE`].
    Pressed { frame: FrameId, now: Duration },
    /// It is finished and handed on, or given up.
    Done { frame: FrameId, now: Duration },
}

/// What is to be done.
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

/// Who holds how many bytes.
#[derive(Debug)]
pub(crate) struct FrameBudget {
    limits: FrameLimits,
    frames: BTreeMap<FrameId, Held>,
    waiting: BTreeMap<PublicKey, BTreeSet<FrameId>>,
    total: usize,
    crowds: BTreeMap<Crowd, usize>,
    peers: BTreeMap<PublicKey, usize>,
    /// Strangers that read a long frame.
    long: BTreeSet<PublicKey>,
}

impl FrameBudget {
    /// Nobody holds any.
    pub fn new(limits: FrameLimits) -> FrameBudget {
        FrameBudget {
            limits,
            frames: BTreeMap::new(),
            waiting: BTreeMap::new(),
            total: 0,
            crowds: BTreeMap::new(),
            peers: BTreeMap::new(),
            long: BTreeSet::new(),
        }
    }

    /// Bytes of frames that may be read now.
    pub fn held(&self) -> usize {
        self.total
    }

    /// Takes in what happens. A frame that is ended is done.
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

    /// Is there room for so many bytes more?
    fn fits(&self, holder: &Holder, bytes: usize) -> bool {
        self.fits_peer(holder, bytes)
            && self.fits_origin(holder, bytes)
            && self.total + bytes <= self.ceiling(holder.nearness)
    }

    /// Bytes of all up to which one that near is given more.
    fn ceiling(&self, nearness: Nearness) -> usize {
        let eighths = match nearness {
            Nearness::Stranger => 4,
            Nearness::InUse => 5,
            Nearness::Trusted => 7,
            Nearness::Own => 8,
        };
        self.limits.total / 8 * eighths
    }

    fn fits_peer(&self, holder: &Holder, bytes: usize) -> bool {
        let stranger = holder.nearness == Nearness::Stranger;
        let max = if stranger { self.limits.per_stranger } else { self.limits.per_peer };
        let in_turn = !stranger || bytes <= LONG || !self.long.contains(&holder.peer);
        in_turn && self.peer(holder.peer) + bytes <= max
    }

    fn fits_origin(&self, holder: &Holder, bytes: usize) -> bool {
        holder.nearness > Nearness::Stranger || self.crowd(holder.crowd()) + bytes <= self.limits.per_origin
    }

    fn peer(&self, peer: PublicKey) -> usize {
        self.peers.get(&peer).copied().unwrap_or_default()
    }

    fn crowd(&self, crowd: Crowd) -> usize {
        self.crowds.get(&crowd).copied().unwrap_or_default()
    }

    /// Those that are next of each peer, the nearest in front, then who has least.
    fn grant_all(&mut self, now: Duration) -> Vec<Effect> {
        let mut effects = Vec::new();
        loop {
            let heads = self.waiting.values().filter_map(BTreeSet::first);
            let fitting = heads.filter_map(|frame| Some((*frame, self.frames.get(frame)?)));
            let fitting = fitting.filter(|(_, held)| self.fits(&held.holder, held.bytes));
            let next = fitting.min_by_key(|(frame, held)| {
                (std::cmp::Reverse(held.holder.nearness), self.crowd(held.holder.crowd()), *frame)
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
        *self.crowds.entry(holder.crowd()).or_default() += bytes;
        *self.peers.entry(holder.peer).or_default() += bytes;
        if holder.nearness == Nearness::Stranger && bytes > LONG {
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
        take(&mut self.crowds, holder.crowd(), bytes);
        take(&mut self.peers, holder.peer, bytes);
        if holder.nearness == Nearness::Stranger && bytes > LONG {
            self.long.remove(&holder.peer);
        }
    }

    /// A stranger's frame came to wait: the one that is to go for it, where that is one too many.
    fn one_too_many(&self, holder: &Holder) -> Option<FrameId> {
        if holder.nearness > Nearness::Stranger {
            return None;
        }
        let own = self.waiting.get(&holder.peer)?;
        if own.len() > WAITING_PER_STRANGER {
            return own.last().copied();
        }
        let is_stranger =
            |frame: &FrameId| self.frames.get(frame).is_some_and(|held| held.holder.nearness == Nearness::Stranger);
        let of_strangers = || self.waiting.values().filter(|frames| frames.first().is_some_and(is_stranger));
        if of_strangers().map(BTreeSet::len).sum::<usize>() <= WAITING_STRANGERS {
            return None;
        }
        of_strangers().max_by_key(|frames| frames.len())?.last().copied()
    }

    /// The frame that is ended for one that waited: a farther peer's where that helps, or an equal's that has more than the one
    /// that waits would have; as long as it is held long enough.
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
            let of_crowd = self.frames.values().filter(|held| held.holder.crowd() == holder.crowd());
            let most = of_crowd.map(|held| held.holder.peer).max_by_key(|peer| self.peer(*peer))?;
            let more = self.peer(most) > self.peer(holder.peer) + bytes;
            return oldest(&|of| of.peer == most).filter(|_| more);
        }
        let farther = || self.frames.values().filter(long_held).filter(|held| held.holder.nearness < holder.nearness);
        let freed: usize = farther().map(|held| held.bytes).sum();
        let helps = self.total - freed + bytes <= self.ceiling(holder.nearness);
        let from = farther().map(|held| held.holder.nearness).min().filter(|_| helps);
        let nearness = from.unwrap_or(holder.nearness);
        let crowds = self.frames.values().map(|held| held.holder).filter(|of| of.nearness == nearness);
        let most = crowds.map(|of| of.crowd()).max_by_key(|crowd| self.crowd(*crowd))?;
        let ends = from.is_some() || self.crowd(most) > self.crowd(holder.crowd()) + bytes;
        oldest(&|of| of.nearness == nearness && of.crowd() == most).filter(|_| ends)
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
