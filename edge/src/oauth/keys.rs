//! The public keys of an issuer (JWK, RFC 7517 and 8037), and signatures by them. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;

/// Keys of one issuer; more are not read.
const KEYS_MAX: usize = 32;

/// A key that signs tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub id: Option<String>,
    /// The only algorithm that it is for, if it says so.
    algorithm: Option<String>,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
    /// The same.
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Deserialize)]
struct Jwks {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// The keys of a set that sign; those of other kinds, and what is no key, are left out.
///
/// # Errors
/// What is wrong with the set.
pub(super) fn read(set: &[u8]) -> Result<Vec<Key>, serde_json::Error> {
    let set: Jwks = serde_json::from_slice(set)?;
    let keys = set.keys.into_iter().take(KEYS_MAX).filter_map(|key| Key::read(serde_json::from_value(key).ok()?));
    Ok(keys.collect())
}

impl Key {
    fn read(jwk: Jwk) -> Option<Key> {
        if jwk.usage.is_some_and(|usage| usage != "sig") {
            return None;
        }
        let bytes = |member: Option<String>| URL_SAFE_NO_PAD.decode(member?).ok();
        let kind = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => Kind::Rsa { n: bytes(jwk.n)?, e: bytes(jwk.e)? },
            ("EC", Some("P-256")) => Kind::P256(point(&bytes(jwk.x)?, &bytes(jwk.y)?)),
            ("EC", Some("P-384")) => Kind::P384(point(&bytes(jwk.x)?, &bytes(jwk.y)?)),
            ("OKP", Some("Ed25519")) => Kind::Ed25519(bytes(jwk.x)?),
            _ => return None,
        };
        Some(Key { id: jwk.kid, algorithm: jwk.alg, kind })
    }

    /// Whether this is its signature by that algorithm. The key decides which algorithms there are.
    pub fn verifies(&self, algorithm: &str, signed: &[u8], signature: &[u8]) -> bool {
        if self.algorithm.as_deref().is_some_and(|only| only != algorithm) {
            return false;
        }
        let with = |scheme: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(scheme, key).verify(signed, signature).is_ok()
        };
        match &self.kind {
            Kind::Rsa { n, e } => rsa(algorithm)
                .is_some_and(|scheme| RsaPublicKeyComponents { n, e }.verify(scheme, signed, signature).is_ok()),
            Kind::P256(key) => algorithm == "ES256" && with(&ECDSA_P256_SHA256_FIXED, key),
            Kind::P384(key) => algorithm == "ES384" && with(&ECDSA_P384_SHA384_FIXED, key),
            Kind::Ed25519(key) => matches!(algorithm, "EdDSA" | "Ed25519") && with(&ED25519, key),
        }
    }
}

fn point(x: &[u8], y: &[u8]) -> Vec<u8> {
    [&[4], x, y].concat()
}

fn rsa(algorithm: &str) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        "RS256" => &RSA_PKCS1_2048_8192_SHA256,
        "RS384" => &RSA_PKCS1_2048_8192_SHA384,
        "RS512" => &RSA_PKCS1_2048_8192_SHA512,
        "PS256" => &RSA_PSS_2048_8192_SHA256,
        "PS384" => &RSA_PSS_2048_8192_SHA384,
        "PS512" => &RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}
