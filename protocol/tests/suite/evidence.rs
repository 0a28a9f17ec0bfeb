//! Evidence: description, grant and key log together.

use althing_protocol::limits::*;
use althing_protocol::object::{self, Description, Grant};
use althing_protocol::{AgentId, Evidence, EvidenceError, KeyLog, SecretKey, VerifiedAgent, keylog};
use proptest::prelude::*;

use crate::names::reason;
use crate::support::*;

fn verify(evidence: &Evidence) -> Result<VerifiedAgent, EvidenceError> {
    evidence.verify(NETWORK, &agent(), public(NODE), NOW_MS)
}

fn grant_by(signer: u8, body: Grant) -> Vec<u8> {
    object::sign(body, NETWORK, "", &key(signer)).expect("a good grant").bytes
}

#[test]
fn good_evidence_is_accepted_and_encodes_to_itself() {
    // P-49, P-50
    let verified = verify(&evidence()).expect("good evidence");
    assert_eq!((&verified.agent, verified.node), (&agent(), public(NODE)));
    assert_eq!(verified.evidence(), evidence());
    assert_eq!(verified.digests(), (description().digest(), grant().digest()));
    let events = log().to_bytes().iter().map(|event| bstr(event)).collect::<Vec<_>>();
    let by_hand = map(&[(0, array(&events)), (1, bstr(&description().bytes)), (2, bstr(&grant().bytes))]);
    assert_eq!(evidence().encode(), by_hand);
    assert_eq!(Evidence::decode(&by_hand), Ok(evidence()));
}

#[test]
fn evidence_without_a_grant_or_of_another_shape_is_refused() {
    // P-49
    let log = array(&[bstr(&log().to_bytes()[0])]);
    let (description, grant) = (bstr(&description().bytes), bstr(&grant().bytes));
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("no grant", map(&[(0, log.clone()), (1, description.clone())]), "EvidenceError::Shape"),
        ("null grant", map(&[(0, log.clone()), (1, description.clone()), (2, vec![0xf6])]), "EvidenceError::Shape"),
        (
            "unknown member",
            map(&[(0, log.clone()), (1, description.clone()), (2, grant.clone()), (3, uint(0))]),
            "EvidenceError::Shape",
        ),
        (
            "too many events",
            map(&[(0, array(&vec![bstr(&[]); KEYLOG_EVENTS_MAX + 1])), (1, description.clone()), (2, grant.clone())]),
            "EvidenceError::Shape",
        ),
        ("unsorted", map(&[(1, description), (0, log), (2, grant)]), "EvidenceError::Cbor(CborError::Unsorted)"),
        ("too long", vec![0; BODY_BYTES_MAX + 1], "EvidenceError::Cbor(CborError::Size)"),
    ];
    for (name, bytes, expected) in cases {
        assert_eq!(reason(Evidence::decode(&bytes)), expected, "{name}");
    }
    let empty = evidence_of(&self::log(), self::description().bytes, vec![]);
    assert_eq!(
        reason(verify(&empty)),
        "EvidenceError::Grant(ObjectError::Envelope(Sign1Error::Cbor(CborError::Truncated)))"
    );
}

#[test]
fn an_expired_early_or_foreign_grant_is_refused() {
    // P-50
    let with = |grant: Vec<u8>| reason(verify(&evidence_of(&log(), description().bytes, grant)));
    let timed = |from, until| grant_by(PUBLISHER, Grant::new(agent(), public(NODE), from, until));
    let expired = timed(NOW_MS - HOUR_MS, NOW_MS - 1);
    assert_eq!(with(expired), "EvidenceError::Grant(ObjectError::Expired)");
    let early = timed(NOW_MS + CLOCK_SKEW_MAX_MS + 1, NOW_MS + HOUR_MS);
    assert_eq!(with(early), "EvidenceError::Grant(ObjectError::NotYetValid)");
    let good = grant().body;
    let strangers = grant_by(STRANGER, good.clone());
    assert_eq!(with(strangers), "EvidenceError::KeyLog(KeyLogError::NotItsKey)");
    let by_node = grant_by(NODE, good.clone());
    assert_eq!(with(by_node), "EvidenceError::KeyLog(KeyLogError::NotItsKey)");
    let for_node = grant_by(PUBLISHER, Grant::new(agent(), public(STRANGER), good.not_before_ms, good.not_after_ms));
    assert_eq!(with(for_node), "EvidenceError::Mismatch");
    let other = named("other");
    let of_agent = grant_by(PUBLISHER, Grant::new(other, public(NODE), good.not_before_ms, good.not_after_ms));
    assert_eq!(with(of_agent), "EvidenceError::Mismatch");
    assert_eq!(with(membership().bytes), "EvidenceError::Grant(ObjectError::WrongKind)");
}

