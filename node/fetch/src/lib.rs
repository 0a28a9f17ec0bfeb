//! The one guarded fetch: every request to an address from outside goes through it.
//!
//! **Input**: a URL, its source, and limits of size and time. **Output**: the body, or an error. A body can also be posted,
//! and both bodies can be streams ([`Fetch::open`]). Who speaks something else than HTTP is given a connection
//! ([`Fetch::dial`]).
//!
//! **Invariants**
//! - A URL from a stranger connects only to addresses that are routed on the internet and to the operator's exceptions. The
//!   name is resolved once, and the checked address is the one that is connected to.
//! - A redirect counts as a URL from a stranger, whatever the source of the first URL.
//! - Only http and https, no credentials, no ports of other protocols, no proxy, no cookies.
//! - Size and time are bounded; of a stream in both directions, and also how long nothing moves.
//! - A connection that is dialled leads where a URL of that host and port would: the address that was checked is the one that
//!   is connected to. What is said on it is nobody's business here, nor is how much, or for how long.
//! - A client of somebody else's ([`bound`]), and a fetch that is bound ([`Fetch::leading_to`]), follow the operator's names only
//!   to the places that they are given.
//!
//! **Never knows**: what is fetched, or why.

mod address;
mod ask;
mod dial;
mod error;
mod nets;
mod open;
mod places;
mod resolve;

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use reqwest::{Client, Response};

pub use address::{URL_BYTES_MAX, spelling};
pub use ask::{Reply, Request};
pub use error::FetchError;
pub use nets::{Net, NoNet, blocked};
pub use open::{ReplyBody, StreamLimits, StreamReply, StreamRequest};
pub use places::{Place, bound, places, refusal};
pub use reqwest::header;
pub use reqwest::{Body, Method, StatusCode, Url};
pub use resolve::{Resolve, SystemResolver};

use address::{Host, host_of};
use places::Bound;
use resolve::Guarded;

/// Redirects that are followed.
const REDIRECTS_MAX: usize = 4;
/// The timeout of one connection.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// The source of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// The operator: it may lead anywhere, including private subnets; of a fetch that is bound, to its places.
    Operator,
    /// Anybody: see the invariants.
    Stranger,
    /// A device on the LAN that announced exactly this address.
    Neighbour(IpAddr),
}

/// The limits of a fetch.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of the body.
    pub bytes: usize,
    /// From the first look-up to the last byte, including redirects.
    pub time: Duration,
}

/// Fetches; cheap to clone.
#[derive(Clone)]
pub struct Fetch {
    guarded: Client,
    /// The client for URLs of the operator.
    free: Client,
    /// The resolver of `guarded`.
    guarded_names: Arc<dyn reqwest::dns::Resolve>,
    /// The resolver of `free`.
    free_names: Arc<dyn reqwest::dns::Resolve>,
    exceptions: Arc<[Net]>,
    resolver: Arc<dyn Resolve>,
}

impl fmt::Debug for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetch").field("exceptions", &self.exceptions).finish_non_exhaustive()
    }
}

