//! Who gets scarce resources first: the owner's own nodes, then trusted ones, then peers whose agents are called from here, then
//! strangers, who share by origin. Times are since the start of the node.

use std::collections::BTreeMap;
use std::time::Duration;

use althing_protocol::PublicKey;

use crate::machine::origin::Origin;

/// A peer is in use for this long after a call to one of its agents, so that a pause in a conversation changes nothing.
const IN_USE: Duration = Duration::from_secs(10 * 60);

/// The trust level of a peer, the lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrustLevel {
    /// This node does not trust it, and calls none of its agents.
    Stranger,
    /// Its agents are called from here.
    InUse,
    /// This node trusts it.
    Trusted,
    /// It is a node of the same owner.
    Own,
}

/// Who holds a bounded resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// The peer.
    pub peer: PublicKey,
    /// Its trust level.
    pub trust: TrustLevel,
    /// The origin of its connection, when that is known.
    pub origin: Option<Origin>,
}

/// Holders that share one quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuotaGroup {
    /// All strangers of one origin: keys are free, addresses are not.
    Origin(Option<Origin>),
    /// One peer.
    Peer(PublicKey),
}

impl Holder {
    /// The quota that it uses.
    #[must_use]
    pub fn quota_group(&self) -> QuotaGroup {
        match self.trust {
            TrustLevel::Stranger => QuotaGroup::Origin(self.origin),
            TrustLevel::InUse | TrustLevel::Trusted | TrustLevel::Own => QuotaGroup::Peer(self.peer),
        }
    }
}

/// Peers whose agents are called from here, or were of late.
#[derive(Debug, Default)]
pub(crate) struct Uses(BTreeMap<PublicKey, Use>);

#[derive(Debug, Default)]
struct Use {
    calls: usize,
    /// When the last call ended.
    ended: Duration,
}

impl Uses {
    /// A call to an agent of `peer` begins.
    pub fn begin(&mut self, peer: PublicKey) {
        self.0.entry(peer).or_default().calls += 1;
    }

    /// A call ends.
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

    /// Drops peers that are not in use.
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
