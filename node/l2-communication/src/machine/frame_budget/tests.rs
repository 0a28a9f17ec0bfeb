use std::net::IpAddr;

use althing_protocol::SecretKey;
use proptest::prelude::*;

use super::*;
use crate::machine::origin::Origin;

const LIMITS: FrameLimits =
    FrameLimits { total: 8 << 20, per_peer: 2 << 20, per_stranger: 1 << 20, per_origin: 2 << 20 };

fn holder(peer: u8, trust: TrustLevel, address: u8) -> Holder {
    let origin = Some(Origin::of(IpAddr::from([9, 9, address, 7])));
    Holder { peer: SecretKey::from_seed(&[peer; 32]).public(), trust, origin }
}

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Announces a frame: may it be read at once?
fn announce(budget: &mut FrameBudget, frame: FrameId, holder: Holder, bytes: usize) -> bool {
    let effects = budget.step(Input::Announced { frame, holder, bytes, now: at(0) });
    assert!(effects.is_empty() || effects == [Effect::Grant { frame }], "{effects:?}");
    !effects.is_empty()
}

#[test]
fn a_stranger_reads_long_frames_in_turn_and_short_ones_beside_them() {
    let mut budget = FrameBudget::new(LIMITS);
    let stranger = holder(1, TrustLevel::Stranger, 1);
    assert!(announce(&mut budget, 1, stranger, 100 << 10));
    assert!(!announce(&mut budget, 2, stranger, 100 << 10), "one after another");
    assert!(announce(&mut budget, 3, holder(2, TrustLevel::Stranger, 1), 100 << 10), "each stranger for itself");
    assert_eq!(budget.step(Input::Pressed { frame: 2, now: at(5_000) }), [], "it waits for itself");
    assert_eq!(budget.step(Input::Done { frame: 1, now: at(5_000) }), [Effect::Grant { frame: 2 }]);
    let trusted = holder(3, TrustLevel::Trusted, 1);
    assert!((10..20).all(|frame| announce(&mut budget, frame, trusted, 100 << 10)), "no others wait for their turn");
    let other = holder(4, TrustLevel::Stranger, 1);
    assert!((20..30).all(|frame| announce(&mut budget, frame, other, 64 << 10)), "short ones need none");
}

#[test]
fn strangers_leave_half_of_the_bytes_to_nearer_peers_and_so_does_each_that_is_nearer() {
    let mut budget = FrameBudget::new(LIMITS);
    let mut fill = |trust: TrustLevel, first: u8| {
        for peer in first..first + 8 {
            let of = holder(peer, trust, peer);
            (0..12u64).for_each(|frame| {
                announce(&mut budget, u64::from(peer) * 100 + frame, of, 64 << 10);
            });
        }
        budget.held() >> 20
    };
    assert_eq!(fill(TrustLevel::Stranger, 1), 4);
    assert_eq!(fill(TrustLevel::InUse, 50), 5);
    assert_eq!(fill(TrustLevel::Trusted, 100), 7);
    assert_eq!(fill(TrustLevel::Own, 150), 8);
}

#[test]
fn a_stranger_of_a_full_origin_gets_its_share_of_those_who_hold_theirs_too_long() {
    let mut budget = FrameBudget::new(LIMITS);
    for peer in [1, 2] {
        let of = holder(peer, TrustLevel::Stranger, 1);
        assert!((0..16).all(|frame| announce(&mut budget, u64::from(peer) * 100 + frame, of, 64 << 10)));
    }
    let newcomer = holder(3, TrustLevel::Stranger, 1);
    assert!(!announce(&mut budget, 300, newcomer, 64 << 10), "their origin has its two MiB");
    assert_eq!(budget.step(Input::Pressed { frame: 300, now: at(900) }), [], "theirs may be finished soon");
    let effects = budget.step(Input::Pressed { frame: 300, now: at(1_000) });
    assert_eq!(effects.len(), 2);
    assert!(matches!(effects[0], Effect::End { frame: 100 | 200 }), "{effects:?}");
    assert_eq!(effects[1], Effect::Grant { frame: 300 });
}

