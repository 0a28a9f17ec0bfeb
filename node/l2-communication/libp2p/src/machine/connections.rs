//! The connections of this node, and which of several to the same peer are closed.

use std::collections::BTreeMap;
use std::time::Duration;

use althing_communication::{PeerEvent, PeerInfo, TrustLevel};
use althing_protocol::PublicKey;
use libp2p::Multiaddr;

/// The connections of one node, oldest first for each peer.
#[derive(Debug)]
pub(crate) struct Connections<Id> {
    local: PublicKey,
    peers: BTreeMap<PublicKey, Vec<Connection<Id>>>,
    /// The trust levels of peers that are not strangers.
    trust: BTreeMap<PublicKey, TrustLevel>,
    /// Where connected peers say that they can be dialled.
    listens_at: BTreeMap<PublicKey, Vec<String>>,
}

#[derive(Debug)]
struct Connection<Id> {
    id: Id,
    dialled: bool,
    /// It leads through a relay.
    relayed: bool,
    address: String,
    round_trip: Option<Duration>,
}

impl<Id: Copy + PartialEq> Connections<Id> {
    pub fn new(local: PublicKey) -> Self {
        Connections { local, peers: BTreeMap::new(), trust: BTreeMap::new(), listens_at: BTreeMap::new() }
    }

    /// A connection is established. Gives the event, if the peer is new or has its first direct connection.
    pub fn established(&mut self, peer: PublicKey, id: Id, dialled: bool, address: String) -> Option<PeerEvent> {
        let held = self.peers.entry(peer).or_default();
        let relayed = address.contains("/p2p-circuit");
        let event = if held.is_empty() {
            Some(PeerEvent::Connected(peer))
        } else {
            let better = !relayed && held.iter().all(|connection| connection.relayed);
            better.then_some(PeerEvent::Moved(peer))
        };
        held.push(Connection { id, dialled, relayed, address, round_trip: None });
        event
    }

    /// The connections to a peer that are to be closed, after a delay: a dialler that raced several addresses closes its spares
    /// itself. Beside a direct connection those through a relay are not closed, since calls are under way there; they end when
    /// idle.
    pub fn surplus(&self, peer: PublicKey) -> Vec<Id> {
        let Some(held) = self.peers.get(&peer) else { return Vec::new() };
        let direct = held.iter().any(|connection| !connection.relayed);
        let is_relayed = |id: &Id| held.iter().any(|connection| connection.id == *id && connection.relayed);
        surplus(self.local < peer, held).into_iter().filter(|id| !(direct && is_relayed(id))).collect()
    }

