//! Ten thousand malformed messages, and arbitrary bytes at every entry: typed errors, no panic.

use std::collections::BTreeMap;

use althing_protocol::keylog::KeyEvent;
use althing_protocol::object::{self, Description, Grant, Membership, Placement, Statement};
use althing_protocol::{
    AgentId, CallerId, Evidence, FrameOpener, Hello, KeyLog, OwnerProof, PublicKey, PublisherId, cbor, sign1,
};
use proptest::prelude::*;

use crate::names::Name;
use crate::support::*;

/// Every public decoding entry, each with the reason it gave.
fn every_entry(bytes: &[u8]) -> Vec<Result<(), String>> {
    fn named<T, E: Name>(result: Result<T, E>) -> Result<(), String> {
        result.map(drop).map_err(|error| error.name())
    }
    fn object<T: Statement>(bytes: &[u8], network: &str) -> Result<(), String> {
        named(object::open::<T>(bytes, network, ""))
    }
    let text = String::from_utf8_lossy(bytes);
    let evidence = Evidence::decode(bytes);
    let verified = evidence.clone().and_then(|it| it.verify(NETWORK, &agent(), public(NODE), NOW_MS));
    vec![
        named(cbor::check(bytes, 1 << 20)),
        named(sign1::read(bytes, 1 << 20).and_then(|it| it.verify(&[]))),
        named(Hello::decode(bytes, NETWORK)),
        named(FrameOpener::new(&binding(), public(ACCEPTOR)).open(bytes)),
        object::<Description>(bytes, NETWORK),
        object::<Grant>(bytes, NETWORK),
        object::<Placement>(bytes, NETWORK),
        object::<KeyEvent>(bytes, ""),
        object::<Membership>(bytes, NETWORK),
        named(KeyLog::verify(&[bytes])),
        named(OwnerProof { membership: bytes.to_vec().into(), ..proof() }.verify(NETWORK)),
        named(OwnerProof { inception: bytes.to_vec().into(), ..proof() }.verify(NETWORK)),
        named(evidence),
        named(verified),
        named(PublicKey::from_did(&text)),
        named(PublicKey::from_peer_id(&text)),
        named(text.parse::<AgentId>()),
        named(text.parse::<PublisherId>()),
        named(text.parse::<CallerId>()),
        PublicKey::from_peer_id_bytes(bytes).map_or(Err(String::new()), named),
    ]
}

fn samples() -> Vec<Vec<u8>> {
    vec![
        sealed_request(),
        description().bytes,
        grant().bytes,
        placement().bytes,
        membership().bytes,
        rotated().to_bytes().remove(1),
        evidence().encode(),
        Hello { version: 1, challenge: [7; 32], network: NETWORK.to_owned(), owner: Some(proof()) }.encode(),
        agent().to_string().into_bytes(),
        publisher().to_string().into_bytes(),
        public(NODE).did().into_bytes(),
        public(NODE).peer_id().into_bytes(),
    ]
}

#[test]
fn ten_thousand_malformed_frames_and_objects_are_refused_with_a_reason() {
    // P-1 to P-18
    let mut dice = Dice(0x416c_7468_696e_6721);
    let mut reasons = BTreeMap::<String, u32>::new();
    let samples = &samples()[..6];
    for round in 0..10_000 {
        let bytes = dice.mutate(&samples[round % samples.len()]);
        // Without the validator, the header, the text and the opening: those may well accept what is no frame.
        for result in &every_entry(&bytes)[3..12] {
            let reason = result.clone().expect_err("a signature holds for one spelling only");
            *reasons.entry(reason).or_default() += 1;
        }
    }
    assert!(reasons.len() >= 40, "the mutations reach many reasons: {reasons:?}");
}

#[test]
fn ten_thousand_malformed_payloads_that_are_well_signed_are_refused_or_read_as_they_are() {
    // P-18, P-31, P-36: whoever signs, the payload is judged as strictly.
    let mut dice = Dice(0x5065_6572);
    let mut reasons = BTreeMap::<String, u32>::new();
    let payload = |bytes: &[u8]| sign1::read(bytes, 1 << 20).expect("a good sample").payload().to_vec();
    let frame = payload(&sealed_request());
    let (grant, placement) = (payload(&grant().bytes), payload(&placement().bytes));
    for round in 0..10_000 {
        let result = match round % 3 {
            0 => {
                let bytes = from_opener(&dice.mutate(&frame));
                let (mut sealer, mut opener) = towards_acceptor(&binding());
                opener.open(&bytes).map(|it| assert_eq!(sealer.seal(it).as_ref(), Ok(&bytes))).map_err(|it| it.name())
            }
            1 => signed::<Grant>(&dice.mutate(&grant), "althing/grant/1"),
            _ => signed::<Placement>(&dice.mutate(&placement), "althing/placement/1"),
        };
        *reasons.entry(result.err().unwrap_or_default()).or_default() += 1;
    }
    assert!(reasons.len() >= 20, "the mutations reach many reasons: {reasons:?}");
}

/// Opens `payload` under an honest signature; what is accepted must sign to the same bytes.
fn signed<T: Statement>(payload: &[u8], domain: &str) -> Result<(), String> {
    let bytes = cose(payload, &object_aad(domain, NETWORK, ""), &key(NODE));
    let opened = object::open::<T>(&bytes, NETWORK, "").map_err(|error| error.name())?;
    let again = object::sign(opened.body, NETWORK, "", &key(NODE)).map_err(|error| error.name())?;
    assert_eq!(again.bytes, bytes);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES * 2))]

    #[test]
    fn arbitrary_bytes_never_panic_and_are_no_frame_or_object(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(every_entry(&bytes)[3..14].iter().all(Result::is_err));
    }

    #[test]
    fn samples_cut_and_joined_never_panic(a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>()) {
        let samples = samples();
        let (a, b) = (&samples[a.index(samples.len())], &samples[b.index(samples.len())]);
        let bytes = [&a[..cut.index(a.len())], &b[cut.index(a.len()).min(b.len())..]].concat();
        let whole = samples.contains(&bytes);
        prop_assert!(whole || every_entry(&bytes)[3..12].iter().all(Result::is_err));
    }
}
