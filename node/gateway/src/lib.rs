//! The HTTP faces of a node, each a thin translation to `calls`: A2A over JSON-RPC, HTTP+JSON and gRPC, agent cards, MCP,
//! the Web of Things, and what the gateway tells about itself.
//!
//! **Inputs**: HTTP requests. **Outputs**: A2A's JSON, server-sent events, agent cards signed by the node, Thing
//! Descriptions with forms that work, LMOS messages over WebSocket, OpenAPI, figures.
//!
//! **Invariants**: Host, Origin, content type, version and token are checked before a body is parsed; every body,
//! connection and wait is bounded.
//!
//! **Never knows**: where agents are, frames, keys other than the node's own, which signs cards.

mod a2a;
mod about;
mod client;
mod questions;
mod response_budget;
mod routes;
mod wot;

use std::sync::{Arc, OnceLock};

use a2a::grpc::Grpc;
use a2a::parameters::name_activated;
pub(crate) use a2a::parameters::trace;
use a2a::{card, jsonrpc, rest, schemas};
use althing_calls::Calls;
use althing_edge::{Guard, METADATA, authenticate, host, host_and_origin, problem};
use althing_protocol::SecretKey;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Json, Response};
use futures::future::BoxFuture;
use routes::{Answer, Route, Routes, Served, Tag};
use serde_json::{Value, json};

pub use althing_calls::is_user_name;
pub use althing_edge::{
    Access, Base, BaseError, Issuer, IssuerConfig, Limits, NoScope, OriginError, Publications, Scope, Tls, TlsError,
    TlsFiles, User, Users, at_own_names, origin_of, serve, serve_tls,
};
pub use questions::{QuestionRefusal, Questions};
use response_budget::JSON;
pub use wot::{introductions, paths};

/// Bytes of a request's body: the largest body of an operation, and its envelope.
const BODY_BYTES_MAX: usize = althing_protocol::limits::BODY_BYTES_MAX + 4_096;
/// Agents in one listing.
const AGENTS_MAX: usize = 1_000;
/// A2A in the table of routes.
const A2A: &Tag = &Tag { name: "A2A", about: "Agent2Agent 1.0", refusals: JSON, refusal: schemas::error };

/// MCP in the table of routes.
const MCP: &Tag = &Tag { name: "MCP", about: "Model Context Protocol", refusals: JSON, refusal: || json!({}) };

/// What the faces share.
pub(crate) struct Gateway {
    calls: Calls,
    key: SecretKey,
    access: Arc<Access>,
    wot: wot::Wot,
    /// What is kept for clients.
    budget: Arc<response_budget::ResponseBudget>,
    /// What is served.
    table: Vec<Served>,
    /// That as OpenAPI, once somebody asked: without tokens, and with.
    openapi: [OnceLock<Value>; 2],
    /// Tells the layers of the node, if something does.
    layers: Option<TellLayers>,
    /// What waits for people, if they may answer here.
    questions: Option<Arc<dyn Questions>>,
}

/// The routes that need the token, if one is set. A face adds its own here.
fn guarded() -> Routes {
    let told = about::guarded().merge(questions::routes());
    a2a().merge(rest::routes()).merge(wot::routes()).merge(told).describe(MCP_ROUTES)
}

fn a2a() -> Routes {
    const CALLED: &[Answer] =
        &[Answer::ok("The answer of JSON-RPC; operations that stream answer text/event-stream", JSON)
            .schema(schemas::called)];
    Routes::default()
        .route(
            Route::post("/a2a/{agent}", A2A, "Calls an agent by JSON-RPC 2.0").request(schemas::call).answers(CALLED),
            jsonrpc::call,
        )
        .route(Route::post("/a2a/{agent}/", A2A, "The same").request(schemas::call).answers(CALLED), jsonrpc::call)
        .route(
            Route::get("/a2a/{agent}/.well-known/agent-card.json", A2A, "Shows an agent's card, signed by this node")
                .answers(const { &[Answer::ok("An agent card", JSON).schema(schemas::agent_card)] }),
            card::show,
        )
        .route(
            Route::get("/agents", A2A, "Lists the agents that this node knows").answers(
                const { &[Answer::ok("The agents, with the addresses of their cards", JSON).schema(schemas::agents)] },
            ),
            agents,
        )
        .refusing(rest::wrong_method)
}

