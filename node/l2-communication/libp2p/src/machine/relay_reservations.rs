//! Relay reservations of a node that cannot be dialled from the internet (libp2p circuit relay v2): decides which relay to ask
//! next.

use std::collections::BTreeMap;
use std::time::Duration;

use althing_protocol::PublicKey;
use libp2p::Multiaddr;
use libp2p::core::transport::ListenerId;
use libp2p::multiaddr::Protocol;

use crate::identity::peer_id;

/// Reservations held at one time, so that one may be lost.
const RESERVATIONS: usize = 2;
/// A relay that refused or lost a reservation is not asked again within this.
const RETRY_AFTER: Duration = Duration::from_secs(20);
/// Relays that are remembered.
const RELAYS_MAX: usize = 64;

#[derive(Debug)]
struct Relay {
    /// The address at which it was dialled.
    address: Multiaddr,
    not_before: Option<Duration>,
}

/// The known relays, and the reservations at them.
#[derive(Debug, Default)]
pub(crate) struct RelayReservations {
    relays: BTreeMap<PublicKey, Relay>,
    /// The listener, the relay, and whether it granted the reservation.
    reservations: Vec<(ListenerId, PublicKey, bool)>,
    wanted: bool,
}

impl RelayReservations {
    /// A connected peer is a relay, and was dialled at `address`.
    pub fn add_relay(&mut self, relay: PublicKey, address: Multiaddr) {
        if self.relays.len() < RELAYS_MAX {
            self.relays.entry(relay).or_insert(Relay { address, not_before: None });
        }
    }

    /// A peer is no relay, or has disconnected.
    pub fn remove_relay(&mut self, relay: PublicKey) {
        self.relays.remove(&relay);
    }

    /// Sets whether reservations are wanted. Gives the listeners to close.
    pub fn set_wanted(&mut self, wanted: bool) -> Vec<ListenerId> {
        self.wanted = wanted;
        if wanted {
            return Vec::new();
        }
        std::mem::take(&mut self.reservations).into_iter().map(|(listener, _, _)| listener).collect()
    }

    /// The next relay to ask for a reservation, with the address to listen on.
    pub fn next_relay(&self, now: Duration) -> Option<(PublicKey, Multiaddr)> {
        if !self.wanted || self.reservations.len() >= RESERVATIONS {
            return None;
        }
        let free = |(relay, known): &(&PublicKey, &Relay)| {
            known.not_before.is_none_or(|at| at <= now) && !self.reservations.iter().any(|(_, held, _)| held == *relay)
        };
        let (relay, known) = self.relays.iter().find(free)?;
        Some((*relay, circuit(&known.address, *relay)))
    }

    /// A reservation was requested.
    pub fn on_requested(&mut self, relay: PublicKey, listener: Option<ListenerId>, now: Duration) {
        match listener {
            Some(listener) => self.reservations.push((listener, relay, false)),
            None => self.back_off(relay, now),
        }
    }

    /// The relay granted it.
    pub fn on_granted(&mut self, listener: ListenerId) {
        for (_, _, confirmed) in self.reservations.iter_mut().filter(|(held, _, _)| *held == listener) {
            *confirmed = true;
        }
    }

    /// The relay refused it, or it was lost.
    pub fn on_closed(&mut self, listener: ListenerId, now: Duration) {
        if let Some(at) = self.reservations.iter().position(|(held, _, _)| *held == listener) {
            let (_, relay, _) = self.reservations.remove(at);
            self.back_off(relay, now);
        }
    }

    fn back_off(&mut self, relay: PublicKey, now: Duration) {
        if let Some(known) = self.relays.get_mut(&relay) {
            known.not_before = Some(now + RETRY_AFTER);
        }
    }

    /// The relays that granted a reservation.
    pub fn relays(&self) -> Vec<PublicKey> {
        self.reservations.iter().filter(|(_, _, confirmed)| *confirmed).map(|(_, relay, _)| *relay).collect()
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
    fn two_reservations_are_held_as_long_as_they_are_wanted() {
        let now = Duration::from_secs(9);
        let mut reservations = RelayReservations::default();
        (1..=3).for_each(|seed| reservations.add_relay(relay(seed), at(u16::from(seed))));
        assert_eq!(reservations.next_relay(now), None, "none is wanted");
        assert!(reservations.set_wanted(true).is_empty());
        let mut listeners = Vec::new();
        while let Some((to, address)) = reservations.next_relay(now) {
            assert!(address.to_string().ends_with(&format!("/p2p/{}/p2p-circuit", to.peer_id())));
            let listener = ListenerId::next();
            listeners.push(listener);
            reservations.on_requested(to, Some(listener), now);
        }
        assert_eq!((listeners.len(), reservations.relays().len()), (2, 0));
        reservations.on_granted(listeners[0]);
        assert_eq!(reservations.relays().len(), 1);
        reservations.on_closed(listeners[0], now);
        let (third, _) = reservations.next_relay(now).expect("another one");
        reservations.on_requested(third, None, now);
        assert_eq!(reservations.next_relay(now), None, "each has been asked");
        assert!(reservations.next_relay(now + RETRY_AFTER).is_some());
        assert_eq!(reservations.set_wanted(false), [listeners[1]]);
        assert_eq!(reservations.next_relay(now + RETRY_AFTER), None);
    }
}
