//! Access tokens that are JSON Web Tokens (RFC 7519, RFC 9068): who shows one, and what it allows. Pure.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::keys::Key;

/// Seconds by which the issuer's clock may differ from this one.
const LEEWAY_S: u64 = 60;
const SUBJECT_BYTES_MAX: usize = 256;

/// Why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("it is no JSON Web Token")]
    NoToken,
    #[error("it is of another issuer")]
    Issuer,
    #[error("it is for somebody else")]
    Audience,
    #[error("it is over, or not valid yet")]
    Time,
    #[error("it names nobody")]
    Subject,
    #[error("it has critical members that are not known here")]
    Critical,
    #[error("it is no access token")]
    Kind,
    #[error("no key of the issuer signed it")]
    Signature,
}

/// Whose tokens are taken, and for whom they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected<'a> {
    pub issuer: &'a str,
    pub audience: &'a str,
    /// Seconds since 1970.
    pub now: u64,
}

/// A token that was read, but not verified.
pub(super) struct Token<'a> {
    header: Header,
    claims: Claims,
    signed: &'a str,
    signature: Vec<u8>,
}

/// What a verified token says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub subject: String,
    /// The words of its scope.
    pub scopes: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<Value>,
}

#[derive(Deserialize)]
struct Claims {
    iss: Option<String>,
    sub: Option<String>,
    #[serde(default)]
    aud: Words,
    exp: Option<f64>,
    nbf: Option<f64>,
    #[serde(default)]
    scope: Words,
    /// As some issuers write it.
    #[serde(default)]
    scp: Words,
}

/// One text, or several.
#[derive(Deserialize, Default)]
#[serde(untagged)]
enum Words {
    One(String),
    Several(Vec<String>),
    #[default]
    None,
}

impl Words {
    fn iter(&self) -> std::slice::Iter<'_, String> {
        match self {
            Words::One(word) => std::slice::from_ref(word).iter(),
            Words::Several(words) => words.iter(),
            Words::None => [].iter(),
        }
    }
}

impl<'a> Token<'a> {
    pub fn read(token: &'a str) -> Result<Token<'a>, Refused> {
        let (signed, signature) = token.rsplit_once('.').ok_or(Refused::NoToken)?;
        let (header, claims) = signed.split_once('.').ok_or(Refused::NoToken)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| Refused::NoToken)?;
        Ok(Token { header: json(header)?, claims: json(claims)?, signed, signature })
    }

    /// Which of the issuer's keys signed it, as it says.
    pub fn key(&self) -> Option<&str> {
        self.header.kid.as_deref()
    }

    /// Checks what needs no key.
    pub fn check(&self, expected: Expected<'_>) -> Result<(), Refused> {
        if self.header.crit.is_some() {
            return Err(Refused::Critical);
        }
        // One for its client alone (OpenID Connect) has `JWT` too: the audience tells them apart.
        let kind = self.header.typ.as_deref().unwrap_or("JWT").trim_start_matches("application/");
        if !kind.eq_ignore_ascii_case("at+jwt") && !kind.eq_ignore_ascii_case("JWT") {
            return Err(Refused::Kind);
        }
        if self.claims.iss.as_deref() != Some(expected.issuer) {
            return Err(Refused::Issuer);
        }
        if !self.claims.aud.iter().any(|audience| audience == expected.audience) {
            return Err(Refused::Audience);
        }
        let now = seconds(expected.now);
        let over = self.claims.exp.is_none_or(|exp| exp + seconds(LEEWAY_S) <= now);
        if over || self.claims.nbf.is_some_and(|nbf| nbf > now + seconds(LEEWAY_S)) {
            return Err(Refused::Time);
        }
        let subject = self.claims.sub.as_deref().unwrap_or_default();
        if subject.is_empty() || subject.len() > SUBJECT_BYTES_MAX { Err(Refused::Subject) } else { Ok(()) }
    }

    /// Verifies its signature by one of these keys.
    pub fn verify(self, keys: &[Key]) -> Result<Shown, Refused> {
        let named = |key: &&Key| self.header.kid.is_none() || key.id == self.header.kid;
        let holds = |key: &Key| key.verifies(&self.header.alg, self.signed.as_bytes(), &self.signature);
        if !keys.iter().filter(named).any(holds) {
            return Err(Refused::Signature);
        }
        let texts = self.claims.scope.iter().chain(self.claims.scp.iter());
        let scopes = texts.flat_map(|text| text.split(' ')).filter(|word| !word.is_empty()).map(str::to_owned);
        Ok(Shown { scopes: scopes.collect(), subject: self.claims.sub.unwrap_or_default() })
    }
}

/// Times of tokens may have fractions.
#[expect(clippy::cast_precision_loss, reason = "seconds of this age have 31 bits")]
fn seconds(of: u64) -> f64 {
    of as f64
}

fn json<T: DeserializeOwned>(part: &str) -> Result<T, Refused> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| Refused::NoToken)?;
    serde_json::from_slice(&bytes).map_err(|_| Refused::NoToken)
}
