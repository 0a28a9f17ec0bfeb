//! The `Network` port: what L2 and L3 need of a transport. Two shells give it: libp2p and the simulated network.

use std::task::{Context, Poll};
use std::time::Duration;

use althing_protocol::PublicKey;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{broadcast, mpsc};

use crate::admission::Origin;
use crate::machine::nearness::Nearness;
use crate::routing::Routing;

/// A stream to a peer: ordered bytes, both ways, closed by dropping it.
pub trait RawStream: AsyncRead + AsyncWrite + Send + Unpin {
    /// Ready once fewer than `below` bytes, of all the streams of its connection together, wait to be sent.
    fn poll_room(&mut self, _: &mut Context<'_>, _below: usize) -> Poll<()> {
        Poll::Ready(())
    }

    /// Bytes that the streams of its connection sent so far; none where nobody counts.
    fn sent(&self) -> Option<u64> {
        None
    }
}

/// In memory nothing waits but what the pipe itself holds.
impl RawStream for tokio::io::DuplexStream {}

/// Any [`RawStream`].
pub type BoxedStream = Box<dyn RawStream>;

/// Streams that peers open under one protocol name.
pub type Incoming = mpsc::Receiver<(PublicKey, BoxedStream)>;

/// A transport between nodes that proves who is at the other end.
pub trait Network: Send + Sync + 'static {
    /// This node.
    fn local(&self) -> PublicKey;
    /// Opens a stream to a connected peer under `protocol`.
    fn open(&self, peer: PublicKey, protocol: &'static str) -> BoxFuture<'_, Result<BoxedStream, OpenError>>;
    /// Takes the streams that peers open under `protocol`. Once per protocol.
    ///
    /// # Errors
    /// [`AcceptError::Taken`].
    fn accept(&self, protocol: &'static str) -> Result<Incoming, AcceptError>;
    /// Connects to whoever answers at one of `addresses`; to `peer` only, when it is given. Without addresses, to `peer`
    /// where the table knows it to be. Completes at once when that peer is connected already.
    fn dial(&self, peer: Option<PublicKey>, addresses: Vec<String>) -> BoxFuture<'_, Result<PublicKey, DialError>>;
    /// Closes all connections to `peer`.
    fn disconnect(&self, peer: PublicKey);
    /// Who comes and goes, from now on. A receiver that lags asks [`Network::peers`].
    fn events(&self) -> broadcast::Receiver<PeerEvent>;
    /// Who is connected now.
    fn peers(&self) -> Vec<PeerInfo>;
    /// The same, and no more of them than who they are.
    fn connected(&self) -> Vec<PublicKey> {
        self.peers().into_iter().map(|info| info.peer).collect()
    }
    /// Is that peer?
    fn is_connected(&self, peer: PublicKey) -> bool {
        self.connected().contains(&peer)
    }
    /// Where a peer's connection comes from, as far as it is known.
    fn origin(&self, _peer: PublicKey) -> Option<Origin> {
        None
    }
    /// How near a connected peer is to this node: whose connections stay when there are too many.
    fn regard(&self, _peer: PublicKey, _nearness: Nearness) {}
    /// Where this node can be dialled, as far as it knows.
    fn listening(&self) -> Vec<String>;
    /// The table in which nodes keep for each other where things are.
    fn routing(&self) -> &dyn Routing;
    /// Where others are told that this node can be dialled, the best first.
    fn announced(&self) -> Vec<String> {
        self.listening()
    }
    /// Dials a connected peer anew at `address`, to see whether that can be done; the connection is not kept.
    fn probe(&self, _peer: PublicKey, address: String) -> BoxFuture<'_, Result<(), DialError>> {
        Box::pin(std::future::ready(Err(DialError::Failed(format!("this network has no other way to {address}")))))
    }
    /// `peer` is asked to do that with this node: its next connections are none to keep, for a while.
    fn expect_probes(&self, _peer: PublicKey) {}
    /// How many of them came.
    fn probes_seen(&self, _peer: PublicKey) -> usize {
        0
    }
    /// What was found out about how others can reach this node.
    fn stand(&self, _standing: Standing) {}
    /// The nodes that pass on connections to this one.
    fn relays(&self) -> Vec<PublicKey> {
        Vec::new()
    }
}

/// How others can reach a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Addresses that were confirmed.
    pub announced: Vec<String>,
    /// Nobody on the internet comes through: it needs others that pass connections on.
    pub hidden: bool,
    /// It can be dialled from the internet: it may pass connections on.
    pub reachable: bool,
}

/// A change of a peer's connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerEvent {
    /// The first connection to it is up.
    Connected(PublicKey),
    /// There is a better connection to it now: a direct one beside one through a relay. New streams go over that.
    Moved(PublicKey),
    /// The last connection to it is gone.
    Disconnected(PublicKey),
}

/// A connected peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerInfo {
    /// Who.
    pub peer: PublicKey,
    /// Connections to it: 1 once things have settled.
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
    /// Somebody accepts them already.
    #[error("streams of {0} are accepted elsewhere in this node")]
    Taken(&'static str),
}

/// Why a peer could not be dialled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// An address that cannot be read.
    #[error("{0:?} is not an address; one looks like /ip4/192.0.2.7/tcp/4001 or /dns/example.org/tcp/4001")]
    Address(String),
    /// Nobody, or somebody else, answered.
    #[error("nobody could be reached: {0}")]
    Failed(String),
    /// The node is shutting down.
    #[error("the network is shut down")]
    Stopped,
}
