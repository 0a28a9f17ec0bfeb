//! Why a request failed, as an answer.

use althing_api::{Kind, OutcomeDoubt, Problem, Remedy};
use althing_calls::OperationError;
use althing_node::NodeError;
use althing_operations::SecretError;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

/// A reply, or why there is none.
pub type Answer<T> = Result<Json<T>, ApiError>;

/// Why a request failed, as an answer: its problem as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError(pub(crate) Problem);

impl ApiError {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> ApiError {
        ApiError(Problem::new(kind, message))
    }

    /// The same, where that may have been accepted in the group of that id or name.
    pub(crate) fn with_unknown(self, group: &str, unknown: OutcomeDoubt) -> ApiError {
        ApiError(self.0.with_unknown(group, unknown))
    }

    /// The same, with what to do next, if that is a step of its own.
    pub(crate) fn with_remedy(self, remedy: Option<Remedy>) -> ApiError {
        ApiError(self.0.with_remedy(remedy))
    }

    pub(crate) fn invalid(message: impl Into<String>) -> ApiError {
        ApiError::new(Kind::Invalid, message)
    }

    pub(crate) fn failed(message: impl Into<String>) -> ApiError {
        ApiError::new(Kind::Failed, message)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(self.0)).into_response()
    }
}

impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Problem {
        error.0
    }
}

impl From<NodeError> for ApiError {
    fn from(error: NodeError) -> ApiError {
        ApiError::new(error.kind(), error.to_string()).with_remedy(error.remedy())
    }
}

impl From<SecretError> for ApiError {
    fn from(error: SecretError) -> ApiError {
        ApiError::new(error.kind(), error.to_string()).with_remedy(error.remedy())
    }
}

impl From<OperationError> for ApiError {
    fn from(error: OperationError) -> ApiError {
        let kind = error.kind();
        ApiError::new(kind, error.message).with_remedy(error.remedy.map(|step| *step))
    }
}

#[cfg(test)]
mod tests {
    use althing_api::AgentStep;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_step_goes_with_the_failure_that_names_it() {
        let none = ApiError::from(NodeError::NoAgent("echo".to_owned()));
        assert_eq!(none.0.message, "this node has no agent \"echo\"");
        assert_eq!(none.0.remedy, Some(Box::new(AgentStep::List.into())));
        let stopped = ApiError::from(OperationError::store_stopped());
        assert!(stopped.0.remedy.is_some() && !stopped.0.message.contains('`'), "{:?}", stopped.0);
        assert_eq!(ApiError::from(OperationError::disk_full()).0.remedy, None);
    }

    #[tokio::test]
    async fn a_problem_has_the_status_of_its_kind_and_says_it_in_json() {
        let table = [
            (Kind::Invalid, "invalid", StatusCode::UNPROCESSABLE_ENTITY),
            (Kind::TooLarge, "tooLarge", StatusCode::PAYLOAD_TOO_LARGE),
            (Kind::NotFound, "notFound", StatusCode::NOT_FOUND),
            (Kind::Refused, "refused", StatusCode::FORBIDDEN),
            (Kind::Conflict, "conflict", StatusCode::CONFLICT),
            (Kind::Unreachable, "unreachable", StatusCode::GATEWAY_TIMEOUT),
            (Kind::Busy, "busy", StatusCode::SERVICE_UNAVAILABLE),
            (Kind::NotYet, "notYet", StatusCode::SERVICE_UNAVAILABLE),
            (Kind::Failed, "failed", StatusCode::INTERNAL_SERVER_ERROR),
        ];
        for (kind, name, status) in table {
            let response = ApiError::new(kind, "no").into_response();
            assert_eq!(response.status(), status, "{name}");
            let body = axum::body::to_bytes(response.into_body(), 1_024).await.expect("a short body");
            assert_eq!(String::from_utf8_lossy(&body), json!({ "kind": name, "message": "no" }).to_string());
        }
    }
}
