//! An agent's description: the one that the gateway derives, and the one that its publisher signed.

use std::sync::Arc;

use althing_calls::{Candidate, OperationError};
use althing_edge::host;
use althing_protocol::{AgentId, digest};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{TD, problem, td};
use crate::Gateway;
use crate::client::to_read;

/// Cache lifetime, seconds: descriptions change.
const CACHE: &str = "max-age=60";

/// `GET /things/{agent}`.
pub(super) async fn show(
    State(gateway): State<Arc<Gateway>>,
    Path(agent): Path<String>,
    headers: HeaderMap,
) -> Response {
    match find(&gateway, &agent).await {
        Ok((id, known)) => answer(&headers, TD, served(&gateway, &headers, &id, &known).into_bytes()),
        Err(error) => problem::of(&error),
    }
}

/// `GET /things/{agent}/published`.
pub(super) async fn published(
    State(gateway): State<Arc<Gateway>>,
    Path(agent): Path<String>,
    headers: HeaderMap,
) -> Response {
    match find(&gateway, &agent).await {
        Ok((_, known)) => answer(&headers, TD, known.description.bytes().to_vec()),
        Err(error) => problem::of(&error),
    }
}

/// `GET /things/{agent}/published.cose`.
pub(super) async fn signed(
    State(gateway): State<Arc<Gateway>>,
    Path(agent): Path<String>,
    headers: HeaderMap,
) -> Response {
    match find(&gateway, &agent).await {
        Ok((_, known)) => answer(&headers, "application/cose", known.verified.description.bytes.clone()),
        Err(error) => problem::of(&error),
    }
}

/// The agent of that name or id, and what is known of it.
pub(super) async fn find(gateway: &Gateway, agent: &str) -> Result<(AgentId, Candidate), OperationError> {
    let id = to_read(&gateway.calls, agent).await?;
    gateway.calls.find_hosts(&id).await;
    let known = gateway.calls.discovery().describe(&id);
    let known = known.ok_or_else(|| OperationError::agent_unknown(format!("no node that hosts {id} is known")))?;
    Ok((id, known))
}

/// The gateway's description of an agent, for whoever reached it under this Host.
pub(super) fn served(gateway: &Gateway, headers: &HeaderMap, id: &AgentId, known: &Candidate) -> String {
    let served = td::Served {
        agent: id,
        description: &known.description,
        base: gateway.access.base(host(headers).unwrap_or_default()),
        token_required: gateway.access.is_guarded(),
        node: gateway.key.public().did(),
    };
    served.td().to_string()
}

/// An answer that may be cached, or 304.
pub(super) fn answer(headers: &HeaderMap, media: &'static str, body: Vec<u8>) -> Response {
    let etag = format!("\"{}\"", URL_SAFE_NO_PAD.encode(digest(&body)));
    let known = headers.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    let known = known.is_some_and(|known| known.split(',').any(|tag| tag.trim() == etag || tag.trim() == "*"));
    let caching = [
        (header::ETAG, etag),
        (header::CACHE_CONTROL, CACHE.to_owned()),
        // The document names the Host that it was asked for under.
        (header::VARY, "Host".to_owned()),
        (header::CONTENT_TYPE, media.to_owned()),
    ];
    if known {
        return (StatusCode::NOT_MODIFIED, caching).into_response();
    }
    (caching, body).into_response()
}
