//! How others can reach this node, from what peers reported when they dialled it back. Decides which peer to ask next, and
//! what the reports amount to.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use althing_protocol::PublicKey;

use super::address_groups::AddressGroup;

/// Peers on the internet, and nearby, that are asked before the reachability counts as known.
const ENOUGH: usize = 2;
/// A peer that reached this node is asked again after this, milliseconds.
const AGAIN_MS: u64 = 10 * 60 * 1_000;
/// A peer that did not reach this node is asked again after this.
const NOT_REACHED_MS: u64 = 2 * 60 * 1_000;
/// A report expires after this.
const REPORT_TTL_MS: u64 = 2 * AGAIN_MS + 60_000;
/// A peer that could not be asked is asked again after this.
const RETRY_MS: u64 = 30 * 1_000;
/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 64;
/// Peers that are remembered.
const PEERS_MAX: usize = 256;

/// What one dial came to, as the peer that dialled reports it.
#[derive(Debug, Clone, PartialEq, Eq, minicbor::Encode, minicbor::Decode)]
#[cbor(array)]
pub struct DialReport {
    /// The address that was dialled.
    #[n(0)]
    pub address: String,
    /// True when this node answered there.
    #[n(1)]
    pub reached: bool,
    /// Why the dial failed; empty when it did not.
    #[n(2)]
    pub reason: String,
}

/// How others can reach this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReachabilityReport {
    /// Confirmed addresses: a peer reached this node there, and more than one stranger vouches for the address. Those that
    /// the operator announces come first, then those on the internet.
    pub confirmed: Vec<String>,
    /// This node can be dialled from the internet.
    pub from_internet: bool,
    /// Peers on the internet tried, and none of them connected: this node is behind a router or a firewall.
    pub hidden: bool,
    /// Peers on its own network tried, and none of them connected: a firewall on this machine, most likely.
    pub hidden_nearby: bool,
    /// Addresses at which no dial succeeded, each with the reason of one failure.
    pub failures: Vec<(String, String)>,
}

#[derive(Debug, Clone, Default)]
struct Address {
    /// Peers that connected there, with their group of addresses and the time.
    reached_by: BTreeMap<PublicKey, (Option<AddressGroup>, u64)>,
    /// Peers that did not, with the reason and the time.
    failed: BTreeMap<PublicKey, (String, u64)>,
}

#[derive(Debug, Clone, Copy)]
struct Peer {
    from_internet: bool,
    next_ms: u64,
    failed: bool,
}

/// The reports of peers, and when each of them is asked again.
#[derive(Debug, Default)]
pub struct ReachabilityTracker {
    /// Addresses that the operator announces.
    announced: Vec<String>,
    transports: Vec<String>,
    addresses: BTreeMap<String, Address>,
    peers: BTreeMap<PublicKey, Peer>,
}

fn ip_of(address: &str) -> Option<IpAddr> {
    address.split('/').nth(2)?.parse().ok()
}

fn is_internet(address: &str) -> bool {
    ip_of(address).and_then(AddressGroup::of).is_some()
}

impl ReachabilityTracker {
    /// The operator announces that others can dial this node at `addresses`.
    pub fn set_announced(&mut self, addresses: Vec<String>) {
        self.announced = addresses;
    }

