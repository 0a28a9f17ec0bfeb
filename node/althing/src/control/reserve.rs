//! Reservations on other nodes, as the control socket takes them.

use std::sync::Arc;
use std::time::Duration;

use althing_calls::{ReservationError, reserve};
use althing_node::Node;
use althing_protocol::PublicKey;
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::control::ReserveRequest;
use crate::exit::{Failure, code};

/// Between the two phases.
const PREPARED: Duration = Duration::from_secs(10);

fn failed(error: &ReservationError) -> Failure {
    let exit = match error {
        ReservationError::Refused { reason, .. } if reason == "INVALID" => code::USAGE,
        ReservationError::Refused { .. } => code::REFUSED,
        ReservationError::Unreachable(_) => code::UNREACHABLE,
        ReservationError::Malformed(_) => code::FAILED,
    };
    Failure::new(exit, error.to_string())
}

/// Holds what an agent file's contract needs on another node, or gives it back.
pub async fn reserve(
    State(node): State<Arc<Node>>,
    Json(request): Json<ReserveRequest>,
) -> Result<Json<Value>, Failure> {
    let peer = PublicKey::from_did(&request.node).map_err(|error| Failure::usage(error.to_string()))?;
    let communication = &node.communication;
    if let Some(id) = &request.cancel {
        reserve::cancel(communication, peer, id).await.map_err(|error| failed(&error))?;
        return Ok(Json(json!({ "cancelled": id })));
    }
    let file = request.file.ok_or_else(|| Failure::usage("name an agent file, or --cancel ID"))?;
    let none = || Failure::usage(format!("agent {:?} has no contract to reserve for", file.name));
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
