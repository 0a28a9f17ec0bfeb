//! Bodies are sealed with XChaCha20-Poly1305, each for its leaf and its role: the place of its row is authenticated with it.

use althing_protocol::audit::{BodyCommitment, BodyRole, BodySalt};
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

use super::draft::DraftBody;
use super::error::AuditFault;
use super::keys::BodyKey;
use super::rows::{BodyPlain, BodyRow, damaged, read, written};

/// Bytes of the bodies of a leaf that are kept.
const BODIES_BYTES_MAX: usize = 1 << 20;
const NONCE_BYTES: usize = 24;

/// The commitments to bodies, and what is sealed of them, in the order of their roles. `salt` gives a new one each time.
pub(super) fn commit(
    mut bodies: Vec<DraftBody>,
    mut salt: impl FnMut() -> BodySalt,
) -> (Vec<BodyCommitment>, Vec<(BodyRole, BodyPlain)>) {
    bodies.sort_by_key(|body| body.role);
    let mut room = BODIES_BYTES_MAX;
    let of = |DraftBody { role, bytes }: DraftBody| {
        let (salt, len) = (salt(), bytes.len());
        let commitment = BodyCommitment::of(role, &salt, &bytes);
        let body = (len <= room).then_some(bytes);
        room -= body.as_ref().map_or(0, Vec::len);
        (commitment, (role, BodyPlain { salt, body, bytes: len as u64 }))
    };
    bodies.into_iter().map(of).unzip()
}

/// The row of a body, whose key is `at`.
pub(super) fn seal(key: &BodyKey, nonce: [u8; NONCE_BYTES], at: &[u8], plain: &BodyPlain) -> Vec<u8> {
    let cipher = XChaCha20Poly1305::new_from_slice(&key.secret).expect("a key has 32 bytes");
    let plain = written(plain);
    let sealed = cipher.encrypt(&XNonce::from(nonce), Payload { msg: &plain, aad: at });
    let sealed = sealed.expect("a body is far shorter than what the cipher takes");
    written(&BodyRow { key: key.name, sealed: [nonce.as_slice(), &sealed].concat() })
}

/// What a row has.
///
/// # Errors
/// [`AuditFault::Damaged`].
pub(super) fn open(secret: &[u8; 32], at: &[u8], row: &BodyRow) -> Result<BodyPlain, AuditFault> {
    let wrong = || damaged("the body", at);
    let (nonce, sealed) = row.sealed.split_first_chunk::<NONCE_BYTES>().ok_or_else(wrong)?;
    let cipher = XChaCha20Poly1305::new_from_slice(secret).expect("a key has 32 bytes");
    let plain = cipher.decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: at }).map_err(|_| wrong())?;
    read("the body", at, &plain)
}
