//! COSE_Sign1 (RFC 9052 §4.2) as this protocol uses it: EdDSA, protected headers `alg` and `kid` only, attached payload.

use coset::{CborSerializable as _, Header, RegisteredLabelWithPrivate, iana};
use minicbor::data::Type;
use minicbor::{Decoder, Encode, Encoder};

use crate::cbor::{self, CborError};
use crate::identity::{PublicKey, SecretKey};

/// Why a COSE_Sign1 is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Sign1Error {
    /// The envelope, its protected header or its payload is not strict CBOR.
    #[error("not strict CBOR: {0}")]
    Cbor(#[from] CborError),
    /// Strict CBOR, but no COSE_Sign1 with exactly `alg` and `kid` protected, nothing unprotected, a payload and a
    /// 64-byte signature.
    #[error("not a COSE_Sign1 of this protocol: {0}")]
    Shape(&'static str),
    /// `alg` is not EdDSA.
    #[error("the signature's algorithm is not EdDSA")]
    Algorithm,
    /// `kid` is not 32 bytes of a key.
    #[error("the key id is not an ed25519 key")]
    KeyId,
    /// The signature is invalid under strict verification.
    #[error("the signature does not verify")]
    Signature,
}

/// Why an envelope can be written.
const WRITES: &str = "writing to a vector cannot fail";
/// What is said of an envelope that is none.
const NOT_FOUR: &str = "not an array of four COSE members";
/// Bytes of a protected header: a valid one has 38; longer ones get a specific error.
const PROTECTED_BYTES_MAX: usize = 64;
/// What stands before the key in the only protected header that is valid, {1: -8, 4: kid}.
const PROTECTED_HEAD: [u8; 6] = [0xa2, 0x01, 0x27, 0x04, 0x58, 0x20];
/// Bytes of the only protected header that is valid.
const PROTECTED_BYTES: usize = PROTECTED_HEAD.len() + 32;
/// Bytes of a signature with its head.
const SIGNATURE_BYTES: usize = 2 + 64;

/// A COSE_Sign1 whose shape is right and whose signature is **not yet checked**.
pub struct Unverified<'a> {
    protected: &'a [u8],
    payload: &'a [u8],
    signature: &'a [u8; 64],
    signer: PublicKey,
}

/// Signs `payload` (strict CBOR) for the context `aad`.
#[must_use]
pub fn seal(payload: Vec<u8>, aad: &[u8], key: &SecretKey) -> Vec<u8> {
    sealed((0, payload.len()), |bytes| bytes.extend_from_slice(&payload), aad, key)
}

/// Signs a value for the context `aad`, behind so many zero bytes, which are for what goes before the envelope. The value is
/// written once: it may be a megabyte.
pub(crate) fn seal_value(room: usize, value: &impl Encode<()>, aad: &[u8], key: &SecretKey) -> Vec<u8> {
    let written = |bytes: &mut Vec<u8>| minicbor::encode(value, bytes).expect(WRITES);
    sealed((room, cbor::length(value)), written, aad, key)
}

/// Signs what `write` adds, which has that length. What is signed and the envelope both end with it, so that it stays where it is
/// while the head before it is changed.
fn sealed((room, length): (usize, usize), write: impl FnOnce(&mut Vec<u8>), aad: &[u8], key: &SecretKey) -> Vec<u8> {
    let protected = protected_by(&key.public());
    let (mut signed, mut envelope) = (Vec::new(), Vec::new());
    put_signed_head(&mut signed, &protected, aad, length);
    put_envelope_head(&mut envelope, &protected, length);
    let mut bytes = Vec::with_capacity(room + signed.len() + length + SIGNATURE_BYTES);
    bytes.resize(room, 0);
    bytes.extend_from_slice(&signed);
    write(&mut bytes);
    let signature = key.sign(&bytes[room..]);
    drop(bytes.splice(room..room + signed.len(), envelope));
    put_signature(&mut bytes, &signature);
    bytes
}

/// Puts together a value that was signed and its signature, which may not be valid.
pub(crate) fn join(value: &impl Encode<()>, signer: &PublicKey, signature: &[u8; 64]) -> Vec<u8> {
    let (protected, length) = (protected_by(signer), cbor::length(value));
    // The heads of the array, of the header and of the payload.
    let mut bytes = Vec::with_capacity(PROTECTED_BYTES + length + SIGNATURE_BYTES + 13);
    put_envelope_head(&mut bytes, &protected, length);
    minicbor::encode(value, &mut bytes).expect(WRITES);
    put_signature(&mut bytes, signature);
    bytes
}

fn protected_by(signer: &PublicKey) -> [u8; PROTECTED_BYTES] {
    let mut header = [0; PROTECTED_BYTES];
    header[..PROTECTED_HEAD.len()].copy_from_slice(&PROTECTED_HEAD);
    header[PROTECTED_HEAD.len()..].copy_from_slice(signer.as_bytes());
    header
}

/// An envelope up to its payload of that length.
fn put_envelope_head(bytes: &mut Vec<u8>, protected: &[u8], length: usize) {
    let mut e = Encoder::new(bytes);
    let written = e.array(4).and_then(|e| e.bytes(protected)).and_then(|e| e.map(0));
    written.and_then(|e| e.bytes_len(length as u64)).expect(WRITES);
}

