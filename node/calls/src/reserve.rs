//! `/althing/reserve/1`: a node asks another to hold the resources that a contract needs, before an agent is sent there.
//!
//! Two phases: `prepare` runs the admission test and holds for one minute at most, `confirm` holds for ten at most and may
//! be repeated; `cancel` releases. A reservation expires by itself, whatever happens to its holder.

use std::sync::Arc;
use std::time::Duration;

use althing_call::{Decide, IncomingRequest, Service};
use althing_communication::{Answer, CallError, Caller, Communication, Entropy, Inbound, Request};
use althing_execution::kernel::reservations::{CONFIRMED_MAX, PREPARED_MAX};
use althing_execution::kernel::{Promises, ReserveError};
use althing_failure::Kind;
use althing_protocol::{Contract, PublicKey, hex};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Stream protocol of reservations.
pub const RESERVE: &str = "/althing/reserve/1";

/// Lease of a request that names none.
const LEASE_DEFAULT_MS: u64 = 10_000;
/// Bytes of a request.
const BODY_BYTES_MAX: usize = 256 << 10;
/// Bytes that are read of a peer's refusal.
const MESSAGE_BYTES_MAX: usize = 4_096;

/// A reservation on another node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// Its id, which only its holder may confirm and cancel.
    pub id: String,
    /// Time until it expires, milliseconds.
    pub lease_ms: u64,
    /// Upper bound of each job's response time, microseconds. For hard real-time contracts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_bound_us: Option<f64>,
    /// The core that the admission test chose. For hard real-time contracts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<u64>,
}

/// Why a reservation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReservationError {
    /// The node refused.
    #[error("{message}")]
    Refused {
        /// `NOT_ALLOWED`, `NOT_ADMITTED`, `NO_RESERVATION`, `TOO_MANY`, `INVALID`.
        reason: String,
        /// For people.
        message: String,
    },
    /// The node cannot be asked.
    #[error("the node cannot be asked: {0}")]
    Unreachable(String),
    /// The node's answer has another form than expected.
    #[error("the node's answer cannot be read: {0}")]
    Malformed(String),
}

