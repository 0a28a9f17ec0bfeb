//! How others can reach this node, from what peers found when they dialled it. Decides whom to ask, and what to make of
//! the answers; asks nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use althing_protocol::PublicKey;

use crate::groups::Group;
use crate::reach::Dialled;

/// Peers of each kind that are asked before the answer counts as known.
const ENOUGH: usize = 2;
/// What was found out is found out again after this, milliseconds.
const AGAIN_MS: u64 = 10 * 60 * 1_000;
/// Where nobody came through it is tried again after this.
const NOT_REACHED_MS: u64 = 2 * 60 * 1_000;
/// And not believed for longer than this.
const BELIEVED_MS: u64 = 2 * AGAIN_MS + 60_000;
/// A peer that could not be asked is asked again after this.
const RETRY_MS: u64 = 30 * 1_000;
/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 64;
/// Peers that are remembered.
const PEERS_MAX: usize = 256;

/// How others can reach this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Addresses at which a peer was seen to reach this node, and which are this node's beyond doubt; those of the
    /// internet first. The operator's own come before all.
    pub confirmed: Vec<String>,
    /// Can it be dialled from the internet?
    pub from_internet: bool,
    /// Peers on the internet tried, and none of them came through: it is behind a router or a firewall.
    pub hidden: bool,
    /// Peers on its own network tried, and none of them came through: a firewall on this machine, most likely.
    pub hidden_nearby: bool,
    /// Why dials failed, an address each.
    pub failures: Vec<(String, String)>,
}

#[derive(Debug, Clone, Default)]
struct Address {
    /// Who came there, from which group of addresses, and when.
    reached_by: BTreeMap<PublicKey, (Option<Group>, u64)>,
    /// Who did not, why, and when.
    failed: BTreeMap<PublicKey, (String, u64)>,
}

#[derive(Debug, Clone, Copy)]
struct Peer {
    from_internet: bool,
    next_ms: u64,
    failed: bool,
}

/// What was found out so far.
#[derive(Debug, Default)]
pub struct Reachability {
    vouched: Vec<String>,
    ways: Vec<String>,
    addresses: BTreeMap<String, Address>,
    peers: BTreeMap<PublicKey, Peer>,
}

fn ip_of(address: &str) -> Option<IpAddr> {
    address.split('/').nth(2)?.parse().ok()
}

fn is_internet(address: &str) -> bool {
    ip_of(address).and_then(Group::of).is_some()
}

impl Reachability {
    /// The operator says that others can dial this node there.
    pub fn vouched(&mut self, addresses: Vec<String>) {
        self.vouched = addresses;
    }

    /// Whom to ask now, of those who are connected (each with its group of addresses where it looks from the internet).
    pub fn due(
        &mut self,
        connected: &[(PublicKey, Option<Group>)],
        ways: &[String],
        now_ms: u64,
    ) -> Option<(PublicKey, Option<Group>)> {
        if ways != self.ways {
            // It listens elsewhere now: nothing of before holds.
            let vouched = std::mem::take(&mut self.vouched);
            *self = Reachability { vouched, ways: ways.to_vec(), ..Reachability::default() };
        }
        if ways.is_empty() {
            return None;
        }
        self.peers.retain(|_, peer| peer.next_ms > now_ms);
        // What nobody has found again is not so any more.
        for found in self.addresses.values_mut() {
            found.reached_by.retain(|_, (_, at_ms)| *at_ms + BELIEVED_MS > now_ms);
            found.failed.retain(|_, (_, at_ms)| *at_ms + BELIEVED_MS > now_ms);
        }
        self.addresses.retain(|_, found| !found.reached_by.is_empty() || !found.failed.is_empty());
        for from_internet in [true, false] {
            let known = self.peers.values().filter(|peer| peer.from_internet == from_internet && !peer.failed).count();
            let next = connected
                .iter()
                .find(|(peer, group)| group.is_some() == from_internet && !self.peers.contains_key(peer))
                .filter(|_| known < ENOUGH);
            if next.is_some() {
                return next.copied();
            }
        }
        None
    }

    /// A peer was asked; it `failed` to answer, or `came` through somewhere.
    pub fn asked(&mut self, peer: PublicKey, from_internet: bool, failed: bool, came: bool, now_ms: u64) {
        if self.peers.len() >= PEERS_MAX {
            return;
        }
        let wait_ms = match (failed, came) {
            (true, _) => RETRY_MS,
            // A firewall may be opened, and a dial may fail for once.
            (false, false) => NOT_REACHED_MS,
            (false, true) => AGAIN_MS,
        };
        let next_ms = now_ms + wait_ms;
        self.peers.insert(peer, Peer { from_internet, next_ms, failed });
    }

