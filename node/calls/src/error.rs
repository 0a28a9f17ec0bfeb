//! A2A's error table (specification 1.0.1 §5.4), and this project's own refusals, each with its `ErrorInfo`.

use std::sync::atomic::{AtomicU64, Ordering};

use a2a::error_code;
use serde_json::{Value, json};

/// Why an operation failed, as it is told to whoever asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OperationError {
    /// JSON-RPC code.
    pub code: i32,
    /// `ErrorInfo.reason`.
    pub reason: String,
    /// `ErrorInfo.domain`.
    pub domain: String,
    /// HTTP status for faces that have one.
    pub http_status: u16,
    /// What failed, why, and what to do.
    pub message: String,
    /// The `data` of an agent's own error, where that has more than reason and domain.
    pub details: Vec<Value>,
}

/// Domain of A2A's own errors.
const A2A: &str = "a2a-protocol.org";
/// Domain of this project's refusals.
const ALTHING: &str = "althing.dev";
/// JSON-RPC's code for errors of a server's own.
const SERVER_ERROR: i32 = -32_000;
/// The type of the detail that names reason and domain.
const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";
/// Bytes of an agent's details of an error, as JSON, that are taken.
const DETAILS_BYTES_MAX: usize = 4_096;
/// Bytes of an error's message that are taken from a peer.
const MESSAGE_BYTES_MAX: usize = 4_096;

impl OperationError {
    fn a2a(code: i32, message: impl Into<String>) -> OperationError {
        let http_status = a2a::A2AError::new(code, "").http_status_code();
        let reason = a2a::errors::error_reason(code).to_owned();
        OperationError {
            code,
            reason,
            domain: A2A.to_owned(),
            http_status,
            message: message.into(),
            details: Vec::new(),
        }
    }

    fn own(reason: &str, http_status: u16, message: impl Into<String>) -> OperationError {
        let (reason, domain) = (reason.to_owned(), ALTHING.to_owned());
        OperationError { code: SERVER_ERROR, reason, domain, http_status, message: message.into(), details: Vec::new() }
    }

    /// No such task, or none that the caller may see.
    #[must_use]
    pub fn task_not_found(id: &str) -> OperationError {
        OperationError::a2a(error_code::TASK_NOT_FOUND, format!("there is no task {:?}", shorten(id, 100)))
    }

    /// The task is over.
    #[must_use]
    pub fn task_not_cancelable(id: &str) -> OperationError {
        OperationError::a2a(error_code::TASK_NOT_CANCELABLE, format!("task {id} is over and cannot be cancelled"))
    }

    /// Push notifications are not served.
    #[must_use]
    pub fn push_not_supported() -> OperationError {
        let message = "push notifications are not supported; use SendStreamingMessage or SubscribeToTask";
        OperationError::a2a(error_code::PUSH_NOTIFICATION_NOT_SUPPORTED, message)
    }

    /// The operation exists, but not here or not now.
    #[must_use]
    pub fn unsupported(message: impl Into<String>) -> OperationError {
        OperationError::a2a(error_code::UNSUPPORTED_OPERATION, message)
    }

    /// A media type that is not taken.
    #[must_use]
    pub fn content_type(message: impl Into<String>) -> OperationError {
        OperationError::a2a(error_code::CONTENT_TYPE_NOT_SUPPORTED, message)
    }

    /// The agent answered with something that is not A2A.
    #[must_use]
    pub fn invalid_agent_response(message: impl Into<String>) -> OperationError {
        OperationError::a2a(error_code::INVALID_AGENT_RESPONSE, message)
    }

    /// No card declares an extended one (A2A §3.3.4).
    #[must_use]
    pub fn no_extended_card() -> OperationError {
        OperationError::unsupported("this agent's card declares no extended agent card; the public one is complete")
    }

    /// Another version of A2A was asked for.
    #[must_use]
    pub fn version_not_supported(version: &str) -> OperationError {
        let asked = if version.is_empty() { "no A2A-Version, which means 0.3," } else { version };
        let message = format!("{asked} is not served; send `A2A-Version: 1.0`");
        OperationError::a2a(error_code::VERSION_NOT_SUPPORTED, message)
    }

    /// The body is not JSON.
    #[must_use]
    pub fn parse(message: impl Into<String>) -> OperationError {
        OperationError::a2a(error_code::PARSE_ERROR, message)
    }

