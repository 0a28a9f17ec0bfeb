//! A2A over JSON-RPC 2.0, with server-sent events for streams.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use althing_calls::{Among, CallRequest, Callee, Calls, Operation, OperationError, OperationRequest, Reply, Trace};
use althing_edge::{is_json, read_body};
use althing_protocol::limits::{EXTENSIONS_MAX, PRINCIPAL_BYTES_MAX};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::{BODY_BYTES_MAX, Gateway};

/// The version of A2A that is served.
const VERSION: &str = "1.0";
/// A comment is sent on a silent stream this often, so that proxies keep it open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long the first event, or a refusal, is awaited before the stream begins without it.
const FIRST_EVENT_AWAITED: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
pub(crate) struct Parameters {
    #[serde(rename = "A2A-Version", alias = "a2a-version")]
    version: Option<String>,
}

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
    headers: HeaderMap,
    request: Request,
) -> Response {
    if let Err(error) = content_type(&headers) {
        return failed(&Value::Null, &error);
    }
    let body = match read_body(request, BODY_BYTES_MAX).await {
        Ok(body) => body,
        Err(error) => return failed(&Value::Null, &OperationError::invalid_request(error.to_string())),
    };
    let (id, read) = read(&body);
    let asked = || {
        version(&headers, &parameters)?;
        let (operation, params) = read?;
        let callee = Callee::Named(agent, Among::Near);
        let request = OperationRequest::parse(operation, params)?;
        let request = CallRequest::new(callee, request, vec![gateway.principal()]);
        Ok(request.in_trace(trace(&headers)).with_extensions(extensions(&headers)?))
    };
    match asked() {
        Ok(request) => answered(gateway.calls.clone(), request, id).await,
        Err(error) => failed(&id, &error),
    }
}

/// The answer of an agent. If the first event takes long, the stream begins without it, so that clients and proxies see
/// that the connection is alive.
async fn answered(calls: Calls, request: CallRequest, id: Value) -> Response {
    let streams = request.operation().streams();
    let mut asking = async move { calls.ask(request).await }.boxed();
    let replied = if streams {
        match tokio::time::timeout(FIRST_EVENT_AWAITED, &mut asking).await {
            Ok(replied) => replied,
            Err(_) => return stream(id, futures::stream::once(asking).flat_map(events).boxed()),
        }
    } else {
        asking.await
    };
    match replied {
        Ok(Reply::One(result)) => answer(&id, &result),
        Ok(Reply::Events(events)) => stream(id, events),
        Err(error) => failed(&id, &error),
    }
}

type Events = BoxStream<'static, Result<Vec<u8>, OperationError>>;

fn events(reply: Result<Reply, OperationError>) -> Events {
    match reply {
        Ok(Reply::Events(events)) => events,
        Ok(Reply::One(result)) => futures::stream::iter([Ok(result)]).boxed(),
        Err(error) => futures::stream::iter([Err(error)]).boxed(),
    }
}

