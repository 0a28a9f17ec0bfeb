//! Checkpoints (C2SP tlog-checkpoint): the head of a log, signed by the log, and cosigned by witnesses.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::note::{Note, NoteError, NoteKey, NoteKeyError, NoteKeyKind};
use super::tree::{Head, SIZE_MAX};
use crate::identity::SecretKey;

/// Why a checkpoint is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// The note is none, or not signed by the log.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// The note is no checkpoint.
    #[error("this is no checkpoint: {0}")]
    Shape(&'static str),
    /// It is one of another log.
    #[error("this is a checkpoint of {found:?}, and not of {expected:?}")]
    Origin {
        /// Whose it is.
        found: String,
        /// Whose it should be.
        expected: String,
    },
}

/// A checkpoint whose log's signature was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The head of the log.
    pub head: Head,
    note: String,
}

/// A verified cosignature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cosignature {
    /// The name of the witness.
    pub witness: String,
    /// When it signed, seconds since the epoch.
    pub time: u64,
}

impl Checkpoint {
    /// Signs the head of a log, whose name is its origin.
    ///
    /// # Errors
    /// [`NoteKeyError::Name`].
    pub fn sign(origin: &str, head: Head, secret: &SecretKey) -> Result<Checkpoint, NoteKeyError> {
        let key = NoteKey::new(origin, NoteKeyKind::Note, secret.public())?;
        let text = format!("{origin}\n{}\n{}\n", head.size, BASE64.encode(head.root));
        let line = key.sign(&text, secret);
        Ok(Checkpoint { head, note: format!("{text}\n{line}") })
    }

    /// Reads a checkpoint of the log whose key that is. The name of the key is the log's origin.
    ///
    /// # Errors
    /// [`CheckpointError`].
    pub fn open(note: &str, log: &NoteKey) -> Result<Checkpoint, CheckpointError> {
        let read = Note::read(note)?;
        log.check(&read)?;
        let (origin, head) = read_text(read.text)?;
        if origin != log.name() {
            return Err(CheckpointError::Origin { found: origin.to_owned(), expected: log.name().to_owned() });
        }
        Ok(Checkpoint { head, note: note.to_owned() })
    }

    /// The origin that a note claims, **not verified**: which log's key to look for.
    ///
    /// # Errors
    /// [`CheckpointError`].
    pub fn claimed_origin(note: &str) -> Result<String, CheckpointError> {
        Ok(read_text(Note::read(note)?.text)?.0.to_owned())
    }

    /// The signed note.
    #[must_use]
    pub fn note(&self) -> &str {
        &self.note
    }

    fn text(&self) -> &str {
        let at = self.note.rfind("\n\n").expect("it was read as a note");
        &self.note[..=at]
    }

    /// The line of a cosignature: at that time (seconds since the epoch) the witness knew no larger tree of this log.
    ///
    /// # Errors
    /// [`NoteKeyError::Name`].
    pub fn cosign(&self, witness: &str, time: u64, secret: &SecretKey) -> Result<String, NoteKeyError> {
        let key = NoteKey::new(witness, NoteKeyKind::Cosignature, secret.public())?;
        let signature = secret.sign(cosigned(time, self.text()).as_bytes());
        Ok(key.line(&[&time.to_be_bytes()[..], &signature].concat()))
    }

    /// This checkpoint with a witness's cosignature, which is verified; one that it has already is not added twice.
    ///
    /// # Errors
    /// [`NoteError`]: the line is no signature of that witness over this checkpoint.
    pub fn with_cosignature(&self, line: &str, witness: &NoteKey) -> Result<Checkpoint, NoteError> {
        // An empty line within it would end the text at another place.
        if line.find('\n') != line.len().checked_sub(1) {
            return Err(NoteError::Shape("a cosignature is one line"));
        }
        let alone = Checkpoint { head: self.head, note: format!("{}\n{line}", self.text()) };
        alone.cosignature(witness)?;
        if self.note.contains(line) {
            return Ok(self.clone());
        }
        let note = format!("{}{line}", self.note);
        Note::read(&note)?;
        Ok(Checkpoint { head: self.head, note })
    }

    /// How many of these witnesses cosigned it.
    #[must_use]
    pub fn cosigned_by(&self, witnesses: &[NoteKey]) -> usize {
        witnesses.iter().filter(|witness| self.cosignature(witness).is_ok()).count()
    }

    /// The newest cosignature of a witness.
    ///
    /// # Errors
    /// [`NoteError::Unsigned`], [`NoteError::Forged`].
    pub fn cosignature(&self, witness: &NoteKey) -> Result<Cosignature, NoteError> {
        let forged = || NoteError::Forged(witness.name().to_owned());
        let note = Note::read(&self.note)?;
        let mut newest = 0;
        for bytes in witness.signatures(&note)? {
            let (time, signature) = bytes.split_first_chunk::<8>().ok_or_else(forged)?;
            let time = u64::from_be_bytes(*time);
            let signature = <&[u8; 64]>::try_from(signature).map_err(|_| forged())?;
            let right = witness.kind() == NoteKeyKind::Cosignature && i64::try_from(time).is_ok();
            if !right || !witness.key().verifies(cosigned(time, note.text).as_bytes(), signature) {
                return Err(forged());
            }
            newest = newest.max(time);
        }
        Ok(Cosignature { witness: witness.name().to_owned(), time: newest })
    }
}

/// What a witness signs.
fn cosigned(time: u64, text: &str) -> String {
    format!("cosignature/v1\ntime {time}\n{text}")
}

