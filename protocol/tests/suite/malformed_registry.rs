//! Malformed documents of registries: typed errors, no panic, and what is accepted is what was written.

use std::collections::BTreeMap;

use althing_protocol::registry::{
    Attestations, BundleFiles, Domain, DomainFinding, Entry, NameEvidence, Presence, Receipt, ReleaseError,
    ReleaseEvidence, SignIn, Submission, Version,
};
use althing_protocol::tlog::{Checkpoint, LogProof, NoteKey};
use proptest::prelude::*;

use crate::names::Name;
use crate::registry::*;
use crate::registry_evidence::*;
use crate::registry_log::*;
use crate::support::*;

/// Every decoding entry of a registry's documents, each with the reason it gave, and whether what it accepted is proven.
fn every_entry(bytes: &[u8]) -> Vec<Result<(), String>> {
    fn named<T, E: Name>(result: Result<T, E>) -> Result<(), String> {
        result.map(drop).map_err(|error| error.name())
    }
    fn same<T, E: Name>(read: Result<T, E>, bytes: &[u8], written: impl Fn(&T) -> Vec<u8>) -> Result<(), String> {
        named(read.inspect(|read| assert_eq!(written(read), bytes, "accepted bytes encode to themselves")))
    }
    let (text, key) = (String::from_utf8_lossy(bytes), registry_key());
    let release = ReleaseEvidence::decode(bytes);
    let verified = release.clone().and_then(|it| it.verify(NETWORK, &agent(), &version("1.2.3"), &key));
    let name = NameEvidence::decode(bytes).and_then(|it| it.verify(NETWORK, (&domain(), "echo"), &key, NOW_MS));
    let visit = SignIn::decode(bytes).and_then(|it| it.verify(NETWORK, &key, NOW_MS));
    let presence = Presence::decode(bytes).and_then(|it| it.verify(NETWORK, NOW_MS));
    let attested = Attestations::decode(bytes).and_then(|it| it.verify(NETWORK, &key, NOW_MS, |_| None));
    let attested = attested.and_then(|all| all.into_iter().collect::<Result<Vec<_>, _>>()).and_then(|all| {
        // An empty page proves nothing.
        if all.is_empty() { Err(ReleaseError::Shape(String::new())) } else { Ok(()) }
    });
    vec![
        named(verified),
        named(name),
        named(visit),
        named(presence),
        named(attested),
        named(Checkpoint::open(&text, &key)),
        same(release, bytes, ReleaseEvidence::encode),
        same(NameEvidence::decode(bytes), bytes, NameEvidence::encode),
        same(Attestations::decode(bytes), bytes, Attestations::encode),
        same(SignIn::decode(bytes), bytes, SignIn::encode),
        same(Presence::decode(bytes), bytes, Presence::encode),
        same(Submission::decode(bytes), bytes, Submission::encode),
        same(Receipt::decode(bytes), bytes, Receipt::encode),
        same(BundleFiles::decode(bytes), bytes, |it| it.encode().expect("it was accepted")),
        Entry::decode(bytes).map(|it| assert_eq!(it.encode(), bytes)).ok_or_else(|| "Entry".to_owned()),
        DomainFinding::decode(bytes).map(|it| assert_eq!(it.encode(), bytes)).ok_or_else(|| "DomainFinding".to_owned()),
        named(text.parse::<LogProof>()),
        named(text.parse::<NoteKey>().inspect(|it| assert_eq!(it.to_string(), text))),
        text.parse::<Version>().map(drop).map_err(|_| "Version".to_owned()),
        text.parse::<Domain>().map(drop).map_err(|_| "Domain".to_owned()),
    ]
}

/// How many of them prove something: what is signed, or in the log.
const PROVEN: usize = 6;

fn samples() -> Vec<Vec<u8>> {
    let (told, key) = (registry(), note_key(ORIGIN, 1, REGISTRY));
    vec![
        Parts::approved(&told).bytes(),
        name_evidence(&told, &agent()),
        sign_in(&visit(&key, PUBLISHER, NOW_MS + 300_000)),
        checkpoint(&told.entries()).into_bytes(),
        crate::registry_attested::page(&[0]),
        Parts::marked(&told, &[2, 3]).bytes(),
        submission(1, 1),
        bundle(),
        proof_of(&told.entries(), 3).into_bytes(),
        key.into_bytes(),
        entry(15, NOW_MS, b"signed"),
        finding(1, true),
    ]
}

#[test]
fn malformed_evidence_proves_nothing() {
    // P-172, P-176, P-179, P-182, P-187: one bit decides.
    let mut dice = Dice(0x5265_6769);
    let mut reasons = BTreeMap::<String, u32>::new();
    let samples = &samples()[..5];
    for sample in samples {
        assert!(every_entry(sample)[..PROVEN].iter().any(Result::is_ok), "the sample itself holds");
    }
    for round in 0..4_000 {
        let bytes = dice.mutate(&samples[round % samples.len()]);
        for result in &every_entry(&bytes)[..PROVEN] {
            let reason = result.clone().expect_err("what was signed, and what is in the log, has one spelling");
            *reasons.entry(reason).or_default() += 1;
        }
    }
    assert!(reasons.len() >= 30, "the mutations reach many reasons: {reasons:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn arbitrary_bytes_never_panic_and_prove_nothing(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(every_entry(&bytes)[..PROVEN].iter().all(Result::is_err));
    }

    #[test]
    fn samples_cut_and_joined_never_panic(a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>()) {
        let samples = samples();
        let (a, b) = (&samples[a.index(samples.len())], &samples[b.index(samples.len())]);
        let bytes = [&a[..cut.index(a.len())], &b[cut.index(a.len()).min(b.len())..]].concat();
        prop_assert!(samples.contains(&bytes) || every_entry(&bytes)[..PROVEN].iter().all(Result::is_err));
    }
}