#[test]
fn a_description_of_another_agent_signer_network_or_kind_is_refused() {
    // P-50
    let with = |description: Vec<u8>| reason(verify(&evidence_of(&log(), description, grant().bytes)));
    let sign = |body: Description, network: &str, signer: u8| {
        object::sign(body, network, "", &key(signer)).expect("a good description").bytes
    };
    let good = description().body;
    assert_eq!(with(sign(good.clone(), NETWORK, STRANGER)), "EvidenceError::KeyLog(KeyLogError::NotItsKey)");
    assert_eq!(
        with(sign(good.clone(), "othernet", PUBLISHER)),
        "EvidenceError::Description(ObjectError::Envelope(Sign1Error::Signature))"
    );
    let other = named("other");
    let of_agent = Description::new(other, 7, NOW_MS, good.td);
    assert_eq!(with(sign(of_agent, NETWORK, PUBLISHER)), "EvidenceError::Mismatch");
    assert_eq!(with(grant().bytes), "EvidenceError::Description(ObjectError::WrongKind)");
    let asked = evidence().verify(NETWORK, &agent(), public(STRANGER), NOW_MS);
    assert_eq!(reason(asked), "EvidenceError::Mismatch", "asked about another node");
}

#[test]
fn the_log_of_another_publisher_is_refused() {
    // P-50
    let other = begun(STRANGER, [NEXT, AFTER_NEXT], NOW_MS);
    let refused = verify(&evidence_of(&other, description().bytes, grant().bytes));
    assert_eq!(reason(refused), "EvidenceError::Mismatch");
    let none = Evidence { key_log: vec![], ..evidence() };
    assert_eq!(reason(verify(&none)), "EvidenceError::KeyLog(KeyLogError::Empty)");
}

#[test]
fn what_an_old_key_signed_holds_only_within_its_overlap_and_nothing_after_a_revocation() {
    // P-46, P-50
    let old = evidence_of(&rotated(), description().bytes, grant().bytes);
    assert!(verify(&old).is_ok());
    let until = Grant::new(agent(), public(NODE), NOW_MS, NOW_MS + 3 * HOUR_MS);
    let old = evidence_of(&rotated(), description().bytes, grant_by(PUBLISHER, until));
    let later = old.verify(NETWORK, &agent(), public(NODE), NOW_MS + HOUR_MS + 1);
    assert_eq!(reason(later), "EvidenceError::KeyLog(KeyLogError::NotItsKey)");
    let revoked = rotated().revoke(&key(AFTER_NEXT), NOW_MS).expect("a good revocation");
    let refused = verify(&evidence_of(&revoked, description().bytes, grant().bytes));
    assert_eq!(reason(refused), "EvidenceError::KeyLog(KeyLogError::Revoked)");
}

#[test]
fn a_description_from_the_future_is_refused() {
    // P-50
    let issued = |at_ms: u64| {
        let body = Description::new(agent(), 1, at_ms, b"{}".to_vec());
        object::sign(body, NETWORK, "", &key(PUBLISHER)).expect("a description").bytes
    };
    assert!(verify(&evidence_of(&log(), issued(NOW_MS + 120_000), grant().bytes)).is_ok());
    for far in [NOW_MS + 120_001, u64::MAX] {
        let refused = verify(&evidence_of(&log(), issued(far), grant().bytes));
        assert_eq!(reason(refused), "EvidenceError::Description(ObjectError::NotYetValid)");
    }
}

#[test]
fn the_largest_parts_that_are_accepted_alone_fit_into_evidence_together() {
    // P-37, P-49
    let name = "x".repeat(AGENT_NAME_MAX);
    let seed = |at: usize| SecretKey::from_seed(&[at as u8; 32]);
    let first = keylog::inception(&seed(1), [seed(2).public(), seed(3).public()], NOW_MS);
    let mut log = KeyLog::verify(&[first.bytes]).expect("a good log");
    for at in 2..=KEYLOG_EVENTS_MAX {
        log = log.rotate(&seed(at), seed(at + 2).public(), NOW_MS, HOUR_MS).expect("a good rotation");
    }
    let agent = AgentId::new(log.publisher(), &name).expect("a good name");
    let signer = seed(KEYLOG_EVENTS_MAX);
    let body = Description::new(agent.clone(), u64::MAX, NOW_MS, vec![b' '; OBJECT_BYTES_MAX - 256 - 160]);
    let description = object::sign(body, NETWORK, "", &signer).expect("just below the limit");
    let grant = Grant::new(agent.clone(), public(NODE), NOW_MS, NOW_MS + HOUR_MS);
    let grant = object::sign(grant, NETWORK, "", &signer).expect("a good grant");
    let bytes = evidence_of(&log, description.bytes, grant.bytes).encode();
    let read = Evidence::decode(&bytes).expect("it fits");
    assert!(read.verify(NETWORK, &agent, public(NODE), NOW_MS).is_ok());
}

#[test]
fn a_question_about_an_agent_is_one_cbor_text() {
    // P-51
    let body = tstr(&agent().to_string());
    assert_eq!(althing_protocol::cbor::check(&body, 1 << 10), Ok(()));
    assert_eq!(agent(), agent().to_string().parse().expect("it was printed"));
    assert_eq!(body[..2], [0x78, 64], "12 + 47 + 1 + 4 characters");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn accepted_evidence_encodes_to_the_same_bytes(
        at in any::<prop::sample::Index>(), byte in any::<u8>(), how in 0..3u8,
    ) {
        // P-18, P-49
        let mut bytes = evidence().encode();
        let at = at.index(bytes.len());
        match how {
            0 => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            _ => drop(bytes.remove(at)),
        }
        if let Ok(accepted) = Evidence::decode(&bytes) {
            prop_assert_eq!(accepted.encode(), bytes.clone());
            prop_assert_eq!(verify(&accepted).is_ok(), bytes == evidence().encode());
        }
    }
}