#[test]
fn nearer_peers_have_frames_of_farther_ones_ended_only_where_that_helps() {
    let limits = FrameLimits { per_peer: 8 << 20, ..LIMITS };
    let mut budget = FrameBudget::new(limits);
    assert!(announce(&mut budget, 1, holder(1, TrustLevel::Stranger, 1), 1 << 20));
    assert!(announce(&mut budget, 2, holder(2, TrustLevel::Own, 2), 6 << 20));
    let trusted = holder(3, TrustLevel::Trusted, 3);
    assert!(!announce(&mut budget, 3, trusted, 1 << 20), "seven eighths are taken");
    assert!(!announce(&mut budget, 4, holder(4, TrustLevel::Trusted, 4), 2 << 20));
    assert_eq!(budget.step(Input::Pressed { frame: 4, now: at(2_000) }), [], "that of the stranger is not enough");
    let effects = budget.step(Input::Pressed { frame: 3, now: at(2_000) });
    assert_eq!(effects, [Effect::End { frame: 1 }, Effect::Grant { frame: 3 }]);
}

#[test]
fn a_stranger_that_begins_more_than_can_wait_loses_the_last() {
    let mut budget = FrameBudget::new(LIMITS);
    let stranger = holder(1, TrustLevel::Stranger, 1);
    assert!(announce(&mut budget, 0, stranger, 1 << 20));
    let most = u64::try_from(WAITING_PER_STRANGER).expect("small");
    assert!((1..=most).all(|frame| !announce(&mut budget, frame, stranger, 1 << 20)));
    let one_more = Input::Announced { frame: most + 1, holder: stranger, bytes: 1 << 20, now: at(0) };
    assert_eq!(budget.step(one_more), [Effect::End { frame: most + 1 }]);
    // Many keys at many addresses: of who has most waiting.
    let mut ended = Vec::new();
    for peer in 2..20u8 {
        for frame in 0..20u64 {
            let holder = holder(peer, TrustLevel::Stranger, peer);
            let frame = u64::from(peer) * 100 + frame;
            ended.extend(budget.step(Input::Announced { frame, holder, bytes: 1 << 20, now: at(0) }));
        }
    }
    assert!(ended.contains(&Effect::End { frame: most }), "{ended:?}");
    assert!(budget.waiting.values().map(BTreeSet::len).sum::<usize>() <= WAITING_STRANGERS);
}

proptest! {
    /// Always: the limits hold, the counts are right, and no frame waits that fits.
    #[test]
    fn limits_hold(steps in proptest::collection::vec((0u8..8, 0u8..4, 1usize..(1 << 20), 0u64..64, 0u64..3_000), 1..300)) {
        let ranks = [TrustLevel::Stranger, TrustLevel::InUse, TrustLevel::Trusted, TrustLevel::Own];
        let (mut budget, mut now) = (FrameBudget::new(LIMITS), Duration::ZERO);
        for (next, (peer, what, bytes, pick, ms)) in (1_000u64..).zip(steps) {
            now += at(ms);
            let known: Vec<FrameId> = budget.frames.keys().copied().collect();
            let some = known.get(usize::try_from(pick).expect("small") % known.len().max(1)).copied().unwrap_or(0);
            let input = match what {
                0 | 1 => {
                    let holder = holder(peer, ranks[usize::from(peer % 4)], peer % 3);
                    Input::Announced { frame: next, holder, bytes, now }
                }
                2 => Input::Pressed { frame: some, now },
                _ => Input::Done { frame: some, now },
            };
            for effect in budget.step(input) {
                match effect {
                    Effect::Grant { frame } => prop_assert!(budget.frames[&frame].granted.is_some()),
                    Effect::End { frame } => prop_assert!(!budget.frames.contains_key(&frame)),
                }
            }
            let granted = || budget.frames.values().filter(|held| held.granted.is_some());
            prop_assert_eq!(granted().map(|held| held.bytes).sum::<usize>(), budget.total);
            prop_assert_eq!(budget.groups.values().sum::<usize>(), budget.total);
            prop_assert!(budget.total <= LIMITS.total);
            for (peer, held) in &budget.peers {
                let sum: usize = granted().filter(|held| held.holder.peer == *peer).map(|held| held.bytes).sum();
                prop_assert_eq!(sum, *held);
                let stranger = granted().any(|held| held.holder.peer == *peer && held.holder.trust == TrustLevel::Stranger);
                let most = if stranger { LIMITS.per_stranger } else { LIMITS.per_peer };
                prop_assert!(*held <= most);
            }
            let waits = budget.frames.values().filter(|held| held.granted.is_none()).count();
            prop_assert_eq!(budget.waiting.values().map(BTreeSet::len).sum::<usize>(), waits);
            for frames in budget.waiting.values() {
                let head = &budget.frames[frames.first().expect("none is empty")];
                let waits_for_nothing = budget.fits(&head.holder, head.bytes) && matches!(input, Input::Done { .. });
                prop_assert!(!waits_for_nothing);
            }
        }
    }
}
