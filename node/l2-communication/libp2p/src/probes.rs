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
/// Another's that stands for longer is none.
const OTHERS_HELD: Duration = Duration::from_secs(2);
/// Peers that are expected at one time.
const EXPECTED_MAX: usize = 64;

/// Probes of this node and of others.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    /// Dials of ours that are probes.
    dialling: BTreeSet<ConnectionId>,
    /// Ours that stand, and when they are closed.
    standing: BTreeMap<ConnectionId, Instant>,
    /// Others', which they will close: whose, at which address, and until when that is waited for.
    others: BTreeMap<ConnectionId, (PublicKey, String, Instant)>,
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

    /// A connection is up, `from` where it leads. True when it is a probe: this node's own; or that of a peer which was
    /// asked for one, is connected anyhow (`expectable`), and dialled straight.
    pub fn established(
        &mut self,
        id: ConnectionId,
        peer: PublicKey,
        from: &str,
        expectable: bool,
        now: Instant,
    ) -> bool {
        if self.dialling.remove(&id) {
            self.standing.insert(id, now + HELD);
            return true;
        }
        match self.expected.get_mut(&peer) {
            Some((until, seen)) if expectable && *until > now => {
                *seen += 1;
                self.others.insert(id, (peer, from.to_owned(), now + OTHERS_HELD));
                true
            }
            _ => false,
        }
    }

    /// A connection is gone. True when it was a probe.
    pub fn closed(&mut self, id: ConnectionId) -> bool {
        self.standing.remove(&id).is_some() | self.others.remove(&id).is_some()
    }

    /// Those of others that stand for too long to be probes, and all of a peer that has no other connection any more:
    /// connections like any.
    pub fn no_probes(&mut self, now: Instant, gone: Option<PublicKey>) -> Vec<(ConnectionId, PublicKey, String)> {
        let taken = self.others.extract_if(.., |_, (peer, _, until)| *until <= now || Some(*peer) == gone);
        taken.map(|(id, (peer, from, _))| (id, peer, from)).collect()
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
        let from = "/ip4/5.0.0.1/tcp/1";
        assert!(!probes.established(id(1), peer, from, true, now), "nobody asked for it");
        probes.expect(peer, now);
        assert!(!probes.established(id(2), peer, from, false, now), "its only one, this node's own, or one of a relay");
        assert!(probes.established(id(4), peer, from, true, now) && probes.established(id(5), peer, from, true, now));
        assert_eq!(probes.seen(peer), 2);
        assert!(!probes.established(id(6), peer, from, true, now + EXPECTED), "too late");
        assert!(probes.closed(id(4)) && !probes.closed(id(4)) && !probes.closed(id(1)));
        assert!(probes.no_probes(now, None).is_empty());
        assert_eq!(probes.no_probes(now, Some(peer)).len(), 1, "it came back before it was seen to be gone");
        assert!(!probes.closed(id(5)));
        probes.established(id(8), peer, from, true, now);
        assert_eq!(probes.no_probes(now + OTHERS_HELD, None).len(), 1, "who stays did not come to see");
        probes.dial(id(7));
        assert!(probes.established(id(7), peer, from, false, now) && probes.over(now).is_empty());
        assert_eq!(probes.over(now + HELD), [id(7)]);
        assert!(probes.closed(id(7)) && probes.over(now + HELD).is_empty());
    }
}
