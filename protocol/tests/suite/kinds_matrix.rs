//! Threats row 5: nothing that was signed as one thing is ever read as another.

use althing_protocol::binding::Binding;
use althing_protocol::group::{Batch, Charter, Deployment, Dissolution, Expulsion, Invitation};
use althing_protocol::keylog::KeyEvent;
use althing_protocol::keyring::Withdrawal;
use althing_protocol::object::{
    self, Description, Grant, Handoff, HandoffAnswer, Membership, OrderSubject, OrderWord, OwnerOrder, Placement,
    TaskMove,
};
use althing_protocol::record::Contact;
use althing_protocol::registry::{Attestation, Mark, Release, Roster, Visit};
use althing_protocol::sign1;
use althing_protocol::{FrameOpener, PublicKey};

use crate::support::*;

const KINDS: [&str; 24] = [
    "frame",
    "description",
    "grant",
    "placement",
    "key event",
    "membership",
    "binding",
    "contact",
    "withdrawal",
    "charter",
    "invitation",
    "expulsion",
    "dissolution",
    "group commands",
    "deployment",
    "release",
    "mark",
    "roster",
    "attestation",
    "visit",
    "task move",
    "handoff",
    "handoff answer",
    "owner order",
];

fn domain(kind: usize) -> String {
    format!("althing/{}/1", KINDS[kind].replace(' ', "-"))
}

/// The context in which `signer` signs each kind honestly; key events, withdrawals and orders of owners belong to no network.
fn aad(kind: usize, signer: PublicKey) -> Vec<u8> {
    match kind {
        0 => frame_aad(&binding(), signer, public(ACCEPTOR)),
        4 | 8 | 23 => object_aad(&domain(kind), "", ""),
        _ => object_aad(&domain(kind), NETWORK, ""),
    }
}

/// A good payload of each kind, and who signs it here: the opener, so that no difference of keys helps.
fn payloads() -> Vec<Vec<u8>> {
    let signed = [
        sealed_request(),
        description().bytes,
        grant().bytes,
        placement().bytes,
        log().to_bytes().remove(0),
        membership().bytes,
        sealed_binding().bytes,
        crate::records::contact().bytes,
        crate::keyring::withdrawal(OPENER, NOW_MS).bytes,
    ];
    let signed = signed.into_iter().chain(crate::groups::one_of_each()).chain(crate::registry::one_of_each());
    let signed =
        signed.chain([task_move().bytes, crate::handoffs::handoff().bytes, crate::handoff_answers::answer().bytes]);
    let order = OwnerOrder::new(log().publisher(), OrderSubject::AllAgents(OrderWord::Revoke), NOW_MS);
    let order = object::sign(order, "", "", &key(OPENER)).expect("an order");
    let signed = signed.chain([order.bytes]);
    signed.map(|bytes| sign1::read(&bytes, 1 << 20).expect("a good sample").payload().to_vec()).collect()
}

/// Does a reader of `kind` accept these bytes?
fn reads(kind: usize, bytes: &[u8]) -> bool {
    match kind {
        0 => FrameOpener::new(&binding(), public(ACCEPTOR)).open(bytes).is_ok(),
        1 => object::open::<Description>(bytes, NETWORK, "").is_ok(),
        2 => object::open::<Grant>(bytes, NETWORK, "").is_ok(),
        3 => object::open::<Placement>(bytes, NETWORK, "").is_ok(),
        4 => object::open::<KeyEvent>(bytes, "", "").is_ok(),
        5 => object::open::<Membership>(bytes, NETWORK, "").is_ok(),
        6 => object::open::<Binding>(bytes, NETWORK, "").is_ok(),
        7 => object::open::<Contact>(bytes, NETWORK, "").is_ok(),
        8 => object::open::<Withdrawal>(bytes, "", "").is_ok(),
        9 => object::open::<Charter>(bytes, NETWORK, "").is_ok(),
        10 => object::open::<Invitation>(bytes, NETWORK, "").is_ok(),
        11 => object::open::<Expulsion>(bytes, NETWORK, "").is_ok(),
        12 => object::open::<Dissolution>(bytes, NETWORK, "").is_ok(),
        13 => object::open::<Batch>(bytes, NETWORK, "").is_ok(),
        14 => object::open::<Deployment>(bytes, NETWORK, "").is_ok(),
        15 => object::open::<Release>(bytes, NETWORK, "").is_ok(),
        16 => object::open::<Mark>(bytes, NETWORK, "").is_ok(),
        17 => object::open::<Roster>(bytes, NETWORK, "").is_ok(),
        18 => object::open::<Attestation>(bytes, NETWORK, "").is_ok(),
        19 => object::open::<Visit>(bytes, NETWORK, "").is_ok(),
        20 => object::open::<TaskMove>(bytes, NETWORK, "").is_ok(),
        21 => object::open::<Handoff>(bytes, NETWORK, "").is_ok(),
        22 => object::open::<HandoffAnswer>(bytes, NETWORK, "").is_ok(),
        _ => object::open::<OwnerOrder>(bytes, "", "").is_ok(),
    }
}

#[test]
fn only_a_payload_of_the_kind_signed_as_the_kind_is_read_as_the_kind() {
    // P-25, P-35, P-36: payload × context of the signature × reader.
    let signer = key(OPENER);
    for (payload_kind, payload) in payloads().iter().enumerate() {
        for (signed_as, context) in KINDS.iter().enumerate() {
            let bytes = cose(payload, &aad(signed_as, signer.public()), &signer);
            for (reader, wanted) in KINDS.iter().enumerate() {
                assert_eq!(
                    reads(reader, &bytes),
                    payload_kind == signed_as && signed_as == reader,
                    "a {} signed as a {context}, read as a {wanted}",
                    KINDS[payload_kind]
                );
            }
        }
    }
}

#[test]
fn an_object_whose_kind_was_rewritten_is_refused_by_its_signature() {
    // P-35, P-36: member 0 says what the reader wants, the signature says the truth.
    let signer = key(OPENER);
    for (signed_as, payload) in payloads().iter().enumerate().skip(1) {
        for reader in (1..KINDS.len()).filter(|reader| *reader != signed_as) {
            assert_eq!(payload[1], 0, "member 0 comes first");
            let rest = if payload[2] == 0x18 { &payload[4..] } else { &payload[3..] };
            let relabelled = [&payload[..2], &uint(reader as u64), rest].concat();
            let bytes = cose(&relabelled, &aad(signed_as, signer.public()), &signer);
            assert!(!reads(reader, &bytes), "{} as {}", KINDS[signed_as], KINDS[reader]);
        }
    }
}

#[test]
fn every_domain_string_differs_and_is_no_prefix_of_another() {
    let domains: Vec<String> = (0..KINDS.len()).map(domain).collect();
    for (at, a) in domains.iter().enumerate() {
        assert!(domains.iter().enumerate().all(|(other, b)| at == other || !b.starts_with(a.as_str())), "{a}");
    }
    assert_eq!(domains[4], "althing/key-event/1");
}
