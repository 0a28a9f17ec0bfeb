//! P-24, P-48, P-67 to P-69: what is heard of keys, and what it makes of memberships and evidence.

use std::collections::BTreeSet;
use std::sync::Arc;

use althing_protocol::keyring::{
    Keyring, KeyringError, News, Origin, Row, Stored, Withdrawal, decode_known, encode_known,
};
use althing_protocol::object::{self, Grant, Membership};
use althing_protocol::{Authored, KeyLog, KeyLogError, OwnerProof, PublicKey, PublisherId, VerifiedOwner};
use minicbor::bytes::ByteVec;
use serde_json::{Value, json};

use crate::names::{Name as _, reason};
use crate::support::*;
use crate::vector_cases::{Case, case};
use crate::vector_runner::{hex, unhex};

/// The publisher's, for the node, signed by `signer`.
pub fn withdrawal(signer: u8, until_ms: u64) -> Authored<Withdrawal> {
    let body = Withdrawal::new(publisher(), public(NODE), until_ms);
    object::sign(body, "", "", &key(signer)).expect("a good withdrawal")
}

fn membership_of(signer: u8, from_ms: u64) -> Authored<Membership> {
    let body = Membership::new(publisher(), public(NODE), from_ms, from_ms + HOUR_MS);
    object::sign(body, NETWORK, "", &key(signer)).expect("a good membership")
}

/// What the node shows of its owner, by a membership of this signer.
pub fn shown(signer: u8, from_ms: u64) -> VerifiedOwner {
    OwnerProof::new(membership_of(signer, from_ms).bytes, &log()).verify(NETWORK).expect("a good proof")
}

/// A keyring that watches the publisher, and has heard of these logs.
pub fn after(logs: &[KeyLog]) -> Keyring {
    let mut ring = Keyring::default();
    ring.watch([publisher()]);
    logs.iter().for_each(|log| drop(learn(&mut ring, log)));
    ring
}

pub fn learn(ring: &mut Keyring, log: &KeyLog) -> Result<bool, KeyringError> {
    ring.learn(Arc::new(log.clone()), &Origin::default())
}

/// A withdrawal that came with the publisher's inception.
pub fn withdraw(ring: &mut Keyring, withdrawal: Authored<Withdrawal>, now_ms: u64) -> Result<bool, KeyringError> {
    ring.withdraw(withdrawal, Some(&Arc::new(log())), &Origin::default(), now_ms)
}

/// What is in use changes to these publishers.
pub fn in_use(ring: &mut Keyring, publishers: &[PublisherId]) {
    ring.set_in_use(publishers.iter().copied().collect());
}

pub fn revoked() -> KeyLog {
    log().revoke(&key(NEXT), NOW_MS).expect("it may")
}

#[test]
fn a_membership_is_judged_by_the_log_that_was_heard() {
    // P-24, P-69
    let owns = |ring: &Keyring, signer| ring.owns(&shown(signer, NOW_MS), public(NODE), NOW_MS);
    let nobody_heard = Keyring::default();
    assert_eq!(owns(&nobody_heard, PUBLISHER), Ok(publisher()));
    assert_eq!(reason(owns(&nobody_heard, NEXT)), "KeyringError::KeyLog(KeyLogError::NotItsKey)");
    assert_eq!(reason(owns(&nobody_heard, STRANGER)), "KeyringError::KeyLog(KeyLogError::NotItsKey)");
    let without_overlap = log().rotate(&key(NEXT), public(FOURTH), NOW_MS, 0).expect("it may");
    let heard = after(std::slice::from_ref(&without_overlap));
    assert_eq!(owns(&heard, NEXT), Ok(publisher()));
    let late = heard.owns(&shown(PUBLISHER, NOW_MS), public(NODE), NOW_MS + 1);
    assert_eq!(reason(late), "KeyringError::KeyLog(KeyLogError::NotItsKey)");
    let gone = after(&[revoked()]);
    for signer in [PUBLISHER, NEXT] {
        assert_eq!(reason(owns(&gone, signer)), "KeyringError::KeyLog(KeyLogError::Revoked)");
    }
    let elsewhere = nobody_heard.owns(&shown(PUBLISHER, NOW_MS), public(STRANGER), NOW_MS);
    assert_eq!(reason(elsewhere), "KeyringError::Object(ObjectError::WrongKey)");
    let over = nobody_heard.owns(&shown(PUBLISHER, NOW_MS), public(NODE), NOW_MS + HOUR_MS + 1);
    assert_eq!(reason(over), "KeyringError::Object(ObjectError::Expired)");
}

