//! P-12, P-48, P-69: what whoever stole a publisher's key makes readers believe, and what they remember against it when they
//! no longer keep the publisher's log.

use std::collections::BTreeSet;

use althing_protocol::keyring::{Forgotten, Keyring, KeyringError, Origin};
use althing_protocol::record::{RecordKey, Value};
use althing_protocol::{KeyLog, KeyLogError, PublisherId};
use proptest::prelude::*;

use crate::keyring::{after, in_use, learn, shown, withdraw, withdrawal};
use crate::names::reason;
use crate::support::*;

/// What the thief of the second key, which is the current one, makes in the place of the event that it signed.
pub fn stolen() -> [KeyLog; 2] {
    [
        log().rotate(&key(NEXT), public(STRANGER), NOW_MS, 0).expect("it holds by itself"),
        log().revoke(&key(NEXT), NOW_MS).expect("so does this"),
    ]
}

#[test]
fn who_steals_the_first_key_can_make_no_second_beginning_of_the_same_name() {
    // P-12, P-44, P-48: the thief signs another inception, which commits to keys of its own, and rotates to the first.
    let beginning = begun(PUBLISHER, [STRANGER, OPENER], NOW_MS - 2 * HOUR_MS);
    let thiefs = beginning.rotate(&key(STRANGER), public(ACCEPTOR), NOW_MS - HOUR_MS, 0).expect("it holds by itself");
    assert_ne!(thiefs.publisher(), publisher(), "it is another publisher");
    let mut ring = after(&[]);
    assert_eq!(reason(learn(&mut ring, &thiefs)), "KeyringError::NotInUse");
    in_use(&mut ring, &[thiefs.publisher()]);
    assert_eq!(learn(&mut ring, &thiefs), Ok(true));
    assert_eq!(learn(&mut ring, &thiefs.revoke(&key(OPENER), NOW_MS).expect("it holds by itself")), Ok(true));
    // None of it is about the owner: what the first key signed holds, and the owner's own rotation is learned.
    assert_eq!(ring.owns(&shown(PUBLISHER, NOW_MS), public(NODE), NOW_MS), Ok(publisher()));
    let verified = evidence().verify(NETWORK, &agent(), public(NODE), NOW_MS).expect("good evidence");
    assert_eq!(ring.holds(&verified, NOW_MS), Ok(()));
    let as_the_owner = evidence_of(&thiefs, description().bytes, grant().bytes);
    assert_eq!(reason(as_the_owner.verify(NETWORK, &agent(), public(NODE), NOW_MS)), "EvidenceError::Mismatch");
    assert_eq!(learn(&mut ring, &log()), Ok(false));
    assert_eq!(learn(&mut ring, &rotated_twice()), Ok(true));
    assert_eq!(
        reason(ring.owns(&shown(PUBLISHER, NOW_MS), public(NODE), NOW_MS)),
        "KeyringError::KeyLog(KeyLogError::NotItsKey)"
    );
    assert_eq!(ring.owns(&shown(AFTER_NEXT, NOW_MS), public(NODE), NOW_MS), Ok(publisher()));
    assert_ne!(RecordKey::key_log(NETWORK, thiefs.publisher()), RecordKey::key_log(NETWORK, publisher()));
    assert!(!Value::KeyLog(thiefs).replaces(&Value::KeyLog(log())));
}

#[test]
fn a_branch_of_the_thief_of_the_current_key_loses_wherever_it_was_heard_first() {
    // P-48, P-65: the current key is the second one. Its thief rotates, or revokes, in the place of the owner's rotation.
    for stolen in stolen() {
        let mut ring = after(std::slice::from_ref(&stolen));
        assert!(ring.knows(&stolen.head()), "it was heard first");
        assert_eq!(
            learn(&mut ring, &rotated()),
            Err(KeyringError::Forked(publisher())),
            "nothing tells them apart yet"
        );
        assert_eq!(learn(&mut ring, &rotated_twice()), Ok(true), "the owner has the key that comes next");
        assert_eq!(ring.accepts(publisher(), public(AFTER_NEXT), None, NOW_MS), Ok(()));
        assert_eq!(reason(ring.accepts(publisher(), public(NEXT), None, NOW_MS + 1)), "KeyLogError::NotItsKey");
        assert_eq!(ring.known(), BTreeSet::from([rotated_twice().head()]));
        assert_eq!(learn(&mut ring, &stolen), Err(KeyringError::Forked(publisher())), "and it does not come back");
        // In the table.
        let (kept, owners) = (Value::KeyLog(stolen.clone()), Value::KeyLog(rotated_twice()));
        assert!(owners.replaces(&kept) && !kept.replaces(&owners));
        assert!(!Value::KeyLog(rotated()).replaces(&kept) && !kept.replaces(&Value::KeyLog(rotated())));
        // The owner's revocation does the same as its rotation.
        let mut ring = after(std::slice::from_ref(&stolen));
        let ended = rotated().revoke(&key(AFTER_NEXT), NOW_MS).expect("the owner may");
        assert_eq!(learn(&mut ring, &ended), Ok(true));
        assert_eq!(reason(ring.accepts(publisher(), public(NEXT), None, NOW_MS)), "KeyLogError::Revoked");
    }
}

