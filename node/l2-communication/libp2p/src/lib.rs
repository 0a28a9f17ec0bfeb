//! The libp2p shell of L2's [`Network`] port: tcp, noise and yamux, quic, identify, ping, Kademlia, whose connections
//! are taken, relays, hole punching.
//!
//! **Inputs**: a node's key and addresses to listen on. **Outputs**: streams to proven peers, and who comes and goes.
//!
//! **Invariants**: one connection per peer once things have settled; no peer without an ed25519 identity; nothing that
//! takes time runs on the swarm's task.
//!
//! **Never knows**: frames, calls, agents, how peers are found.

mod behaviour;
mod closing;
mod config;
mod connections;
mod dialling;
mod doors;
mod egress;
mod harbour;
mod identity;
mod lookups;
mod offenders;
mod paced;
mod port;
mod probes;
mod routing;
mod shelf;
mod slim;
mod streams;
mod swarm;
mod transport;
mod verifying;

use libp2p::Multiaddr;
use libp2p::multiaddr::Protocol;

pub use config::{Libp2pConfig, ListenError};
pub use swarm::Libp2pNetwork;

/// Can this be dialled, or listened on, at all? An IP address or a name, and a port of TCP or QUIC.
#[must_use]
pub fn is_address(text: &str) -> bool {
    text.parse::<Multiaddr>().is_ok_and(|address| can_be_dialled(&address) && !is_passed_on(&address))
}

/// A direct address, or one at a relay.
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
pub(crate) fn is_passed_on(address: &Multiaddr) -> bool {
    address.iter().any(|part| part == Protocol::P2pCircuit)
}
