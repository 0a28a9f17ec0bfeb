//! Signatures of agent cards (A2A 1.0.1 §8.4): a detached JWS (RFC 7515) over the JCS (RFC 8785) of the card without
//! `signatures`, EdDSA over ed25519 (RFC 8037), the key named by a `did:key`.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde_json::{Map, Value, json};

use super::defaults;
use crate::json::{JsonError, excerpt, join, scan};

/// The most signatures on one card; each known one costs a verification.
pub const SIGNATURES_MAX: usize = 16;
/// The longest card that is read, in bytes: room for the largest description in base64, and for the skills made from it.
pub const CARD_BYTES_MAX: usize = 4 << 20;
/// The integers that every JSON reader sees alike (RFC 8785 §3.1, RFC 7493 §2.2): below 2^53.
const INTEGER_MAX: u64 = (1 << 53) - 1;

/// Why a card was not signed, or its signatures do not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CardError {
    /// The text is not JSON within the bounds.
    #[error("the agent card cannot be read: {0}")]
    Json(#[from] JsonError),
    /// A member appears twice, so that two readers may see two cards.
    #[error("the member at {0} appears more than once: keep one of them")]
    Duplicate(String),
    /// The card is not a JSON object.
    #[error("the agent card is not a JSON object")]
    NotAnObject,
    /// `signatures` is not a list of objects, or longer than [`SIGNATURES_MAX`].
    #[error("`signatures` must be a list of 1 to {SIGNATURES_MAX} objects")]
    SignaturesForm,
    /// The card has no signature.
    #[error("the agent card is not signed: ask its provider to sign it, or accept it unsigned by name")]
    Unsigned,
    /// A value that readers canonicalise differently stands in a card that was to be signed.
    #[error("the value at {pointer} cannot be signed safely: {reason}")]
    Unsignable {
        /// JSON pointer of the value.
        pointer: String,
        /// Why, and what to write instead.
        reason: &'static str,
    },
    /// The `kid` for signing does not name the key that signs.
    #[error("the kid {0:?} is not the did:key of the signing key: write did:key:z…#z…")]
    KidOfAnotherKey(String),
    /// A member of a signature is missing or not text.
    #[error("signature {index}: {member:?} is missing or not text")]
    Member {
        /// Which signature, from 0.
        index: usize,
        /// `protected` or `signature`.
        member: &'static str,
    },
    /// A member of a signature is not base64url without padding.
    #[error("signature {index}: {member:?} is not base64url without padding")]
    Base64 {
        /// Which signature, from 0.
        index: usize,
        /// `protected` or `signature`.
        member: &'static str,
    },
    /// The protected header is not one JSON object with distinct members.
    #[error("signature {index}: the protected header is not a JSON object with distinct members")]
    Header {
        /// Which signature, from 0.
        index: usize,
    },
    /// `alg` is not EdDSA.
    #[error("signature {index}: alg must be \"EdDSA\", it is {found}")]
    Algorithm {
        /// Which signature, from 0.
        index: usize,
        /// What it is, as JSON, shortened.
        found: String,
    },
    /// `typ` is there and not JOSE.
    #[error("signature {index}: typ must be \"JOSE\", it is {found}")]
    Type {
        /// Which signature, from 0.
        index: usize,
        /// What it is, as JSON, shortened.
        found: String,
    },
    /// `crit` names extensions that must be understood, and none is.
    #[error("signature {index}: crit names header extensions, and none is known here")]
    Critical {
        /// Which signature, from 0.
        index: usize,
    },
    /// `kid` is missing or not text.
    #[error("signature {index}: kid is missing or not text")]
    Kid {
        /// Which signature, from 0.
        index: usize,
    },
    /// The verifier has no key for this `kid`. Keys come from its own policy; `jku` and `jwk` are never followed.
    #[error("signature {index}: no trusted key for kid {kid:?}: trust that identity first")]
    KeyUnknown {
        /// Which signature, from 0.
        index: usize,
        /// The kid, shortened.
        kid: String,
    },
    /// The signature is not 64 bytes.
    #[error("signature {index}: it has {len} bytes, an ed25519 signature has 64")]
    Length {
        /// Which signature, from 0.
        index: usize,
        /// Its length in bytes.
        len: usize,
    },
    /// The signature does not verify: the card was changed, or someone else signed.
    #[error("signature {index}: it does not verify with the key of {kid:?}: the card was changed after it was signed")]
    Mismatch {
        /// Which signature, from 0.
        index: usize,
        /// The kid, shortened.
        kid: String,
    },
    /// No signature is by a key that was expected.
    #[error("the agent card is not signed by {0}, or was changed after it was signed")]
    NotBy(String),
    /// The card has no canonical form.
    #[error("the agent card has no canonical form (RFC 8785): {0}")]
    Canonical(String),
}

