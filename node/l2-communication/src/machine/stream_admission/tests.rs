use std::net::IpAddr;

use althing_protocol::SecretKey;
use proptest::prelude::*;

use super::*;
use crate::machine::origin::Origin;

fn holder(peer: u8, trust: TrustLevel, address: u8) -> Holder {
    let origin = Some(Origin::of(IpAddr::from([9, 9, address, 7])));
    Holder { peer: SecretKey::from_seed(&[peer; 32]).public(), trust, origin }
}

/// Opens and proves a stream: none when it was refused, or else whose place it took.
fn stand(admission: &mut StreamAdmission, stream: StreamId, holder: Holder) -> Option<Option<StreamId>> {
    assert_eq!(admission.step(Input::Opened { stream, holder }), None);
    match admission.step(Input::Proven { stream, trust: holder.trust }) {
        None => Some(None),
        Some(Effect::End { stream: other }) => Some(Some(other)),
        Some(Effect::Refuse { stream: refused }) => {
            assert_eq!(refused, stream);
            None
        }
    }
}

fn busy(admission: &mut StreamAdmission, stream: StreamId, holder: Holder) {
    assert_eq!(admission.step(Input::Busy { stream, trust: holder.trust }), None);
}

#[test]
fn nearer_peers_take_the_places_of_the_farthest_idle_ones_first() {
    let mut admission = StreamAdmission::new(5, 8);
    let (stranger, used) = (holder(1, TrustLevel::Stranger, 1), holder(2, TrustLevel::InUse, 2));
    let (trusted, own) = (holder(3, TrustLevel::Trusted, 3), holder(4, TrustLevel::Own, 4));
    for (stream, of) in [(1, stranger), (2, stranger), (3, used), (4, trusted), (5, stranger)] {
        assert_eq!(stand(&mut admission, stream, of), Some(None));
    }
    for stream in [1, 5] {
        busy(&mut admission, stream, stranger);
    }
    assert_eq!(stand(&mut admission, 10, own), Some(Some(2)), "the stranger's idle one");
    assert_eq!(stand(&mut admission, 11, trusted), Some(Some(5)), "then the call of a stranger's that began last");
    assert_eq!(stand(&mut admission, 12, used), Some(Some(1)));
    assert_eq!(stand(&mut admission, 13, stranger), None, "nobody farther, and nobody equal");
    assert_eq!(stand(&mut admission, 14, own), Some(Some(3)), "then those of peers in use");
    assert_eq!(stand(&mut admission, 15, own), Some(Some(12)));
    assert_eq!(stand(&mut admission, 16, own), Some(Some(4)), "then trusted ones");
    assert_eq!(stand(&mut admission, 17, own), Some(Some(11)));
    assert_eq!(stand(&mut admission, 18, trusted), None, "own ones end for nobody farther");
}

#[test]
fn strangers_share_by_origin_however_many_keys_they_have() {
    let mut admission = StreamAdmission::new(32, 64);
    // Sixteen keys at one address take all.
    for stream in 0..32 {
        let of = holder(u8::try_from(stream % 16).expect("small"), TrustLevel::Stranger, 1);
        assert_eq!(stand(&mut admission, stream, of), Some(None));
    }
    let taken = |admission: &mut StreamAdmission, first: StreamId, of: Holder| {
        (first..first + 100).take_while(|stream| stand(admission, *stream, of).is_some()).count()
    };
    assert_eq!(
        taken(&mut admission, 100, holder(101, TrustLevel::Stranger, 1)),
        1,
        "one more key there is one of seventeen"
    );
    assert_eq!(
        taken(&mut admission, 300, holder(100, TrustLevel::Stranger, 2)),
        16,
        "as much as the other origin keeps"
    );
}

#[test]
fn a_call_is_broken_off_for_an_equal_below_its_share_only() {
    let mut admission = StreamAdmission::new(32, 64);
    let group = holder(1, TrustLevel::Stranger, 1);
    for stream in 0..32 {
        assert_eq!(stand(&mut admission, stream, group), Some(None));
        busy(&mut admission, stream, group);
    }
    let other = holder(2, TrustLevel::Stranger, 2);
    for (stream, ended) in [(40, 31), (41, 30)] {
        assert_eq!(stand(&mut admission, stream, other), Some(Some(ended)), "a sixteenth is its own");
        busy(&mut admission, stream, other);
    }
    assert_eq!(stand(&mut admission, 42, other), None);
    assert_eq!(stand(&mut admission, 43, group), None, "nor for itself");
}

