//! Capacities and times of L2, each with its reason.

use std::time::Duration;

use crate::machine::frame_budget::FrameLimits;
use crate::stream_slots::StreamLimits;

/// How L2 behaves.
#[derive(Debug, Clone)]
pub struct CommunicationConfig {
    /// The network's name: nodes of another name refuse each other's streams.
    pub network: String,
    /// Streams that one peer may have open to this node, and this node to it; of more, ours queue and theirs are closed.
    /// Half of what yamux allows on a connection.
    pub streams_per_peer_max: usize,
    /// Streams that all peers together may have open to this node; beyond, the stream of a less trusted peer, or of the
    /// one with most streams, is closed.
    pub streams_max: usize,
    /// Streams to one peer and protocol that are kept open for the next call.
    pub idle_streams_max: usize,
    /// Requests a second of each stranger, with bursts of twice as many; more are delayed. 0: no limit. Before
    /// [`crate::Communication::trusts`] is called nobody is a stranger.
    pub stranger_rate: u32,
    /// Bytes of incomplete frames; a frame up to 4 KiB is not counted.
    pub frame_bytes: FrameLimits,
    /// A stream without a call is closed after this.
    pub idle_timeout: Duration,
    /// A stranger's after this, which is longer than nodes keep idle streams open.
    pub stranger_idle_timeout: Duration,
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
            frame_bytes: FrameLimits::default(),
            idle_timeout: Duration::from_secs(300),
            stranger_idle_timeout: Duration::from_secs(30),
            frame_timeout: Duration::from_secs(10),
            default_deadline: Duration::from_secs(60),
        }
    }
}

impl CommunicationConfig {
    /// The limits that protocols without limits of their own share.
    pub(crate) fn common_limits(&self) -> StreamLimits {
        StreamLimits {
            per_peer_max: self.streams_per_peer_max,
            total_max: self.streams_max,
            idle_max: self.idle_streams_max,
        }
    }
}
