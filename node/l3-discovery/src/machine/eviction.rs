//! How the catalogue makes room: what is farther gives way, and of what is as near, that of whoever has most.

use std::collections::BTreeMap;

use althing_protocol::PublicKey;

use crate::machine::catalogue::{AdmitRefused, Catalogue, Learned, PlacementRefused};
use crate::machine::node::Node;
use crate::machine::rank::{Holder, Rank, Source, richest};

impl Catalogue {
    /// Room for a node, and for what it says that it hosts, which takes `bytes`.
    pub(super) fn make_room_for_node(
        &mut self,
        key: PublicKey,
        source: Source,
        bytes: usize,
    ) -> Result<(), PlacementRefused> {
        while !self.nodes.contains_key(&key) && self.nodes.len() >= self.bounds.nodes {
            let Some(goes) = self.node_that_goes(source, key) else {
                return Err(PlacementRefused::Full(self.nodes.len()));
            };
            self.remove_node(goes);
        }
        let more = bytes.saturating_sub(self.nodes.get(&key).map_or(0, Node::list_bytes));
        let room = more == 0 || self.make_room((key, source.shares_with(key, source.rank)), source.rank, more);
        if room { Ok(()) } else { Err(PlacementRefused::NoRoom(bytes)) }
    }

    /// Room for one more agent of a node that is there.
    pub(super) fn make_room_for_agent(&mut self, key: PublicKey, rank: Rank, more: usize) -> Result<(), AdmitRefused> {
        let max = self.bounds.node_bytes;
        while let Some(node) = self.nodes.get(&key).filter(|node| node.total() + more > max) {
            let farther = Rank::FARTHEST_FIRST.into_iter().take_while(|farther| *farther > rank);
            let Some(goes) = farther.into_iter().find_map(|farther| node.last_of(farther)) else {
                return Err(AdmitRefused::NoRoom { of: "one node", max });
            };
            self.give_way(key, &goes);
        }
        let holder = self.nodes.get(&key).map_or(Holder::Node(key), |node| node.source.shares_with(key, rank));
        let room = self.make_room((key, holder), rank, more);
        if room { Ok(()) } else { Err(AdmitRefused::NoRoom { of: "all nodes", max: self.bounds.bytes }) }
    }

    /// The node that goes when there are too many: the farthest, if it is farther than who comes; or of those that are as
    /// near the last of whoever has most, if that is more than who comes has.
    fn node_that_goes(&self, source: Source, comes: PublicKey) -> Option<PublicKey> {
        let others = || self.nodes.iter().filter(|(_, node)| node.learned != Learned::Local);
        let farthest = others().map(|(_, node)| node.nearest()).max().filter(|farthest| *farthest >= source.rank)?;
        let of_rank = || others().filter(|(_, node)| node.nearest() == farthest);
        let mut shares: BTreeMap<Holder, usize> = BTreeMap::new();
        for (key, node) in of_rank() {
            *shares.entry(node.source.shares_with(*key, farthest)).or_default() += 1;
        }
        let holder = if farthest > source.rank {
            shares.iter().max_by_key(|(_, nodes)| **nodes).map(|(holder, _)| *holder)
        } else {
            richest(&shares, source.shares_with(comes, source.rank), 1)
        }?;
        let theirs = of_rank().filter(|(key, node)| node.source.shares_with(**key, farthest) == holder);
        theirs.max_by_key(|(_, node)| node.number).map(|(key, _)| *key)
    }

    /// Makes room for `more` bytes of that rank, of that node, which are counted with that holder. False when there is none:
    /// what gave way until then is farther, and would have had to for the next.
    fn make_room(&mut self, (key, holder): (PublicKey, Holder), rank: Rank, more: usize) -> bool {
        if more > self.bounds.bytes {
            return false;
        }
        while self.bytes + more > self.bounds.bytes {
            let Some((node, rank)) = self.who_gives_way((key, holder), rank, more) else { return false };
            self.take_from(node, rank, more);
        }
        true
    }

    /// The node that something is taken from, and of which rank.
    fn who_gives_way(&self, (key, holder): (PublicKey, Holder), rank: Rank, more: usize) -> Option<(PublicKey, Rank)> {
        for farther in Rank::FARTHEST_FIRST.into_iter().take_while(|farther| *farther >= rank) {
            let others = || self.nodes.iter().filter(|(_, node)| node.learned != Learned::Local);
            let of_rank = || others().filter(|(_, node)| node.can_give(farther) > 0);
            let mut shares: BTreeMap<Holder, usize> = BTreeMap::new();
            for (other, node) in of_rank().filter(|(other, _)| **other != key) {
                *shares.entry(node.source.shares_with(*other, farther)).or_default() += node.can_give(farther);
            }
            let most = if farther > rank {
                shares.iter().max_by_key(|(_, bytes)| **bytes).map(|(holder, _)| *holder)
            } else {
                // What the node itself has counts with its holder, and is not taken from.
                let own = self.nodes.get(&key).map_or(0, |node| node.bytes[rank.at()]);
                richest(&shares, holder, own + more)
            };
            let theirs = of_rank()
                .filter(|(other, node)| **other != key && Some(node.source.shares_with(**other, farther)) == most);
            if let Some((node, _)) = theirs.max_by_key(|(_, node)| node.can_give(farther)) {
                return Some((*node, farther));
            }
        }
        None
    }

    /// Takes from a node what is of that rank, as much as is needed; itself, where nothing else is left of it.
    fn take_from(&mut self, key: PublicKey, rank: Rank, more: usize) {
        while self.bytes + more > self.bounds.bytes {
            let Some(node) = self.nodes.get(&key) else { return };
            match node.last_of(rank) {
                Some(agent) => self.give_way(key, &agent),
                None => {
                    if node.nearest() == rank {
                        self.remove_node(key);
                    }
                    return;
                }
            }
        }
    }
}
