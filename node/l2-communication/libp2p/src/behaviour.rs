//! What a node does on each connection.

use libp2p::connection_limits::{self, ConnectionLimits};
use libp2p::identity::Keypair;
use libp2p::swarm::NetworkBehaviour;
use libp2p::{identify, kad, ping};

use althing_protocol::PublicKey;

use crate::config::Libp2pConfig;
use crate::lookups;
use crate::shelf::Shelf;
use crate::streams::{self, Control};

/// Two sides that dial each other at once have two connections for a moment, and a third while one closes. libp2p's
/// own limit of 1 would leave none.
const CONNECTIONS_PER_PEER: u32 = 3;

#[derive(NetworkBehaviour)]
pub(crate) struct Behaviour {
    limits: connection_limits::Behaviour,
    streams: streams::Behaviour,
    identify: identify::Behaviour,
    ping: ping::Behaviour,
    pub kad: kad::Behaviour<Shelf>,
}

impl Behaviour {
    pub fn new(key: &Keypair, local: PublicKey, config: &Libp2pConfig, control: &Control) -> Behaviour {
        let limits = ConnectionLimits::default()
            .with_max_established_per_peer(Some(CONNECTIONS_PER_PEER))
            .with_max_established_incoming(Some(config.incoming_max))
            .with_max_pending_incoming(Some(config.pending_incoming_max));
        let probe = ping::Config::new().with_interval(config.ping_interval).with_timeout(config.ping_timeout);
        let about = identify::Config::new("/althing/1".to_owned(), key.public())
            .with_agent_version(concat!("althing/", env!("CARGO_PKG_VERSION")).to_owned());
        Behaviour {
            limits: connection_limits::Behaviour::new(limits),
            streams: streams::Behaviour::new(control),
            identify: identify::Behaviour::new(about),
            ping: ping::Behaviour::new(probe),
            kad: lookups::behaviour(local, &config.network),
        }
    }
}
