//! Keys of people and what is signed with them, as OpenSSH has both (SPEC P-211). Signatures with ed25519 are checked strictly,
//! as all others of this key are.

use std::fmt;

use althing_protocol::audit::NAMESPACE;
use althing_protocol::{PublicKey, sign_off};
use sha2::{Digest as _, Sha256};
use ssh_key::public::KeyData;
use ssh_key::{EcdsaCurve, HashAlg, SshSig};

/// Bytes of a public key as text.
const KEY_BYTES_MAX: usize = 4 << 10;
/// Characters of a name in a key or a signature that a message repeats.
const NAME_CHARS: usize = 40;
/// In the flags of a signature by a hardware key: somebody touched it.
const USER_PRESENT: u8 = 1;

/// Why a text is no key that counts, or no signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not `ssh-ed25519 AAAA…`.
    #[error("it is no public key of OpenSSH; one looks like ssh-ed25519 AAAA…, as in a file that ends with .pub")]
    Key,
    /// A key of another kind.
    #[error(
        "the kind {0:?} does not count: use ssh-ed25519, ecdsa-sha2-nistp256, or one of these on a hardware key \
         (`ssh-keygen -t ed25519`, `-t ed25519-sk`)"
    )]
    Kind(String),
    /// Not text as `ssh-keygen -Y sign` writes it.
    #[error("it is no SSH signature; send all that `ssh-keygen -Y sign` made, with its first and last line")]
    Signature,
    /// Made for another use.
    #[error("it is made for the use {0:?}: sign with `-n {NAMESPACE}`")]
    Namespace(String),
}

/// A public key of a person.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PersonKey(KeyData);

impl fmt::Debug for PersonKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PersonKey({self})")
    }
}

impl fmt::Display for PersonKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fingerprint())
    }
}

impl PersonKey {
    /// The key of a line of a `.pub` file.
    ///
    /// # Errors
    /// [`KeyError::Key`] or [`KeyError::Kind`].
    pub fn read(line: &str) -> Result<PersonKey, KeyError> {
        if line.len() > KEY_BYTES_MAX {
            return Err(KeyError::Key);
        }
        let key = ssh_key::PublicKey::from_openssh(line.trim()).map_err(|_| KeyError::Key)?;
        check_kind(key.key_data())?;
        Ok(PersonKey(key.key_data().clone()))
    }

    /// `SHA256:…`, by which OpenSSH shows a key to people.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        self.0.fingerprint(HashAlg::Sha256).to_string()
    }
}

/// A signature whose shape is right and which is **not yet checked**.
#[derive(Debug, Clone)]
pub struct PersonSignature(SshSig);

/// Whether a signature is its parts and nothing more: key, namespace, what is reserved, hash and signature; the key as it is written,
/// and in the signature its kind and its bytes.
fn is_exact(blob: &[u8], key: &KeyData) -> bool {
    const PREFIX_BYTES: usize = 10;
    let parts = blob.get(PREFIX_BYTES..).and_then(|rest| parts(rest, 5));
    let Some((parts, [])) = parts else { return false };
    let is_written_so = ssh_key::PublicKey::from(key.clone()).to_bytes().is_ok_and(|written| written == parts[0]);
    let Some((signature, rest)) = self::parts(parts[4], 2) else { return false };
    // A hardware key says after it how it was touched, and how often it signed; with P-256 there are two numbers in it.
    let is_touch = |rest: &[u8]| rest.is_empty() || rest.len() == 5;
    let is_ecdsa = matches!(key, KeyData::Ecdsa(_) | KeyData::SkEcdsaSha2NistP256(_));
    let are_numbers = |bytes| self::parts(bytes, 2).is_some_and(|(_, rest)| rest.is_empty());
    is_written_so && is_touch(rest) && (!is_ecdsa || are_numbers(signature[1]))
}

