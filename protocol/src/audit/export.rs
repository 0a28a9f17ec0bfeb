//! One leaf of an audit log as text that shows it to whoever has nothing else of the log (SPEC P-212).

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::body::{BodyCommitment, BodyRole, BodySalt};
use super::leaf::{AuditError, AuditLeaf};
use crate::limits::{AUDIT_BODIES_MAX, AUDIT_LEAF_BYTES_MAX};
use crate::tlog::{Checkpoint, LogProof, LogProofError, NoteKey, NoteKeyError};

/// The first line.
const FIRST: &str = "althing audit leaf 1";
/// Bytes of all of it.
const BYTES_MAX: usize = 4 << 20;

/// Why an exported leaf is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditExportError {
    /// It is none.
    #[error("this is no exported leaf of an audit log: {0}")]
    Shape(&'static str),
    /// The leaf in it is none.
    #[error(transparent)]
    Leaf(#[from] AuditError),
    /// The key of its log is none.
    #[error("the key of the log that it names is refused: {0}")]
    Key(#[from] NoteKeyError),
    /// It is of another log than that which the reader trusts.
    #[error("it is of the log {found}, and you trust {expected}: ask the owner which logs are theirs")]
    Log {
        /// The name of its log.
        found: String,
        /// The name of the log that is trusted.
        expected: String,
    },
    /// A body in it is not the one that the leaf names.
    #[error("the {0} in it are not those that the leaf names: they were changed, or are of another leaf")]
    Body(&'static str),
    /// The log does not have the leaf.
    #[error("it does not show that the log has this leaf: {0}")]
    Proof(#[from] LogProofError),
}

/// A body with its salt, as it is shown to somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenBody {
    /// What it is of the leaf.
    pub role: BodyRole,
    /// Random bytes that were hashed before it.
    pub salt: BodySalt,
    /// Its bytes.
    pub body: Vec<u8>,
}

/// An exported leaf, **not yet checked**.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditExport {
    /// The key of the log, as the text claims.
    pub log: NoteKey,
    /// The bytes of the leaf.
    pub leaf: Vec<u8>,
    /// Those bodies that are shown.
    pub bodies: Vec<OpenBody>,
    /// What shows that the log has the leaf.
    pub proof: LogProof,
}

/// What an exported leaf shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEvidence {
    /// What happened.
    pub leaf: AuditLeaf,
    /// Which entry of the log it is.
    pub index: u64,
    /// The checkpoint under which it is.
    pub checkpoint: Checkpoint,
}

impl AuditExport {
    /// Checks that this log has the leaf, that the bodies are those that it names, and that at least `wanted` of the
    /// witnesses signed the checkpoint.
    ///
    /// # Errors
    /// [`AuditExportError`].
    pub fn check(
        &self,
        log: &NoteKey,
        witnesses: &[NoteKey],
        wanted: usize,
    ) -> Result<AuditEvidence, AuditExportError> {
        if self.log != *log {
            let (found, expected) = (self.log.to_string(), log.to_string());
            return Err(AuditExportError::Log { found, expected });
        }
        let leaf = AuditLeaf::read(&self.leaf)?;
        let checkpoint = self.proof.check(&self.leaf, log, witnesses, wanted)?;
        for shown in &self.bodies {
            let is_named = |named: &BodyCommitment| named.role == shown.role && named.names(&shown.salt, &shown.body);
            if !leaf.bodies.iter().any(is_named) {
                return Err(AuditExportError::Body(shown.role.word()));
            }
        }
        Ok(AuditEvidence { leaf, index: self.proof.index, checkpoint })
    }
}

/// Reads an exported leaf and checks it, with nothing but its bytes and the keys that the reader trusts.
///
/// # Errors
/// [`AuditExportError`].
pub fn verify_offline(
    bytes: &[u8],
    log: &NoteKey,
    witnesses: &[NoteKey],
    wanted: usize,
) -> Result<AuditEvidence, AuditExportError> {
    let text = std::str::from_utf8(bytes).map_err(|_| AuditExportError::Shape("it is no text"))?;
    text.parse::<AuditExport>()?.check(log, witnesses, wanted)
}

impl fmt::Display for AuditExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FIRST}\nlog {}\nleaf {}\n", self.log, BASE64.encode(&self.leaf))?;
        for OpenBody { role, salt, body } in &self.bodies {
            writeln!(f, "body {} {} {}", role.word(), BASE64.encode(salt), BASE64.encode(body))?;
        }
        write!(f, "\n{}", self.proof)
    }
}

