//! An exported leaf of an audit log, read by a program that was written from the specification alone.

use std::path::Path;
use std::process::{Command, Output};

use althing_protocol::audit::{
    AuditExport, AuditLeaf, AuditOutcome, AuditStage, AuditVerdict, AuditWord, BodyCommitment, BodyRole, OpenBody,
};
use althing_protocol::tlog::{Checkpoint, Head, LogProof, NoteKey, NoteKeyKind, leaf_hash, node_hash};
use althing_protocol::{AgentId, PublisherId, SecretKey};
use althing_testing::{remedy, skip};

const ORIGIN: &str = "audit/owner/node/1-00000000";

fn key(name: &str, kind: NoteKeyKind, seed: u8) -> NoteKey {
    NoteKey::new(name, kind, SecretKey::from_seed(&[seed; 32]).public()).expect("a good name")
}

/// The second of two leaves, of a turn that a gate refused.
fn judged() -> AuditExport {
    let mut leaf = AuditLeaf::new(AuditStage::Turn, 1_790_000_000_000);
    leaf.agent = Some(AgentId::new(PublisherId::from_digest([3; 32]), "buyer").expect("a good name"));
    leaf.outcome = Some(AuditOutcome::Failed);
    leaf.verdicts = vec![AuditVerdict { gate: "schema".to_owned(), word: AuditWord::Refused }];
    seen(&leaf)
}

/// The second of two leaves, which a witness saw.
fn exported() -> AuditExport {
    let mut leaf = AuditLeaf::new(AuditStage::Outcome, 1_790_000_000_000);
    leaf.agent = Some(AgentId::new(PublisherId::from_digest([3; 32]), "buyer").expect("a good name"));
    leaf.action = Some("shop/order".to_owned());
    leaf.principals = vec!["ada".to_owned()];
    leaf.outcome = Some(AuditOutcome::Done);
    let salt = [7; 32];
    leaf.bodies = vec![BodyCommitment::of(BodyRole::Result, &salt, b"{\"ordered\":true}")];
    let bodies = vec![OpenBody { role: BodyRole::Result, salt, body: b"{\"ordered\":true}".to_vec() }];
    AuditExport { bodies, ..seen(&leaf) }
}

/// The leaf after another one, which a witness saw, without its bodies.
fn seen(leaf: &AuditLeaf) -> AuditExport {
    let leaf = leaf.encode().expect("a good leaf");
    let root = node_hash(&leaf_hash(b"before"), &leaf_hash(&leaf));
    let checkpoint = Checkpoint::sign(ORIGIN, Head { size: 2, root }, &SecretKey::from_seed(&[1; 32]));
    let checkpoint = checkpoint.expect("a good name");
    let line = checkpoint.cosign("witness.example", 1_790_000_000, &SecretKey::from_seed(&[9; 32]));
    let witness = key("witness.example", NoteKeyKind::Cosignature, 9);
    let checkpoint = checkpoint.with_cosignature(&line.expect("a good name"), &witness).expect("its signature");
    AuditExport {
        log: key(ORIGIN, NoteKeyKind::Note, 1),
        leaf,
        bodies: Vec::new(),
        proof: LogProof { index: 1, hashes: vec![leaf_hash(b"before")], checkpoint: checkpoint.note().to_owned() },
    }
}

fn verified(folder: &Path, text: &str, log: &NoteKey, witness: &NoteKey) -> Output {
    let file = folder.join("leaf.txt");
    std::fs::write(&file, text).expect("a file");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/audit_verify.py");
    let mut python = Command::new("python3");
    python.arg("-B").arg(script).arg(&file).arg(log.to_string()).arg("1").arg(witness.to_string());
    python.output().expect("python3 runs")
}

#[test]
fn a_program_written_from_the_specification_verifies_an_exported_leaf() {
    if Command::new("python3").arg("--version").output().is_err() {
        skip("there is no python3", remedy::PYTHON);
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (log, witness) = (key(ORIGIN, NoteKeyKind::Note, 1), key("witness.example", NoteKeyKind::Cosignature, 9));
    let good = exported();
    let told = verified(folder.path(), &good.to_string(), &log, &witness);
    let said = String::from_utf8_lossy(&told.stdout);
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let shown: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    for (member, value) in [("stage", "outcome"), ("action", "shop/order")] {
        assert_eq!(shown[member], value);
    }
    for (member, value) in [("index", 1), ("entries", 2)] {
        assert_eq!(shown[member], value);
    }

    let told = verified(folder.path(), &judged().to_string(), &log, &witness);
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let shown: serde_json::Value = serde_json::from_slice(&told.stdout).expect("JSON");
    assert_eq!(shown["verdicts"], serde_json::json!([{ "0": "schema", "1": 1 }]));

    let mut body = good.clone();
    body.bodies[0].body = b"{\"ordered\":false}".to_vec();
    let mut place = good.clone();
    place.proof.index = 0;
    let mut leaf = good.clone();
    let at = leaf.leaf.len() - 1;
    leaf.leaf[at] ^= 1;
    for (what, changed) in [("body", body), ("place", place), ("leaf", leaf)] {
        let told = verified(folder.path(), &changed.to_string(), &log, &witness);
        assert!(!told.status.success(), "another {what} is accepted");
        assert!(String::from_utf8_lossy(&told.stderr).starts_with("refused: "), "{what}");
    }
    let other = key("other.example", NoteKeyKind::Cosignature, 8);
    assert!(!verified(folder.path(), &good.to_string(), &log, &other).status.success(), "a witness that did not sign");
    let log = key(ORIGIN, NoteKeyKind::Note, 2);
    assert!(!verified(folder.path(), &good.to_string(), &log, &witness).status.success(), "another log");
}
