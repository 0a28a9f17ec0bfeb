//! Key logs: chains, forks, backdating, overlaps, revocation.

use althing_protocol::keylog::Relation;
use althing_protocol::limits::{CLOCK_SKEW_MAX_MS, GRANT_LIFE_MAX_MS, KEYLOG_EVENTS_MAX};
use althing_protocol::{KeyLog, KeyLogError, PublicKey, SecretKey, digest, keylog};
use proptest::prelude::*;

use crate::names::reason;
use crate::support::*;

/// A key event with any members, honestly signed by `signer`.
pub struct Event {
    pub change: u64,
    pub sequence: u64,
    pub previous: Option<Vec<u8>>,
    pub key: PublicKey,
    /// The seeds of the next two keys.
    pub next: Option<[u8; 2]>,
    pub issued_at_ms: u64,
    pub previous_until_ms: Option<u64>,
}

impl Event {
    /// The rotation that continues `log` as it should.
    pub fn rotation(log: &KeyLog) -> Event {
        Event {
            change: 2,
            sequence: log.len() as u64,
            previous: Some(last_digest(log)),
            key: public(NEXT),
            next: Some([AFTER_NEXT, FOURTH]),
            issued_at_ms: NOW_MS - HOUR_MS,
            previous_until_ms: None,
        }
    }

    pub fn signed(&self, signer: &SecretKey) -> Vec<u8> {
        let next = self.next.map(|next| array(&next.map(committed)));
        self.encoded(next, signer)
    }

    /// The event with anything in the place of what it commits to.
    pub fn with_next(&self, next: Vec<u8>, signer: &SecretKey) -> Vec<u8> {
        self.encoded(Some(next), signer)
    }

    fn encoded(&self, next: Option<Vec<u8>>, signer: &SecretKey) -> Vec<u8> {
        let mut members = vec![(0, uint(4)), (1, uint(self.change)), (2, uint(self.sequence))];
        members.extend(self.previous.iter().map(|it| (3, bstr(it))));
        members.push((4, bstr(self.key.as_bytes())));
        members.extend(next.map(|it| (5, it)));
        members.push((6, uint(self.issued_at_ms)));
        members.extend(self.previous_until_ms.iter().map(|it| (7, uint(*it))));
        cose(&map(&members), &object_aad("althing/key-event/1", "", ""), signer)
    }
}

/// What an event holds of one key to come.
pub fn committed(seed: u8) -> Vec<u8> {
    bstr(&digest(public(seed).as_bytes()))
}

fn last_digest(log: &KeyLog) -> Vec<u8> {
    digest(log.to_bytes().last().expect("a log has an inception")).to_vec()
}

pub fn with(log: &KeyLog, event: Vec<u8>) -> Result<KeyLog, KeyLogError> {
    KeyLog::verify(&[log.to_bytes(), vec![event]].concat())
}

