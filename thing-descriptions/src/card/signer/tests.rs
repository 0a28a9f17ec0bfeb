//! Cards that others signed.

use ed25519_dalek::SigningKey;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::json;

use super::super::{sign_card, signature::kid_of};
use super::*;

fn card() -> Value {
    json!({ "name": "Bills", "description": "Shows bills.", "skills": [], "capabilities": { "streaming": true } })
}

fn own(seed: u8) -> (Value, SignerKey) {
    let (mut card, key) = (card(), SigningKey::from_bytes(&[seed; 32]));
    let kid = kid_of(&key.verifying_key());
    sign_card(&mut card, &key, &kid).expect("it is signed");
    (card, SignerKey::of_kid(&kid).expect("a key"))
}

#[test]
fn a_card_is_that_of_the_key_that_signed_it_and_of_no_other() {
    let ((mut card, key), (_, other)) = (own(1), own(2));
    let raw = card.to_string();
    assert_eq!(verify_signer(raw.as_bytes(), &key), Ok(()));
    assert!(matches!(verify_signer(raw.as_bytes(), &other), Err(CardError::NotBy(_))));
    card["description"] = json!("Sends money.");
    assert!(matches!(verify_signer(card.to_string().as_bytes(), &key), Err(CardError::NotBy(_))));
    card.as_object_mut().expect("an object").remove("signatures");
    assert_eq!(verify_signer(card.to_string().as_bytes(), &key), Err(CardError::Unsigned));
    assert_eq!(card_signers(card.to_string().as_bytes()), Ok(Vec::new()));
}

#[test]
fn a_signature_of_es256_says_where_its_key_is_and_verifies_with_it() {
    let random = SystemRandom::new();
    let scheme = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let document = EcdsaKeyPair::generate_pkcs8(scheme, &random).expect("a key");
    let pair = EcdsaKeyPair::from_pkcs8(scheme, document.as_ref(), &random).expect("a key");
    let point = pair.public_key().as_ref();
    let part = |range: std::ops::Range<usize>| URL_SAFE_NO_PAD.encode(&point[range]);
    let jwk = json!({ "kty": "EC", "crv": "P-256", "x": part(1..33), "y": part(33..65) });
    let key = SignerKey::of_jwk(&jwk).expect("a key");
    let header = json!({ "alg": "ES256", "typ": "JOSE", "kid": "k1", "jku": "https://a.example/jwks.json" });
    let protected = URL_SAFE_NO_PAD.encode(header.to_string());
    let mut card = card();
    let canonical = serde_json_canonicalizer::to_vec(&card).expect("JSON");
    let input = format!("{protected}.{}", URL_SAFE_NO_PAD.encode(canonical));
    let signature = pair.sign(&random, input.as_bytes()).expect("signed");
    let signature = URL_SAFE_NO_PAD.encode(signature.as_ref());
    card["signatures"] = json!([{ "protected": protected, "signature": signature }]);
    let raw = card.to_string();
    let jku = Some("https://a.example/jwks.json".to_owned());
    let signer = Signer { algorithm: "ES256".to_owned(), kid: Some("k1".to_owned()), jku };
    assert_eq!(card_signers(raw.as_bytes()), Ok(vec![signer]));
    assert_eq!(verify_signer(raw.as_bytes(), &key), Ok(()));
    assert_eq!(key.to_string().parse(), Ok(key));
}

#[test]
fn an_entry_that_is_malformed_is_no_signature_and_costs_no_other() {
    let (signed, key) = own(1);
    let whole = signed["signatures"][0].clone();
    for one in [json!(7), json!({}), json!({ "protected": "!", "signature": "" }), json!({ "protected": "e30" })] {
        let mut card = signed.clone();
        card["signatures"] = json!([one, whole]);
        let raw = card.to_string();
        assert_eq!(card_signers(raw.as_bytes()).map(|all| all.len()), Ok(1), "{one}");
        assert_eq!(verify_signer(raw.as_bytes(), &key), Ok(()), "{one}");
        card["signatures"] = json!([one]);
        let raw = card.to_string();
        assert_eq!(card_signers(raw.as_bytes()), Ok(Vec::new()), "{one}");
        assert!(matches!(verify_signer(raw.as_bytes(), &key), Err(CardError::NotBy(_))), "{one}");
    }
    let mut card = signed;
    card["signatures"] = json!("signed");
    assert_eq!(verify_signer(card.to_string().as_bytes(), &key), Err(CardError::Unsigned));
}

#[test]
fn a_card_that_two_readers_see_differently_is_signed_by_nobody() {
    let (card, key) = own(1);
    let raw = card.to_string().replacen('{', "{\"name\":\"Other\",", 1);
    assert!(matches!(verify_signer(raw.as_bytes(), &key), Err(CardError::Duplicate(_))));
    for text in ["", "Ed25519:", "Ed25519:AA", "P-256:AA", "RSA:AA", "AA"] {
        assert_eq!(text.parse::<SignerKey>(), Err(NoSignerKey), "{text}");
    }
}
