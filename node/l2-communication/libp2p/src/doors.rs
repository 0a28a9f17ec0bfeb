//! The connections that others make: those that are being made, and those that stand; see
//! [`althing_communication::admission`].
//!
//! libp2p's own limits refuse whoever comes when all places are taken, and who says nothing holds a place until its time is
//! over: one machine with as many sockets as there are places shuts out all others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use althing_communication::Nearness;
use althing_communication::admission::{Coming, Origin, Standing};
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

/// Where the connection to that address leads, which is a relay's where that passes it on.
pub(crate) fn origin_of(address: &Multiaddr) -> Option<Origin> {
    if crate::is_passed_on(address) { Some(Origin::PassedOn(ip(address))) } else { ip(address).map(Origin::of) }
}

/// Where a connection comes from that arrived at `local`; what a relay passes on has that relay there.
fn origin(local: &Multiaddr, remote: &Multiaddr) -> Origin {
    match ip(remote) {
        Some(ip) if !crate::is_passed_on(local) && !crate::is_passed_on(remote) => Origin::of(ip),
        _ => Origin::PassedOn(ip(local)),
    }
}

/// A transport that ends connections which are being made where there are too many.
pub(crate) struct Doors<T> {
    inner: T,
    next: u64,
    luck: RandomState,
    places: Arc<Mutex<Places>>,
}

struct Places {
    coming: Coming<u64>,
    ends: BTreeMap<u64, AbortHandle>,
}

/// That of one connection; free again when it is dropped.
struct Place {
    number: u64,
    origin: Origin,
    places: Arc<Mutex<Places>>,
}

fn locked(places: &Mutex<Places>) -> MutexGuard<'_, Places> {
    places.lock().expect("no holder of the places panics")
}

impl Drop for Place {
    fn drop(&mut self) {
        let end = {
            let mut places = locked(&self.places);
            places.coming.over(self.number, self.origin);
            places.ends.remove(&self.number)
        };
        // What a task leaves behind goes without the lock.
        drop(end);
    }
}

impl<T> Doors<T> {
    /// At most `max` connections are being made to `inner` at one time.
    pub fn new(inner: T, max: usize) -> Doors<T> {
        let places = Places { coming: Coming::new(max), ends: BTreeMap::new() };
        Doors { inner, next: 0, luck: RandomState::new(), places: Arc::new(Mutex::new(places)) }
    }

    /// A place for one from `origin`, and what tells it that it is ended for another.
    fn take(&mut self, origin: Origin) -> (Place, AbortRegistration) {
        let number = self.next;
        self.next += 1;
        let (end, ended) = AbortHandle::new_pair();
        // Whoever floods does not know which goes.
        let draw = usize::try_from(self.luck.hash_one(number) >> 1).unwrap_or_default();
        let gone = {
            let mut places = locked(&self.places);
            places.ends.insert(number, end);
            places.coming.take(number, origin, draw).and_then(|gone| places.ends.remove(&gone))
        };
        if let Some(gone) = gone {
            gone.abort();
        }
        (Place { number, origin, places: self.places.clone() }, ended)
    }
}

impl<T> Transport for Doors<T>
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
            _ => Origin::PassedOn(None),
        };
        Poll::Ready(event.map_upgrade(|upgrade| {
            let (place, ended) = self.take(from);
            let made = Abortable::new(upgrade, ended);
            async move {
                let _place = place;
                let crowded = || Err(io::Error::other("ended for another: too many are coming from its network"));
                made.await.unwrap_or_else(|_| crowded())
            }
            .boxed()
        }))
    }
}

/// Refuses connections that others made where there are too many, or too many of their origin, and ends those that an
/// origin has beyond its share when others want theirs, or nearer peers need the places.
pub(crate) struct Crowd {
    standing: Standing<ConnectionId>,
    /// Whose they are, and how near it is.
    peers: BTreeMap<PeerId, (Nearness, BTreeSet<ConnectionId>)>,
    begun: Instant,
    /// To be ended.
    gone: VecDeque<(PeerId, ConnectionId)>,
    task: Option<Waker>,
}

impl Crowd {
    /// At most `max` of them stand at one time.
    pub fn new(max: usize) -> Crowd {
        Crowd {
            standing: Standing::new(max),
            peers: BTreeMap::new(),
            begun: Instant::now(),
            gone: VecDeque::new(),
            task: None,
        }
    }

    fn admit(&self, local: &Multiaddr, remote: &Multiaddr) -> Result<(), ConnectionDenied> {
        if self.standing.has_room(origin(local, remote), self.begun.elapsed()) {
            return Ok(());
        }
        tracing::debug!(%remote, "connection refused: {Crowded}");
        Err(ConnectionDenied::new(Crowded))
    }

    fn established(&mut self, peer: PeerId, id: ConnectionId, endpoint: &ConnectedPoint) {
        let ConnectedPoint::Listener { local_addr, send_back_addr } = endpoint else { return };
        let (nearness, ids) = self.peers.entry(peer).or_insert((Nearness::Stranger, BTreeSet::new()));
        ids.insert(id);
        let nearness = *nearness;
        let ended = self.standing.add(id, origin(local_addr, send_back_addr), self.begun.elapsed());
        self.end(ended);
        self.regard_one(id, nearness);
    }

    /// A peer with connections is this near.
    pub fn regard(&mut self, peer: PeerId, nearness: Nearness) {
        let Some((held, ids)) = self.peers.get_mut(&peer) else { return };
        *held = nearness;
        for id in ids.clone() {
            self.regard_one(id, nearness);
        }
    }

    fn regard_one(&mut self, id: ConnectionId, nearness: Nearness) {
        let ended = self.standing.regard(id, nearness, self.begun.elapsed());
        self.end(ended);
    }

    fn end(&mut self, ended: Option<ConnectionId>) {
        let Some(id) = ended else { return };
        self.standing.remove(id);
        let Some(peer) = self.peers.iter().find(|(_, (_, ids))| ids.contains(&id)).map(|(peer, _)| *peer) else {
            return;
        };
        tracing::debug!(%peer, "connection ended: others have more claim to its place");
        self.gone.push_back((peer, id));
        if let Some(task) = self.task.take() {
            task.wake();
        }
    }

    fn closed(&mut self, peer: PeerId, id: ConnectionId) {
        self.standing.remove(id);
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
#[error("too many connections stand, or too many of its network")]
struct Crowded;

impl NetworkBehaviour for Crowd {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = std::convert::Infallible;

    /// Before any hands are shaken, which takes the node as long as a request.
    fn handle_pending_inbound_connection(
        &mut self,
        _: ConnectionId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<(), ConnectionDenied> {
        self.admit(local, remote)
    }

    /// And after: others may have come meanwhile.
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
        if let Some((peer_id, id)) = self.gone.pop_front() {
            return Poll::Ready(ToSwarm::CloseConnection { peer_id, connection: CloseConnection::One(id) });
        }
        self.task = Some(cx.waker().clone());
        Poll::Pending
    }
}
