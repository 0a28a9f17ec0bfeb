//! Reservations on other nodes, as the control socket takes them.

use std::sync::Arc;
use std::time::Duration;

use althing_calls::{ReservationError, reserve};
use althing_node::Node;
use althing_protocol::PublicKey;
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::{Kind, Problem, ReserveRequest};

/// Between the two phases.
const PREPARED: Duration = Duration::from_secs(10);

fn failed(error: &ReservationError) -> Problem {
    let kind = match error {
        ReservationError::Refused { reason, .. } if reason == "INVALID" => Kind::Invalid,
        ReservationError::Refused { .. } => Kind::Refused,
        ReservationError::Unreachable(_) => Kind::Unreachable,
        ReservationError::Malformed(_) => Kind::Failed,
    };
    Problem::new(kind, error.to_string())
}

/// Holds what an agent file's contract needs on another node, or gives it back.
pub async fn reserve(
    State(node): State<Arc<Node>>,
    Json(request): Json<ReserveRequest>,
) -> Result<Json<Value>, Problem> {
    let peer = PublicKey::from_did(&request.node).map_err(|error| Problem::invalid(error.to_string()))?;
    let communication = &node.communication;
    if let Some(id) = &request.cancel {
        reserve::cancel(communication, peer, id).await.map_err(|error| failed(&error))?;
        return Ok(Json(json!({ "cancelled": id })));
    }
    let file = request.file.ok_or_else(|| Problem::invalid("name an agent file, or --cancel ID"))?;
    let none = || Problem::invalid(format!("agent {:?} has no contract to reserve for", file.name));
    let contract = node.normalised(&file)?.ok_or_else(none)?.contract;
    let prepared = reserve::prepare(communication, peer, &contract, PREPARED).await.map_err(|error| failed(&error))?;
    let lease = Duration::from_secs(request.lease_s);
    let confirmed = match reserve::confirm(communication, peer, &prepared.id, lease).await {
        Ok(confirmed) => confirmed,
        Err(error) => {
            // What is not given back now is over in some seconds.
            let _ = reserve::cancel(communication, peer, &prepared.id).await;
            return Err(failed(&error));
        }
    };
    Ok(Json(json!({
        "id": confirmed.id,
        "node": request.node,
        "leaseMs": confirmed.lease_ms,
        "responseBoundUs": prepared.response_bound_us,
        "core": prepared.core,
    })))
}
