//! Looks what is at an address of the Web of Things.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use althing_execution::http;
use althing_fetch::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LINK, LOCATION, WWW_AUTHENTICATE,
};
use althing_fetch::{Fetch, FetchError, Given, Limits, Method, Reply, Request, SystemResolver, same_origin};
use althing_td::{Description, Place, TD_BYTES_MAX};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use super::machine::directory::{ENTRIES_MAX, Entry, Kind, entry, is_before_w3c, kind, next};

/// Of one description; a list may be longer.
const DESCRIPTION: Limits = Limits { bytes: TD_BYTES_MAX, time: Duration::from_secs(5) };
/// Of a page of a list.
const LIST: Limits = Limits { bytes: 8 << 20, time: Duration::from_secs(10) };
/// Pages of a list.
const PAGES_MAX: usize = 64;
/// Of all pages of a list together; what is beyond is left out.
const PAGES: Limits = Limits { bytes: 16 << 20, time: Duration::from_secs(60) };
/// What is asked for.
const ACCEPTED: &str = "application/td+json, application/ld+json;q=0.9, application/json;q=0.8";

/// The client by which Things are asked; it is made when it is first needed.
#[derive(Debug, Clone, Default)]
pub struct Web {
    made: Arc<OnceLock<Result<Fetch, FetchError>>>,
    /// Where the names in the owner's addresses may lead; anywhere, if that is empty.
    places: BTreeSet<althing_fetch::Place>,
}

impl Web {
    /// One that follows the names in the owner's addresses only to these places: each is resolved for each request, and checked.
    /// To any, if there are none.
    #[must_use]
    pub fn leading_to(places: &[Place]) -> Web {
        Web { places: http::of_fetch(places), ..Web::default() }
    }

    pub(crate) fn fetch(&self) -> Result<&Fetch, FetchError> {
        let resolver = || Arc::new(SystemResolver);
        let made = self.made.get_or_init(|| match self.places.is_empty() {
            true => Fetch::new(Vec::new(), resolver()),
            false => Fetch::leading_to(self.places.clone(), resolver()),
        });
        made.as_ref().map_err(Clone::clone)
    }
}

/// What is there.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// A Thing, by its valid description.
    Thing(Map<String, Value>),
    /// A directory, with the Things that have an id that is not too long, and how many others there are, or were too many;
    /// pages that were not read count as one.
    Directory(Vec<Entry>, usize),
}

/// Why nothing was seen.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LookError {
    /// Nothing can be there.
    #[error("nothing listens at {0}")]
    Closed(String),
    /// Its name has no address.
    #[error("the host of {0} has no address: {1}")]
    Nowhere(String, String),
    /// It is not followed, or failed.
    #[error("{0}")]
    Fetch(FetchError),
    /// It answered with an error.
    #[error("it answers {0}")]
    Status(u16),
    /// It leads elsewhere.
    #[error("it leads to {0:?}, which is not followed: write that address, if it is what you mean")]
    Elsewhere(String),
    /// It is neither a Thing nor a directory.
    #[error("it answers with no Thing Description")]
    Neither,
    /// It is of WebThings, from before its descriptions were those of the W3C.
    #[error(
        "a Thing of WebThings before W3C: it has links where forms belong; update what serves it, or serve a W3C Thing \
         Description of it with forms (`althing td lint` checks one), and adopt that"
    )]
    BeforeW3c,
    /// The description is not valid.
    #[error("its Thing Description is not valid; `althing td lint` says more: {0}")]
    Invalid(String),
    /// The secret would be sent in the clear.
    #[error("it wants credentials, which would be sent there in the clear")]
    Clear,
}

impl LookError {
    /// Whether nothing else can be there either.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            LookError::Closed(_) | LookError::Nowhere(..) | LookError::Fetch(FetchError::Url(_)) | LookError::BeforeW3c
        )
    }

    /// Whether another address of the same host may show more.
    #[must_use]
    pub(crate) fn is_of_address(&self) -> bool {
        !self.is_final() || matches!(self, LookError::BeforeW3c)
    }
}

/// Looks what is at `url`, which the owner wrote; `secret` is sent where that asks for it.
///
/// # Errors
/// See [`LookError`].
pub async fn look(web: &Web, url: &Url, secret: Option<&str>) -> Result<Seen, LookError> {
    match read(web, url, secret, DESCRIPTION).await? {
        // Lists are longer than descriptions.
        Err(FetchError::TooLong(_)) => listed(web, url.clone(), secret).await,
        Err(error) => Err(failed(url, error)),
        Ok(reply) => match understood(&reply, url)? {
            Kind::Thing(_) => valid(&reply.body).map(Seen::Thing),
            Kind::Directory(list) if same_origin(url, &list) => listed(web, list, secret).await,
            Kind::Directory(list) => Err(LookError::Elsewhere(list.to_string())),
            Kind::List(..) => listed(web, url.clone(), secret).await,
        },
    }
}

/// The description at `url`, as it is now.
///
/// # Errors
/// See [`LookError`].
pub(super) async fn description(web: &Web, url: &Url, secret: Option<&str>) -> Result<Map<String, Value>, LookError> {
    match look_once(web, url, secret).await? {
        (Kind::Thing(_), body) => valid(&body),
        _ => Err(LookError::Neither),
    }
}