#[test]
fn a_branch_of_the_thief_loses_after_it_was_forgotten_and_so_it_does_when_the_owners_was() {
    // P-48, P-69
    for stolen in stolen() {
        let mut ring = Keyring::default();
        in_use(&mut ring, &[publisher()]);
        assert_eq!(learn(&mut ring, &stolen), Ok(true));
        in_use(&mut ring, &[]);
        in_use(&mut ring, &[publisher()]);
        assert_eq!(learn(&mut ring, &rotated()), Err(KeyringError::Forked(publisher())));
        assert_eq!(learn(&mut ring, &rotated_twice()), Ok(true));
        in_use(&mut ring, &[]);
        assert_eq!(ring.log(publisher()), None);
        let asked = ring.accepts(publisher(), public(NEXT), Some(&stolen), NOW_MS);
        assert_eq!(asked, Err(KeyLogError::Outdated(publisher())));
        in_use(&mut ring, &[publisher()]);
        assert_eq!(learn(&mut ring, &stolen), Err(KeyringError::Forked(publisher())));
        assert_eq!(learn(&mut ring, &rotated_twice()), Ok(true));
    }
}

#[test]
fn logs_of_publishers_that_are_not_in_use_are_not_kept() {
    // P-67: nobody fills a node with logs that nothing here needs.
    let mut ring = Keyring::default();
    assert_eq!(learn(&mut ring, &rotated()), Err(KeyringError::NotInUse(publisher())));
    assert_eq!(reason(withdraw(&mut ring, withdrawal(PUBLISHER, NOW_MS), NOW_MS)), "KeyringError::NotInUse");
    assert!(ring.known().is_empty() && ring.log(publisher()).is_none());
    assert!(ring.use_publisher(publisher()) && !ring.use_publisher(publisher()));
    assert_eq!(learn(&mut ring, &rotated()), Ok(true));
    assert!(ring.set_in_use(BTreeSet::from([PublisherId::from_digest([7; 32])])), "somebody else comes into use");
    assert!(ring.known().is_empty() && ring.logs().count() == 0);
    assert_eq!(ring.forgotten().cloned().collect::<Vec<_>>(), [Forgotten::of(&rotated(), &Origin::default())]);
    ring.watch([publisher()]);
    assert_eq!(learn(&mut ring, &rotated()), Ok(true), "what is watched is wanted whether it is in use or not");
    in_use(&mut ring, &[]);
    assert!(ring.knows(&rotated().head()) && ring.forgotten().next().is_none());
}

