//! The control API's reservations on other nodes.

use std::sync::Arc;
use std::time::Duration;

use althing_api::{NodeReservation, ReservationCancellation, ReserveReply, ReserveRequest};
use althing_calls::{ReservationError, reserve};
use althing_operations::Operations;
use althing_protocol::PublicKey;
use axum::Json;
use axum::extract::State;

use crate::body::{Body, detached};
use crate::error::{Answer, ApiError};

/// Lease of the first phase.
const PREPARED: Duration = Duration::from_secs(10);

fn failed(error: &ReservationError) -> ApiError {
    ApiError::new(error.kind(), error.to_string())
}

/// Reserves what an agent file's contract needs on another node, or releases it.
pub async fn reserve(State(node): State<Arc<Operations>>, Body(request): Body<ReserveRequest>) -> Answer<ReserveReply> {
    // What is prepared there is confirmed or released.
    detached(async move { carried_out(&node, request).await.map(Json) }).await
}

async fn carried_out(node: &Operations, request: ReserveRequest) -> Result<ReserveReply, ApiError> {
    let peer = PublicKey::from_did(&request.node).map_err(|error| ApiError::invalid(error.to_string()))?;
    let communication = &node.communication;
    if let Some(id) = request.cancel {
        reserve::cancel(communication, peer, &id).await.map_err(|error| failed(&error))?;
        return Ok(ReserveReply::Cancellation(ReservationCancellation { cancelled: id }));
    }
    let file = request
        .file
        .ok_or_else(|| ApiError::invalid("name an agent file, or the reservation that is to be cancelled"))?;
    let none = || ApiError::invalid(format!("agent {:?} has no contract to reserve for", file.name));
    let contract = node.bindings.normalise(&file)?.ok_or_else(none)?.contract;
    let prepared = reserve::prepare(communication, peer, &contract, PREPARED).await.map_err(|error| failed(&error))?;
    let lease = Duration::from_secs(request.lease_s);
    let confirmed = match reserve::confirm(communication, peer, &prepared.id, lease).await {
        Ok(confirmed) => confirmed,
        Err(error) => {
            // If the release fails, the reservation expires within seconds.
            let _ = reserve::cancel(communication, peer, &prepared.id).await;
            return Err(failed(&error));
        }
    };
    Ok(ReserveReply::Reservation(NodeReservation {
        id: confirmed.id,
        node: request.node,
        lease_ms: confirmed.lease_ms,
        response_bound_us: prepared.response_bound_us,
        core: prepared.core,
    }))
}
