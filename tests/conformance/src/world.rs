//! Networks of either implementation, and L2 on them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use althing_communication::Origin;
use althing_communication::network::Incoming;
use althing_communication::{
    AcceptError, BoxedStream, Communication, CommunicationConfig, DhtRouting, DialError, Network, OpenError, PeerEvent,
    PeerInfo, TrustLevel, WallClock,
};
use althing_libp2p::{Libp2pConfig, Libp2pNetwork};
use althing_protocol::{OwnerProof, PublicKey, SecretKey};
use althing_simnet::{LinkConfig, SimNet};
use futures::future::BoxFuture;
use tokio::sync::{broadcast, mpsc, watch};

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

/// A node with L2 and a [`Probe`].
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
        membership: Option<Arc<OwnerProof>>,
    ) -> Peer {
        Peer::start_at(network, key, config, watch::channel(membership).1, WallClock::new(|| NOW_MS))
    }

    /// Starts L2 on a network, with a given clock and changing memberships.
    #[must_use]
    pub fn start_at(
        network: Arc<dyn Network>,
        key: &SecretKey,
        config: CommunicationConfig,
        membership: watch::Receiver<Option<Arc<OwnerProof>>>,
        clock: WallClock,
    ) -> Peer {
        let seed = u64::from(key.seed()[0]);
        let streams = config.streams;
        let communication = Communication::start(network, key.clone(), membership, config, clock, entropy(seed));
        let probe = Probe::default();
        communication.serve(PROTOCOL, streams, Arc::new(probe.clone())).expect("nobody else serves it");
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

/// Polls until `holds`; only the test's own timeout ends it.
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

/// The methods that a wrapping network forwards.
macro_rules! forwarded {
    () => {
        fn local(&self) -> PublicKey {
            self.inner.local()
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
        fn origin(&self, peer: PublicKey) -> Option<Origin> {
            self.inner.origin(peer)
        }
        fn set_trust(&self, peer: PublicKey, trust: TrustLevel) {
            self.inner.set_trust(peer, trust);
        }
        fn listening(&self) -> Vec<String> {
            self.inner.listening()
        }
        fn routing(&self) -> &dyn DhtRouting {
            self.inner.routing()
        }
    };
}

impl Network for Counting {
    forwarded!();

    fn open(&self, peer: PublicKey, protocol: &'static str) -> BoxFuture<'_, Result<BoxedStream, OpenError>> {
        if protocol == PROTOCOL {
            self.opened.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.open(peer, protocol)
    }
    fn accept(&self, protocol: &'static str) -> Result<Incoming, AcceptError> {
        self.inner.accept(protocol)
    }
}

/// A network where streams of [`PROTOCOL`] also come in from the test itself, in the name of any peer: what is written to
/// them and not taken is in no network's buffers.
pub struct Injecting {
    /// The network itself.
    pub inner: Arc<dyn Network>,
    sender: mpsc::Sender<(PublicKey, BoxedStream)>,
    incoming: Mutex<Option<Incoming>>,
}

impl Injecting {
    /// Nothing came yet.
    #[must_use]
    pub fn new(inner: Arc<dyn Network>) -> Arc<Injecting> {
        let (sender, incoming) = mpsc::channel(1);
        Arc::new(Injecting { inner, sender, incoming: Mutex::new(Some(incoming)) })
    }

    /// A stream that `peer` opens; so many bytes lie in it that are not taken.
    pub async fn open_as(&self, peer: PublicKey, bytes: usize) -> BoxedStream {
        let (theirs, ours) = tokio::io::duplex(bytes);
        assert!(self.sender.send((peer, Box::new(ours))).await.is_ok(), "it is accepted");
        Box::new(theirs)
    }
}

impl Network for Injecting {
    forwarded!();

    fn open(&self, peer: PublicKey, protocol: &'static str) -> BoxFuture<'_, Result<BoxedStream, OpenError>> {
        self.inner.open(peer, protocol)
    }

    fn accept(&self, protocol: &'static str) -> Result<Incoming, AcceptError> {
        let real = self.inner.accept(protocol)?;
        if protocol != PROTOCOL {
            return Ok(real);
        }
        let incoming = self.incoming.lock().expect("no panic").take().ok_or(AcceptError::Taken(protocol))?;
        // Both come in.
        let (mut real, sender) = (real, self.sender.clone());
        tokio::spawn(async move {
            while let Some(stream) = real.recv().await {
                if sender.send(stream).await.is_err() {
                    return;
                }
            }
        });
        Ok(incoming)
    }
}