#[test]
fn a_key_is_judged_by_what_is_shown_where_nothing_was_heard_and_by_nothing_else() {
    // P-69
    let accepts =
        |ring: &Keyring, signer, shown: Option<&KeyLog>| ring.accepts(publisher(), public(signer), shown, NOW_MS);
    let nothing = Keyring::default();
    assert_eq!(accepts(&nothing, PUBLISHER, None), Err(KeyLogError::Unknown(publisher())));
    assert_eq!(accepts(&nothing, PUBLISHER, Some(&log())), Ok(()));
    assert_eq!(accepts(&nothing, AFTER_NEXT, Some(&rotated_twice())), Ok(()));
    assert_eq!(reason(accepts(&nothing, AFTER_NEXT, Some(&log()))), "KeyLogError::NotItsKey");
    let another = begun(STRANGER, [NEXT, AFTER_NEXT], NOW_MS);
    assert_eq!(accepts(&nothing, STRANGER, Some(&another)), Err(KeyLogError::Unknown(publisher())), "another's log");
    let heard = after(&[rotated_twice()]);
    assert_eq!(accepts(&heard, AFTER_NEXT, None), Ok(()));
    assert_eq!(accepts(&heard, AFTER_NEXT, Some(&log())), Ok(()), "a shorter log is shown");
    assert_eq!(reason(accepts(&heard, PUBLISHER, Some(&log()))), "KeyLogError::NotItsKey");
}

#[test]
fn what_changed_is_asked_for_once_and_says_what_is_to_be_kept() {
    let mut ring = Keyring::default();
    in_use(&mut ring, &[publisher()]);
    learn(&mut ring, &rotated()).expect("there is room");
    withdraw(&mut ring, withdrawal(NEXT, NOW_MS), NOW_MS).expect("the new key speaks");
    let rows = |ring: &mut Keyring| {
        ring.take_changed(9).into_iter().map(|(row, kept)| (row, kept.is_some())).collect::<Vec<_>>()
    };
    let (log_row, withdrawn) = (Row::Log(publisher()), Row::Withdrawal(publisher(), public(NODE)));
    assert_eq!(rows(&mut ring), [(log_row, true), (withdrawn, true)]);
    assert_eq!(rows(&mut ring), []);
    ring.put_back([withdrawn]);
    assert!(matches!(ring.take_changed(9)[..], [(_, Some(Stored::Withdrawal(_)))]));
    in_use(&mut ring, &[]);
    assert_eq!(ring.take_changed(1).len(), 1, "as many as were asked for");
    assert_eq!(rows(&mut ring), [(Row::Forgotten(publisher()), true)]);
}

#[test]
fn evidence_of_an_old_key_holds_only_as_long_as_the_newest_log_says() {
    // P-69: what the evidence itself shows is the inception alone.
    let now_ms = NOW_MS;
    let verified = evidence().verify(NETWORK, &agent(), public(NODE), now_ms).expect("good evidence");
    assert_eq!(Keyring::default().holds(&verified, now_ms), Ok(()));
    let overlapping = log().rotate(&key(NEXT), public(FOURTH), now_ms, 1_000).expect("it may");
    let ring = after(&[overlapping]);
    assert_eq!(ring.holds(&verified, now_ms + 1_000), Ok(()));
    assert_eq!(reason(ring.holds(&verified, now_ms + 1_001)), "KeyringError::KeyLog(KeyLogError::NotItsKey)");
    assert_eq!(reason(after(&[revoked()]).holds(&verified, now_ms)), "KeyringError::KeyLog(KeyLogError::Revoked)");
    let mut ring = after(&[]);
    assert_eq!(withdraw(&mut ring, withdrawal(PUBLISHER, now_ms), now_ms), Ok(true));
    assert_eq!(reason(ring.holds(&verified, now_ms)), "KeyringError::Withdrawn");
}

