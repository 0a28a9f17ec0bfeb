//! Signed notes (C2SP signed-note): text with signatures below it, and the keys that are named by them.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::identity::{PublicKey, SecretKey};

const NOTE_BYTES_MAX: usize = 64 * 1024;
/// Signatures of a note.
const SIGNATURES_MAX: usize = 64;
/// Characters of a key's name.
const NAME_MAX: usize = 255;
/// What a line with a signature begins with: an em dash and a space.
const DASH: &str = "\u{2014} ";

/// Why a note is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// It is too long, or has too many signatures.
    #[error("the note is over {NOTE_BYTES_MAX} bytes, or has more than {SIGNATURES_MAX} signatures")]
    Bound,
    /// It is no note.
    #[error("this is no signed note: {0}")]
    Shape(&'static str),
    /// The key did not sign it.
    #[error("{0} did not sign the note")]
    Unsigned(String),
    /// A signature of the key is wrong.
    #[error("the signature of {0} does not verify")]
    Forged(String),
}

/// What a key signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteKeyKind {
    /// The text of notes.
    Note,
    /// Cosignatures of checkpoints (C2SP tlog-cosignature).
    Cosignature,
}

impl NoteKeyKind {
    /// The signature type of C2SP's table.
    fn byte(self) -> u8 {
        match self {
            NoteKeyKind::Note => 1,
            NoteKeyKind::Cosignature => 4,
        }
    }
}

/// A key that signs notes under a name. It is written `name+hash+base64` (a "vkey").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteKey {
    name: String,
    kind: NoteKeyKind,
    key: PublicKey,
}

/// Why text is no key of notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoteKeyError {
    /// Not `name+hash+base64`.
    #[error("this is no key of a log: it looks like example.org/log+1f2e3d4c+AZ…")]
    Shape,
    /// A name must have 1 to 255 visible characters, and no plus.
    #[error("the name of a log has 1 to {NAME_MAX} characters, no space and no plus")]
    Name,
    /// The hash is that of another name or key.
    #[error("the hash in the middle is not that of this name and key: the key was copied incompletely, or changed")]
    Hash,
    /// Not an ed25519 key of a log or witness.
    #[error("the key is no ed25519 key of a log (type 1) or of a witness (type 4)")]
    Key,
}

impl NoteKey {
    /// A key under a name.
    ///
    /// # Errors
    /// [`NoteKeyError::Name`].
    pub fn new(name: &str, kind: NoteKeyKind, key: PublicKey) -> Result<NoteKey, NoteKeyError> {
        let fine = !name.is_empty() && name.len() <= NAME_MAX && !name.contains(is_forbidden_in_name);
        if fine { Ok(NoteKey { name: name.to_owned(), kind, key }) } else { Err(NoteKeyError::Name) }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the key signs.
    #[must_use]
    pub fn kind(&self) -> NoteKeyKind {
        self.kind
    }

    /// The key itself.
    #[must_use]
    pub fn key(&self) -> PublicKey {
        self.key
    }

    fn typed(&self) -> [u8; 33] {
        let mut bytes = [self.kind.byte(); 33];
        bytes[1..].copy_from_slice(self.key.as_bytes());
        bytes
    }

    /// What signatures name the key by, beside its name.
    #[must_use]
    pub fn id(&self) -> [u8; 4] {
        let hash = crate::digest(&[self.name.as_bytes(), b"\n", &self.typed()].concat());
        [hash[0], hash[1], hash[2], hash[3]]
    }

    /// The line of a signature.
    #[must_use]
    pub(super) fn line(&self, signature: &[u8]) -> String {
        format!("{DASH}{} {}\n", self.name, BASE64.encode([&self.id()[..], signature].concat()))
    }

    /// The bytes of this key's signatures in the note.
    ///
    /// # Errors
    /// [`NoteError::Unsigned`].
    pub(super) fn signatures<'a>(&self, note: &'a Note<'_>) -> Result<Vec<&'a [u8]>, NoteError> {
        let id = self.id();
        let of_key = note.signatures.iter().filter(|signature| signature.name == self.name && signature.id == id);
        let found: Vec<&[u8]> = of_key.map(|signature| &signature.bytes[..]).collect();
        if found.is_empty() { Err(NoteError::Unsigned(self.name.clone())) } else { Ok(found) }
    }

    /// Checks that the key signed the text of the note.
    ///
    /// # Errors
    /// [`NoteError::Unsigned`], [`NoteError::Forged`].
    pub fn check(&self, note: &Note<'_>) -> Result<(), NoteError> {
        for bytes in self.signatures(note)? {
            let signature = <&[u8; 64]>::try_from(bytes).map_err(|_| NoteError::Forged(self.name.clone()))?;
            if self.kind != NoteKeyKind::Note || !self.key.verifies(note.text.as_bytes(), signature) {
                return Err(NoteError::Forged(self.name.clone()));
            }
        }
        Ok(())
    }

    /// Signs a text with the secret of this key.
    pub(super) fn sign(&self, text: &str, secret: &SecretKey) -> String {
        self.line(&secret.sign(text.as_bytes()))
    }
}

fn is_forbidden_in_name(character: char) -> bool {
    character.is_whitespace() || character.is_control() || character == '+'
}

impl fmt::Display for NoteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}+{}", self.name, crate::hex(&self.id()), BASE64.encode(self.typed()))
    }
}

