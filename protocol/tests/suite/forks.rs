//! Two branches of one key log: which of them is the publisher's own, by what whoever stole a key can and cannot sign.

use althing_protocol::keylog::Relation;
use althing_protocol::keyring::{Forgotten, Origin};
use althing_protocol::{KeyLog, KeyLogError};
use proptest::prelude::*;

use crate::keylog::{Event, long_log, numbered, with};
use crate::names::reason;
use crate::support::*;

#[test]
fn the_thief_of_a_key_that_was_rotated_in_makes_one_event_and_none_behind_it() {
    // P-44, P-48: the current key is the second one; its thief writes another event in the place of the one it signed.
    let mut own = Event { next: Some([STRANGER, STRANGER]), ..Event::rotation(&log()) };
    let rule = |refused: Result<KeyLog, KeyLogError>| match refused {
        Err(KeyLogError::Chain { rule, .. }) => rule,
        other => panic!("{other:?}"),
    };
    let unrepeated = "does not repeat the second key that the event before it committed to";
    assert_eq!(rule(with(&log(), own.signed(&key(NEXT)))), unrepeated);
    own.next = Some([AFTER_NEXT, STRANGER]);
    let stolen = with(&log(), own.signed(&key(NEXT))).expect("one event it can make");
    for (seed, next) in [(STRANGER, [STRANGER, STRANGER]), (NEXT, [STRANGER, STRANGER]), (PUBLISHER, [FOURTH, FOURTH])]
    {
        let event = Event { key: public(seed), next: Some(next), ..Event::rotation(&stolen) };
        assert_eq!(rule(with(&stolen, event.signed(&key(seed)))), "uses a key that was not committed to");
        let event = Event { change: 3, next: None, ..event };
        assert_eq!(rule(with(&stolen, event.signed(&key(seed)))), "uses a key that was not committed to");
    }
    let ended = log().revoke(&key(NEXT), NOW_MS).expect("or a revocation");
    for branch in [&stolen, &ended] {
        assert_eq!(
            (rotated().relation(branch), branch.relation(&rotated())),
            (Relation::Contradicts, Relation::Contradicts)
        );
        let went_on = rotated_twice();
        assert_eq!((went_on.relation(branch), branch.relation(&went_on)), (Relation::Displaces, Relation::IsDisplaced));
        let revoked = rotated().revoke(&key(AFTER_NEXT), NOW_MS).expect("the owner may");
        assert_eq!((revoked.relation(branch), branch.relation(&revoked)), (Relation::Displaces, Relation::IsDisplaced));
    }
}

#[test]
fn who_steals_the_next_key_alone_is_displaced_by_two_rotations() {
    // P-48: the owner has the next key, too, and the one after it.
    let stolen = rotated().rotate(&key(AFTER_NEXT), public(STRANGER), NOW_MS, 0).expect("it was committed to");
    let once = rotated_twice();
    assert_eq!(once.relation(&stolen), Relation::Contradicts);
    let twice = once.rotate(&key(FOURTH), public(OPENER), NOW_MS, 0).expect("the owner may");
    assert_eq!(twice.relation(&stolen), Relation::Displaces);
    assert_eq!(reason(stolen.rotate(&key(STRANGER), public(STRANGER), NOW_MS, 0)), "KeyLogError::Chain");
}

/// How a branch goes on behind the events that it has in common with another.
#[derive(Debug, Clone, Copy)]
struct Branch {
    rotations: usize,
    revokes: bool,
}

fn branch() -> impl Strategy<Value = Branch> {
    (0..4usize, any::<bool>()).prop_map(|(rotations, revokes)| Branch { rotations, revokes })
}

