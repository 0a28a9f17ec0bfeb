//! Streams under protocol names, on the swarm's connections. `libp2p-stream` has a queue of one incoming stream and drops more,
//! which loses some of many simultaneous calls; here streams queue.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use althing_communication::network::Incoming;
use althing_communication::{AcceptError, BoxedStream, OpenError};
use althing_protocol::PublicKey;
use libp2p::PeerId;
use libp2p::core::transport::PortUse;
use libp2p::core::upgrade::{InboundUpgrade, OutboundUpgrade, UpgradeInfo};
use libp2p::core::{Endpoint, Multiaddr};
use libp2p::swarm::handler::{ConnectionEvent, DialUpgradeError, FullyNegotiatedInbound, FullyNegotiatedOutbound};
use libp2p::swarm::{
    ConnectionDenied, ConnectionHandler, ConnectionHandlerEvent, ConnectionId, FromSwarm, NetworkBehaviour, Stream,
    StreamUpgradeError, SubstreamProtocol, THandlerInEvent, THandlerOutEvent, ToSwarm,
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::compat::FuturesAsyncReadCompatExt as _;

use crate::egress::{Egress, Egresses, Measured};
use crate::identity::public_key;

/// Streams that wait to be accepted under one protocol: as many as yamux lets a peer open before one is acknowledged.
const ACCEPT_QUEUE: usize = 256;
/// Streams that wait to be opened on one connection.
const OPEN_QUEUE: usize = 64;

/// A request to open a stream.
pub(crate) struct Opening {
    protocol: &'static str,
    done: oneshot::Sender<Result<Stream, OpenError>>,
}

/// The queues of incoming and outgoing streams.
#[derive(Default)]
struct Queues {
    accepting: BTreeMap<&'static str, mpsc::Sender<(PublicKey, BoxedStream)>>,
    /// Their names, which each connection reads at every poll.
    names: Arc<[&'static str]>,
    opening: BTreeMap<ConnectionId, Opener>,
}

impl Queues {
    /// The protocols that are accepted now.
    fn names(&mut self) -> Arc<[&'static str]> {
        if self.accepting.values().any(mpsc::Sender::is_closed) {
            self.accepting.retain(|_, sender| !sender.is_closed());
            self.names = self.accepting.keys().copied().collect();
        }
        self.names.clone()
    }
}

/// Opens streams on one connection.
#[derive(Clone)]
struct Opener {
    wanted: mpsc::Sender<Opening>,
    egress: Option<Arc<Egress>>,
}

type Shared = Arc<Mutex<Queues>>;

fn lock(shared: &Shared) -> MutexGuard<'_, Queues> {
    shared.lock().expect("no holder of the streams' queues panics")
}

/// Opens and accepts streams.
#[derive(Clone, Default)]
pub(crate) struct Control {
    shared: Shared,
    /// The backlogs of new connections.
    pub egresses: Egresses,
}

impl Control {
    /// Opens a stream on a connection.
    pub async fn open(&self, connection: ConnectionId, protocol: &'static str) -> Result<BoxedStream, OpenError> {
        let gone = || OpenError::Io("the connection was closed".to_owned());
        let Opener { wanted, egress } = lock(&self.shared).opening.get(&connection).cloned().ok_or_else(gone)?;
        let (done, opened) = oneshot::channel();
        wanted.send(Opening { protocol, done }).await.map_err(|_| gone())?;
        // A request sent while the receiver is dropped stays in the channel, with its `done`, as long as a sender exists.
        drop(wanted);
        let stream = opened.await.map_err(|_| gone())??;
        Ok(Box::new(Measured { stream: stream.compat(), egress }))
    }

    /// Accepts the streams that peers open under `protocol`.
    pub fn accept(&self, protocol: &'static str) -> Result<Incoming, AcceptError> {
        let mut queues = lock(&self.shared);
        if queues.accepting.get(protocol).is_some_and(|sender| !sender.is_closed()) {
            return Err(AcceptError::Taken(protocol));
        }
        let (sender, receiver) = mpsc::channel(ACCEPT_QUEUE);
        queues.accepting.insert(protocol, sender);
        queues.names = queues.accepting.keys().copied().collect();
        Ok(receiver)
    }
}

/// The network behaviour.
pub(crate) struct Behaviour {
    control: Control,
}

impl Behaviour {
    pub fn new(control: &Control) -> Behaviour {
        Behaviour { control: control.clone() }
    }

    fn handler(&self, connection: ConnectionId, peer: PeerId, dialled: bool) -> Handler {
        let (sender, wanted) = mpsc::channel(OPEN_QUEUE);
        let peer = public_key(peer);
        let egress = peer.and_then(|peer| self.control.egresses.claim(peer, dialled));
        let opener = Opener { wanted: sender, egress: egress.clone() };
        lock(&self.control.shared).opening.insert(connection, opener);
        Handler { connection, peer, egress, control: self.control.clone(), wanted }
    }
}

impl NetworkBehaviour for Behaviour {
    type ConnectionHandler = Handler;
    type ToSwarm = Infallible;

    fn handle_established_inbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<Handler, ConnectionDenied> {
        Ok(self.handler(connection, peer, false))
    }

    fn handle_established_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<Handler, ConnectionDenied> {
        Ok(self.handler(connection, peer, true))
    }

    fn on_swarm_event(&mut self, _: FromSwarm<'_>) {}

    fn on_connection_handler_event(&mut self, _: PeerId, _: ConnectionId, event: THandlerOutEvent<Self>) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Infallible, THandlerInEvent<Self>>> {
        Poll::Pending
    }
}

/// The handler of one connection.
pub(crate) struct Handler {
    connection: ConnectionId,
    /// `None` for a peer without an ed25519 identity: the connection is about to be closed.
    peer: Option<PublicKey>,
    egress: Option<Arc<Egress>>,
    control: Control,
    wanted: mpsc::Receiver<Opening>,
}

impl Drop for Handler {
    fn drop(&mut self) {
        lock(&self.control.shared).opening.remove(&self.connection);
    }
}

/// The accepted protocols, for negotiation by multistream-select.
pub(crate) struct Names(Arc<[&'static str]>);

/// Iterates over [`Names`].
pub(crate) struct NamesIter(Arc<[&'static str]>, usize);

impl Iterator for NamesIter {
    type Item = &'static str;

    fn next(&mut self) -> Option<&'static str> {
        let name = self.0.get(self.1).copied();
        self.1 += 1;
        name
    }
}

impl UpgradeInfo for Names {
    type Info = &'static str;
    type InfoIter = NamesIter;

    fn protocol_info(&self) -> NamesIter {
        NamesIter(self.0.clone(), 0)
    }
}

impl InboundUpgrade<Stream> for Names {
    type Output = (Stream, &'static str);
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Infallible>>;

    fn upgrade_inbound(self, stream: Stream, name: &'static str) -> Self::Future {
        ready(Ok((stream, name)))
    }
}

/// The one protocol to negotiate.
pub(crate) struct Name(&'static str);

impl UpgradeInfo for Name {
    type Info = &'static str;
    type InfoIter = std::iter::Once<&'static str>;

    fn protocol_info(&self) -> Self::InfoIter {
        std::iter::once(self.0)
    }
}

impl OutboundUpgrade<Stream> for Name {
    type Output = Stream;
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Infallible>>;

    fn upgrade_outbound(self, stream: Stream, _: &'static str) -> Self::Future {
        ready(Ok(stream))
    }
}

impl ConnectionHandler for Handler {
    type FromBehaviour = Infallible;
    type ToBehaviour = Infallible;
    type InboundProtocol = Names;
    type OutboundProtocol = Name;
    type InboundOpenInfo = ();
    type OutboundOpenInfo = Opening;

    fn listen_protocol(&self) -> SubstreamProtocol<Names, ()> {
        SubstreamProtocol::new(Names(lock(&self.control.shared).names()), ())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionHandlerEvent<Name, Opening, Infallible>> {
        match self.wanted.poll_recv(cx) {
            Poll::Ready(Some(opening)) => {
                let protocol = SubstreamProtocol::new(Name(opening.protocol), opening);
                Poll::Ready(ConnectionHandlerEvent::OutboundSubstreamRequest { protocol })
            }
            // No more requests, or none yet.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    fn on_behaviour_event(&mut self, event: Infallible) {
        match event {}
    }

    fn on_connection_event(&mut self, event: ConnectionEvent<'_, Names, Name, (), Opening>) {
        match event {
            ConnectionEvent::FullyNegotiatedInbound(FullyNegotiatedInbound { protocol: (stream, name), .. }) => {
                self.accepted(stream, name);
            }
            // If the caller is gone, this closes the stream.
            ConnectionEvent::FullyNegotiatedOutbound(FullyNegotiatedOutbound { protocol: stream, info }) => {
                let _ = info.done.send(Ok(stream));
            }
            ConnectionEvent::DialUpgradeError(DialUpgradeError { info, error }) => {
                let reason = match error {
                    StreamUpgradeError::NegotiationFailed => OpenError::Unsupported(info.protocol),
                    StreamUpgradeError::Timeout => OpenError::Timeout,
                    StreamUpgradeError::Io(error) => OpenError::Io(error.to_string()),
                    StreamUpgradeError::Apply(never) => match never {},
                };
                let _ = info.done.send(Err(reason));
            }
            _ => {}
        }
    }
}

impl Handler {
    fn accepted(&self, stream: Stream, name: &'static str) {
        let acceptor = lock(&self.control.shared).accepting.get(name).cloned();
        let (Some(peer), Some(acceptor)) = (self.peer, acceptor) else { return };
        let stream = Measured { stream: stream.compat(), egress: self.egress.clone() };
        if acceptor.try_send((peer, Box::new(stream))).is_err() {
            tracing::warn!(%peer, protocol = name, "accept queue is full ({ACCEPT_QUEUE} streams); stream closed");
        }
    }
}
