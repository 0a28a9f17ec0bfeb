//! Streamable HTTP: bodies are read within limits, then the SDK's server takes them.

use std::sync::Arc;

use althing_calls::{Asker, Calls, Principal};
use althing_edge::{BodyError, Identity, Peer, Scope, is_json, lacking, problem, read_body};
use althing_protocol::limits::BODY_BYTES_MAX;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use futures::StreamExt as _;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde_json::Value;

use crate::batch::{self, AnswerFormat, Incoming};
use crate::late;
use crate::params;
use crate::server::Server;
use crate::sessions::{ASKING, Asking, Most, OpenError, OpenRequest, Sessions};
use crate::tools::READING;
use crate::view::OfPath;

/// Bytes of a request: the largest body of an operation, and its envelope.
const REQUEST_BYTES_MAX: usize = BODY_BYTES_MAX + 4_096;

/// Messages of one batch that are worked on at one time.
const TOGETHER: usize = 8;

/// The header that names a session.
const SESSION: &str = "mcp-session-id";

/// The SDK's server, and the sessions that it has.
struct Service {
    sdk: StreamableHttpService<Server, Sessions>,
    sessions: Arc<Sessions>,
}

impl Service {
    /// Notes a request of the session that the headers name; nothing of what is no request, or of no session.
    fn open(&self, headers: &HeaderMap, asking: &Asking, id: Option<&Value>) -> Result<Option<OpenRequest>, OpenError> {
        let session = headers.get(SESSION).and_then(|session| session.to_str().ok());
        match (session, id.filter(|id| !id.is_null())) {
            (Some(session), Some(id)) => self.sessions.open(session, asking.user(), id),
            _ => Ok(None),
        }
    }
}

/// The route `/mcp`, and `/mcp/{agent}` for one server of tools. Calls are made for the `principal` of the request's
/// identity, of agents that its `asker` may have. The caller of this function checks host, origin and token before.
pub fn routes<S: Clone + Send + Sync + 'static>(
    calls: Calls,
    principal: fn(&Identity) -> Principal,
    asker: fn(&Identity) -> Asker,
) -> Router<S> {
    Router::new()
        .route("/mcp", any(serve))
        .route("/mcp/", any(serve))
        .route("/mcp/{agent}", any(serve_one))
        .route("/mcp/{agent}/", any(serve_one))
        .with_state(service(calls, principal, asker))
}

