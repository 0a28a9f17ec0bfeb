//! Fixed keys, one good sample of everything, and an encoder of CBOR and COSE that shares no code with the crate.

use std::sync::LazyLock;

use althing_protocol::Contract;
use althing_protocol::binding::{Binding, Candidates, Manifest, Model, Runtime, Tool};
use althing_protocol::object::{self, Authored, Description, Grant, Hosted, Membership, Placement, TaskMove};
use althing_protocol::{
    AgentId, Evidence, Frame, FrameKind, FrameOpener, FrameSealer, KeyLog, OwnerProof, PublicKey, PublisherId,
    SecretKey, StreamBinding, keylog,
};
use ed25519_dalek::Signer as _;

pub const NETWORK: &str = "testnet";
pub const NOW_MS: u64 = 1_700_000_000_000;
pub const HOUR_MS: u64 = 3_600_000;
/// One size for all property tests: small, so that the suite stays quick, and the same everywhere.
pub const CASES: u32 = 256;

/// Who is who, by the byte that fills the seed. The publisher's keys are `PUBLISHER`, `NEXT`, `AFTER_NEXT`, `FOURTH` and
/// `FIFTH`, in the order in which they sign.
pub const OPENER: u8 = 1;
pub const ACCEPTOR: u8 = 2;
pub const PUBLISHER: u8 = 3;
pub const NEXT: u8 = 4;
pub const AFTER_NEXT: u8 = 5;
pub const NODE: u8 = 6;
pub const FOURTH: u8 = 7;
pub const FIFTH: u8 = 8;
pub const STRANGER: u8 = 9;

pub fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed(&[seed; 32])
}

pub fn public(seed: u8) -> PublicKey {
    key(seed).public()
}

pub fn agent() -> AgentId {
    named("echo")
}

/// An agent of the publisher.
pub fn named(name: &str) -> AgentId {
    AgentId::new(publisher(), name).expect("a good name")
}

/// The publisher's id: the digest of its signed inception.
pub fn publisher() -> PublisherId {
    LOG.publisher()
}

pub fn binding() -> StreamBinding {
    StreamBinding {
        network: NETWORK.to_owned(),
        protocol: "/althing/call/1".to_owned(),
        opener: public(OPENER),
        acceptor: public(ACCEPTOR),
        opener_challenge: [0xa0; 32],
        acceptor_challenge: [0xb0; 32],
    }
}

