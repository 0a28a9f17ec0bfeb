//! What the gateway tells about itself: a page for people, a description of its routes for programs, a summary for language
//! models, and figures for Prometheus.

mod full;
mod metrics;
mod openapi;
mod page;

use std::sync::Arc;

use althing_calls::{OwnCard, TrustRelation};
use althing_edge::{Base, METADATA, Scope, host, problem};
use althing_protocol::PublicKey;
use althing_td::{Description, jwk};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use serde_json::{Value, json};

use crate::a2a::schemas::error;
use crate::routes::{Answer, Route, Routes, Tag};
use crate::{Gateway, JSON};

/// The name of this face in the table of routes.
const TAG: &Tag = &Tag { name: "About", about: "What this gateway is", refusals: JSON, refusal: error };
/// The media type of YAML (RFC 9512).
const YAML: &str = "application/yaml";
/// Agents that a page or a summary names.
const NAMED_MAX: usize = 100;

/// The routes that anyone who may connect reads; agents are named only where no token is asked for.
pub(crate) fn open() -> Routes {
    const HEALTH: &[Answer] = &[Answer::ok("That it is well, with its version", JSON)];
    Routes::default()
        .route(Route::get("/healthz", TAG, "Tells that the gateway is well").answers(HEALTH), health)
        .route(
            Route::get("/", TAG, "Shows people what is here").answers(const { &[Answer::ok("A page", "text/html")] }),
            page::page,
        )
        .route(
            Route::get("/llms.txt", TAG, "Tells language models what is here")
                .answers(const { &[Answer::ok("Markdown, as llmstxt.org has it", "text/plain")] }),
            page::llms,
        )
        .route(
            Route::get("/llms-full.txt", TAG, "Tells language models what each agent does, and how it is called")
                .answers(const { &[Answer::ok("Markdown: the agents of /llms.txt in full", "text/plain")] }),
            full::show,
        )
        .route(
            Route::get("/openapi.json", TAG, "Describes the routes of this gateway")
                .answers(const { &[Answer::ok("OpenAPI 3.1", JSON)] }),
            openapi::show,
        )
        .route(
            Route::get("/.well-known/jwks.json", TAG, "Shows the keys that sign push notifications")
                .answers(const { &[Answer::ok("JSON Web Keys (RFC 7517)", "application/jwk-set+json")] }),
            jwks,
        )
        .route(
            Route::get(METADATA, TAG, "Tells who issues tokens for this gateway, if somebody does")
                .answers(METADATA_ANSWERS),
            protected_resource,
        )
        .route(
            Route::get("/.well-known/oauth-protected-resource/mcp", TAG, "The same, where clients of MCP look for it")
                .answers(METADATA_ANSWERS),
            protected_resource,
        )
        .route(
            Route::get("/.well-known/oauth-protected-resource/mcp/{agent}", TAG, "The same, for one server of tools")
                .answers(METADATA_ANSWERS),
            protected_resource,
        )
}

const METADATA_ANSWERS: &[Answer] = &[Answer::ok("OAuth 2.0 Protected Resource Metadata (RFC 9728)", JSON)];

/// The routes that need the token, if one is set.
pub(crate) fn guarded() -> Routes {
    // How a node is, strangers need not know.
    Routes::default()
        .route(
            Route::get("/metrics", TAG, "Counts what the node does")
                .needs(Scope::Admin)
                .answers(const { &[Answer::ok("The text format of Prometheus", "text/plain")] }),
            metrics::show,
        )
        .route(
            Route::get("/osi.yaml", TAG, "Tells how each of the seven layers of the node is")
                .answers(const { &[Answer::ok("YAML, in the structure of the Agent OSI model", YAML)] }),
            layers,
        )
}

/// The layers of the node, as of some seconds ago.
async fn layers(State(gateway): State<Arc<Gateway>>) -> Response {
    match &gateway.layers {
        Some(tell) => text(tell().await, YAML),
        None => problem(StatusCode::NOT_FOUND, "this gateway does not tell the layers of its node"),
    }
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

/// The keys that sign push notifications: this node's, and those of the nodes whose agents may be named to anyone, since a
/// task's own node sends them.
async fn jwks(State(gateway): State<Arc<Gateway>>) -> Response {
    let own = gateway.key.public();
    let known = if gateway.access.is_guarded() { Vec::new() } else { gateway.calls.known(crate::AGENTS_MAX) };
    let mut others: Vec<PublicKey> = known.into_iter().map(|known| known.node).filter(|node| *node != own).collect();
    others.sort_unstable();
    others.dedup();
    let keys: Vec<Value> = std::iter::once(own).chain(others).map(jwk).collect();
    let caching = [(header::CONTENT_TYPE, "application/jwk-set+json"), (header::CACHE_CONTROL, "max-age=60")];
    (caching, json!({ "keys": keys }).to_string()).into_response()
}

/// Who issues tokens for this gateway.
async fn protected_resource(State(gateway): State<Arc<Gateway>>) -> Response {
    match gateway.access.metadata() {
        Some((_, told)) => Json(told).into_response(),
        None => problem(StatusCode::NOT_FOUND, "no issuer of OAuth is configured here (`gateway.oauth`)"),
    }
}

/// An agent, as a list names it.
struct Named {
    id: String,
    name: String,
    title: String,
    description: String,
    /// The whole description, if it is still known.
    described: Option<Arc<Description>>,
    /// What the card that it serves itself adds, if it runs here.
    own: OwnCard,
    /// Whether neither the owner nor anybody trusted wrote that.
    by_stranger: bool,
}

/// The agents that may be named to anyone, each once, and how many there are beside these.
fn named(gateway: &Gateway) -> (Vec<Named>, usize) {
    if gateway.access.is_guarded() {
        return (Vec::new(), 0);
    }
    let mut known = gateway.calls.known(crate::AGENTS_MAX);
    known.sort_by(|a, b| a.agent.cmp(&b.agent));
    known.dedup_by(|a, b| a.agent == b.agent);
    let more = known.len().saturating_sub(NAMED_MAX);
    let agents = known.into_iter().take(NAMED_MAX).map(|known| {
        let described = gateway.calls.discovery().describe(&known.agent).map(|candidate| candidate.description);
        let description = described.as_ref().and_then(|described| described.description().map(str::to_owned));
        Named {
            id: known.agent.to_string(),
            name: known.agent.name().to_owned(),
            title: known.title,
            description: description.unwrap_or_default(),
            described,
            own: gateway.calls.own_card(&known.agent).unwrap_or_default(),
            by_stranger: gateway.calls.relation(known.agent.publisher()) == TrustRelation::Stranger,
        }
    });
    (agents.collect(), more)
}

/// The base of the addresses that the reader can use.
fn base(gateway: &Gateway, headers: &HeaderMap) -> Base {
    gateway.access.base(host(headers).unwrap_or_default())
}

fn text(body: String, media: &'static str) -> Response {
    ([(header::CONTENT_TYPE, media)], body).into_response()
}