fn service(calls: Calls, principal: fn(&Identity) -> Principal, asker: fn(&Identity) -> Asker) -> Arc<Service> {
    let server = Server::new(calls, principal, asker);
    // The gateway's guard knows the hosts and origins that are allowed; it checked them.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_json_response(true)
        .with_max_request_body_bytes(REQUEST_BYTES_MAX);
    let sessions = Arc::new(Sessions::new(Most::default()));
    let sdk = StreamableHttpService::new(move || Ok(server.of_session()), sessions.clone(), config);
    Arc::new(Service { sdk, sessions })
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
    let mut response = if request.method() == Method::POST {
        Box::pin(take(&service, request, &identity, &asking)).await
    } else {
        let mut request = request;
        if request.method() == Method::GET && batch::takes_events(request.headers()) {
            batch::accepting(request.headers_mut());
        }
        pass(&service, request, &asking).await
    };
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

/// Hands a request to the SDK's server.
async fn pass(service: &Service, request: Request, asking: &Arc<Asking>) -> Response {
    Box::pin(ASKING.scope(asking.clone(), service.sdk.handle(request))).await.map(Body::new)
}

/// Hands a request to the SDK's server that is not answered until its answer was sent whole.
async fn pass_open(service: &Service, request: Request, asking: &Arc<Asking>, open: Option<OpenRequest>) -> Response {
    let answer = pass(service, request, asking).await;
    if open.is_none() || !batch::is_events(answer.headers()) {
        return answer;
    }
    let (parts, body) = answer.into_parts();
    // Before the client sees the end, which may send the next request with that id then; and where it hangs up before.
    let end = futures::stream::once(async move { drop(open) }).filter_map(|()| std::future::ready(None));
    Response::from_parts(parts, Body::from_stream(body.into_data_stream().chain(end)))
}

/// The body of a message, with its parameters mended; or the refusal of these.
fn mended(body: Bytes, id: &Value) -> Result<Bytes, Value> {
    let Some(mut message) = serde_json::from_slice::<Value>(&body).ok().filter(|_| !id.is_null()) else {
        return Ok(body);
    };
    match params::mend(&mut message) {
        Ok(true) => Ok(message.to_string().into()),
        Ok(false) => Ok(body),
        Err(why) => Err(batch::refusal(id, batch::INVALID_PARAMS, &why)),
    }
}

/// Takes what a client sends: one message, or a batch.
async fn take(service: &Arc<Service>, request: Request, identity: &Identity, asking: &Arc<Asking>) -> Response {
    let (mut parts, body) = request.into_parts();
    let body = match read_body(Request::from_parts(parts.clone(), body), REQUEST_BYTES_MAX).await {
        Ok(body) => body,
        Err(error) => return unread(error),
    };
    let wants = batch::wants(&parts.headers);
    // What is no JSON by its own word is refused in the SDK's words: for the one reason that holds.
    if wants != AnswerFormat::Neither {
        batch::accepting(&mut parts.headers);
    }
    let is_fit = is_json(&parts.headers, &[]) && wants != AnswerFormat::Neither;
    if !is_fit {
        if !identity.may(Scope::Call) && calls_agents(&body) {
            return lacking(Scope::Call);
        }
        if wants == AnswerFormat::Neither {
            let why = "accept application/json, with or without text/event-stream: an answer may be JSON always";
            return problem(StatusCode::NOT_ACCEPTABLE, why);
        }
        return pass(service, Request::from_parts(parts, Body::from(body)), asking).await;
    }
    match batch::read(&body, &parts.headers) {
        Err(refused) => batch::failed(StatusCode::BAD_REQUEST, &refused),
        Ok(Incoming::One(..)) if !identity.may(Scope::Call) && calls_agents(&body) => lacking(Scope::Call),
        Ok(Incoming::One(id, method)) => {
            // Of versions without sessions the SDK itself says which member is wrong.
            let mended = if batch::is_of_sessions(&parts.headers) { mended(body, &id) } else { Ok(body) };
            let body = match mended {
                Ok(body) => body,
                Err(refused) => return batch::failed(StatusCode::OK, &refused),
            };
            // What has no method is an answer of the client.
            let open = match service.open(&parts.headers, asking, Some(&id).filter(|_| !method.is_empty())) {
                Ok(open) => open,
                Err(unopened) => return batch::failed(StatusCode::OK, &unopened.refusal(&id)),
            };
            let (service, asking) = (service.clone(), asking.clone());
            let request = Request::from_parts(parts, Body::from(body));
            let answer = Box::pin(async move { pass_open(&service, request, &asking, open).await });
            let is_events = wants == AnswerFormat::Either;
            let answer = if is_events { late::in_time(answer, id.clone(), &method).await } else { answer.await };
            if answer.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
                // It is JSON: the SDK means what is in it.
                let why = format!("its members are not those of a message of the method {method:?}");
                return batch::failed(StatusCode::BAD_REQUEST, &batch::refusal(&id, batch::INVALID, &why));
            }
            // A stream of notices has no answer to wait for.
            let is_stream = method == "subscriptions/listen";
            if wants == AnswerFormat::Json && !is_stream { batch::as_json(answer, &id).await } else { answer }
        }
        Ok(Incoming::Batch(messages)) => {
            drop(body);
            let lacks = |message: &Value| calls_agents(message.to_string().as_bytes());
            if !identity.may(Scope::Call) && messages.iter().any(lacks) {
                return lacking(Scope::Call);
            }
            answered(service, &parts, messages, asking).await
        }
    }
}

/// The answers to the messages of a batch, in their order; none to those that ask for none. They are worked on together.
async fn answered(service: &Service, parts: &Parts, messages: Vec<Value>, asking: &Arc<Asking>) -> Response {
    let one = |(mut message, is_repeated): (Value, bool)| async move {
        let id = batch::id_of(&message);
        if let Some(why) = batch::wrong(&message) {
            return Some(batch::refusal(&id, batch::INVALID, why));
        }
        if message["method"] == "initialize" {
            return Some(batch::refusal(&id, batch::INVALID, "initialize is sent alone"));
        }
        if is_repeated {
            return Some(batch::used_twice(&id));
        }
        let asks = batch::asks(&message);
        let mended = if asks { params::mend(&mut message) } else { Ok(false) };
        if let Err(why) = mended {
            return Some(batch::refusal(&id, batch::INVALID_PARAMS, &why));
        }
        let open = match service.open(&parts.headers, asking, Some(&id).filter(|_| asks)) {
            Ok(open) => open,
            Err(unopened) => return Some(unopened.refusal(&id)),
        };
        let request = Request::from_parts(parts.clone(), Body::from(message.to_string()));
        let answer = batch::as_json(pass_open(service, request, asking, open).await, &id).await;
        if !asks {
            return None;
        }
        Some(batch::message_of(answer, &id).await)
    };
    let repeats = batch::repeats(&messages);
    let all: Vec<_> = messages.into_iter().zip(repeats).map(one).collect();
    let answers = futures::stream::iter(all).buffered(TOGETHER);
    let answers: Vec<Value> = answers.filter_map(std::future::ready).collect().await;
    if answers.is_empty() {
        return StatusCode::ACCEPTED.into_response();
    }
    batch::failed(StatusCode::OK, &Value::Array(answers))
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
        // Parameters of another shape: not for whoever may only read.
        return body.windows(b"tools/call".len()).any(|part| part == b"tools/call");
    };
    let name = message.params.and_then(|params| params.name);
    message.method.as_deref() == Some("tools/call") && !name.is_some_and(|name| READING.contains(&name.as_str()))
}

