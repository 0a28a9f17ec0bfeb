//! P-24, P-48, P-67 to P-69: what is heard of keys, and what it makes of memberships and evidence.

use std::collections::BTreeSet;

use althing_protocol::keyring::{Keyring, KeyringError, News, Withdrawal, decode_known, encode_known};
use althing_protocol::object::{self, Grant, Membership};
use althing_protocol::{Authored, KeyLog, PublicKey};
use minicbor::bytes::ByteVec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::names::{Name as _, reason};
use crate::support::*;
use crate::vector_cases::{Case, case};
use crate::vector_runner::{hex, unhex};

/// The publisher's, for the node, signed by `signer`.
pub fn withdrawal(signer: u8, until_ms: u64) -> Authored<Withdrawal> {
    let body = Withdrawal::new(public(PUBLISHER), public(NODE), until_ms);
    object::sign(body, "", "", &key(signer)).expect("a good withdrawal")
}

fn membership_of(signer: u8, from_ms: u64) -> Authored<Membership> {
    let body = Membership::new(public(PUBLISHER), public(NODE), from_ms, from_ms + HOUR_MS);
    object::sign(body, NETWORK, "", &key(signer)).expect("a good membership")
}

fn after(logs: &[KeyLog]) -> Keyring {
    let mut ring = Keyring::default();
    logs.iter().for_each(|log| drop(ring.learn(log.clone())));
    ring
}

fn revoked() -> KeyLog {
    log().revoke(&key(NEXT), NOW_MS).expect("it may")
}

#[test]
fn a_membership_is_judged_by_the_longest_log_that_was_heard() {
    // P-24, P-69
    let by = |signer| membership_of(signer, NOW_MS);
    let owns = |ring: &Keyring, signer| ring.owns(&by(signer), public(NODE), NOW_MS);
    let nobody_heard = Keyring::default();
    assert_eq!(owns(&nobody_heard, PUBLISHER), Ok(public(PUBLISHER)));
    assert_eq!(reason(owns(&nobody_heard, NEXT)), "KeyringError::KeyLog(KeyLogError::NotItsKey)");
    assert_eq!(reason(owns(&nobody_heard, STRANGER)), "KeyringError::KeyLog(KeyLogError::NotItsKey)");
    let without_overlap = log().rotate(&key(NEXT), public(AFTER_NEXT), NOW_MS, 0).expect("it may");
    let heard = after(std::slice::from_ref(&without_overlap));
    assert_eq!(owns(&heard, NEXT), Ok(public(PUBLISHER)));
    let late = heard.owns(&by(PUBLISHER), public(NODE), NOW_MS + 1);
    assert_eq!(reason(late), "KeyringError::KeyLog(KeyLogError::NotItsKey)");
    let gone = after(&[revoked()]);
    for signer in [PUBLISHER, NEXT] {
        assert_eq!(reason(owns(&gone, signer)), "KeyringError::KeyLog(KeyLogError::Revoked)");
    }
    let elsewhere = nobody_heard.owns(&by(PUBLISHER), public(STRANGER), NOW_MS);
    assert_eq!(reason(elsewhere), "KeyringError::Object(ObjectError::WrongKey)");
    let over = nobody_heard.owns(&by(PUBLISHER), public(NODE), NOW_MS + HOUR_MS + 1);
    assert_eq!(reason(over), "KeyringError::Object(ObjectError::Expired)");
}

#[test]
fn evidence_of_an_old_key_holds_only_as_long_as_the_newest_log_says() {
    // P-69: what the evidence itself shows is the inception alone.
    let now_ms = NOW_MS;
    let verified = evidence().verify(NETWORK, &agent(), public(NODE), now_ms).expect("good evidence");
    assert_eq!(Keyring::default().holds(&verified, now_ms), Ok(()));
    let overlapping = log().rotate(&key(NEXT), public(AFTER_NEXT), now_ms, 1_000).expect("it may");
    let ring = after(&[overlapping]);
    assert_eq!(ring.holds(&verified, now_ms + 1_000), Ok(()));
    assert_eq!(reason(ring.holds(&verified, now_ms + 1_001)), "KeyringError::KeyLog(KeyLogError::NotItsKey)");
    assert_eq!(reason(after(&[revoked()]).holds(&verified, now_ms)), "KeyringError::KeyLog(KeyLogError::Revoked)");
    let mut ring = Keyring::default();
    assert_eq!(ring.withdraw(&withdrawal(PUBLISHER, now_ms).bytes, now_ms), Ok(true));
    assert_eq!(reason(ring.holds(&verified, now_ms)), "KeyringError::Withdrawn");
}

