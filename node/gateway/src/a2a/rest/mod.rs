//! A2A's HTTP+JSON binding, with server-sent events for streams (A2A 1.0.1 §11). Each agent's base URL is its own path,
//! `/a2a/{agent}`.

mod query;
mod route;
#[cfg(test)]
pub(super) mod tests;

use std::sync::Arc;

use althing_calls::{Callee, Operation, OperationError, OperationRequest, Refusal, Reply};
use althing_edge::{BodyError, Scope, read_body};
use axum::body::Bytes;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::sse::Event;
use axum::response::{IntoResponse, Json, Response};
use futures::StreamExt as _;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::ask::{Events, answered, event_stream};
use super::parameters::{call_request, check_content_type, check_version};
use super::schemas;
use super::status::status;
use crate::client::Client;
use crate::routes::{Answer, Route as Entry, Routes};
use crate::{A2A, BODY_BYTES_MAX, Gateway};
use route::{NoRoute, Route, route};

/// The media type of results.
const MEDIA_TYPE: &str = "application/a2a+json";

/// The operations, below an agent's own path.
pub(crate) fn routes() -> Routes {
    const fn one(about: &'static str, schema: fn() -> Value) -> Answer {
        Answer::ok(about, MEDIA_TYPE).schema(schema)
    }
    const TASK: &[Answer] = &[one("The task", schemas::task)];
    const CONFIG: &[Answer] = &[one("The configuration", schemas::push_config)];
    const EVENTS: &[Answer] = &[Answer::ok("The events", "text/event-stream").schema(schemas::events)];
    const PUSH: &str = "/a2a/{agent}/tasks/{task}/pushNotificationConfigs";
    const ONE_PUSH: &str = "/a2a/{agent}/tasks/{task}/pushNotificationConfigs/{config}";
    const TABLE: &[Entry] = &[
        Entry::post("/a2a/{agent}/message:send", A2A, "Sends a message")
            .request(schemas::send_message_request)
            .answers(const { &[one("A task or a message", schemas::send_message_response)] }),
        Entry::post("/a2a/{agent}/message:stream", A2A, "Sends a message and streams what becomes of it")
            .request(schemas::send_message_request)
            .answers(EVENTS),
        Entry::get("/a2a/{agent}/tasks", A2A, "Lists tasks")
            .needs(Scope::Call)
            .query(query::LIST_TASKS)
            .answers(const { &[one("A page of tasks", schemas::task_list)] }),
        Entry::get("/a2a/{agent}/tasks/{task}", A2A, "Shows a task")
            .needs(Scope::Call)
            .query(query::GET_TASK)
            .answers(TASK),
        Entry::post("/a2a/{agent}/tasks/{task}:cancel", A2A, "Cancels a task")
            .request(schemas::cancellation)
            .answers(TASK),
        Entry::post("/a2a/{agent}/tasks/{task}:subscribe", A2A, "Follows a task").answers(EVENTS),
        Entry::get("/a2a/{agent}/tasks/{task}:subscribe", A2A, "Follows a task, too")
            .needs(Scope::Call)
            .answers(EVENTS),
        Entry::post(PUSH, A2A, "Has the events of a task sent to a URL").request(schemas::push_config).answers(CONFIG),
        Entry::get(PUSH, A2A, "Lists who is told about a task")
            .needs(Scope::Call)
            .query(query::LIST_PUSH_CONFIGS)
            .answers(const { &[one("A page of configurations", schemas::push_config_list)] }),
        Entry::get(ONE_PUSH, A2A, "Shows who is told about a task").needs(Scope::Call).answers(CONFIG),
        Entry::get("/a2a/{agent}/extendedAgentCard", A2A, "Shows the card for those who may call the agent")
            .needs(Scope::Call)
            .answers(const { &[one("An agent card", schemas::agent_card)] }),
        Entry::delete(ONE_PUSH, A2A, "Tells somebody about a task no more")
            .answers(const { &[Answer::ok("An empty object", MEDIA_TYPE)] }),
    ];
    Routes::default().any("/a2a/{agent}/{*path}", TABLE, call)
}

/// Any method at `/a2a/{agent}/…`.
async fn call(
    State(gateway): State<Arc<Gateway>>,
    method: Method,
    uri: Uri,
    Query(pairs): Query<Vec<(String, String)>>,
    client: Client,
    headers: HeaderMap,
    request: Request,
) -> Response {
    let (agent, route) = match route(&method, uri.path()) {
        Ok(found) => found,
        Err(NoRoute::Path) => return crate::missing(uri).await,
        Err(NoRoute::Method(allowed)) => return method_not_allowed(&method, allowed),
        Err(NoRoute::Refused(error)) => {
            return failed(&check_version(&headers, query::version(&pairs)).err().unwrap_or(error));
        }
    };
    let asked = match read(&headers, &pairs, route, request).await {
        Ok(asked) => asked,
        Err(Unread::Operation(error)) => return failed(&error),
        Err(Unread::Body(error)) => {
            let told = || failed(&OperationError::invalid_request(error.to_string()));
            return error.crowded(false).unwrap_or_else(told);
        }
    };
    let asked = async {
        let target = client.target(&gateway.calls, &Callee::near(agent)).await?;
        answered(&gateway, &headers, call_request(target, asked, &headers, client.principal)).await
    };
    match asked.await {
        Ok(Reply::One(result)) => ([(header::CONTENT_TYPE, MEDIA_TYPE)], result).into_response(),
        Ok(Reply::Events(events)) => stream(events),
        Err(error) => failed(&error),
    }
}

