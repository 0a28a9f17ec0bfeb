//! COSE_Sign1 (RFC 9052 §4.2) as this protocol uses it: EdDSA, protected headers `alg` and `kid` only, attached payload.

use coset::{
    CborSerializable as _, CoseSign1, CoseSign1Builder, Header, HeaderBuilder, RegisteredLabelWithPrivate, iana,
};

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
const ENCODES: &str = "a COSE_Sign1 of byte strings always encodes";
/// Bytes of a protected header: a valid one has 38; longer ones get a specific error.
const PROTECTED_BYTES_MAX: usize = 64;

/// A COSE_Sign1 whose shape is right and whose signature is **not yet checked**.
pub struct Unverified {
    sign1: CoseSign1,
    signer: PublicKey,
}

/// Signs `payload` (strict CBOR) for the context `aad`.
#[must_use]
pub fn seal(payload: Vec<u8>, aad: &[u8], key: &SecretKey) -> Vec<u8> {
    CoseSign1Builder::new()
        .protected(protected_by(&key.public()))
        .payload(payload)
        .create_signature(aad, |message| key.sign(message).to_vec())
        .build()
        .to_vec()
        .expect(ENCODES)
}

/// Puts together what was signed and its signature, which may not be valid.
pub(crate) fn join(payload: Vec<u8>, signer: &PublicKey, signature: &[u8; 64]) -> Vec<u8> {
    CoseSign1Builder::new()
        .protected(protected_by(signer))
        .payload(payload)
        .signature(signature.to_vec())
        .build()
        .to_vec()
        .expect(ENCODES)
}

fn protected_by(signer: &PublicKey) -> Header {
    HeaderBuilder::new().algorithm(iana::Algorithm::EdDSA).key_id(signer.as_bytes().to_vec()).build()
}

/// Reads the shape of a COSE_Sign1 of at most `max` bytes.
///
/// # Errors
/// Anything but [`Sign1Error::Signature`].
pub fn read(bytes: &[u8], max: usize) -> Result<Unverified, Sign1Error> {
    read_known(bytes, max, None)
}

/// As [`read`], with a likely signer: checking a `known` key again is skipped, which saves a square root on the curve. The
/// signer may still be another one.
///
/// # Errors
/// As [`read`].
pub fn read_known(bytes: &[u8], max: usize, known: Option<PublicKey>) -> Result<Unverified, Sign1Error> {
    cbor::check(bytes, max)?;
    check_headers(bytes)?;
    let sign1 = CoseSign1::from_slice(bytes).map_err(|_| Sign1Error::Shape("not an array of four COSE members"))?;
    let header = &sign1.protected.header;
    if header.alg != Some(RegisteredLabelWithPrivate::Assigned(iana::Algorithm::EdDSA)) {
        return Err(Sign1Error::Algorithm);
    }
    let signer = <[u8; 32]>::try_from(header.key_id.as_slice()).map_err(|_| Sign1Error::KeyId)?;
    let signer = match known.filter(|known| *known.as_bytes() == signer) {
        Some(known) => known,
        None => PublicKey::from_bytes(signer).map_err(|_| Sign1Error::KeyId)?,
    };
    // Exactly these bytes: {1: -8, 4: kid}. Any other header, order or encoding differs from them.
    let mut expected = vec![0xa2, 0x01, 0x27, 0x04, 0x58, 0x20];
    expected.extend_from_slice(signer.as_bytes());
    if sign1.protected.original_data.as_deref() != Some(&expected) {
        return Err(Sign1Error::Shape("its protected headers are not exactly alg and kid"));
    }
    let payload = sign1.payload.as_deref().ok_or(Sign1Error::Shape("it has no payload"))?;
    cbor::check(payload, max)?;
    if sign1.signature.len() != 64 {
        return Err(Sign1Error::Shape("its signature is not 64 bytes"));
    }
    Ok(Unverified { sign1, signer })
}

/// Refuses headers that could make coset build a large tree before verification: for the validator of the envelope protected
/// headers are a byte string of any length, which may hold a million items.
fn check_headers(bytes: &[u8]) -> Result<(), Sign1Error> {
    let mut d = minicbor::Decoder::new(bytes);
    let four = Sign1Error::Shape("not an array of four COSE members");
    let Ok(Some(4)) = d.array() else { return Err(four) };
    let Ok(protected) = d.bytes() else { return Err(four) };
    cbor::check(protected, PROTECTED_BYTES_MAX)?;
    match d.map() {
        Ok(Some(0)) => Ok(()),
        Ok(_) => Err(Sign1Error::Shape("it has unprotected headers")),
        Err(_) => Err(four),
    }
}

/// `Sig_structure` (RFC 9052, section 4.4) in one allocation: coset copies a payload three times, and its length is chosen by
/// others.
fn to_be_signed(protected: &[u8], aad: &[u8], payload: &[u8]) -> Vec<u8> {
    const CONTEXT: &str = "Signature1";
    // Four heads of up to nine bytes, and that of the array.
    let mut bytes = Vec::with_capacity(protected.len() + aad.len() + payload.len() + CONTEXT.len() + 37);
    let mut e = minicbor::Encoder::new(&mut bytes);
    let written = e.array(4).and_then(|e| e.str(CONTEXT)).and_then(|e| e.bytes(protected)).and_then(|e| e.bytes(aad));
    written.and_then(|e| e.bytes(payload)).expect("writing to a vector cannot fail");
    bytes
}

impl Unverified {
    /// The claimed signer.
    #[must_use]
    pub fn signer(&self) -> PublicKey {
        self.signer
    }

    /// The unverified payload: strict CBOR.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.sign1.payload.as_deref().unwrap_or_default()
    }

    /// Checks the signature in the context `aad` and hands out the payload.
    ///
    /// # Errors
    /// [`Sign1Error::Signature`].
    pub fn verify(self, aad: &[u8]) -> Result<Vec<u8>, Sign1Error> {
        let CoseSign1 { protected, payload, signature, .. } = self.sign1;
        let payload = payload.ok_or(Sign1Error::Shape("it has no payload"))?;
        let signature = signature.as_slice().try_into().map_err(|_| Sign1Error::Signature)?;
        let message = to_be_signed(&protected.original_data.unwrap_or_default(), aad, &payload);
        if self.signer.verifies(&message, signature) { Ok(payload) } else { Err(Sign1Error::Signature) }
    }
}
