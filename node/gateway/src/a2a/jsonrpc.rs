//! A2A over JSON-RPC 2.0, with server-sent events for streams.

use std::sync::Arc;

use althing_calls::{Callee, Operation, OperationError, OperationRequest, Reply};
use althing_edge::read_body;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, header};
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::ask::{Events, answered, event_stream};
use super::parameters::{Parameters, call_request, check_content_type, check_version};
use crate::client::Client;
use crate::{BODY_BYTES_MAX, Gateway};

#[derive(Deserialize)]
struct Envelope<'a> {
    jsonrpc: Option<String>,
    #[serde(default)]
    id: Value,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// `POST /a2a/{agent}`.
pub(crate) async fn call(
    State(gateway): State<Arc<Gateway>>,
    Path(agent): Path<String>,
    Query(parameters): Query<Parameters>,
    client: Client,
    headers: HeaderMap,
    request: Request,
) -> Response {
    if let Err(error) = check_content_type(&headers) {
        return failed(&Value::Null, &error);
    }
    let body = match read_body(request, BODY_BYTES_MAX).await {
        Ok(body) => body,
        Err(error) => {
            let told = || failed(&Value::Null, &OperationError::invalid_request(error.to_string()));
            return error.crowded(false).unwrap_or_else(told);
        }
    };
    let (id, read) = read(&body);
    // It takes room for bodies, and an answer may take long.
    drop(body);
    let asked = async {
        check_version(&headers, parameters.version.as_deref())?;
        let (operation, params) = read?;
        let request = OperationRequest::parse(operation, params)?;
        let target = client.target(&gateway.calls, &Callee::near(agent)).await?;
        answered(&gateway, &headers, call_request(target, request, &headers, client.principal)).await
    };
    match asked.await {
        Ok(Reply::One(result)) => answer(&id, &result),
        Ok(Reply::Events(events)) => stream(id, events),
        Err(error) => failed(&id, &error),
    }
}

fn stream(id: Value, events: Events) -> Response {
    event_stream(events.map(move |event| {
        let data = match event {
            Ok(result) => wrap(&id, &result),
            Err(error) => refusal(&id, &error),
        };
        Event::default().data(data)
    }))
}

/// The id of a request, its operation, and its parameters byte for byte.
fn read(body: &[u8]) -> (Value, Result<(Operation, Vec<u8>), OperationError>) {
    let envelope = match envelope(body) {
        Ok(envelope) => envelope,
        Err(error) => return (id_of(body), Err(error)),
    };
    let asked = if envelope.jsonrpc.as_deref() != Some("2.0") {
        Err(OperationError::invalid_request("`jsonrpc` is not \"2.0\""))
    } else if let Some(method) = &envelope.method {
        let params = envelope.params.map_or("{}", RawValue::get);
        operation(method).map(|operation| (operation, params.as_bytes().to_vec()))
    } else {
        Err(OperationError::invalid_request("`method` is missing"))
    };
    (envelope.id, asked)
}

/// The operation of that name; one that A2A had until 0.3 is answered with its name now.
fn operation(method: &str) -> Result<Operation, OperationError> {
    let named = match method {
        "message/send" => Operation::SendMessage,
        "message/stream" => Operation::SendStreamingMessage,
        "tasks/get" => Operation::GetTask,
        "tasks/cancel" => Operation::CancelTask,
        other => return Operation::parse(other),
    };
    let unknown = OperationError::method_not_found(method);
    let message = format!("{}; the name of it in A2A 1.0 is {}", unknown.message, named.name());
    Err(OperationError { message, ..unknown })
}

fn envelope(body: &[u8]) -> Result<Envelope<'_>, OperationError> {
    let text = std::str::from_utf8(body).map_err(|_| OperationError::parse("the body is not UTF-8"))?;
    let whole: Result<&RawValue, _> = serde_json::from_str(text);
    let raw = whole.map_err(|error| OperationError::parse(format!("the body is not JSON: {error}")))?;
    let envelope: Envelope<'_> = serde_json::from_str(raw.get())
        .map_err(|error| OperationError::invalid_request(format!("no JSON-RPC request: {error}")))?;
    if is_id(&envelope.id) {
        Ok(envelope)
    } else {
        Err(OperationError::invalid_request("`id` is a string or a whole number"))
    }
}

fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_null() || id.is_i64() || id.is_u64()
}

/// The id of an invalid request, if it can be read.
fn id_of(body: &[u8]) -> Value {
    #[derive(Deserialize)]
    struct Named {
        #[serde(default)]
        id: Value,
    }
    let named: Result<Named, _> = serde_json::from_slice(body);
    named.map(|named| named.id).ok().filter(is_id).unwrap_or_default()
}

/// Wraps a JSON result in a JSON-RPC response.
fn wrap(id: &Value, result: &[u8]) -> String {
    let mut text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#);
    text.push_str(&String::from_utf8_lossy(result));
    text.push('}');
    text
}

fn refusal(id: &Value, error: &OperationError) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "error": error.to_json() }).to_string()
}

fn answer(id: &Value, result: &[u8]) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], wrap(id, result)).into_response()
}

/// JSON-RPC's errors travel in a successful HTTP answer.
fn failed(id: &Value, error: &OperationError) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], refusal(id, error)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_id_of_what_is_no_request() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":7,"method":8}"#, json!(7)),
            (r#"{"jsonrpc":2,"id":"x","method":"GetTask"}"#, json!("x")),
            (r#"{"jsonrpc":"2.0","id":7}"#, json!(7)),
            (r#"{"jsonrpc":"1.0","id":"y","method":"GetTask"}"#, json!("y")),
            (r#"{"jsonrpc":"2.0","id":{"no":1},"method":"GetTask"}"#, Value::Null),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"GetTask"}"#, Value::Null),
            (r#"[{"jsonrpc":"2.0","id":7,"method":"GetTask"}]"#, Value::Null),
            (r#"{"id":7,"#, Value::Null),
        ];
        for (body, id) in cases {
            let (read, asked) = read(body.as_bytes());
            assert!(asked.is_err(), "{body}");
            assert_eq!(read, id, "{body}");
        }
    }

    #[test]
    fn a_name_of_an_earlier_version_is_answered_with_that_of_this_one() {
        let (_, asked) = read(br#"{"jsonrpc":"2.0","id":7,"method":"message/send","params":{}}"#);
        let error = asked.expect_err("there is none");
        assert!(error.code() == -32_601 && error.message.ends_with("in A2A 1.0 is SendMessage"), "{error:?}");
    }

    #[tokio::test]
    async fn an_error_in_a_stream_is_told_as_an_event_of_its_own() {
        let events = [Ok(br#"{"first":1}"#.to_vec()), Err(OperationError::internal("it broke off"))];
        let answer = stream(json!(7), futures::stream::iter(events).boxed());
        let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.expect("it ends");
        let body = String::from_utf8(body.to_vec()).expect("text");
        let told: Vec<Value> = body
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str(data).expect("JSON"))
            .collect();
        assert_eq!(told.len(), 2, "{body}");
        assert_eq!(told[0], json!({ "jsonrpc": "2.0", "id": 7, "result": { "first": 1 } }));
        assert_eq!((&told[1]["id"], &told[1]["error"]["code"]), (&json!(7), &json!(-32_603)), "{body}");
    }
}
