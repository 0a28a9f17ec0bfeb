//! The `Network` port: what L2 and L3 need of a transport. libp2p and the simulated network implement it.

use std::task::{Context, Poll};
use std::time::Duration;

use althing_protocol::PublicKey;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{broadcast, mpsc};

use crate::machine::origin::Origin;
use crate::machine::trust_level::TrustLevel;
use crate::routing::DhtRouting;

/// A stream to a peer: ordered bytes, both ways, closed by dropping it.
pub trait RawStream: AsyncRead + AsyncWrite + Send + Unpin {
    /// Ready once fewer than `below` bytes wait to be sent, over all streams of its connection.
    fn poll_room(&mut self, _: &mut Context<'_>, _below: usize) -> Poll<()> {
        Poll::Ready(())
    }

    /// Bytes that all streams of its connection have sent; `None` where they are not counted.
    fn sent(&self) -> Option<u64> {
        None
    }
}

/// An in-memory pipe has no backlog beyond its own buffer.
impl RawStream for tokio::io::DuplexStream {}

/// Any [`RawStream`].
pub type BoxedStream = Box<dyn RawStream>;

/// Streams that peers open under one protocol name.
pub type Incoming = mpsc::Receiver<(PublicKey, BoxedStream)>;

/// A transport between nodes that authenticates the peer.
pub trait Network: Send + Sync + 'static {
    /// This node.
    fn local(&self) -> PublicKey;
    /// Opens a stream to a connected peer under `protocol`.
    fn open(&self, peer: PublicKey, protocol: &'static str) -> BoxFuture<'_, Result<BoxedStream, OpenError>>;
    /// Accepts the streams that peers open under `protocol`. Once per protocol.
    ///
    /// # Errors
    /// [`AcceptError::Taken`].
    fn accept(&self, protocol: &'static str) -> Result<Incoming, AcceptError>;
    /// Connects to the node that answers at one of `addresses`; to `peer` only, when it is given. Without addresses, the
    /// routing table supplies those of `peer`. Completes at once when that peer is connected already.
    fn dial(&self, peer: Option<PublicKey>, addresses: Vec<String>) -> BoxFuture<'_, Result<PublicKey, DialError>>;
    /// Closes all connections to `peer`.
    fn disconnect(&self, peer: PublicKey);
    /// Changes of peers' connections, from now on. A receiver that lags reads [`Network::peers`].
    fn events(&self) -> broadcast::Receiver<PeerEvent>;
    /// The connected peers.
    fn peers(&self) -> Vec<PeerInfo>;
    /// What [`Network::peers`] says of one of them.
    fn peer(&self, peer: PublicKey) -> Option<PeerInfo> {
        self.peers().into_iter().find(|info| info.peer == peer)
    }
    /// The keys of the connected peers.
    fn connected(&self) -> Vec<PublicKey> {
        self.peers().into_iter().map(|info| info.peer).collect()
    }
    /// Is `peer` connected?
    fn is_connected(&self, peer: PublicKey) -> bool {
        self.connected().contains(&peer)
    }
    /// Where a peer's connection comes from, as far as it is known.
    fn origin(&self, _peer: PublicKey) -> Option<Origin> {
        None
    }
    /// Sets the trust level of a connected peer, which decides whose connections are kept when there are too many.
    fn set_trust(&self, _peer: PublicKey, _trust: TrustLevel) {}
    /// The addresses on which this node listens.
    fn listening(&self) -> Vec<String>;
    /// Where a connected peer says that it can be dialled, as far as that is at the IP address from which it connects. Nothing
    /// as long as it has not said so.
    fn listens_at(&self, _peer: PublicKey) -> Vec<String> {
        Vec::new()
    }
    /// The distributed hash table.
    fn routing(&self) -> &dyn DhtRouting;
    /// The addresses that this node announces to others, the best first.
    fn announced(&self) -> Vec<String> {
        self.listening()
    }
    /// Dials a connected peer once more, at `address`, to test that address; the connection is not kept.
    fn probe(&self, _peer: PublicKey, address: String) -> BoxFuture<'_, Result<(), DialError>> {
        Box::pin(std::future::ready(Err(DialError::Failed(format!("this network has no other way to {address}")))))
    }
    /// Call before asking `peer` to dial back: its inbound connections in the next seconds are treated as probes.
    fn expect_probes(&self, _peer: PublicKey) {}
    /// The probes of `peer` that have arrived since.
    fn probes_seen(&self, _peer: PublicKey) -> usize {
        0
    }
    /// Sets how others can reach this node.
    fn set_reachability(&self, _reachability: Reachability) {}
    /// The relays at which this node holds a reservation.
    fn relays(&self) -> Vec<PublicKey> {
        Vec::new()
    }
}

/// How others can reach a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reachability {
    /// Its confirmed addresses.
    pub announced: Vec<String>,
    /// It cannot be dialled from the internet, and needs a relay.
    pub hidden: bool,
    /// It can be dialled from the internet, and may serve as a relay.
    pub reachable: bool,
}

/// A change of a peer's connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerEvent {
    /// The first connection to it is up.
    Connected(PublicKey),
    /// A direct connection to it was added to one through a relay. New streams use it.
    Moved(PublicKey),
    /// The last connection to it is gone.
    Disconnected(PublicKey),
}

/// A connected peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerInfo {
    /// Its key.
    pub peer: PublicKey,
    /// Connections to it: 1, but for a moment after both sides dialled.
    pub connections: usize,
    /// Its address on the first of them.
    pub address: String,
    /// True when this node dialled.
    pub dialled: bool,
    /// Last measured round trip.
    pub round_trip: Option<Duration>,
}

/// Why no stream could be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No connection to the peer.
    #[error("it is not connected")]
    NotConnected,
    /// The peer does not speak the protocol.
    #[error("it does not speak {0}; it may be an older node")]
    Unsupported(&'static str),
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(String),
    /// It took too long.
    #[error("it did not answer in time")]
    Timeout,
}

/// Why streams cannot be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcceptError {
    /// They are accepted already.
    #[error("streams of {0} are accepted elsewhere in this node")]
    Taken(&'static str),
}

/// Why a peer could not be dialled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// An address that cannot be read.
    #[error("{0:?} is not an address; one looks like /ip4/192.0.2.7/tcp/4001 or /dns/example.org/tcp/4001")]
    Address(String),
    /// No node, or another one, answered.
    #[error("nobody could be reached: {0}")]
    Failed(String),
    /// The node is shutting down.
    #[error("the network is shut down")]
    Stopped,
}