    /// The peer to ask now, of those connected (each with its group of addresses where that is on the internet). `transports`
    /// are those at which this node listens.
    pub fn next_peer(
        &mut self,
        connected: &[(PublicKey, Option<AddressGroup>)],
        transports: &[String],
        now_ms: u64,
    ) -> Option<(PublicKey, Option<AddressGroup>)> {
        if transports != self.transports {
            // The listen addresses have changed: earlier reports do not apply.
            let announced = std::mem::take(&mut self.announced);
            *self =
                ReachabilityTracker { announced, transports: transports.to_vec(), ..ReachabilityTracker::default() };
        }
        if transports.is_empty() {
            return None;
        }
        self.peers.retain(|_, peer| peer.next_ms > now_ms);
        for found in self.addresses.values_mut() {
            found.reached_by.retain(|_, (_, at_ms)| *at_ms + REPORT_TTL_MS > now_ms);
            found.failed.retain(|_, (_, at_ms)| *at_ms + REPORT_TTL_MS > now_ms);
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

    /// A peer was asked: it `failed` to answer, or `reached` this node at some address.
    pub fn on_asked(&mut self, peer: PublicKey, from_internet: bool, failed: bool, reached: bool, now_ms: u64) {
        if self.peers.len() >= PEERS_MAX {
            return;
        }
        let wait_ms = match (failed, reached) {
            (true, _) => RETRY_MS,
            // The operator may open the firewall, or the dial may have failed by chance.
            (false, false) => NOT_REACHED_MS,
            (false, true) => AGAIN_MS,
        };
        let next_ms = now_ms + wait_ms;
        self.peers.insert(peer, Peer { from_internet, next_ms, failed });
    }

    /// The reports of a peer, which replace its earlier ones.
    pub fn on_reports(&mut self, peer: PublicKey, group: Option<AddressGroup>, reports: &[DialReport], now_ms: u64) {
        for found in self.addresses.values_mut() {
            found.reached_by.remove(&peer);
            found.failed.remove(&peer);
        }
        for dial in reports {
            // A peer on the internet dials a public address, a peer nearby a private one.
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

    /// How others can reach a node that listens at these addresses. The report of one peer that `is_trusted` suffices.
    #[must_use]
    pub fn report(&self, listening: &[String], is_trusted: impl Fn(PublicKey) -> bool) -> ReachabilityReport {
        let own: BTreeSet<IpAddr> = listening.iter().filter_map(|address| ip_of(address)).collect();
        let confirmed = |(address, found): &(&String, &Address)| {
            // An address that only one stranger names, under however many keys, may be somebody else's.
            let beyond_doubt = ip_of(address).is_some_and(|ip| own.contains(&ip))
                || found.reached_by.keys().any(|peer| is_trusted(*peer))
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
        let announced = !self.announced.is_empty();
        ReachabilityReport {
            from_internet: announced || good.iter().any(|address| is_internet(address)),
            confirmed: self.announced.iter().cloned().chain(good).collect(),
            hidden: !announced && failed_far && !reached_far,
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

    fn dialled(address: &str, reached: bool) -> [DialReport; 1] {
        let reason = if reached { String::new() } else { "nobody answered".to_owned() };
        [DialReport { address: address.to_owned(), reached, reason }]
    }

    /// The group of a peer on the internet.
    fn far(number: u8) -> Option<AddressGroup> {
        Some(AddressGroup::V4([5, number, 0]))
    }

    fn transports() -> Vec<String> {
        vec!["/tcp/7".to_owned()]
    }

    const FAR: &str = "/ip4/5.0.0.9/tcp/7";
    const NEAR: &str = "/ip4/10.0.0.9/tcp/7";

    #[test]
    fn a_few_of_each_kind_are_asked_and_after_a_while_others() {
        let mut found = ReachabilityTracker::default();
        let connected: Vec<(PublicKey, Option<AddressGroup>)> =
            (1..=6).map(|seed| (peer(seed), far(seed).filter(|_| seed <= 3))).collect();
        assert_eq!(found.next_peer(&connected, &[], 0), None, "it listens on no address");
        let mut asked = Vec::new();
        while let Some((peer, group)) = found.next_peer(&connected, &transports(), 0) {
            asked.push(group.is_some());
            found.on_asked(peer, group.is_some(), false, true, 0);
        }
        assert_eq!(asked, [true, true, false, false]);
        assert_eq!(found.next_peer(&connected, &transports(), AGAIN_MS - 1), None);
        assert!(found.next_peer(&connected, &transports(), AGAIN_MS).is_some());
        let moved = vec!["/tcp/8".to_owned()];
        assert!(found.next_peer(&connected, &moved, 1).is_some(), "nobody has dialled the new address");
    }

    #[test]
    fn a_peer_that_could_not_be_asked_does_not_count_and_is_asked_again() {
        let mut found = ReachabilityTracker::default();
        let connected = [(peer(1), far(1)), (peer(2), far(2)), (peer(3), far(3))];
        for _ in 0..3 {
            let (peer, group) = found.next_peer(&connected, &transports(), 0).expect("one more");
            found.on_asked(peer, group.is_some(), true, false, 0);
        }
        assert_eq!(found.next_peer(&connected, &transports(), RETRY_MS - 1), None);
        assert!(found.next_peer(&connected, &transports(), RETRY_MS).is_some());
    }

    fn strangers(_: PublicKey) -> bool {
        false
    }

    #[test]
    fn an_address_that_one_stranger_names_is_not_announced() {
        let mut found = ReachabilityTracker::default();
        found.on_reports(peer(1), far(1), &dialled(FAR, true), 0);
        assert_eq!(found.report(&[], strangers), ReachabilityReport::default());
        assert!(found.report(&[], |near| near == peer(1)).from_internet, "a trusted peer's report suffices");
        assert!(found.report(&[FAR.to_owned()], strangers).from_internet, "it is on an interface of this machine");
        found.on_reports(peer(3), far(1), &dialled(FAR, true), 0);
        assert!(!found.report(&[], strangers).from_internet, "two keys of one address group count once");
        found.on_reports(peer(4), None, &dialled(FAR, true), 0);
        assert!(!found.report(&[], strangers).from_internet, "a peer nearby cannot tell");
        found.on_reports(peer(2), far(2), &dialled(FAR, true), 0);
        let report = found.report(&[], strangers);
        assert_eq!((report.confirmed, report.from_internet, report.hidden), (vec![FAR.to_owned()], true, false));
    }

    #[test]
    fn a_node_reached_nearby_and_not_from_the_internet_is_hidden() {
        let mut found = ReachabilityTracker::default();
        let near = [NEAR.to_owned()];
        found.on_reports(peer(1), None, &dialled(NEAR, true), 0);
        let report = found.report(&near, strangers);
        assert_eq!((report.confirmed.len(), report.from_internet, report.hidden), (1, false, false), "nobody tried");
        found.on_reports(peer(2), far(2), &dialled(FAR, false), 0);
        let report = found.report(&near, strangers);
        assert_eq!((report.hidden, report.hidden_nearby, report.failures.len()), (true, false, 1));
        found.on_reports(peer(2), far(2), &dialled(FAR, true), 0);
        found.on_reports(peer(3), far(3), &dialled(FAR, true), 0);
        assert!(!found.report(&near, strangers).hidden, "the router forwards the port now");
        let mut walled = ReachabilityTracker::default();
        walled.on_reports(peer(1), None, &dialled(NEAR, false), 0);
        assert!(walled.report(&near, strangers).hidden_nearby);
    }

    #[test]
    fn outdated_reports_are_dropped() {
        let mut found = ReachabilityTracker::default();
        let connected = [(peer(1), far(1)), (peer(2), far(2))];
        found.next_peer(&connected, &transports(), 0);
        found.on_reports(peer(1), far(1), &dialled(FAR, true), 0);
        found.on_reports(peer(2), far(2), &dialled(FAR, true), 0);
        assert!(found.report(&[], strangers).from_internet);
        // It is now behind a router with another address, as later reports show.
        for seed in [1, 2] {
            found.on_reports(peer(seed), far(seed), &dialled("/ip4/5.9.9.9/tcp/7", false), AGAIN_MS);
        }
        let report = found.report(&[], strangers);
        assert_eq!((report.from_internet, report.hidden), (false, true));
        found.next_peer(&connected, &transports(), AGAIN_MS + REPORT_TTL_MS);
        assert_eq!(found.report(&[], strangers), ReachabilityReport::default(), "reports expire");
    }

    #[test]
    fn one_liar_does_not_take_a_hidden_node_s_relays() {
        let mut found = ReachabilityTracker::default();
        found.on_reports(peer(1), far(1), &dialled(FAR, false), 0);
        found.on_reports(peer(2), far(2), &dialled(FAR, true), 0);
        assert!(found.report(&[], strangers).hidden);
    }

    #[test]
    fn addresses_of_the_operator_are_announced_whatever_peers_report() {
        let mut found = ReachabilityTracker::default();
        found.set_announced(vec!["/dns4/node.example/tcp/443".to_owned()]);
        found.on_reports(peer(1), far(1), &dialled(FAR, false), 0);
        let report = found.report(&[], strangers);
        assert_eq!((report.hidden, report.from_internet, report.confirmed.len()), (false, true, 1));
    }
}
