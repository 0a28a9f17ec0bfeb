use super::*;
use crate::SecretKey;
use crate::keylog;
use crate::limits::{BODY_BYTES_MAX, KEYLOG_EVENTS_MAX, KEYRING_FORGOTTEN_MAX};

const NOW: u64 = 1_800_000_000_000;

/// The secret key with this number among those that are made for one `purpose`.
fn numbered(number: usize, purpose: u8) -> SecretKey {
    let mut seed = [purpose; 32];
    seed[..8].copy_from_slice(&number.to_be_bytes());
    SecretKey::from_seed(&seed)
}

/// The log with this number, of so many events.
fn log(number: usize, events: usize) -> Arc<KeyLog> {
    let key = |at: usize| numbered(number * 1_000 + at, 1);
    let first = keylog::inception(&key(0), [key(1).public(), key(2).public()], NOW);
    let mut log = KeyLog::verify(&[first.bytes]).expect("an inception");
    for at in 1..events {
        log = log.rotate(&key(at), key(at + 2).public(), NOW, 0).expect("it may");
    }
    Arc::new(log)
}

fn from(origin: usize) -> Origin {
    format!("origin {origin}").into()
}

/// Takes a log of a stranger that comes into use.
fn take(ring: &mut Keyring, log: &Arc<KeyLog>, origin: usize) -> Result<bool, KeyringError> {
    ring.use_publisher(log.publisher());
    ring.learn(log.clone(), &from(origin))
}

#[test]
fn one_origin_fills_its_share_and_others_and_the_watched_have_room() {
    let share = (KEYRING_LOGS_MAX - KEPT_FOR_WATCHED) / ORIGIN_SHARES;
    let mut ring = Keyring::default();
    for number in 0..share {
        assert_eq!(take(&mut ring, &log(number, 2), 0), Ok(true));
    }
    let next = log(share, 2);
    assert_eq!(take(&mut ring, &next, 0), Err(KeyringError::Full));
    assert_eq!(take(&mut ring, &next, 1), Ok(true), "another origin has room");
    let more = log(0, 3);
    assert_eq!(take(&mut ring, &more, 0), Ok(true), "what is kept may go on");
    let trusted = log(share + 1, 2);
    ring.watch([trusted.publisher()]);
    assert_eq!(take(&mut ring, &trusted, 0), Ok(true), "wherever it comes from");
}

#[test]
fn one_origin_fills_its_share_of_bytes_with_the_longest_logs() {
    let mut ring = Keyring::default();
    let share = KEYRING_STRANGERS_BYTES_MAX / ORIGIN_SHARES;
    let mut taken = 0;
    let (first, rest) = (log(0, KEYLOG_EVENTS_MAX), log(1, KEYLOG_EVENTS_MAX));
    let fit = share / first.size();
    assert!((20..40).contains(&fit), "{fit} of the longest");
    assert_eq!(take(&mut ring, &rest, 0), Ok(true));
    // The longest log, cut to many shorter ones, fills the room as well; so this is not about their count.
    for number in 2..2 + fit {
        taken += usize::from(take(&mut ring, &log(number, KEYLOG_EVENTS_MAX), 0) == Ok(true));
    }
    assert_eq!(taken, fit - 1);
    assert_eq!(take(&mut ring, &first, 0), Err(KeyringError::Full));
    assert_eq!(take(&mut ring, &first, 1), Ok(true));
}

#[test]
fn strangers_of_many_origins_leave_room_for_the_watched() {
    let mut ring = Keyring::default();
    let room = KEYRING_LOGS_MAX - KEPT_FOR_WATCHED;
    for number in 0..room {
        assert_eq!(take(&mut ring, &log(number, 2), number % ORIGIN_SHARES), Ok(true));
    }
    let one_more = log(room, 2);
    assert_eq!(take(&mut ring, &one_more, ORIGIN_SHARES), Err(KeyringError::Full));
    ring.watch([one_more.publisher()]);
    assert_eq!(take(&mut ring, &one_more, ORIGIN_SHARES), Ok(true));
    // Strangers who are not in use any more make room for others.
    ring.set_in_use(BTreeSet::new());
    assert_eq!(ring.logs().map(|log| log.publisher()).collect::<Vec<_>>(), [one_more.publisher()]);
    assert_eq!(ring.forgotten().count(), room);
    assert_eq!(take(&mut ring, &log(room + 1, 2), 0), Ok(true));
}

