//! Whose streams stand when there are too many. What is free is lent to whoever comes; when all is taken, a stream of a nearer
//! peer takes the place of a farther one's, the farthest first and idle ones before those on which a call is answered. Among
//! equals whoever has most gives an idle one to whoever has less; a call is broken off for an equal only while that has less
//! than its share, by one who has more than that.
//!
//! How near a peer is shows in what it proves on the stream. Until then a stream has a place among those that are being opened,
//! where the one that takes longest, of the crowd that has most, makes room for who comes.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::PublicKey;

use super::nearness::{Crowd, Holder, Nearness};

/// Of equals, this many crowds have the same share for certain: as many as origins have of the connections.
const SHARES: usize = 16;

/// Names one stream.
pub(crate) type StreamId = u64;

/// What happens to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// A peer opens it.
    Opened { stream: StreamId, holder: Holder },
    /// Both sides said hello on it: its peer is this near.
    Proven { stream: StreamId, nearness: Nearness },
    /// A call begins on it; its peer is this near now.
    Busy { stream: StreamId, nearness: Nearness },
    /// The call is over.
    Idle { stream: StreamId },
    /// It is closed.
    Closed { stream: StreamId },
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// This one has no place.
    Refuse { stream: StreamId },
    /// This one is ended for another.
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
    /// Rises with everything that happens: the smaller, the longer it is as it is.
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

/// The streams of one crowd.
#[derive(Debug, Default)]
struct OfCrowd {
    len: usize,
    idle: usize,
    peers: BTreeMap<PublicKey, OfPeer>,
}

/// Who has which of the streams that peers open.
#[derive(Debug)]
pub(crate) struct StreamAdmission {
    standing_max: usize,
    opening_max: usize,
    streams: BTreeMap<StreamId, Held>,
    opening: BTreeMap<Nearness, BTreeMap<Crowd, BTreeSet<(u64, StreamId)>>>,
    opening_len: usize,
    standing: BTreeMap<Nearness, BTreeMap<Crowd, OfCrowd>>,
    standing_len: usize,
    turn: u64,
}

impl StreamAdmission {
    /// None yet; at most so many stand, and so many more are being opened.
    pub fn new(standing_max: usize, opening_max: usize) -> StreamAdmission {
        StreamAdmission {
            standing_max,
            opening_max,
            streams: BTreeMap::new(),
            opening: BTreeMap::new(),
            opening_len: 0,
            standing: BTreeMap::new(),
            standing_len: 0,
            turn: 0,
        }
    }

