//! What a registry shows of attestations, built by hand.

use althing_protocol::registry::{
    Attestation, Attestations, Blueprint, ReleaseError, Subject, VerifiedAttestation, Version,
};
use althing_protocol::{KeyLog, PublisherId};
use serde_json::json;

use crate::names::reason;
use crate::registry::*;
use crate::registry_evidence::*;
use crate::registry_log::*;
use crate::support::*;

/// An attestation of the publisher.
fn attestation() -> Vec<u8> {
    signed(attestation_body(), &key(PUBLISHER)).bytes
}

/// The log: the publisher's keys, its attestation, one that somebody else signed for it, one of another network.
fn told() -> Registry {
    let other = signed(attestation_body(), &key(STRANGER)).bytes;
    let domain = object_aad("althing/attestation/1", "another", "");
    let elsewhere = cose(&map(&attestation_members()), &domain, &key(PUBLISHER));
    Registry(vec![
        Told(18, NOW_MS, attestation()),
        Told(18, NOW_MS, other),
        Told(18, NOW_MS, elsewhere),
        Told(4, NOW_MS, log().to_bytes().remove(0)),
        Told(16, NOW_MS, attestation()),
    ])
}

fn page_of(shown: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let one = |(log, logged): &(Vec<u8>, Vec<u8>)| map(&[(0, log.clone()), (1, logged.clone())]);
    map(&[(0, array(&shown.iter().map(one).collect::<Vec<_>>()))])
}

/// A page with the attestations at these places of the log.
pub fn page(indexes: &[usize]) -> Vec<u8> {
    let one = |index: &usize| (events(&log()), told().logged(*index));
    page_of(&indexes.iter().map(one).collect::<Vec<_>>())
}

fn verified(bytes: &[u8], now_ms: u64) -> Result<Vec<Result<VerifiedAttestation, ReleaseError>>, ReleaseError> {
    Attestations::decode(bytes)?.verify(NETWORK, &registry_key(), now_ms, |_| None)
}

/// Why the only one on a page does not count.
fn refused(bytes: &[u8], now_ms: u64) -> String {
    let all = verified(bytes, now_ms).expect("a page");
    assert_eq!(all.len(), 1);
    reason(all.into_iter().next().expect("one"))
}

#[test]
fn an_attestation_counts_that_its_signer_signed_and_the_log_has() {
    // P-187
    let all = verified(&page(&[0]), NOW_MS + DAY_MS).expect("a page");
    let one = all.into_iter().next().expect("one").expect("it counts");
    assert_eq!((one.attestation.body, one.accepted_ms), (attestation_body(), NOW_MS));
    assert_eq!(verified(&page(&[]), NOW_MS).expect("a page").len(), 0);
}

#[test]
fn what_is_forged_over_or_of_another_context_does_not_count() {
    // P-187: each by itself, so that one that is wrong hides none that is right.
    assert_eq!(refused(&page(&[1]), NOW_MS), "ReleaseError::KeyLog(KeyLogError::NotItsKey)");
    assert_eq!(refused(&page(&[2]), NOW_MS), "ReleaseError::Object(ObjectError::Envelope(Sign1Error::Signature))");
    assert_eq!(refused(&page(&[0]), NOW_MS + DAY_MS + 1), "ReleaseError::Object(ObjectError::Expired)");
    // The log has it as an entry of another kind, or not at that time.
    assert!(refused(&page(&[4]), NOW_MS).starts_with("ReleaseError::Proof"));
    let late = logged_with(&attestation(), NOW_MS + 1, &proof_of(&told().entries(), 0));
    assert!(refused(&page_of(&[(events(&log()), late)]), NOW_MS).starts_with("ReleaseError::Proof"));
    // Another statement with the proof of this one.
    let other = with("attestation", 4, Some(tstr("other")));
    let other = logged_with(&other, NOW_MS, &proof_of(&told().entries(), 0));
    assert!(refused(&page_of(&[(events(&log()), other)]), NOW_MS).starts_with("ReleaseError::Proof"));
    // The key log of somebody else, to whom the key belongs that signed.
    let stranger = page_of(&[(events(&approver()), told().logged(1))]);
    assert_eq!(refused(&stranger, NOW_MS), "ReleaseError::Signer");
    let all = verified(&page(&[1, 0]), NOW_MS).expect("a page");
    assert_eq!(all.iter().filter(|one| one.is_ok()).count(), 1);
}

#[test]
fn all_proofs_of_a_page_are_under_one_checkpoint() {
    // P-187
    let earlier = Registry(told().0[..2].to_vec()).logged(0);
    let bytes = page_of(&[(events(&log()), told().logged(0)), (events(&log()), earlier)]);
    assert_eq!(reason(verified(&bytes, NOW_MS)), "ReleaseError::Checkpoints");
}

#[test]
fn a_key_log_that_the_reader_knows_counts_unless_a_longer_one_is_shown() {
    // P-187: the reader heard that the publisher revoked its keys, and the registry shows that no more.
    let revoked = |publisher: PublisherId| -> Option<KeyLog> {
        assert_eq!(publisher, self::publisher());
        log().revoke(&key(NEXT), NOW_MS + 1).ok()
    };
    let read = Attestations::decode(&page(&[0])).expect("a page");
    let all = read.verify(NETWORK, &registry_key(), NOW_MS, revoked).expect("a page");
    assert!(matches!(&all[..], [Err(ReleaseError::KeyLog(_))]), "{all:?}");
}

#[test]
fn a_page_has_one_encoding_and_bounds() {
    // P-187, P-18
    let bytes = page(&[0]);
    assert_eq!(Attestations::decode(&bytes).map(|read| read.encode()), Ok(bytes.clone()));
    let more = [&[0xa2], &bytes[1..], &[0x02, 0x00]].concat();
    assert_eq!(reason(Attestations::decode(&more)), "ReleaseError::Shape");
    let many: Vec<_> = (0..65).map(|_| (events(&log()), told().logged(0))).collect();
    assert_eq!(reason(Attestations::decode(&page_of(&many))), "ReleaseError::Shape");
    assert!(Attestations::decode(&page_of(&many[..64])).is_ok());
}

#[test]
fn an_attestation_is_of_one_subject() {
    // P-164
    let version: Version = "1.2.3".parse().expect("a version");
    assert_eq!(attestation_body().subject(), Some(Subject::Agent(agent(), Some(version))));
    let model = Blueprint { model: "m".to_owned(), machine: "n".to_owned() };
    let subject = Subject::Blueprint(model);
    let body = Attestation::of(publisher(), subject.clone(), "blueprint", &json!(1), NOW_MS, NOW_MS + 1);
    assert_eq!(body.subject(), Some(subject));
    let both = changed(body, |it: &mut Attestation| it.agent = Some(agent()));
    assert_eq!(both.subject(), None);
}
