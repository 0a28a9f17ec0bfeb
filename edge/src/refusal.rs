//! How the guard refuses a request: as an error of A2A's REST binding, and as a status of gRPC to a client of that.

use std::fmt::Write as _;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use serde_json::json;

const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";
const DOMAIN: &str = "althing.dev";
const GRPC: &str = "application/grpc";

/// Why a request is refused.
pub(crate) struct Refusal {
    /// The status over HTTP.
    pub status: StatusCode,
    /// For programs.
    pub reason: &'static str,
    /// For people: what is wrong, and what to do.
    pub message: String,
    /// The members of a challenge, where a bearer token would help.
    pub challenge: Option<Vec<String>>,
}

/// Whether a request is one of gRPC.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.strip_prefix(GRPC).is_some_and(|rest| rest.is_empty() || rest.starts_with(['+', ';']))
}

impl Refusal {
    /// The answer to a request, of gRPC or not.
    pub fn answer(&self, is_grpc: bool) -> Response {
        let mut refused = if is_grpc { self.grpc() } else { self.json() };
        if let Some(members) = &self.challenge {
            let challenge = format!("Bearer {}", members.join(", "));
            // The host was checked: it has no quote.
            let challenge = HeaderValue::from_str(challenge.trim()).unwrap_or(HeaderValue::from_static("Bearer"));
            refused.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        refused
    }

    fn json(&self) -> Response {
        let name = name(self.status);
        let info = json!({ "@type": ERROR_INFO, "reason": self.reason, "domain": DOMAIN });
        let error = json!({ "code": self.status.as_u16(), "status": name, "message": self.message, "details": [info] });
        (self.status, Json(json!({ "error": error }))).into_response()
    }

    /// Headers alone: a client of gRPC reads no other body, and would guess from another status.
    fn grpc(&self) -> Response {
        let code = match self.status {
            StatusCode::UNAUTHORIZED => "16",
            StatusCode::FORBIDDEN => "7",
            StatusCode::SERVICE_UNAVAILABLE => "14",
            // FAILED_PRECONDITION.
            _ => "9",
        };
        let headers = [
            (header::CONTENT_TYPE, GRPC.to_owned()),
            (HeaderName::from_static("grpc-status"), code.to_owned()),
            (HeaderName::from_static("grpc-message"), encoded(&self.message)),
        ];
        (headers, ()).into_response()
    }
}

/// The name of a status, as A2A's REST errors have it.
pub(crate) fn name(status: StatusCode) -> String {
    status.canonical_reason().unwrap_or("error").to_ascii_uppercase().replace(' ', "_")
}

/// A message as gRPC has it in a header.
fn encoded(message: &str) -> String {
    message.bytes().fold(String::new(), |mut text, byte| {
        match byte {
            b' '..=b'~' if byte != b'%' => text.push(char::from(byte)),
            _ => {
                // Writing to a string does not fail.
                let _ = write!(text, "%{byte:02X}");
            }
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn refusal(status: StatusCode) -> Refusal {
        Refusal {
            status,
            reason: "NOT_SO",
            message: "100 % — no".to_owned(),
            challenge: Some(vec!["a=\"b\"".to_owned()]),
        }
    }

    #[tokio::test]
    async fn over_http_it_has_a_reason_and_a_challenge() {
        let answer = refusal(StatusCode::FORBIDDEN).answer(false);
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
        assert_eq!(answer.headers()["www-authenticate"], "Bearer a=\"b\"");
        let body = axum::body::to_bytes(answer.into_body(), 4_096).await.expect("a body");
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        let info = json!({ "@type": ERROR_INFO, "reason": "NOT_SO", "domain": "althing.dev" });
        let error = json!({ "code": 403, "status": "FORBIDDEN", "message": "100 % — no", "details": [info] });
        assert_eq!(body, json!({ "error": error }));
    }

    #[tokio::test]
    async fn over_grpc_it_has_a_status_and_no_body() {
        for (status, code) in
            [(StatusCode::UNAUTHORIZED, "16"), (StatusCode::FORBIDDEN, "7"), (StatusCode::MISDIRECTED_REQUEST, "9")]
        {
            let answer = refusal(status).answer(true);
            let header = |name: &str| answer.headers()[name].to_str().expect("text").to_owned();
            assert_eq!((answer.status(), header("content-type")), (StatusCode::OK, GRPC.to_owned()));
            assert_eq!(
                (header("grpc-status"), header("grpc-message")),
                (code.to_owned(), "100 %25 %E2%80%94 no".to_owned())
            );
            assert_eq!(header("www-authenticate"), "Bearer a=\"b\"");
            assert!(axum::body::to_bytes(answer.into_body(), 1).await.expect("no body").is_empty());
        }
    }

    #[test]
    fn what_is_of_grpc_says_so_in_its_content_type() {
        let of = |kind: &str| is_grpc(&HeaderMap::from_iter([(header::CONTENT_TYPE, kind.parse().expect("a value"))]));
        for kind in ["application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"] {
            assert!(of(kind), "{kind}");
        }
        for kind in ["application/json", "application/grpc-web", "application/grpcx", ""] {
            assert!(!of(kind), "{kind}");
        }
        assert!(!is_grpc(&HeaderMap::new()));
    }
}