fn stream(id: Value, events: Events) -> Response {
    let events = events.map(move |event| {
        let data = match event {
            Ok(result) => wrap(&id, &result),
            Err(error) => refusal(&id, &error),
        };
        Ok::<Event, Infallible>(Event::default().data(data))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

/// Checked before the body is parsed (A2A 1.0.1: ContentTypeNotSupported).
fn content_type(headers: &HeaderMap) -> Result<(), OperationError> {
    let refused = || OperationError::content_type("requests are application/json or application/a2a+json");
    is_json(headers, &["application/a2a+json"]).then_some(()).ok_or_else(refused)
}

fn version(headers: &HeaderMap, parameters: &Parameters) -> Result<(), OperationError> {
    let header = headers.get("A2A-Version").and_then(|version| version.to_str().ok());
    let asked = header.or(parameters.version.as_deref()).unwrap_or_default().trim();
    if is_served(asked) { Ok(()) } else { Err(OperationError::version_not_supported(asked)) }
}

/// Patch numbers are ignored (A2A §3.6).
fn is_served(asked: &str) -> bool {
    match asked.strip_prefix(VERSION) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('.').is_some_and(|patch| {
            !patch.is_empty() && patch.len() <= 9 && patch.bytes().all(|byte| byte.is_ascii_digit())
        }),
        None => false,
    }
}

/// The `A2A-Extensions` header: comma-separated URIs, in one line or several.
fn extensions(headers: &HeaderMap) -> Result<Vec<String>, OperationError> {
    let mut all = Vec::new();
    for line in headers.get_all("A2A-Extensions") {
        let line = line.to_str().map_err(|_| OperationError::invalid_request("`A2A-Extensions` is not text"))?;
        all.extend(line.split(',').map(str::trim).filter(|uri| !uri.is_empty()).map(str::to_owned));
    }
    if all.len() > EXTENSIONS_MAX || all.iter().any(|uri| uri.len() > PRINCIPAL_BYTES_MAX) {
        let message = format!("`A2A-Extensions` names at most {EXTENSIONS_MAX} of {PRINCIPAL_BYTES_MAX} bytes each");
        return Err(OperationError::invalid_request(message));
    }
    Ok(all)
}

/// The trace that a request belongs to.
pub(crate) fn trace(headers: &HeaderMap) -> Trace {
    let header =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).filter(|value| value.len() <= 512);
    Trace { traceparent: header("traceparent").map(str::to_owned), tracestate: header("tracestate").map(str::to_owned) }
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
        Operation::parse(method).map(|operation| (operation, params.as_bytes().to_vec()))
    } else {
        Err(OperationError::invalid_request("`method` is missing"))
    };
    (envelope.id, asked)
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
    use althing_simnet::{LinkConfig, SimNet};
    use althing_simulations::mesh::{self, Node};

    use super::*;

    #[test]
    fn patch_numbers_of_the_version_are_not_considered() {
        for version in ["1.0", "1.0.0", "1.0.1", "1.0.27"] {
            assert!(is_served(version), "{version}");
        }
        for version in
            ["", "1", "1.", "1.1", "1.0.", "1.00", "1.0.x", "1.0.1.2", "1.0-1", "0.3", "v1.0", "1.0.1234567890"]
        {
            assert!(!is_served(version), "{version}");
        }
    }

    #[test]
    fn extensions_are_read_from_all_lines_and_bounded() {
        let read = |lines: &[String]| {
            let line = |line: &String| ("A2A-Extensions".parse().expect("a name"), line.parse().expect("a header"));
            extensions(&HeaderMap::from_iter(lines.iter().map(line)))
        };
        let some = ["https://a.example/1, https://a.example/2".to_owned(), ",https://a.example/3,".to_owned()];
        assert_eq!(read(&some).map(|all| all.len()), Ok(3));
        let (most, long) = (vec!["x".to_owned(); EXTENSIONS_MAX], "x".repeat(PRINCIPAL_BYTES_MAX));
        assert_eq!(read(&[most.join(","), String::new()]).map(|all| all.len()), Ok(EXTENSIONS_MAX));
        assert!(read(&[most.join(","), "y".to_owned()]).is_err());
        assert!(read(std::slice::from_ref(&long)).is_ok());
        assert!(read(&[long + "x"]).is_err());
    }

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

    /// A node with an agent that takes 90 s until its answer begins.
    async fn slow() -> (Node, CallRequest) {
        let node = Node::start(&SimNet::new(1, LinkConfig::default()), 1, 100, &[], mesh::store()).await;
        let mut program = mesh::file("program", "does as it is told", "acting.do", "do", "play");
        program.runtime = althing_td::RuntimeSpec::Native { builtin: "program".to_owned(), config: json!({}) };
        let id = node.host(&program).await;
        let ask = mesh::ask(&id, Operation::SendStreamingMessage, &mesh::message("late hello"));
        (node, ask.expect("good parameters"))
    }

    /// Nobody works on anything any more, long before the answer would have begun.
    async fn given_up(node: &Node) {
        let over = async {
            while node.hosting.live_tasks() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), over).await.expect("it is given up");
    }

    #[tokio::test(start_paused = true)]
    async fn who_hangs_up_before_the_first_event_gives_the_answer_up() {
        // Before the stream begins.
        let (node, ask) = slow().await;
        let asking = answered(node.calls.clone(), ask, json!(1));
        assert!(tokio::time::timeout(FIRST_EVENT_AWAITED / 2, asking).await.is_err(), "it takes its time");
        given_up(&node).await;
        // And after that.
        let (node, ask) = slow().await;
        let answer = answered(node.calls.clone(), ask, json!(1)).await;
        assert_eq!(answer.headers()[header::CONTENT_TYPE], "text/event-stream");
        assert_eq!(node.hosting.live_tasks(), 1, "it is worked on");
        drop(answer);
        given_up(&node).await;
    }
}