/// What another crate serves at `/mcp`.
const MCP_ROUTES: &[Route] = &[
    Route::post("/mcp", MCP, "Takes a message of MCP (streamable HTTP)").needs(Scope::Read).answers(MCP_ANSWERS),
    Route::post("/mcp/{agent}", MCP, "The same, of an agent that is a server of tools")
        .needs(Scope::Read)
        .answers(MCP_ANSWERS),
];
const MCP_ANSWERS: &[Answer] = &[Answer::ok("The answer, as JSON or as events", JSON)];

/// What decides on a request: each route needs what the table says, and one that is not in the table what calls need.
fn guard(access: Arc<Access>) -> Guard {
    let table = table();
    let needs = move |method: &Method, path: &str| {
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let found = table.iter().find(|of| of.route.method == *method && fits(of.route.path, path));
        match (found, path) {
            (Some(found), _) => found.route.scope,
            // The list of tools is read; their calls are checked there.
            (None, "/mcp") => Scope::Read,
            (None, path) if path.starts_with("/mcp/") => Scope::Read,
            (None, _) => Scope::Call,
        }
    };
    Guard { access, needs: Arc::new(needs) }
}

/// Whether a path is one of a route's, as the router compares them.
fn fits(route: &str, path: &str) -> bool {
    let variable = |part: &str| part.starts_with('{') && part.ends_with('}');
    let (mut of_route, mut of_path) = (route.split('/'), path.split('/'));
    let fit = of_route
        .by_ref()
        .all(|part| of_path.next().is_some_and(|given| part == given || variable(part) && !given.is_empty()));
    fit && of_path.next().is_none()
}

/// The table of all routes.
fn table() -> Vec<Served> {
    let of = |routes: Routes, guarded: bool| routes.split().1.into_iter().map(move |route| Served { route, guarded });
    of(about::open(), false).chain(of(guarded(), true)).collect()
}

/// Whether paths of a gateway begin with that segment.
#[must_use]
pub fn is_own_path(first: &str) -> bool {
    let begins = |served: &Served| served.route.path.split('/').nth(1) == Some(first);
    !first.is_empty() && (first == althing_grpc::SERVICE || table().iter().any(begins))
}

/// Gives the layers of the node as YAML.
pub type TellLayers = Arc<dyn Fn() -> BoxFuture<'static, String> + Send + Sync>;

/// All routes. `key` is the node's and signs agent cards; by `layers` it tells its layers (`/osi.yaml`), and it hands `questions`
/// the answers of people (`/questions/{ask}`), if it does.
pub fn router(
    calls: Calls,
    key: SecretKey,
    access: Access,
    (layers, questions): (Option<TellLayers>, Option<Arc<dyn Questions>>),
) -> Router {
    let access = Arc::new(access);
    let wot = wot::Wot::default();
    let gateway = Arc::new(Gateway {
        calls,
        key,
        access: access.clone(),
        wot,
        budget: Arc::default(),
        table: table(),
        openapi: Default::default(),
        layers,
        questions,
    });
    let others = althing_mcp_server::routes(gateway.calls.clone(), client::principal, client::asker)
        .merge(althing_grpc::routes(Arc::new(Grpc(gateway.clone()))));
    let guarded =
        guarded().split().0.merge(others).layer(middleware::from_fn_with_state(guard(access.clone()), authenticate));
    let guarded = guarded.layer(middleware::from_fn(name_activated));
    let prefix: Arc<str> = access.prefix().into();
    let router = Router::new()
        .merge(about::open().split().0)
        .merge(guarded)
        .fallback(missing)
        .layer(middleware::from_fn_with_state(access, host_and_origin))
        .with_state(gateway);
    if prefix.is_empty() {
        return router;
    }
    // Some proxies take the path of this gateway off before they pass a request on, and some do not.
    Router::new().fallback_service(router).layer(middleware::from_fn_with_state(prefix, without_prefix))
}

/// Takes off what the world puts before the paths of this gateway.
async fn without_prefix(State(prefix): State<Arc<str>>, mut request: Request, next: Next) -> Response {
    if let Some(uri) = stripped(request.uri(), &prefix) {
        *request.uri_mut() = uri;
    }
    next.run(request).await
}

