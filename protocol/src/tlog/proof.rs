//! Proofs that a log has an entry (C2SP tlog-proof): kept beside what was logged, and verified without the log.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::checkpoint::{Checkpoint, CheckpointError};
use super::note::NoteKey;
use super::tree::{HASHES_MAX, TreeError};
use crate::Digest;

/// The first line of a proof.
const FIRST: &str = "c2sp.org/tlog-proof@v1";
/// Bytes of a proof.
const BYTES_MAX: usize = 96 * 1024;

/// Why a proof is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogProofError {
    /// It is no proof.
    #[error("this is no proof of a log: {0}")]
    Shape(&'static str),
    /// Its checkpoint is none of the log's.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// It does not lead to its checkpoint.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// Too few of the wanted witnesses signed.
    #[error("{found} of the witnesses signed the checkpoint; {wanted} are wanted")]
    Witnesses {
        /// How many signed.
        found: usize,
        /// How many are wanted.
        wanted: usize,
    },
}

/// A proof, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogProof {
    /// Which entry.
    pub index: u64,
    /// The hashes from the entry up.
    pub hashes: Vec<Digest>,
    /// The checkpoint's note.
    pub checkpoint: String,
}

impl LogProof {
    /// Checks that the log has the entry; gives the checkpoint.
    ///
    /// # Errors
    /// [`LogProofError`].
    pub fn check(
        &self,
        entry: &[u8],
        log: &NoteKey,
        witnesses: &[NoteKey],
        wanted: usize,
    ) -> Result<Checkpoint, LogProofError> {
        let checkpoint = Checkpoint::open(&self.checkpoint, log)?;
        checkpoint.head.check_inclusion(entry, self.index, &self.hashes)?;
        let found = checkpoint.cosigned_by(witnesses);
        if found < wanted {
            return Err(LogProofError::Witnesses { found, wanted });
        }
        Ok(checkpoint)
    }
}

impl fmt::Display for LogProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FIRST}\nindex {}\n", self.index)?;
        for hash in &self.hashes {
            writeln!(f, "{}", BASE64.encode(hash))?;
        }
        write!(f, "\n{}", self.checkpoint)
    }
}

impl FromStr for LogProof {
    type Err = LogProofError;

    fn from_str(text: &str) -> Result<LogProof, LogProofError> {
        if text.len() > BYTES_MAX {
            return Err(LogProofError::Shape("it is too long"));
        }
        let (head, checkpoint) = text.split_once("\n\n").ok_or(LogProofError::Shape("it has no checkpoint"))?;
        let mut lines = head.split('\n');
        if lines.next() != Some(FIRST) {
            return Err(LogProofError::Shape("it does not begin with c2sp.org/tlog-proof@v1"));
        }
        let mut line = lines.next().unwrap_or_default();
        // What applications add is authenticated by nothing: it is passed over.
        if line.starts_with("extra ") {
            line = lines.next().unwrap_or_default();
        }
        let number = line.strip_prefix("index ").filter(|number| {
            *number == "0" || number.starts_with(|first: char| first.is_ascii_digit() && first != '0')
        });
        let index = number.and_then(|number| number.parse().ok());
        let index = index.ok_or(LogProofError::Shape("it names no index"))?;
        let mut hashes = Vec::new();
        for line in lines {
            if hashes.len() == HASHES_MAX {
                return Err(LogProofError::Shape("it has too many hashes"));
            }
            let hash = BASE64.decode(line).ok().and_then(|bytes| bytes.try_into().ok());
            hashes.push(hash.ok_or(LogProofError::Shape("a hash is no base64 of 32 bytes"))?);
        }
        Ok(LogProof { index, hashes, checkpoint: checkpoint.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::SecretKey;
    use crate::tlog::{Head, NoteKeyKind, leaf_hash, node_hash};

    fn log() -> (SecretKey, NoteKey) {
        let secret = SecretKey::from_seed(&[1; 32]);
        let key = NoteKey::new("example.org/log", NoteKeyKind::Note, secret.public()).expect("a good name");
        (secret, key)
    }

    fn proof() -> LogProof {
        let root = node_hash(&leaf_hash(b"first"), &leaf_hash(b"second"));
        let checkpoint = Checkpoint::sign("example.org/log", Head { size: 2, root }, &log().0).expect("a good name");
        LogProof { index: 1, hashes: vec![leaf_hash(b"first")], checkpoint: checkpoint.note().to_owned() }
    }

    #[test]
    fn a_proof_is_read_as_it_is_written_and_shows_its_entry() {
        let proof = proof();
        let text = proof.to_string();
        assert_eq!(text.parse(), Ok(proof.clone()));
        let extra = text.replacen("index", "extra AAAA\nindex", 1);
        assert_eq!(extra.parse(), Ok(proof.clone()));
        let key = log().1;
        assert_eq!(proof.check(b"second", &key, &[], 0).map(|it| it.head.size), Ok(2));
        assert_eq!(proof.check(b"other", &key, &[], 0), Err(TreeError::Root.into()));
        let wrong = LogProof { index: 0, ..proof };
        assert_eq!(wrong.check(b"second", &key, &[], 0), Err(TreeError::Root.into()));
    }

    #[test]
    fn the_wanted_witnesses_must_have_signed() {
        let (mut proof, key) = (proof(), log().1);
        let secret = SecretKey::from_seed(&[9; 32]);
        let witness = NoteKey::new("w", NoteKeyKind::Cosignature, secret.public()).expect("a good name");
        let witnesses = [witness];
        let few = proof.check(b"second", &key, &witnesses, 1);
        assert_eq!(few, Err(LogProofError::Witnesses { found: 0, wanted: 1 }));
        let checkpoint = Checkpoint::open(&proof.checkpoint, &key).expect("its own");
        let line = checkpoint.cosign("w", 1, &secret).expect("a good name");
        proof.checkpoint = checkpoint.with_cosignature(&line, &witnesses[0]).expect("its own").note().to_owned();
        assert!(proof.check(b"second", &key, &witnesses, 1).is_ok());
    }

    #[test]
    fn what_is_no_proof_is_refused() {
        let good = proof().to_string();
        for bad in [
            String::new(),
            good.replacen("@v1", "@v2", 1),
            good.replacen("index 1", "index 01", 1),
            good.replacen("index 1", "index -1", 1),
            good.replacen("index 1", "index", 1),
            good.replacen("index 1\n", "index 1\nAAAA\n", 1),
            good.replacen("index 1\n", &format!("index 1\n{}", format!("{}\n", BASE64.encode([0; 32])).repeat(65)), 1),
            "x".repeat(BYTES_MAX + 1),
        ] {
            assert!(matches!(bad.parse::<LogProof>(), Err(LogProofError::Shape(_))), "{bad:.60}");
        }
    }
}
