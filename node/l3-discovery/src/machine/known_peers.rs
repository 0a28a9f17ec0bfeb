//! Peers that were useful: they are remembered across outages and restarts, and dialled again by what was known of them. What is
//! remembered is a hint: whoever answers at an address has to prove the key, and what it says is verified as anybody's.
//!
//! Keys are free and addresses are not: strangers have a share by where they connect from, and together no more than half of
//! the room; the owner's own nodes, those that it trusts and those that its configuration names keep theirs.

mod bounds;

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::PublicKey;

use crate::machine::node::Now;
use crate::machine::rank::Holder;

/// Addresses of one peer; the newest are kept.
const ADDRESSES_MAX: usize = 4;
const ADDRESS_BYTES_MAX: usize = 256;
/// No clock that is right shows an earlier time: 2026. A machine without a battery begins with such a one.
const CLOCK_MIN_MS: u64 = 1_767_225_600_000;
/// That a peer is still useful is noted this often.
const NOTE_MS: u64 = 60_000;
/// And is worth a write to the disk this often, where nothing else changed.
const WRITE_MS: u64 = 10 * 60_000;
/// With fewer connections than this, any peer that is remembered is wanted.
const FEW: usize = 8;
/// Strangers from earlier that are tried at one time, where few are connected.
const FORMER_MAX: usize = 16;
/// Peers that are tried again and again at one time, the most recent first.
const TRIED_MAX: usize = 64;
/// Of these so many often.
const OFTEN_MAX: usize = 16;
/// Dials at one time.
const DIALS_MAX: usize = 16;
/// A peer whose connection broke is tried for this long, however many are connected.
const LOST_MS: u64 = 2 * 60 * 60 * 1_000;
/// The first wait after a failure; it doubles up to the longest.
const WAIT_MIN_MS: u64 = 500;
/// The longest wait while nobody is connected, in the first two hours.
const ALONE_WAIT_MS: u64 = 5_000;
/// The same, after that.
const LONG_ALONE_WAIT_MS: u64 = 15_000;
/// The longest wait for a peer that was lost a while ago.
const LOST_WAIT_MS: u64 = 10_000;
/// The longest wait for any other.
const WAIT_MAX_MS: u64 = 60_000;
/// A connection that lasted this long was no mere moment: the next wait is short again.
const LASTED_MS: u64 = 10_000;
/// Of two that lose each other the larger id waits this long, so that one of them dials.
const COURTESY_MS: u64 = 1_000;

/// What is remembered of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownPeer {
    /// Its key.
    pub node: PublicKey,
    /// Where it was dialled, or said that it can be; the newest first.
    pub addresses: Vec<String>,
    /// Whether it is the owner's own, trusted, or named by the configuration.
    pub near: bool,
    /// When it was useful last, Unix milliseconds.
    pub useful_ms: u64,
}

/// How it is with a peer, and since when, milliseconds that only rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Known from before this node started.
    Former,
    Connected(u64),
    /// The connection broke.
    Lost(u64),
    /// The connection was closed: nothing was said on it for a while.
    Closed,
    /// It said goodbye.
    Left,
}

#[derive(Debug)]
struct Entry {
    peer: KnownPeer,
    holder: Holder,
    state: State,
    dialling: bool,
    /// When the last dial ended, and how long is waited after it.
    tried_ms: Option<u64>,
    wait_ms: u64,
    failure: Option<String>,
    /// When this was given out to be written, as `useful_ms`.
    written_ms: u64,
}

/// A peer that is remembered, and not connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbsentPeer {
    /// Its key.
    pub node: PublicKey,
    /// Where it is dialled.
    pub address: String,
    /// Why the last dial failed; nothing as long as none has.
    pub failure: Option<String>,
}

/// What is remembered, at a glance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Peers.
    pub peers: usize,
    /// Those that are the owner's own, trusted or named by the configuration.
    pub near: usize,
    /// Those that are not connected, the most recent first.
    pub absent: Vec<AbsentPeer>,
}

/// The peers that are remembered.
#[derive(Debug)]
pub struct KnownPeers {
    local: PublicKey,
    peers: BTreeMap<PublicKey, Entry>,
    /// Since when nobody is connected, milliseconds that only rise.
    alone_ms: Option<u64>,
    changed: BTreeSet<PublicKey>,
}

impl KnownPeers {
    /// Nobody is remembered.
    #[must_use]
    pub fn new(local: PublicKey) -> KnownPeers {
        KnownPeers { local, peers: BTreeMap::new(), alone_ms: Some(0), changed: BTreeSet::new() }
    }