    /// Takes in what happens. A stream that is to be refused or ended is not counted any more.
    pub fn step(&mut self, input: Input) -> Option<Effect> {
        self.turn += 1;
        match input {
            Input::Opened { stream, holder } => {
                self.insert(stream, Held { holder, state: State::Opening, since: self.turn });
                let late = (self.opening_len > self.opening_max).then(|| self.slowest_opening()).flatten()?;
                self.remove(late);
                Some(if late == stream { Effect::Refuse { stream } } else { Effect::End { stream: late } })
            }
            Input::Proven { stream, nearness } => {
                let held = self.remove(stream)?;
                let holder = Holder { nearness, ..held.holder };
                let effect = if self.standing_len < self.standing_max {
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
            Input::Busy { stream, nearness } => {
                let held = self.remove(stream)?;
                let holder = Holder { nearness, ..held.holder };
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

    /// Of those that are being opened: of the farthest, the crowd with most, the one that takes longest.
    fn slowest_opening(&self) -> Option<StreamId> {
        let (_, crowds) = self.opening.first_key_value()?;
        crowds.values().max_by_key(|streams| streams.len())?.first().map(|(_, stream)| *stream)
    }

    /// Whose place a proven stream of `holder` takes.
    fn displaced_for(&self, holder: &Holder) -> Option<StreamId> {
        let (farthest, crowds) = self.standing.first_key_value()?;
        if *farthest < holder.nearness {
            let idle = crowds.values().filter(|crowd| crowd.idle > 0).max_by_key(|crowd| crowd.len);
            return match idle {
                Some(crowd) => crowd.oldest_idle(0),
                None => crowds.values().max_by_key(|crowd| crowd.len)?.newest_busy(),
            };
        }
        let equals = self.standing.get(&holder.nearness)?;
        let own = equals.get(&holder.crowd());
        let has = own.map_or(0, |crowd| crowd.len);
        let others = || equals.iter().filter(|(crowd, _)| **crowd != holder.crowd()).map(|(_, of_crowd)| of_crowd);
        let idle = others().filter(|crowd| crowd.idle > 0 && crowd.len > has + 1).max_by_key(|crowd| crowd.len);
        if let Some(crowd) = idle {
            return crowd.oldest_idle(0);
        }
        let share = (self.standing_max / SHARES).max(1);
        if has < share
            && let Some(crowd) = others().filter(|crowd| crowd.len > share).max_by_key(|crowd| crowd.len)
        {
            return crowd.newest_busy();
        }
        // Within a crowd, the same from key to key.
        own?.oldest_idle(own?.peers.get(&holder.peer).map_or(0, OfPeer::len) + 1)
    }

    fn insert(&mut self, stream: StreamId, held: Held) {
        let (nearness, crowd, entry) = (held.holder.nearness, held.holder.crowd(), (held.since, stream));
        self.streams.insert(stream, held);
        if held.state == State::Opening {
            self.opening.entry(nearness).or_default().entry(crowd).or_default().insert(entry);
            self.opening_len += 1;
            return;
        }
        let crowd = self.standing.entry(nearness).or_default().entry(crowd).or_default();
        let peer = crowd.peers.entry(held.holder.peer).or_default();
        let idle = held.state == State::Idle;
        if idle {
            peer.idle.insert(entry)
        } else {
            peer.busy.insert(entry)
        };
        crowd.len += 1;
        crowd.idle += usize::from(idle);
        self.standing_len += 1;
    }

    fn remove(&mut self, stream: StreamId) -> Option<Held> {
        let held = self.streams.remove(&stream)?;
        let (nearness, name, entry) = (held.holder.nearness, held.holder.crowd(), (held.since, stream));
        if held.state == State::Opening {
            self.opening_len -= 1;
            let crowds = self.opening.get_mut(&nearness)?;
            crowds.get_mut(&name)?.remove(&entry);
            if crowds.get(&name).is_some_and(BTreeSet::is_empty) {
                crowds.remove(&name);
            }
            if crowds.is_empty() {
                self.opening.remove(&nearness);
            }
            return Some(held);
        }
        self.standing_len -= 1;
        let crowds = self.standing.get_mut(&nearness)?;
        let crowd = crowds.get_mut(&name)?;
        crowd.len -= 1;
        crowd.idle -= usize::from(held.state == State::Idle);
        let peer = crowd.peers.get_mut(&held.holder.peer)?;
        if held.state == State::Idle {
            peer.idle.remove(&entry)
        } else {
            peer.busy.remove(&entry)
        };
        if peer.len() == 0 {
            crowd.peers.remove(&held.holder.peer);
        }
        if crowd.len == 0 {
            crowds.remove(&name);
        }
        if crowds.is_empty() {
            self.standing.remove(&nearness);
        }
        Some(held)
    }
}

impl OfCrowd {
    /// Of the peer with most streams, more than `above`, that has an idle one: the one that is idle longest.
    fn oldest_idle(&self, above: usize) -> Option<StreamId> {
        let with_idle = self.peers.values().filter(|peer| !peer.idle.is_empty() && peer.len() > above);
        with_idle.max_by_key(|peer| peer.len())?.idle.first().map(|(_, stream)| *stream)
    }

    /// Of the peer with most streams: the one whose call began last.
    fn newest_busy(&self) -> Option<StreamId> {
        let with_busy = self.peers.values().filter(|peer| !peer.busy.is_empty());
        with_busy.max_by_key(|peer| peer.len())?.busy.last().map(|(_, stream)| *stream)
    }
}

#[cfg(test)]
mod tests;
