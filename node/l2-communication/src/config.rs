//! Capacities and times of L2, each with its reason.

use std::time::Duration;

use crate::machine::frame_budget::FrameLimits;
use crate::stream_slots::StreamLimits;

/// How L2 behaves.
#[derive(Debug, Clone)]
pub struct CommunicationConfig {
    /// The network's name: nodes of another name refuse each other's streams.
    pub network: String,
    /// Limits on the streams of agents' calls, and of each protocol that this node does not serve. The other protocols set
    /// their own.
    pub streams: StreamLimits,
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
            streams: StreamLimits::default(),
            stranger_rate: 200,
            frame_bytes: FrameLimits::default(),
            idle_timeout: Duration::from_secs(300),
            stranger_idle_timeout: Duration::from_secs(30),
            frame_timeout: Duration::from_secs(10),
            default_deadline: Duration::from_secs(60),
        }
    }
}