#[test]
fn who_opens_and_says_nothing_makes_room_for_who_comes() {
    let mut admission = StreamAdmission::new(4, 2);
    let (group, other) = (holder(1, TrustLevel::Stranger, 1), holder(2, TrustLevel::Stranger, 2));
    let open = |admission: &mut StreamAdmission, stream, holder| admission.step(Input::Opened { stream, holder });
    assert_eq!(open(&mut admission, 1, group), None);
    assert_eq!(open(&mut admission, 2, group), None);
    assert_eq!(open(&mut admission, 3, other), Some(Effect::End { stream: 1 }));
    assert_eq!(
        open(&mut admission, 4, group),
        Some(Effect::End { stream: 2 }),
        "not that of the other, which came later"
    );
    let own = holder(3, TrustLevel::Own, 1);
    assert!(matches!(open(&mut admission, 5, own), Some(Effect::End { .. })));
    assert!(matches!(open(&mut admission, 6, own), Some(Effect::End { .. })));
    assert_eq!(open(&mut admission, 7, group), Some(Effect::Refuse { stream: 7 }));
}

#[test]
fn a_peer_moves_nearer_with_what_it_proves_and_farther_with_what_it_loses() {
    let mut admission = StreamAdmission::new(2, 2);
    let (a, b) = (holder(1, TrustLevel::Stranger, 1), holder(2, TrustLevel::Stranger, 1));
    assert_eq!(admission.step(Input::Opened { stream: 1, holder: a }), None);
    assert_eq!(admission.step(Input::Proven { stream: 1, trust: TrustLevel::Own }), None);
    assert_eq!(stand(&mut admission, 2, b), Some(None));
    assert_eq!(stand(&mut admission, 3, holder(3, TrustLevel::Trusted, 3)), Some(Some(2)), "not its own node's");
    busy(&mut admission, 1, a);
    assert_eq!(stand(&mut admission, 4, holder(3, TrustLevel::Trusted, 3)), Some(Some(1)), "it is nobody's any more");
}

proptest! {
    /// Always: the limits hold, the counts are right, and no stream is displaced by a less trusted one.
    #[test]
    fn places_hold(steps in proptest::collection::vec((0u8..6, 0u8..12, 0u8..4, 0u64..64), 1..600)) {
        let (mut admission, ranks) = (
            StreamAdmission::new(16, 4),
            [TrustLevel::Stranger, TrustLevel::InUse, TrustLevel::Trusted, TrustLevel::Own],
        );
        for (next, (what, peer, rank, pick)) in (1_000u64..).zip(steps) {
            let trust = ranks[usize::from(rank)];
            let known: Vec<StreamId> = admission.streams.keys().copied().collect();
            let some = known.get(usize::try_from(pick).expect("small") % known.len().max(1)).copied().unwrap_or(0);
            let before = admission.streams.clone();
            let input = match what {
                0 | 1 => Input::Opened { stream: next, holder: holder(peer, trust, peer % 5) },
                2 if before.get(&some).is_some_and(|held| held.state == State::Opening) => {
                    Input::Proven { stream: some, trust }
                }
                3 if before.get(&some).is_some_and(|held| held.state != State::Opening) => {
                    Input::Busy { stream: some, trust }
                }
                4 if before.get(&some).is_some_and(|held| held.state == State::Busy) => Input::Idle { stream: some },
                5 => Input::Closed { stream: some },
                _ => continue,
            };
            if let Some(Effect::End { stream }) = admission.step(input) {
                prop_assert!(!admission.streams.contains_key(&stream));
                prop_assert!(before[&stream].holder.trust <= trust);
            }
            let opening = admission.streams.values().filter(|held| held.state == State::Opening).count();
            prop_assert_eq!(opening, admission.opening_len);
            prop_assert_eq!(admission.streams.len() - opening, admission.open_len);
            prop_assert!(admission.open_len <= 16 && opening <= 4);
            let counted: usize = admission.open.values().flat_map(BTreeMap::values).map(|group| group.len).sum();
            prop_assert_eq!(counted, admission.open_len);
            let peers = admission.open.values().flat_map(BTreeMap::values).flat_map(|group| group.peers.values());
            prop_assert_eq!(peers.map(OfPeer::len).sum::<usize>(), admission.open_len);
        }
    }
}
