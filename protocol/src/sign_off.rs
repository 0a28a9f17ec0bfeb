//! Signatures of people under a document: those that `ssh-keygen -Y sign -n althing-handoff` makes with an ed25519 key.
//!
//! The format is OpenSSH's SSHSIG (PROTOCOL.sshsig). It is read here, since a crate for all formats of OpenSSH brings a second
//! ed25519, which verifies less strictly than what nodes agree on (P-17).

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use sha2::Digest as _;

use crate::duration;
use crate::identity::PublicKey;

/// What `-n` must be, so that a signature for something else is none here.
pub const NAMESPACE: &str = "althing-handoff";

const MAGIC: &[u8] = b"SSHSIG";
const VERSION: u32 = 1;
const ALGORITHM: &[u8] = b"ssh-ed25519";
const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";
/// Bytes of a signature or a key as text: one of ed25519 has 300.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// Characters of a line between [`BEGIN`] and [`END`], as `ssh-keygen` writes it.
const LINE_CHARS: usize = 70;
/// Characters of a name in a signature that a message repeats.
const NAME_CHARS: usize = 40;

/// Why a sign-off does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignOffError {
    /// Not text as `ssh-keygen -Y sign` writes it.
    #[error("it is no SSH signature; write all that `ssh-keygen -Y sign` made, with its first and last line")]
    Armor,
    /// Not `ssh-ed25519 AAAA…`.
    #[error("it is no public key of OpenSSH; one looks like ssh-ed25519 AAAA…, as in a file that ends with .pub")]
    Key,
    /// Bytes that are no signature of version 1.
    #[error("its bytes are no SSH signature of version 1")]
    Shape,
    /// A key of another kind.
    #[error("it is made with a key of the kind {0:?}, and only ssh-ed25519 counts: sign with such a key")]
    Algorithm(String),
    /// Made for another use.
    #[error("it is made for the use {0:?}: sign with `-n {NAMESPACE}`")]
    Namespace(String),
    /// A digest that SSH signatures do not have.
    #[error("it signs a digest of the kind {0:?}, and only sha512 and sha256 count")]
    Hash(String),
    /// Of something else, or changed.
    #[error("it is not valid for this document, role and end: something was changed since it was signed")]
    Signature,
    /// Its end has come.
    #[error("it ended {} ago: have it signed again", duration::words(*ago_ms))]
    Expired {
        /// Milliseconds since.
        ago_ms: u64,
    },
}

/// An SSH signature whose shape is right and which is **not yet checked**.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshSignature {
    /// The key that it claims.
    pub signer: PublicKey,
    hash: Hash,
    signature: [u8; 64],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hash {
    Sha256,
    Sha512,
}

impl SshSignature {
    /// Reads the bytes between the first and the last line: see [`unarmor`].
    ///
    /// # Errors
    /// Anything but [`SignOffError::Signature`] and [`SignOffError::Expired`].
    pub fn read(blob: &[u8]) -> Result<SshSignature, SignOffError> {
        let mut fields = Fields(blob);
        if fields.take(MAGIC.len())? != MAGIC || fields.number()? != VERSION {
            return Err(SignOffError::Shape);
        }
        let signer = key(fields.string()?)?;
        let namespace = fields.string()?;
        if namespace != NAMESPACE.as_bytes() {
            return Err(SignOffError::Namespace(named(namespace)));
        }
        let reserved = fields.string()?;
        let hash = match fields.string()? {
            b"sha512" => Hash::Sha512,
            b"sha256" => Hash::Sha256,
            other => return Err(SignOffError::Hash(named(other))),
        };
        let mut inner = Fields(fields.string()?);
        let algorithm = inner.string()?;
        if algorithm != ALGORITHM {
            return Err(SignOffError::Algorithm(named(algorithm)));
        }
        let signature = <[u8; 64]>::try_from(inner.string()?).map_err(|_| SignOffError::Shape)?;
        if !reserved.is_empty() || !inner.0.is_empty() || !fields.0.is_empty() {
            return Err(SignOffError::Shape);
        }
        Ok(SshSignature { signer, hash, signature })
    }