#[test]
fn a_withdrawal_takes_back_what_began_before_it_and_nothing_else() {
    // P-68
    let mut ring = after(&[]);
    assert_eq!(withdraw(&mut ring, withdrawal(PUBLISHER, NOW_MS), NOW_MS), Ok(true));
    assert_eq!(withdraw(&mut ring, withdrawal(PUBLISHER, NOW_MS), NOW_MS), Ok(false));
    assert_eq!(withdraw(&mut ring, withdrawal(PUBLISHER, NOW_MS - 1), NOW_MS), Ok(false));
    let owns = |from_ms| ring.owns(&shown(PUBLISHER, from_ms), public(NODE), NOW_MS + 1);
    assert_eq!(reason(owns(NOW_MS)), "KeyringError::Withdrawn");
    assert_eq!(owns(NOW_MS + 1), Ok(publisher()));
    assert!(ring.stands(publisher(), public(STRANGER), 0, NOW_MS).is_ok());
    assert!(ring.stands(PublisherId::from_digest([7; 32]), public(NODE), 0, NOW_MS).is_ok());
    let refuses = |signer, now_ms| reason(withdraw(&mut after(&[]), withdrawal(signer, NOW_MS), now_ms));
    assert_eq!(refuses(STRANGER, NOW_MS), "KeyringError::KeyLog(KeyLogError::NotItsKey)");
    let day = 24 * HOUR_MS;
    assert_eq!(refuses(PUBLISHER, NOW_MS + day + 1), "KeyringError::Object(ObjectError::Expired)");
    assert_eq!(refuses(PUBLISHER, NOW_MS - 120_001), "KeyringError::Object(ObjectError::NotYetValid)");
    let open = |bytes: &[u8]| object::open::<Withdrawal>(bytes, "", "");
    let good = withdrawal(PUBLISHER, NOW_MS).bytes;
    let members =
        [(0, uint(8)), (1, bstr(publisher().as_bytes())), (2, bstr(public(NODE).as_bytes())), (3, uint(NOW_MS))];
    assert_eq!(good, cose(&map(&members), &object_aad("althing/withdrawal/1", "", ""), &key(PUBLISHER)));
    assert_eq!(reason(open(&membership().bytes)), "ObjectError::WrongKind");
    for at in 0..good.len() {
        let mut bent = good.clone();
        bent[at] ^= 1;
        assert!(open(&bent).is_err(), "byte {at}");
    }
}

#[test]
fn a_withdrawal_by_an_owner_that_never_rotated_is_judged_by_the_inception_that_came_with_it() {
    // P-68, P-67: a digest names no key.
    let mut ring = after(&[]);
    let unknown = ring.withdraw(withdrawal(PUBLISHER, NOW_MS), None, &Origin::default(), NOW_MS);
    assert_eq!(unknown, Err(KeyringError::KeyLog(KeyLogError::Unknown(publisher()))));
    let thiefs = Arc::new(begun(STRANGER, [NEXT, AFTER_NEXT], NOW_MS));
    let by_another = ring.withdraw(withdrawal(STRANGER, NOW_MS), Some(&thiefs), &Origin::default(), NOW_MS);
    assert_eq!(by_another, Err(KeyringError::KeyLog(KeyLogError::Unknown(publisher()))), "the log of somebody else");
    assert_eq!(withdraw(&mut ring, withdrawal(PUBLISHER, NOW_MS), NOW_MS), Ok(true));
    assert_eq!(reason(ring.stands(publisher(), public(NODE), NOW_MS, NOW_MS)), "KeyringError::Withdrawn");
    // So the next node is told both, and needs nothing else.
    let news = ring.news(&BTreeSet::new(), NOW_MS).to_news();
    let inception = array(&[array(&[bstr(&log().to_bytes()[0])])]);
    let bytes = map(&[(0, inception), (1, array(&[bstr(&withdrawal(PUBLISHER, NOW_MS).bytes)]))]);
    assert_eq!(news.encode(), bytes);
    let mut next = after(&[]);
    assert_eq!(taken(&mut next, &bytes), Ok(()));
    assert_eq!(reason(next.stands(publisher(), public(NODE), NOW_MS, NOW_MS)), "KeyringError::Withdrawn");
}

#[test]
fn a_withdrawal_outlasts_that_nothing_of_its_publisher_is_in_use() {
    // P-68: the node that it shut out was the last that was in use, and comes back with what it had.
    let mut ring = Keyring::default();
    in_use(&mut ring, &[publisher()]);
    assert_eq!(withdraw(&mut ring, withdrawal(PUBLISHER, NOW_MS), NOW_MS), Ok(true));
    in_use(&mut ring, &[]);
    in_use(&mut ring, &[publisher()]);
    let back = ring.owns(&shown(PUBLISHER, NOW_MS), public(NODE), NOW_MS);
    assert_eq!(reason(back), "KeyringError::Withdrawn");
}

