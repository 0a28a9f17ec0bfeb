//! Whom to dial and when: bootstrap addresses for ever, nodes seen on the LAN while they are seen or were connected. Those that
//! were known before are in [`known_peers`](crate::machine::known_peers).

use std::collections::BTreeMap;

use althing_protocol::PublicKey;

/// Whom a dial is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A node whose key is known.
    Peer(PublicKey),
    /// Whoever answers at this address.
    Address(String),
}

/// Nodes seen on the LAN that are remembered; more are ignored until some are forgotten.
const TARGETS_MAX: usize = 1_024;
/// Addresses of one node; the newest are kept.
const ADDRESSES_MAX: usize = 8;

#[derive(Debug)]
struct Entry {
    addresses: Vec<String>,
    next_ms: u64,
    backoff_ms: u64,
    dialling: bool,
    /// Who answered last at a bootstrap address.
    answered: Option<PublicKey>,
    /// When it was last seen or connected; bootstrap addresses never grow old.
    seen_ms: Option<u64>,
}

/// Times of dialling, milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Wait after the first failure.
    pub backoff_min_ms: u64,
    /// Longest wait.
    pub backoff_max_ms: u64,
    /// A target that was not seen for this long is forgotten.
    pub forget_ms: u64,
    /// How long the larger id waits for the smaller one to dial.
    pub tie_break_ms: u64,
}

/// Whom to dial and when.
#[derive(Debug)]
pub struct Dialling {
    local: PublicKey,
    times: Times,
    targets: BTreeMap<Target, Entry>,
}

impl Dialling {
    /// Dials nobody yet.
    #[must_use]
    pub fn new(local: PublicKey, times: Times) -> Dialling {
        Dialling { local, times, targets: BTreeMap::new() }
    }

    /// Adds an address that is to be tried for ever.
    pub fn bootstrap(&mut self, address: String) {
        let entry = self.entry(vec![address.clone()], 0, None);
        self.targets.insert(Target::Address(address), entry);
    }

    fn entry(&self, addresses: Vec<String>, next_ms: u64, seen_ms: Option<u64>) -> Entry {
        Entry { addresses, next_ms, backoff_ms: self.times.backoff_min_ms, dialling: false, answered: None, seen_ms }
    }

    /// Did this node answer last at an address of the configuration?
    #[must_use]
    pub fn is_configured(&self, node: PublicKey) -> bool {
        self.targets.values().any(|entry| entry.answered == Some(node) && entry.seen_ms.is_none())
    }

    /// A node was seen on the LAN. Of two that see each other the larger id waits, so that one of them dials.
    pub fn sighted(&mut self, peer: PublicKey, addresses: Vec<String>, now_ms: u64) {
        if peer == self.local || addresses.is_empty() {
            return;
        }
        let courtesy = if self.local > peer { self.times.tie_break_ms } else { 0 };
        if let Some(entry) = self.targets.get_mut(&Target::Peer(peer)) {
            entry.seen_ms = Some(now_ms);
            if entry.addresses != addresses {
                entry.addresses = addresses;
                entry.next_ms = entry.next_ms.min(now_ms + courtesy);
            }
            entry.addresses.truncate(ADDRESSES_MAX);
        } else if self.targets.len() < TARGETS_MAX {
            let mut entry = self.entry(addresses, now_ms + courtesy, Some(now_ms));
            entry.addresses.truncate(ADDRESSES_MAX);
            self.targets.insert(Target::Peer(peer), entry);
        }
    }

    /// Which targets are to be dialled now; each is then waited for until [`Dialling::dialled`].
    pub fn due(&mut self, now_ms: u64, connected: &[PublicKey]) -> Vec<(Target, Vec<String>)> {
        self.targets.retain(|target, entry| {
            if let Target::Peer(peer) = target
                && connected.contains(peer)
            {
                entry.seen_ms = Some(now_ms);
            }
            entry.seen_ms.is_none_or(|seen| seen + self.times.forget_ms > now_ms)
        });
        let mut due = Vec::new();
        for (target, entry) in &mut self.targets {
            let peer = match target {
                Target::Peer(peer) => Some(*peer),
                Target::Address(_) => entry.answered,
            };
            let here = peer.is_some_and(|peer| connected.contains(&peer));
            if !here && !entry.dialling && entry.next_ms <= now_ms {
                entry.dialling = true;
                due.push((target.clone(), entry.addresses.clone()));
            }
        }
        due
    }

