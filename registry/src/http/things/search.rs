//! `GET /search/jsonpath`: what a query (RFC 9535) selects in the list of all descriptions that whoever asks sees.

use std::collections::BTreeMap;

use althing_edge::Peer;
use axum::Extension;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse as _;

use super::super::Shared;
use super::super::answers::private;
use super::super::problem::{Answer, Problem};
use super::{origin, reader};
use crate::service::{Found, Visitor, search_as};

pub async fn jsonpath(
    State(registry): Shared,
    Extension(peer): Extension<Peer>,
    Query(words): Query<BTreeMap<String, String>>,
    visitor: Visitor,
    headers: HeaderMap,
) -> Answer {
    reader(&registry, &headers)?;
    let query =
        words.get("query").ok_or_else(|| Problem::bad("`query` is missing: /search/jsonpath?query=$[?@.title]"))?;
    let Found { json, .. } = search_as(registry, visitor.reader(), origin(peer), query).await?;
    Ok(private(([(header::CONTENT_TYPE, "application/json")], json).into_response()))
}

pub async fn unsupported(Path(other): Path<String>) -> Problem {
    let name: String = other.chars().take(32).collect();
    Problem::new(
        StatusCode::NOT_IMPLEMENTED,
        format!("this directory does not search by {name:?}: use /search/jsonpath"),
    )
}
