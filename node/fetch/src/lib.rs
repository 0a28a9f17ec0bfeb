//! The one guarded fetch. Everything that follows an address from outside goes through here.
//!
//! **Input**: a URL, who gave it, how much may come and how long it may take. **Output**: the body, or why not.
//!
//! **Invariants**
//! - A URL that a stranger gave connects to addresses that the internet routes, to the operator's exceptions, and to
//!   nothing else: what is checked is the address that is connected to, resolved once for check and connection alike.
//! - A redirect is a URL that a stranger gave, whoever gave the first one.
//! - Only http and https, no credentials, no ports of other protocols, no proxy, no cookies.
//! - What comes, and how long it takes, is bounded.
//!
//! **Never knows**: what is fetched, or why.

mod address;
mod error;
mod nets;
mod resolve;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use reqwest::header::{ACCEPT, LOCATION};
use reqwest::{Client, Response};

pub use address::URL_BYTES_MAX;
pub use error::FetchError;
pub use nets::{Net, NoNet, blocked};
pub use reqwest::Url;
pub use resolve::{Resolve, SystemResolver};

use address::{Host, host_of};
use resolve::Guarded;

/// Redirects that are followed.
const REDIRECTS_MAX: usize = 4;
/// Making one connection.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// Who gave a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// The operator wrote it: it may lead anywhere, into his own nets too.
    Operator,
    /// Anybody: see the invariants.
    Stranger,
    /// Something on the LAN that says that it is at this very address.
    Neighbour(IpAddr),
}

/// How much may come, and when.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of the body.
    pub bytes: usize,
    /// From the first look-up to the last byte, redirects included.
    pub time: Duration,
}

/// Fetches; cheap to clone.
#[derive(Debug, Clone)]
pub struct Fetch {
    guarded: Client,
    /// For what the operator wrote.
    free: Client,
    exceptions: Arc<[Net]>,
}

impl Fetch {
    /// With the operator's exceptions: nets that strangers' URLs may lead into all the same.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn new(exceptions: Vec<Net>, resolver: Arc<dyn Resolve>) -> Result<Fetch, FetchError> {
        let exceptions: Arc<[Net]> = exceptions.into();
        let client = |guard: Option<Arc<[Net]>>| {
            Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .referer(false)
                .connect_timeout(CONNECT_MAX)
                // Each fetch connects, and so is checked, by itself.
                .pool_max_idle_per_host(0)
                .dns_resolver(Arc::new(Guarded { resolver: resolver.clone(), exceptions: guard }))
                .build()
                .map_err(|error| FetchError::Transport(error.to_string()))
        };
        Ok(Fetch { guarded: client(Some(exceptions.clone()))?, free: client(None)?, exceptions })
    }

    /// Gets what is at `url`.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn get(&self, url: &Url, given: Given, accept: &str, limits: Limits) -> Result<Vec<u8>, FetchError> {
        let late = |_| Err(FetchError::TooLate(limits.time.as_millis()));
        tokio::time::timeout(limits.time, self.follow(url, given, accept, limits.bytes)).await.unwrap_or_else(late)
    }

    async fn follow(&self, url: &Url, given: Given, accept: &str, bytes: usize) -> Result<Vec<u8>, FetchError> {
        let (mut url, mut given) = (url.clone(), given);
        for _ in 0..=REDIRECTS_MAX {
            let response = self.once(&url, given, accept).await?;
            if !response.status().is_redirection() {
                return body(response, bytes).await;
            }
            let next = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            let next = next.and_then(|next| url.join(next).ok());
            let next = next.ok_or_else(|| FetchError::Status(response.status().as_u16()))?;
            if url.scheme() == "https" && next.scheme() != "https" {
                return Err(FetchError::Url("it leads from https to something that anybody can read"));
            }
            if given == Given::Operator && !same_origin(&url, &next) {
                given = Given::Stranger;
            }
            url = next;
        }
        Err(FetchError::Redirects(REDIRECTS_MAX))
    }

    /// One request, to an address that was checked.
    async fn once(&self, url: &Url, given: Given, accept: &str) -> Result<Response, FetchError> {
        self.check(url, given)?;
        let client = if given == Given::Operator { &self.free } else { &self.guarded };
        client.get(url.clone()).header(ACCEPT, accept).send().await.map_err(|error| why(&error))
    }

    /// What can be said of a URL before its name is resolved.
    ///
    /// # Errors
    /// [`FetchError::Url`] and [`FetchError::Blocked`].
    pub fn check(&self, url: &Url, given: Given) -> Result<(), FetchError> {
        let host = host_of(url)?;
        match (given, host) {
            (Given::Operator, _) | (Given::Stranger, Host::Name(_)) => Ok(()),
            (Given::Neighbour(neighbour), Host::Address(address)) if address == neighbour => Ok(()),
            (Given::Neighbour(_), Host::Name(_)) => Err(FetchError::Url("a neighbour leads to its own address only")),
            (Given::Stranger | Given::Neighbour(_), Host::Address(address)) => permitted(address, &self.exceptions),
        }
    }
}

fn permitted(address: IpAddr, exceptions: &[Net]) -> Result<(), FetchError> {
    match blocked(address, exceptions) {
        None => Ok(()),
        Some(net) => Err(FetchError::Blocked { address, net }),
    }
}

/// The addresses of a name that may be connected to: all of them, or none. A name that also leads to a blocked net is
/// one by which somebody tries his luck.
fn permitted_all(addresses: &[SocketAddr], exceptions: &[Net]) -> Result<(), FetchError> {
    addresses.iter().try_for_each(|address| permitted(address.ip(), exceptions))
}

/// Do two URLs lead to the same scheme, host and port?
#[must_use]
pub fn same_origin(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme()
        && one.host_str() == other.host_str()
        && one.port_or_known_default() == other.port_or_known_default()
}

/// Our own reason, where the resolver gave one.
fn why(error: &reqwest::Error) -> FetchError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(ours) = error.downcast_ref::<FetchError>() {
            return ours.clone();
        }
        cause = error.source();
    }
    FetchError::Transport(error.to_string())
}

async fn body(response: Response, bytes_max: usize) -> Result<Vec<u8>, FetchError> {
    if !response.status().is_success() {
        return Err(FetchError::Status(response.status().as_u16()));
    }
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| FetchError::Transport(error.to_string()))?;
        if body.len() + chunk.len() > bytes_max {
            return Err(FetchError::TooLong(bytes_max));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
