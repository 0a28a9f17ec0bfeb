//! Which connections there are, and which of two to the same peer must go. Decides; closes nothing itself.

use std::collections::BTreeMap;
use std::time::Duration;

use althing_communication::{PeerEvent, PeerInfo};
use althing_protocol::PublicKey;
use libp2p::Multiaddr;

/// The connections of one node, oldest first for each peer.
#[derive(Debug)]
pub(crate) struct Connections<Id> {
    local: PublicKey,
    peers: BTreeMap<PublicKey, Vec<Connection<Id>>>,
}

#[derive(Debug)]
struct Connection<Id> {
    id: Id,
    dialled: bool,
    address: String,
    round_trip: Option<Duration>,
}

impl<Id: Copy + PartialEq> Connections<Id> {
    pub fn new(local: PublicKey) -> Self {
        Connections { local, peers: BTreeMap::new() }
    }

    /// A connection is up. Says whether the peer is new, and which connections are to be closed now.
    pub fn established(
        &mut self,
        peer: PublicKey,
        id: Id,
        dialled: bool,
        address: String,
    ) -> (Option<PeerEvent>, Vec<Id>) {
        let held = self.peers.entry(peer).or_default();
        let event = held.is_empty().then_some(PeerEvent::Connected(peer));
        held.push(Connection { id, dialled, address, round_trip: None });
        (event, surplus(self.local < peer, held))
    }

    /// A connection is gone. Says whether it was the peer's last.
    pub fn closed(&mut self, peer: PublicKey, id: Id) -> Option<PeerEvent> {
        let held = self.peers.get_mut(&peer)?;
        held.retain(|connection| connection.id != id);
        if held.is_empty() {
            self.peers.remove(&peer);
            return Some(PeerEvent::Disconnected(peer));
        }
        None
    }

    pub fn measured(&mut self, peer: PublicKey, id: Id, round_trip: Duration) {
        let held = self.peers.get_mut(&peer).into_iter().flatten();
        for connection in held.filter(|connection| connection.id == id) {
            connection.round_trip = Some(round_trip);
        }
    }

    /// The connection that new streams belong on: the oldest that is not about to be closed.
    pub fn that_stays(&self, peer: PublicKey) -> Option<Id> {
        let held = self.peers.get(&peer)?;
        let goes = surplus(self.local < peer, held);
        held.iter().map(|connection| connection.id).find(|id| !goes.contains(id))
    }

    /// The address at the other end of a connection.
    pub fn address(&self, peer: PublicKey, id: Id) -> Option<Multiaddr> {
        let held = self.peers.get(&peer)?.iter().find(|connection| connection.id == id)?;
        held.address.parse().ok()
    }

    /// The address at the other end of the first connection.
    pub fn remote(&self, peer: PublicKey) -> Option<Multiaddr> {
        self.peers.get(&peer)?.first()?.address.parse().ok()
    }

    pub fn contains(&self, peer: PublicKey) -> bool {
        self.peers.contains_key(&peer)
    }

    pub fn infos(&self) -> Vec<PeerInfo> {
        let infos = self.peers.iter().filter_map(|(peer, held)| {
            let first = held.first()?;
            Some(PeerInfo {
                peer: *peer,
                connections: held.len(),
                address: first.address.clone(),
                dialled: first.dialled,
                round_trip: first.round_trip,
            })
        });
        infos.collect()
    }
}

/// Both sides must come to the same answer without a word: of two that were dialled from both sides, those of the
/// smaller id stay; of several dialled from one side, that side alone keeps its first.
fn surplus<Id: Copy>(smaller: bool, held: &[Connection<Id>]) -> Vec<Id> {
    let both = held.iter().any(|c| c.dialled) && held.iter().any(|c| !c.dialled);
    let goes = |c: &&Connection<Id>| both && c.dialled != smaller;
    let mut ids: Vec<Id> = held.iter().filter(goes).map(|c| c.id).collect();
    let kept_by_us = held.iter().filter(|c| c.dialled && !goes(c));
    ids.extend(kept_by_us.skip(1).map(|c| c.id));
    ids
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::SecretKey;

    fn two() -> (PublicKey, PublicKey) {
        let a = SecretKey::from_seed(&[1; 32]).public();
        let b = SecretKey::from_seed(&[2; 32]).public();
        if a < b { (a, b) } else { (b, a) }
    }

    /// Whatever the order in which each side sees the two connections, both keep the same one.
    #[test]
    fn both_sides_keep_the_smaller_ids_connection() {
        let (small, large) = two();
        for orders in [[["s", "l"], ["s", "l"]], [["s", "l"], ["l", "s"]], [["l", "s"], ["s", "l"]]] {
            for ((me, peer), order) in [(small, large), (large, small)].into_iter().zip(orders) {
                let mut connections = Connections::new(me);
                let mut closed = Vec::new();
                for id in order {
                    let dialled = (id == "s") == (me == small);
                    closed.extend(connections.established(peer, id, dialled, String::new()).1);
                }
                assert_eq!(closed, ["l"], "{me:?}");
            }
        }
    }

    #[test]
    fn of_two_dials_from_one_side_only_that_side_closes_the_second() {
        let (small, large) = two();
        for (dialled, expected) in [(true, vec![2]), (false, vec![])] {
            let mut connections = Connections::new(small);
            assert_eq!(connections.established(large, 1, dialled, String::new()).0, Some(PeerEvent::Connected(large)));
            let (event, closed) = connections.established(large, 2, dialled, String::new());
            assert_eq!((event, closed), (None, expected));
        }
    }

    #[test]
    fn a_peer_is_gone_with_its_last_connection() {
        let (small, large) = two();
        let mut connections = Connections::new(small);
        connections.established(large, 1, true, String::new());
        connections.established(large, 2, false, String::new());
        assert_eq!(connections.closed(large, 1), None);
        assert!(connections.contains(large));
        assert_eq!(connections.closed(large, 2), Some(PeerEvent::Disconnected(large)));
        assert_eq!(connections.closed(large, 2), None);
    }
}