/// Signs a card and appends the signature to its `signatures`. `kid` is the signer's key as `did:key:z…#z…`.
///
/// # Errors
/// [`CardError::NotAnObject`], [`CardError::SignaturesForm`], [`CardError::KidOfAnotherKey`], and
/// [`CardError::Unsignable`] for a float, an integer of 2^53 or more, and a member name that is not ASCII.
pub fn sign_card(card: &mut Value, key: &SigningKey, kid: &str) -> Result<(), CardError> {
    let members = card.as_object_mut().ok_or(CardError::NotAnObject)?;
    let signatures = match members.get("signatures") {
        None => Vec::new(),
        Some(Value::Array(list)) if list.len() < SIGNATURES_MAX && list.iter().all(Value::is_object) => list.clone(),
        Some(_) => return Err(CardError::SignaturesForm),
    };
    if kid != kid_of(&key.verifying_key()) {
        return Err(CardError::KidOfAnotherKey(excerpt(kid, 200)));
    }
    for (name, value) in members.iter().filter(|(name, _)| *name != "signatures") {
        signable_name("", name)?;
        signable(&join("", name), value)?;
    }
    let protected = URL_SAFE_NO_PAD.encode(json!({ "alg": "EdDSA", "typ": "JOSE", "kid": kid }).to_string());
    let signature = key.sign(&signing_input(&protected, &defaults::without(members))?);
    let signature = json!({ "protected": protected, "signature": URL_SAFE_NO_PAD.encode(signature.to_bytes()) });
    let signatures = signatures.into_iter().chain([signature]).collect();
    members.insert("signatures".to_owned(), Value::Array(signatures));
    Ok(())
}

/// Verifies a card as it was received (its raw JSON, so that a member unknown to us is covered too), and returns the
/// `kid` of the first signature that counts.
///
/// `key_for` is the verifier's policy: the key of a `kid` that it trusts. Nothing in the card can bring a key along
/// (`jku`, `jwk`, `x5u` are ignored). A signature of another algorithm or by an unknown key is passed over; one by a
/// known key must verify, or the card is refused.
///
/// # Errors
/// [`CardError`]: what is malformed; or, when no signature counts, why the first one does not.
pub fn verify_card(raw: &[u8], key_for: impl Fn(&str) -> Option<VerifyingKey>) -> Result<String, CardError> {
    let scanned = scan(raw, CARD_BYTES_MAX)?;
    if let Some(pointer) = scanned.duplicates.into_iter().next() {
        return Err(CardError::Duplicate(excerpt(&pointer, 200)));
    }
    let Value::Object(card) = scanned.value else { return Err(CardError::NotAnObject) };
    let signatures = match card.get("signatures") {
        None => return Err(CardError::Unsigned),
        Some(Value::Array(list)) if list.is_empty() => return Err(CardError::Unsigned),
        Some(Value::Array(list)) if list.len() <= SIGNATURES_MAX => list,
        Some(_) => return Err(CardError::SignaturesForm),
    };
    let mut valid = None;
    let mut passed_over = None;
    for (index, entry) in signatures.iter().enumerate() {
        match verify_one(index, entry, &card, &key_for) {
            Ok(kid) => valid = valid.or(Some(kid)),
            Err(e @ (CardError::Algorithm { .. } | CardError::KeyUnknown { .. })) => {
                passed_over = passed_over.or(Some(e));
            }
            Err(e) => return Err(e),
        }
    }
    valid.ok_or(passed_over.unwrap_or(CardError::Unsigned))
}

fn verify_one(
    index: usize,
    entry: &Value,
    card: &Map<String, Value>,
    key_for: &impl Fn(&str) -> Option<VerifyingKey>,
) -> Result<String, CardError> {
    let entry = entry.as_object().ok_or(CardError::SignaturesForm)?;
    let text =
        |member: &'static str| entry.get(member).and_then(Value::as_str).ok_or(CardError::Member { index, member });
    let (protected, signature) = (text("protected")?, text("signature")?);
    let decode = |text: &str, member| URL_SAFE_NO_PAD.decode(text).map_err(|_| CardError::Base64 { index, member });
    let header = header(index, &decode(protected, "protected")?)?;
    let signature = decode(signature, "signature")?;
    if header.get("alg").and_then(Value::as_str) != Some("EdDSA") {
        return Err(CardError::Algorithm { index, found: found(header.get("alg")) });
    }
    if header.get("typ").is_some_and(|typ| typ != "JOSE") {
        return Err(CardError::Type { index, found: found(header.get("typ")) });
    }
    if header.contains_key("crit") {
        return Err(CardError::Critical { index });
    }
    let kid = header.get("kid").and_then(Value::as_str).ok_or(CardError::Kid { index })?;
    let shown = || excerpt(kid, 200);
    let key = key_for(kid).ok_or_else(|| CardError::KeyUnknown { index, kid: shown() })?;
    let len = signature.len();
    let signature = Signature::from_slice(&signature).map_err(|_| CardError::Length { index, len })?;
    let mut inputs = inputs(protected, card)?.into_iter();
    let is_valid = inputs.any(|input| key.verify_strict(&input, &signature).is_ok());
    if is_valid { Ok(kid.to_owned()) } else { Err(CardError::Mismatch { index, kid: shown() }) }
}