    /// Peers that were known before this node started, each with whom it is counted. Those that have no room, are too old, or
    /// of which the row says nothing of use, are to be deleted.
    pub fn restore(&mut self, peers: impl IntoIterator<Item = (KnownPeer, Holder)>, now: Now) {
        for (mut peer, holder) in peers {
            let node = peer.node;
            peer.addresses.retain(|address| !address.is_empty() && address.len() <= ADDRESS_BYTES_MAX);
            peer.addresses.truncate(ADDRESSES_MAX);
            if peer.addresses.is_empty() || node == self.local {
                self.changed.insert(node);
                continue;
            }
            // What was written by a clock that ran ahead must not be the newest for ever. A clock that is not set yet knows nothing.
            if peer.useful_ms > now.wall_ms && now.wall_ms >= CLOCK_MIN_MS {
                peer.useful_ms = now.wall_ms;
            }
            let written_ms = peer.useful_ms;
            self.peers.entry(node).or_insert(Entry {
                peer,
                holder,
                state: State::Former,
                dialling: false,
                tried_ms: None,
                wait_ms: WAIT_MIN_MS,
                failure: None,
                written_ms,
            });
        }
        self.forget_old(now.wall_ms);
        self.make_room();
    }

    /// Whether it is to be noted that a peer is useful: that is done once a minute.
    #[must_use]
    pub fn wants(&self, node: PublicKey, now: Now) -> bool {
        let fresh = |entry: &Entry| {
            matches!(entry.state, State::Connected(_)) && now.wall_ms.abs_diff(entry.peer.useful_ms) < NOTE_MS
        };
        node != self.local && !self.peers.get(&node).is_some_and(fresh)
    }

    /// A connected peer showed a placement that holds. It can be dialled at these addresses, as far as that is known.
    pub fn useful(&mut self, node: PublicKey, near: bool, holder: Holder, addresses: Vec<String>, now: Now) {
        if node == self.local {
            return;
        }
        let known = self.peers.get(&node).map(|entry| entry.peer.addresses.clone()).unwrap_or_default();
        let mut all: Vec<String> = Vec::new();
        for address in addresses.into_iter().chain(known) {
            if !address.is_empty() && address.len() <= ADDRESS_BYTES_MAX && !all.contains(&address) {
                all.push(address);
            }
        }
        all.truncate(ADDRESSES_MAX);
        if all.is_empty() {
            return;
        }
        let peer = KnownPeer { node, addresses: all, near, useful_ms: now.wall_ms };
        if let Some(entry) = self.peers.get_mut(&node) {
            let same = entry.peer.addresses == peer.addresses && entry.peer.near == near;
            let write = !same || peer.useful_ms.abs_diff(entry.written_ms) >= WRITE_MS;
            (entry.peer, entry.holder) = (peer, holder);
            if !matches!(entry.state, State::Connected(_)) {
                entry.state = State::Connected(now.monotonic_ms);
            }
            if write {
                self.changed.insert(node);
            }
        } else {
            let state = State::Connected(now.monotonic_ms);
            let (wait_ms, written_ms) = (WAIT_MIN_MS, peer.useful_ms);
            let entry =
                Entry { peer, holder, state, dialling: false, tried_ms: None, wait_ms, failure: None, written_ms };
            self.peers.insert(node, entry);
            self.changed.insert(node);
        }
        self.make_room();
    }

    /// A peer said goodbye: it is dialled only if nobody is left.
    pub fn left(&mut self, node: PublicKey) {
        if let Some(entry) = self.peers.get_mut(&node) {
            entry.state = State::Left;
        }
    }

    /// The connection to a peer broke on which it was heard until then.
    pub fn lost(&mut self, node: PublicKey, now_ms: u64) {
        let courtesy = if self.local > node { COURTESY_MS } else { 0 };
        if let Some(entry) = self.peers.get_mut(&node).filter(|entry| entry.state != State::Left) {
            let lasted = matches!(entry.state, State::Connected(since_ms) if since_ms + LASTED_MS <= now_ms);
            if lasted {
                entry.wait_ms = WAIT_MIN_MS;
            }
            entry.state = State::Lost(now_ms);
            entry.tried_ms = Some(now_ms + courtesy);
        }
    }

    /// Whom to dial now, and where; each is then waited for until [`KnownPeers::dialled`].
    pub fn due(&mut self, now: Now, connected: &[PublicKey]) -> Vec<(PublicKey, Vec<String>)> {
        self.forget_old(now.wall_ms);
        let connected: BTreeSet<PublicKey> = connected.iter().copied().collect();
        self.follow(now.monotonic_ms, &connected);
        let tried = self.tried(now.monotonic_ms, connected.len());
        let mut free = DIALS_MAX.saturating_sub(self.peers.values().filter(|entry| entry.dialling).count());
        let mut due = Vec::new();
        for (place, node) in tried.into_iter().enumerate() {
            let longest_ms = self.longest_wait(node, place, now.monotonic_ms);
            let Some(entry) = self.peers.get_mut(&node).filter(|entry| !entry.dialling && free > 0) else { continue };
            if entry.tried_ms.is_none_or(|tried_ms| tried_ms + entry.wait_ms.min(longest_ms) <= now.monotonic_ms) {
                entry.dialling = true;
                free -= 1;
                due.push((node, entry.peer.addresses.clone()));
            }
        }
        due
    }

