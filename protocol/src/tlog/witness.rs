//! What a log asks of a witness (C2SP tlog-witness), and whether the witness may sign.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::checkpoint::{Checkpoint, CheckpointError};
use super::note::{NoteError, NoteKey, NoteKeyKind};
use super::tree::{Head, SIZE_MAX, TreeError};
use crate::Digest;

/// Hashes of a request.
const ASKED_HASHES_MAX: usize = 63;

/// A request to cosign a checkpoint: `POST …/add-checkpoint`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddCheckpoint {
    /// Entries of the tree that the witness cosigned last, as the log believes.
    pub old: u64,
    /// The hashes that show that the log goes on from these.
    pub hashes: Vec<Digest>,
    /// The checkpoint's note.
    pub checkpoint: String,
}

/// Why text is no such request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no request to cosign a checkpoint: {0}")]
pub struct NoAddCheckpoint(&'static str);

/// Why a witness does not sign.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WitnessRefusal {
    /// The checkpoint is none (400).
    #[error(transparent)]
    Shape(CheckpointError),
    /// The log is not one of those that the witness looks after (404).
    #[error("this witness does not know the log {0:?}: its operator adds logs by their keys")]
    UnknownLog(String),
    /// The log did not sign it (403).
    #[error("the key of the log did not sign this checkpoint")]
    Unsigned,
    /// It would have to become smaller (400).
    #[error("the log had {old} entries, and the checkpoint has {size}")]
    Smaller {
        /// Entries before, as the log says.
        old: u64,
        /// Entries of the checkpoint.
        size: u64,
    },
    /// The witness signed another size last (409, with that size).
    #[error("this witness signed the log with {known} entries last; ask again with the proof from there")]
    Stale {
        /// Entries that it signed last.
        known: u64,
    },
    /// Another tree of the same size was signed before (409): the log has two histories.
    #[error("this witness signed another tree of {size} entries before: the log shows two histories")]
    Forked {
        /// Entries of both.
        size: u64,
    },
    /// The proof does not hold (422).
    #[error("the log does not show that it goes on from the checkpoint that was signed last: {0}")]
    Proof(TreeError),
}

impl AddCheckpoint {
    /// Decides whether a witness signs: the log is among those that it looks after, and goes on from what it signed last.
    /// Gives the checkpoint, of which the witness must keep the head **before** it signs.
    ///
    /// # Errors
    /// See [`WitnessRefusal`].
    pub fn judge(
        &self,
        log: impl FnOnce(&str) -> Option<NoteKey>,
        known: impl FnOnce(&str) -> Head,
    ) -> Result<Checkpoint, WitnessRefusal> {
        let checkpoint = self.signed(log)?;
        let origin = Checkpoint::claimed_origin(&self.checkpoint).map_err(WitnessRefusal::Shape)?;
        self.goes_on(&checkpoint, known(&origin))?;
        Ok(checkpoint)
    }

    /// The checkpoint, if it is signed by the log whose name it has.
    ///
    /// # Errors
    /// [`WitnessRefusal::Shape`], [`WitnessRefusal::UnknownLog`], [`WitnessRefusal::Unsigned`].
    pub fn signed(&self, log: impl FnOnce(&str) -> Option<NoteKey>) -> Result<Checkpoint, WitnessRefusal> {
        let origin = Checkpoint::claimed_origin(&self.checkpoint).map_err(WitnessRefusal::Shape)?;
        let key = log(&origin).ok_or(WitnessRefusal::UnknownLog(origin))?;
        Checkpoint::open(&self.checkpoint, &key).map_err(|error| match error {
            CheckpointError::Note(NoteError::Unsigned(_) | NoteError::Forged(_)) => WitnessRefusal::Unsigned,
            other => WitnessRefusal::Shape(other),
        })
    }

    /// Whether the log goes on from the head that was signed last.
    ///
    /// # Errors
    /// See [`WitnessRefusal`].
    pub fn goes_on(&self, checkpoint: &Checkpoint, known: Head) -> Result<(), WitnessRefusal> {
        let (old, size) = (self.old, checkpoint.head.size);
        if old > size {
            return Err(WitnessRefusal::Smaller { old, size });
        }
        if old != known.size {
            return Err(WitnessRefusal::Stale { known: known.size });
        }
        if old == size && known.root != checkpoint.head.root {
            return Err(WitnessRefusal::Forked { size });
        }
        checkpoint.head.check_extends(&known, &self.hashes).map_err(WitnessRefusal::Proof)
    }
}

