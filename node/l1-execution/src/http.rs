//! The HTTP client for services outside the node: endpoints of models and embeddings, tool servers, agents elsewhere.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use althing_fetch::SystemResolver;
use althing_td::Place;
use reqwest::ClientBuilder;
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
    client_to(url, &[], connect_timeout)
}

/// [`client`], which follows the name in `url` only to these places; to any, if there are none. Where a proxy is used, the proxy
/// resolves the name, and only the certificate proves who is there.
///
/// # Errors
/// The reason, for people.
pub fn client_to(url: &str, leads_to: &[Place], connect_timeout: Duration) -> Result<reqwest::Client, String> {
    client_with(url, leads_to, connect_timeout, Policy::none())
}

/// [`client_to`], which does that with redirects; it must follow none to another origin, where a secret would be sent too.
///
/// # Errors
/// The reason, for people.
pub fn client_with(
    url: &str,
    leads_to: &[Place],
    connect_timeout: Duration,
    redirects: Policy,
) -> Result<reqwest::Client, String> {
    let mut builder = reqwest::Client::builder().redirect(redirects).connect_timeout(connect_timeout);
    if !url.starts_with("https://") {
        builder = builder.no_proxy();
    }
    bound(builder, leads_to).build().map_err(|error| error.to_string())
}

/// Has a client follow names only to these places: each is resolved once for each connection, and checked. To any, if there are
/// none.
pub(crate) fn bound(builder: ClientBuilder, leads_to: &[Place]) -> ClientBuilder {
    if leads_to.is_empty() {
        return builder;
    }
    althing_fetch::bound(builder, Arc::new(SystemResolver), of_fetch(leads_to))
}

/// The same places, as the guarded fetch has them.
#[must_use]
pub fn of_fetch(places: &[Place]) -> BTreeSet<althing_fetch::Place> {
    let place = |place: &Place| match place {
        Place::ThisMachine => althing_fetch::Place::Loopback,
        Place::PrivateNet => althing_fetch::Place::Private,
        Place::Internet => althing_fetch::Place::Internet,
    };
    places.iter().map(place).collect()
}

/// The places to which the name in `url` leads now; none for a literal address, which leads nowhere else later.
///
/// # Errors
/// The reason, for people.
pub async fn places(url: &str) -> Result<Vec<Place>, String> {
    let found = althing_fetch::places(url, &SystemResolver).await.map_err(|error| error.to_string())?;
    Ok(Place::ALL.into_iter().filter(|place| !of_fetch(&[*place]).is_disjoint(&found)).collect())
}

/// Why the name in `url` is not followed now, though it can be resolved: it leads only where it may not. A client of
/// [`client_to`] connects nowhere then; here it is said why.
pub async fn elsewhere(url: &str, leads_to: &[Place]) -> Option<String> {
    if leads_to.is_empty() {
        return None;
    }
    let found = match althing_fetch::places(url, &SystemResolver).await {
        Ok(found) => found,
        Err(error @ althing_fetch::FetchError::Blocked { .. }) => return Some(error.to_string()),
        // Whoever connects is told.
        Err(_) => return None,
    };
    // A literal address leads nowhere.
    let is_bound = !found.is_empty() && found.is_disjoint(&of_fetch(leads_to));
    is_bound.then(|| {
        let may: Vec<&str> = leads_to.iter().map(|place| place.word()).collect();
        format!("its name leads elsewhere than when it was adopted ({}): it is not followed there", may.join(", "))
    })
}

/// Why a client that is bound did not connect, if that is why its request failed.
pub(crate) fn refusal(error: &(dyn Error + 'static)) -> Option<String> {
    althing_fetch::refusal(error).map(ToString::to_string)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_is_bound_to_where_it_leads_and_an_address_to_nothing() {
        assert_eq!(places("http://127.0.0.1:9000/mcp").await, Ok(Vec::new()));
        assert_eq!(places("http://localhost:9000/mcp").await, Ok(vec![Place::ThisMachine]));
        assert!(places("ftp://localhost/").await.is_err());
        assert_eq!(elsewhere("http://localhost/", &[]).await, None);
        assert_eq!(elsewhere("http://localhost/", &[Place::ThisMachine, Place::Internet]).await, None);
        let why = elsewhere("http://localhost/", &[Place::Internet]).await.expect("it leads to this machine");
        assert!(why.contains("(internet)"), "{why}");
    }

    #[tokio::test]
    async fn a_client_that_is_bound_connects_nowhere_else() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://localhost:{}/", listener.local_addr().expect("bound").port());
        let client = client_to(&url, &[Place::Internet], CONNECT_TIMEOUT).expect("a client");
        let refused = client.get(&url).send().await.expect_err("localhost is not on the internet");
        assert!(refusal(&refused).is_some_and(|why| why.contains("leads to")), "{refused:?}");
        listener.set_nonblocking(true).expect("a listener");
        assert!(listener.accept().is_err(), "nobody connected");
    }
}
