//! Any bytes as what is sent to a registry and what it shows, any text as a checkpoint or proof: what is accepted is written as it
//! was read, and verified evidence is of what was asked for, by keys that are known here.
#![no_main]

use std::sync::LazyLock;

use althing_protocol::registry::{
    BundleFiles, Domain, DomainFinding, Entry, Logged, NameEvidence, Presence, Receipt, ReleaseEvidence, SignIn,
    Standing, Submission, Version,
};
use althing_protocol::tlog::{Checkpoint, LogProof, Note, NoteKey, NoteKeyKind};
use althing_protocol::{AgentId, KeyLog, Kind, SecretKey, keylog, sign1};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::Signer as _;
use libfuzzer_sys::fuzz_target;

const NETWORK: &str = "testnet";
const NOW_MS: u64 = 1_700_000_000_000;
const ORIGIN: &str = "registry.example/log";

/// The agent, its publisher's key and the registry of `protocol/vectors/registry.json`.
struct World {
    agent: AgentId,
    version: Version,
    publisher: SecretKey,
    log: SecretKey,
    key: NoteKey,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let key = |seed: u8| SecretKey::from_seed(&[seed; 32]);
    let first = keylog::inception(&key(3), [key(4).public(), key(5).public()], NOW_MS - 2 * 3_600_000);
    let publisher = KeyLog::verify(&[first.bytes]).expect("a good inception").publisher();
    World {
        agent: AgentId::new(publisher, "echo").expect("a good name"),
        version: "1.2.3".parse().expect("a good version"),
        publisher: key(3),
        log: key(0x21),
        key: NoteKey::new(ORIGIN, NoteKeyKind::Note, key(0x21).public()).expect("a good name"),
    }
});

const RELEASE_AAD: &[u8] = b"\x83\x71althing/release/1\x67testnet\x60";
const MARK_AAD: &[u8] = b"\x83\x6ealthing/mark/1\x67testnet\x60";

fn verified(evidence: &ReleaseEvidence) {
    let World { agent, version, publisher, key, .. } = &*WORLD;
    let Ok(verified) = evidence.verify(NETWORK, agent, version, key) else { return };
    assert_eq!((&verified.release.body.agent, &verified.release.body.version), (agent, version));
    assert_eq!(verified.description.digest(), verified.release.body.description);
    assert_eq!(verified.key_log.publisher(), agent.publisher());
    assert!(verified.standing == Standing::Good || !evidence.marks.is_empty(), "only marks change a standing");
    // Whoever wrote these bytes has no other key of the publisher than the one of the vectors.
    assert_eq!(verified.release.signer, publisher.public());
}

/// The statement under an honest signature, alone in a log that the registry signs.
fn alone(logged: &Logged, kind: Kind, aad: &[u8]) -> Logged {
    let World { publisher, log, .. } = &*WORLD;
    let statement = match sign1::read(&logged.statement, 1 << 20) {
        Ok(envelope) => sign1::seal(envelope.payload().to_vec(), aad, publisher),
        Err(_) => logged.statement.to_vec(),
    };
    let entry = Entry::of(kind, &statement, logged.at_ms).encode();
    let head = althing_protocol::tlog::Head { size: 1, root: althing_protocol::tlog::leaf_hash(&entry) };
    let checkpoint = Checkpoint::sign(ORIGIN, head, log).expect("a good name");
    let proof = LogProof { index: 0, hashes: vec![], checkpoint: checkpoint.note().to_owned() }.to_string();
    let logged = Logged { statement: statement.into(), at_ms: logged.at_ms, proof, salt: logged.salt };
    assert!(logged.verify(kind, &WORLD.key).is_ok());
    logged
}

