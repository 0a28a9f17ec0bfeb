//! Which inbound streams are kept when there are too many. Free slots are lent to any peer. When all are taken, the stream of a
//! more trusted peer displaces one of the least trusted, idle ones before those that serve a call. Among equals, the group with
//! most streams gives an idle one to a group with fewer; a call is interrupted for an equal only when that has less than its
//! share and the other more than its own.
//!
//! The trust level of a peer shows in what it proves on the stream. Until then the stream has a slot among those being opened,
//! where a new one displaces the slowest of the group with most.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::PublicKey;

use super::trust_level::{Holder, QuotaGroup, TrustLevel};

/// Of equals, this many groups have a guaranteed share: as many as origins have of the connections.
const SHARES: usize = 16;

/// Names one stream.
pub(crate) type StreamId = u64;

/// An event of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// A peer opens it.
    Opened { stream: StreamId, holder: Holder },
    /// Both sides said hello on it, which proved this trust level.
    Proven { stream: StreamId, trust: TrustLevel },
    /// A call begins on it; its peer has this trust level now.
    Busy { stream: StreamId, trust: TrustLevel },
    /// The call has ended.
    Idle { stream: StreamId },
    /// It is closed.
    Closed { stream: StreamId },
}

/// What the shell must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Close this stream, for which there is no slot.
    Refuse { stream: StreamId },
    /// Close this stream, whose slot another one takes.
    End { stream: StreamId },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Opening,
    Idle,
    Busy,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    holder: Holder,
    state: State,
    /// The number of the event that led to the state: the smaller, the longer ago.
    since: u64,
}

/// The streams of one peer.
#[derive(Debug, Default)]
struct OfPeer {
    idle: BTreeSet<(u64, StreamId)>,
    busy: BTreeSet<(u64, StreamId)>,
}

impl OfPeer {
    fn len(&self) -> usize {
        self.idle.len() + self.busy.len()
    }
}

/// The streams of one quota group.
#[derive(Debug, Default)]
struct GroupStreams {
    len: usize,
    idle: usize,
    peers: BTreeMap<PublicKey, OfPeer>,
}

/// The inbound streams, by trust level and quota group.
#[derive(Debug)]
pub(crate) struct StreamAdmission {
    open_max: usize,
    opening_max: usize,
    streams: BTreeMap<StreamId, Held>,
    opening: BTreeMap<TrustLevel, BTreeMap<QuotaGroup, BTreeSet<(u64, StreamId)>>>,
    opening_len: usize,
    open: BTreeMap<TrustLevel, BTreeMap<QuotaGroup, GroupStreams>>,
    open_len: usize,
    turn: u64,
}

impl StreamAdmission {
    /// No streams; up to `open_max` open ones, and `opening_max` more that are being opened.
    pub fn new(open_max: usize, opening_max: usize) -> StreamAdmission {
        StreamAdmission {
            open_max,
            opening_max,
            streams: BTreeMap::new(),
            opening: BTreeMap::new(),
            opening_len: 0,
            open: BTreeMap::new(),
            open_len: 0,
            turn: 0,
        }
    }

    /// Processes an event. A refused or ended stream no longer counts.
    pub fn step(&mut self, input: Input) -> Option<Effect> {
        self.turn += 1;
        match input {
            Input::Opened { stream, holder } => {
                self.insert(stream, Held { holder, state: State::Opening, since: self.turn });
                let slowest = (self.opening_len > self.opening_max).then(|| self.slowest_opening()).flatten()?;
                self.remove(slowest);
                Some(if slowest == stream { Effect::Refuse { stream } } else { Effect::End { stream: slowest } })
            }
            Input::Proven { stream, trust } => {
                let held = self.remove(stream)?;
                let holder = Holder { trust, ..held.holder };
                let effect = if self.open_len < self.open_max {
                    None
                } else {
                    match self.displaced_for(&holder) {
                        Some(other) => Some(Effect::End { stream: other }),
                        None => return Some(Effect::Refuse { stream }),
                    }
                };
                if let Some(Effect::End { stream: other }) = effect {
                    self.remove(other);
                }
                self.insert(stream, Held { holder, state: State::Idle, since: self.turn });
                effect
            }
            Input::Busy { stream, trust } => {
                let held = self.remove(stream)?;
                let holder = Holder { trust, ..held.holder };
                self.insert(stream, Held { holder, state: State::Busy, since: self.turn });
                None
            }
            Input::Idle { stream } => {
                let held = self.remove(stream)?;
                self.insert(stream, Held { state: State::Idle, since: self.turn, ..held });
                None
            }
            Input::Closed { stream } => {
                self.remove(stream);
                None
            }
        }
    }

