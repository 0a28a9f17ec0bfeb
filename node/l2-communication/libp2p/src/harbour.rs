//! Places at relays, for a node that nobody on the internet can dial (libp2p circuit relay v2). Decides where to ask for
//! one; asks nobody.

use std::collections::BTreeMap;
use std::time::Duration;

use althing_protocol::PublicKey;
use libp2p::Multiaddr;
use libp2p::core::transport::ListenerId;
use libp2p::multiaddr::Protocol;
use tokio::time::Instant;

use crate::identity::peer_id;

/// Places that are held at one time: one may go.
const PLACES: usize = 2;
/// A relay that gave no place, or whose place was lost, is not asked again within this.
const PATIENCE: Duration = Duration::from_secs(20);
/// Relays that are remembered.
const RELAYS_MAX: usize = 64;

#[derive(Debug)]
struct Relay {
    /// Where it was dialled.
    address: Multiaddr,
    not_before: Option<Instant>,
}

/// The relays that are known, and the places held at them.
#[derive(Debug, Default)]
pub(crate) struct Harbour {
    relays: BTreeMap<PublicKey, Relay>,
    /// The listener, the relay, and whether it gave the place.
    places: Vec<(ListenerId, PublicKey, bool)>,
    wanted: bool,
}

impl Harbour {
    /// A connected peer passes connections on, and was dialled at `address`.
    pub fn found(&mut self, relay: PublicKey, address: Multiaddr) {
        if self.relays.len() < RELAYS_MAX {
            self.relays.entry(relay).or_insert(Relay { address, not_before: None });
        }
    }

    /// A peer does not pass connections on, or is gone.
    pub fn lost(&mut self, relay: PublicKey) {
        self.relays.remove(&relay);
    }

    /// Are places wanted? Gives those that are to be given up.
    pub fn want(&mut self, wanted: bool) -> Vec<ListenerId> {
        self.wanted = wanted;
        if wanted {
            return Vec::new();
        }
        std::mem::take(&mut self.places).into_iter().map(|(listener, _, _)| listener).collect()
    }

    /// The next relay to ask for a place, with the address to listen on.
    pub fn next(&self, now: Instant) -> Option<(PublicKey, Multiaddr)> {
        if !self.wanted || self.places.len() >= PLACES {
            return None;
        }
        let free = |(relay, known): &(&PublicKey, &Relay)| {
            known.not_before.is_none_or(|at| at <= now) && !self.places.iter().any(|(_, held, _)| held == *relay)
        };
        let (relay, known) = self.relays.iter().find(free)?;
        Some((*relay, circuit(&known.address, *relay)))
    }

    /// A relay was asked.
    pub fn asked(&mut self, relay: PublicKey, listener: Option<ListenerId>, now: Instant) {
        match listener {
            Some(listener) => self.places.push((listener, relay, false)),
            None => self.put_off(relay, now),
        }
    }

    /// It gave a place.
    pub fn given(&mut self, listener: ListenerId) {
        for (_, _, confirmed) in self.places.iter_mut().filter(|(held, _, _)| *held == listener) {
            *confirmed = true;
        }
    }

    /// It gave none, or the place is gone.
    pub fn closed(&mut self, listener: ListenerId, now: Instant) {
        if let Some(at) = self.places.iter().position(|(held, _, _)| *held == listener) {
            let (_, relay, _) = self.places.remove(at);
            self.put_off(relay, now);
        }
    }

    fn put_off(&mut self, relay: PublicKey, now: Instant) {
        if let Some(known) = self.relays.get_mut(&relay) {
            known.not_before = Some(now + PATIENCE);
        }
    }

    /// The relays that hold a place.
    pub fn held(&self) -> Vec<PublicKey> {
        self.places.iter().filter(|(_, _, confirmed)| *confirmed).map(|(_, relay, _)| *relay).collect()
    }
}

fn circuit(address: &Multiaddr, relay: PublicKey) -> Multiaddr {
    let bare: Multiaddr = address.iter().filter(|part| !matches!(part, Protocol::P2p(_))).collect();
    bare.with(Protocol::P2p(peer_id(relay))).with(Protocol::P2pCircuit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::SecretKey;

    fn relay(seed: u8) -> PublicKey {
        SecretKey::from_seed(&[seed; 32]).public()
    }

    fn at(port: u16) -> Multiaddr {
        format!("/ip4/5.0.0.1/tcp/{port}").parse().expect("an address")
    }

    #[test]
    fn two_places_are_held_as_long_as_they_are_wanted() {
        let now = Instant::now();
        let mut harbour = Harbour::default();
        (1..=3).for_each(|seed| harbour.found(relay(seed), at(u16::from(seed))));
        assert_eq!(harbour.next(now), None, "it can be dialled as it is");
        assert!(harbour.want(true).is_empty());
        let mut listeners = Vec::new();
        while let Some((to, address)) = harbour.next(now) {
            assert!(address.to_string().ends_with(&format!("/p2p/{}/p2p-circuit", to.peer_id())));
            let listener = ListenerId::next();
            listeners.push(listener);
            harbour.asked(to, Some(listener), now);
        }
        assert_eq!((listeners.len(), harbour.held().len()), (2, 0));
        harbour.given(listeners[0]);
        assert_eq!(harbour.held().len(), 1);
        harbour.closed(listeners[0], now);
        let (third, _) = harbour.next(now).expect("another one");
        harbour.asked(third, None, now);
        assert_eq!(harbour.next(now), None, "each has been asked");
        assert!(harbour.next(now + PATIENCE).is_some());
        assert_eq!(harbour.want(false), [listeners[1]]);
        assert_eq!(harbour.next(now + PATIENCE), None);
    }
}
