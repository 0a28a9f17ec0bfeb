//! A Kademlia routing table (Maymounkov and Mazières, 2002): nodes in buckets by distance, at most k in each. A node stays until
//! it fails to answer, so that attackers cannot displace long-lived nodes.

use std::collections::BTreeMap;

use althing_protocol::{Digest, PublicKey};

use althing_communication::address_groups::{AddressGroup, AddressGroupLimits};
use althing_communication::records::{bucket, distance, position_of_node};
use althing_communication::routing::K;

/// A routing table.
pub(crate) struct Table {
    local: PublicKey,
    position: Digest,
    /// By the bit length of the distance: 256 for the farther half of all nodes.
    buckets: BTreeMap<u32, Vec<(Digest, PublicKey)>>,
    caps: AddressGroupLimits<PublicKey>,
}

impl Table {
    pub fn new(local: PublicKey) -> Table {
        Table {
            local,
            position: position_of_node(local),
            buckets: BTreeMap::new(),
            caps: AddressGroupLimits::default(),
        }
    }

    /// Adds a node, if there is room for it.
    pub fn insert(&mut self, node: PublicKey, group: Option<AddressGroup>) -> bool {
        if node == self.local {
            return false;
        }
        let place = position_of_node(node);
        let number = bucket(&self.position, &place);
        let bucket = self.buckets.entry(number).or_default();
        if bucket.iter().any(|(_, held)| *held == node) {
            return true;
        }
        let room = bucket.len() < K && self.caps.admit(node, group, number);
        if room {
            bucket.push((place, node));
        }
        room
    }

    /// A node did not answer.
    pub fn remove(&mut self, node: PublicKey) {
        self.caps.remove(node);
        for bucket in self.buckets.values_mut() {
            bucket.retain(|(_, held)| *held != node);
        }
    }

    /// The nodes closest to a position, the closest first.
    pub fn closest(&self, place: &Digest, most: usize) -> Vec<PublicKey> {
        let mut all: Vec<(Digest, PublicKey)> =
            self.buckets.values().flatten().map(|(held, node)| (distance(held, place), *node)).collect();
        all.sort_unstable();
        all.into_iter().take(most).map(|(_, node)| node).collect()
    }

    /// All nodes.
    pub fn nodes(&self) -> Vec<PublicKey> {
        self.buckets.values().flatten().map(|(_, node)| *node).collect()
    }

    pub fn len(&self) -> usize {
        self.buckets.values().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::SecretKey;

    fn node(number: u16) -> PublicKey {
        let mut seed = [7; 32];
        seed[..2].copy_from_slice(&number.to_be_bytes());
        SecretKey::from_seed(&seed).public()
    }

    #[test]
    fn buckets_hold_k_and_the_nearest_come_first() {
        let mut table = Table::new(node(0));
        let taken = (1..400).filter(|number| table.insert(node(*number), None)).count();
        assert_eq!(taken, table.len());
        assert!(table.buckets.values().all(|bucket| bucket.len() <= K));
        assert_eq!(table.buckets[&256].len(), K, "half of all nodes are in the farthest bucket");
        let place = position_of_node(node(77));
        let far = |node: &PublicKey| distance(&position_of_node(*node), &place);
        let mut expected = table.nodes();
        expected.sort_by_key(far);
        assert_eq!(table.closest(&place, 30), expected[..30]);
        assert!(!table.insert(node(0), None), "a node is not in its own table");
        table.remove(expected[0]);
        assert_ne!(table.closest(&place, 1), expected[..1]);
    }
}