impl FromStr for NoteKey {
    type Err = NoteKeyError;

    fn from_str(text: &str) -> Result<NoteKey, NoteKeyError> {
        let mut parts = text.splitn(3, '+');
        let (Some(name), Some(hash), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(NoteKeyError::Shape);
        };
        let typed: [u8; 33] =
            BASE64.decode(key).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(NoteKeyError::Key)?;
        let kind = match typed[0] {
            1 => NoteKeyKind::Note,
            4 => NoteKeyKind::Cosignature,
            _ => return Err(NoteKeyError::Key),
        };
        let bytes = <[u8; 32]>::try_from(&typed[1..]).map_err(|_| NoteKeyError::Key)?;
        let key = NoteKey::new(name, kind, PublicKey::from_bytes(bytes).map_err(|_| NoteKeyError::Key)?)?;
        if hash == crate::hex(&key.id()) { Ok(key) } else { Err(NoteKeyError::Hash) }
    }
}

/// A signature below a note, not verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The name of the key.
    pub name: String,
    /// The beginning of the hash of name and key.
    pub id: [u8; 4],
    /// The signature itself.
    pub bytes: Vec<u8>,
}

impl Signature {
    fn read(line: &str) -> Result<Signature, NoteError> {
        let rest = line.strip_prefix(DASH).ok_or(NoteError::Shape("a signature begins with an em dash"))?;
        let (name, encoded) = rest.split_once(' ').ok_or(NoteError::Shape("a signature has a name and base64"))?;
        if name.is_empty() || name.len() > NAME_MAX || name.contains(is_forbidden_in_name) {
            return Err(NoteError::Shape("a key's name has no space and no plus"));
        }
        let bytes = BASE64.decode(encoded).map_err(|_| NoteError::Shape("a signature is no base64"))?;
        let (id, bytes) = bytes.split_first_chunk::<4>().ok_or(NoteError::Shape("a signature is too short"))?;
        Ok(Signature { name: name.to_owned(), id: *id, bytes: bytes.to_vec() })
    }
}

/// A note whose signatures were **not verified**.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note<'a> {
    /// What was signed, with its last newline.
    pub text: &'a str,
    /// The signatures.
    pub signatures: Vec<Signature>,
}

