//! Refusals as problem details (RFC 9457), which the WoT Profile asks of an HTTP binding.

use althing_calls::{OperationError, Refusal};
use althing_edge::BodyError;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// The media type of problem details.
pub(crate) const PROBLEM: &str = "application/problem+json";

/// The problem details of a status: title, detail, and the reason that machines compare.
pub(super) fn details(status: StatusCode, reason: &str, detail: &str) -> Value {
    json!({
        "type": "about:blank",
        "title": status.canonical_reason().unwrap_or("Error"),
        "status": status.as_u16(),
        "detail": detail,
        "reason": reason,
    })
}

/// A refusal of this face's own.
pub(super) fn refuse(status: StatusCode, reason: &str, detail: &str) -> Response {
    (status, [(header::CONTENT_TYPE, PROBLEM)], details(status, reason, detail).to_string()).into_response()
}

/// Why a call failed, as an answer.
pub(super) fn of(error: &OperationError) -> Response {
    refuse(status(&error.refusal), error.reason(), &error.message)
}

/// Why a body could not be read, as an answer.
pub(super) fn unread(error: BodyError) -> Response {
    error.crowded(false).unwrap_or_else(|| of(&OperationError::invalid_request(error.to_string())))
}

/// The HTTP status of a refusal: that of A2A over HTTP, unless HTTP has one that says more, or this face has no such request.
pub(super) fn status(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::MethodNotFound => StatusCode::NOT_FOUND,
        Refusal::TaskNotCancelable | Refusal::Unsupported | Refusal::MessageIdReused | Refusal::AlreadyDone { .. } => {
            StatusCode::CONFLICT
        }
        Refusal::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Refusal::InvalidAgentResponse => StatusCode::BAD_GATEWAY,
        Refusal::PushNotSupported | Refusal::OfAgent(_) => StatusCode::INTERNAL_SERVER_ERROR,
        other => crate::a2a::status::status(other),
    }
}

/// Answers a method that a path does not serve.
pub(super) async fn wrong_method(method: axum::http::Method, uri: axum::http::Uri) -> Response {
    let detail = format!("{method} is not served at {}; the header Allow says what is", uri.path());
    refuse(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", &detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_the_status_that_says_most() {
        for (expected, refusals) in [
            (400, vec![Refusal::Parse, Refusal::InvalidRequest, Refusal::InvalidParams, Refusal::VersionNotSupported]),
            (403, vec![Refusal::CallerNotAllowed, Refusal::AgentRevoked]),
            (404, vec![Refusal::TaskNotFound, Refusal::AgentUnknown, Refusal::AgentNotHere, Refusal::MethodNotFound]),
            (409, vec![Refusal::TaskNotCancelable, Refusal::Unsupported, Refusal::MessageIdReused]),
            (409, vec![Refusal::AlreadyDone { answer: None }]),
            (415, vec![Refusal::ContentType]),
            (429, vec![Refusal::Overloaded, Refusal::TurnLeft, Refusal::TaskMoved { proof: "hA".to_owned() }]),
            (500, vec![Refusal::PushNotSupported, Refusal::Internal, Refusal::OfAgent(-32_007)]),
            (500, vec![Refusal::OfAgent(-32_050), Refusal::OfNewerNode("NEW".to_owned())]),
            (502, vec![Refusal::InvalidAgentResponse]),
            (503, vec![Refusal::AgentUnreachable, Refusal::StoreStopped]),
            (504, vec![Refusal::DeadlineExceeded]),
            (507, vec![Refusal::DiskFull]),
        ] {
            for refusal in refusals {
                assert_eq!(status(&refusal).as_u16(), expected, "{refusal:?}");
            }
        }
    }
}
