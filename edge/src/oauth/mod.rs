//! Users whom an issuer of OAuth 2.1 vouches for: the gateway as a resource server. Its tokens are JSON Web Tokens for this
//! gateway alone, signed by a key that the issuer publishes.

mod jwt;
mod keys;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use althing_protocol::{digest, hex};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::users::{Scope, User, Users};
use jwt::{Expected, Refused, Token};
use keys::Key;

/// Where clients read who issues tokens for this gateway (RFC 9728).
pub const METADATA: &str = "/.well-known/oauth-protected-resource";
/// What the name of a user ends with for whom the issuer vouches.
const ISSUED: &str = "@oauth";
/// What the name of a user begins with whose subject is no name.
const BY_DIGEST: &str = "subject-";
/// Characters of a user's name before that ending.
const NAME_MAX: usize = 48;
/// How long keys count as known; and how long at most, when the issuer cannot be asked.
const FRESH: Duration = Duration::from_secs(3_600);
const USABLE: Duration = Duration::from_secs(24 * 3_600);
/// Between two requests to the issuer: whoever invents keys causes no more of them.
const ASK_EVERY: Duration = Duration::from_secs(30);

/// Reads what an issuer publishes: the binary's guarded fetch.
pub trait Publications: fmt::Debug + Send + Sync {
    /// The JSON at an address.
    ///
    /// # Errors
    /// Says why there is none.
    fn get<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<u8>, String>>;
}

/// Whose tokens are taken, and what their scopes mean here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuerConfig {
    /// Its identifier, a URL: `iss` of its tokens.
    pub issuer: String,
    /// What the tokens are for: `aud`. It is this gateway's identifier (RFC 8707).
    pub audience: String,
    /// Where its keys are; none: what its metadata says (RFC 8414, OpenID Connect Discovery).
    pub jwks: Option<String>,
    /// The scopes of its tokens, with what they allow here.
    pub scopes: BTreeMap<String, Scope>,
}

/// Tells the time, in seconds since 1970.
pub type Clock = Box<dyn Fn() -> u64 + Send + Sync>;

/// An issuer of tokens.
pub struct Issuer {
    config: IssuerConfig,
    publications: Arc<dyn Publications>,
    now: Clock,
    known: Mutex<Known>,
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").field("config", &self.config).finish_non_exhaustive()
    }
}

/// The keys that were read last.
#[derive(Default)]
struct Known {
    keys: Arc<[Key]>,
    read: Option<Instant>,
    asked: Option<Instant>,
}

impl Issuer {
    /// An issuer, of which nothing is read before the first token.
    #[must_use]
    pub fn new(config: IssuerConfig, publications: Arc<dyn Publications>, now: Clock) -> Issuer {
        Issuer { config, publications, now, known: Mutex::default() }
    }

    async fn user(&self, token: &str) -> Result<User, Refused> {
        let token = Token::read(token)?;
        let IssuerConfig { issuer, audience, .. } = &self.config;
        // Before the issuer is asked: only what may be its token is a reason to.
        token.check(Expected { issuer, audience, now: (self.now)() })?;
        let keys = self.keys(token.key()).await;
        let shown = token.verify(&keys)?;
        let scopes = shown.scopes.iter().filter_map(|word| self.config.scopes.get(word)).copied().collect();
        Ok(User { name: name_of(&shown.subject), scopes, agents: BTreeSet::new() })
    }

    /// The issuer's keys; read again when they are old, or do not have the one that is named.
    async fn keys(&self, named: Option<&str>) -> Arc<[Key]> {
        let mut known = self.known.lock().await;
        let has = named.is_none_or(|named| known.keys.iter().any(|key| key.id.as_deref() == Some(named)));
        let within = |at: Option<Instant>, time: Duration| at.is_some_and(|at| at.elapsed() < time);
        let is_known = has && within(known.read, FRESH);
        if !is_known && !within(known.asked, ASK_EVERY) {
            known.asked = Some(Instant::now());
            match self.read().await {
                Ok(keys) => (known.keys, known.read) = (keys.into(), Some(Instant::now())),
                Err(why) => tracing::warn!(issuer = self.config.issuer, why, "the keys of the issuer are not read"),
            }
        }
        if !within(known.read, USABLE) {
            known.keys = Arc::default();
        }
        known.keys.clone()
    }

    async fn read(&self) -> Result<Vec<Key>, String> {
        let url = match &self.config.jwks {
            Some(url) => url.clone(),
            None => self.discover().await?,
        };
        let set = self.publications.get(&url).await?;
        keys::read(&set).map_err(|error| format!("{url}: {error}"))
    }

    /// Where its metadata says that its keys are.
    async fn discover(&self) -> Result<String, String> {
        let mut failed = String::new();
        for url in metadata_of(&self.config.issuer)? {
            let read = self.publications.get(&url).await;
            match read.and_then(|body| self.jwks_of(&body)) {
                Ok(jwks) => return Ok(jwks),
                Err(why) => failed = format!("{url}: {why}"),
            }
        }
        Err(failed)
    }

    fn jwks_of(&self, metadata: &[u8]) -> Result<String, String> {
        let metadata: Value = serde_json::from_slice(metadata).map_err(|error| error.to_string())?;
        if metadata["issuer"] != self.config.issuer.as_str() {
            return Err(format!("it is the metadata of another issuer, {}", metadata["issuer"]));
        }
        metadata["jwks_uri"].as_str().map(str::to_owned).ok_or_else(|| "it has no jwks_uri".to_owned())
    }

    fn published(&self) -> Value {
        json!({
            "resource": self.config.audience,
            "authorization_servers": [self.config.issuer],
            "scopes_supported": self.config.scopes.keys().collect::<Vec<_>>(),
            "bearer_methods_supported": ["header"],
            "resource_name": "Althing",
        })
    }
}

/// Where the metadata of an issuer may be: the well-known part stands before its path (RFC 8414), or after it (OpenID).
fn metadata_of(issuer: &str) -> Result<[String; 2], String> {
    let (scheme, rest) = issuer.split_once("://").ok_or_else(|| format!("{issuer} is no URL"))?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let path = path.trim_end_matches('/');
    let before = if path.is_empty() { String::new() } else { format!("/{path}") };
    Ok([
        format!("{scheme}://{host}/.well-known/oauth-authorization-server{before}"),
        format!("{scheme}://{host}{before}/.well-known/openid-configuration"),
    ])
}

/// The name of a user: the subject, if that can be one as it is, or else a digest of it. So two subjects are never one user.
fn name_of(subject: &str) -> String {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._@-".contains(&byte);
    let is_name = subject.len() <= NAME_MAX && subject.bytes().all(word) && !subject.starts_with(BY_DIGEST);
    let digested = || format!("{BY_DIGEST}{}", hex(&digest(subject.as_bytes())[..16]));
    format!("{}{ISSUED}", if is_name { subject.to_owned() } else { digested() })
}

impl Users for Issuer {
    fn is_used(&self) -> bool {
        true
    }

    fn of_token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Option<User>> {
        Box::pin(async move {
            let user = self.user(token).await;
            user.inspect_err(|why| tracing::debug!(issuer = self.config.issuer, %why, "a token is refused")).ok()
        })
    }

    fn metadata(&self) -> Option<(&'static str, Value)> {
        Some((METADATA, self.published()))
    }
}
