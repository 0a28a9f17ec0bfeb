//! HTTP statuses of A2A's refusals.

use althing_calls::{Refusal, RpcCode};
use axum::http::StatusCode;

/// The HTTP status of a refusal.
pub(crate) fn status(refusal: &Refusal) -> StatusCode {
    // Nobody asks too often there.
    if *refusal == Refusal::DiskFull {
        return StatusCode::INSUFFICIENT_STORAGE;
    }
    match refusal.rpc_code() {
        RpcCode::InvalidArgument | RpcCode::FailedPrecondition => StatusCode::BAD_REQUEST,
        RpcCode::NotFound => StatusCode::NOT_FOUND,
        RpcCode::PermissionDenied => StatusCode::FORBIDDEN,
        RpcCode::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        RpcCode::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        RpcCode::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        RpcCode::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        RpcCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