fn text(data: &str) {
    let World { key, log, .. } = &*WORLD;
    if let Ok(read) = data.parse::<NoteKey>() {
        assert_eq!(read.to_string(), data, "a key has one spelling");
    }
    if let Ok(version) = data.parse::<Version>() {
        assert_eq!(version.to_string(), data, "a version has one spelling");
    }
    if let Ok(domain) = data.parse::<Domain>() {
        assert_eq!(domain.to_string(), data, "a domain has one spelling");
    }
    if let Ok(proof) = data.parse::<LogProof>() {
        assert_eq!(proof.to_string().parse().as_ref(), Ok(&proof));
        let _ = proof.check(b"entry", key, &[], 0);
    }
    let _ = Checkpoint::open(data, key);
    // Beyond the signature: the text of what may be a note, signed by the log.
    let text = Note::read(data).map_or(data, |note| note.text);
    if let Some(text) = text.ends_with('\n').then_some(text) {
        let signed = key_line(text, log);
        if let Ok(checkpoint) = Checkpoint::open(&format!("{text}\n{signed}"), key) {
            let again = Checkpoint::sign(ORIGIN, checkpoint.head, log).expect("a good name");
            let lines = |note: &str| note.split('\n').take(3).map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(lines(again.note()), lines(checkpoint.note()), "a head has one spelling");
        }
    }
}

/// The line of the log's signature below a text: an em dash, the name, and in base64 the key's id and the signature.
fn key_line(text: &str, log: &SecretKey) -> String {
    let bytes = [&WORLD.key.id()[..], &log.signing_key().sign(text.as_bytes()).to_bytes()].concat();
    format!("\u{2014} {ORIGIN} {}\n", STANDARD.encode(&bytes))
}

fuzz_target!(|data: &[u8]| {
    if let Ok(evidence) = ReleaseEvidence::decode(data) {
        assert_eq!(evidence.encode(), data);
        verified(&evidence);
        // Each part is judged beyond its signature and its proof.
        let release = alone(&evidence.release, Kind::Release, RELEASE_AAD);
        verified(&ReleaseEvidence { release, marks: vec![], approvals: vec![], roster: None, ..evidence.clone() });
        for mark in &evidence.marks {
            alone(mark, Kind::Mark, MARK_AAD);
        }
    }
    if let Ok(evidence) = NameEvidence::decode(data) {
        assert_eq!(evidence.encode(), data);
        let domain: Domain = "example.org".parse().expect("a good domain");
        if let Ok(name) = evidence.verify(NETWORK, (&domain, "echo"), &WORLD.key, NOW_MS) {
            assert_eq!((name.agent.name(), name.roster.body.domain), ("echo", Some(domain)));
        }
    }
    if let Ok(submission) = Submission::decode(data) {
        assert_eq!(submission.encode(), data);
    }
    if let Ok(receipt) = Receipt::decode(data) {
        assert_eq!(receipt.encode(), data);
        receipt.accepted.iter().for_each(|logged| drop(logged.verify(Kind::Release, &WORLD.key)));
    }
    if let Ok(bundle) = BundleFiles::decode(data) {
        assert_eq!(bundle.encode().as_deref(), Ok(data));
        let inside = |path: &String| {
            let path = std::path::Path::new(path);
            path.components().all(|part| matches!(part, std::path::Component::Normal(_)))
        };
        assert!(bundle.files.keys().all(inside), "no path leads out of the folder");
    }
    if let Ok(sign_in) = SignIn::decode(data) {
        assert_eq!(sign_in.encode(), data);
        let _ = sign_in.verify(NETWORK, &WORLD.key, NOW_MS);
    }
    if let Ok(presence) = Presence::decode(data) {
        assert_eq!(presence.encode(), data);
        if let Ok(verified) = presence.verify(NETWORK, NOW_MS) {
            assert!(verified.grants.iter().all(|grant| grant.body.node == verified.contact.body.node));
        }
    }
    if let Some(entry) = Entry::decode(data) {
        assert_eq!(entry.encode(), data);
    }
    if let Some(finding) = DomainFinding::decode(data) {
        assert_eq!(finding.encode(), data);
    }
    if let Ok(data) = std::str::from_utf8(data) {
        text(data);
    }
});