fn unread(error: BodyError) -> Response {
    error.crowded(false).unwrap_or_else(|| problem(error.status(), &error.to_string()))
}

#[cfg(test)]
mod tests {
    use althing_simnet::{LinkConfig, SimNet};
    use althing_simulations::mesh::{self, Node};
    use futures::future::BoxFuture;
    use futures::poll;
    use serde_json::json;

    use super::*;

    /// A node with an agent that takes 90 s for its answer, that agent, and the node's server.
    async fn scene() -> (Node, String, Arc<Service>) {
        let node = Node::start(&SimNet::new(1, LinkConfig::default()), 1, 100, &[], mesh::store()).await;
        let mut program = mesh::file("program", "does as it is told", "acting.do", "do", "play");
        program.runtime = althing_td::RuntimeSpec::Native { builtin: "program".to_owned(), config: json!({}) };
        let agent = node.host(&program).await.to_string();
        let server = service(node.calls.clone(), |_| Principal::Local, |_| Asker::Owner);
        (node, agent, server)
    }

    /// Sends what is in a body, in a session or in none.
    fn post(server: &Arc<Service>, session: Option<&HeaderValue>, body: &Value) -> BoxFuture<'static, Response> {
        let mut request = axum::http::Request::post("/mcp").body(Body::from(body.to_string())).expect("a request");
        request.headers_mut().insert(header::HOST, HeaderValue::from_static("localhost"));
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(session) = session {
            request.headers_mut().insert(SESSION, session.clone());
        }
        Box::pin(serve(State(server.clone()), request))
    }

    async fn json_of(answer: Response) -> Value {
        let body = axum::body::to_bytes(answer.into_body(), REQUEST_BYTES_MAX).await.expect("a body");
        serde_json::from_slice(&body).unwrap_or_else(|_| panic!("{body:?} is JSON"))
    }

    fn request(id: Value, method: &str, params: Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    }

    #[tokio::test]
    async fn an_id_whose_request_is_not_answered_is_refused_alone_and_in_a_batch_and_is_free_after_that() {
        let (_node, agent, server) = scene().await;
        let info = json!({ "name": "c", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": info });
        let begun = post(&server, None, &request(json!(0), "initialize", hello)).await;
        let session = begun.headers().get(SESSION).expect("a session").clone();
        let notice = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(post(&server, Some(&session), &notice).await.status(), StatusCode::ACCEPTED);
        let ping = |id: Value| request(id, "ping", json!({}));
        let arguments = json!({ "agent": agent, "message": "late hello" });
        let call = request(json!(7), "tools/call", json!({ "name": "call_agent", "arguments": arguments }));
        let mut first = post(&server, Some(&session), &call);
        assert!(poll!(&mut first).is_pending(), "its agent takes its time");

        let refused = json_of(post(&server, Some(&session), &ping(json!(7))).await).await;
        assert_eq!(refused, batch::used_twice(&json!(7)));
        let unreadable = request(json!(8), "tools/call", json!({ "name": 7 }));
        let all = json!([ping(json!(7)), unreadable, ping(json!(8)), ping(json!("x")), ping(json!(9))]);
        let answers = json_of(post(&server, Some(&session), &all).await).await;
        assert_eq!(answers[0], batch::used_twice(&json!(7)));
        assert_eq!(answers[1]["error"]["code"], batch::INVALID_PARAMS);
        assert_eq!(answers[2], batch::used_twice(&json!(8)), "of a batch each id is of one request");
        assert!(answers[3]["result"].is_object() && answers[4]["result"].is_object(), "{answers}");

        drop(first);
        for id in [json!(7), json!(9)] {
            let again = json_of(post(&server, Some(&session), &ping(id)).await).await;
            assert!(again["result"].is_object(), "its client hung up, or it was answered: {again}");
        }
    }
}