impl FromStr for AuditExport {
    type Err = AuditExportError;

    fn from_str(text: &str) -> Result<AuditExport, AuditExportError> {
        use AuditExportError::Shape;
        if text.len() > BYTES_MAX {
            return Err(Shape("it is over 4 MiB"));
        }
        let (head, proof) = text.split_once("\n\n").ok_or(Shape("it has no proof"))?;
        let mut lines = head.split('\n');
        if lines.next() != Some(FIRST) {
            return Err(Shape("its first line is not \"althing audit leaf 1\""));
        }
        let log = lines.next().and_then(|line| line.strip_prefix("log "));
        let log = log.ok_or(Shape("its second line is not `log` and a key"))?.parse::<NoteKey>()?;
        let leaf = lines.next().and_then(|line| line.strip_prefix("leaf "));
        let leaf = leaf.and_then(|leaf| BASE64.decode(leaf).ok()).filter(|leaf| leaf.len() <= AUDIT_LEAF_BYTES_MAX);
        let leaf = leaf.ok_or(Shape("its third line is not `leaf` and base64 of at most 8 KiB"))?;
        let mut bodies: Vec<OpenBody> = Vec::new();
        for line in lines {
            if bodies.len() == AUDIT_BODIES_MAX {
                return Err(Shape("it has more than eight bodies"));
            }
            let shown =
                body(line).ok_or(Shape("a line is not `body`, a role, and base64 of a salt and of the body"))?;
            if bodies.last().is_some_and(|last| last.role >= shown.role) {
                return Err(Shape("its bodies do not ascend"));
            }
            bodies.push(shown);
        }
        Ok(AuditExport { log, leaf, bodies, proof: proof.parse()? })
    }
}

