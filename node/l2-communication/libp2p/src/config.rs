//! Capacities and times of the libp2p shell.

use std::time::Duration;

use althing_communication::WallClock;
use althing_protocol::NetworkKey;

/// How the shell behaves.
#[derive(Debug, Clone)]
pub struct Libp2pConfig {
    /// The network's name: each network has a DHT of its own.
    pub network: String,
    /// The pre-shared key of a private network. With it nodes use TCP only: libp2p's QUIC does not support one.
    pub network_key: Option<NetworkKey>,
    /// The time of day, by which values of the DHT expire.
    pub clock: WallClock,
    /// Multiaddresses to listen on.
    pub listen: Vec<String>,
    /// Serve as a relay for nodes that cannot be dialled, when this one can.
    pub relay: bool,
    /// Established inbound connections; each origin has its share ([`connection_admission`]).
    ///
    /// [`connection_admission`]: althing_communication::connection_admission
    pub incoming_max: usize,
    /// Pending inbound connections over each transport; of one too many, a random one of the origin with most is aborted.
    pub pending_incoming_max: usize,
    /// A dial that takes longer has failed.
    pub dial_timeout: Duration,
    /// The interval of pings, which find dead idle connections; on busy ones the kernel notices sooner. In a mesh of a hundred
    /// nodes pings every 2 s would take most of the nodes' processor time.
    pub ping_interval: Duration,
    /// A ping that is not answered within this has failed; the second failure in a row closes the connection.
    pub ping_timeout: Duration,
    /// A connection without streams is kept for this long.
    pub idle_timeout: Duration,
    /// How long a peer is banned that repeatedly stores malformed or forged records in the DHT.
    pub ban_duration: Duration,
}

impl Libp2pConfig {
    /// The defaults, for the network of that name.
    #[must_use]
    pub fn new(network: &str, clock: WallClock) -> Libp2pConfig {
        Libp2pConfig {
            network: network.to_owned(),
            network_key: None,
            clock,
            listen: vec!["/ip4/0.0.0.0/tcp/0".to_owned()],
            relay: true,
            incoming_max: 512,
            pending_incoming_max: 256,
            dial_timeout: Duration::from_secs(4),
            ping_interval: Duration::from_secs(15),
            ping_timeout: Duration::from_secs(4),
            idle_timeout: Duration::from_secs(60),
            ban_duration: Duration::from_secs(10 * 60),
        }
    }
}

/// Why the shell could not start.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// An address that cannot be read.
    #[error("cannot listen on {0:?}: it is not a multiaddress; one looks like /ip4/0.0.0.0/tcp/4001")]
    Address(String),
    /// The address is taken, not ours, or not permitted.
    #[error("cannot listen on {address}: {reason}; choose another port, or 0 for a free one")]
    Io {
        /// Which.
        address: String,
        /// The system's reason.
        reason: String,
    },
    /// The transport could not be built.
    #[error("the transport could not be built: {0}")]
    Transport(String),
}
