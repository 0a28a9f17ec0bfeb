//! Tokens that a node signs for others to check: JSON Web Tokens (RFC 7519) of ed25519 keys (RFC 8037), and the key's own
//! form (RFC 7517).

use althing_protocol::{PublicKey, SecretKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::Signer;
use serde_json::{Value, json};

/// The `kid` of a key: a `did:key`, which holds the key itself.
#[must_use]
pub fn kid(key: PublicKey) -> String {
    format!("{}#{}", key.did(), key.multibase())
}

/// A token with these claims.
#[must_use]
pub fn sign_jwt(claims: &Value, key: &SecretKey) -> String {
    let header = json!({ "alg": "EdDSA", "typ": "JWT", "kid": kid(key.public()) });
    let input = [header, claims.clone()].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
    let signature = key.signing_key().sign(input.as_bytes());
    format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature.to_bytes()))
}

/// A key as JSON Web Key.
#[must_use]
pub fn jwk(key: PublicKey) -> Value {
    let x = URL_SAFE_NO_PAD.encode(key.as_bytes());
    json!({ "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": kid(key), "x": x })
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::{Signature, VerifyingKey};

    use super::*;

    #[test]
    fn a_token_verifies_with_the_key_that_its_kid_names() {
        let key = SecretKey::from_seed(&[7; 32]);
        let token = sign_jwt(&json!({ "iss": key.public().did(), "jti": "1" }), &key);
        let (input, signature) = token.rsplit_once('.').expect("three parts");
        let read = |text: &str| URL_SAFE_NO_PAD.decode(text).expect("base64url");
        let (header, claims) = input.split_once('.').expect("two parts");
        let header: Value = serde_json::from_slice(&read(header)).expect("JSON");
        let claims: Value = serde_json::from_slice(&read(claims)).expect("JSON");
        let jwk = jwk(key.public());
        assert_eq!((&header["kid"], &header["alg"]), (&jwk["kid"], &json!("EdDSA")));
        assert_eq!(claims["jti"], "1");
        let x: [u8; 32] = read(jwk["x"].as_str().expect("a text")).try_into().expect("32 bytes");
        let signature = Signature::from_slice(&read(signature)).expect("64 bytes");
        let verifying = VerifyingKey::from_bytes(&x).expect("a key");
        verifying.verify_strict(input.as_bytes(), &signature).expect("it verifies");
        assert!(verifying.verify_strict(format!("{input}x").as_bytes(), &signature).is_err());
    }
}