fn body(line: &str) -> Option<OpenBody> {
    let mut words = line.strip_prefix("body ")?.splitn(3, ' ');
    let (role, salt, body) = (words.next()?, words.next()?, words.next()?);
    let role = BodyRole::ALL.into_iter().find(|one| one.word() == role)?;
    let salt = BASE64.decode(salt).ok()?.try_into().ok()?;
    Some(OpenBody { role, salt, body: BASE64.decode(body).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::AuditStage;
    use crate::identity::SecretKey;
    use crate::tlog::{Head, NoteKeyKind, leaf_hash, node_hash};

    const ORIGIN: &str = "audit/owner/node/1";
    const SALT: BodySalt = [7; 32];
    /// Made from the specification by a program in another language.
    const MADE_ELSEWHERE: &str = include_str!("exported_leaf.txt");

    fn key(seed: u8) -> NoteKey {
        NoteKey::new(ORIGIN, NoteKeyKind::Note, SecretKey::from_seed(&[seed; 32]).public()).expect("a good name")
    }

    fn exported() -> AuditExport {
        let mut leaf = AuditLeaf::new(AuditStage::Denied, 5);
        leaf.action = Some("shop/order".to_owned());
        leaf.bodies = vec![BodyCommitment::of(BodyRole::Arguments, &SALT, b"{}")];
        let leaf = leaf.encode().expect("a good leaf");
        let root = node_hash(&leaf_hash(b"before"), &leaf_hash(&leaf));
        let secret = SecretKey::from_seed(&[1; 32]);
        let checkpoint = Checkpoint::sign(ORIGIN, Head { size: 2, root }, &secret).expect("a good name");
        let proof = LogProof { index: 1, hashes: vec![leaf_hash(b"before")], checkpoint: checkpoint.note().to_owned() };
        let bodies = vec![OpenBody { role: BodyRole::Arguments, salt: SALT, body: b"{}".to_vec() }];
        AuditExport { log: key(1), leaf, bodies, proof }
    }

    /// P-212
    #[test]
    fn an_exported_leaf_is_read_as_it_is_written_and_shows_the_leaf() {
        let exported = exported();
        let text = exported.to_string();
        assert_eq!(text.parse(), Ok(exported.clone()));
        let evidence = verify_offline(text.as_bytes(), &key(1), &[], 0).expect("it shows the leaf");
        assert_eq!((evidence.index, evidence.checkpoint.head.size), (1, 2));
        assert_eq!(evidence.leaf.action.as_deref(), Some("shop/order"));
        let bare = AuditExport { bodies: Vec::new(), ..exported };
        assert!(verify_offline(bare.to_string().as_bytes(), &key(1), &[], 0).is_ok(), "without its bodies");
    }

    /// P-212
    #[test]
    fn what_others_wrote_from_the_specification_is_accepted() {
        let of = |name: &str, kind, seed| {
            NoteKey::new(name, kind, SecretKey::from_seed(&[seed; 32]).public()).expect("a good name")
        };
        let log = of("audit/owner/node/1-00000000", NoteKeyKind::Note, 1);
        let witness = of("witness.example", NoteKeyKind::Cosignature, 9);
        let evidence = verify_offline(MADE_ELSEWHERE.as_bytes(), &log, &[witness], 1).expect("it shows the leaf");
        assert_eq!((evidence.index, evidence.checkpoint.head.size), (4, 7));
        assert_eq!(evidence.leaf.action.as_deref(), Some("bank/pay-4"));
        let exported: AuditExport = MADE_ELSEWHERE.parse().expect("it is one");
        assert_eq!(exported.bodies[0].body, b"{\"amount\":12}");
        assert_eq!(exported.to_string(), MADE_ELSEWHERE);
    }

    /// P-212
    #[test]
    fn what_was_changed_shows_nothing() {
        let good = exported();
        let refused = |changed: AuditExport| changed.check(&key(1), &[], 0).expect_err("it was changed");
        assert!(matches!(good.check(&key(2), &[], 0), Err(AuditExportError::Log { .. })));
        let mut leaf = AuditLeaf::read(&good.leaf).expect("a good leaf");
        leaf.at_ms = 6;
        let other = leaf.encode().expect("a good leaf");
        let refusal = refused(AuditExport { leaf: other, ..good.clone() });
        assert!(matches!(refusal, AuditExportError::Proof(LogProofError::Tree(_))), "{refusal}");
        let mut body = good.clone();
        body.bodies[0].body = b"[]".to_vec();
        assert_eq!(refused(body), AuditExportError::Body("arguments"));
        let mut salt = good.clone();
        salt.bodies[0].salt = [8; 32];
        assert_eq!(refused(salt), AuditExportError::Body("arguments"));
        let mut role = good.clone();
        role.bodies[0].role = BodyRole::Result;
        assert_eq!(refused(role), AuditExportError::Body("result"));
        let mut proof = good.clone();
        proof.proof.index = 0;
        assert!(matches!(refused(proof), AuditExportError::Proof(_)));
        let none = AuditExport { leaf: b"before".to_vec(), ..good.clone() };
        assert!(matches!(refused(none), AuditExportError::Leaf(AuditError::Cbor(_))));
        let wanted = good.check(&key(1), &[], 1);
        assert!(matches!(wanted, Err(AuditExportError::Proof(LogProofError::Witnesses { found: 0, wanted: 1 }))));
    }

    /// P-212
    #[test]
    fn what_is_no_exported_leaf_is_refused() {
        let good = exported().to_string();
        let line = good.lines().nth(3).expect("a body").to_owned();
        for bad in [
            String::new(),
            good.replacen("leaf 1", "leaf 2", 1),
            good.replacen("\nlog ", "\nLog ", 1),
            good.replacen("\nleaf ", "\nleaf =", 1),
            good.replacen("body arguments", "body argument", 1),
            good.replacen("body arguments", "arguments", 1),
            good.replacen(&line, &format!("{line}\n{line}"), 1),
            good.replacen(&line, line.rsplit_once(' ').expect("words").0, 1),
            good.replacen("\n\n", "\n", 1).replacen("\n\n", "\n", 1),
            "x".repeat(BYTES_MAX + 1),
        ] {
            assert!(matches!(bad.parse::<AuditExport>(), Err(AuditExportError::Shape(_))), "{bad:.60}");
        }
        assert!(matches!(verify_offline(&[0xff], &key(1), &[], 0), Err(AuditExportError::Shape(_))));
        let cut = &good[..good.len() - 9];
        assert!(verify_offline(cut.as_bytes(), &key(1), &[], 0).is_err());
    }
}