/// An address without that path, if it has it. The metadata of what is there stands before it (RFC 9728 §3.1).
fn stripped(uri: &Uri, prefix: &str) -> Option<Uri> {
    let (lead, rest) = match uri.path().strip_prefix(METADATA) {
        Some(rest) => (METADATA, rest),
        None => ("", uri.path()),
    };
    let rest = rest.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
    let rest = if lead.is_empty() && rest.is_empty() { "/" } else { rest };
    let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{lead}{rest}{query}").parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// Every agent of the mesh that this node knows, with the address of its card.
async fn agents(State(gateway): State<Arc<Gateway>>, headers: axum::http::HeaderMap) -> Response {
    let base = gateway.access.base(host(&headers).unwrap_or_default());
    let found = gateway.calls.known(AGENTS_MAX);
    let list = found.iter().map(|known| {
        let id = known.agent.to_string();
        json!({
            "id": id,
            "name": known.agent.name(),
            "title": known.title,
            "containment": known.contained,
            "node": known.node.did(),
            "card": format!("{base}/a2a/{id}/.well-known/agent-card.json"),
        })
    });
    Json(json!({ "agents": list.collect::<Vec<_>>() })).into_response()
}

async fn missing(uri: axum::http::Uri) -> Response {
    let message = format!(
        "there is nothing at {}; agents answer at /a2a/<name or id>, /agents lists them, and /openapi.json all routes",
        uri.path()
    );
    problem(axum::http::StatusCode::NOT_FOUND, &message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_that_the_world_puts_before_is_taken_off_once() {
        let of = |uri: &str| stripped(&uri.parse().expect("a URI"), "/mesh").map(|uri| uri.to_string());
        for (uri, without) in [
            ("/mesh", Some("/")),
            ("/mesh/", Some("/")),
            ("/mesh/mcp?agents=mesh", Some("/mcp?agents=mesh")),
            ("/mesh/mesh/x", Some("/mesh/x")),
            ("http://host/mesh/agents", Some("http://host/agents")),
            ("/.well-known/oauth-protected-resource/mesh/mcp", Some("/.well-known/oauth-protected-resource/mcp")),
            ("/.well-known/oauth-protected-resource/mesh", Some("/.well-known/oauth-protected-resource")),
            ("/meshed/mcp", None),
            ("/mcp", None),
            ("/.well-known/oauth-protected-resource/mcp", None),
        ] {
            assert_eq!(of(uri).as_deref(), without, "{uri}");
        }
    }

    #[test]
    fn what_paths_begin_with_is_known_of_each_face() {
        for own in [".well-known", "a2a", "agents", "lf.a2a.v1.A2AService", "llms.txt", "mcp", "osi.yaml"] {
            assert!(is_own_path(own), "{own}");
        }
        for free in ["", "mesh", "mcpx", "{agent}"] {
            assert!(!is_own_path(free), "{free}");
        }
    }

    #[test]
    fn a_route_needs_what_the_table_says_and_an_unknown_one_what_calls_do() {
        let guard = guard(Arc::default());
        for (method, path, scope) in [
            (Method::GET, "/agents", Scope::Read),
            (Method::HEAD, "/agents", Scope::Read),
            (Method::GET, "/a2a/echo/.well-known/agent-card.json", Scope::Read),
            (Method::GET, "/things/echo", Scope::Read),
            (Method::GET, "/things/echo/properties/status", Scope::Read),
            (Method::GET, "/things/echo/properties/tasks", Scope::Call),
            (Method::GET, "/things/echo/properties", Scope::Call),
            (Method::GET, "/things/echo/ws", Scope::Call),
            (Method::GET, "/things/echo/events/agentEvent", Scope::Call),
            (Method::GET, "/things/echo/actions/chat/7", Scope::Call),
            (Method::POST, "/things/echo/actions/chat", Scope::Call),
            (Method::POST, "/a2a/echo", Scope::Call),
            (Method::GET, "/a2a/echo/tasks", Scope::Call),
            (Method::GET, "/a2a/echo/tasks/7", Scope::Call),
            (Method::GET, "/a2a/echo/tasks/7:subscribe", Scope::Call),
            (Method::POST, "/a2a/echo/message:send", Scope::Call),
            (Method::POST, "/lf.a2a.v1.A2AService/GetTask", Scope::Call),
            (Method::POST, "/mcp", Scope::Read),
            (Method::GET, "/mcp", Scope::Read),
            (Method::POST, "/mcp/files", Scope::Read),
            (Method::DELETE, "/mcp/files/", Scope::Read),
            (Method::GET, "/mcpx", Scope::Call),
            (Method::GET, "/metrics", Scope::Admin),
            (Method::GET, "/questions/7", Scope::Call),
            (Method::POST, "/questions/7", Scope::Call),
            (Method::GET, "/metrics/", Scope::Call),
            (Method::POST, "/things/echo", Scope::Call),
            (Method::GET, "/things//", Scope::Call),
        ] {
            assert_eq!((guard.needs)(&method, path), scope, "{method} {path}");
        }
    }
}