/// Why a request is not read.
enum Unread {
    /// It breaks a rule of A2A.
    Operation(OperationError),
    /// Its body is not there.
    Body(BodyError),
}

impl From<OperationError> for Unread {
    fn from(error: OperationError) -> Unread {
        Unread::Operation(error)
    }
}

/// The operation with its parameters: those of the path, the query and the body.
async fn read(
    headers: &HeaderMap,
    pairs: &[(String, String)],
    route: Route,
    request: Request,
) -> Result<OperationRequest, Unread> {
    check_version(headers, query::version(pairs))?;
    let read = match route {
        Route::Operation(operation @ (Operation::SendMessage | Operation::SendStreamingMessage)) => {
            query::read(operation, pairs)?;
            check_content_type(headers)?;
            let body = body(request).await?;
            check_json(&body)?;
            OperationRequest::parse(operation, body.to_vec())
        }
        Route::Operation(operation) => parse(operation, query::read(operation, pairs)?),
        Route::OnTask(operation, task) => {
            let mut params = query::read(operation, pairs)?;
            if request.method() == Method::POST {
                params = optional(headers, body(request).await?)?;
            }
            named_by_path(&mut params, "id", task)?;
            parse(operation, params)
        }
        Route::OnPush(operation, task, config) => {
            let mut params = query::read(operation, pairs)?;
            if request.method() == Method::POST {
                params = optional(headers, body(request).await?)?;
            }
            named_by_path(&mut params, "taskId", task)?;
            if let Some(config) = config {
                params.insert("id".to_owned(), Value::String(config));
            }
            parse(operation, params)
        }
    };
    Ok(read?)
}

/// Sets a member to what the path names; the body may repeat it.
fn named_by_path(params: &mut Map<String, Value>, member: &str, id: String) -> Result<(), OperationError> {
    if params.get(member).is_some_and(|said| !said.is_null() && *said != "" && *said != id.as_str()) {
        return Err(OperationError::invalid_params(format!("`{member}` in the body is not the task in the path")));
    }
    params.insert(member.to_owned(), Value::String(id));
    Ok(())
}

fn parse(operation: Operation, params: Map<String, Value>) -> Result<OperationRequest, OperationError> {
    OperationRequest::parse(operation, Value::Object(params).to_string().into_bytes())
}

async fn body(request: Request) -> Result<Bytes, Unread> {
    read_body(request, BODY_BYTES_MAX).await.map_err(Unread::Body)
}

/// The parameters in a body that may be left out.
fn optional(headers: &HeaderMap, body: Bytes) -> Result<Map<String, Value>, OperationError> {
    if body.is_empty() {
        return Ok(Map::new());
    }
    check_content_type(headers)?;
    check_json(&body)?;
    let object: Result<Map<String, Value>, _> = serde_json::from_slice(&body);
    object.map_err(|error| OperationError::invalid_request(format!("the body is no JSON object: {error}")))
}

fn check_json(body: &[u8]) -> Result<(), OperationError> {
    let refused = |error| OperationError::invalid_request(format!("the body is not JSON: {error}"));
    serde_json::from_slice::<&RawValue>(body).map(drop).map_err(refused)
}

fn stream(events: Events) -> Response {
    event_stream(events.map(|event| match event {
        Ok(result) => Event::default().data(String::from_utf8_lossy(&result)),
        Err(error) => Event::default().event("error").data(refusal(&error, status(&error.refusal)).to_string()),
    }))
}

fn failed(error: &OperationError) -> Response {
    let status = status(&error.refusal);
    let mut answer = (status, Json(refusal(error, status))).into_response();
    // What may be well in a moment (RFC 9110 §10.2.3).
    if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
        answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    answer
}

fn method_not_allowed(method: &Method, allowed: &'static str) -> Response {
    let message = format!("{method} is not for this path; it takes {allowed}");
    let error = OperationError { refusal: Refusal::MethodNotFound, message, details: Vec::new(), remedy: None };
    let status = StatusCode::METHOD_NOT_ALLOWED;
    (status, [(header::ALLOW, allowed)], Json(refusal(&error, status))).into_response()
}

/// Answers a method that the paths of JSON-RPC and of cards do not serve.
pub(crate) async fn wrong_method(method: Method, uri: Uri) -> Response {
    let hint = match uri.path().split('/').collect::<Vec<_>>().as_slice() {
        ["", "a2a", agent] | ["", "a2a", agent, ""] => {
            format!(
                "POST a request of JSON-RPC 2.0 to it; the agent's card is at /a2a/{agent}/.well-known/agent-card.json"
            )
        }
        _ => "the header Allow says what is".to_owned(),
    };
    let message = format!("{method} is not served here: {hint}");
    let error = OperationError { refusal: Refusal::MethodNotFound, message, details: Vec::new(), remedy: None };
    let status = StatusCode::METHOD_NOT_ALLOWED;
    (status, Json(refusal(&error, status))).into_response()
}

/// An error as google.rpc.Status (A2A 1.0.1 §11.6).
fn refusal(error: &OperationError, status: StatusCode) -> Value {
    json!({
        "error": {
            "code": status.as_u16(),
            "status": error.refusal.rpc_code().name(),
            "message": error.message,
            "details": error.all_details(),
        }
    })
}
