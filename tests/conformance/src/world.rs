//! Networks of either implementation, and L2 on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use althing_communication::network::Incoming;
use althing_communication::sim::{LinkConfig, SimNet};
use althing_communication::{
    AcceptError, BoxedStream, Communication, CommunicationConfig, DialError, Network, OpenError, PeerEvent, PeerInfo,
    Routing, WallClock,
};
use althing_libp2p::{Libp2pConfig, Libp2pNetwork};
use althing_protocol::{PublicKey, SecretKey};
use futures::future::BoxFuture;
use tokio::sync::{broadcast, watch};

use crate::probe::Probe;
use crate::{NETWORK, NOW_MS, PROTOCOL, entropy};

/// An implementation of the port, which makes nodes.
pub enum World {
    /// The simulated network.
    Simulated(SimNet),
    /// libp2p on the loopback, over tcp.
    Libp2p,
    /// The same, over quic.
    Quic,
}

impl World {
    /// The simulated network with links as they are by default.
    #[must_use]
    pub fn simulated() -> World {
        World::Simulated(SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS))
    }

    /// A node that listens.
    pub async fn join(&self, key: &SecretKey) -> Arc<dyn Network> {
        match self {
            World::Simulated(net) => net.join(key.public()),
            World::Libp2p | World::Quic => {
                let listen = match self {
                    World::Quic => "/ip4/127.0.0.1/udp/0/quic-v1",
                    _ => "/ip4/127.0.0.1/tcp/0",
                };
                let listen = vec![listen.to_owned()];
                let config = Libp2pConfig { listen, ..Libp2pConfig::new(NETWORK, WallClock::new(|| NOW_MS)) };
                Arc::new(Libp2pNetwork::start(key, config).await.expect("a network on the loopback"))
            }
        }
    }
}

/// Connects `from` to `to`.
pub async fn connect(from: &Arc<dyn Network>, to: &Arc<dyn Network>) {
    from.dial(Some(to.local()), to.listening()).await.expect("a connection");
}

/// A node with L2 and a probe that answers.
pub struct Peer {
    /// L2.
    pub communication: Communication,
    /// What answers on [`PROTOCOL`].
    pub probe: Probe,
}

impl Peer {
    /// Starts L2 on a new node.
    pub async fn start(world: &World, key: &SecretKey, config: CommunicationConfig) -> Peer {
        Peer::start_on(world.join(key).await, key, config, None)
    }

    /// Starts L2 on a network.
    #[must_use]
    pub fn start_on(
        network: Arc<dyn Network>,
        key: &SecretKey,
        config: CommunicationConfig,
        membership: Option<Vec<u8>>,
    ) -> Peer {
        Peer::start_at(network, key, config, watch::channel(membership).1, WallClock::new(|| NOW_MS))
    }

    /// Starts L2 on a network, with a time of day and memberships that change.
    #[must_use]
    pub fn start_at(
        network: Arc<dyn Network>,
        key: &SecretKey,
        config: CommunicationConfig,
        membership: watch::Receiver<Option<Vec<u8>>>,
        clock: WallClock,
    ) -> Peer {
        let seed = u64::from(key.seed()[0]);
        let communication = Communication::start(network, key.clone(), membership, config, clock, entropy(seed));
        let probe = Probe::default();
        communication.serve(PROTOCOL, Arc::new(probe.clone())).expect("nobody else serves it");
        Peer { communication, probe }
    }

    /// Its key.
    #[must_use]
    pub fn id(&self) -> PublicKey {
        self.network().local()
    }

    /// The network below.
    #[must_use]
    pub fn network(&self) -> &Arc<dyn Network> {
        self.communication.network()
    }
}

/// Two nodes with L2, the first connected to the second.
pub async fn pair(world: &World) -> (Peer, Peer) {
    let a = Peer::start(world, &crate::key(1), CommunicationConfig::default()).await;
    let b = Peer::start(world, &crate::key(2), CommunicationConfig::default()).await;
    connect(a.network(), b.network()).await;
    (a, b)
}

/// Waits until `holds`, looking again and again; the test's own limit ends it.
pub async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..4_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("it never came: {what}");
}

/// A network that counts the streams it opens for [`PROTOCOL`].
pub struct Counting {
    /// The network itself.
    pub inner: Arc<dyn Network>,
    /// Streams opened so far.
    pub opened: AtomicUsize,
}

impl Counting {
    /// Counts from 0.
    #[must_use]
    pub fn new(inner: Arc<dyn Network>) -> Arc<Counting> {
        Arc::new(Counting { inner, opened: AtomicUsize::new(0) })
    }
}

impl Network for Counting {
    fn local(&self) -> PublicKey {
        self.inner.local()
    }
    fn open(&self, peer: PublicKey, protocol: &'static str) -> BoxFuture<'_, Result<BoxedStream, OpenError>> {
        if protocol == PROTOCOL {
            self.opened.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.open(peer, protocol)
    }
    fn accept(&self, protocol: &'static str) -> Result<Incoming, AcceptError> {
        self.inner.accept(protocol)
    }
    fn dial(&self, peer: Option<PublicKey>, addresses: Vec<String>) -> BoxFuture<'_, Result<PublicKey, DialError>> {
        self.inner.dial(peer, addresses)
    }
    fn disconnect(&self, peer: PublicKey) {
        self.inner.disconnect(peer);
    }
    fn events(&self) -> broadcast::Receiver<PeerEvent> {
        self.inner.events()
    }
    fn peers(&self) -> Vec<PeerInfo> {
        self.inner.peers()
    }
    fn listening(&self) -> Vec<String> {
        self.inner.listening()
    }
    fn routing(&self) -> &dyn Routing {
        self.inner.routing()
    }
}
