//! Addresses of Things whose slashes a proxy decoded: `/things/https://example.org/lamp` stands for
//! `/things/https%3A%2F%2Fexample.org%2Flamp`, and so does `/things/https:/example.org/lamp`, where it merged them too.

use std::sync::Arc;

use althing_edge::Peer;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use axum::{Extension, Router};

use super::super::Shared;
use super::super::problem::Answer;
use super::put_as;
use crate::service::{Directory, Registry};

/// What follows the id of a Thing in the address of what was sent.
const SUBMITTED: &str = "/submitted";

/// The routes for what no other route takes.
pub fn routes() -> Router<Arc<Registry>> {
    Router::new().route("/things/{*id}", get(retrieve).put(put).patch(patch).delete(delete))
}

/// The id that an address means; the address itself if nothing is here that it may mean.
fn meant(registry: &Registry, path: String) -> String {
    registry.directory().meant_by(&path).unwrap_or(path)
}

/// Who finds nothing is told what may have become of the address.
fn with_proxy_hint(answer: Answer) -> Answer {
    answer.map_err(|problem| match problem.status() {
        StatusCode::NOT_FOUND => problem.and(
            "its address came with slashes: a proxy before this registry may have decoded %2F in the id, and left some out; \
             have it pass addresses on as they come (nginx: proxy_pass without a path)",
        ),
        _ => problem,
    })
}

async fn retrieve(state: Shared, Path(path): Path<String>, headers: HeaderMap) -> Answer {
    let State(registry) = &state;
    let known = registry.directory().meant_by(&path);
    let of = path.strip_suffix(SUBMITTED).map(str::to_owned);
    match (known, of) {
        (Some(id), _) => super::retrieve(state, Path(id), headers).await,
        (None, Some(of)) => {
            let id = meant(registry, of);
            with_proxy_hint(super::submitted(state, Path(id), headers).await)
        }
        (None, None) => with_proxy_hint(super::retrieve(state, Path(path), headers).await),
    }
}

async fn put(
    State(registry): Shared,
    Extension(peer): Extension<Peer>,
    Path(path): Path<String>,
    request: Request,
) -> Answer {
    let read = move |directory: Directory<'_>, sent: &[u8], expected| directory.draft_decoded(&path, sent, expected);
    put_as(&registry, peer, request, read).await
}

async fn patch(state: Shared, peer: Extension<Peer>, Path(path): Path<String>, request: Request) -> Answer {
    let State(registry) = &state;
    let id = meant(registry, path);
    with_proxy_hint(super::patch(state, peer, Path(id), request).await)
}

async fn delete(state: Shared, Path(path): Path<String>, headers: HeaderMap) -> Answer {
    let State(registry) = &state;
    let id = meant(registry, path);
    with_proxy_hint(super::delete(state, Path(id), headers).await)
}
