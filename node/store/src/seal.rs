//! Encryption at rest: XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha), with a key that Argon2id (RFC 9106)
//! derives from a secret, which slows down guessing of short secrets. Names of rows are HMAC-SHA256.

use argon2::Argon2;
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// Bytes of a salt.
pub const SALT_BYTES: usize = 16;
/// Bytes of a nonce, drawn for each row.
pub const NONCE_BYTES: usize = 24;
/// The plaintext whose encryption verifies a key.
const CHECK: &[u8] = b"althing memory";

/// Keys that encrypt rows and derive their names.
pub struct Seal {
    cipher: XChaCha20Poly1305,
    names: [u8; 32],
}

impl Seal {
    /// Derives the keys from a secret and a salt; slow on purpose.
    pub fn new(secret: &str, salt: &[u8; SALT_BYTES]) -> Seal {
        let mut keys = [0; 64];
        let made = Argon2::default().hash_password_into(secret.as_bytes(), salt, &mut keys);
        made.expect("a secret has at most 16 KiB, and the lengths are those that Argon2 takes");
        let (key, names) = keys.split_at(32);
        let cipher = XChaCha20Poly1305::new_from_slice(key).expect("a key has 32 bytes");
        Seal { cipher, names: names.try_into().expect("the other half has 32 bytes") }
    }

    /// A value by which [`Seal::fits`] verifies the key later.
    pub fn check(&self, nonce: [u8; NONCE_BYTES]) -> Vec<u8> {
        self.close(nonce, b"", CHECK)
    }

    /// Whether the check was made with this key.
    pub fn fits(&self, check: &[u8]) -> bool {
        self.open(b"", check).as_deref() == Some(CHECK)
    }

    /// A deterministic pseudonym of `plain`.
    pub fn name(&self, plain: &[u8]) -> Vec<u8> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.names).expect("HMAC takes keys of every length");
        mac.update(plain);
        mac.finalize().into_bytes().to_vec()
    }

    /// Encrypts; `around` is the associated data, which must be the same on opening.
    pub fn close(&self, nonce: [u8; NONCE_BYTES], around: &[u8], plain: &[u8]) -> Vec<u8> {
        let sealed = self.cipher.encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: around });
        let sealed = sealed.expect("a row is far shorter than what the cipher takes");
        [nonce.as_slice(), &sealed].concat()
    }

    /// Decrypts; none if the key is wrong or a byte was changed.
    pub fn open(&self, around: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>()?;
        self.cipher.decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: around }).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_and_the_same_bytes_open() {
        let seal = Seal::new("correct horse", &[7; SALT_BYTES]);
        let closed = seal.close([1; NONCE_BYTES], b"row", b"hidden words");
        assert_eq!(seal.open(b"row", &closed).as_deref(), Some(b"hidden words".as_slice()));
        assert!(!closed.windows(6).any(|window| window == b"hidden"));
        assert_eq!(seal.open(b"other row", &closed), None);
        for at in 0..closed.len() {
            let mut changed = closed.clone();
            changed[at] ^= 1;
            assert_eq!(seal.open(b"row", &changed), None, "byte {at}");
        }
        assert_eq!(seal.open(b"row", &closed[..10]), None);
        let check = seal.check([2; NONCE_BYTES]);
        assert!(seal.fits(&check));
        for (secret, salt) in [("correct horsf", [7; SALT_BYTES]), ("correct horse", [8; SALT_BYTES])] {
            let other = Seal::new(secret, &salt);
            assert!(!other.fits(&check));
            assert_ne!(other.name(b"a"), seal.name(b"a"));
        }
    }
}
