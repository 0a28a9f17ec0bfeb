//! A2A's error table (specification 1.0.1 §5.4), and this project's own refusals, each with its `ErrorInfo`.

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
}

/// Domain of A2A's own errors.
const A2A: &str = "a2a-protocol.org";
/// Domain of this project's refusals.
const ALTHING: &str = "althing.dev";
/// JSON-RPC's code for errors of a server's own.
const SERVER_ERROR: i32 = -32_000;
/// Bytes of an error's message that are taken from a peer.
const MESSAGE_BYTES_MAX: usize = 4_096;

impl OperationError {
    fn a2a(code: i32, message: impl Into<String>) -> OperationError {
        let http_status = a2a::A2AError::new(code, "").http_status_code();
        let reason = a2a::errors::error_reason(code).to_owned();
        OperationError { code, reason, domain: A2A.to_owned(), http_status, message: message.into() }
    }

    fn own(reason: &str, http_status: u16, message: impl Into<String>) -> OperationError {
        let (reason, domain) = (reason.to_owned(), ALTHING.to_owned());
        OperationError { code: SERVER_ERROR, reason, domain, http_status, message: message.into() }
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

    /// No extended card is served.
    #[must_use]
    pub fn no_extended_card() -> OperationError {
        let message = "there is no extended agent card; the public one is complete";
        OperationError::a2a(error_code::EXTENDED_CARD_NOT_CONFIGURED, message)
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

    /// This node failed.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> OperationError {
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

    /// The JSON-RPC error object; also the body of an error frame.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "code": self.code,
            "message": self.message,
            "data": [{
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": self.reason,
                "domain": self.domain,
            }],
        })
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
            return Some(OperationError::a2a(code, message));
        }
        let reason = shorten(member("reason")?, 64);
        let http_status = match reason {
            "CALLER_NOT_ALLOWED" => 403,
            "AGENT_UNKNOWN" | "AGENT_NOT_HERE" => 404,
            "OVERLOADED" => 429,
            "DEADLINE_EXCEEDED" => 504,
            _ => 503,
        };
        Some(OperationError { code, ..OperationError::own(reason, http_status, message) })
    }
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
        ];
        for error in errors {
            assert_eq!(OperationError::from_peer(error.to_json().to_string().as_bytes()), error);
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
