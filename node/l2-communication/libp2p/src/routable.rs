//! Behaviours that have to do with connections across the internet only. What they need of each connection costs memory,
//! and time whenever anything happens on it; a node has most of its connections on its own network.

use std::collections::HashSet;
use std::task::{Context, Poll};

use althing_communication::groups::Group;
use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::{
    ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent, THandlerOutEvent, ToSwarm,
    dummy,
};
use libp2p::{Multiaddr, PeerId};

use either::Either;

/// `B`, on connections whose other end may be routed on the internet.
pub(crate) struct Routable<B> {
    pub inner: B,
    connections: HashSet<ConnectionId>,
}

/// A name may stand for any machine.
fn is_routable(address: &Multiaddr) -> bool {
    crate::lookups::ip(address).is_none_or(|ip| Group::of(ip).is_some())
}

impl<B: NetworkBehaviour> Routable<B> {
    pub fn new(inner: B) -> Routable<B> {
        Routable { inner, connections: HashSet::new() }
    }

    /// The handler of a connection, where it is one of those.
    fn take(
        &mut self,
        connection: ConnectionId,
        remote: &Multiaddr,
        handler: impl FnOnce(&mut B) -> Result<THandler<B>, ConnectionDenied>,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        if !is_routable(remote) {
            return Ok(Either::Right(dummy::ConnectionHandler));
        }
        self.connections.insert(connection);
        handler(&mut self.inner).map(Either::Left)
    }
}

impl<B: NetworkBehaviour> NetworkBehaviour for Routable<B> {
    type ConnectionHandler = Either<THandler<B>, dummy::ConnectionHandler>;
    type ToSwarm = B::ToSwarm;

    fn handle_pending_inbound_connection(
        &mut self,
        connection: ConnectionId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<(), ConnectionDenied> {
        self.inner.handle_pending_inbound_connection(connection, local, remote)
    }

    fn handle_established_inbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.take(connection, remote, |inner| {
            inner.handle_established_inbound_connection(connection, peer, local, remote)
        })
    }

    fn handle_pending_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: Option<PeerId>,
        addresses: &[Multiaddr],
        role: Endpoint,
    ) -> Result<Vec<Multiaddr>, ConnectionDenied> {
        self.inner.handle_pending_outbound_connection(connection, peer, addresses, role)
    }

    fn handle_established_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        address: &Multiaddr,
        role: Endpoint,
        port: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.take(connection, address, |inner| {
            inner.handle_established_outbound_connection(connection, peer, address, role, port)
        })
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        let known = match &event {
            FromSwarm::ConnectionEstablished(event) => self.connections.contains(&event.connection_id),
            FromSwarm::AddressChange(event) => self.connections.contains(&event.connection_id),
            FromSwarm::ConnectionClosed(event) => self.connections.remove(&event.connection_id),
            // It was not made after all.
            FromSwarm::DialFailure(event) => {
                self.connections.remove(&event.connection_id);
                true
            }
            FromSwarm::ListenFailure(event) => {
                self.connections.remove(&event.connection_id);
                true
            }
            _ => true,
        };
        if known {
            self.inner.on_swarm_event(event);
        }
    }

    fn on_connection_handler_event(&mut self, peer: PeerId, connection: ConnectionId, event: THandlerOutEvent<Self>) {
        match event {
            Either::Left(event) => self.inner.on_connection_handler_event(peer, connection, event),
            Either::Right(never) => match never {},
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        self.inner.poll(cx).map(|to_swarm| to_swarm.map_in(Either::Left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_of_the_internet_are_routable_and_those_at_home_are_not() {
        let routable = |text: &str| is_routable(&text.parse().expect("an address"));
        for there in ["/ip4/8.8.8.8/tcp/1", "/dns/example.org/tcp/1", "/ip6/2001:db8::1/udp/1/quic-v1"] {
            assert!(routable(there), "{there}");
        }
        for near in ["/ip4/127.0.0.1/tcp/1", "/ip4/10.1.2.3/udp/1/quic-v1", "/ip6/fe80::1/tcp/1", "/ip6/::1/tcp/1"] {
            assert!(!routable(near), "{near}");
        }
    }
}