/// So many parts, each after its length, and what follows.
fn parts(mut rest: &[u8], count: usize) -> Option<(Vec<&[u8]>, &[u8])> {
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        let (length, after) = rest.split_first_chunk()?;
        let (part, after) = after.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        all.push(part);
        rest = after;
    }
    Some((all, rest))
}

impl PersonSignature {
    /// Reads what `ssh-keygen -Y sign -n althing-consent` wrote.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn read(text: &str) -> Result<PersonSignature, KeyError> {
        let blob = sign_off::unarmor(text).map_err(|_| KeyError::Signature)?;
        // Written anew, so that nothing but the bytes between both lines counts.
        let signature = SshSig::from_pem(sign_off::armor(&blob)).map_err(|_| KeyError::Signature)?;
        // The library passes over lengths that lead beyond what they are in.
        if !is_exact(&blob, signature.public_key()) {
            return Err(KeyError::Signature);
        }
        check_kind(signature.public_key())?;
        if signature.namespace() != NAMESPACE {
            return Err(KeyError::Namespace(signature.namespace().chars().take(NAME_CHARS).collect()));
        }
        let is_whole = signature.version() == SshSig::VERSION && signature.reserved().is_empty();
        if !is_whole || signature.algorithm() != signature.public_key().algorithm() {
            return Err(KeyError::Signature);
        }
        Ok(PersonSignature(signature))
    }

    /// The key that it claims.
    #[must_use]
    pub fn signer(&self) -> PersonKey {
        PersonKey(self.0.public_key().clone())
    }

    /// Whether it is of `message`.
    #[must_use]
    pub fn verifies(&self, message: &[u8]) -> bool {
        let Ok(signed) = SshSig::signed_data(NAMESPACE, self.0.hash_alg(), message) else { return false };
        let bytes = self.0.signature_bytes();
        match self.0.public_key() {
            KeyData::Ed25519(key) => is_strict(&key.0, &signed, bytes),
            KeyData::SkEd25519(key) => bytes.split_last_chunk::<5>().is_some_and(|(signature, touch)| {
                let digest = |part: &[u8]| Sha256::digest(part).to_vec();
                let (application, signed) = (digest(key.application().as_bytes()), digest(&signed));
                let message = [&application[..], &touch[..], &signed[..]].concat();
                touch[0] & USER_PRESENT != 0 && is_strict(&key.public_key().0, &message, signature)
            }),
            KeyData::SkEcdsaSha2NistP256(_) => {
                let touch = bytes.split_last_chunk::<5>().map(|(_, touch)| touch[0]);
                touch.is_some_and(|flags| flags & USER_PRESENT != 0) && self.verifies_on_curve(message)
            }
            KeyData::Ecdsa(_) => self.verifies_on_curve(message),
            _ => false,
        }
    }

    /// Of a key on P-256.
    fn verifies_on_curve(&self, message: &[u8]) -> bool {
        ssh_key::PublicKey::from(self.0.public_key().clone()).verify(NAMESPACE, message, &self.0).is_ok()
    }
}

/// Refuses keys of other kinds, and those of ed25519 that are no good points.
fn check_kind(key: &KeyData) -> Result<(), KeyError> {
    let strict = |bytes: [u8; 32]| PublicKey::from_bytes(bytes).map(drop).map_err(|_| KeyError::Key);
    match key {
        KeyData::Ed25519(key) => strict(key.0),
        KeyData::SkEd25519(key) => strict(key.public_key().0),
        KeyData::Ecdsa(key) if key.curve() == EcdsaCurve::NistP256 => Ok(()),
        KeyData::SkEcdsaSha2NistP256(_) => Ok(()),
        other => Err(KeyError::Kind(other.algorithm().as_str().chars().take(NAME_CHARS).collect())),
    }
}

fn is_strict(key: &[u8; 32], message: &[u8], signature: &[u8]) -> bool {
    let Ok(signature) = <&[u8; 64]>::try_from(signature) else { return false };
    PublicKey::from_bytes(*key).is_ok_and(|key| key.verifies(message, signature))
}

#[cfg(test)]
mod tests;
