//! What a client sends and is sent in one piece: batches of JSON-RPC, which MCP had until 2025-03-26, and answers as JSON for
//! clients that read no events.

use std::collections::BTreeSet;

use althing_edge::problem;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use futures::StreamExt as _;
use rmcp::model::ProtocolVersion;
use serde_json::{Value, json};

/// Messages of one batch.
pub(crate) const MESSAGES_MAX: usize = 64;
/// Bytes of an answer that is gathered from events: as many as an answer of an agent may have, and its envelope.
const ANSWER_BYTES_MAX: usize = 8 << 20;
const JSON: &str = "application/json";
pub(crate) const EVENTS: &str = "text/event-stream";
const VERSION: &str = "mcp-protocol-version";
/// From this version on there are none.
const WITHOUT_SESSIONS: &str = "2026";

/// Codes of JSON-RPC.
pub(crate) const UNREADABLE: i32 = -32_700;
pub(crate) const INVALID: i32 = -32_600;
pub(crate) const INVALID_PARAMS: i32 = -32_602;
/// Characters of an id in a refusal's words.
const ID_CHARS_MAX: usize = 64;

/// What a client sent.
pub(crate) enum Incoming {
    /// One message: its id, null if it has none, and its method.
    One(Value, String),
    /// Several.
    Batch(Vec<Value>),
}

/// Whether a request is of a version that has sessions, as far as its headers say: of one that begins a session they say nothing.
pub(crate) fn is_of_sessions(headers: &HeaderMap) -> bool {
    let version = headers.get(VERSION).and_then(|version| version.to_str().ok());
    version.is_none_or(|version| version < WITHOUT_SESSIONS)
}

/// Tells a message from a batch.
///
/// # Errors
/// The refusal of what is neither.
pub(crate) fn read(body: &[u8], headers: &HeaderMap) -> Result<Incoming, Value> {
    let unread = |error: serde_json::Error| {
        let why = format!("this is no JSON (line {}, column {})", error.line(), error.column());
        refusal(&Value::Null, UNREADABLE, &why)
    };
    let invalid = |id: &Value, why: &str| refusal(id, INVALID, why);
    match serde_json::from_slice::<Value>(body).map_err(unread)? {
        Value::Array(_) if has_no_batches(headers) => {
            Err(invalid(&Value::Null, "this version of MCP has no batches; send each message alone"))
        }
        Value::Array(messages) if messages.is_empty() || messages.len() > MESSAGES_MAX => {
            Err(invalid(&Value::Null, &format!("a batch has 1 to {MESSAGES_MAX} messages")))
        }
        Value::Array(messages) => Ok(Incoming::Batch(messages)),
        message @ Value::Object(_) => match wrong(&message) {
            Some(why) => Err(invalid(&id_of(&message), why)),
            None => Ok(Incoming::One(id_of(&message), message["method"].as_str().unwrap_or_default().to_owned())),
        },
        _ => Err(invalid(&Value::Null, "a message is an object")),
    }
}

/// Batches went with the version that clients name in a header.
fn has_no_batches(headers: &HeaderMap) -> bool {
    let named = headers.get(VERSION).and_then(|version| version.to_str().ok());
    named.is_some_and(|version| version > ProtocolVersion::V_2025_03_26.as_str())
}

/// What is wrong with a message whatever its method is.
pub(crate) fn wrong(message: &Value) -> Option<&'static str> {
    if !message.is_object() {
        return Some("a message is an object");
    }
    if message["jsonrpc"] != "2.0" {
        return Some("`jsonrpc` is \"2.0\"");
    }
    let is_answer = message.get("result").is_some() || message.get("error").is_some();
    let is_id = |id: &Value| id.is_string() || id.is_i64() || id.is_u64() || id.is_null() && is_answer;
    if !message.get("id").is_none_or(is_id) {
        return Some("`id` is a string or a whole number");
    }
    match message.get("method") {
        Some(method) if !method.is_string() => Some("`method` is a text"),
        None if !is_answer => Some("`method` is missing"),
        _ if !message.get("params").is_none_or(|params| params.is_object() || params.is_null()) => {
            Some("`params` is an object")
        }
        _ => None,
    }
}

/// The id of a message, if it has one that can be answered.
pub(crate) fn id_of(message: &Value) -> Value {
    let id = message.get("id").filter(|id| id.is_string() || id.is_i64() || id.is_u64());
    id.cloned().unwrap_or_default()
}

/// Whether its sender waits for an answer.
pub(crate) fn asks(message: &Value) -> bool {
    message.get("id").is_some() && message.get("method").is_some()
}

/// For each message of a batch whether it asks with an id with which another one before it asks: only one would be answered. What is
/// no message is refused, and uses no id.
pub(crate) fn repeats(messages: &[Value]) -> Vec<bool> {
    let mut seen = BTreeSet::new();
    let is_request = |message: &Value| wrong(message).is_none() && asks(message);
    messages.iter().map(|message| is_request(message) && !seen.insert(id_of(message).to_string())).collect()
}