/// `Sig_structure` (RFC 9052, section 4.4), which is what is signed, up to its payload of that length.
fn put_signed_head(bytes: &mut Vec<u8>, protected: &[u8], aad: &[u8], length: usize) {
    let mut e = Encoder::new(bytes);
    let written = e.array(4).and_then(|e| e.str("Signature1")).and_then(|e| e.bytes(protected));
    written.and_then(|e| e.bytes(aad)).and_then(|e| e.bytes_len(length as u64)).expect(WRITES);
}

fn put_signature(bytes: &mut Vec<u8>, signature: &[u8; 64]) {
    Encoder::new(bytes).bytes(signature).expect(WRITES);
}

/// Reads the shape of a COSE_Sign1 of at most `max` bytes.
///
/// # Errors
/// Anything but [`Sign1Error::Signature`].
pub fn read(bytes: &[u8], max: usize) -> Result<Unverified<'_>, Sign1Error> {
    read_known(bytes, max, None)
}

/// As [`read`], with a likely signer: checking a `known` key again is skipped, which saves a square root on the curve. The
/// signer may still be another one.
///
/// # Errors
/// As [`read`].
pub fn read_known(bytes: &[u8], max: usize, known: Option<PublicKey>) -> Result<Unverified<'_>, Sign1Error> {
    cbor::check(bytes, max)?;
    let (protected, payload, signature) = members(bytes)?;
    let signer = signer(protected, known)?;
    let payload = payload.ok_or(Sign1Error::Shape("it has no payload"))?;
    cbor::check(payload, max)?;
    let signature = <&[u8; 64]>::try_from(signature);
    let signature = signature.map_err(|_| Sign1Error::Shape("its signature is not 64 bytes"))?;
    Ok(Unverified { protected, payload, signature, signer })
}

/// Protected header, payload and signature, where they are.
type Members<'a> = (&'a [u8], Option<&'a [u8]>, &'a [u8]);

/// The members of an envelope that has no unprotected headers. For the validator of the envelope protected headers are a byte string
/// of any length, which may hold a million items: they are bounded before anything reads them.
fn members(bytes: &[u8]) -> Result<Members<'_>, Sign1Error> {
    let none = |_| Sign1Error::Shape(NOT_FOUR);
    let mut d = Decoder::new(bytes);
    if d.array().map_err(none)? != Some(4) {
        return Err(Sign1Error::Shape(NOT_FOUR));
    }
    let protected = d.bytes().map_err(none)?;
    cbor::check(protected, PROTECTED_BYTES_MAX)?;
    if d.map().map_err(none)? != Some(0) {
        return Err(Sign1Error::Shape("it has unprotected headers"));
    }
    let is_detached = d.datatype().map_err(none)? == Type::Null;
    let payload = if is_detached { d.null().map(|()| None) } else { d.bytes().map(Some) };
    Ok((protected, payload.map_err(none)?, d.bytes().map_err(none)?))
}

/// Whose key a protected header names, which has exactly these bytes: {1: -8, 4: kid}. Any other header, order or encoding differs
/// from them.
fn signer(protected: &[u8], known: Option<PublicKey>) -> Result<PublicKey, Sign1Error> {
    let kid = protected.strip_prefix(&PROTECTED_HEAD).and_then(|kid| <[u8; 32]>::try_from(kid).ok());
    let Some(kid) = kid else { return Err(wrong_header(protected)) };
    match known.filter(|known| *known.as_bytes() == kid) {
        Some(known) => Ok(known),
        None => PublicKey::from_bytes(kid).map_err(|_| Sign1Error::KeyId),
    }
}

/// Why a protected header is refused.
fn wrong_header(protected: &[u8]) -> Sign1Error {
    let Ok(header) = Header::from_slice(protected) else { return Sign1Error::Shape(NOT_FOUR) };
    if header.alg != Some(RegisteredLabelWithPrivate::Assigned(iana::Algorithm::EdDSA)) {
        return Sign1Error::Algorithm;
    }
    match <[u8; 32]>::try_from(header.key_id.as_slice()).map(PublicKey::from_bytes) {
        Ok(Ok(_)) => Sign1Error::Shape("its protected headers are not exactly alg and kid"),
        Ok(Err(_)) | Err(_) => Sign1Error::KeyId,
    }
}

impl<'a> Unverified<'a> {
    /// The claimed signer.
    #[must_use]
    pub fn signer(&self) -> PublicKey {
        self.signer
    }

    /// The unverified payload: strict CBOR.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Checks the signature in the context `aad` and hands out the payload.
    ///
    /// # Errors
    /// [`Sign1Error::Signature`].
    pub fn verify(self, aad: &[u8]) -> Result<&'a [u8], Sign1Error> {
        let Unverified { protected, payload, signature, signer } = self;
        // "Signature1", and four heads of up to nine bytes with that of the array.
        let mut message = Vec::with_capacity(protected.len() + aad.len() + payload.len() + 10 + 37);
        put_signed_head(&mut message, protected, aad, payload.len());
        message.extend_from_slice(payload);
        if signer.verifies(&message, signature) { Ok(payload) } else { Err(Sign1Error::Signature) }
    }
}
