//! The libp2p shell of L2's [`Network`] port: TCP, noise and yamux, QUIC, identify, ping, Kademlia, connection limits, relays, hole
//! punching.
//!
//! **Inputs**: a node's key and addresses to listen on. **Outputs**: streams to authenticated peers, and connection events.
//!
//! **Invariants**: one connection per peer, but for a moment after simultaneous dials; no peer without an ed25519 identity; no
//! long-running work on the swarm's task.
//!
//! **Never knows**: frames, calls, agents, how peers are found.

mod behaviour;
mod closing;
mod config;
mod connection_limits;
mod counted_yamux;
mod dialling;
mod egress;
mod event_throttle;
mod identity;
mod lookups;
mod machine;
mod port;
mod record_store;
mod routing;
mod streams;
mod swarm;
mod transport;
mod verifying;
mod wake_driven;

use libp2p::Multiaddr;
use libp2p::multiaddr::Protocol;

pub use config::{Libp2pConfig, ListenError};
pub use swarm::Libp2pNetwork;

/// Is this an address that can be dialled or listened on: an IP address or a name, and a port of TCP or QUIC?
#[must_use]
pub fn is_address(text: &str) -> bool {
    text.parse::<Multiaddr>().is_ok_and(|address| can_be_dialled(&address) && !is_relayed(&address))
}

/// Is it a direct address, or one at a relay?
pub(crate) fn can_be_dialled(address: &Multiaddr) -> bool {
    let mut parts = address.iter();
    let host = matches!(
        parts.next(),
        Some(Protocol::Ip4(_) | Protocol::Ip6(_) | Protocol::Dns(_) | Protocol::Dns4(_) | Protocol::Dns6(_))
    );
    let port = match parts.next() {
        Some(Protocol::Tcp(_)) => true,
        Some(Protocol::Udp(_)) => matches!(parts.next(), Some(Protocol::QuicV1)),
        _ => false,
    };
    let to = match (parts.next(), parts.next()) {
        (None | Some(Protocol::P2p(_)), None) => return host && port,
        (Some(Protocol::P2p(_)), Some(Protocol::P2pCircuit)) => parts.next(),
        _ => return false,
    };
    host && port && matches!(to, None | Some(Protocol::P2p(_))) && parts.next().is_none()
}

/// Does it lead through a relay?
pub(crate) fn is_relayed(address: &Multiaddr) -> bool {
    address.iter().any(|part| part == Protocol::P2pCircuit)
}