    /// The slowest of the streams being opened, of the group with most at the lowest trust level.
    fn slowest_opening(&self) -> Option<StreamId> {
        let (_, groups) = self.opening.first_key_value()?;
        groups.values().max_by_key(|streams| streams.len())?.first().map(|(_, stream)| *stream)
    }

    /// The stream whose slot a proven stream of `holder` takes.
    fn displaced_for(&self, holder: &Holder) -> Option<StreamId> {
        let (lowest, groups) = self.open.first_key_value()?;
        if *lowest < holder.trust {
            let idle = groups.values().filter(|group| group.idle > 0).max_by_key(|group| group.len);
            return match idle {
                Some(group) => group.oldest_idle(0),
                None => groups.values().max_by_key(|group| group.len)?.newest_busy(),
            };
        }
        let equals = self.open.get(&holder.trust)?;
        let own = equals.get(&holder.quota_group());
        let has = own.map_or(0, |group| group.len);
        let others =
            || equals.iter().filter(|(group, _)| **group != holder.quota_group()).map(|(_, of_group)| of_group);
        let idle = others().filter(|group| group.idle > 0 && group.len > has + 1).max_by_key(|group| group.len);
        if let Some(group) = idle {
            return group.oldest_idle(0);
        }
        let share = (self.open_max / SHARES).max(1);
        if has < share
            && let Some(group) = others().filter(|group| group.len > share).max_by_key(|group| group.len)
        {
            return group.newest_busy();
        }
        // Within a group, the same applies between its keys.
        own?.oldest_idle(own?.peers.get(&holder.peer).map_or(0, OfPeer::len) + 1)
    }

    fn insert(&mut self, stream: StreamId, held: Held) {
        let (trust, group, entry) = (held.holder.trust, held.holder.quota_group(), (held.since, stream));
        self.streams.insert(stream, held);
        if held.state == State::Opening {
            self.opening.entry(trust).or_default().entry(group).or_default().insert(entry);
            self.opening_len += 1;
            return;
        }
        let group = self.open.entry(trust).or_default().entry(group).or_default();
        let peer = group.peers.entry(held.holder.peer).or_default();
        let idle = held.state == State::Idle;
        if idle {
            peer.idle.insert(entry)
        } else {
            peer.busy.insert(entry)
        };
        group.len += 1;
        group.idle += usize::from(idle);
        self.open_len += 1;
    }

    fn remove(&mut self, stream: StreamId) -> Option<Held> {
        let held = self.streams.remove(&stream)?;
        let (trust, name, entry) = (held.holder.trust, held.holder.quota_group(), (held.since, stream));
        if held.state == State::Opening {
            self.opening_len -= 1;
            let groups = self.opening.get_mut(&trust)?;
            groups.get_mut(&name)?.remove(&entry);
            if groups.get(&name).is_some_and(BTreeSet::is_empty) {
                groups.remove(&name);
            }
            if groups.is_empty() {
                self.opening.remove(&trust);
            }
            return Some(held);
        }
        self.open_len -= 1;
        let groups = self.open.get_mut(&trust)?;
        let group = groups.get_mut(&name)?;
        group.len -= 1;
        group.idle -= usize::from(held.state == State::Idle);
        let peer = group.peers.get_mut(&held.holder.peer)?;
        if held.state == State::Idle {
            peer.idle.remove(&entry)
        } else {
            peer.busy.remove(&entry)
        };
        if peer.len() == 0 {
            group.peers.remove(&held.holder.peer);
        }
        if group.len == 0 {
            groups.remove(&name);
        }
        if groups.is_empty() {
            self.open.remove(&trust);
        }
        Some(held)
    }
}

impl GroupStreams {
    /// The longest idle stream of the peer with most streams, if it has more than `above`.
    fn oldest_idle(&self, above: usize) -> Option<StreamId> {
        let with_idle = self.peers.values().filter(|peer| !peer.idle.is_empty() && peer.len() > above);
        with_idle.max_by_key(|peer| peer.len())?.idle.first().map(|(_, stream)| *stream)
    }

    /// The stream whose call began last, of the peer with most streams.
    fn newest_busy(&self) -> Option<StreamId> {
        let with_busy = self.peers.values().filter(|peer| !peer.busy.is_empty());
        with_busy.max_by_key(|peer| peer.len())?.busy.last().map(|(_, stream)| *stream)
    }
}

#[cfg(test)]
mod tests;
