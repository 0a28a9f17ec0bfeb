//! Reservations on other nodes.

use althing_td::AgentFile;
use serde::{Deserialize, Serialize};

/// Reserves what a contract needs on another node.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReserveRequest {
    /// The other node's DID.
    pub node: String,
    /// The agent file with the contract.
    pub file: Option<AgentFile>,
    /// Lease, seconds.
    pub lease_s: u64,
    /// The id of a reservation to release instead.
    pub cancel: Option<String>,
}