#[test]
fn a_withdrawal_takes_back_what_began_before_it_and_nothing_else() {
    // P-68
    let mut ring = Keyring::default();
    assert_eq!(ring.withdraw(&withdrawal(PUBLISHER, NOW_MS).bytes, NOW_MS), Ok(true));
    assert_eq!(ring.withdraw(&withdrawal(PUBLISHER, NOW_MS).bytes, NOW_MS), Ok(false));
    assert_eq!(ring.withdraw(&withdrawal(PUBLISHER, NOW_MS - 1).bytes, NOW_MS), Ok(false));
    let owns = |from_ms| ring.owns(&membership_of(PUBLISHER, from_ms), public(NODE), NOW_MS + 1);
    assert_eq!(reason(owns(NOW_MS)), "KeyringError::Withdrawn");
    assert_eq!(owns(NOW_MS + 1), Ok(public(PUBLISHER)));
    assert!(ring.stands(public(PUBLISHER), public(STRANGER), 0, NOW_MS).is_ok());
    assert!(ring.stands(public(STRANGER), public(NODE), 0, NOW_MS).is_ok());
    let refuses = |bytes: &[u8], now_ms| reason(Keyring::default().withdraw(bytes, now_ms));
    assert_eq!(refuses(&withdrawal(STRANGER, NOW_MS).bytes, NOW_MS), "KeyringError::KeyLog(KeyLogError::NotItsKey)");
    let day = 24 * HOUR_MS;
    let good = withdrawal(PUBLISHER, NOW_MS).bytes;
    assert_eq!(refuses(&good, NOW_MS + day + 1), "KeyringError::Object(ObjectError::Expired)");
    assert_eq!(refuses(&good, NOW_MS - 120_001), "KeyringError::Object(ObjectError::NotYetValid)");
    assert_eq!(refuses(&membership().bytes, NOW_MS), "KeyringError::Object(ObjectError::WrongKind)");
    for at in 0..good.len() {
        let mut bent = good.clone();
        bent[at] ^= 1;
        assert!(Keyring::default().withdraw(&bent, NOW_MS).is_err(), "byte {at}");
    }
}

#[test]
fn a_withdrawal_is_worth_what_its_signer_s_word_is_worth() {
    // P-68: the key that withdrew was rotated out; the new one says the same again, and counts.
    let mut ring = Keyring::default();
    assert_eq!(ring.withdraw(&withdrawal(PUBLISHER, NOW_MS).bytes, NOW_MS), Ok(true));
    ring.learn(log().rotate(&key(NEXT), public(AFTER_NEXT), NOW_MS, 0).expect("it may")).expect("a good log");
    let stands = |ring: &Keyring| ring.stands(public(PUBLISHER), public(NODE), NOW_MS, NOW_MS + 1).is_ok();
    assert!(stands(&ring), "whoever stole the old key withdraws nothing any more");
    assert_eq!(ring.withdraw(&withdrawal(NEXT, NOW_MS).bytes, NOW_MS + 1), Ok(true));
    assert!(!stands(&ring));
    assert_eq!(ring.withdraw(&withdrawal(NEXT, NOW_MS + 1).bytes, NOW_MS + 1), Ok(false), "no news without end");
}

