//! Requests to a registry, and its answers as bytes.

use std::fmt;

use althing_fetch::{Fetch, Given, Limits, Method, Url};
use althing_td::keeps_bearer;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{RegistryError, TEXT_BYTES_MAX, TIME_MAX};

/// A bearer token.
#[derive(Clone)]
struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Where a registry is, and how it is asked.
#[derive(Debug, Clone)]
pub struct Http {
    fetch: Fetch,
    base: Url,
    token: Option<Token>,
}

#[derive(Deserialize)]
struct Problem {
    detail: String,
}

impl Http {
    /// # Errors
    /// [`RegistryError::Address`].
    pub fn new(fetch: Fetch, url: &str) -> Result<Http, RegistryError> {
        let wrong = || RegistryError::Address(url.to_owned());
        let mut base = Url::parse(url).map_err(|_| wrong())?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() || base.query().is_some() {
            return Err(wrong());
        }
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        Ok(Http { fetch, base, token: None })
    }

    /// The same, as the holder of a token.
    ///
    /// # Errors
    /// [`RegistryError::Clear`]: whoever is on the way would read the token.
    pub fn with_token(self, token: String) -> Result<Http, RegistryError> {
        self.check_bearer()?;
        Ok(Http { token: Some(Token(token)), ..self })
    }

    /// Whether a token may be sent there, or asked for.
    ///
    /// # Errors
    /// [`RegistryError::Clear`].
    pub fn check_bearer(&self) -> Result<(), RegistryError> {
        if keeps_bearer(self.base.as_str()) { Ok(()) } else { Err(RegistryError::Clear { at: self.base.to_string() }) }
    }

    /// The address of the registry.
    pub fn address(&self) -> &str {
        self.base.as_str()
    }

    pub fn url(&self, path: &str) -> Result<Url, RegistryError> {
        self.base.join(path).map_err(|_| RegistryError::Address(path.to_owned()))
    }

    /// The address of a path, with what is asked for.
    pub fn asking(&self, path: &str, given: &[(&str, Option<&str>)]) -> Result<Url, RegistryError> {
        let mut url = self.url(path)?;
        for (name, value) in given.iter().filter_map(|(name, value)| Some((name, (*value)?))) {
            url.query_pairs_mut().append_pair(name, value);
        }
        Ok(url)
    }

    pub async fn get(&self, path: &str, limits: Limits) -> Result<Vec<u8>, RegistryError> {
        self.exchange(Method::GET, path, ("text/plain", Vec::new()), limits).await
    }

    pub async fn text(&self, path: &str) -> Result<String, RegistryError> {
        let limits = Limits { bytes: TEXT_BYTES_MAX, time: TIME_MAX };
        let bytes = self.get(path, limits).await?;
        String::from_utf8(bytes).map_err(|error| RegistryError::Answer { what: "text", why: error.to_string() })
    }

    pub async fn json<T: DeserializeOwned>(&self, path: &str) -> Result<T, RegistryError> {
        let limits = Limits { bytes: TEXT_BYTES_MAX, time: TIME_MAX };
        read(&self.get(path, limits).await?)
    }

    pub async fn exchange(
        &self,
        method: Method,
        path: &str,
        sent: (&str, Vec<u8>),
        limits: Limits,
    ) -> Result<Vec<u8>, RegistryError> {
        self.ask(method, &self.url(path)?, sent, limits).await
    }

    pub async fn ask(
        &self,
        method: Method,
        url: &Url,
        sent: (&str, Vec<u8>),
        limits: Limits,
    ) -> Result<Vec<u8>, RegistryError> {
        let token = self.token.as_ref().map(|token| token.0.as_str());
        let answered = self.fetch.exchange_as(token, method, url, Given::Operator, sent, limits).await;
        let unreachable = |error| RegistryError::Unreachable { at: self.base.to_string(), error };
        let (status, body) = answered.map_err(unreachable)?;
        if (200..300).contains(&status) {
            return Ok(body);
        }
        let said = serde_json::from_slice::<Problem>(&body).map(|problem| plain(&problem.detail));
        Err(RegistryError::Refused { status, detail: said.unwrap_or_else(|_| "it gives no reason".to_owned()) })
    }
}

/// Reads JSON.
pub fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, RegistryError> {
    serde_json::from_slice(json).map_err(|error| RegistryError::Answer { what: "list", why: error.to_string() })
}

/// A registry's words, safe on a terminal.
fn plain(text: &str) -> String {
    text.chars().filter(|one| !one.is_control()).take(512).collect()
}
