//! Capacities and times of the libp2p shell.

use std::time::Duration;

use althing_communication::WallClock;
use althing_protocol::NetworkKey;

/// How the shell behaves.
#[derive(Debug, Clone)]
pub struct Libp2pConfig {
    /// The network's name: each has a table of its own.
    pub network: String,
    /// The key that all of the network's nodes share. With it nodes speak over TCP only: libp2p's QUIC has no such key.
    pub network_key: Option<NetworkKey>,
    /// The time of day, by which values of the table end.
    pub clock: WallClock,
    /// Multiaddresses to listen on.
    pub listen: Vec<String>,
    /// Pass connections on to nodes that nobody can dial, when this one can be dialled.
    pub relay: bool,
    /// Connections that others may have opened to us at one time; an origin has its share ([`admission`]).
    ///
    /// [`admission`]: althing_communication::admission
    pub incoming_max: usize,
    /// Connections being opened to us at one time over each transport; of one too many, a random one of the origin with
    /// most is ended.
    pub pending_incoming_max: usize,
    /// A dial that takes longer has failed.
    pub dial_timeout: Duration,
    /// How often a connection is probed that nothing is said on; where something is, the kernel notices sooner that it
    /// does not arrive. In a mesh of a hundred nodes probes of all connections each 2 s would take most of what the nodes
    /// take.
    pub ping_interval: Duration,
    /// A probe that is not answered within this has failed; the second failure in a row ends the connection.
    pub ping_timeout: Duration,
    /// A connection without streams is kept for this long.
    pub idle_timeout: Duration,
    /// How long a peer stays out that wrote rubbish to the table.
    pub shut_out: Duration,
}

impl Libp2pConfig {
    /// What does in the network of that name.
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
            shut_out: Duration::from_secs(10 * 60),
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