#[test]
fn withdrawals_of_those_who_are_not_in_use_give_way() {
    let mut ring = Keyring::default();
    let withdraw = |ring: &mut Keyring, number: usize, node: usize, now_ms: u64| {
        let log = log(number, 1);
        ring.use_publisher(log.publisher());
        let body = Withdrawal::new(log.publisher(), numbered(node, 2).public(), now_ms);
        let withdrawal = object::sign(body, "", "", &numbered(number * 1_000, 1)).expect("a good withdrawal");
        ring.withdraw(withdrawal, Some(&log), &from(number / 6), now_ms)
    };
    let room = KEYRING_WITHDRAWALS_MAX - KEPT_FOR_WATCHED;
    let publishers = room / STRANGERS_WITHDRAWALS;
    let of_origin = publishers / ORIGIN_SHARES;
    assert_eq!(of_origin, 6, "as many come from one origin here");
    for number in 0..publishers {
        if number == of_origin {
            // All that one sender can make up takes no more than its share.
            let log = log(publishers + 1, 1);
            ring.use_publisher(log.publisher());
            let body = Withdrawal::new(log.publisher(), numbered(0, 2).public(), NOW);
            let more = object::sign(body, "", "", &numbered((publishers + 1) * 1_000, 1)).expect("a good withdrawal");
            assert_eq!(ring.withdraw(more, Some(&log), &from(0), NOW), Err(KeyringError::Full));
        }
        for node in 0..STRANGERS_WITHDRAWALS {
            assert_eq!(withdraw(&mut ring, number, node, NOW), Ok(true));
        }
    }
    assert_eq!(withdraw(&mut ring, 0, STRANGERS_WITHDRAWALS, NOW), Err(KeyringError::Full), "its share is full");
    assert_eq!(withdraw(&mut ring, publishers, 0, NOW), Err(KeyringError::Full), "all are in use");
    ring.set_in_use(BTreeSet::from([log(0, 1).publisher()]));
    assert_eq!(ring.withdrawals().count(), room, "nobody needs the room yet");
    assert_eq!(withdraw(&mut ring, publishers, 0, NOW), Ok(true));
    assert_eq!(ring.withdrawals().count(), STRANGERS_WITHDRAWALS + 1);
    // What is over takes up no share.
    let tomorrow = NOW + GRANT_LIFE_MAX_MS + 1;
    assert_eq!(withdraw(&mut ring, 0, STRANGERS_WITHDRAWALS, tomorrow), Ok(true));
}

#[test]
fn no_more_is_remembered_of_what_was_forgotten_than_there_is_room_for() {
    let mut ring = Keyring::default();
    let of = |number: u64| {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_be_bytes());
        let origin = Some("flood".to_owned());
        Forgotten { publisher: PublisherId::from_digest(digest), events: 2, last: digest, before: digest, origin }
    };
    let honest = |number: u64| Forgotten { origin: Some("honest".to_owned()), ..of(1 << 60 | number) };
    let room = KEYRING_FORGOTTEN_MAX as u64;
    ring.recall(honest(0));
    (0..=room).for_each(|number| ring.recall(of(number)));
    assert_eq!(ring.forgotten().count() as u64, room);
    let remembers = |ring: &Keyring, wanted: &Forgotten| ring.forgotten().any(|forgotten| forgotten == wanted);
    assert!(remembers(&ring, &honest(0)), "who floods pushes out its own");
    assert!(!remembers(&ring, &of(0)) && !remembers(&ring, &of(1)), "the oldest first");
    ring.recall(honest(1));
    assert!(remembers(&ring, &honest(1)) && !remembers(&ring, &of(2)), "there is always room for another origin");
    // Newer news of somebody who is remembered need no more room.
    let newer = Forgotten { events: 3, ..of(9) };
    ring.recall(newer.clone());
    assert!(remembers(&ring, &newer) && remembers(&ring, &of(10)));
}

