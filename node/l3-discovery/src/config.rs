//! Times and capacities of L3, each with its reason.

use std::time::Duration;

/// How L3 behaves.
#[derive(Debug, Clone)]
pub struct DiscoveryConfig {
    /// The network's name.
    pub network: String,
    /// Placements are pushed this often, and at once on connect and on change.
    pub heartbeat: Duration,
    /// How long a placement is believed after it came: three heartbeats, so that two may be lost.
    pub ttl: Duration,
    /// Connected peers that placements are pushed to.
    pub push_peers_max: usize,
    /// A push that takes longer is given up; the next heartbeat repeats it.
    pub push_timeout: Duration,
    /// A request for evidence that takes longer is given up.
    pub fetch_timeout: Duration,
    /// Requests for evidence to one node at a time.
    pub fetches_per_node: usize,
    /// Nodes that the catalogue holds; more are refused.
    pub nodes_max: usize,
    /// Addresses that are dialled on start and kept connected.
    pub bootstrap: Vec<String>,
    /// Wait before a lost or unreachable node is dialled again; doubles up to `redial_max`.
    pub redial_min: Duration,
    /// Longest wait.
    pub redial_max: Duration,
    /// A node seen on the LAN that has no connection is forgotten after this.
    pub sighting_ttl: Duration,
}

impl Default for DiscoveryConfig {
    fn default() -> Self {
        DiscoveryConfig {
            network: "althing".to_owned(),
            heartbeat: Duration::from_secs(2),
            ttl: Duration::from_secs(6),
            push_peers_max: 1_024,
            push_timeout: Duration::from_secs(2),
            fetch_timeout: Duration::from_secs(5),
            fetches_per_node: 8,
            nodes_max: 4_096,
            bootstrap: Vec::new(),
            redial_min: Duration::from_millis(500),
            redial_max: Duration::from_secs(2),
            sighting_ttl: Duration::from_secs(600),
        }
    }
}