    /// How a dial ended: why it failed, if it did.
    pub fn dialled(&mut self, node: PublicKey, failure: Option<String>, now_ms: u64) {
        let Some(entry) = self.peers.get_mut(&node) else { return };
        entry.dialling = false;
        entry.tried_ms = Some(now_ms);
        // Also after a success: whoever closes each connection at once is dialled ever more rarely.
        entry.wait_ms = (entry.wait_ms * 2).min(WAIT_MAX_MS);
        entry.failure = failure;
    }

    /// Where a peer can be dialled, as far as it is remembered.
    #[must_use]
    pub fn addresses(&self, node: PublicKey) -> Vec<String> {
        self.peers.get(&node).map(|entry| entry.peer.addresses.clone()).unwrap_or_default()
    }

    /// What is remembered, at a glance.
    #[must_use]
    pub fn remembered(&self) -> Remembered {
        let mut absent: Vec<&Entry> = self.peers.values().filter(|entry| entry.is_absent()).collect();
        absent.sort_by_key(|entry| std::cmp::Reverse(entry.peer.useful_ms));
        let told = |entry: &Entry| AbsentPeer {
            node: entry.peer.node,
            address: entry.peer.addresses.first().cloned().unwrap_or_default(),
            failure: entry.failure.clone(),
        };
        Remembered {
            peers: self.peers.len(),
            near: self.peers.values().filter(|entry| entry.peer.near).count(),
            absent: absent.into_iter().map(told).collect(),
        }
    }

    /// Is something to be written?
    #[must_use]
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Up to `most` peers of which something is to be written, and what; nothing for one that is to be deleted.
    pub fn take_changed(&mut self, most: usize) -> Vec<(PublicKey, Option<KnownPeer>)> {
        let nodes: Vec<PublicKey> = self.changed.iter().take(most).copied().collect();
        let row = |node: PublicKey| {
            self.changed.remove(&node);
            let known = self.peers.get_mut(&node).map(|entry| {
                entry.written_ms = entry.peer.useful_ms;
                entry.peer.clone()
            });
            (node, known)
        };
        nodes.into_iter().map(row).collect()
    }

    /// These could not be written.
    pub fn put_back(&mut self, nodes: impl IntoIterator<Item = PublicKey>) {
        self.changed.extend(nodes);
    }

    /// Follows who is connected, and whether anybody is.
    fn follow(&mut self, now_ms: u64, connected: &BTreeSet<PublicKey>) {
        let was_alone = self.alone_ms.is_some();
        self.alone_ms = connected.is_empty().then(|| self.alone_ms.unwrap_or(now_ms));
        let is_back = was_alone && self.alone_ms.is_none();
        for (node, entry) in &mut self.peers {
            match (connected.contains(node), entry.state) {
                (true, State::Connected(since_ms)) => {
                    entry.failure = None;
                    if since_ms + LASTED_MS <= now_ms {
                        entry.wait_ms = WAIT_MIN_MS;
                    }
                }
                (true, _) => entry.state = State::Connected(now_ms),
                (false, State::Connected(_)) => entry.state = State::Closed,
                // Somebody is reached again: the others may be, too.
                (false, _) if is_back => entry.wait_ms = WAIT_MIN_MS,
                (false, _) => {}
            }
        }
    }

    /// Those that are wanted and not connected: near ones first, then the most recent.
    fn tried(&self, now_ms: u64, connected: usize) -> Vec<PublicKey> {
        let (few, alone) = (connected < FEW, connected == 0);
        let mut former = 0;
        let mut all: Vec<&Entry> = self.peers.values().filter(|entry| entry.is_absent()).collect();
        all.sort_by_key(|entry| std::cmp::Reverse((entry.peer.near, entry.peer.useful_ms, entry.peer.node)));
        all.retain(|entry| match entry.state {
            State::Lost(at_ms) if entry.peer.near || at_ms + LOST_MS > now_ms => true,
            State::Former if entry.peer.near => true,
            State::Left if !alone => false,
            _ if few => {
                former += 1;
                former <= FORMER_MAX
            }
            _ => false,
        });
        all.into_iter().take(TRIED_MAX).map(|entry| entry.peer.node).collect()
    }

    /// The longest wait between two dials of the one at that place among those that are tried.
    fn longest_wait(&self, node: PublicKey, place: usize, now_ms: u64) -> u64 {
        if place >= OFTEN_MAX {
            return WAIT_MAX_MS;
        }
        let lost = self.peers.get(&node).map(|entry| entry.state);
        match (self.alone_ms, lost) {
            (Some(since_ms), _) if since_ms + LOST_MS > now_ms => ALONE_WAIT_MS,
            (Some(_), _) => LONG_ALONE_WAIT_MS,
            (None, Some(State::Lost(at_ms))) if at_ms + LOST_MS > now_ms => LOST_WAIT_MS,
            (None, _) => WAIT_MAX_MS,
        }
    }
}

impl Entry {
    fn is_absent(&self) -> bool {
        !matches!(self.state, State::Connected(_))
    }
}

#[cfg(test)]
mod tests;
