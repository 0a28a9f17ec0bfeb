//! Who has a claim on what the node can give only once: its own nodes before those it trusts, these before peers whose agents
//! it calls, and these before strangers, who share by where they come from. Times are those since the node began.

use std::collections::BTreeMap;
use std::time::Duration;

use althing_protocol::PublicKey;

use crate::admission::Origin;

/// A peer whose agent was called is in use for this long after the call: the pauses of a conversation.
const IN_USE: Duration = Duration::from_secs(10 * 60);

/// How near a peer is to this node, the farthest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// Nobody here trusts it, and nobody here calls its agents.
    Stranger,
    /// Its agents are called from here.
    InUse,
    /// This node trusts it.
    Trusted,
    /// It is a node of the same owner.
    Own,
}

/// Who holds something that is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Who.
    pub peer: PublicKey,
    /// How near it is.
    pub nearness: Nearness,
    /// Where its connection comes from, when that is known.
    pub origin: Option<Origin>,
}

/// Those who have one share among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Crowd {
    /// All strangers of one origin: keys are free, addresses are not.
    Origin(Option<Origin>),
    /// A peer for itself.
    Peer(PublicKey),
}

impl Holder {
    /// Whose share it uses.
    #[must_use]
    pub fn crowd(&self) -> Crowd {
        match self.nearness {
            Nearness::Stranger => Crowd::Origin(self.origin),
            Nearness::InUse | Nearness::Trusted | Nearness::Own => Crowd::Peer(self.peer),
        }
    }
}

/// Which peers have agents that are called from here.
#[derive(Debug, Default)]
pub(crate) struct Uses(BTreeMap<PublicKey, Use>);

#[derive(Debug, Default)]
struct Use {
    calls: usize,
    /// When the last call ended.
    ended: Duration,
}

impl Uses {
    /// An agent there is called.
    pub fn begin(&mut self, peer: PublicKey) {
        self.0.entry(peer).or_default().calls += 1;
    }

    /// A call is over.
    pub fn end(&mut self, peer: PublicKey, now: Duration) {
        if let Some(of_peer) = self.0.get_mut(&peer) {
            of_peer.calls = of_peer.calls.saturating_sub(1);
            of_peer.ended = now;
        }
    }

    /// Is it in use?
    pub fn contains(&self, peer: PublicKey, now: Duration) -> bool {
        self.0.get(&peer).is_some_and(|of_peer| of_peer.lasts(now))
    }

    /// Forgets those that are not.
    pub fn sweep(&mut self, now: Duration) {
        self.0.retain(|_, of_peer| of_peer.lasts(now));
    }
}

impl Use {
    fn lasts(&self, now: Duration) -> bool {
        self.calls > 0 || now.saturating_sub(self.ended) < IN_USE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::SecretKey;

    #[test]
    fn a_peer_is_in_use_while_it_is_called_and_a_while_after_and_then_forgotten() {
        let peer = |seed: u8| SecretKey::from_seed(&[seed; 32]).public();
        let (mut uses, hour) = (Uses::default(), Duration::from_secs(3_600));
        uses.begin(peer(1));
        uses.begin(peer(1));
        uses.end(peer(1), Duration::ZERO);
        assert!(uses.contains(peer(1), hour) && !uses.contains(peer(2), hour), "one call goes on");
        uses.end(peer(1), hour);
        uses.sweep(hour + IN_USE / 2);
        assert!(uses.contains(peer(1), hour + IN_USE / 2));
        assert!(!uses.contains(peer(1), hour + IN_USE));
        uses.sweep(hour + IN_USE);
        assert!(uses.0.is_empty());
    }
}
