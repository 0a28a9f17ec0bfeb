use std::net::{IpAddr, Ipv4Addr};

use althing_communication::Origin;
use althing_protocol::SecretKey;
use proptest::prelude::*;

use super::bounds::{NEAR_AGE_MS, PEERS_MAX, PER_HOLDER_MAX, PER_NET_MAX, STRANGER_AGE_MS, STRANGERS_MAX};
use super::*;
use crate::machine::room::net;

const HOUR_MS: u64 = 60 * 60 * 1_000;
const DAY_MS: u64 = 24 * HOUR_MS;
/// When these tests begin, Unix milliseconds.
const BEGIN_MS: u64 = CLOCK_MIN_MS + DAY_MS;

fn key(number: u64) -> PublicKey {
    let mut seed = [7; 32];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    SecretKey::from_seed(&seed).public()
}

fn at(ms: u64) -> Now {
    Now { monotonic_ms: ms, wall_ms: BEGIN_MS + ms }
}

fn from(ip: [u8; 4]) -> Holder {
    Holder::Origin(Origin::of(IpAddr::V4(Ipv4Addr::from(ip))))
}

fn address(number: u64) -> Vec<String> {
    vec![format!("/ip4/10.0.0.1/tcp/{}", 1_000 + number)]
}

/// A stranger of that number, from a net of its own.
fn meet(known: &mut KnownPeers, number: u64, now: Now) -> PublicKey {
    let node = key(number);
    let [.., high, low] = number.to_be_bytes();
    known.useful(node, false, from([10, high, low, 1]), address(number), now);
    node
}

/// What is written to the disk.
fn rows(known: &mut KnownPeers) -> Vec<(KnownPeer, Holder)> {
    let all: Vec<PublicKey> = known.peers.keys().copied().collect();
    known.put_back(all);
    let holders: BTreeMap<PublicKey, Holder> = known.peers.iter().map(|(node, entry)| (*node, entry.holder)).collect();
    let rows = known.take_changed(usize::MAX);
    rows.into_iter().filter_map(|(node, row)| Some((row?, holders[&node]))).collect()
}

/// Nobody answers until `until_ms`, then everybody; gives when the first answers. Looked at each 250 ms.
fn outage(known: &mut KnownPeers, from_ms: u64, until_ms: u64) -> (u64, usize) {
    let (mut now_ms, mut dials) = (from_ms, 0);
    loop {
        now_ms += 250;
        for (node, addresses) in known.due(at(now_ms), &[]) {
            assert!(!addresses.is_empty());
            if now_ms >= until_ms {
                return (now_ms, dials);
            }
            dials += 1;
            known.dialled(node, Some("nobody answered".to_owned()), now_ms);
        }
    }
}

#[test]
fn who_was_known_is_dialled_at_once_after_a_restart() {
    let mut before = KnownPeers::new(key(0));
    let node = meet(&mut before, 1, at(0));
    assert!(before.has_changed());
    let mut after = KnownPeers::new(key(0));
    after.restore(rows(&mut before), at(60_000));
    assert_eq!(after.due(at(60_000), &[]), [(node, address(1))]);
    assert_eq!(after.due(at(60_000), &[]), [], "one dial at a time");
    assert!(!after.has_changed(), "what was read is not written again");
}

#[test]
fn an_outage_of_half_a_minute_and_one_of_65_minutes_end_within_seconds() {
    for minutes_tenths in [5, 650] {
        let mut known = KnownPeers::new(key(0));
        let node = meet(&mut known, 1, at(0));
        assert_eq!(known.due(at(LASTED_MS), &[node]), []);
        known.lost(node, LASTED_MS);
        let over_ms = LASTED_MS + minutes_tenths * 6_000;
        let (back_ms, dials) = outage(&mut known, LASTED_MS, over_ms);
        assert!(back_ms <= over_ms + ALONE_WAIT_MS + 250, "{} ms after it was over", back_ms - over_ms);
        assert!(dials as u64 <= 8 + (over_ms - LASTED_MS) / ALONE_WAIT_MS, "{dials} dials");
    }
}

#[test]
fn with_others_connected_a_lost_peer_is_dialled_for_two_hours_and_a_near_one_for_good() {
    for near in [false, true] {
        let mut known = KnownPeers::new(key(0));
        let others: Vec<PublicKey> = (10..10 + FEW as u64).map(|number| meet(&mut known, number, at(0))).collect();
        let lost = key(1);
        known.useful(lost, near, from([10, 9, 9, 9]), address(1), at(0));
        known.lost(lost, 0);
        let (mut now_ms, mut last_ms, mut dials) = (0, 0, 0);
        while now_ms < LOST_MS + HOUR_MS {
            now_ms += 500;
            for (node, _) in known.due(at(now_ms), &others) {
                assert_eq!(node, lost);
                dials += 1;
                last_ms = now_ms;
                known.dialled(node, Some("no".to_owned()), now_ms);
            }
        }
        assert_eq!(last_ms >= LOST_MS + HOUR_MS - WAIT_MAX_MS, near, "{last_ms}");
        assert!(dials < 900, "{dials}");
    }
}