impl Branch {
    /// [`long_log`] of `common` events, and this behind it: each event commits to the keys that were committed to, and,
    /// where it may choose, to one that only branches of this `salt` have.
    fn grown(self, common: usize, salt: u8) -> KeyLog {
        let mut log = long_log(common);
        let mut to_come = vec![numbered(0x77, common), numbered(0x77, common + 1)];
        for at in 0..self.rotations {
            to_come.push(numbered(salt, at));
            log = log.rotate(&to_come[at], to_come[at + 2].public(), NOW_MS * 2, 0).expect("a good rotation");
        }
        if self.revokes {
            log = log.revoke(&to_come[self.rotations], NOW_MS * 2).expect("a good revocation");
        }
        log
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES / 4))]

    #[test]
    fn two_branches_see_each_other_the_same_way(
        common in 1..4usize, ours in branch(), theirs in branch(), same_salt in any::<bool>(),
    ) {
        // P-48: however two branches go on, and whoever made them, also with keys that both have.
        let a = ours.grown(common, 1);
        let b = theirs.grown(common, if same_salt { 1 } else { 2 });
        let seen = (a.relation(&b), b.relation(&a));
        let mutual = matches!(
            seen,
            (Relation::Same, Relation::Same)
                | (Relation::Continues, Relation::IsContinued)
                | (Relation::IsContinued, Relation::Continues)
                | (Relation::Displaces, Relation::IsDisplaced)
                | (Relation::IsDisplaced, Relation::Displaces)
                | (Relation::Contradicts, Relation::Contradicts)
        );
        prop_assert!(mutual, "{seen:?}");
        let (a_bytes, b_bytes) = (a.to_bytes(), b.to_bytes());
        let alike = a_bytes.iter().zip(&b_bytes).take_while(|(a, b)| a == b).count();
        let (behind_a, behind_b) = (a.len() - alike, b.len() - alike);
        prop_assert_eq!(seen.0 == Relation::Displaces, behind_a >= 2 && behind_b == 1);
        prop_assert_eq!(a.continues(&b), matches!(seen.0, Relation::Same | Relation::Continues));
        // What takes another's place is longer: no readers can go round in a circle.
        let outdoes = matches!(seen.0, Relation::Continues | Relation::Displaces);
        prop_assert!(!outdoes || a.len() > b.len());
        // What is left of a log that is not kept decides the same (P-69).
        prop_assert_eq!(Forgotten::of(&b, &Origin::default()).allows(&a), outdoes || seen.0 == Relation::Same);
    }

    #[test]
    fn a_branch_without_a_key_that_was_committed_to_before_the_parting_displaces_none_that_has_two_events(
        common in 1..4usize, owners in branch(), revokes in any::<bool>(), tries in 1..3usize,
    ) {
        // P-48: the thief has every key that has signed, the one that signs the first event behind the parting among them,
        // and keys of its own; the owner's second event behind the parting is signed by a key that it does not have.
        let owners = owners.grown(common, 1);
        let parted = KeyLog::verify(&owners.to_bytes()[..common]).expect("a beginning of a good log");
        let stolen = numbered(0x77, common);
        let mut thiefs = if revokes {
            parted.revoke(&stolen, NOW_MS * 2).expect("one event it can make")
        } else {
            parted.rotate(&stolen, numbered(3, 0).public(), NOW_MS * 2, 0).expect("one event it can make")
        };
        for at in 0..tries {
            for with in [&stolen, &numbered(3, at), &numbered(0x77, common - 1)] {
                let more = thiefs.rotate(with, numbered(3, at + 1).public(), NOW_MS * 3, 0);
                prop_assert!(matches!(more, Err(KeyLogError::Chain { .. })), "{:?}", more);
                let end = thiefs.revoke(with, NOW_MS * 3);
                prop_assert!(matches!(end, Err(KeyLogError::Chain { .. })), "{:?}", end);
            }
        }
        prop_assert_ne!(thiefs.relation(&owners), Relation::Displaces);
        if owners.len() >= common + 2 {
            prop_assert_eq!(owners.relation(&thiefs), Relation::Displaces);
            // Nor does one that has all that the thief has, and the next key, too: of two that go on the first stays.
            if !thiefs.revoked() {
                thiefs = thiefs.rotate(&numbered(0x77, common + 1), numbered(3, 9).public(), NOW_MS * 3, 0).expect("with it");
                prop_assert_eq!(thiefs.relation(&owners), Relation::Contradicts);
            }
        }
    }

    #[test]
    fn what_is_verified_onto_a_known_log_is_what_is_verified_alone(
        common in 1..4usize, ours in branch(), theirs in branch(), known in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(), byte in any::<prop::sample::Index>(), bit in 0..8u8,
    ) {
        // P-43, P-44
        let (log, fork) = (ours.grown(common, 1), theirs.grown(common, 2));
        let events = log.to_bytes();
        let whole = KeyLog::verify(&events);
        prop_assert_eq!(whole.as_ref(), Ok(&log));
        let part = KeyLog::verify(&events[..=known.index(events.len())]).expect("a beginning of a good log");
        let strangers = begun(STRANGER, [NEXT, AFTER_NEXT], NOW_MS);
        for (known, left) in [
            (None, events.len()),
            (Some(&part), events.len() - part.len()),
            (Some(&log), 0),
            (Some(&strangers), events.len()),
        ] {
            prop_assert_eq!(&KeyLog::verify_onto(known, &events), &whole);
            prop_assert_eq!(KeyLog::unverified(known, &events), left);
        }
        prop_assert_eq!(KeyLog::verify_onto(Some(&fork), &events), whole);
        // A shorter one than is known is that shorter one.
        prop_assert_eq!(KeyLog::verify_onto(Some(&log), &part.to_bytes()), Ok(part.clone()));
        // An event that was changed is verified, wherever it stands, and whatever is known.
        let mut changed = events.clone();
        let at = at.index(events.len());
        let byte = byte.index(changed[at].len());
        changed[at][byte] ^= 1 << bit;
        for known in [None, Some(&part), Some(&log), Some(&fork)] {
            let refused = KeyLog::verify_onto(known, &changed);
            prop_assert!(refused.is_err());
            prop_assert!(KeyLog::unverified(known, &changed) >= events.len() - at);
        }
        // An event left out of what is known.
        if events.len() > 2 {
            let gap = [&events[..1], &events[2..]].concat();
            prop_assert!(KeyLog::verify_onto(Some(&log), &gap).is_err());
        }
    }
}
