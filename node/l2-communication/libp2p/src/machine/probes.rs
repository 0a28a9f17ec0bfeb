//! Probes: connections that are dialled only to test an address. They are not kept, and do not count as connections.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use althing_protocol::PublicKey;
use libp2p::swarm::ConnectionId;

/// Probes of a peer that was asked to dial back are expected for this long.
const EXPECTED: Duration = Duration::from_secs(20);
/// An own probe is held open for this long, so that the other side sees it.
const HELD: Duration = Duration::from_millis(500);
/// A peer's probe that is open for longer becomes an ordinary connection.
const INBOUND_MAX: Duration = Duration::from_secs(2);
/// Peers whose probes are expected at one time.
const EXPECTED_MAX: usize = 64;

/// The probes of this node and of its peers.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    /// Own probes that are being dialled.
    dialling: BTreeSet<ConnectionId>,
    /// Own probes that are open, and when they are closed.
    outbound: BTreeMap<ConnectionId, Duration>,
    /// Probes of peers, which close them: the peer, its address, and when the probe becomes an ordinary connection.
    inbound: BTreeMap<ConnectionId, (PublicKey, String, Duration)>,
    /// Peers that were asked to dial back: until when probes are expected, and how many arrived.
    expected: BTreeMap<PublicKey, (Duration, usize)>,
}

impl Probes {
    pub fn dial(&mut self, id: ConnectionId) {
        self.dialling.insert(id);
    }

    pub fn failed(&mut self, id: ConnectionId) {
        self.dialling.remove(&id);
    }

    pub fn expect(&mut self, peer: PublicKey, now: Duration) {
        self.expected.retain(|_, (until, _)| *until > now);
        if self.expected.len() < EXPECTED_MAX {
            self.expected.insert(peer, (now + EXPECTED, 0));
        }
    }

    pub fn seen(&self, peer: PublicKey) -> usize {
        self.expected.get(&peer).map_or(0, |(_, seen)| *seen)
    }

    /// A connection to `from` is established. True when it is a probe: an own one, or that of a peer that was asked for it, if
    /// this is a second, direct, inbound connection (`expectable`).
    pub fn established(
        &mut self,
        id: ConnectionId,
        peer: PublicKey,
        from: &str,
        expectable: bool,
        now: Duration,
    ) -> bool {
        if self.dialling.remove(&id) {
            self.outbound.insert(id, now + HELD);
            return true;
        }
        match self.expected.get_mut(&peer) {
            Some((until, seen)) if expectable && *until > now => {
                *seen += 1;
                self.inbound.insert(id, (peer, from.to_owned(), now + INBOUND_MAX));
                true
            }
            _ => false,
        }
    }

    /// A connection is closed. True when it was a probe.
    pub fn closed(&mut self, id: ConnectionId) -> bool {
        self.outbound.remove(&id).is_some() | self.inbound.remove(&id).is_some()
    }

    /// Inbound probes that outlived the probe window, or whose peer has no other connection: from now on they count as ordinary
    /// connections.
    pub fn promote_expired(
        &mut self,
        now: Duration,
        gone: Option<PublicKey>,
    ) -> Vec<(ConnectionId, PublicKey, String)> {
        let taken = self.inbound.extract_if(.., |_, (peer, _, until)| *until <= now || Some(*peer) == gone);
        taken.map(|(id, (peer, from, _))| (id, peer, from)).collect()
    }

    /// Own probes that are to be closed now.
    pub fn finished(&self, now: Duration) -> Vec<ConnectionId> {
        self.outbound.iter().filter(|(_, until)| **until <= now).map(|(id, _)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::SecretKey;

    #[test]
    fn only_a_requested_connection_is_a_probe() {
        let peer = SecretKey::from_seed(&[1; 32]).public();
        let id = ConnectionId::new_unchecked;
        let now = Duration::from_secs(9);
        let mut probes = Probes::default();
        let from = "/ip4/5.0.0.1/tcp/1";
        assert!(!probes.established(id(1), peer, from, true, now), "nobody asked for it");
        probes.expect(peer, now);
        assert!(!probes.established(id(2), peer, from, false, now), "its only one, an outbound one, or a relayed one");
        assert!(probes.established(id(4), peer, from, true, now) && probes.established(id(5), peer, from, true, now));
        assert_eq!(probes.seen(peer), 2);
        assert!(!probes.established(id(6), peer, from, true, now + EXPECTED), "too late");
        assert!(probes.closed(id(4)) && !probes.closed(id(4)) && !probes.closed(id(1)));
        assert!(probes.promote_expired(now, None).is_empty());
        assert_eq!(
            probes.promote_expired(now, Some(peer)).len(),
            1,
            "it reconnected before its disconnection was noticed"
        );
        assert!(!probes.closed(id(5)));
        probes.established(id(8), peer, from, true, now);
        assert_eq!(probes.promote_expired(now + INBOUND_MAX, None).len(), 1, "it stays open");
        probes.dial(id(7));
        assert!(probes.established(id(7), peer, from, false, now) && probes.finished(now).is_empty());
        assert_eq!(probes.finished(now + HELD), [id(7)]);
        assert!(probes.closed(id(7)) && probes.finished(now + HELD).is_empty());
    }
}