#[test]
fn who_says_goodbye_or_falls_silent_in_a_crowd_is_not_run_after() {
    let mut known = KnownPeers::new(key(0));
    let others: Vec<PublicKey> = (10..10 + FEW as u64).map(|number| meet(&mut known, number, at(0))).collect();
    let (left, closed) = (meet(&mut known, 1, at(0)), meet(&mut known, 2, at(0)));
    known.left(left);
    known.lost(left, 1);
    for now_ms in [0, 1_000, 100_000] {
        assert_eq!(known.due(at(now_ms), &others), [], "the connection of {closed} was closed since nobody used it");
    }
    let alone: Vec<PublicKey> = known.due(at(200_000), &[]).into_iter().map(|(node, _)| node).collect();
    assert!(alone.contains(&left) && alone.contains(&closed), "alone, anybody will do");
}

#[test]
fn of_two_that_lose_each_other_the_smaller_dials_first() {
    let (small, large) = if key(1) < key(2) { (key(1), key(2)) } else { (key(2), key(1)) };
    for (local, peer, first_ms) in [(small, large, WAIT_MIN_MS), (large, small, WAIT_MIN_MS + COURTESY_MS)] {
        let mut known = KnownPeers::new(local);
        known.useful(peer, false, from([10, 0, 0, 1]), address(1), at(0));
        known.lost(peer, 0);
        assert_eq!(known.due(at(first_ms - 1), &[]), []);
        assert_eq!(known.due(at(first_ms), &[]).len(), 1);
    }
}

#[test]
fn when_somebody_is_reached_again_the_others_are_tried_at_once() {
    let mut known = KnownPeers::new(key(0));
    let (one, other) = (meet(&mut known, 1, at(0)), meet(&mut known, 2, at(0)));
    known.lost(one, 0);
    known.lost(other, 0);
    let (back_ms, _) = outage(&mut known, 0, HOUR_MS);
    for (node, _) in known.due(at(back_ms), &[]) {
        known.dialled(node, Some("no".to_owned()), back_ms);
    }
    for node in [one, other] {
        known.dialled(node, Some("no".to_owned()), back_ms);
    }
    assert_eq!(known.due(at(back_ms + 100), &[one]), []);
    assert_eq!(known.due(at(back_ms + WAIT_MIN_MS), &[one]), [(other, address(2))]);
}

#[test]
fn a_peer_that_closes_each_connection_at_once_is_dialled_ever_more_rarely() {
    let mut known = KnownPeers::new(key(0));
    let node = meet(&mut known, 1, at(0));
    let (mut now_ms, mut dials) = (0, 0);
    while now_ms < HOUR_MS {
        now_ms += 250;
        for (node, _) in known.due(at(now_ms), &[]) {
            dials += 1;
            known.dialled(node, None, now_ms);
            known.useful(node, false, from([10, 0, 0, 1]), address(1), at(now_ms));
            known.lost(node, now_ms + 100);
        }
    }
    assert!(dials <= 10 + HOUR_MS / ALONE_WAIT_MS, "{dials}: {node}");
}

#[test]
fn what_was_not_useful_for_long_is_forgotten_also_on_the_disk() {
    for (near, age_ms) in [(false, STRANGER_AGE_MS), (true, NEAR_AGE_MS)] {
        let mut known = KnownPeers::new(key(0));
        known.useful(key(1), near, from([10, 0, 0, 1]), address(1), at(0));
        let mut after = KnownPeers::new(key(0));
        after.restore(rows(&mut known), Now { monotonic_ms: 0, wall_ms: BEGIN_MS + age_ms - 1 });
        assert_eq!(after.remembered().peers, 1);
        assert!(after.due(Now { monotonic_ms: 1, wall_ms: BEGIN_MS + age_ms }, &[]).is_empty());
        assert_eq!(after.take_changed(9), [(key(1), None)]);
    }
}

#[test]
fn a_clock_that_is_not_set_forgets_nobody_and_one_that_ran_ahead_keeps_nobody_for_ever() {
    let row = |useful_ms| KnownPeer { node: key(1), addresses: address(1), near: false, useful_ms };
    let mut known = KnownPeers::new(key(0));
    known.restore([(row(BEGIN_MS), from([10, 0, 0, 1]))], Now { monotonic_ms: 0, wall_ms: 0 });
    assert_eq!(
        known.due(Now { monotonic_ms: 1, wall_ms: 1 }, &[]).len(),
        1,
        "a machine that has just started, in 1970"
    );
    assert_eq!(known.remembered().peers, 1);
    let mut known = KnownPeers::new(key(0));
    known.restore([(row(BEGIN_MS + 100 * NEAR_AGE_MS), from([10, 0, 0, 1]))], at(0));
    known.due(Now { monotonic_ms: 1, wall_ms: BEGIN_MS + STRANGER_AGE_MS }, &[]);
    assert_eq!(known.remembered().peers, 0);
}