#[test]
fn what_was_forgotten_refuses_less_and_another_and_takes_the_same_more_and_what_displaces_it() {
    // P-69
    let longer = rotated_twice().rotate(&key(FOURTH), public(OPENER), NOW_MS, 0).expect("it may");
    // Two that part from it: at its last event, with two events there, and with one; and at the event before.
    let parted = rotated().rotate(&key(AFTER_NEXT), public(STRANGER), NOW_MS, 0).expect("with the key it holds");
    let displacing = parted.rotate(&key(FOURTH), public(OPENER), NOW_MS, 0).expect("with that key it holds");
    let earlier = log().rotate(&key(NEXT), public(STRANGER), NOW_MS, 0).expect("with the key it holds");
    let earlier = earlier.rotate(&key(AFTER_NEXT), public(STRANGER), NOW_MS, 0).expect("with the key it holds");
    let earlier = earlier.rotate(&key(STRANGER), public(OPENER), NOW_MS, 0).expect("with the key it holds");
    let cases = [
        ("the inception", log(), false),
        ("a shorter one", rotated(), false),
        ("the same", rotated_twice(), true),
        ("a longer one", longer.clone(), true),
        ("another of its length", parted, false),
        ("one that displaces it", displacing, true),
        ("a longer one that parted earlier", earlier, false),
        (
            "a revocation in the place of its last event",
            rotated().revoke(&key(AFTER_NEXT), NOW_MS).expect("it may"),
            false,
        ),
        ("a revocation behind it", rotated_twice().revoke(&key(FOURTH), NOW_MS).expect("it may"), true),
    ];
    for (name, log, taken) in cases {
        let mut ring = Keyring::default();
        ring.recall(Forgotten::of(&rotated_twice(), &Origin::default()));
        let asked = ring.accepts(publisher(), log.current(), Some(&log), NOW_MS);
        assert_eq!(asked != Err(KeyLogError::Outdated(publisher())), taken, "shown {name}: {asked:?}");
        in_use(&mut ring, &[publisher()]);
        let expected = if taken { Ok(true) } else { Err(KeyringError::Forked(publisher())) };
        assert_eq!(learn(&mut ring, &log), expected, "{name}");
        assert_eq!(ring.forgotten().next().is_none(), taken, "what is known again need not be remembered: {name}");
        // The same when the whole log is kept, but that the same and a shorter one are no news.
        let mut keeping = after(&[rotated_twice()]);
        let kept = learn(&mut keeping, &log);
        let less = rotated_twice().continues(&log);
        assert_eq!(kept, if less { Ok(false) } else { expected }, "{name}");
    }
    // An owner whose node shows its inception alone: the newer log is to be asked for.
    let mut ring = Keyring::default();
    ring.recall(Forgotten::of(&rotated_twice(), &Origin::default()));
    let asked = ring.owns(&shown(AFTER_NEXT, NOW_MS), public(NODE), NOW_MS);
    assert_eq!(reason(asked), "KeyringError::KeyLog(KeyLogError::Outdated)");
    let verified = evidence().verify(NETWORK, &agent(), public(NODE), NOW_MS).expect("good evidence by itself");
    assert_eq!(reason(ring.holds(&verified, NOW_MS)), "KeyringError::KeyLog(KeyLogError::Outdated)");
}

#[test]
fn what_is_forgotten_is_what_it_says_in_bytes() {
    // P-69: it is kept across restarts.
    let last = |log: &KeyLog| althing_protocol::digest(log.to_bytes().last().expect("an event"));
    let (before, end) = (last(&rotated()), last(&rotated_twice()));
    let members =
        [(0, bstr(publisher().as_bytes())), (1, uint(3)), (2, bstr(&end)), (3, bstr(&before)), (4, tstr("here"))];
    let forgotten = Forgotten::of(&rotated_twice(), &"here".into());
    assert_eq!(minicbor::to_vec(&forgotten).expect("it encodes"), map(&members));
    assert_eq!(minicbor::decode::<Forgotten>(&map(&members)).ok(), Some(forgotten));
    let mut ring = Keyring::default();
    ring.recall(Forgotten::of(&log(), &Origin::default()));
    assert_eq!(ring.forgotten().count(), 0, "the name says as much as an inception");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    /// P-48, P-67, P-69: in whatever order news of one log come, and come again, and whatever the thieves of its keys say
    /// between them, also when all was forgotten in between, the owner's next rotation is what is known in the end.
    #[test]
    fn whatever_thieves_of_one_key_each_say_first_the_owners_next_rotation_is_taken(
        heard in prop::collection::vec((0..7_usize, prop::bool::weighted(0.2)), 0..12),
    ) {
        let third = rotated_twice().rotate(&key(FOURTH), public(OPENER), NOW_MS, 0).expect("it may");
        let instead = |of: &KeyLog, seed| of.rotate(&key(seed), public(STRANGER), NOW_MS, 0).expect("it holds by itself");
        // The owner's, and what the thieves of the second and of the third key make of it.
        let said = [
            log(),
            rotated(),
            rotated_twice(),
            instead(&log(), NEXT),
            log().revoke(&key(NEXT), NOW_MS).expect("it holds by itself"),
            instead(&rotated(), AFTER_NEXT),
            rotated().revoke(&key(AFTER_NEXT), NOW_MS).expect("it holds by itself"),
        ];
        let mut ring = Keyring::default();
        in_use(&mut ring, &[publisher()]);
        for (which, forgets) in heard {
            drop(learn(&mut ring, &said[which]));
            if forgets {
                in_use(&mut ring, &[]);
                in_use(&mut ring, &[publisher()]);
            }
        }
        prop_assert_eq!(learn(&mut ring, &third), Ok(true));
        prop_assert_eq!(ring.accepts(publisher(), public(FOURTH), None, NOW_MS), Ok(()));
        for other in said {
            let less = third.continues(&other);
            let expected = if less { Ok(false) } else { Err(KeyringError::Forked(publisher())) };
            prop_assert_eq!(learn(&mut ring, &other), expected);
        }
    }
}
