//! Who is forgotten: whoever was not useful for long, and those that are too many.

use std::collections::BTreeMap;

use althing_protocol::PublicKey;

use super::{Entry, KnownPeers};
use crate::machine::rank::Holder;
use crate::machine::room::{Net, net};

/// Peers that are remembered.
pub(super) const PEERS_MAX: usize = 256;
/// Strangers among them.
pub(super) const STRANGERS_MAX: usize = 128;
/// Strangers of one address group, of one private address, or behind one relay.
pub(super) const PER_HOLDER_MAX: usize = 4;
/// Strangers of one net: the same group, or a private /24 or /64.
pub(super) const PER_NET_MAX: usize = 32;
/// Near peers are forgotten when they were not useful for this long (30 days), strangers after a week.
pub(super) const NEAR_AGE_MS: u64 = 30 * 24 * 60 * 60 * 1_000;
/// See [`NEAR_AGE_MS`].
pub(super) const STRANGER_AGE_MS: u64 = 7 * 24 * 60 * 60 * 1_000;

impl KnownPeers {
    /// Forgets those that were not useful for long.
    pub(super) fn forget_old(&mut self, wall_ms: u64) {
        let is_old = |entry: &Entry| {
            let age_ms = if entry.peer.near { NEAR_AGE_MS } else { STRANGER_AGE_MS };
            entry.is_absent() && wall_ms.saturating_sub(entry.peer.useful_ms) >= age_ms
        };
        let old: Vec<PublicKey> = self.peers.iter().filter(|(_, entry)| is_old(entry)).map(|(node, _)| *node).collect();
        old.into_iter().for_each(|node| self.forget(node));
    }

    fn forget(&mut self, node: PublicKey) {
        self.peers.remove(&node);
        self.changed.insert(node);
    }

    /// Forgets those that are too many: of one holder, of one net, of all strangers, of all.
    pub(super) fn make_room(&mut self) {
        let mut holders: BTreeMap<Holder, usize> = BTreeMap::new();
        let mut nets: BTreeMap<Net, usize> = BTreeMap::new();
        for entry in self.peers.values().filter(|entry| !entry.peer.near) {
            *holders.entry(entry.holder).or_default() += 1;
            *nets.entry(net(entry.holder)).or_default() += 1;
        }
        let crowded = holders.into_iter().filter(|(_, count)| *count > PER_HOLDER_MAX);
        for (holder, count) in crowded {
            self.forget_oldest(count - PER_HOLDER_MAX, |entry| !entry.peer.near && entry.holder == holder);
        }
        let crowded = nets.into_iter().filter(|(_, count)| *count > PER_NET_MAX);
        for (crowd, _) in crowded {
            let of_net = |entry: &Entry| !entry.peer.near && net(entry.holder) == crowd;
            let left = self.peers.values().filter(|entry| of_net(entry)).count();
            self.forget_oldest(left.saturating_sub(PER_NET_MAX), of_net);
        }
        while self.strangers() > STRANGERS_MAX || self.strangers() > 0 && self.peers.len() > PEERS_MAX {
            self.forget_of_the_richest(false);
        }
        while self.peers.len() > PEERS_MAX {
            self.forget_of_the_richest(true);
        }
    }

    pub(super) fn strangers(&self) -> usize {
        self.peers.values().filter(|entry| !entry.peer.near).count()
    }

    /// Forgets the oldest of the net that has most.
    fn forget_of_the_richest(&mut self, near: bool) {
        let mut nets: BTreeMap<Net, usize> = BTreeMap::new();
        for entry in self.peers.values().filter(|entry| entry.peer.near == near) {
            *nets.entry(net(entry.holder)).or_default() += 1;
        }
        let most = nets.values().copied().max().unwrap_or_default();
        self.forget_oldest(1, |entry| entry.peer.near == near && nets.get(&net(entry.holder)) == Some(&most));
    }

    fn forget_oldest(&mut self, count: usize, of: impl Fn(&Entry) -> bool) {
        let mut all: Vec<(u64, PublicKey)> = self
            .peers
            .values()
            .filter(|entry| of(entry))
            .map(|entry| (entry.peer.useful_ms, entry.peer.node))
            .collect();
        all.sort_unstable();
        all.into_iter().take(count).for_each(|(_, node)| self.forget(node));
    }
}