#[test]
fn a_withdrawal_is_worth_what_its_signer_s_word_is_worth() {
    // P-68: the key that withdrew was rotated out; the new one says the same again, and counts.
    let mut ring = after(&[]);
    assert_eq!(withdraw(&mut ring, withdrawal(PUBLISHER, NOW_MS), NOW_MS), Ok(true));
    let without_overlap = log().rotate(&key(NEXT), public(FOURTH), NOW_MS, 0).expect("it may");
    assert_eq!(learn(&mut ring, &without_overlap), Ok(true));
    let stands = |ring: &Keyring| ring.stands(publisher(), public(NODE), NOW_MS, NOW_MS + 1).is_ok();
    assert!(stands(&ring), "whoever stole the old key withdraws nothing any more");
    assert_eq!(withdraw(&mut ring, withdrawal(NEXT, NOW_MS), NOW_MS + 1), Ok(true));
    assert!(!stands(&ring));
    assert_eq!(withdraw(&mut ring, withdrawal(NEXT, NOW_MS + 1), NOW_MS + 1), Ok(false), "no news without end");
}

#[test]
fn news_are_what_the_other_side_does_not_know() {
    // P-67
    let mut ring = after(&[rotated()]);
    withdraw(&mut ring, withdrawal(NEXT, NOW_MS), NOW_MS).expect("the new key speaks");
    let all = ring.news(&BTreeSet::new(), NOW_MS).to_news();
    let events: Vec<Vec<u8>> = rotated().to_bytes().iter().map(|event| bstr(event)).collect();
    let bytes = map(&[(0, array(&[array(&events)])), (1, array(&[bstr(&withdrawal(NEXT, NOW_MS).bytes)]))]);
    assert_eq!(all.encode(), bytes);
    assert_eq!(News::decode(&bytes), Ok(all));
    let known = ring.known();
    assert_eq!(known, BTreeSet::from([rotated().head(), withdrawal(NEXT, NOW_MS).digest()]));
    assert!(ring.news(&known, NOW_MS).to_news().is_empty());
    let later = ring.news(&BTreeSet::new(), NOW_MS + 25 * HOUR_MS).to_news();
    assert!(later.withdrawals.is_empty(), "it withdraws nothing any more");
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

/// Takes news as a node does: each log, then each withdrawal by the log that came with it.
fn taken(ring: &mut Keyring, bytes: &[u8]) -> Result<(), KeyringError> {
    let news = News::decode(bytes)?;
    let mut shown = Vec::new();
    for log in &news.logs {
        let events: Vec<&[u8]> = log.iter().map(|event| event.as_slice()).collect();
        let log = Arc::new(KeyLog::verify(&events)?);
        ring.learn(log.clone(), &Origin::default())?;
        shown.push(log);
    }
    for withdrawal in &news.withdrawals {
        let withdrawal = object::open::<Withdrawal>(withdrawal, "", "")?;
        let by = shown.iter().find(|log| log.publisher() == withdrawal.body.publisher);
        ring.withdraw(withdrawal, by, &Origin::default(), NOW_MS)?;
    }
    Ok(())
}

/// Takes the news of a vector in their order, and judges its proof of an owner.
pub fn run(input: &Value) -> Result<Value, String> {
    let now_ms = input["now_ms"].as_u64().expect("a number");
    assert_eq!(now_ms, NOW_MS, "news are taken at this time");
    let text = |member: &str| input[member].as_str().expect("text");
    let mut ring = Keyring::default();
    let used = input["in_use"].as_array().expect("a list").iter();
    in_use(
        &mut ring,
        &used.map(|urn| urn.as_str().and_then(|urn| urn.parse().ok()).expect("a publisher")).collect::<Vec<_>>(),
    );
    for news in input["news"].as_array().expect("a list") {
        taken(&mut ring, &unhex(news.as_str().expect("hex"))).map_err(|error| error.name())?;
    }
    let proof = OwnerProof { membership: unhex(text("membership")).into(), inception: unhex(text("inception")).into() };
    let shown = proof.verify(text("network")).map_err(|error| error.name())?;
    let node = PublicKey::from_did(text("node")).expect("a vector's context holds good keys");
    let owner = ring.owns(&shown, node, now_ms).map_err(|error| error.name())?;
    Ok(json!({ "owner": owner.to_string() }))
}

/// The vectors of what is heard of keys.
pub fn vectors() -> Vec<Case> {
    let by = |name: &str,
              news: Vec<News>,
              membership: &Authored<Membership>,
              inception: &KeyLog,
              error: Option<&'static str>| {
        let news: Vec<String> = news.iter().map(|news| hex(&news.encode())).collect();
        let input = json!({ "network": NETWORK, "node": public(NODE).did(), "now_ms": NOW_MS,
            "in_use": [publisher().to_string()], "news": news, "membership": hex(&membership.bytes),
            "inception": hex(&inception.to_bytes()[0]) });
        case(name, input, error)
    };
    let of = |name: &str, news: Vec<News>, membership: &Authored<Membership>, error: Option<&'static str>| {
        by(name, news, membership, &log(), error)
    };
    let events = |log: &KeyLog| log.to_bytes().into_iter().map(ByteVec::from).collect::<Vec<_>>();
    let logs = |log: &KeyLog| News { logs: vec![events(log)], withdrawals: Vec::new() };
    let taken_back =
        |signer| News { logs: vec![events(&log())], withdrawals: vec![withdrawal(signer, NOW_MS).bytes.into()] };
    let (first, next, third) = (shown_as(PUBLISHER), shown_as(NEXT), shown_as(AFTER_NEXT));
    let [fork, ended] = crate::stolen_keys::stolen();
    let second = begun(PUBLISHER, [STRANGER, STRANGER], NOW_MS);
    let over = log().rotate(&key(NEXT), public(FOURTH), NOW_MS - HOUR_MS, HOUR_MS - 1).expect("it may");
    let not_its = Some("KeyringError::KeyLog(KeyLogError::NotItsKey)");
    let is_revoked = Some("KeyringError::KeyLog(KeyLogError::Revoked)");
    let forked = Some("KeyringError::Forked");
    let grant = Grant::new(agent(), public(NODE), NOW_MS, NOW_MS + HOUR_MS);
    let grant = object::sign(grant, "", "", &key(PUBLISHER)).expect("a good grant").bytes;
    let alone = News { logs: Vec::new(), withdrawals: taken_back(PUBLISHER).withdrawals };
    vec![
        of("the first key, and nothing was heard", vec![], &first, None),
        of("the next key, and nothing was heard", vec![], &next, not_its),
        by("a second inception by the first key", vec![], &first, &second, Some("OwnerProofError::Mismatch")),
        of("the next key after its rotation was heard of", vec![logs(&rotated())], &next, None),
        of("the old key after its time", vec![logs(&over)], &first, not_its),
        of("the first key after the revocation", vec![logs(&revoked())], &first, is_revoked),
        of("a revocation that forks", vec![logs(&rotated()), logs(&ended)], &next, forked),
        of("a fork that came second", vec![logs(&rotated()), logs(&fork)], &next, forked),
        of("one event against one that came first", vec![logs(&fork), logs(&rotated())], &next, forked),
        of("two events against a rotation that came first", vec![logs(&fork), logs(&rotated_twice())], &third, None),
        of("two events against a revocation that came first", vec![logs(&ended), logs(&rotated_twice())], &third, None),
        of("one event against two that came first", vec![logs(&rotated_twice()), logs(&fork)], &third, forked),
        of("a shorter log after a longer one", vec![logs(&over), logs(&log())], &first, not_its),
        of("a log of a publisher that is not in use", vec![logs(&second)], &first, Some("KeyringError::NotInUse")),
        of("withdrawn", vec![taken_back(PUBLISHER)], &first, Some("KeyringError::Withdrawn")),
        of("begun after the withdrawal", vec![taken_back(PUBLISHER)], &membership_of(PUBLISHER, NOW_MS + 1), None),
        of(
            "a withdrawal without the log of its publisher",
            vec![alone],
            &first,
            Some("KeyringError::KeyLog(KeyLogError::Unknown)"),
        ),
        of("a stranger's withdrawal", vec![taken_back(STRANGER)], &first, not_its),
        of(
            "a grant in the place of a withdrawal",
            vec![News { logs: Vec::new(), withdrawals: vec![grant.into()] }],
            &first,
            Some("KeyringError::Object(ObjectError::WrongKind)"),
        ),
    ]
}

fn shown_as(signer: u8) -> Authored<Membership> {
    membership_of(signer, NOW_MS)
}
