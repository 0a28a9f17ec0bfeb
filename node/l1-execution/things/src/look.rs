//! Looks what is at an address of the Web of Things.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use althing_execution::http;
use althing_fetch::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LINK, LOCATION, WWW_AUTHENTICATE,
};
use althing_fetch::{Fetch, FetchError, Given, Limits, Method, Reply, Request, SystemResolver, same_origin};
use althing_td::{Place, ShownThing, TD_BYTES_MAX, is_thing, is_thing_type, shallow_json, shown_thing};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use super::machine::directory::{ENTRIES_MAX, Entry, Kind, Omissions, entry, is_before_w3c, is_graph, kind, next};

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
    /// A Thing, by what is good in its description, and where that was not as it should be (a JSON pointer), with how it was read.
    Thing(Map<String, Value>, Vec<(String, String)>),
    /// A directory, with the Things that have an id that is not too long, and what else it has, or has too many of.
    Directory(Vec<Entry>, Omissions),
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
    /// It is the answer of a directory, as a graph.
    #[error(
        "this is the answer of a directory, a list in `@graph`, and no Thing: write the address of one Thing of it"
    )]
    Graph,
    /// It is a description of which nothing can be read.
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
            LookError::Closed(_)
                | LookError::Nowhere(..)
                | LookError::Fetch(FetchError::Url(_))
                | LookError::BeforeW3c
                | LookError::Graph
                | LookError::Invalid(_)
        )
    }

    /// Whether another address of the same host may show more.
    #[must_use]
    pub(crate) fn is_of_address(&self) -> bool {
        !self.is_final() || matches!(self, LookError::BeforeW3c | LookError::Graph | LookError::Invalid(_))
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
            Kind::Thing(_) => shown(&reply).map(|(td, notes)| Seen::Thing(td, notes)),
            Kind::Directory(list) if same_origin(url, &list) => listed(web, list, secret).await,
            Kind::Directory(list) => Err(LookError::Elsewhere(list.to_string())),
            Kind::List(..) => listed(web, url.clone(), secret).await,
        },
    }
}

/// What is good in the description at `url`, as it is now.
///
/// # Errors
/// See [`LookError`].
pub(super) async fn description(web: &Web, url: &Url, secret: Option<&str>) -> Result<Map<String, Value>, LookError> {
    let reply = read(web, url, secret, DESCRIPTION).await?.map_err(|error| failed(url, error))?;
    match understood(&reply, url)? {
        Kind::Thing(_) => Ok(shown(&reply)?.0),
        Kind::Directory(_) | Kind::List(..) => Err(LookError::Neither),
    }
}

/// Places of a description, and why what was there is left out.
type Notes = Vec<(String, String)>;

/// What is good in a description, and what is not.
fn shown(reply: &Reply) -> Result<(Map<String, Value>, Notes), LookError> {
    let ShownThing { description, notes } = shown_thing(&reply.body, content_type(reply)).map_err(|error| {
        let findings = error.report().findings.iter().take(3).map(|finding| finding.to_string());
        LookError::Invalid(findings.collect::<Vec<_>>().join("; "))
    })?;
    match description.value() {
        Value::Object(td) => Ok((td, notes)),
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
    let is_typed = is_thing_type(content_type(reply));
    let document = shallow_json(&reply.body, LIST.bytes).map_err(|error| match is_typed {
        true => LookError::Invalid(error.to_string()),
        false => LookError::Neither,
    })?;
    if is_graph(&document) {
        return Err(LookError::Graph);
    }
    if !is_typed && is_before_w3c(&document) {
        return Err(LookError::BeforeW3c);
    }
    kind(document, url, is_typed).ok_or(LookError::Neither)
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
    let (mut entries, mut unlisted, mut page, mut number) = (Vec::new(), Omissions::default(), Some(list.clone()), 0);
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
        let (items, after) = match understood(&reply, &url) {
            Ok(Kind::List(items, after)) => (items, after),
            // As for the limits: one bad page spoils none before it.
            _ if !entries.is_empty() => break,
            Ok(Kind::Thing(td)) if is_thing(&td) && reply.body.len() > TD_BYTES_MAX => {
                return Err(LookError::Invalid(format!("it has more than {TD_BYTES_MAX} bytes")));
            }
            Ok(_) => return Err(LookError::Neither),
            Err(error) => return Err(error),
        };
        for item in &items {
            match entry(item, &list) {
                Some(entry) => entries.push(entry),
                None => unlisted.add(number, item),
            }
            number += 1;
        }
        let link = reply.headers.get(LINK).and_then(|link| link.to_str().ok());
        // A list leads to its own pages only.
        page = after.or_else(|| next(link?, &url)).filter(|after| same_origin(after, &list) && *after != url);
        if items.is_empty() || entries.len() >= ENTRIES_MAX {
            break;
        }
    }
    unlisted.count += entries.len().saturating_sub(ENTRIES_MAX) + usize::from(page.is_some());
    entries.truncate(ENTRIES_MAX);
    Ok(Seen::Directory(entries, unlisted))
}

/// The media type of an answer.
pub(super) fn content_type(reply: &Reply) -> &str {
    reply.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default()
}