#[test]
fn news_are_what_the_other_side_does_not_know() {
    // P-67
    let mut ring = after(&[rotated()]);
    ring.withdraw(&withdrawal(NEXT, NOW_MS).bytes, NOW_MS).expect("the new key speaks");
    let all = ring.news(&BTreeSet::new(), NOW_MS);
    let events: Vec<Vec<u8>> = rotated().to_bytes().iter().map(|event| bstr(event)).collect();
    let bytes = map(&[(0, array(&[array(&events)])), (1, array(&[bstr(&withdrawal(NEXT, NOW_MS).bytes)]))]);
    assert_eq!(all.encode(), bytes);
    assert_eq!(News::decode(&bytes), Ok(all));
    let known = ring.known();
    assert_eq!(known.len(), 2);
    assert!(ring.news(&known, NOW_MS).is_empty());
    assert!(ring.news(&BTreeSet::new(), NOW_MS + 25 * HOUR_MS).withdrawals.is_empty(), "it withdraws nothing any more");
    let asked = encode_known(&known);
    assert_eq!(asked, bstr(&known.iter().flatten().copied().collect::<Vec<u8>>()));
    assert_eq!(decode_known(&asked), Ok(known.clone()));
    let descending: Vec<u8> = known.iter().rev().flatten().copied().collect();
    for bad in [bstr(&[0; 31]), bstr(&descending), bstr(&[0; 64]), uint(1), vec![0x41]] {
        assert!(decode_known(&bad).is_err(), "{bad:?}");
    }
    for bad in [map(&[(0, array(&[]))]), map(&[(0, array(&[])), (1, array(&[])), (2, uint(0))]), vec![0xa0]] {
        assert_eq!(reason(News::decode(&bad)), "KeyringError::Shape");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    /// P-48, P-67: in whatever order news of one log come, and come again, the end is the same.
    #[test]
    fn logs_that_continue_each_other_come_to_the_longest(order in proptest::collection::vec(0..4_usize, 1..12)) {
        let mut stages = vec![log(), rotated()];
        let third = rotated().rotate(&key(AFTER_NEXT), public(STRANGER), NOW_MS, 0).expect("it may");
        stages.push(third.clone());
        stages.push(third.revoke(&key(STRANGER), NOW_MS).expect("it may"));
        let mut ring = Keyring::default();
        for stage in &order {
            ring.learn(stages[*stage].clone()).expect("none of them forks");
        }
        let longest = order.iter().max().copied().expect("one at least");
        let held = ring.log(public(PUBLISHER)).map_or(1, KeyLog::len);
        prop_assert_eq!(held, stages[longest].len());
    }
}

/// Takes the news of a vector in their order, and judges its membership.
pub fn run(input: &Value) -> Result<Value, String> {
    let now_ms = input["now_ms"].as_u64().expect("a number");
    let text = |member: &str| input[member].as_str().expect("text");
    let mut ring = Keyring::default();
    let named = |error: KeyringError| error.name();
    for news in input["news"].as_array().expect("a list") {
        let news = News::decode(&unhex(news.as_str().expect("hex"))).map_err(named)?;
        for log in &news.logs {
            let events: Vec<&[u8]> = log.iter().map(|event| event.as_slice()).collect();
            let log = KeyLog::verify(&events).map_err(|error| named(error.into()))?;
            ring.learn(log).map_err(named)?;
        }
        for withdrawal in &news.withdrawals {
            ring.withdraw(withdrawal, now_ms).map_err(named)?;
        }
    }
    let membership = object::open::<Membership>(&unhex(text("membership")), text("network"), "");
    let membership = membership.map_err(|error| named(error.into()))?;
    let node = PublicKey::from_did(text("node")).expect("a vector's context holds good keys");
    let owner = ring.owns(&membership, node, now_ms).map_err(named)?;
    Ok(json!({ "owner": owner.did() }))
}

/// The vectors of what is heard of keys.
pub fn vectors() -> Vec<Case> {
    let of = |name: &str, news: Vec<News>, membership: &Authored<Membership>, error: Option<&'static str>| {
        let news: Vec<String> = news.iter().map(|news| hex(&news.encode())).collect();
        let input = json!({ "network": NETWORK, "node": public(NODE).did(), "now_ms": NOW_MS, "news": news,
            "membership": hex(&membership.bytes) });
        case(name, input, error)
    };
    let logs = |log: &KeyLog| News {
        logs: vec![log.to_bytes().into_iter().map(ByteVec::from).collect()],
        withdrawals: Vec::new(),
    };
    let taken_back = |signer| News { logs: Vec::new(), withdrawals: vec![withdrawal(signer, NOW_MS).bytes.into()] };
    let (first, next) = (membership_of(PUBLISHER, NOW_MS), membership_of(NEXT, NOW_MS));
    let fork = log().rotate(&key(NEXT), public(STRANGER), NOW_MS, 0).expect("it may");
    let over = log().rotate(&key(NEXT), public(AFTER_NEXT), NOW_MS - HOUR_MS, HOUR_MS - 1).expect("it may");
    let not_its = Some("KeyringError::KeyLog(KeyLogError::NotItsKey)");
    let is_revoked = Some("KeyringError::KeyLog(KeyLogError::Revoked)");
    let grant = Grant::new(agent(), public(NODE), NOW_MS, NOW_MS + HOUR_MS);
    let grant = object::sign(grant, "", "", &key(PUBLISHER)).expect("a good grant").bytes;
    vec![
        of("the first key, and nothing was heard", vec![], &first, None),
        of("the next key, and nothing was heard", vec![], &next, not_its),
        of("the next key after its rotation was heard of", vec![logs(&rotated())], &next, None),
        of("the old key after its time", vec![logs(&over)], &first, not_its),
        of("the first key after the revocation", vec![logs(&revoked())], &first, is_revoked),
        of("a revocation that forks", vec![logs(&fork), logs(&revoked())], &next, Some("KeyringError::Forked")),
        of("a fork that came second", vec![logs(&rotated()), logs(&fork)], &next, Some("KeyringError::Forked")),
        of("a shorter log after a longer one", vec![logs(&over), logs(&log())], &first, not_its),
        of("withdrawn", vec![taken_back(PUBLISHER)], &first, Some("KeyringError::Withdrawn")),
        of("begun after the withdrawal", vec![taken_back(PUBLISHER)], &membership_of(PUBLISHER, NOW_MS + 1), None),
        of("a stranger's withdrawal", vec![taken_back(STRANGER)], &first, not_its),
        of(
            "a grant in the place of a withdrawal",
            vec![News { logs: Vec::new(), withdrawals: vec![grant.into()] }],
            &first,
            Some("KeyringError::Object(ObjectError::WrongKind)"),
        ),
    ]
}