    /// JSON, but no request.
    #[must_use]
    pub fn invalid_request(message: impl Into<String>) -> OperationError {
        OperationError::a2a(error_code::INVALID_REQUEST, message)
    }

    /// A request for something that does not exist.
    #[must_use]
    pub fn method_not_found(method: &str) -> OperationError {
        let message = format!("there is no method {:?}", shorten(method, 100));
        OperationError::a2a(error_code::METHOD_NOT_FOUND, message)
    }

    /// The operation's parameters break a rule.
    #[must_use]
    pub fn invalid_params(message: impl Into<String>) -> OperationError {
        OperationError::a2a(error_code::INVALID_PARAMS, message)
    }

    /// The id of a message stands for another message already.
    #[must_use]
    pub fn message_id_reused(id: &str, task: &str) -> OperationError {
        let id = shorten(id, 100);
        let message =
            format!("another message of id {id:?} belongs to task {task}; give each message an id of its own");
        OperationError { code: error_code::INVALID_PARAMS, ..OperationError::own("MESSAGE_ID_REUSED", 400, message) }
    }

    /// This node failed. What failed, with its paths and sizes, stands in the node's log and is nobody else's; who asked
    /// is given the reference that the line bears.
    #[must_use]
    pub fn internal(detail: impl Into<String>) -> OperationError {
        static FAILURES: AtomicU64 = AtomicU64::new(1);
        let (reference, detail) = (FAILURES.fetch_add(1, Ordering::Relaxed), detail.into());
        tracing::error!(reference, detail, "an operation failed");
        let message = format!("this node failed; its operator finds why in the log under reference {reference}");
        OperationError::a2a(error_code::INTERNAL_ERROR, message)
    }

    /// This node's disk has no room for a task.
    #[must_use]
    pub fn disk_full() -> OperationError {
        let message = "this node's disk is full and nothing was taken; its operator has to free space there";
        OperationError::a2a(error_code::INTERNAL_ERROR, message)
    }

    /// The agent does not answer this caller.
    #[must_use]
    pub fn caller_not_allowed(message: impl Into<String>) -> OperationError {
        OperationError::own("CALLER_NOT_ALLOWED", 403, message)
    }

    /// No such agent.
    #[must_use]
    pub fn agent_unknown(message: impl Into<String>) -> OperationError {
        OperationError::own("AGENT_UNKNOWN", 404, message)
    }

    /// The agent is not hosted here, or not for this caller.
    #[must_use]
    pub fn agent_not_here(message: impl Into<String>) -> OperationError {
        OperationError::own("AGENT_NOT_HERE", 404, message)
    }

    /// The agent's node cannot be reached.
    #[must_use]
    pub fn agent_unreachable(message: impl Into<String>) -> OperationError {
        OperationError::own("AGENT_UNREACHABLE", 503, message)
    }

    /// No answer in time.
    #[must_use]
    pub fn deadline(message: impl Into<String>) -> OperationError {
        OperationError::own("DEADLINE_EXCEEDED", 504, message)
    }

    /// Too much at once.
    #[must_use]
    pub fn busy(message: impl Into<String>) -> OperationError {
        OperationError::own("OVERLOADED", 429, message)
    }

    /// An agent's own error, which reaches whoever asked as it is. It is never a refusal of this project's: those are
    /// the node's to make.
    #[must_use]
    pub fn of_agent(code: i32, message: impl Into<String>, details: Vec<Value>) -> OperationError {
        let mut error = OperationError::a2a(code, message);
        let own = error.info();
        let says = |detail: &Value, name: &str| detail[name] == own[name];
        let mut details = bounded(details);
        // The first says which error it is, whatever the agent left out.
        if !details.iter().any(|detail| ["@type", "reason", "domain"].iter().all(|name| says(detail, name))) {
            details.insert(0, own.clone());
        }
        error.details = if details == [own] { Vec::new() } else { details };
        error
    }

    fn info(&self) -> Value {
        json!({ "@type": ERROR_INFO, "reason": self.reason, "domain": self.domain })
    }

