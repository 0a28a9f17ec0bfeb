//! Dial options, and the error messages of failed dials.

use althing_protocol::PublicKey;
use libp2p::core::Multiaddr;
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};

use crate::identity::peer_id;

/// A new port for each dial: reusing the listening port loses simultaneous dials.
pub(crate) fn options(peer: Option<PublicKey>, addresses: Vec<Multiaddr>) -> DialOpts {
    match (peer, addresses.first()) {
        (None, Some(address)) => DialOpts::unknown_peer_id().address(address.clone()).allocate_new_port().build(),
        (None, None) => DialOpts::unknown_peer_id().address(Multiaddr::empty()).build(),
        // At the addresses of the routing table.
        (Some(peer), None) => {
            DialOpts::peer_id(peer_id(peer)).condition(PeerCondition::DisconnectedAndNotDialing).build()
        }
        (Some(peer), Some(_)) => DialOpts::peer_id(peer_id(peer))
            .condition(PeerCondition::DisconnectedAndNotDialing)
            .addresses(addresses)
            .allocate_new_port()
            .build(),
    }
}

/// The reasons of a failed dial in one line; libp2p's message repeats the addresses over several lines.
pub(crate) fn plain(error: &libp2p::swarm::DialError) -> String {
    match error {
        libp2p::swarm::DialError::Transport(tries) => {
            let tries = tries.iter().map(|(address, error)| format!("{address}: {}", innermost(error)));
            tries.collect::<Vec<_>>().join("; ")
        }
        other => other.to_string(),
    }
}

fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