#[test]
fn addresses_are_few_the_newest_first_and_none_that_is_no_address() {
    let mut known = KnownPeers::new(key(0));
    known.useful(key(1), false, from([10, 0, 0, 1]), vec![String::new(), "x".repeat(ADDRESS_BYTES_MAX + 1)], at(0));
    assert_eq!(known.remembered().peers, 0, "it cannot be dialled");
    for number in 0..9 {
        known.useful(key(1), false, from([10, 0, 0, 1]), address(number), at(number));
    }
    let expected: Vec<String> = (5..9).rev().flat_map(address).collect();
    assert_eq!(known.addresses(key(1)), expected);
    known.useful(key(0), true, from([10, 0, 0, 1]), address(1), at(9));
    assert_eq!(known.addresses(key(0)), [""; 0], "nobody remembers itself");
}

#[test]
fn the_disk_is_spared() {
    let mut known = KnownPeers::new(key(0));
    let node = meet(&mut known, 1, at(0));
    assert_eq!(known.take_changed(9).len(), 1);
    let mut writes = 0;
    for now_ms in (0..HOUR_MS).step_by(2_000) {
        known.due(at(now_ms), &[node]);
        if known.wants(node, at(now_ms)) {
            meet(&mut known, 1, at(now_ms));
        }
        writes += known.take_changed(9).len();
    }
    assert!((4..=6).contains(&writes), "{writes}");
}

/// Somebody who comes.
#[derive(Debug, Clone)]
struct Comer {
    near: bool,
    ip: [u8; 4],
}

fn comer() -> impl Strategy<Value = Comer> {
    let ip = prop_oneof![
        any::<u8>().prop_map(|low| [10, 0, 0, low]),
        any::<(u8, u8)>().prop_map(|(net, low)| [192, 168, net, low]),
        any::<(u8, u8)>().prop_map(|(net, low)| [5, 5, net, low]),
        any::<u8>().prop_map(|low| [9, 9, 9, low]),
    ];
    (prop::bool::weighted(0.1), ip).prop_map(|(near, ip)| Comer { near, ip })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Whoever comes, in whatever order: nothing passes its bound, and no stranger displaces a near one.
    #[test]
    fn strangers_do_not_fill_the_memory(comers in prop::collection::vec(comer(), 0..500)) {
        let mut known = KnownPeers::new(key(0));
        let mut near = 0;
        for (number, comer) in (1..).zip(&comers) {
            near += usize::from(comer.near);
            known.useful(key(number), comer.near, from(comer.ip), address(number), at(number));
            let (mut holders, mut nets) = (BTreeMap::new(), BTreeMap::new());
            for entry in known.peers.values().filter(|entry| !entry.peer.near) {
                *holders.entry(entry.holder).or_insert(0) += 1;
                *nets.entry(net(entry.holder)).or_insert(0) += 1;
            }
            prop_assert!(known.peers.len() <= PEERS_MAX && known.strangers() <= STRANGERS_MAX);
            prop_assert!(holders.values().all(|count| *count <= PER_HOLDER_MAX));
            prop_assert!(nets.values().all(|count| *count <= PER_NET_MAX));
            prop_assert_eq!(known.remembered().near, near.min(PEERS_MAX));
        }
    }

    /// One net that comes under ever new keys takes nothing from a stranger of another.
    #[test]
    fn a_crowd_takes_only_from_itself(count in 1_u64..400) {
        let mut known = KnownPeers::new(key(0));
        known.useful(key(0x1_0000), false, from([9, 9, 9, 9]), address(1), at(0));
        for number in 1..=count {
            let low = u8::try_from(number % 250).expect("below 256");
            known.useful(key(number), false, from([10, 0, 0, low]), address(number), at(number));
        }
        prop_assert_eq!(known.addresses(key(0x1_0000)), address(1));
    }

    /// Whatever happens, no more than so many dials are under way, and nobody is dialled who is connected.
    #[test]
    fn dials_are_bounded(steps in prop::collection::vec((0_u64..40, 0_u8..5, 0_u64..20_000), 0..200)) {
        let mut known = KnownPeers::new(key(0));
        let (mut connected, mut dialling, mut now_ms) = (BTreeSet::new(), BTreeSet::new(), 0);
        for (number, step, passes_ms) in steps {
            now_ms += passes_ms;
            let node = key(number + 1);
            match step {
                0 => {
                    connected.insert(node);
                    meet(&mut known, number + 1, at(now_ms));
                }
                1 => {
                    connected.remove(&node);
                    known.lost(node, now_ms);
                }
                2 => known.left(node),
                3 if dialling.remove(&node) => known.dialled(node, Some("no".to_owned()), now_ms),
                _ => {}
            }
            let here: Vec<PublicKey> = connected.iter().copied().collect();
            for (due, addresses) in known.due(at(now_ms), &here) {
                prop_assert!(!connected.contains(&due) && !addresses.is_empty());
                prop_assert!(dialling.insert(due), "it is being dialled");
            }
            prop_assert!(dialling.len() <= DIALS_MAX);
        }
    }
}