fn read_text(text: &str) -> Result<(&str, Head), CheckpointError> {
    let mut lines = text.split('\n');
    let (Some(origin), Some(size), Some(root)) = (lines.next(), lines.next(), lines.next()) else {
        return Err(CheckpointError::Shape("it has fewer than three lines"));
    };
    if origin.is_empty() {
        return Err(CheckpointError::Shape("it has no origin"));
    }
    let plain = size == "0" || (size.starts_with(|first: char| first.is_ascii_digit() && first != '0'));
    let size = size.parse::<u64>().ok().filter(|&size| plain && size <= SIZE_MAX);
    let size = size.ok_or(CheckpointError::Shape("its size is no decimal number up to 2^48"))?;
    let root = BASE64.decode(root).ok().and_then(|bytes| bytes.try_into().ok());
    let root = root.ok_or(CheckpointError::Shape("its root is no base64 of 32 bytes"))?;
    Ok((origin, Head { size, root }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: &str = "example.org/log";

    fn secret(seed: u8) -> SecretKey {
        SecretKey::from_seed(&[seed; 32])
    }

    fn key(name: &str, kind: NoteKeyKind, seed: u8) -> NoteKey {
        NoteKey::new(name, kind, secret(seed).public()).expect("a good name")
    }

    fn signed() -> Checkpoint {
        let head = Head { size: 42, root: [5; 32] };
        Checkpoint::sign(ORIGIN, head, &secret(1)).expect("a good name")
    }

    #[test]
    fn a_checkpoint_is_opened_with_its_logs_key_only() {
        let checkpoint = signed();
        let log = key(ORIGIN, NoteKeyKind::Note, 1);
        assert_eq!(Checkpoint::open(checkpoint.note(), &log), Ok(checkpoint.clone()));
        assert_eq!(Checkpoint::claimed_origin(checkpoint.note()).as_deref(), Ok(ORIGIN));
        for other in [key(ORIGIN, NoteKeyKind::Note, 2), key(ORIGIN, NoteKeyKind::Cosignature, 1)] {
            assert!(Checkpoint::open(checkpoint.note(), &other).is_err());
        }
        let larger = checkpoint.note().replacen("42", "43", 1);
        assert_eq!(Checkpoint::open(&larger, &log), Err(NoteError::Forged(ORIGIN.to_owned()).into()));
    }

    #[test]
    fn a_key_opens_checkpoints_of_its_own_origin_only() {
        let log = key(ORIGIN, NoteKeyKind::Note, 1);
        let text = format!("example.org/other\n1\n{}\n", BASE64.encode([0; 32]));
        let note = format!("{text}\n{}", log.sign(&text, &secret(1)));
        assert!(matches!(Checkpoint::open(&note, &log), Err(CheckpointError::Origin { .. })));
    }

    #[test]
    fn what_is_no_checkpoint_is_refused() {
        let log = key(ORIGIN, NoteKeyKind::Note, 1);
        let root = BASE64.encode([0; 32]);
        for text in [
            "\n1\nAAAA\n".to_owned(),
            format!("{ORIGIN}\n01\n{root}\n"),
            format!("{ORIGIN}\n+1\n{root}\n"),
            format!("{ORIGIN}\n-1\n{root}\n"),
            format!("{ORIGIN}\n281474976710657\n{root}\n"),
            format!("{ORIGIN}\n1\nAAAA\n"),
            format!("{ORIGIN}\n1\n"),
        ] {
            let note = format!("{text}\n{}", log.sign(&text, &secret(1)));
            assert!(matches!(Checkpoint::open(&note, &log), Err(CheckpointError::Shape(_))), "{text:?}");
        }
    }

    #[test]
    fn a_witness_signs_a_checkpoint_at_a_time() {
        let (log, checkpoint) = (key(ORIGIN, NoteKeyKind::Note, 1), signed());
        let witness = key("witness.example", NoteKeyKind::Cosignature, 9);
        assert_eq!(checkpoint.cosignature(&witness), Err(NoteError::Unsigned("witness.example".to_owned())));
        let line = checkpoint.cosign("witness.example", 1_700_000_000, &secret(9)).expect("a good name");
        let cosigned = checkpoint.with_cosignature(&line, &witness).expect("its signature");
        assert_eq!(cosigned.with_cosignature(&line, &witness).as_ref(), Ok(&cosigned), "once");
        assert_eq!(Checkpoint::open(cosigned.note(), &log).as_ref(), Ok(&cosigned));
        let expected = Cosignature { witness: "witness.example".to_owned(), time: 1_700_000_000 };
        assert_eq!(cosigned.cosignature(&witness), Ok(expected));
        let other = Checkpoint::sign(ORIGIN, Head { size: 43, root: [6; 32] }, &secret(1)).expect("a good name");
        assert!(other.with_cosignature(&line, &witness).is_err(), "of another checkpoint");
        assert!(checkpoint.with_cosignature(&line, &key("witness.example", NoteKeyKind::Cosignature, 8)).is_err());
        let log_line = key("witness.example", NoteKeyKind::Note, 9).sign(checkpoint.text(), &secret(9));
        assert!(checkpoint.with_cosignature(&log_line, &witness).is_err(), "of another kind");
        // A witness that signs more than the checkpoint cannot make a note of it that the log did not sign.
        let longer = format!("{}\nmore\n", checkpoint.text());
        let signature = secret(9).sign(super::cosigned(1, &longer).as_bytes());
        let over_more = witness.line(&[&1u64.to_be_bytes()[..], &signature].concat());
        let refused = checkpoint.with_cosignature(&format!("more\n\n{over_more}"), &witness);
        assert_eq!(refused, Err(NoteError::Shape("a cosignature is one line")));
    }
}