/// The refusal of a request whose id another one has that is not answered yet.
pub(crate) fn used_twice(id: &Value) -> Value {
    let shown: String = id.to_string().chars().take(ID_CHARS_MAX).collect();
    refusal(id, INVALID, &format!("the id {shown} is used twice: a request has one that no other of its session has"))
}

/// A refusal of JSON-RPC.
pub(crate) fn refusal(id: &Value, code: i32, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// An answer of JSON.
pub(crate) fn failed(status: StatusCode, value: &Value) -> Response {
    let mut answer = Response::new(Body::from(value.to_string()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    answer
}

/// How a client wants to be answered, by its Accept; without one anything is fine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerFormat {
    /// As events, or as JSON: whatever fits.
    Either,
    /// As JSON alone, or it does not say.
    Json,
    /// As neither.
    Neither,
}

/// Reads how a client wants to be answered. Whoever means events names them.
pub(crate) fn wants(headers: &HeaderMap) -> AnswerFormat {
    let (mut json, mut events, mut named) = (false, false, false);
    for line in headers.get_all(header::ACCEPT) {
        for range in line.to_str().unwrap_or_default().split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let is_refused =
                parts.any(|part| matches!(part.replace(' ', "").as_str(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
            named |= !kind.is_empty();
            if !is_refused {
                json |= matches!(kind.as_str(), JSON | "application/*" | "*/*");
                events |= matches!(kind.as_str(), EVENTS | "text/*");
            }
        }
    }
    match (json || !named, events) {
        (true, true) => AnswerFormat::Either,
        (true, false) => AnswerFormat::Json,
        // An answer may be JSON always.
        (false, _) => AnswerFormat::Neither,
    }
}

/// Whether a client that asks for a stream may be given events.
pub(crate) fn takes_events(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::ACCEPT);
    let mut ranges = lines.iter().flat_map(|line| line.to_str().unwrap_or_default().split(','));
    let takes = |range: &str| {
        let kind = range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        matches!(kind.as_str(), EVENTS | "text/*" | "*/*")
    };
    lines.iter().next().is_none() || ranges.any(takes)
}

/// The headers as the SDK wants them, which takes nothing less.
pub(crate) fn accepting(headers: &mut HeaderMap) {
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
}

/// An answer as JSON: where it is events, the one among them that answers a request. What else the server tells meanwhile has
/// nobody who reads it.
pub(crate) async fn as_json(answer: Response, id: &Value) -> Response {
    if !is_events(answer.headers()) {
        return answer;
    }
    let (mut parts, body) = answer.into_parts();
    let mut events = Events::default();
    let mut pieces = body.into_data_stream();
    while let Some(Ok(piece)) = pieces.next().await {
        if let Some(found) = events.take(&piece, id) {
            parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
            parts.headers.remove(header::TRANSFER_ENCODING);
            parts.headers.remove("x-accel-buffering");
            return Response::from_parts(parts, Body::from(found.to_string()));
        }
        if events.bytes > ANSWER_BYTES_MAX {
            let message = format!("the answer has more than {ANSWER_BYTES_MAX} bytes; accept text/event-stream");
            return problem(StatusCode::INTERNAL_SERVER_ERROR, &message);
        }
    }
    problem(StatusCode::INTERNAL_SERVER_ERROR, "the answer broke off")
}

/// The message of JSON-RPC that an answer is; where it is none, one that says so.
pub(crate) async fn message_of(answer: Response, id: &Value) -> Value {
    let status = answer.status();
    let body = axum::body::to_bytes(answer.into_body(), ANSWER_BYTES_MAX).await.unwrap_or_default();
    let message: Option<Value> = serde_json::from_slice(&body).ok();
    let is_message = |value: &Value| value.get("jsonrpc").is_some();
    message.filter(is_message).unwrap_or_else(|| refusal(id, INVALID, &format!("it is refused with {status}")))
}

pub(crate) fn is_events(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.starts_with(EVENTS)
}

/// Server-sent events, as they come.
#[derive(Default)]
struct Events {
    line: Vec<u8>,
    data: String,
    bytes: usize,
}

impl Events {
    /// Takes a piece; gives the answer to a request, if it is whole.
    fn take(&mut self, piece: &Bytes, id: &Value) -> Option<Value> {
        self.bytes += piece.len();
        for byte in piece {
            if *byte != b'\n' {
                self.line.push(*byte);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let line = String::from_utf8_lossy(&line);
            let line = line.strip_suffix('\r').unwrap_or(&line);
            if let Some(data) = line.strip_prefix("data:") {
                self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
                self.data.push('\n');
            } else if line.is_empty() {
                let data = std::mem::take(&mut self.data);
                let message: Option<Value> = serde_json::from_str(&data).ok();
                let answers = |message: &Value| message.get("method").is_none() && message["id"] == *id;
                if let Some(message) = message.filter(answers) {
                    return Some(message);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn whoever_takes_json_or_anything_is_answered_with_json() {
        for (accept, wanted) in [
            ("application/json, text/event-stream", AnswerFormat::Either),
            ("text/event-stream, */*;q=0.1", AnswerFormat::Either),
            ("text/event-stream;q=0, */*", AnswerFormat::Json),
            ("*/*", AnswerFormat::Json),
            ("application/json", AnswerFormat::Json),
            ("Application/JSON; charset=utf-8", AnswerFormat::Json),
            ("application/*", AnswerFormat::Json),
            ("", AnswerFormat::Json),
            ("text/event-stream", AnswerFormat::Neither),
            ("text/html", AnswerFormat::Neither),
            ("application/json;q=0", AnswerFormat::Neither),
        ] {
            assert_eq!(wants(&headers(&[("accept", accept)])), wanted, "{accept}");
        }
        assert_eq!(wants(&HeaderMap::new()), AnswerFormat::Json);
        assert!(takes_events(&HeaderMap::new()) && takes_events(&headers(&[("accept", "*/*")])));
        assert!(!takes_events(&headers(&[("accept", "application/json")])));
    }

    #[test]
    fn a_batch_is_of_a_version_that_has_them() {
        let batch = br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#;
        for (version, is_taken) in
            [("2025-03-26", true), ("2024-11-05", true), ("2025-06-18", false), ("2026-07-28", false)]
        {
            let read = read(batch, &headers(&[(VERSION, version)]));
            assert_eq!(matches!(read, Ok(Incoming::Batch(_))), is_taken, "{version}");
        }
        assert!(matches!(read(batch, &HeaderMap::new()), Ok(Incoming::Batch(messages)) if messages.len() == 1));
        assert!(read(b"[]", &HeaderMap::new()).is_err());
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_id() {
        let message = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        assert!(
            matches!(read(message, &HeaderMap::new()), Ok(Incoming::One(id, method)) if id == 1 && method == "ping")
        );
        for (message, id) in [
            (json!({ "jsonrpc": "2.0", "id": 7, "method": 8 }), json!(7)),
            (json!({ "jsonrpc": "1.0", "id": "x", "method": "ping" }), json!("x")),
            (json!({ "jsonrpc": "2.0", "id": 7 }), json!(7)),
            (json!({ "jsonrpc": "2.0", "id": 7, "method": "ping", "params": [1] }), json!(7)),
            (json!({ "jsonrpc": "2.0", "id": {}, "method": "ping" }), Value::Null),
            (json!(7), Value::Null),
        ] {
            assert!(wrong(&message).is_some(), "{message}");
            assert_eq!(id_of(&message), id, "{message}");
            assert!(read(message.to_string().as_bytes(), &HeaderMap::new()).is_err(), "{message}");
        }
        assert!(read(b"{", &HeaderMap::new()).is_err());
    }

    #[test]
    fn an_id_that_is_used_twice_is_refused_the_second_time() {
        let batch = [
            json!({ "id": 1, "method": "ping", "params": [1] }),
            json!({ "id": 1, "method": "ping" }),
            json!({ "id": "1", "method": "ping" }),
            json!({ "method": "notifications/initialized" }),
            json!({ "method": "notifications/initialized" }),
            json!({ "id": 1, "result": {} }),
            json!({ "id": 1, "method": "tools/list" }),
        ]
        .map(|mut message| {
            message["jsonrpc"] = json!("2.0");
            message
        });
        assert_eq!(repeats(&batch), [false, false, false, false, false, false, true]);
        let refused = used_twice(&json!(1));
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(1), &json!(INVALID)));
        assert!(refused["error"]["message"].as_str().is_some_and(|why| why.starts_with("the id 1 is used twice")));
        let long = used_twice(&json!("x".repeat(9_000)));
        assert!(long["error"]["message"].as_str().is_some_and(|why| why.len() < 200), "an id is not shown without end");
    }

    #[tokio::test]
    async fn of_events_the_one_that_answers_is_given_as_json() {
        let text = "data: \nid: 0\nretry: 3\n\n: beat\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n\
                    data: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\r\n\r\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{\"a\":1}}\n\n";
        let pieces: Vec<Result<Bytes, std::convert::Infallible>> =
            text.as_bytes().chunks(7).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let mut answer = Response::new(Body::from_stream(futures::stream::iter(pieces)));
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENTS));
        answer.headers_mut().insert("mcp-session-id", HeaderValue::from_static("s"));
        let answer = as_json(answer, &json!(1)).await;
        assert_eq!(answer.headers()["content-type"], "application/json");
        assert_eq!(answer.headers()["mcp-session-id"], "s", "what else it says stays");
        assert_eq!(message_of(answer, &json!(1)).await["result"], json!({ "a": 1 }));
    }
}
