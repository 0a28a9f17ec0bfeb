//! Capacities and times of L2, each with its reason.

use std::time::Duration;

/// How L2 behaves.
#[derive(Debug, Clone)]
pub struct CommunicationConfig {
    /// The network's name: nodes of another name refuse each other's streams.
    pub network: String,
    /// Streams that one peer may have open towards us, and we towards it; beyond, ours queue and theirs are closed.
    /// Half of what yamux allows on a connection.
    pub streams_per_peer_max: usize,
    /// Streams that all peers together may have open towards us.
    pub streams_max: usize,
    /// Streams to one peer and protocol that are kept open for the next call.
    pub idle_streams_max: usize,
    /// Requests a second of each peer that is not trusted, and twice as many at once; more wait. 0: any number. Where
    /// nobody has said whom this node trusts ([`crate::Communication::trusts`]), nobody waits.
    pub stranger_rate: u32,
    /// A stream without a call is closed after this.
    pub idle_timeout: Duration,
    /// A peer must open a stream, answer its opening and finish a frame that it began within this.
    pub frame_timeout: Duration,
    /// A call without a deadline of its own gets this one. Streams have none.
    pub default_deadline: Duration,
}

impl Default for CommunicationConfig {
    fn default() -> Self {
        CommunicationConfig {
            network: "althing".to_owned(),
            streams_per_peer_max: 256,
            streams_max: 4_096,
            idle_streams_max: 64,
            stranger_rate: 200,
            idle_timeout: Duration::from_secs(300),
            frame_timeout: Duration::from_secs(10),
            default_deadline: Duration::from_secs(60),
        }
    }
}
