//! Any bytes as evidence: what is accepted encodes to the same bytes, and verified evidence is made of what was sent.
#![no_main]

use std::sync::LazyLock;

use althing_protocol::{AgentId, Evidence, KeyLog, PublicKey, PublisherId, SecretKey, digest, keylog, sign1};
use libfuzzer_sys::fuzz_target;

const NOW_MS: u64 = 1_700_000_000_000;

/// The agent, its node and its publisher of `protocol/vectors/evidence.json`.
static ASKED: LazyLock<(AgentId, PublicKey, SecretKey)> = LazyLock::new(|| {
    let key = |seed: u8| SecretKey::from_seed(&[seed; 32]);
    let first = keylog::inception(&key(3), [key(4).public(), key(5).public()], NOW_MS - 2 * 3_600_000);
    let log = KeyLog::verify(&[first.bytes]).expect("a good inception");
    let agent = AgentId::new(log.publisher(), "echo").expect("a good name");
    (agent, key(6).public(), key(3))
});

/// The contexts of a description and of a grant: domain, network, scope.
const DESCRIPTION_AAD: &[u8] = b"\x83\x75althing/description/1\x67testnet\x60";
const GRANT_AAD: &[u8] = b"\x83\x6falthing/grant/1\x67testnet\x60";

/// The same statement under an honest signature of the publisher, where the part has the shape of an envelope.
fn signed_anew(part: &[u8], aad: &[u8]) -> Vec<u8> {
    match sign1::read(part, 1 << 20) {
        Ok(envelope) => sign1::seal(envelope.payload().to_vec(), aad, &ASKED.2),
        Err(_) => part.to_vec(),
    }
}

fn verified_is_what_was_sent(evidence: &Evidence) {
    let (agent, node, _) = &*ASKED;
    if let Ok(verified) = evidence.verify("testnet", agent, *node, NOW_MS) {
        assert_eq!(verified.evidence(), *evidence, "verified evidence is what was sent");
    }
}

fuzz_target!(|data: &[u8]| {
    let Ok(evidence) = Evidence::decode(data) else { return };
    assert_eq!(evidence.encode(), data, "accepted bytes encode to themselves");
    if let Ok(log) = KeyLog::verify(&evidence.key_log.iter().map(|event| event.as_slice()).collect::<Vec<_>>()) {
        assert_eq!(log.to_bytes().len(), evidence.key_log.len());
        assert_eq!(log.publisher(), PublisherId::from_digest(digest(&evidence.key_log[0])));
    }
    verified_is_what_was_sent(&evidence);
    verified_is_what_was_sent(&Evidence {
        key_log: evidence.key_log.clone(),
        description: signed_anew(&evidence.description, DESCRIPTION_AAD).into(),
        grant: signed_anew(&evidence.grant, GRANT_AAD).into(),
    });
});