    /// The JSON-RPC error object; also the body of an error frame.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let data = if self.details.is_empty() { vec![self.info()] } else { self.details.clone() };
        json!({ "code": self.code, "message": self.message, "data": data })
    }

    /// Reads the body of a peer's error frame. What is no such object is an answer that is not A2A.
    #[must_use]
    pub fn from_peer(body: &[u8]) -> OperationError {
        OperationError::read(body).unwrap_or_else(|| {
            OperationError::invalid_agent_response("the peer refused with something that is no A2A error")
        })
    }

    fn read(body: &[u8]) -> Option<OperationError> {
        let value: Value = serde_json::from_slice(body).ok()?;
        let code = i32::try_from(value.get("code")?.as_i64()?).ok()?;
        let message = shorten(value.get("message")?.as_str()?, MESSAGE_BYTES_MAX).to_owned();
        let info = value.get("data").and_then(|data| data.get(0));
        let member = |name: &str| info.and_then(|info| info.get(name)).and_then(Value::as_str);
        if member("domain") != Some(ALTHING) {
            let details = value.get("data").and_then(Value::as_array).cloned().unwrap_or_default();
            return Some(OperationError::of_agent(code, message, details));
        }
        let reason = shorten(member("reason")?, 64);
        let http_status = match reason {
            "CALLER_NOT_ALLOWED" => 403,
            "AGENT_UNKNOWN" | "AGENT_NOT_HERE" => 404,
            "MESSAGE_ID_REUSED" => 400,
            "OVERLOADED" => 429,
            "DEADLINE_EXCEEDED" => 504,
            _ => 503,
        };
        Some(OperationError { code, ..OperationError::own(reason, http_status, message) })
    }
}

/// Details that are not too long, and none that speaks in this project's name.
fn bounded(details: Vec<Value>) -> Vec<Value> {
    let size = serde_json::to_vec(&details).map_or(usize::MAX, |json| json.len());
    if size > DETAILS_BYTES_MAX || details.iter().any(|detail| detail["domain"] == ALTHING) {
        return Vec::new();
    }
    details
}

fn shorten(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_survives_the_wire() {
        let errors = [
            OperationError::task_not_found("x"),
            OperationError::version_not_supported(""),
            OperationError::caller_not_allowed("no"),
            OperationError::agent_unreachable("gone"),
            OperationError::content_type("no"),
            OperationError::message_id_reused("m", "t"),
            OperationError::of_agent(-32_602, "no", vec![json!({ "field": "parts" })]),
            OperationError::of_agent(-32_050, "no", Vec::new()),
        ];
        for error in errors {
            assert_eq!(OperationError::from_peer(error.to_json().to_string().as_bytes()), error);
        }
    }

    #[test]
    fn an_internal_error_tells_nothing_but_a_reference() {
        let detail = "a batch of 4194305 bytes is over the limit: /var/lib/althing/store";
        let [one, two] = [detail, detail].map(|detail| OperationError::internal(detail).message);
        for leaked in ["4194305", "/var", "batch"] {
            assert!(!one.contains(leaked), "{one}");
        }
        assert!(one.contains("reference") && one != two, "each has a reference of its own: {one}; {two}");
    }

    #[test]
    fn an_agents_error_does_not_speak_for_its_node() {
        let refusal = OperationError::caller_not_allowed("no").to_json();
        let details = refusal["data"].as_array().cloned().expect("details");
        let error = OperationError::of_agent(-32_000, "no", details);
        assert_eq!((&*error.domain, error.details.len()), ("a2a-protocol.org", 0));
        let long = vec![json!({ "text": "x".repeat(DETAILS_BYTES_MAX) })];
        assert_eq!(OperationError::of_agent(-32_602, "no", long), OperationError::of_agent(-32_602, "no", Vec::new()));
    }

    #[test]
    fn a_peers_long_message_is_cut_where_a_character_ends() {
        for (domain, code) in [(A2A, -32_602), (ALTHING, -32_000)] {
            let info = json!({ "@type": ERROR_INFO, "reason": "OVERLOADED", "domain": domain });
            let message = format!("x{}", "ä".repeat(MESSAGE_BYTES_MAX));
            let body = json!({ "code": code, "message": message, "data": [info] });
            let error = OperationError::from_peer(body.to_string().as_bytes());
            assert_eq!((error.code, error.message.len()), (code, MESSAGE_BYTES_MAX - 1), "{domain}");
        }
    }

    #[test]
    fn a_peers_nonsense_is_an_invalid_answer() {
        for body in
            [&b""[..], b"null", b"{}", br#"{"code":"x","message":"y"}"#, br#"{"code":99999999999,"message":""}"#]
        {
            assert_eq!(OperationError::from_peer(body).code, error_code::INVALID_AGENT_RESPONSE);
        }
    }
}
