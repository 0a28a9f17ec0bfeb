//! Reservations on other nodes.

use althing_td::AgentFile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Reserves what a contract needs on another node.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReserveRequest {
    /// The other node's DID.
    pub node: String,
    /// The agent file with the contract.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub file: Option<AgentFile>,
    /// Lease, seconds.
    pub lease_s: u64,
    /// The id of a reservation to release instead.
    pub cancel: Option<String>,
}

/// What `POST /reserve` answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ReserveReply {
    /// What a contract needs is held there.
    Reservation(NodeReservation),
    /// It is released.
    Cancellation(ReservationCancellation),
}

/// What another node holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeReservation {
    /// Its id, by which an agent is added there, and which only this node may release.
    pub id: String,
    /// The other node, by its DID.
    pub node: String,
    /// Time until it expires, milliseconds.
    pub lease_ms: u64,
    /// Upper bound of each job's response time, microseconds; none for contracts that are not hard real-time.
    pub response_bound_us: Option<f64>,
    /// The core that the admission test chose; none for contracts that are not hard real-time.
    pub core: Option<u64>,
}

/// A reservation was released.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReservationCancellation {
    /// Its id.
    pub cancelled: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    #[test]
    fn a_reservation_is_told_with_what_it_does_not_promise() {
        let soft = NodeReservation {
            id: "0a".to_owned(),
            node: "did:key:z6Mk".to_owned(),
            lease_ms: 60_000,
            response_bound_us: None,
            core: None,
        };
        let hard = NodeReservation { response_bound_us: Some(812.5), core: Some(1), ..soft.clone() };
        assert_json(
            &ReserveReply::Reservation(soft),
            r#"{"id":"0a","node":"did:key:z6Mk","leaseMs":60000,"responseBoundUs":null,"core":null}"#,
        );
        assert_json(
            &ReserveReply::Reservation(hard),
            r#"{"id":"0a","node":"did:key:z6Mk","leaseMs":60000,"responseBoundUs":812.5,"core":1}"#,
        );
        let released = ReservationCancellation { cancelled: "0a".to_owned() };
        assert_json(&ReserveReply::Cancellation(released), r#"{"cancelled":"0a"}"#);
    }
}