impl ReservationError {
    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            ReservationError::Refused { reason, .. } if reason == "INVALID" => Kind::Invalid,
            ReservationError::Refused { reason, .. } if reason == "NO_RESERVATION" => Kind::NotFound,
            ReservationError::Refused { .. } => Kind::Refused,
            ReservationError::Unreachable(_) => Kind::Unreachable,
            ReservationError::Malformed(_) => Kind::Failed,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Prepare {
    contract: Value,
    #[serde(default = "lease_default")]
    lease_ms: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Confirm {
    id: String,
    #[serde(default = "lease_default")]
    lease_ms: u64,
}

fn lease_default() -> u64 {
    LEASE_DEFAULT_MS
}

/// Serves [`RESERVE`].
#[derive(Clone)]
pub struct ReservationService {
    /// Holds the reservations.
    pub promises: Arc<Promises>,
    /// Who decides whether somebody may reserve.
    pub decide: Arc<dyn Decide>,
    /// Randomness for ids.
    pub entropy: Entropy,
    /// The node's labels, which contracts may require.
    pub labels: Vec<String>,
}

impl Inbound for ReservationService {
    fn call(&self, caller: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let service = self.clone();
        async move {
            match service.answer(&caller, &request).await {
                Ok(reserved) => Answer::Response(json!(reserved).to_string().into_bytes()),
                Err((reason, message)) => {
                    tracing::debug!(caller = %caller.node, reason, message, "nothing is reserved");
                    Answer::Error(json!({ "reason": reason, "message": message }).to_string().into_bytes())
                }
            }
        }
        .boxed()
    }
}

impl ReservationService {
    async fn answer(&self, caller: &Caller, request: &Request) -> Result<Reservation, (&'static str, String)> {
        let judgement = self.decide.decide_incoming(&IncomingRequest::plain(Service::Reservations, caller));
        judgement.decision().await.allowed().map_err(|denied| ("NOT_ALLOWED", denied.message))?;
        if request.body.len() > BODY_BYTES_MAX {
            return Err(("INVALID", format!("the request has more than {BODY_BYTES_MAX} bytes")));
        }
        let lease = |ms: u64, most: Duration| Duration::from_millis(ms).min(most);
        match request.operation.as_str() {
            "prepare" => {
                let Prepare { contract, lease_ms } = read(&request.body)?;
                self.prepare(caller.node, &contract, lease(lease_ms, PREPARED_MAX))
            }
            "confirm" => {
                let Confirm { id, lease_ms } = read(&request.body)?;
                let lease = lease(lease_ms, CONFIRMED_MAX);
                self.promises
                    .confirm(&id, caller.node, lease)
                    .map_err(|error| ("NO_RESERVATION", error.to_string()))?;
                Ok(reservation(id, lease))
            }
            "cancel" => {
                let Confirm { id, .. } = read(&request.body)?;
                self.promises.cancel(&id, caller.node).map_err(|error| ("NO_RESERVATION", error.to_string()))?;
                Ok(reservation(id, Duration::ZERO))
            }
            other => {
                Err(("INVALID", format!("there is no operation {:?}", other.chars().take(60).collect::<String>())))
            }
        }
    }

    fn prepare(
        &self,
        holder: PublicKey,
        contract: &Value,
        lease: Duration,
    ) -> Result<Reservation, (&'static str, String)> {
        let contract = Contract::from_value(contract).map_err(|problems| {
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            ("INVALID", told.join("; "))
        })?;
        if let Some(label) = contract.placement.labels.iter().find(|label| !self.labels.contains(label)) {
            return Err(("NOT_ADMITTED", format!("placement.labels: this node is not {label:?}")));
        }
        let random: [u8; 16] = self.entropy.bytes();
        let id = hex(&random);
        let admitted = self.promises.reserve(&id, holder, &contract, lease).map_err(|error| match error {
            ReserveError::Lease(error) => ("TOO_MANY", error.to_string()),
            ReserveError::NothingToHold => ("INVALID", error.to_string()),
            // The error names other agents' promises: only this node's owner can ask.
            ReserveError::Admission(error) => ("NOT_ADMITTED", error.to_string()),
        })?;
        let (bound_us, core) = (admitted.response_bound_ns as f64 / 1e3, admitted.core as u64);
        Ok(Reservation { response_bound_us: Some(bound_us), core: Some(core), ..reservation(id, lease) })
    }
}

fn reservation(id: String, lease: Duration) -> Reservation {
    let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
    Reservation { id, lease_ms, response_bound_us: None, core: None }
}

fn read<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<T, (&'static str, String)> {
    serde_json::from_slice(body).map_err(|error| ("INVALID", error.to_string()))
}

/// Asks `node` to hold the resources that a contract needs.
///
/// # Errors
/// See [`ReservationError`].
pub async fn prepare(
    communication: &Communication,
    node: PublicKey,
    contract: &Contract,
    lease: Duration,
) -> Result<Reservation, ReservationError> {
    let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
    ask(communication, node, "prepare", &json!({ "contract": contract, "leaseMs": lease_ms })).await
}

/// Extends a reservation to `lease` from now.
///
/// # Errors
/// See [`ReservationError`].
pub async fn confirm(
    communication: &Communication,
    node: PublicKey,
    id: &str,
    lease: Duration,
) -> Result<Reservation, ReservationError> {
    let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
    ask(communication, node, "confirm", &json!({ "id": id, "leaseMs": lease_ms })).await
}

/// Releases a reservation.
///
/// # Errors
/// See [`ReservationError`].
pub async fn cancel(communication: &Communication, node: PublicKey, id: &str) -> Result<Reservation, ReservationError> {
    ask(communication, node, "cancel", &json!({ "id": id })).await
}

async fn ask(
    communication: &Communication,
    node: PublicKey,
    operation: &str,
    body: &Value,
) -> Result<Reservation, ReservationError> {
    let request = Request::new(operation, body.to_string().into_bytes());
    match communication.call(node, RESERVE, request).await {
        Ok(body) => serde_json::from_slice(&body).map_err(|error| ReservationError::Malformed(error.to_string())),
        Err(CallError::Refused { body, .. }) => {
            let said: Value =
                serde_json::from_slice(&body[..body.len().min(4 * MESSAGE_BYTES_MAX)]).unwrap_or_default();
            let member = |name: &str| -> String {
                said[name].as_str().unwrap_or("it gave no reason").chars().take(MESSAGE_BYTES_MAX).collect()
            };
            Err(ReservationError::Refused { reason: member("reason"), message: member("message") })
        }
        Err(error) => Err(ReservationError::Unreachable(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_reservations_have_the_kinds_that_they_always_had() {
        let refused = |reason: &str| ReservationError::Refused { reason: reason.to_owned(), message: "no".to_owned() };
        let table = [
            (refused("INVALID"), Kind::Invalid),
            (refused("NO_RESERVATION"), Kind::NotFound),
            (refused("NOT_ALLOWED"), Kind::Refused),
            (refused("NOT_ADMITTED"), Kind::Refused),
            (refused("TOO_MANY"), Kind::Refused),
            (refused("of a newer node"), Kind::Refused),
            (ReservationError::Unreachable("gone".to_owned()), Kind::Unreachable),
            (ReservationError::Malformed("no JSON".to_owned()), Kind::Failed),
        ];
        for (error, kind) in table {
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}