    /// What a peer of that group found: all of it, and nothing of what it found before holds any more.
    pub fn heard(&mut self, peer: PublicKey, group: Option<Group>, dialled: &[Dialled], now_ms: u64) {
        for found in self.addresses.values_mut() {
            found.reached_by.remove(&peer);
            found.failed.remove(&peer);
        }
        for dial in dialled {
            // Who looks from the internet sees this node's address there; who does not, one of its own network.
            let fits = group.is_some() == is_internet(&dial.address);
            if !fits || self.addresses.len() >= ADDRESSES_MAX && !self.addresses.contains_key(&dial.address) {
                continue;
            }
            let address = self.addresses.entry(dial.address.clone()).or_default();
            if address.reached_by.len() + address.failed.len() >= PEERS_MAX {
                continue;
            }
            if dial.reached {
                address.reached_by.insert(peer, (group, now_ms));
            } else {
                address.failed.insert(peer, (dial.reason.clone(), now_ms));
            }
        }
    }

    /// What that comes to, for a node that listens at these addresses. `near` says whose word needs no second one.
    #[must_use]
    pub fn verdict(&self, listening: &[String], near: impl Fn(PublicKey) -> bool) -> Verdict {
        let own: BTreeSet<IpAddr> = listening.iter().filter_map(|address| ip_of(address)).collect();
        let confirmed = |(address, found): &(&String, &Address)| {
            // An address that only one stranger names, with however many keys, could be anybody's.
            let beyond_doubt = ip_of(address).is_some_and(|ip| own.contains(&ip))
                || found.reached_by.keys().any(|peer| near(*peer))
                || found.reached_by.values().map(|(group, _)| group).collect::<BTreeSet<_>>().len() >= ENOUGH;
            !found.reached_by.is_empty() && beyond_doubt
        };
        let mut good: Vec<String> =
            self.addresses.iter().filter(confirmed).map(|(address, _)| address.clone()).collect();
        good.sort_by_key(|address| !is_internet(address));
        let tried = |internet: bool| {
            let of_kind = self.addresses.iter().filter(move |(address, _)| is_internet(address) == internet);
            let (mut reached, mut failed) = (false, false);
            for (_, found) in of_kind {
                reached |= !found.reached_by.is_empty();
                failed |= !found.failed.is_empty();
            }
            (reached, failed)
        };
        let (_, failed_far) = tried(true);
        let (reached_near, failed_near) = tried(false);
        let reached_far = good.iter().any(|address| is_internet(address));
        let failures = self.addresses.iter().filter(|(_, found)| found.reached_by.is_empty());
        let failures =
            failures.filter_map(|(address, found)| Some((address.clone(), found.failed.values().next()?.0.clone())));
        let vouched = !self.vouched.is_empty();
        Verdict {
            from_internet: vouched || good.iter().any(|address| is_internet(address)),
            confirmed: self.vouched.iter().cloned().chain(good).collect(),
            hidden: !vouched && failed_far && !reached_far,
            hidden_nearby: failed_near && !reached_near,
            failures: failures.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::SecretKey;

    fn peer(seed: u8) -> PublicKey {
        SecretKey::from_seed(&[seed; 32]).public()
    }

    fn dialled(address: &str, reached: bool) -> [Dialled; 1] {
        let reason = if reached { String::new() } else { "nobody answered".to_owned() };
        [Dialled { address: address.to_owned(), reached, reason }]
    }

    /// The group of a peer on the internet.
    fn far(number: u8) -> Option<Group> {
        Some(Group::V4([5, number, 0]))
    }

    fn ways() -> Vec<String> {
        vec!["/tcp/7".to_owned()]
    }

    const FAR: &str = "/ip4/5.0.0.9/tcp/7";
    const NEAR: &str = "/ip4/10.0.0.9/tcp/7";

    #[test]
    fn a_few_of_each_kind_are_asked_and_after_a_while_others() {
        let mut found = Reachability::default();
        let connected: Vec<(PublicKey, Option<Group>)> =
            (1..=6).map(|seed| (peer(seed), far(seed).filter(|_| seed <= 3))).collect();
        assert_eq!(found.due(&connected, &[], 0), None, "it listens nowhere");
        let mut asked = Vec::new();
        while let Some((peer, group)) = found.due(&connected, &ways(), 0) {
            asked.push(group.is_some());
            found.asked(peer, group.is_some(), false, true, 0);
        }
        assert_eq!(asked, [true, true, false, false]);
        assert_eq!(found.due(&connected, &ways(), AGAIN_MS - 1), None);
        assert!(found.due(&connected, &ways(), AGAIN_MS).is_some());
        let moved = vec!["/tcp/8".to_owned()];
        assert!(found.due(&connected, &moved, 1).is_some(), "where it listens now nobody has tried");
    }

    #[test]
    fn who_could_not_be_asked_does_not_count_and_is_asked_again() {
        let mut found = Reachability::default();
        let connected = [(peer(1), far(1)), (peer(2), far(2)), (peer(3), far(3))];
        for _ in 0..3 {
            let (peer, group) = found.due(&connected, &ways(), 0).expect("one more");
            found.asked(peer, group.is_some(), true, false, 0);
        }
        assert_eq!(found.due(&connected, &ways(), RETRY_MS - 1), None);
        assert!(found.due(&connected, &ways(), RETRY_MS).is_some());
    }

    fn strangers(_: PublicKey) -> bool {
        false
    }

    #[test]
    fn an_address_that_one_stranger_names_is_not_announced() {
        let mut found = Reachability::default();
        found.heard(peer(1), far(1), &dialled(FAR, true), 0);
        assert_eq!(found.verdict(&[], strangers), Verdict::default());
        assert!(found.verdict(&[], |near| near == peer(1)).from_internet, "a friend's word is enough");
        assert!(found.verdict(&[FAR.to_owned()], strangers).from_internet, "it is on an interface of this machine");
        found.heard(peer(3), far(1), &dialled(FAR, true), 0);
        assert!(!found.verdict(&[], strangers).from_internet, "two keys of one group are one voice");
        found.heard(peer(4), None, &dialled(FAR, true), 0);
        assert!(!found.verdict(&[], strangers).from_internet, "who is nearby cannot know");
        found.heard(peer(2), far(2), &dialled(FAR, true), 0);
        let verdict = found.verdict(&[], strangers);
        assert_eq!((verdict.confirmed, verdict.from_internet, verdict.hidden), (vec![FAR.to_owned()], true, false));
    }

    #[test]
    fn who_is_reached_nearby_and_not_from_the_internet_is_hidden() {
        let mut found = Reachability::default();
        let near = [NEAR.to_owned()];
        found.heard(peer(1), None, &dialled(NEAR, true), 0);
        let verdict = found.verdict(&near, strangers);
        assert_eq!((verdict.confirmed.len(), verdict.from_internet, verdict.hidden), (1, false, false), "nobody tried");
        found.heard(peer(2), far(2), &dialled(FAR, false), 0);
        let verdict = found.verdict(&near, strangers);
        assert_eq!((verdict.hidden, verdict.hidden_nearby, verdict.failures.len()), (true, false, 1));
        found.heard(peer(2), far(2), &dialled(FAR, true), 0);
        found.heard(peer(3), far(3), &dialled(FAR, true), 0);
        assert!(!found.verdict(&near, strangers).hidden, "the router forwards the port now");
        let mut walled = Reachability::default();
        walled.heard(peer(1), None, &dialled(NEAR, false), 0);
        assert!(walled.verdict(&near, strangers).hidden_nearby);
    }

    #[test]
    fn what_is_not_so_any_more_is_forgotten() {
        let mut found = Reachability::default();
        let connected = [(peer(1), far(1)), (peer(2), far(2))];
        found.due(&connected, &ways(), 0);
        found.heard(peer(1), far(1), &dialled(FAR, true), 0);
        found.heard(peer(2), far(2), &dialled(FAR, true), 0);
        assert!(found.verdict(&[], strangers).from_internet);
        // It is behind a router now, with another address: who looks again finds that.
        for seed in [1, 2] {
            found.heard(peer(seed), far(seed), &dialled("/ip4/5.9.9.9/tcp/7", false), AGAIN_MS);
        }
        let verdict = found.verdict(&[], strangers);
        assert_eq!((verdict.from_internet, verdict.hidden), (false, true));
        found.due(&connected, &ways(), AGAIN_MS + BELIEVED_MS);
        assert_eq!(
            found.verdict(&[], strangers),
            Verdict::default(),
            "and who does not look again is not believed for ever"
        );
    }

    #[test]
    fn one_liar_does_not_take_a_hidden_node_s_relays() {
        let mut found = Reachability::default();
        found.heard(peer(1), far(1), &dialled(FAR, false), 0);
        found.heard(peer(2), far(2), &dialled(FAR, true), 0);
        assert!(found.verdict(&[], strangers).hidden);
    }

    #[test]
    fn what_the_operator_vouches_for_is_announced_whatever_others_find() {
        let mut found = Reachability::default();
        found.vouched(vec!["/dns4/node.example/tcp/443".to_owned()]);
        found.heard(peer(1), far(1), &dialled(FAR, false), 0);
        let verdict = found.verdict(&[], strangers);
        assert_eq!((verdict.hidden, verdict.from_internet, verdict.confirmed.len()), (false, true, 1));
    }
}