    /// A connection is closed. Gives the event, if it was the peer's last.
    pub fn closed(&mut self, peer: PublicKey, id: Id) -> Option<PeerEvent> {
        let held = self.peers.get_mut(&peer)?;
        held.retain(|connection| connection.id != id);
        if held.is_empty() {
            self.peers.remove(&peer);
            self.trust.remove(&peer);
            self.listens_at.remove(&peer);
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

    /// The connection for new streams: the oldest that is not about to be closed.
    pub fn preferred_connection(&self, peer: PublicKey) -> Option<Id> {
        let held = self.peers.get(&peer)?;
        let goes = surplus(self.local < peer, held);
        held.iter().map(|connection| connection.id).find(|id| !goes.contains(id))
    }

    /// The address at the other end of a connection.
    pub fn address(&self, peer: PublicKey, id: Id) -> Option<Multiaddr> {
        let held = self.peers.get(&peer)?.iter().find(|connection| connection.id == id)?;
        held.address.parse().ok()
    }

    /// Was this connection dialled by this node?
    pub fn dialled(&self, peer: PublicKey, id: Id) -> bool {
        self.peers.get(&peer).into_iter().flatten().any(|connection| connection.id == id && connection.dialled)
    }

    /// The address at the other end of the first connection.
    pub fn remote(&self, peer: PublicKey) -> Option<Multiaddr> {
        self.peers.get(&peer)?.first()?.address.parse().ok()
    }

    /// Where a connected peer says that it can be dialled.
    pub fn listens_at(&self, peer: PublicKey) -> Vec<String> {
        self.listens_at.get(&peer).cloned().unwrap_or_default()
    }

    /// A connected peer said where it can be dialled.
    pub fn set_listens_at(&mut self, peer: PublicKey, addresses: Vec<String>) {
        if self.contains(peer) {
            self.listens_at.insert(peer, addresses);
        }
    }

    /// The trust level of a connected peer.
    pub fn trust_level(&self, peer: PublicKey) -> Option<TrustLevel> {
        self.contains(peer).then(|| self.trust.get(&peer).copied().unwrap_or(TrustLevel::Stranger))
    }

    /// Sets the trust level of a connected peer.
    pub fn set_trust(&mut self, peer: PublicKey, trust: TrustLevel) {
        if trust == TrustLevel::Stranger || !self.contains(peer) {
            self.trust.remove(&peer);
        } else {
            self.trust.insert(peer, trust);
        }
    }

    pub fn contains(&self, peer: PublicKey) -> bool {
        self.peers.contains_key(&peer)
    }

    pub fn peers(&self) -> Vec<PublicKey> {
        self.peers.keys().copied().collect()
    }

    pub fn infos(&self) -> Vec<PeerInfo> {
        self.peers.keys().filter_map(|peer| self.info(*peer)).collect()
    }

    pub fn info(&self, peer: PublicKey) -> Option<PeerInfo> {
        let held = self.peers.get(&peer)?;
        let first = held.iter().find(|connection| !connection.relayed).or(held.first())?;
        Some(PeerInfo {
            peer,
            connections: held.len(),
            address: first.address.clone(),
            dialled: first.dialled,
            round_trip: first.round_trip,
        })
    }
}

/// Both sides must agree without exchanging messages: when both dialled, the connections dialled by the smaller key stay; of
/// several dialled from one side, only that side closes all but its first. Beside a direct one, those through relays go.
fn surplus<Id: Copy>(smaller: bool, held: &[Connection<Id>]) -> Vec<Id> {
    let direct = held.iter().any(|c| !c.relayed);
    let equals = || held.iter().filter(|c| c.relayed != direct);
    let both = equals().any(|c| c.dialled) && equals().any(|c| !c.dialled);
    let goes = |c: &&Connection<Id>| c.relayed == direct || both && c.dialled != smaller;
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
                for id in order {
                    let dialled = (id == "s") == (me == small);
                    connections.established(peer, id, dialled, String::new());
                }
                assert_eq!(connections.surplus(peer), ["l"], "{me:?}");
            }
        }
    }

    #[test]
    fn of_two_dials_from_one_side_only_that_side_closes_the_second() {
        let (small, large) = two();
        for (dialled, expected) in [(true, vec![2]), (false, vec![])] {
            let mut connections = Connections::new(small);
            assert_eq!(connections.established(large, 1, dialled, String::new()), Some(PeerEvent::Connected(large)));
            assert_eq!(connections.established(large, 2, dialled, String::new()), None);
            assert_eq!(connections.surplus(large), expected);
        }
    }

    #[test]
    fn a_direct_connection_takes_the_place_of_those_through_relays() {
        let (small, large) = two();
        for (me, peer) in [(small, large), (large, small)] {
            for dialled in [true, false] {
                let relayed = "/ip4/5.0.0.1/tcp/1/p2p/12D3KooWQK1wnefoLrcVHbbnf5tLzbopUd3K3bFAoJpA7YJgL5pV/p2p-circuit";
                let mut connections = Connections::new(me);
                connections.established(peer, 1, dialled, relayed.to_owned());
                assert_eq!(connections.preferred_connection(peer), Some(1));
                let event = connections.established(peer, 2, !dialled, "/ip4/5.0.0.2/tcp/1".to_owned());
                assert_eq!(event, Some(PeerEvent::Moved(peer)));
                assert!(connections.surplus(peer).is_empty(), "calls end on the connection on which they began");
                assert_eq!(connections.preferred_connection(peer), Some(2), "new streams use the direct one");
                connections.established(peer, 3, dialled, relayed.to_owned());
                assert_eq!(connections.preferred_connection(peer), Some(2));
            }
        }
    }

    #[test]
    fn where_a_peer_can_be_dialled_is_forgotten_with_its_last_connection() {
        let (small, large) = two();
        let mut connections = Connections::new(small);
        let address = || vec!["/ip4/5.0.0.2/tcp/1".to_owned()];
        connections.set_listens_at(large, address());
        assert!(connections.listens_at(large).is_empty(), "it is not connected");
        connections.established(large, 1, false, String::new());
        connections.established(large, 2, false, String::new());
        connections.set_listens_at(large, address());
        connections.closed(large, 1);
        assert_eq!(connections.listens_at(large), address());
        connections.closed(large, 2);
        assert!(connections.listens_at(large).is_empty());
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
