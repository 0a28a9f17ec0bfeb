//! Times and capacities of L3, each with its reason.

use std::time::Duration;

use crate::machine::rank::Bounds;

/// How L3 behaves.
#[derive(Debug, Clone)]
pub struct DiscoveryConfig {
    /// The network's name.
    pub network: String,
    /// Placements are pushed this often, and at once on connect and on change.
    pub heartbeat: Duration,
    /// How long a placement is believed after it came: three heartbeats, so that two may be lost.
    pub ttl: Duration,
    /// Connected peers that placements are pushed to with each heartbeat; the others ask.
    pub push_peers_max: usize,
    /// A push that takes longer is given up; the next heartbeat repeats it.
    pub push_timeout: Duration,
    /// A request for evidence that takes longer is given up.
    pub fetch_timeout: Duration,
    /// Requests for evidence to one node at a time.
    pub fetches_per_node: usize,
    /// What the catalogue holds: nodes, and bytes of what is kept of them.
    pub bounds: Bounds,
    /// DHT records are published again after this: a third of their time to live.
    pub republish: Duration,
    /// A DHT look-up that takes longer is given up.
    pub lookup_patience: Duration,
    /// Candidates that one look-up asks.
    pub candidates_max: usize,
    /// Connected peers that are asked, beside those, when a look-up has found nothing.
    pub peers_asked_max: usize,
    /// How long candidates are waited for after a look-up that found something.
    pub ask_patience: Duration,
    /// The same, as long as none of them has confirmed anything.
    pub first_patience: Duration,
    /// When there is something to show, nothing more is waited for after this.
    pub enough: Duration,
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
            push_peers_max: 32,
            push_timeout: Duration::from_secs(2),
            fetch_timeout: Duration::from_secs(5),
            fetches_per_node: 8,
            bounds: Bounds::for_nodes(4_096),
            republish: Duration::from_secs(40 * 60),
            lookup_patience: Duration::from_secs(3),
            candidates_max: 20,
            peers_asked_max: 20,
            ask_patience: Duration::from_millis(300),
            first_patience: Duration::from_secs(2),
            enough: Duration::from_secs(1),
            bootstrap: Vec::new(),
            redial_min: Duration::from_millis(500),
            redial_max: Duration::from_secs(2),
            sighting_ttl: Duration::from_secs(600),
        }
    }
}
