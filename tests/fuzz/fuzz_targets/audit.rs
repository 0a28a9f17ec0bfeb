//! Any bytes as a leaf of an audit log or as what people are asked, any text as an exported leaf: what is accepted is written as it
//! was read, and an export shows only what its log has.
#![no_main]

use std::sync::LazyLock;

use althing_protocol::SecretKey;
use althing_protocol::audit::{Ask, AuditExport, AuditExportError, AuditLeaf, BodyRole, OpenBody, verify_offline};
use althing_protocol::tlog::{Checkpoint, Head, LogProof, NoteKey, NoteKeyKind, leaf_hash};
use libfuzzer_sys::fuzz_target;

const ORIGIN: &str = "audit/owner/node/1";

static SECRET: LazyLock<SecretKey> = LazyLock::new(|| SecretKey::from_seed(&[1; 32]));
static KEY: LazyLock<NoteKey> =
    LazyLock::new(|| NoteKey::new(ORIGIN, NoteKeyKind::Note, SECRET.public()).expect("a good name"));

/// The bytes as a leaf, alone in a log.
fn exported(leaf: &[u8], bodies: Vec<OpenBody>) -> AuditExport {
    let head = Head { size: 1, root: leaf_hash(leaf) };
    let checkpoint = Checkpoint::sign(ORIGIN, head, &SECRET).expect("a good name");
    let proof = LogProof { index: 0, hashes: vec![], checkpoint: checkpoint.note().to_owned() };
    AuditExport { log: KEY.clone(), leaf: leaf.to_vec(), bodies, proof }
}

fuzz_target!(|data: &[u8]| {
    let read = AuditLeaf::read(data);
    if let Ok(leaf) = &read {
        assert_eq!(leaf.encode().as_deref(), Ok(data), "accepted bytes encode to themselves");
    }
    if let Ok(ask) = Ask::read(data) {
        assert_eq!(ask.encode().as_deref(), Ok(data));
    }
    let export = exported(data, Vec::new());
    let evidence = export.check(&KEY, &[], 0);
    assert_eq!(evidence.is_ok(), read.is_ok(), "a log shows a leaf, and nothing else");
    if evidence.is_ok() {
        assert_eq!(verify_offline(export.to_string().as_bytes(), &KEY, &[], 0), evidence);
        assert!(export.check(&KEY, &[], 1).is_err(), "no witness signed it");
        let foreign = OpenBody { role: BodyRole::Arguments, salt: [7; 32], body: data.to_vec() };
        let refused = exported(data, vec![foreign]).check(&KEY, &[], 0);
        assert!(matches!(refused, Err(AuditExportError::Body(_))), "{refused:?}");
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(export) = text.parse::<AuditExport>() {
        assert_eq!(export.to_string().parse().as_ref(), Ok(&export), "what was written is read");
        if let Ok(shown) = export.check(&export.log, &[], 0) {
            assert_eq!(AuditLeaf::read(&export.leaf), Ok(shown.leaf));
        }
    }
});
