//! The directory of W3C WoT Discovery: Things, searches and events.

mod access;
mod decoded;
mod events;
mod list;
mod problem;
mod search;
mod td;

use std::sync::Arc;

use althing_edge::{Peer, is_json, read_body};
use althing_td::TD_BYTES_MAX;
use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Extension, Router};

use super::Shared;
use super::problem::{Answer, Problem};
use crate::machine::things::{Expected, ThingRefusal};
use crate::service::{Directory, Put, Registry, Shown, ThingDraft, ThingError};
pub(super) use access::{bearer, refused};
use access::{reader, writer};

/// The media type of a description.
const TD: &str = "application/td+json";
/// The media type of a merge patch.
const PATCH: &str = "application/merge-patch+json";
/// Attempts of a patch, while others write the same Thing.
const ATTEMPTS: usize = 8;

/// The routes of the directory.
pub fn routes() -> Router<Arc<Registry>> {
    Router::new()
        .route("/.well-known/wot", get(td::describe))
        .route("/things", get(list::list).post(create))
        .route("/things/{id}", get(retrieve).put(put).patch(patch).delete(delete))
        .route("/things/{id}/submitted", get(submitted))
        .route("/search/jsonpath", get(search::jsonpath))
        .route("/search/{other}", get(search::unsupported).post(search::unsupported))
        .route("/events", get(events::all))
        .route("/events/{kind}", get(events::of_kind))
}

/// Those for addresses that a proxy changed on their way: for what no other route takes.
pub fn decoded_routes() -> Router<Arc<Registry>> {
    decoded::routes()
}

/// Where somebody asks from, a site of IPv6 as one; none on loopback, where a proxy may stand for many.
pub(super) fn origin(peer: Peer) -> Option<String> {
    peer.origin()
}

/// The body of a request, if its content type is one of these.
async fn body(request: Request, kinds: &[&str]) -> Result<Bytes, Problem> {
    if !is_json(request.headers(), kinds) {
        let wanted = kinds.first().copied().unwrap_or("application/json");
        let detail = format!("the body must be {wanted}, and the Content-Type must say so");
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    read_body(request, TD_BYTES_MAX).await.map_err(Problem::body)
}

/// What the request says is there.
fn expected(headers: &HeaderMap) -> Result<Expected, Problem> {
    let Some(given) = headers.get(header::IF_MATCH) else { return Ok(Expected::Anything) };
    let given = given.to_str().unwrap_or_default().trim();
    if given == "*" {
        return Ok(Expected::Something);
    }
    let index = given.strip_prefix('"').and_then(|it| it.strip_suffix('"')).and_then(|it| it.parse().ok());
    index.map(Expected::Entry).ok_or_else(|| {
        Problem::new(StatusCode::PRECONDITION_FAILED, "If-Match has one ETag that this directory gave, or *")
    })
}

fn etag(index: u64) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{index}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

fn wrote(put: &Put) -> Response {
    let status = if put.is_new { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
    let mut response = (status, [(header::ETAG, etag(put.index))]).into_response();
    if put.is_new
        && let Ok(location) = HeaderValue::from_str(&format!("/things/{}", escaped(&put.id)))
    {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

fn shown(shown: Shown) -> Response {
    let headers = [(header::CONTENT_TYPE, HeaderValue::from_static(TD)), (header::ETAG, etag(shown.index))];
    (headers, shown.bytes).into_response()
}

/// A text as a part of an address: what URNs have is left as it is.
fn escaped(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// What is to be written, read from a body in a turn. The turn ends with that: none is held while something is written.
async fn read_draft(
    registry: &Arc<Registry>,
    peer: Peer,
    body: &Bytes,
    read: impl FnOnce(Directory<'_>, &[u8]) -> Result<ThingDraft, ThingError> + Send + 'static,
) -> Result<ThingDraft, Problem> {
    let turn = registry.turns().short(origin(peer)).await?;
    // The room of the body is taken as long as somebody works on it, also if whoever sent it hangs up.
    let (registry, body) = (registry.clone(), body.clone());
    Ok(turn.spend(move || read(registry.directory(), &body)).await??)
}

async fn create(State(registry): Shared, Extension(peer): Extension<Peer>, request: Request) -> Answer {
    let writer = writer(&registry, request.headers())?;
    let body = body(request, &[TD, "application/ld+json"]).await?;
    let draft = read_draft(&registry, peer, &body, |directory, sent| directory.draft_new(sent)).await?;
    Ok(wrote(&registry.directory().write(draft, &writer).await?))
}

async fn put(
    State(registry): Shared,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
    request: Request,
) -> Answer {
    let read = move |directory: Directory<'_>, sent: &[u8], expected| directory.draft(&id, sent, expected);
    put_as(&registry, peer, request, read).await
}

/// Writes the description in a request, as it is read.
async fn put_as(
    registry: &Arc<Registry>,
    peer: Peer,
    request: Request,
    read: impl FnOnce(Directory<'_>, &[u8], Expected) -> Result<ThingDraft, ThingError> + Send + 'static,
) -> Answer {
    let writer = writer(registry, request.headers())?;
    let expected = expected(request.headers())?;
    let body = body(request, &[TD, "application/ld+json"]).await?;
    let draft = read_draft(registry, peer, &body, move |directory, sent| read(directory, sent, expected)).await?;
    Ok(wrote(&registry.directory().write(draft, &writer).await?))
}

async fn patch(
    State(registry): Shared,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
    request: Request,
) -> Answer {
    let writer = writer(&registry, request.headers())?;
    let expected = expected(request.headers())?;
    let body = body(request, &[PATCH]).await?;
    for _ in 0..ATTEMPTS {
        let of = id.clone();
        let drafting =
            read_draft(&registry, peer, &body, move |directory, patch| directory.draft_patched(&of, patch, expected));
        let draft = drafting.await?;
        match registry.directory().write(draft, &writer).await {
            // Somebody else was faster.
            Err(ThingError::Refused(ThingRefusal::Changed(_))) => {}
            written => return Ok(wrote(&written?)),
        }
    }
    Err(ThingError::Contended(id).into())
}

async fn delete(State(registry): Shared, Path(id): Path<String>, headers: HeaderMap) -> Answer {
    let writer = writer(&registry, &headers)?;
    registry.directory().delete_thing(&id, &writer, expected(&headers)?).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn retrieve(State(registry): Shared, Path(id): Path<String>, headers: HeaderMap) -> Answer {
    reader(&registry, &headers)?;
    Ok(shown(registry.directory().retrieve(&id)?))
}

async fn submitted(State(registry): Shared, Path(id): Path<String>, headers: HeaderMap) -> Answer {
    reader(&registry, &headers)?;
    Ok(shown(registry.directory().submitted(&id)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SR-7: whoever has a site of IPv6 has 65,536 nets.
    #[test]
    fn a_site_of_ipv6_has_one_share() {
        let of = |address: &str| origin(Peer(address.parse().expect("an address")));
        assert_eq!(of("2001:db8:0:1::1"), of("2001:db8:0:2::1"));
        assert_ne!(of("2001:db8:0:1::1"), of("2001:db8:1:1::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!((of("127.0.0.1"), of("::1")), (None, None), "a proxy may stand for many");
    }
}