    /// How a dial ended.
    pub fn dialled(&mut self, target: &Target, outcome: Option<PublicKey>, now_ms: u64) {
        let Some(entry) = self.targets.get_mut(target) else { return };
        entry.dialling = false;
        if outcome.is_some() {
            entry.answered = outcome;
            entry.backoff_ms = self.times.backoff_min_ms;
        } else {
            entry.backoff_ms = (entry.backoff_ms * 2).min(self.times.backoff_max_ms);
        }
        entry.next_ms = now_ms + entry.backoff_ms;
    }

    /// Where the peers that were seen can be dialled.
    #[must_use]
    pub fn known(&self) -> usize {
        self.targets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::SecretKey;

    fn keys() -> (PublicKey, PublicKey) {
        let a = SecretKey::from_seed(&[1; 32]).public();
        let b = SecretKey::from_seed(&[2; 32]).public();
        if a < b { (a, b) } else { (b, a) }
    }

    const TIMES: Times = Times { backoff_min_ms: 500, backoff_max_ms: 2_000, forget_ms: 60_000, tie_break_ms: 1_000 };

    #[test]
    fn of_two_that_see_each_other_the_smaller_dials_first() {
        let (small, large) = keys();
        let mut first = Dialling::new(small, TIMES);
        let mut second = Dialling::new(large, TIMES);
        first.sighted(large, vec!["x".to_owned()], 0);
        second.sighted(small, vec!["y".to_owned()], 0);
        assert_eq!(first.due(0, &[]).len(), 1);
        assert_eq!(second.due(999, &[small]).len(), 0);
        assert_eq!(second.due(1_000, &[small]).len(), 0, "connected meanwhile");
        assert_eq!(second.due(1_000, &[]).len(), 1);
    }

    #[test]
    fn a_failed_dial_is_repeated_ever_later_and_a_lost_peer_at_once() {
        let (small, large) = keys();
        let mut dialling = Dialling::new(small, TIMES);
        dialling.sighted(large, vec!["x".to_owned()], 0);
        let target = Target::Peer(large);
        assert_eq!(dialling.due(0, &[]).len(), 1);
        assert_eq!(dialling.due(0, &[]).len(), 0, "one dial at a time");
        dialling.dialled(&target, None, 0);
        assert_eq!(dialling.due(999, &[]).len(), 0);
        assert_eq!(dialling.due(1_000, &[]).len(), 1);
        dialling.dialled(&target, None, 1_000);
        assert_eq!(dialling.due(2_999, &[]).len(), 0);
        assert_eq!(dialling.due(3_000, &[]).len(), 1);
        dialling.dialled(&target, Some(large), 3_000);
        assert_eq!(dialling.due(50_000, &[large]).len(), 0);
        assert_eq!(dialling.due(50_001, &[]).len(), 1, "lost");
    }

    #[test]
    fn a_bootstrap_address_is_never_forgotten_and_a_sighting_is() {
        let (small, large) = keys();
        let mut dialling = Dialling::new(small, TIMES);
        dialling.bootstrap("boot".to_owned());
        dialling.sighted(large, vec!["x".to_owned()], 0);
        assert_eq!(dialling.known(), 2);
        let due = dialling.due(60_000, &[]);
        assert_eq!(due, [(Target::Address("boot".to_owned()), vec!["boot".to_owned()])]);
        assert_eq!(dialling.known(), 1);
        assert!(!dialling.is_configured(large), "nobody has answered there");
        dialling.dialled(&Target::Address("boot".to_owned()), Some(large), 60_001);
        assert!(dialling.is_configured(large) && !dialling.is_configured(small));
    }
}
