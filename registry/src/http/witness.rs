//! The HTTP face of a witness (C2SP tlog-witness).

use std::sync::Arc;

use althing_edge::read_body;
use althing_protocol::tlog::{AddCheckpoint, WitnessRefusal};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use serde_json::json;

use super::answers::{json, text};
use super::problem::{Answer, Problem};
use crate::witness::{Witness, WitnessError};

/// Bytes of a request: a note of 64 KiB, and 63 hashes.
const ASKED_BYTES_MAX: usize = 72 * 1024;

/// The routes of a witness.
pub fn witness_router(witness: Arc<Witness>) -> Router {
    Router::new()
        .route("/", get(about))
        .route("/healthz", get(health))
        .route("/add-checkpoint", post(add))
        .fallback(|| async {
            Problem::new(StatusCode::NOT_FOUND, "there is nothing here; a witness takes POST /add-checkpoint")
        })
        .with_state(witness)
}

/// The route of a witness that a registry has beside its own.
pub fn cosigning_route(witness: Arc<Witness>) -> Router {
    Router::new().route("/add-checkpoint", post(add)).with_state(witness)
}

async fn about(State(witness): State<Arc<Witness>>) -> Answer {
    let logs = witness.logs().map_err(Problem::from)?;
    let logs: Vec<_> = logs
        .iter()
        .map(|log| json!({ "name": log.name, "entries": log.head.size, "evidence": log.evidence }))
        .collect();
    let key = witness.note_key();
    Ok(json(&json!({ "name": key.name(), "key": key.to_string(), "logs": logs })))
}

/// Tells those who watch it that it answers.
async fn health() -> Response {
    json(&json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") }))
}

async fn add(State(witness): State<Arc<Witness>>, request: Request) -> Answer {
    let body = read_body(request, ASKED_BYTES_MAX).await.map_err(Problem::body)?;
    let body = std::str::from_utf8(&body).map_err(Problem::bad)?;
    let asked: AddCheckpoint = body.parse().map_err(Problem::bad)?;
    match witness.add(&asked).await {
        Ok(line) => Ok(text(&line)),
        Err(WitnessError::Refused(WitnessRefusal::Stale { known })) => Ok(size(known)),
        Err(error) => Err(error.into()),
    }
}

/// What the witness signed last.
fn size(known: u64) -> Response {
    (StatusCode::CONFLICT, [(header::CONTENT_TYPE, "text/x.tlog.size")], format!("{known}\n")).into_response()
}

impl From<WitnessError> for Problem {
    fn from(error: WitnessError) -> Problem {
        let status = match &error {
            WitnessError::Refused(refusal) => match refusal {
                WitnessRefusal::Shape(_) | WitnessRefusal::Smaller { .. } => StatusCode::BAD_REQUEST,
                WitnessRefusal::UnknownLog(_) => StatusCode::NOT_FOUND,
                WitnessRefusal::Unsigned => StatusCode::FORBIDDEN,
                WitnessRefusal::Stale { .. } | WitnessRefusal::Forked { .. } => StatusCode::CONFLICT,
                WitnessRefusal::Proof(_) => StatusCode::UNPROCESSABLE_ENTITY,
            },
            WitnessError::Often(_) => StatusCode::TOO_MANY_REQUESTS,
            WitnessError::Write(_) => StatusCode::SERVICE_UNAVAILABLE,
            WitnessError::Read(_) | WitnessError::Damaged(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if status.is_server_error() {
            tracing::error!(%error, "a checkpoint is not cosigned");
        }
        let problem = Problem::new(status, &error);
        if matches!(error, WitnessError::Often(_)) { problem.retry_after(1) } else { problem }
    }
}
