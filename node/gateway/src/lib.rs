//! The HTTP faces of a node, each a thin translation to `calls`: A2A over JSON-RPC, HTTP+JSON and gRPC, agent
//! cards, health.
//!
//! **Inputs**: HTTP requests. **Outputs**: A2A's JSON, server-sent events, agent cards signed by the node.
//!
//! **Invariants**: Host, Origin, content type, version and token are checked before a body is parsed; every body,
//! connection and wait is bounded.
//!
//! **Never knows**: where agents are, frames, keys other than the node's own, which signs cards.

mod a2a;
mod wot;

use std::sync::Arc;

use a2a::{card, jsonrpc, rest};
use althing_calls::{Calls, Principal};
use althing_edge::{host, host_and_origin, problem, token};
use althing_protocol::SecretKey;
use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::middleware;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{any, get, post};
use serde_json::json;

pub use althing_edge::{Access, Limits, serve};
pub use wot::{introductions, paths};

/// Bytes of a request's body: the largest body of an operation, and its envelope.
const BODY_BYTES_MAX: usize = althing_protocol::limits::BODY_BYTES_MAX + 4_096;
/// Agents in one listing.
const AGENTS_MAX: usize = 1_000;

/// What the faces share.
pub(crate) struct Gateway {
    calls: Calls,
    key: SecretKey,
    access: Arc<Access>,
}

impl Gateway {
    /// The principal of a request that passed the guard.
    pub(crate) fn principal(&self) -> Principal {
        if self.access.token.is_some() { Principal::Token } else { Principal::Local }
    }
}

/// All routes. `key` is the node's and signs agent cards.
pub fn router(calls: Calls, key: SecretKey, access: Access) -> Router {
    let access = Arc::new(access);
    let gateway = Arc::new(Gateway { calls, key, access: access.clone() });
    let a2a = Router::new()
        .route("/a2a/{agent}", post(jsonrpc::call))
        .route("/a2a/{agent}/", post(jsonrpc::call))
        .route("/a2a/{agent}/.well-known/agent-card.json", get(card::show))
        .route("/a2a/{agent}/{*path}", any(rest::call))
        .route("/agents", get(agents))
        .merge(althing_grpc::routes(gateway.clone()))
        .layer(middleware::from_fn_with_state(access.clone(), token));
    Router::new()
        .route("/healthz", get(health))
        .merge(a2a)
        .fallback(missing)
        .layer(middleware::from_fn_with_state(access, host_and_origin))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(gateway)
}

async fn health(State(gateway): State<Arc<Gateway>>) -> Response {
    let status = gateway.calls.discovery().status();
    let body = json!({
        "status": "ok",
        "node": gateway.key.public().did(),
        "version": env!("CARGO_PKG_VERSION"),
        "nodes": status.nodes,
        "agents": status.agents,
    });
    Json(body).into_response()
}

/// Every agent of the mesh that this node knows, with the address of its card.
async fn agents(State(gateway): State<Arc<Gateway>>, headers: axum::http::HeaderMap) -> Response {
    let host = host(&headers).unwrap_or_default();
    let found = gateway.calls.known(AGENTS_MAX);
    let list = found.iter().map(|known| {
        let id = known.agent.to_string();
        json!({
            "id": id,
            "name": known.agent.name(),
            "title": known.title,
            "node": known.node.did(),
            "card": format!("http://{host}/a2a/{id}/.well-known/agent-card.json"),
        })
    });
    Json(json!({ "agents": list.collect::<Vec<_>>() })).into_response()
}

async fn missing(uri: axum::http::Uri) -> Response {
    let message =
        format!("there is nothing at {}; agents answer at /a2a/<name or id>, and /agents lists them", uri.path());
    problem(axum::http::StatusCode::NOT_FOUND, &message)
}
