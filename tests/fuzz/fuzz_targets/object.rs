//! Any bytes as an authored object of each kind, and any bytes as a payload under an honest signature: what is accepted
//! signs to the same bytes.
#![no_main]

use std::collections::BTreeSet;
use std::sync::LazyLock;

use althing_protocol::binding::Binding;
use althing_protocol::keylog::KeyEvent;
use althing_protocol::keyring::Withdrawal;
use althing_protocol::object::{
    self, Description, Grant, Handoff, HandoffAnswer, Kind, Membership, OwnerOrder, Placement, Statement, TaskMove,
};
use althing_protocol::record::Contact;
use althing_protocol::registry::{Attestation, Mark, Release, Roster, Visit};
use althing_protocol::sign_off::{self, SshSignature};
use althing_protocol::{KeyLog, SecretKey, cbor, sign1};
use libfuzzer_sys::fuzz_target;

const NETWORK: &str = "testnet";
const NOW_MS: u64 = 1_700_000_000_000;

/// The keys of `protocol/vectors/objects.json`.
static KEYS: LazyLock<Vec<SecretKey>> =
    LazyLock::new(|| (1..=9).map(|seed| SecretKey::from_seed(&[seed; 32])).collect());

/// `external_aad` of an object: domain, network, scope; all shorter than 256 bytes.
fn aad(kind: Kind, network: &str) -> Vec<u8> {
    let domain = match kind {
        Kind::Description => "althing/description/1",
        Kind::Grant => "althing/grant/1",
        Kind::Placement => "althing/placement/1",
        Kind::KeyEvent => "althing/key-event/1",
        Kind::Membership => "althing/membership/1",
        Kind::Binding => "althing/binding/1",
        Kind::Contact => "althing/contact/1",
        Kind::Withdrawal => "althing/withdrawal/1",
        Kind::Release => "althing/release/1",
        Kind::Mark => "althing/mark/1",
        Kind::Roster => "althing/roster/1",
        Kind::Attestation => "althing/attestation/1",
        Kind::Visit => "althing/visit/1",
        Kind::TaskMove => "althing/task-move/1",
        Kind::Handoff => "althing/handoff/1",
        Kind::HandoffAnswer => "althing/handoff-answer/1",
        Kind::OwnerOrder => "althing/owner-order/1",
        other => unreachable!("{other:?} is a kind of groups: group.rs"),
    };
    let mut bytes = vec![0x83];
    for text in [domain, network, ""] {
        match u8::try_from(text.len()).expect("short") {
            length @ 0..24 => bytes.push(0x60 | length),
            length => bytes.extend([0x78, length]),
        }
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

/// Returns whether the bytes were accepted.
fn accepted_signs_to_itself<T: Statement>(bytes: &[u8], network: &str) -> bool {
    let Ok(object) = object::open::<T>(bytes, network, "") else { return false };
    assert_eq!(object.bytes, bytes);
    if let Some(key) = KEYS.iter().find(|key| key.public() == object.signer) {
        let again = object::sign(object.body, network, "", key).expect("it was accepted");
        assert_eq!(again.bytes, bytes, "accepted bytes sign to themselves");
    }
    true
}

fn every_kind(bytes: &[u8]) -> usize {
    if let Ok(placement) = object::open::<Placement>(bytes, NETWORK, "") {
        let _ = placement.believable(NOW_MS);
    }
    if let Ok(grant) = object::open::<Grant>(bytes, NETWORK, "") {
        let _ = grant.body.in_force(NOW_MS);
    }
    if let Ok(handoff) = object::open::<Handoff>(bytes, NETWORK, "") {
        let _ = handoff.body.check_approval(None, &BTreeSet::new(), NOW_MS);
        let again = handoff.body.clone().with_signature(NETWORK, &handoff.signer, &handoff.signature());
        assert_eq!(again.as_ref(), Ok(&handoff), "a view with the signature is the object");
    }
    if let Ok(log) = KeyLog::verify(&[bytes]) {
        let _ = log.accepts(log.current(), NOW_MS);
    }
    [
        accepted_signs_to_itself::<Description>(bytes, NETWORK),
        accepted_signs_to_itself::<Grant>(bytes, NETWORK),
        accepted_signs_to_itself::<Placement>(bytes, NETWORK),
        accepted_signs_to_itself::<KeyEvent>(bytes, ""),
        accepted_signs_to_itself::<Membership>(bytes, NETWORK),
        accepted_signs_to_itself::<Binding>(bytes, NETWORK),
        accepted_signs_to_itself::<Contact>(bytes, NETWORK),
        accepted_signs_to_itself::<Withdrawal>(bytes, ""),
        accepted_signs_to_itself::<Release>(bytes, NETWORK),
        accepted_signs_to_itself::<Mark>(bytes, NETWORK),
        accepted_signs_to_itself::<Roster>(bytes, NETWORK),
        accepted_signs_to_itself::<Attestation>(bytes, NETWORK),
        accepted_signs_to_itself::<Visit>(bytes, NETWORK),
        accepted_signs_to_itself::<TaskMove>(bytes, NETWORK),
        accepted_signs_to_itself::<Handoff>(bytes, NETWORK),
        accepted_signs_to_itself::<HandoffAnswer>(bytes, NETWORK),
        accepted_signs_to_itself::<OwnerOrder>(bytes, ""),
    ]
    .iter()
    .filter(|accepted| **accepted)
    .count()
}

fuzz_target!(|data: &[u8]| {
    if let Ok(signature) = SshSignature::read(data) {
        let _ = signature.verifies(data);
        assert_eq!(sign_off::unarmor(&sign_off::armor(data)).as_deref(), Ok(data), "its text is read again");
    }
    assert!(every_kind(data) <= 1, "bytes are an object of one kind at most");
    // Beyond the signature: the payload of what may be an envelope, signed as the kind that member 0 claims.
    let envelope = sign1::read(data, 1 << 19);
    let payload = envelope.as_ref().map_or(data, |envelope| envelope.payload());
    if cbor::check(payload, 1 << 19).is_ok() {
        let kind = match payload.get(2) {
            Some(1) => Kind::Description,
            Some(2) => Kind::Grant,
            Some(3) => Kind::Placement,
            Some(4) => Kind::KeyEvent,
            Some(6) => Kind::Binding,
            Some(7) => Kind::Contact,
            Some(8) => Kind::Withdrawal,
            Some(15) => Kind::Release,
            Some(16) => Kind::Mark,
            Some(17) => Kind::Roster,
            Some(18) => Kind::Attestation,
            Some(19) => Kind::Visit,
            Some(20) => Kind::TaskMove,
            Some(21) => Kind::Handoff,
            Some(22) => Kind::HandoffAnswer,
            Some(24) => Kind::OwnerOrder,
            _ => Kind::Membership,
        };
        let network = if matches!(kind, Kind::KeyEvent | Kind::Withdrawal | Kind::OwnerOrder) { "" } else { NETWORK };
        let bytes = sign1::seal(payload.to_vec(), &aad(kind, network), &KEYS[2]);
        assert!(every_kind(&bytes) <= 1, "bytes are an object of one kind at most");
    }
});
