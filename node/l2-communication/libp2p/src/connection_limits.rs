//! Limits on inbound connections, pending and established; see [`althing_communication::connection_admission`].
//!
//! libp2p's own limits refuse every new connection when all slots are taken, and a silent peer holds its slot until a timeout: one
//! machine with that many sockets would block all others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use althing_communication::connection_admission::{EstablishedConnections, PendingConnections};
use althing_communication::{Origin, TrustLevel};
use futures::FutureExt as _;
use futures::future::{AbortHandle, AbortRegistration, Abortable, BoxFuture};
use libp2p::core::transport::{DialOpts, ListenerId, PortUse, Transport, TransportError, TransportEvent};
use libp2p::core::{ConnectedPoint, Endpoint};
use libp2p::swarm::{
    CloseConnection, ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
    THandlerOutEvent, ToSwarm, dummy,
};
use libp2p::{Multiaddr, PeerId};
use tokio::time::Instant;

use crate::lookups::ip;

/// The origin of a peer at `address`; that of the relay, where it leads through one.
pub(crate) fn origin_of(address: &Multiaddr) -> Option<Origin> {
    if crate::is_relayed(address) { Some(Origin::Relayed(ip(address))) } else { ip(address).map(Origin::of) }
}

/// The origin of an inbound connection. For a relayed one `local` has the address of the relay.
fn origin(local: &Multiaddr, remote: &Multiaddr) -> Origin {
    match ip(remote) {
        Some(ip) if !crate::is_relayed(local) && !crate::is_relayed(remote) => Origin::of(ip),
        _ => Origin::Relayed(ip(local)),
    }
}

/// A transport that limits its pending inbound connections, and aborts one of too many.
pub(crate) struct PendingConnectionGate<T> {
    inner: T,
    next: u64,
    /// Draws which connection is aborted.
    random: RandomState,
    slots: Arc<Mutex<Slots>>,
}

struct Slots {
    pending: PendingConnections<u64>,
    aborts: BTreeMap<u64, AbortHandle>,
}

/// The slot of one connection, which dropping it frees.
struct Slot {
    number: u64,
    origin: Origin,
    slots: Arc<Mutex<Slots>>,
}

fn locked(slots: &Mutex<Slots>) -> MutexGuard<'_, Slots> {
    slots.lock().expect("no holder of the slots panics")
}

impl Drop for Slot {
    fn drop(&mut self) {
        let abort = {
            let mut slots = locked(&self.slots);
            slots.pending.remove(self.number, self.origin);
            slots.aborts.remove(&self.number)
        };
        // Dropped without the lock, since it may drop a waker.
        drop(abort);
    }
}

impl<T> PendingConnectionGate<T> {
    /// At most `max` inbound connections of `inner` are pending at one time.
    pub fn new(inner: T, max: usize) -> PendingConnectionGate<T> {
        let slots = Slots { pending: PendingConnections::new(max), aborts: BTreeMap::new() };
        PendingConnectionGate { inner, next: 0, random: RandomState::new(), slots: Arc::new(Mutex::new(slots)) }
    }

    /// A slot for a connection from `origin`, and the registration that aborts it for another one.
    fn take(&mut self, origin: Origin) -> (Slot, AbortRegistration) {
        let number = self.next;
        self.next += 1;
        let (abort, aborted) = AbortHandle::new_pair();
        // An attacker cannot predict which one is aborted.
        let draw = usize::try_from(self.random.hash_one(number) >> 1).unwrap_or_default();
        let displaced = {
            let mut slots = locked(&self.slots);
            slots.aborts.insert(number, abort);
            slots.pending.add(number, origin, draw).and_then(|displaced| slots.aborts.remove(&displaced))
        };
        if let Some(displaced) = displaced {
            displaced.abort();
        }
        (Slot { number, origin, slots: self.slots.clone() }, aborted)
    }
}