async fn look_once(web: &Web, url: &Url, secret: Option<&str>) -> Result<(Kind, Vec<u8>), LookError> {
    let reply = read(web, url, secret, DESCRIPTION).await?.map_err(|error| failed(url, error))?;
    Ok((understood(&reply, url)?, reply.body))
}

/// A valid description.
fn valid(body: &[u8]) -> Result<Map<String, Value>, LookError> {
    let read = Description::parse(body).map_err(|error| {
        let findings = error.report().findings.iter().take(3).map(|finding| finding.to_string());
        LookError::Invalid(findings.collect::<Vec<_>>().join("; "))
    })?;
    match read.value() {
        Value::Object(td) => Ok(td),
        _ => Err(LookError::Neither),
    }
}

fn understood(reply: &Reply, url: &Url) -> Result<Kind, LookError> {
    match reply.status {
        200..=299 => {}
        300..=399 => {
            let to = reply.headers.get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("another address");
            return Err(LookError::Elsewhere(to.chars().take(256).collect()));
        }
        status => return Err(LookError::Status(status)),
    }
    let document = serde_json::from_slice(&reply.body).map_err(|_| LookError::Neither)?;
    if is_before_w3c(&document) {
        return Err(LookError::BeforeW3c);
    }
    kind(document, url).ok_or(LookError::Neither)
}

fn failed(url: &Url, error: FetchError) -> LookError {
    match error {
        FetchError::Closed => LookError::Closed(url.to_string()),
        FetchError::Unresolved(why) => LookError::Nowhere(url.to_string(), why),
        error => LookError::Fetch(error),
    }
}

/// Asks once, and with the secret again where that is asked for.
async fn read(
    web: &Web,
    url: &Url,
    secret: Option<&str>,
    limits: Limits,
) -> Result<Result<Reply, FetchError>, LookError> {
    let fetch = web.fetch().map_err(LookError::Fetch)?;
    let ask = async |authorization: Option<HeaderValue>| {
        let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(ACCEPTED))]);
        headers.extend(authorization.map(|value| (AUTHORIZATION, value)));
        let request = Request { method: Method::GET, url: url.clone(), headers, body: Vec::new() };
        // The begin of a stream, or of a page, is enough to know that it is no description.
        fetch.ask(Given::Operator, request, limits, |_| false).await
    };
    let reply = match ask(None).await {
        Ok(reply) => reply,
        Err(error) => return Ok(Err(error)),
    };
    let (401, Some(secret)) = (reply.status, secret) else { return Ok(Ok(reply)) };
    if !althing_td::keeps_bearer(url.as_str()) {
        return Err(LookError::Clear);
    }
    let wanted = reply.headers.get(WWW_AUTHENTICATE).and_then(|wanted| wanted.to_str().ok()).unwrap_or_default();
    let value = match wanted.get(..5) {
        Some(scheme) if scheme.eq_ignore_ascii_case("basic") => format!("Basic {}", STANDARD.encode(secret.trim())),
        _ => format!("Bearer {}", secret.trim()),
    };
    let Ok(mut value) = HeaderValue::from_str(&value) else { return Ok(Ok(reply)) };
    value.set_sensitive(true);
    Ok(ask(Some(value)).await)
}

/// The list at an address, by pages.
async fn listed(web: &Web, list: Url, secret: Option<&str>) -> Result<Seen, LookError> {
    let (mut entries, mut left_out, mut page) = (Vec::new(), 0, Some(list.clone()));
    let (until, mut bytes) = (Instant::now() + PAGES.time, PAGES.bytes);
    for _ in 0..PAGES_MAX {
        let Some(url) = page.clone() else { break };
        let limits = Limits { bytes: LIST.bytes.min(bytes), ..LIST };
        // Beyond the limits of all pages, what was found is kept, and the page stays one that was not read.
        let Ok(reply) = timeout_at(until, read(web, &url, secret, limits)).await else { break };
        let reply = match reply? {
            Err(FetchError::TooLong(most)) if most < LIST.bytes => break,
            reply => reply.map_err(|error| failed(&url, error))?,
        };
        bytes = bytes.saturating_sub(reply.body.len());
        let Kind::List(items, after) = understood(&reply, &url)? else { return Err(LookError::Neither) };
        let found: Vec<Option<Entry>> = items.iter().map(|td| entry(td, &list)).collect();
        left_out += found.iter().filter(|entry| entry.is_none()).count();
        entries.extend(found.into_iter().flatten());
        let link = reply.headers.get(LINK).and_then(|link| link.to_str().ok());
        // A list leads to its own pages only.
        page = after.or_else(|| next(link?, &url)).filter(|after| same_origin(after, &list) && *after != url);
        if items.is_empty() || entries.len() >= ENTRIES_MAX {
            break;
        }
    }
    left_out += entries.len().saturating_sub(ENTRIES_MAX) + usize::from(page.is_some());
    entries.truncate(ENTRIES_MAX);
    Ok(Seen::Directory(entries, left_out))
}

/// The media type of an answer.
pub(super) fn content_type(reply: &Reply) -> &str {
    reply.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default()
}