    /// Whether it is of `message`, verified strictly.
    #[must_use]
    pub fn verifies(&self, message: &[u8]) -> bool {
        let (name, digest) = match self.hash {
            Hash::Sha256 => ("sha256", sha2::Sha256::digest(message).to_vec()),
            Hash::Sha512 => ("sha512", sha2::Sha512::digest(message).to_vec()),
        };
        let mut signed = MAGIC.to_vec();
        for part in [NAMESPACE.as_bytes(), "".as_bytes(), name.as_bytes(), digest.as_slice()] {
            put(&mut signed, part);
        }
        self.signer.verifies(&signed, &self.signature)
    }
}

/// The bytes of a signature, of the text that `ssh-keygen -Y sign` wrote.
///
/// # Errors
/// [`SignOffError::Armor`].
pub fn unarmor(text: &str) -> Result<Vec<u8>, SignOffError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(SignOffError::Armor);
    }
    let inner = text.trim().strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END)).ok_or(SignOffError::Armor)?;
    let digits: String = inner.split_whitespace().collect();
    STANDARD.decode(digits).map_err(|_| SignOffError::Armor)
}

/// The text of a signature's bytes, as `ssh-keygen -Y sign` writes it.
#[must_use]
pub fn armor(blob: &[u8]) -> String {
    let mut text = String::from(BEGIN);
    for (at, digit) in STANDARD.encode(blob).chars().enumerate() {
        if at % LINE_CHARS == 0 {
            text.push('\n');
        }
        text.push(digit);
    }
    text + "\n" + END + "\n"
}

/// The key of a line of a `.pub` file: `ssh-ed25519 AAAA…`, and perhaps a comment.
///
/// # Errors
/// [`SignOffError::Key`] or [`SignOffError::Algorithm`].
pub fn public_key(line: &str) -> Result<PublicKey, SignOffError> {
    let mut words = line.split_whitespace();
    let (Some(algorithm), Some(digits)) = (words.next(), words.next()) else { return Err(SignOffError::Key) };
    if line.len() > TEXT_BYTES_MAX {
        return Err(SignOffError::Key);
    }
    let blob = STANDARD.decode(digits).map_err(|_| SignOffError::Key)?;
    let key = key(&blob).map_err(|error| if error == SignOffError::Shape { SignOffError::Key } else { error })?;
    if algorithm.as_bytes() == ALGORITHM { Ok(key) } else { Err(SignOffError::Key) }
}

/// `SHA256:…`, by which OpenSSH shows a key to people.
#[must_use]
pub fn fingerprint(key: &PublicKey) -> String {
    let mut blob = Vec::new();
    put(&mut blob, ALGORITHM);
    put(&mut blob, key.as_bytes());
    format!("SHA256:{}", STANDARD_NO_PAD.encode(crate::digest(&blob)))
}

/// The key in the wire format of SSH.
fn key(blob: &[u8]) -> Result<PublicKey, SignOffError> {
    let mut fields = Fields(blob);
    let algorithm = fields.string()?;
    if algorithm != ALGORITHM {
        return Err(SignOffError::Algorithm(named(algorithm)));
    }
    let bytes = <[u8; 32]>::try_from(fields.string()?).map_err(|_| SignOffError::Shape)?;
    if !fields.0.is_empty() {
        return Err(SignOffError::Shape);
    }
    PublicKey::from_bytes(bytes).map_err(|_| SignOffError::Shape)
}

fn put(to: &mut Vec<u8>, part: &[u8]) {
    let length = u32::try_from(part.len()).expect("parts are digests, keys and names");
    to.extend_from_slice(&length.to_be_bytes());
    to.extend_from_slice(part);
}

fn named(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().take(NAME_CHARS).collect()
}

/// What is left to read: numbers of four bytes, and strings with their length before them.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], SignOffError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(SignOffError::Shape)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, SignOffError> {
        let bytes = <[u8; 4]>::try_from(self.take(4)?).map_err(|_| SignOffError::Shape)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn string(&mut self) -> Result<&'a [u8], SignOffError> {
        let length = usize::try_from(self.number()?).map_err(|_| SignOffError::Shape)?;
        self.take(length)
    }
}