/// The rule that a rotation breaks when `change` was made to it.
fn broken(signer: u8, change: impl Fn(&mut Event)) -> String {
    let mut event = Event::rotation(&log());
    change(&mut event);
    match with(&log(), event.signed(&key(signer))) {
        Err(KeyLogError::Chain { at: 1, rule }) => rule.to_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn events_built_by_hand_are_what_the_crate_builds() {
    // P-43, P-44
    let first = Event {
        change: 1,
        sequence: 0,
        previous: None,
        key: public(PUBLISHER),
        next: Some([NEXT, AFTER_NEXT]),
        issued_at_ms: NOW_MS - 2 * HOUR_MS,
        previous_until_ms: None,
    };
    assert_eq!(vec![first.signed(&key(PUBLISHER))], log().to_bytes());
    let second = Event { previous_until_ms: Some(NOW_MS + HOUR_MS), ..Event::rotation(&log()) };
    assert_eq!(second.signed(&key(NEXT)), rotated().to_bytes()[1]);
    let third = Event {
        change: 3,
        sequence: 2,
        previous: Some(last_digest(&rotated())),
        key: public(AFTER_NEXT),
        next: None,
        issued_at_ms: NOW_MS,
        previous_until_ms: None,
    };
    let revoked = rotated().revoke(&key(AFTER_NEXT), NOW_MS).expect("a good revocation");
    assert_eq!(third.signed(&key(AFTER_NEXT)), revoked.to_bytes()[2]);
    assert_eq!(KeyLog::verify(&revoked.to_bytes()), Ok(revoked));
}

#[test]
fn each_rule_of_the_chain_has_its_own_refusal() {
    // P-43, P-44, P-45
    assert!(with(&log(), Event::rotation(&log()).signed(&key(NEXT))).is_ok());
    let late = NOW_MS - HOUR_MS + GRANT_LIFE_MAX_MS;
    assert_eq!(broken(STRANGER, |_| {}), "is not signed by the key that it names");
    assert_eq!(broken(STRANGER, |it| it.key = public(STRANGER)), "uses a key that was not committed to");
    assert_eq!(broken(PUBLISHER, |it| it.key = public(PUBLISHER)), "uses a key that was not committed to");
    assert_eq!(broken(NEXT, |it| it.next = None), "must commit to the next keys unless it revokes");
    assert_eq!(broken(NEXT, |it| it.change = 3), "must commit to the next keys unless it revokes");
    let unrepeated = "does not repeat the second key that the event before it committed to";
    for next in [[FOURTH, AFTER_NEXT], [FOURTH, FOURTH], [NEXT, AFTER_NEXT], [STRANGER, STRANGER]] {
        assert_eq!(broken(NEXT, |it| it.next = Some(next)), unrepeated);
    }
    assert_eq!(broken(NEXT, |it| it.change = 1), "is a second inception");
    assert_eq!(broken(NEXT, |it| it.sequence = 2), "has the wrong sequence");
    assert_eq!(broken(NEXT, |it| it.sequence = 0), "has the wrong sequence");
    assert_eq!(broken(NEXT, |it| it.previous = None), "does not name the event before it");
    assert_eq!(broken(NEXT, |it| it.previous = Some(vec![0; 32])), "does not name the event before it");
    assert_eq!(broken(NEXT, |it| it.issued_at_ms = NOW_MS - 2 * HOUR_MS - 1), "is older than the event before it");
    let overlong = broken(NEXT, |it| it.previous_until_ms = Some(late + 1));
    assert_eq!(overlong, "accepts the old key for more than 24 h");
    let kept = broken(NEXT, |it| (it.change, it.next, it.previous_until_ms) = (3, None, Some(NOW_MS)));
    assert_eq!(kept, "revokes and accepts the old key");
    let longest = Event { previous_until_ms: Some(late), ..Event::rotation(&log()) };
    assert!(with(&log(), longest.signed(&key(NEXT))).is_ok());
    // A revocation is the end.
    let revoked = log().revoke(&key(NEXT), NOW_MS).expect("a good revocation");
    let after = Event { issued_at_ms: NOW_MS, ..Event::rotation(&revoked) }.signed(&key(NEXT));
    assert_eq!(with(&revoked, after), Err(KeyLogError::Chain { at: 2, rule: "follows a revocation" }));
    assert_eq!(reason(revoked.rotate(&key(NEXT), public(FOURTH), NOW_MS, 0)), "KeyLogError::Chain");
}

#[test]
fn a_log_that_does_not_begin_with_an_inception_is_refused() {
    // P-44
    let first = |change: &dyn Fn(&mut Event)| {
        let mut event =
            Event { change: 1, sequence: 0, previous: None, key: public(PUBLISHER), ..Event::rotation(&log()) };
        change(&mut event);
        KeyLog::verify(&[event.signed(&key(PUBLISHER))])
    };
    assert!(first(&|_| {}).is_ok());
    let changes: [&dyn Fn(&mut Event); 5] = [
        &|it| it.change = 2,
        &|it| (it.change, it.next) = (3, None),
        &|it| it.sequence = 1,
        &|it| it.previous = Some(vec![0; 32]),
        &|it| it.previous_until_ms = Some(NOW_MS),
    ];
    for change in changes {
        assert_eq!(first(change), Err(KeyLogError::Chain { at: 0, rule: "is not an inception" }));
    }
    assert_eq!(reason(KeyLog::verify(&rotated().to_bytes()[1..])), "KeyLogError::Chain");
}

#[test]
fn an_event_commits_to_two_digests_and_to_nothing_of_another_shape() {
    // P-44, P-18
    let shape = "KeyLogError::Event(ObjectError::Shape)";
    for (name, next) in [
        ("one digest, not in an array", committed(AFTER_NEXT)),
        ("one digest", array(&[committed(AFTER_NEXT)])),
        ("three digests", array(&[committed(AFTER_NEXT), committed(FOURTH), committed(FIFTH)])),
        ("no digest", array(&[])),
        ("a digest of 31 bytes", array(&[committed(AFTER_NEXT), bstr(&[0; 31])])),
        ("a null in place of a digest", array(&[committed(AFTER_NEXT), vec![0xf6]])),
        ("null", vec![0xf6]),
    ] {
        let event = Event::rotation(&log()).with_next(next, &key(NEXT));
        assert_eq!(reason(with(&log(), event)), shape, "{name}");
    }
}

#[test]
fn an_event_signed_for_a_network_or_by_nobody_is_refused() {
    // P-43
    let payload = map(&[(0, uint(4))]);
    let elsewhere = cose(&payload, &object_aad("althing/key-event/1", NETWORK, ""), &key(PUBLISHER));
    let refused = KeyLog::verify(&[elsewhere]);
    assert_eq!(reason(refused), "KeyLogError::Event(ObjectError::Envelope(Sign1Error::Signature))");
    assert_eq!(reason(KeyLog::verify(&[grant().bytes])), "KeyLogError::Event(ObjectError::WrongKind)");
}

#[test]
fn the_thief_of_the_current_key_can_neither_rotate_nor_revoke_behind_the_last_event() {
    // P-44: pre-rotation. Nor can the thief of the key after the next.
    for seed in [PUBLISHER, AFTER_NEXT] {
        assert_eq!(reason(log().rotate(&key(seed), public(STRANGER), NOW_MS, 0)), "KeyLogError::Chain");
        assert_eq!(reason(log().revoke(&key(seed), NOW_MS)), "KeyLogError::Chain");
    }
    assert!(log().commits_to(public(NEXT)) && !log().commits_to(public(AFTER_NEXT)));
    assert!(log().commits_later_to(public(AFTER_NEXT)) && !log().commits_later_to(public(NEXT)));
    assert!(rotated().commits_to(public(AFTER_NEXT)) && rotated().commits_later_to(public(FOURTH)));
}

#[test]
fn a_publisher_is_the_digest_of_its_signed_inception() {
    // P-12, P-44
    assert_eq!(publisher().as_bytes(), &digest(&log().to_bytes()[0]));
    assert_eq!((rotated().publisher(), rotated_twice().publisher()), (publisher(), publisher()));
    assert_eq!(rotated_twice().inception(), log());
    for other in [
        begun(PUBLISHER, [NEXT, AFTER_NEXT], NOW_MS),
        begun(PUBLISHER, [NEXT, STRANGER], NOW_MS - 2 * HOUR_MS),
        begun(PUBLISHER, [STRANGER, AFTER_NEXT], NOW_MS - 2 * HOUR_MS),
        begun(STRANGER, [NEXT, AFTER_NEXT], NOW_MS - 2 * HOUR_MS),
    ] {
        assert_ne!(other.publisher(), publisher());
    }
}

#[test]
fn the_old_key_speaks_until_its_overlap_ends_and_the_new_one_at_once() {
    // P-46
    let until = NOW_MS + HOUR_MS;
    let log = rotated();
    assert_eq!(log.accepts(public(NEXT), NOW_MS), Ok(()));
    assert_eq!(log.accepts(public(PUBLISHER), until), Ok(()));
    for (key, now_ms) in [(public(PUBLISHER), until + 1), (public(AFTER_NEXT), NOW_MS), (public(STRANGER), NOW_MS)] {
        assert_eq!(log.accepts(key, now_ms), Err(KeyLogError::NotItsKey { key, publisher: publisher() }));
    }
    let without = self::log().rotate(&key(NEXT), public(FOURTH), NOW_MS, 0).expect("a good rotation");
    assert_eq!(reason(without.accepts(public(PUBLISHER), NOW_MS + 1)), "KeyLogError::NotItsKey");
    // Two rotations within the overlap: only the last key but one is old, the first is gone.
    let twice = log.rotate(&key(AFTER_NEXT), public(FIFTH), NOW_MS, HOUR_MS).expect("a good rotation");
    assert_eq!(twice.accepts(public(NEXT), NOW_MS), Ok(()));
    assert_eq!(reason(twice.accepts(public(PUBLISHER), NOW_MS)), "KeyLogError::NotItsKey");
}

#[test]
fn a_rotation_dated_into_the_future_does_not_stretch_the_overlap() {
    // P-46
    let year = 365 * 24 * HOUR_MS;
    let log = log().rotate(&key(NEXT), public(FOURTH), NOW_MS + year, HOUR_MS).expect("no clock is asked");
    assert_eq!(reason(log.accepts(public(PUBLISHER), NOW_MS)), "KeyLogError::NotItsKey");
    assert_eq!(log.accepts(public(NEXT), NOW_MS), Ok(()), "the new key speaks whatever the date");
    assert_eq!(log.accepts(public(PUBLISHER), NOW_MS + year - CLOCK_SKEW_MAX_MS), Ok(()));
}

#[test]
fn no_key_speaks_after_a_revocation() {
    // P-46
    let revoked = rotated().revoke(&key(AFTER_NEXT), NOW_MS).expect("a good revocation");
    for seed in [PUBLISHER, NEXT, AFTER_NEXT] {
        assert_eq!(revoked.accepts(public(seed), NOW_MS), Err(KeyLogError::Revoked(publisher())));
    }
}

#[test]
fn a_fork_or_a_shorter_log_does_not_continue_what_was_seen() {
    // P-48
    let (seen, fork) = (rotated(), log().revoke(&key(NEXT), NOW_MS).expect("a good revocation"));
    assert!(seen.continues(&log()) && seen.continues(&seen) && fork.continues(&log()));
    assert!(!log().continues(&seen), "an older log");
    assert!(!fork.continues(&seen) && !seen.continues(&fork), "two second events");
    assert_eq!(seen.relation(&fork), Relation::Contradicts);
    let other = begun(STRANGER, [NEXT, AFTER_NEXT], NOW_MS);
    assert!(!other.continues(&log()));
}

/// The secret key with this number among those that are made for one `purpose`.
pub fn numbered(purpose: u8, number: usize) -> SecretKey {
    let mut seed = [purpose; 32];
    seed[..8].copy_from_slice(&(number as u64).to_be_bytes());
    SecretKey::from_seed(&seed)
}

/// A log of so many events.
pub fn long_log(events: usize) -> KeyLog {
    let key = |at: usize| numbered(0x77, at);
    let first = keylog::inception(&key(0), [key(1).public(), key(2).public()], NOW_MS);
    let mut log = KeyLog::verify(&[first.bytes]).expect("a good log");
    for at in 1..events {
        log = log.rotate(&key(at), key(at + 2).public(), NOW_MS + at as u64, 0).expect("a good rotation");
    }
    log
}

#[test]
fn a_log_has_at_least_one_event_and_at_most_208() {
    // P-47
    assert_eq!(KeyLog::verify::<Vec<u8>>(&[]), Err(KeyLogError::Empty));
    let log = long_log(KEYLOG_EVENTS_MAX);
    let seed = |at: usize| numbered(0x77, at);
    assert_eq!(KeyLog::verify(&log.to_bytes()).as_ref(), Ok(&log));
    let next = KEYLOG_EVENTS_MAX;
    assert_eq!(log.rotate(&seed(next), seed(next + 2).public(), NOW_MS * 2, 0), Err(KeyLogError::TooLong));
    assert_eq!(log.revoke(&seed(next), NOW_MS * 2), Err(KeyLogError::TooLong));
    assert_eq!(KeyLog::verify(&vec![vec![]; KEYLOG_EVENTS_MAX + 1]), Err(KeyLogError::TooLong));
    let largest: usize = log.to_bytes().iter().map(Vec::len).sum();
    assert_eq!(largest, log.size());
    assert!(largest < 60 << 10, "the longest log leaves room in the evidence: {largest}");
}

#[test]
fn an_overlap_beyond_all_numbers_is_refused_and_does_not_overflow() {
    // P-45
    let refused = log().rotate(&key(NEXT), public(FOURTH), NOW_MS, u64::MAX);
    assert_eq!(refused, Err(KeyLogError::Chain { at: 1, rule: "accepts the old key for more than 24 h" }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES / 4))]

    #[test]
    fn events_left_out_repeated_or_exchanged_break_the_log(
        length in 2..6usize, a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>(), how in 0..3u8,
    ) {
        // P-44
        let log = long_log(length);
        let mut events = log.to_bytes();
        let (a, b) = (a.index(length), b.index(length));
        match how {
            // Without its end a log is an older log.
            0 if a + 1 < length => drop(events.remove(a)),
            1 => events.insert(b, log.to_bytes()[a].clone()),
            _ if a != b => events.swap(a, b),
            _ => return Ok(()),
        }
        let refused = KeyLog::verify(&events);
        prop_assert!(matches!(refused, Err(KeyLogError::Chain { .. })), "{refused:?}");
    }
}
