//! Connections that are made to see whether they can be: not kept, and counted with nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use althing_protocol::PublicKey;
use libp2p::swarm::ConnectionId;
use tokio::time::Instant;

/// A peer that was asked to dial back has so long.
const EXPECTED: Duration = Duration::from_secs(20);
/// A probe is held so long, for the other side to see it.
const HELD: Duration = Duration::from_millis(500);
/// Peers that are expected at one time.
const EXPECTED_MAX: usize = 64;

/// Probes of this node and of others.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    /// Dials of ours that are probes.
    dialling: BTreeSet<ConnectionId>,
    /// Ours that stand, and when they are closed.
    standing: BTreeMap<ConnectionId, Instant>,
    /// Others', which they will close.
    others: BTreeSet<ConnectionId>,
    /// Who was asked, until when it may come, and how often it came.
    expected: BTreeMap<PublicKey, (Instant, usize)>,
}

impl Probes {
    pub fn dial(&mut self, id: ConnectionId) {
        self.dialling.insert(id);
    }

    pub fn failed(&mut self, id: ConnectionId) {
        self.dialling.remove(&id);
    }

    pub fn expect(&mut self, peer: PublicKey, now: Instant) {
        self.expected.retain(|_, (until, _)| *until > now);
        if self.expected.len() < EXPECTED_MAX {
            self.expected.insert(peer, (now + EXPECTED, 0));
        }
    }

    pub fn seen(&self, peer: PublicKey) -> usize {
        self.expected.get(&peer).map_or(0, |(_, seen)| *seen)
    }

    /// A connection is up. True when it is a probe: this node's own, or that of a peer which was asked for one and is
    /// `connected` anyhow.
    pub fn established(
        &mut self,
        id: ConnectionId,
        peer: PublicKey,
        dialled: bool,
        connected: bool,
        now: Instant,
    ) -> bool {
        if self.dialling.remove(&id) {
            self.standing.insert(id, now + HELD);
            return true;
        }
        match self.expected.get_mut(&peer) {
            Some((until, seen)) if !dialled && connected && *until > now => {
                *seen += 1;
                self.others.insert(id);
                true
            }
            _ => false,
        }
    }

    /// A connection is gone. True when it was a probe.
    pub fn closed(&mut self, id: ConnectionId) -> bool {
        self.standing.remove(&id).is_some() | self.others.remove(&id)
    }

    /// Those of ours that have stood long enough.
    pub fn over(&self, now: Instant) -> Vec<ConnectionId> {
        self.standing.iter().filter(|(_, until)| **until <= now).map(|(id, _)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::SecretKey;

    #[test]
    fn only_what_was_asked_for_is_a_probe() {
        let peer = SecretKey::from_seed(&[1; 32]).public();
        let id = ConnectionId::new_unchecked;
        let now = Instant::now();
        let mut probes = Probes::default();
        assert!(!probes.established(id(1), peer, false, true, now), "nobody asked for it");
        probes.expect(peer, now);
        assert!(!probes.established(id(2), peer, false, false, now), "its only connection is no probe");
        assert!(!probes.established(id(3), peer, true, true, now), "this node dialled");
        assert!(probes.established(id(4), peer, false, true, now) && probes.established(id(5), peer, false, true, now));
        assert_eq!(probes.seen(peer), 2);
        assert!(!probes.established(id(6), peer, false, true, now + EXPECTED), "too late");
        assert!(probes.closed(id(4)) && !probes.closed(id(4)) && !probes.closed(id(1)));
        probes.dial(id(7));
        assert!(probes.established(id(7), peer, true, true, now) && probes.over(now).is_empty());
        assert_eq!(probes.over(now + HELD), [id(7)]);
        assert!(probes.closed(id(7)) && probes.over(now + HELD).is_empty());
    }
}