#[test]
fn one_log_that_does_not_fit_keeps_no_other_out_of_the_news() {
    let mut ring = Keyring::default();
    // Twenty of 200 events do not fit into one message, and a short one does beside those that do.
    for number in 0..24 {
        let log = log(number, if number == 23 { 2 } else { 200 });
        assert_eq!(take(&mut ring, &log, number), Ok(true));
    }
    let news = ring.news(&BTreeSet::new(), NOW).to_news();
    assert!(news.encode().len() <= BODY_BYTES_MAX);
    assert!(news.logs.len() < 24 && news.logs.iter().any(|events| events.len() == 2), "{}", news.logs.len());
    assert!(News::decode(&news.encode()).is_ok());
}

#[test]
fn a_withdrawal_is_told_with_the_log_to_judge_it_by_or_not_at_all() {
    let mut ring = Keyring::default();
    let node = numbered(0, 2).public();
    for number in 0..24 {
        let log = log(number, 200);
        assert_eq!(take(&mut ring, &log, number), Ok(true));
        let body = Withdrawal::new(log.publisher(), node, NOW);
        let withdrawal = object::sign(body, "", "", &numbered(number * 1_000 + 199, 1)).expect("a good withdrawal");
        assert_eq!(ring.withdraw(withdrawal, None, &from(number), NOW), Ok(true));
    }
    let publishers = |news: &News| -> Vec<PublisherId> {
        let first = |events: &Vec<minicbor::bytes::ByteVec>| PublisherId::from_digest(crate::digest(&events[0]));
        news.logs.iter().map(first).collect()
    };
    let withdrawn = |news: &News| -> Vec<PublisherId> {
        let open = |bytes: &minicbor::bytes::ByteVec| object::open::<Withdrawal>(bytes, "", "").expect("as signed");
        news.withdrawals.iter().map(|bytes| open(bytes).body.publisher).collect()
    };
    let news = ring.news(&BTreeSet::new(), NOW).to_news();
    assert!((2..24).contains(&news.withdrawals.len()), "{} fit", news.withdrawals.len());
    assert_eq!(publishers(&news), withdrawn(&news));
    // Those who know the logs are told the withdrawals alone.
    let known = ring.logs().map(|log| log.head()).collect();
    let news = ring.news(&known, NOW).to_news();
    assert_eq!((news.logs.len(), news.withdrawals.len()), (0, 24));
}

#[test]
fn of_two_that_part_the_first_stays_until_one_goes_on() {
    let mut ring = Keyring::default();
    let begun = log(1, 1);
    let key = |at: usize| numbered(1_000 + at, 1);
    let thief = numbered(0, 3).public();
    let here = begun.rotate(&key(1), thief, NOW, 0).map(Arc::new).expect("with the key it holds");
    let there = log(1, 2);
    let forked = Err(KeyringError::Forked(begun.publisher()));
    assert_eq!(take(&mut ring, &begun, 0), Ok(false), "an inception says nothing that its name does not");
    assert_eq!(take(&mut ring, &here, 0), Ok(true));
    assert_eq!((take(&mut ring, &here, 0), take(&mut ring, &begun, 0)), (Ok(false), Ok(false)));
    assert_eq!(take(&mut ring, &there, 0), forked);
    let ended = begun.revoke(&key(1), NOW).map(Arc::new).expect("with the key it holds");
    assert_eq!(take(&mut ring, &ended, 0), forked, "not even a revocation");
    let there = log(1, 3);
    assert_eq!(take(&mut ring, &there, 0), Ok(true));
    assert!(ring.knows(&there.head()) && !ring.knows(&here.head()));
    assert_eq!(take(&mut ring, &here, 0), forked);
    let last = there.revoke(&key(3), NOW).map(Arc::new).expect("it may");
    assert_eq!(take(&mut ring, &last, 0), Ok(true));
    let revoked = Err(KeyLogError::Revoked(begun.publisher()));
    assert_eq!(ring.accepts(begun.publisher(), key(2).public(), Some(&there), NOW), revoked);
}