impl<T> Transport for PendingConnectionGate<T>
where
    T: Transport<Error = io::Error> + Unpin,
    T::ListenerUpgrade: Send + 'static,
    T::Output: 'static,
{
    type Output = T::Output;
    type Error = io::Error;
    type ListenerUpgrade = BoxFuture<'static, Result<T::Output, io::Error>>;
    type Dial = T::Dial;

    fn listen_on(&mut self, id: ListenerId, address: Multiaddr) -> Result<(), TransportError<io::Error>> {
        self.inner.listen_on(id, address)
    }

    fn remove_listener(&mut self, id: ListenerId) -> bool {
        self.inner.remove_listener(id)
    }

    fn dial(&mut self, address: Multiaddr, options: DialOpts) -> Result<T::Dial, TransportError<io::Error>> {
        self.inner.dial(address, options)
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TransportEvent<Self::ListenerUpgrade, io::Error>> {
        let event = std::task::ready!(Pin::new(&mut self.inner).poll(cx));
        let from = match &event {
            TransportEvent::Incoming { local_addr, send_back_addr, .. } => origin(local_addr, send_back_addr),
            _ => Origin::Relayed(None),
        };
        Poll::Ready(event.map_upgrade(|upgrade| {
            let (slot, aborted) = self.take(from);
            let upgrading = Abortable::new(upgrade, aborted);
            async move {
                let _slot = slot;
                let displaced = || Err(io::Error::other("displaced: too many pending connections from its network"));
                upgrading.await.unwrap_or_else(|_| displaced())
            }
            .boxed()
        }))
    }
}

/// Refuses inbound connections when there are too many of all or of their origin, and closes those beyond an origin's share when
/// other origins claim theirs, or more trusted peers need the slots.
pub(crate) struct EstablishedConnectionLimiter {
    established: EstablishedConnections<ConnectionId>,
    /// The trust level and the connections of each peer.
    peers: BTreeMap<PeerId, (TrustLevel, BTreeSet<ConnectionId>)>,
    begun: Instant,
    /// Connections to be closed.
    closing: VecDeque<(PeerId, ConnectionId)>,
    waker: Option<Waker>,
}

impl EstablishedConnectionLimiter {
    /// At most `max` inbound connections are established at one time.
    pub fn new(max: usize) -> EstablishedConnectionLimiter {
        EstablishedConnectionLimiter {
            established: EstablishedConnections::new(max),
            peers: BTreeMap::new(),
            begun: Instant::now(),
            closing: VecDeque::new(),
            waker: None,
        }
    }

    fn admit(&self, local: &Multiaddr, remote: &Multiaddr) -> Result<(), ConnectionDenied> {
        if self.established.has_room(origin(local, remote), self.begun.elapsed()) {
            return Ok(());
        }
        tracing::debug!(%remote, "connection refused: {TooManyConnections}");
        Err(ConnectionDenied::new(TooManyConnections))
    }

    fn established(&mut self, peer: PeerId, id: ConnectionId, endpoint: &ConnectedPoint) {
        let ConnectedPoint::Listener { local_addr, send_back_addr } = endpoint else { return };
        let (trust, ids) = self.peers.entry(peer).or_insert((TrustLevel::Stranger, BTreeSet::new()));
        ids.insert(id);
        let trust = *trust;
        let displaced = self.established.add(id, origin(local_addr, send_back_addr), self.begun.elapsed());
        self.close(displaced);
        self.set_trust_of(id, trust);
    }

    /// Sets the trust level of a connected peer.
    pub fn set_trust(&mut self, peer: PeerId, trust: TrustLevel) {
        let Some((held, ids)) = self.peers.get_mut(&peer) else { return };
        *held = trust;
        for id in ids.clone() {
            self.set_trust_of(id, trust);
        }
    }

    fn set_trust_of(&mut self, id: ConnectionId, trust: TrustLevel) {
        let displaced = self.established.set_trust(id, trust, self.begun.elapsed());
        self.close(displaced);
    }

    fn close(&mut self, displaced: Option<ConnectionId>) {
        let Some(id) = displaced else { return };
        self.established.remove(id);
        let Some(peer) = self.peers.iter().find(|(_, (_, ids))| ids.contains(&id)).map(|(peer, _)| *peer) else {
            return;
        };
        tracing::debug!(%peer, "connection closed: others have priority for its slot");
        self.closing.push_back((peer, id));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn closed(&mut self, peer: PeerId, id: ConnectionId) {
        self.established.remove(id);
        if let Some((_, ids)) = self.peers.get_mut(&peer) {
            ids.remove(&id);
            if ids.is_empty() {
                self.peers.remove(&peer);
            }
        }
    }
}

/// A connection is refused.
#[derive(Debug, thiserror::Error)]
#[error("too many connections are established, or too many of its network")]
struct TooManyConnections;

impl NetworkBehaviour for EstablishedConnectionLimiter {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = std::convert::Infallible;

    /// Checked before the handshake, which costs as much as a request.
    fn handle_pending_inbound_connection(
        &mut self,
        _: ConnectionId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<(), ConnectionDenied> {
        self.admit(local, remote)
    }

    /// Checked again: others may have connected meanwhile.
    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.admit(local, remote).map(|()| dummy::ConnectionHandler)
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionEstablished(made) => {
                self.established(made.peer_id, made.connection_id, made.endpoint);
            }
            FromSwarm::ConnectionClosed(closed) => self.closed(closed.peer_id, closed.connection_id),
            _ => {}
        }
    }

    fn on_connection_handler_event(&mut self, _: PeerId, _: ConnectionId, event: THandlerOutEvent<Self>) {
        match event {}
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        if let Some((peer_id, id)) = self.closing.pop_front() {
            return Poll::Ready(ToSwarm::CloseConnection { peer_id, connection: CloseConnection::One(id) });
        }
        self.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}