/// What a signature may cover. A2A §8.4.3: members that have their defaults are not covered; whoever signed them all the same
/// signed no less.
pub(super) fn inputs(protected: &str, card: &Map<String, Value>) -> Result<[Vec<u8>; 2], CardError> {
    Ok([signing_input(protected, &defaults::without(card))?, signing_input(protected, card)?])
}

pub(super) fn header(index: usize, bytes: &[u8]) -> Result<Map<String, Value>, CardError> {
    match scan(bytes, CARD_BYTES_MAX) {
        Ok(scanned) if scanned.duplicates.is_empty() => match scanned.value {
            Value::Object(header) => Ok(header),
            _ => Err(CardError::Header { index }),
        },
        _ => Err(CardError::Header { index }),
    }
}

fn found(value: Option<&Value>) -> String {
    value.map_or("absent".to_owned(), |v| crate::json::excerpt_value(v, 40))
}

/// `BASE64URL(protected) . BASE64URL(JCS(card without signatures))` (RFC 7515 §5.1, appendix F).
fn signing_input(protected: &str, card: &Map<String, Value>) -> Result<Vec<u8>, CardError> {
    let covered: Map<String, Value> =
        card.iter().filter(|(name, _)| *name != "signatures").map(|(n, v)| (n.clone(), v.clone())).collect();
    let canonical = serde_json_canonicalizer::to_vec(&covered).map_err(|e| CardError::Canonical(e.to_string()))?;
    let mut input = protected.to_owned();
    input.push('.');
    URL_SAFE_NO_PAD.encode_string(canonical, &mut input);
    Ok(input.into_bytes())
}

/// The ed25519 key that a `kid` of the form `did:key:z…#z…` is.
pub(super) fn key_of(kid: &str) -> Option<VerifyingKey> {
    let (_, multibase) = kid.split_once('#')?;
    let bytes = bs58::decode(multibase.strip_prefix('z')?).into_vec().ok()?;
    let key = VerifyingKey::from_bytes(bytes.strip_prefix(&[0xed, 0x01])?.try_into().ok()?).ok()?;
    (kid_of(&key) == kid).then_some(key)
}

/// `did:key:z…#z…` of a key: multibase base58btc of the multicodec prefix and the 32 bytes.
pub(super) fn kid_of(key: &VerifyingKey) -> String {
    let mut bytes = vec![0xed, 0x01];
    bytes.extend_from_slice(key.as_bytes());
    let multibase = format!("z{}", bs58::encode(bytes).into_string());
    format!("did:key:{multibase}#{multibase}")
}

fn signable_name(pointer: &str, name: &str) -> Result<(), CardError> {
    if name.is_ascii() {
        return Ok(());
    }
    let reason = "a member name that is not ASCII is sorted differently by readers; write it in ASCII";
    Err(CardError::Unsignable { pointer: excerpt(&join(pointer, name), 200), reason })
}

fn signable(pointer: &str, value: &Value) -> Result<(), CardError> {
    let refuse = |reason| Err(CardError::Unsignable { pointer: excerpt(pointer, 200), reason });
    match value {
        Value::Number(n) if n.is_f64() => refuse("a float is written differently by readers; write it as text"),
        Value::Number(n) if n.as_i64().map_or(u64::MAX, i64::unsigned_abs) > INTEGER_MAX => {
            refuse("an integer of 2^53 or more loses digits in some readers; write it as text")
        }
        Value::Array(items) => items.iter().enumerate().try_for_each(|(n, item)| signable(&join(pointer, n), item)),
        Value::Object(members) => members.iter().try_for_each(|(name, member)| {
            signable_name(pointer, name)?;
            signable(&join(pointer, name), member)
        }),
        _ => Ok(()),
    }
}