impl<'a> Note<'a> {
    /// Reads a note.
    ///
    /// # Errors
    /// [`NoteError::Bound`], [`NoteError::Shape`].
    pub fn read(note: &'a str) -> Result<Note<'a>, NoteError> {
        if note.len() > NOTE_BYTES_MAX {
            return Err(NoteError::Bound);
        }
        if note.contains(|character: char| character < ' ' && character != '\n') {
            return Err(NoteError::Shape("it has control characters"));
        }
        let at = note.rfind("\n\n").ok_or(NoteError::Shape("no empty line divides text and signatures"))?;
        let (text, lines) = (&note[..=at], &note[at + 2..]);
        let lines = lines.strip_suffix('\n').ok_or(NoteError::Shape("no newline ends the last signature"))?;
        let signatures: Vec<Signature> =
            lines.split('\n').take(SIGNATURES_MAX + 1).map(Signature::read).collect::<Result<_, _>>()?;
        if signatures.len() > SIGNATURES_MAX {
            return Err(NoteError::Bound);
        }
        Ok(Note { text, signatures })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(seed: u8) -> SecretKey {
        SecretKey::from_seed(&[seed; 32])
    }

    fn key(name: &str, seed: u8) -> NoteKey {
        NoteKey::new(name, NoteKeyKind::Note, secret(seed).public()).expect("a good name")
    }

    #[test]
    fn a_key_is_read_as_it_is_written() {
        let key = key("example.org/log", 7);
        assert_eq!(key.to_string().parse(), Ok(key.clone()));
        let text = key.to_string();
        assert_eq!(text.replacen("example", "exampla", 1).parse::<NoteKey>(), Err(NoteKeyError::Hash));
        for bad in ["", "name", "name+12345678", "+12345678+AQ==", "name+12345678+!!"] {
            assert!(bad.parse::<NoteKey>().is_err(), "{bad}");
        }
        for name in ["", "with space", "with+plus", "tab\t", &"n".repeat(256)] {
            assert_eq!(NoteKey::new(name, NoteKeyKind::Note, key.key()), Err(NoteKeyError::Name), "{name}");
        }
    }

    #[test]
    fn a_note_is_verified_by_each_key_for_itself() {
        let (alice, bob, eve) = (key("alice", 1), key("bob", 2), key("alice", 3));
        let text = "first line\n\nsecond paragraph\n";
        let note = format!("{text}\n{}{}", alice.sign(text, &secret(1)), bob.sign(text, &secret(2)));
        let read = Note::read(&note).expect("a note");
        assert_eq!((read.text, read.signatures.len()), (text, 2));
        assert_eq!((alice.check(&read), bob.check(&read)), (Ok(()), Ok(())));
        assert_eq!(eve.check(&read), Err(NoteError::Unsigned("alice".to_owned())), "same name, another key");
        let changed = note.replace("first", "worst");
        assert_eq!(alice.check(&Note::read(&changed).expect("a note")), Err(NoteError::Forged("alice".to_owned())));
        let twice = format!("{note}{}", alice.line(&[0; 64]));
        assert!(alice.check(&Note::read(&twice).expect("a note")).is_err(), "one of two signatures is wrong");
    }

    #[test]
    fn what_is_no_note_is_refused() {
        let line = key("alice", 1).sign("text\n", &secret(1));
        assert!(Note::read(&format!("text\n\n{line}")).is_ok());
        for bad in [
            String::new(),
            "text\n".to_owned(),
            "text\n\n".to_owned(),
            format!("text\n{line}"),
            format!("text\n\n{}", line.trim_end()),
            format!("text\r\n\n{line}"),
            format!("te\0xt\n\n{line}"),
            format!("text\n\n{line}\n"),
            format!("text\n\n{}", line.replace('\u{2014}', "-")),
            "text\n\n\u{2014} alice AAA=\n".to_owned(),
            "text\n\n\u{2014} alice\n".to_owned(),
            "text\n\n\u{2014} al+ice AAAAAAAA\n".to_owned(),
        ] {
            assert!(matches!(Note::read(&bad), Err(NoteError::Shape(_))), "{bad:?}");
        }
        assert_eq!(Note::read(&format!("text\n\n{}", line.repeat(65))), Err(NoteError::Bound));
        assert_eq!(Note::read(&"x".repeat(NOTE_BYTES_MAX + 1)), Err(NoteError::Bound));
    }
}