/// Adds to a checkpoint what a witness answered: lines of signatures, of which only its own count.
///
/// # Errors
/// [`NoteError`]: none of them is its signature over this checkpoint.
pub fn add_cosignatures(checkpoint: &Checkpoint, lines: &str, witness: &NoteKey) -> Result<Checkpoint, NoteError> {
    let unsigned = || NoteError::Unsigned(witness.name().to_owned());
    if witness.kind() != NoteKeyKind::Cosignature {
        return Err(unsigned());
    }
    let mut cosigned: Option<Checkpoint> = None;
    for line in lines.split_inclusive('\n').take(8) {
        match cosigned.as_ref().unwrap_or(checkpoint).with_cosignature(line, witness) {
            Ok(with) => cosigned = Some(with),
            // Of a key that is not known here.
            Err(NoteError::Unsigned(_)) => {}
            Err(error) => return Err(error),
        }
    }
    cosigned.ok_or_else(unsigned)
}

impl fmt::Display for AddCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "old {}", self.old)?;
        for hash in &self.hashes {
            writeln!(f, "{}", BASE64.encode(hash))?;
        }
        write!(f, "\n{}", self.checkpoint)
    }
}

impl FromStr for AddCheckpoint {
    type Err = NoAddCheckpoint;

    fn from_str(text: &str) -> Result<AddCheckpoint, NoAddCheckpoint> {
        let (head, checkpoint) = text.split_once("\n\n").ok_or(NoAddCheckpoint("it has no checkpoint"))?;
        let mut lines = head.split('\n');
        let number = lines.next().and_then(|line| line.strip_prefix("old ")).filter(|number| {
            *number == "0" || number.starts_with(|first: char| first.is_ascii_digit() && first != '0')
        });
        let old = number.and_then(|number| number.parse().ok()).filter(|old| *old <= SIZE_MAX);
        let old = old.ok_or(NoAddCheckpoint("it begins with `old` and a number of entries"))?;
        let mut hashes = Vec::new();
        for line in lines {
            if hashes.len() == ASKED_HASHES_MAX {
                return Err(NoAddCheckpoint("it has more than 63 hashes"));
            }
            let hash = BASE64.decode(line).ok().and_then(|bytes| bytes.try_into().ok());
            hashes.push(hash.ok_or(NoAddCheckpoint("a hash is no base64 of 32 bytes"))?);
        }
        Ok(AddCheckpoint { old, hashes, checkpoint: checkpoint.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::SecretKey;
    use crate::tlog::{leaf_hash, node_hash};

    const ORIGIN: &str = "example.org/log";

    fn secret(seed: u8) -> SecretKey {
        SecretKey::from_seed(&[seed; 32])
    }

    fn log() -> NoteKey {
        NoteKey::new(ORIGIN, NoteKeyKind::Note, secret(1).public()).expect("a good name")
    }

    fn witness() -> NoteKey {
        NoteKey::new("w.example", NoteKeyKind::Cosignature, secret(9).public()).expect("a good name")
    }

    fn one() -> Head {
        Head { size: 1, root: leaf_hash(b"first") }
    }

    fn two() -> Head {
        Head { size: 2, root: node_hash(&leaf_hash(b"first"), &leaf_hash(b"second")) }
    }

    fn asked(old: u64, hashes: Vec<Digest>, head: Head) -> AddCheckpoint {
        let checkpoint = Checkpoint::sign(ORIGIN, head, &secret(1)).expect("a good name").note().to_owned();
        AddCheckpoint { old, hashes, checkpoint }
    }

    fn judged(asked: &AddCheckpoint, known: Head) -> Result<Head, WitnessRefusal> {
        asked.judge(|origin| (origin == ORIGIN).then(log), |_| known).map(|it| it.head)
    }

    #[test]
    fn a_request_is_read_as_it_is_written() {
        let asked = asked(1, vec![leaf_hash(b"second")], two());
        assert_eq!(asked.to_string().parse(), Ok(asked.clone()));
        let good = asked.to_string();
        for bad in [
            String::new(),
            good.replacen("old 1", "old 01", 1),
            good.replacen("old 1", "old -1", 1),
            good.replacen("old 1", "old", 1),
            good.replacen("old 1", "new 1", 1),
            good.replacen("old 1\n", "old 1\nAAAA\n", 1),
            good.replacen("old 1\n", "old 281474976710657\n", 1),
            good.replacen("old 1\n", &format!("old 1\n{}", format!("{}\n", BASE64.encode([0; 32])).repeat(64)), 1),
        ] {
            assert!(bad.parse::<AddCheckpoint>().is_err(), "{bad:.60}");
        }
    }

    /// P-188
    #[test]
    fn a_witness_signs_only_what_goes_on_from_what_it_signed() {
        let proof = vec![leaf_hash(b"second")];
        assert_eq!(judged(&asked(0, Vec::new(), one()), Head::default()), Ok(one()));
        assert_eq!(judged(&asked(1, proof.clone(), two()), one()), Ok(two()));
        assert_eq!(judged(&asked(2, Vec::new(), two()), two()), Ok(two()), "the same again");
        let stale = judged(&asked(0, Vec::new(), two()), one());
        assert_eq!(stale, Err(WitnessRefusal::Stale { known: 1 }));
        let other = Head { root: [7; 32], ..two() };
        assert_eq!(judged(&asked(2, Vec::new(), other), two()), Err(WitnessRefusal::Forked { size: 2 }));
        assert_eq!(judged(&asked(1, proof, other), one()), Err(WitnessRefusal::Proof(TreeError::Root)));
        assert!(matches!(judged(&asked(1, Vec::new(), two()), one()), Err(WitnessRefusal::Proof(_))));
        assert!(matches!(judged(&asked(0, vec![[0; 32]], one()), Head::default()), Err(WitnessRefusal::Proof(_))));
        assert_eq!(judged(&asked(3, Vec::new(), two()), one()), Err(WitnessRefusal::Smaller { old: 3, size: 2 }));
    }

    /// P-188
    #[test]
    fn a_witness_signs_for_logs_that_it_knows_and_that_signed() {
        let asked = asked(0, Vec::new(), one());
        let unknown = asked.judge(|_| None, |_| Head::default());
        assert_eq!(unknown, Err(WitnessRefusal::UnknownLog(ORIGIN.to_owned())));
        let other = NoteKey::new(ORIGIN, NoteKeyKind::Note, secret(2).public()).expect("a good name");
        assert_eq!(asked.judge(|_| Some(other), |_| Head::default()), Err(WitnessRefusal::Unsigned));
        let forged = AddCheckpoint { checkpoint: asked.checkpoint.replacen("\n1\n", "\n2\n", 1), ..asked };
        assert_eq!(judged(&forged, Head::default()), Err(WitnessRefusal::Unsigned));
        let none = AddCheckpoint { checkpoint: "no note".to_owned(), ..forged };
        assert!(matches!(judged(&none, Head::default()), Err(WitnessRefusal::Shape(_))));
    }

    /// P-173
    #[test]
    fn of_an_answer_the_witnesss_own_signature_counts() {
        let checkpoint = Checkpoint::sign(ORIGIN, two(), &secret(1)).expect("a good name");
        let own = checkpoint.cosign("w.example", 5, &secret(9)).expect("a good name");
        let others = checkpoint.cosign("v.example", 5, &secret(8)).expect("a good name");
        let with = add_cosignatures(&checkpoint, &format!("{others}{own}"), &witness()).expect("its own is there");
        assert_eq!(with.cosignature(&witness()).map(|it| it.time), Ok(5));
        assert!(!with.note().contains("v.example"), "nobody vouches for the other one");
        assert!(add_cosignatures(&checkpoint, &others, &witness()).is_err());
        assert!(add_cosignatures(&checkpoint, "", &witness()).is_err());
        assert!(add_cosignatures(&checkpoint, "nothing\n", &witness()).is_err());
        let over_other = Checkpoint::sign(ORIGIN, one(), &secret(1)).expect("a good name");
        let line = over_other.cosign("w.example", 5, &secret(9)).expect("a good name");
        assert!(add_cosignatures(&checkpoint, &line, &witness()).is_err());
    }
}
