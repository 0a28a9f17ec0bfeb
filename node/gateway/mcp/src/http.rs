//! Streamable HTTP: bodies are read within limits, then the SDK's server takes them.

use std::sync::Arc;

use althing_calls::{Calls, Principal};
use althing_edge::{BodyError, problem, read_body};
use althing_protocol::limits::BODY_BYTES_MAX;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::any;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use crate::server::Server;
use crate::sessions::{SESSIONS_MAX, Sessions};

/// Bytes of a request: the largest body of an operation, and its envelope.
const REQUEST_BYTES_MAX: usize = BODY_BYTES_MAX + 4_096;

type Service = StreamableHttpService<Server, Sessions>;

/// The route `/mcp`. Calls are made for `principal`. The caller of this function checks host, origin and token before.
pub fn routes<S: Clone + Send + Sync + 'static>(calls: Calls, principal: Principal) -> Router<S> {
    let server = Server::new(calls, principal);
    // The gateway's guard knows the hosts and origins that are allowed; it checked them.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_json_response(true)
        .with_max_request_body_bytes(REQUEST_BYTES_MAX);
    let sessions = Arc::new(Sessions::new(SESSIONS_MAX));
    let service = StreamableHttpService::new(move || Ok(server.of_session()), sessions, config);
    Router::new().route("/mcp", any(serve)).route("/mcp/", any(serve)).with_state(Arc::new(service))
}

async fn serve(State(service): State<Arc<Service>>, request: Request) -> Response {
    let ends = request.method() == Method::DELETE;
    let request = if request.method() == Method::POST {
        let (parts, body) = request.into_parts();
        match read_body(Request::from_parts(parts.clone(), body), REQUEST_BYTES_MAX).await {
            Ok(body) => Request::from_parts(parts, Body::from(body)),
            Err(error) => return problem(status(error), &error.to_string()),
        }
    } else {
        request
    };
    let mut response = service.handle(request).await.map(Body::new);
    if ends && response.status() == StatusCode::ACCEPTED {
        // The session has ended already; some clients warn of anything but 200 and 204.
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    response
}

fn status(error: BodyError) -> StatusCode {
    match error {
        BodyError::TooLong(_) => StatusCode::PAYLOAD_TOO_LARGE,
        BodyError::Broken => StatusCode::BAD_REQUEST,
        BodyError::Late => StatusCode::REQUEST_TIMEOUT,
    }
}
