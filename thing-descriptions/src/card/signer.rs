//! Who signed the card of somebody else's agent: with which key, and where that key is shown. A key that was agreed to once is
//! kept, and later cards must be signed by it.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signature, VerifyingKey};
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::{Map, Value};

use super::signature::{CARD_BYTES_MAX, CardError, SIGNATURES_MAX, header, inputs, key_of};
use crate::json::{excerpt, scan};

/// The longest address of keys, in bytes.
const JKU_BYTES_MAX: usize = 2_048;

/// A key that signs cards. Written as `Ed25519:` or `P-256:`, and the key in base64url.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignerKey {
    /// EdDSA.
    Ed25519([u8; 32]),
    /// ES256; the uncompressed point.
    P256(Vec<u8>),
}

impl SignerKey {
    /// The key that a `kid` of the form `did:key:z…#z…` is.
    #[must_use]
    pub fn of_kid(kid: &str) -> Option<SignerKey> {
        key_of(kid).map(|key| SignerKey::Ed25519(key.to_bytes()))
    }

    /// A JSON Web Key (RFC 7517) of a kind that is verified here.
    #[must_use]
    pub fn of_jwk(jwk: &Value) -> Option<SignerKey> {
        let text = |member: &str| jwk.get(member).and_then(Value::as_str);
        let bytes = |member: &str| URL_SAFE_NO_PAD.decode(text(member)?).ok().filter(|bytes| bytes.len() == 32);
        match (text("kty")?, text("crv")?) {
            ("OKP", "Ed25519") => Some(SignerKey::Ed25519(bytes("x")?.try_into().ok()?)),
            ("EC", "P-256") => Some(SignerKey::P256([&[4][..], &bytes("x")?, &bytes("y")?].concat())),
            _ => None,
        }
    }

    /// The algorithm of its signatures.
    #[must_use]
    pub fn algorithm(&self) -> &'static str {
        match self {
            SignerKey::Ed25519(_) => "EdDSA",
            SignerKey::P256(_) => "ES256",
        }
    }

    fn verifies(&self, input: &[u8], signature: &[u8]) -> bool {
        match self {
            SignerKey::Ed25519(key) => {
                let (key, signature) = (VerifyingKey::from_bytes(key), Signature::from_slice(signature));
                matches!((key, signature), (Ok(key), Ok(signature)) if key.verify_strict(input, &signature).is_ok())
            }
            SignerKey::P256(key) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).verify(input, signature).is_ok()
            }
        }
    }
}

impl fmt::Display for SignerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, bytes) = match self {
            SignerKey::Ed25519(key) => ("Ed25519", &key[..]),
            SignerKey::P256(key) => ("P-256", &key[..]),
        };
        write!(f, "{kind}:{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

/// A text that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is no key of a card's signer: Ed25519 or P-256, a colon, and base64url")]
pub struct NoSignerKey;

impl FromStr for SignerKey {
    type Err = NoSignerKey;

    fn from_str(text: &str) -> Result<SignerKey, NoSignerKey> {
        let (kind, bytes) = text.split_once(':').ok_or(NoSignerKey)?;
        let bytes = URL_SAFE_NO_PAD.decode(bytes).map_err(|_| NoSignerKey)?;
        match kind {
            "Ed25519" => bytes.try_into().map(SignerKey::Ed25519).map_err(|_| NoSignerKey),
            "P-256" if bytes.len() == 65 && bytes[0] == 4 => Ok(SignerKey::P256(bytes)),
            _ => Err(NoSignerKey),
        }
    }
}

/// What a signature says of itself; nothing of it is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signer {
    /// Its algorithm.
    pub algorithm: String,
    /// Which key.
    pub kid: Option<String>,
    /// Where that key is shown.
    pub jku: Option<String>,
}

/// The signatures of a card, as its raw JSON; none if it is not signed. An entry that is malformed is no signature.
///
/// # Errors
/// [`CardError`]: what of the card is malformed.
pub fn card_signers(raw: &[u8]) -> Result<Vec<Signer>, CardError> {
    let (_, signatures) = read(raw)?;
    let signer = |(_, protected, _): (&str, Map<String, Value>, Vec<u8>)| {
        let text = |member: &str| protected.get(member).and_then(Value::as_str);
        Signer {
            algorithm: text("alg").map_or("none".to_owned(), |alg| excerpt(alg, 40)),
            kid: text("kid").map(|kid| excerpt(kid, 200)),
            jku: text("jku").filter(|jku| jku.len() <= JKU_BYTES_MAX).map(str::to_owned),
        }
    };
    Ok(signatures.iter().filter_map(parts).map(signer).collect())
}

/// Verifies that a card, as its raw JSON, is signed by this key. An entry that is malformed is passed over.
///
/// # Errors
/// [`CardError`]: what of the card is malformed; [`CardError::Unsigned`]; [`CardError::NotBy`].
pub fn verify_signer(raw: &[u8], key: &SignerKey) -> Result<(), CardError> {
    let (card, signatures) = read(raw)?;
    if signatures.is_empty() {
        return Err(CardError::Unsigned);
    }
    for (text, header, signature) in signatures.iter().filter_map(parts) {
        let is_fit = header.get("alg").and_then(Value::as_str) == Some(key.algorithm())
            && header.get("typ").is_none_or(|typ| typ == "JOSE")
            && !header.contains_key("crit");
        if !is_fit {
            continue;
        }
        for input in inputs(text, &card)? {
            if key.verifies(&input, &signature) {
                return Ok(());
            }
        }
    }
    Err(CardError::NotBy(key.to_string()))
}

/// The card, and its signatures, as far as they may be; what is no list of them has none.
fn read(raw: &[u8]) -> Result<(Map<String, Value>, Vec<Value>), CardError> {
    let scanned = scan(raw, CARD_BYTES_MAX)?;
    let Value::Object(card) = scanned.value else { return Err(CardError::NotAnObject) };
    let signatures: Vec<Value> = match card.get("signatures") {
        Some(Value::Array(list)) => list.iter().take(SIGNATURES_MAX).cloned().collect(),
        _ => Vec::new(),
    };
    match scanned.duplicates.into_iter().next().filter(|_| !signatures.is_empty()) {
        Some(pointer) => Err(CardError::Duplicate(excerpt(&pointer, 200))),
        None => Ok((card, signatures)),
    }
}

/// The protected header of a signature, as text and as its members, and the signature itself; none if that is malformed.
fn parts(entry: &Value) -> Option<(&str, Map<String, Value>, Vec<u8>)> {
    let text = |member: &str| entry.get(member).and_then(Value::as_str);
    let decoded = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
    let protected = text("protected")?;
    let members = header(0, &decoded(protected)?).ok()?;
    Some((protected, members, decoded(text("signature")?)?))
}

#[cfg(test)]
mod tests;