impl Fetch {
    /// With the operator's exceptions: private subnets that URLs of strangers may lead to.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn new(exceptions: Vec<Net>, resolver: Arc<dyn Resolve>) -> Result<Fetch, FetchError> {
        let free = Guarded { resolver: resolver.clone(), exceptions: None };
        Fetch::with(exceptions, resolver, Arc::new(free))
    }

    /// With the places to which names in URLs of the operator may lead: where they led when the operator agreed to them. An
    /// address in digits leads nowhere else.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn leading_to(places: BTreeSet<Place>, resolver: Arc<dyn Resolve>) -> Result<Fetch, FetchError> {
        let free = Bound { resolver: resolver.clone(), places };
        Fetch::with(Vec::new(), resolver, Arc::new(free))
    }

    /// With the resolver of the names in URLs of the operator.
    fn with(
        exceptions: Vec<Net>,
        resolver: Arc<dyn Resolve>,
        free: Arc<dyn reqwest::dns::Resolve>,
    ) -> Result<Fetch, FetchError> {
        let exceptions: Arc<[Net]> = exceptions.into();
        let client = |names: Arc<dyn reqwest::dns::Resolve>| {
            Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .referer(false)
                .connect_timeout(CONNECT_MAX)
                // No connection is reused, so that each fetch is checked.
                .pool_max_idle_per_host(0)
                .dns_resolver(names)
                .build()
                .map_err(why)
        };
        let guarded = Guarded { resolver: resolver.clone(), exceptions: Some(exceptions.clone()) };
        let guarded: Arc<dyn reqwest::dns::Resolve> = Arc::new(guarded);
        Ok(Fetch {
            guarded: client(guarded.clone())?,
            free: client(free.clone())?,
            guarded_names: guarded,
            free_names: free,
            exceptions,
            resolver,
        })
    }

    /// Gets what is at `url`.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn get(&self, url: &Url, given: Given, accept: &str, limits: Limits) -> Result<Vec<u8>, FetchError> {
        let late = |_| Err(FetchError::TooLate(limits.time.as_millis()));
        tokio::time::timeout(limits.time, self.follow(url, given, accept, limits.bytes)).await.unwrap_or_else(late)
    }

    /// Posts a body to `url`; gives the status of the answer, whose body is not read, and where it leads, if anywhere. Redirects
    /// are not followed: the body is for whoever was named.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn post(
        &self,
        url: &Url,
        given: Given,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
        time: Duration,
    ) -> Result<(u16, Option<Url>), FetchError> {
        self.check(url, given)?;
        let client = if given == Given::Operator { &self.free } else { &self.guarded };
        let mut request = client.post(url.clone()).timeout(time).body(body);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let late = |_| Err(FetchError::TooLate(time.as_millis()));
        let sent = async { request.send().await.map_err(why) };
        let response = tokio::time::timeout(time, sent).await.unwrap_or_else(late)?;
        let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let leads_to = location.filter(|to| to.len() <= URL_BYTES_MAX).and_then(|to| url.join(to).ok());
        Ok((response.status().as_u16(), leads_to))
    }

    /// [`Fetch::exchange_as`] of nobody in particular.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn exchange(
        &self,
        method: Method,
        url: &Url,
        given: Given,
        sent: (&str, Vec<u8>),
        limits: Limits,
    ) -> Result<(u16, Vec<u8>), FetchError> {
        self.exchange_as(None, method, url, given, sent, limits).await
    }

    /// Sends a request that is no mere look-up, with a bearer token for whoever was named; gives the status and the body of the answer, whatever the status. Redirects
    /// are not followed.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn exchange_as(
        &self,
        bearer: Option<&str>,
        method: Method,
        url: &Url,
        given: Given,
        (kind, sent): (&str, Vec<u8>),
        limits: Limits,
    ) -> Result<(u16, Vec<u8>), FetchError> {
        self.check(url, given)?;
        let client = if given == Given::Operator { &self.free } else { &self.guarded };
        let mut request = client.request(method, url.clone()).header(CONTENT_TYPE, kind).body(sent);
        if let Some(token) = bearer {
            request = request.bearer_auth(token);
        }
        let exchanged = async {
            let response = request.send().await.map_err(why)?;
            let status = response.status().as_u16();
            Ok((status, whole(response, limits.bytes).await?))
        };
        let late = |_| Err(FetchError::TooLate(limits.time.as_millis()));
        tokio::time::timeout(limits.time, exchanged).await.unwrap_or_else(late)
    }

    /// Whether a stranger's URL may lead anywhere: checks the addresses of its name too, as far as it has any now.
    ///
    /// # Errors
    /// [`FetchError::Url`] and [`FetchError::Blocked`].
    pub async fn permits(&self, url: &Url) -> Result<(), FetchError> {
        self.check(url, Given::Stranger)?;
        let Host::Name(name) = host_of(url)? else { return Ok(()) };
        // A name without an address now may have one when it is needed; it is checked again then.
        let found = self.resolver.resolve(&name).await.unwrap_or_default();
        found.into_iter().try_for_each(|address| permitted(address, &self.exceptions))
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
        client.get(url.clone()).header(ACCEPT, accept).send().await.map_err(why)
    }

    /// Checks a URL before its name is resolved.
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

/// The addresses of a name: all of them, or an error if any is blocked, since a name with public and blocked addresses is
/// likely an attack.
fn permitted_all(addresses: &[SocketAddr], exceptions: &[Net]) -> Result<(), FetchError> {
    addresses.iter().try_for_each(|address| permitted(address.ip(), exceptions))
}

/// Whether two URLs have the same origin: scheme, host and port.
#[must_use]
pub fn same_origin(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme()
        && one.host_str() == other.host_str()
        && one.port_or_known_default() == other.port_or_known_default()
}

/// The reason of the resolver, if it gave one. The URL is left out: its query may hold a secret, and errors are logged.
fn why(error: reqwest::Error) -> FetchError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if let Some(ours) = error.downcast_ref::<FetchError>() {
            return ours.clone();
        }
        if let Some(error) = error.downcast_ref::<std::io::Error>()
            && error.kind() == std::io::ErrorKind::ConnectionRefused
        {
            return FetchError::Closed;
        }
        cause = error.source();
    }
    FetchError::Transport(error.without_url().to_string())
}

async fn body(response: Response, bytes_max: usize) -> Result<Vec<u8>, FetchError> {
    if !response.status().is_success() {
        return Err(FetchError::Status(response.status().as_u16()));
    }
    whole(response, bytes_max).await
}

/// The body, whatever the status.
async fn whole(response: Response, bytes_max: usize) -> Result<Vec<u8>, FetchError> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(why)?;
        if body.len() + chunk.len() > bytes_max {
            return Err(FetchError::TooLong(bytes_max));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
