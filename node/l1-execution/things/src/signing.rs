//! Who signed the card of an A2A agent elsewhere. A key that the card itself names says only that later cards come from whoever
//! holds it: the owner agrees to it, and it is kept.

use std::time::Duration;

use althing_fetch::{Given, Limits, same_origin};
use althing_td::{CardError, Signer, SignerKey, card_signers, verify_signer};
use reqwest::Url;
use serde_json::Value;

use crate::Web;

/// Of a set of keys.
const KEYS: Limits = Limits { bytes: 64 << 10, time: Duration::from_secs(5) };
/// Signatures whose keys are looked for.
const LOOKED_FOR_MAX: usize = 4;

/// What is known of a card's signatures.
#[derive(Debug, Clone, PartialEq)]
pub struct CardSignature {
    /// The key that signed it, if that could be verified.
    pub key: Option<SignerKey>,
    /// In words.
    pub said: String,
}

/// Who signed a card that was read below `url`.
///
/// # Errors
/// The card is signed, and a signature is not that of its key; for people.
pub(crate) async fn signature(web: &Web, url: &str, raw: &[u8]) -> Result<CardSignature, CardError> {
    let signers = card_signers(raw)?;
    if signers.is_empty() {
        return Ok(CardSignature {
            key: None,
            said: "by nobody: whoever controls its address can change it".to_owned(),
        });
    }
    let mut why = String::new();
    for signer in signers.iter().take(LOOKED_FOR_MAX) {
        let (key, said) = match found(web, url, signer).await {
            Ok(found) => found,
            Err(reason) => {
                why = reason;
                continue;
            }
        };
        // A key that is known, and did not sign this.
        verify_signer(raw, &key)?;
        return Ok(CardSignature { key: Some(key), said });
    }
    Ok(CardSignature { key: None, said: format!("by a key that is not verified: {why}") })
}

/// The key of a signature, and where it comes from.
async fn found(web: &Web, url: &str, signer: &Signer) -> Result<(SignerKey, String), String> {
    if !["EdDSA", "ES256"].contains(&signer.algorithm.as_str()) {
        return Err(format!("the algorithm {} is not verified here", signer.algorithm));
    }
    let kid = signer.kid.as_deref().ok_or("it names no key (kid)")?;
    if let Some(key) = SignerKey::of_kid(kid) {
        return Ok((key, format!("by {kid}")));
    }
    let jku = signer.jku.as_deref().ok_or_else(|| format!("its key {kid:?} is shown nowhere (jku)"))?;
    let address: Url = jku.parse().map_err(|_| "its key is at no address (jku)".to_owned())?;
    let own = url.parse().is_ok_and(|url: Url| same_origin(&url, &address));
    if address.scheme() != "https" && !own {
        return Err("its key is at an address that anybody on the way can change (jku without https)".to_owned());
    }
    let given = if own { Given::Operator } else { Given::Stranger };
    let fetch = web.fetch().map_err(|error| error.to_string())?;
    let set = fetch.get(&address, given, "application/jwk-set+json, application/json", KEYS).await;
    let set = set.map_err(|error| format!("its keys at {address} cannot be read: {error}"))?;
    let set: Value = serde_json::from_slice(&set).map_err(|_| format!("there are no keys at {address}"))?;
    let keys = set.get("keys").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let key = keys.iter().filter(|jwk| jwk.get("kid").and_then(Value::as_str) == Some(kid)).find_map(SignerKey::of_jwk);
    let key = key.ok_or_else(|| format!("{address} shows no key {kid:?} that is verified here"))?;
    Ok((key.clone(), format!("by {key}, which {address} shows as {kid:?}")))
}
