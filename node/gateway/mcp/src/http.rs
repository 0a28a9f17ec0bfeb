//! Streamable HTTP: bodies are read within limits, then the SDK's server takes them.

use std::sync::Arc;

use althing_calls::{Calls, Principal};
use althing_edge::{BodyError, Identity, Peer, Scope, lacking, problem, read_body};
use althing_protocol::limits::BODY_BYTES_MAX;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use axum::routing::any;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;

use crate::server::Server;
use crate::sessions::{ASKING, Asking, Most, Sessions};
use crate::tools::READING;
use crate::view::OfPath;

/// Bytes of a request: the largest body of an operation, and its envelope.
const REQUEST_BYTES_MAX: usize = BODY_BYTES_MAX + 4_096;

type Service = StreamableHttpService<Server, Sessions>;

/// The route `/mcp`, and `/mcp/{agent}` for one server of tools. Calls are made for the `principal` of the request's identity. The caller of this function checks host,
/// origin and token before.
pub fn routes<S: Clone + Send + Sync + 'static>(calls: Calls, principal: fn(&Identity) -> Principal) -> Router<S> {
    let server = Server::new(calls, principal);
    // The gateway's guard knows the hosts and origins that are allowed; it checked them.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_json_response(true)
        .with_max_request_body_bytes(REQUEST_BYTES_MAX);
    let sessions = Arc::new(Sessions::new(Most::default()));
    let service = StreamableHttpService::new(move || Ok(server.of_session()), sessions, config);
    Router::new()
        .route("/mcp", any(serve))
        .route("/mcp/", any(serve))
        .route("/mcp/{agent}", any(serve_one))
        .route("/mcp/{agent}/", any(serve_one))
        .with_state(Arc::new(service))
}

/// The server of tools that the path names.
async fn serve_one(state: State<Arc<Service>>, Path(agent): Path<String>, mut request: Request) -> Response {
    request.extensions_mut().insert(OfPath(agent));
    serve(state, request).await
}

async fn serve(State(service): State<Arc<Service>>, request: Request) -> Response {
    let ends = request.method() == Method::DELETE;
    let identity = request.extensions().get::<Identity>().cloned().unwrap_or_default();
    let from = request.extensions().get::<Peer>().map(|peer| peer.net());
    let asking = Arc::new(Asking::new(&identity, from.as_deref().unwrap_or_default()));
    let request = if request.method() == Method::POST {
        let (parts, body) = request.into_parts();
        match read_body(Request::from_parts(parts.clone(), body), REQUEST_BYTES_MAX).await {
            Ok(body) if !identity.may(Scope::Call) && calls_agents(&body) => return lacking(Scope::Call),
            Ok(body) => Request::from_parts(parts, Body::from(body)),
            Err(error) => return unread(error),
        }
    } else {
        request
    };
    let mut response = ASKING.scope(asking.clone(), service.handle(request)).await.map(Body::new);
    if asking.was_refused() {
        let mut refused = problem(StatusCode::SERVICE_UNAVAILABLE, "all sessions are in use; end one, or try again");
        refused.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
        return refused;
    }
    if ends && response.status() == StatusCode::ACCEPTED {
        // The session has ended already; some clients warn of anything but 200 and 204.
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    response
}

/// Whether a message calls a tool that calls an agent. What is no message is refused by the SDK.
fn calls_agents(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Message {
        method: Option<String>,
        #[serde(default)]
        params: Option<Named>,
    }
    #[derive(Deserialize)]
    struct Named {
        name: Option<String>,
    }
    let Ok(message) = serde_json::from_slice::<Message>(body) else {
        // A batch, or parameters of another shape: not for whoever may only read.
        return body.windows(b"tools/call".len()).any(|part| part == b"tools/call");
    };
    let name = message.params.and_then(|params| params.name);
    message.method.as_deref() == Some("tools/call") && !name.is_some_and(|name| READING.contains(&name.as_str()))
}

fn unread(error: BodyError) -> Response {
    error.crowded(false).unwrap_or_else(|| problem(error.status(), &error.to_string()))
}
