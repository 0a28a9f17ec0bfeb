//! The HTTP client for services outside the node: endpoints of models and embeddings, tool servers.

use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::redirect::Policy;

/// How long a connection to an endpoint of models or embeddings may take.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A client for the service at `url`. It follows no redirect, which could send a secret to another host. Plain HTTP
/// bypasses proxies, which could read it: a secret for a service on this machine would leave the machine. A proxy of the
/// environment is used for https only, where it cannot read anything.
///
/// # Errors
/// The reason, for people.
pub fn client(url: &str, connect_timeout: Duration) -> Result<reqwest::Client, String> {
    let mut builder = reqwest::Client::builder().redirect(Policy::none()).connect_timeout(connect_timeout);
    if !url.starts_with("https://") {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| error.to_string())
}

/// The `Authorization` header with a secret for `url`; an error where the connection would not protect it.
pub(crate) fn bearer(url: &str, secret: &str) -> Result<HeaderValue, String> {
    if !althing_td::keeps_bearer(url) {
        return Err(format!("a secret would be sent to {url:?} in the clear. {}", althing_td::BEARER_FIX));
    }
    let value = HeaderValue::from_str(&format!("Bearer {}", secret.trim()));
    let mut value = value.map_err(|_| "the secret holds what no header may".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}