pub fn request() -> Frame {
    Frame {
        operation: Some("SendMessage".to_owned()),
        agent: Some(agent()),
        deadline_ms: Some(30_000),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        tracestate: Some("althing=1".to_owned()),
        principals: Some(vec![public(STRANGER).did()]),
        extensions: Some(vec!["https://althing.dev/extensions/deadline/v1".to_owned()]),
        ..Frame::new(FrameKind::Request, br#"{"message":{"role":"ROLE_USER"}}"#.to_vec())
    }
}

pub fn small_request() -> Frame {
    Frame { operation: Some("GetTask".to_owned()), ..Frame::new(FrameKind::Request, b"{}".to_vec()) }
}

/// The opener's sealer and the acceptor's opener of one stream.
pub fn towards_acceptor(binding: &StreamBinding) -> (FrameSealer, FrameOpener) {
    (FrameSealer::new(binding, key(OPENER)), FrameOpener::new(binding, public(ACCEPTOR)))
}

pub fn towards_opener(binding: &StreamBinding) -> (FrameSealer, FrameOpener) {
    (FrameSealer::new(binding, key(ACCEPTOR)), FrameOpener::new(binding, public(OPENER)))
}

pub fn sealed_request() -> Vec<u8> {
    towards_acceptor(&binding()).0.seal(request()).expect("a good frame")
}

pub fn description() -> Authored<Description> {
    let body = Description::new(agent(), 7, NOW_MS - HOUR_MS, br#"{"title":"Echo"}"#.to_vec());
    object::sign(body, NETWORK, "", &key(PUBLISHER)).expect("a good description")
}

pub fn grant() -> Authored<Grant> {
    let body = Grant::new(agent(), public(NODE), NOW_MS - HOUR_MS, NOW_MS + HOUR_MS);
    object::sign(body, NETWORK, "", &key(PUBLISHER)).expect("a good grant")
}

pub fn membership() -> Authored<Membership> {
    let body = Membership::new(publisher(), public(NODE), NOW_MS - HOUR_MS, NOW_MS + HOUR_MS);
    object::sign(body, NETWORK, "", &key(PUBLISHER)).expect("a good membership")
}

/// A manifest with a bit of everything.
pub fn manifest() -> Manifest {
    let contract = serde_json::json!({
        "class": { "latency": "srt" },
        "binding": "smooth",
        "model": { "models": ["small@^1.2"] },
        "capabilities": ["calc/*"],
    });
    let contract = Contract::from_value(&contract).expect("a good contract");
    let small = |version: &str| Model {
        name: "small".to_owned(),
        version: Some(version.to_owned()),
        context_tokens: Some(32_768),
        ttft_ms: None,
        cost: Some(200_000),
        clearance: None,
        digest: "aa".repeat(32),
    };
    let add = Tool { name: "calc/add".to_owned(), definition: "bb".repeat(32) };
    Manifest {
        version: 1,
        agent: "echo".to_owned(),
        agent_version: "1.0.0".to_owned(),
        contract_digest: contract.digest().iter().map(|byte| format!("{byte:02x}")).collect(),
        contract,
        runtime: Runtime { kind: "model".to_owned(), digest: "cc".repeat(32) },
        models: vec![small("1.3.0"), small("1.2.0")],
        embeddings: None,
        tools: vec![add.clone()],
        candidates: Candidates { models: vec![small("1.2.0"), small("1.3.0")], tools: vec![add], labels: Vec::new() },
    }
}

pub fn sealed_binding() -> Authored<Binding> {
    object::sign(Binding::new(public(NODE), NOW_MS, &manifest()), NETWORK, "", &key(NODE)).expect("a good binding")
}

pub fn placement_body() -> Placement {
    let hosted =
        |name: &str| Hosted { agent: named(name), description: description().digest(), grant: grant().digest() };
    let mut body = Placement::new(public(NODE), 42, NOW_MS, 6_000);
    body.load_permille = 250;
    body.agents = vec![hosted("echo"), hosted("echo-2")];
    body
}

pub fn placement() -> Authored<Placement> {
    object::sign(placement_body(), NETWORK, "", &key(NODE)).expect("a good placement")
}

/// The id of the task that moves, as nodes make them.
pub const TASK: &str = "018bcfe5-6800-7000-8000-000000000001";

pub fn task_move_body() -> TaskMove {
    TaskMove::new(agent(), TASK, public(STRANGER), 1, althing_protocol::digest(b"what is handed over"))
}

pub fn task_move() -> Authored<TaskMove> {
    object::sign(task_move_body(), NETWORK, "", &key(NODE)).expect("a good move")
}

static LOG: LazyLock<KeyLog> = LazyLock::new(|| begun(PUBLISHER, [NEXT, AFTER_NEXT], NOW_MS - 2 * HOUR_MS));

/// A log of one event, signed by `first`, that commits to the `next` two keys.
pub fn begun(first: u8, next: [u8; 2], at_ms: u64) -> KeyLog {
    let event = keylog::inception(&key(first), next.map(public), at_ms);
    KeyLog::verify(&[event.bytes]).expect("a good inception")
}

pub fn log() -> KeyLog {
    LOG.clone()
}

/// The log after its first rotation, whose overlap lasts until an hour after now.
pub fn rotated() -> KeyLog {
    log().rotate(&key(NEXT), public(FOURTH), NOW_MS - HOUR_MS, 2 * HOUR_MS).expect("a good rotation")
}

/// The log after its second rotation, without an overlap.
pub fn rotated_twice() -> KeyLog {
    rotated().rotate(&key(AFTER_NEXT), public(FIFTH), NOW_MS, 0).expect("a good rotation")
}

/// What the node shows of its owner.
pub fn proof() -> OwnerProof {
    static PROOF: LazyLock<OwnerProof> = LazyLock::new(|| OwnerProof::new(membership().bytes, &LOG));
    PROOF.clone()
}

pub fn evidence() -> Evidence {
    evidence_of(&log(), description().bytes, grant().bytes)
}

pub fn evidence_of(log: &KeyLog, description: Vec<u8>, grant: Vec<u8>) -> Evidence {
    Evidence {
        key_log: log.to_bytes().into_iter().map(Into::into).collect(),
        description: description.into(),
        grant: grant.into(),
    }
}

// -- an encoder of its own: RFC 8949 §3, RFC 9052 §4.2 and §4.4

pub fn head(major: u8, argument: u64) -> Vec<u8> {
    let major = major << 5;
    let be = argument.to_be_bytes();
    match argument {
        0..=23 => vec![major | be[7]],
        24..=0xff => vec![major | 24, be[7]],
        0x100..=0xffff => [&[major | 25], &be[6..]].concat(),
        0x1_0000..=0xffff_ffff => [&[major | 26], &be[4..]].concat(),
        _ => [&[major | 27], &be[..]].concat(),
    }
}

pub fn uint(value: u64) -> Vec<u8> {
    head(0, value)
}

pub fn bstr(bytes: &[u8]) -> Vec<u8> {
    [head(2, bytes.len() as u64), bytes.to_vec()].concat()
}

pub fn tstr(text: &str) -> Vec<u8> {
    [head(3, text.len() as u64), text.as_bytes().to_vec()].concat()
}

pub fn array(items: &[Vec<u8>]) -> Vec<u8> {
    [head(4, items.len() as u64), items.concat()].concat()
}

/// Members in the order given: hostile payloads need any order.
pub fn map(members: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let items: Vec<u8> = members.iter().flat_map(|(label, value)| [uint(*label), value.clone()].concat()).collect();
    [head(5, members.len() as u64), items].concat()
}

pub fn protected(signer: &PublicKey) -> Vec<u8> {
    [&[0xa2, 0x01, 0x27, 0x04][..], &bstr(signer.as_bytes())].concat()
}

pub fn to_be_signed(protected: &[u8], aad: &[u8], payload: &[u8]) -> Vec<u8> {
    array(&[tstr("Signature1"), bstr(protected), bstr(aad), bstr(payload)])
}

pub fn envelope(protected: &[u8], payload: &[u8], signature: &[u8]) -> Vec<u8> {
    array(&[bstr(protected), vec![0xa0], bstr(payload), bstr(signature)])
}

/// A COSE_Sign1 over any payload, honestly signed in the context `aad`.
pub fn cose(payload: &[u8], aad: &[u8], signer: &SecretKey) -> Vec<u8> {
    let protected = protected(&signer.public());
    let signature = signer.signing_key().sign(&to_be_signed(&protected, aad, payload)).to_bytes();
    envelope(&protected, payload, &signature)
}

/// `external_aad` of a frame, by SPEC.md (P-25).
pub fn frame_aad(binding: &StreamBinding, sender: PublicKey, receiver: PublicKey) -> Vec<u8> {
    array(&[
        tstr("althing/frame/1"),
        tstr(&binding.network),
        tstr(&binding.protocol),
        bstr(sender.as_bytes()),
        bstr(receiver.as_bytes()),
        bstr(&binding.opener_challenge),
        bstr(&binding.acceptor_challenge),
    ])
}

/// `external_aad` of an authored object, by SPEC.md (P-35).
pub fn object_aad(domain: &str, network: &str, scope: &str) -> Vec<u8> {
    array(&[tstr(domain), tstr(network), tstr(scope)])
}

/// The payload of a frame on `binding`, with any members.
pub fn bound(binding: &StreamBinding, counter: u64, to: PublicKey, frame: &[(u64, Vec<u8>)]) -> Vec<u8> {
    map(&[(0, uint(counter)), (1, bstr(to.as_bytes())), (2, bstr(&binding.id())), (3, map(frame))])
}

/// A frame from the opener with any payload, honestly signed for its place.
pub fn from_opener(payload: &[u8]) -> Vec<u8> {
    let binding = binding();
    cose(payload, &frame_aad(&binding, public(OPENER), public(ACCEPTOR)), &key(OPENER))
}

/// Deterministic bytes for the tests that need many (xorshift64*).
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// `bytes` with one to four edits, of which at least one changes something.
    pub fn mutate(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = bytes.to_vec();
        while out == bytes {
            for _ in 0..=self.below(4) {
                let at = self.below(out.len());
                let byte = self.next() as u8;
                match self.below(5) {
                    0 if !out.is_empty() => out[at] ^= 1 << self.below(8),
                    1 if !out.is_empty() => out[at] = byte,
                    2 => out.insert(at, byte),
                    3 if !out.is_empty() => drop(out.remove(at)),
                    _ => out.truncate(at + 1),
                }
            }
        }
        out
    }
}
