//! What a node does on each connection.

use libp2p::allow_block_list::{self, BlockedPeers};
use libp2p::connection_limits::{self, ConnectionLimits};
use libp2p::identity::Keypair;
use libp2p::swarm::NetworkBehaviour;
use libp2p::swarm::behaviour::toggle::Toggle;
use libp2p::{dcutr, identify, kad, ping, relay};

use althing_protocol::PublicKey;

use crate::config::Libp2pConfig;
use crate::doors::Crowd;
use crate::lookups;
use crate::shelf::Shelf;
use crate::slim::Slim;
use crate::streams::{self, Control};

/// Two sides that dial each other at once, over TCP and QUIC, have four connections for a moment, and two more while each
/// sees whether the other can be dialled. libp2p's own limit of 1 would leave none.
const CONNECTIONS_PER_PEER: u32 = 6;

/// Requests and answers of the table on one connection in a second; twice as many at once. Who asks faster waits, and of
/// more than 32 streams at one time libp2p drops some.
const ASKED_A_SECOND: u32 = 200;

/// Connections that are passed on at one time.
const CIRCUITS_MAX: usize = 64;
/// How long one of them is.
const CIRCUIT_MAX: std::time::Duration = std::time::Duration::from_secs(60 * 60);
/// Bytes that go over one of them each way.
const CIRCUIT_BYTES: u64 = 64 << 20;

#[derive(NetworkBehaviour)]
pub(crate) struct Behaviour {
    limits: connection_limits::Behaviour,
    pub crowd: Crowd,
    /// Who is shut out.
    pub out: allow_block_list::Behaviour<BlockedPeers>,
    streams: Slim<streams::Behaviour>,
    identify: Slim<identify::Behaviour>,
    ping: Slim<ping::Behaviour>,
    pub kad: Slim<kad::Behaviour<Shelf>>,
    /// Asks others for a place, and takes what they pass on.
    places: Slim<relay::client::Behaviour>,
    /// Passes connections on to others.
    pub relay: Slim<Toggle<relay::Behaviour>>,
    /// Makes a passed-on connection a direct one.
    upgrade: Slim<dcutr::Behaviour>,
}

impl Behaviour {
    pub fn new(
        key: &Keypair,
        local: PublicKey,
        config: &Libp2pConfig,
        control: &Control,
        places: relay::client::Behaviour,
    ) -> Behaviour {
        let limits = ConnectionLimits::default().with_max_established_per_peer(Some(CONNECTIONS_PER_PEER));
        let probe = ping::Config::new().with_interval(config.ping_interval).with_timeout(config.ping_timeout);
        let about = identify::Config::new("/althing/1".to_owned(), key.public())
            .with_agent_version(concat!("althing/", env!("CARGO_PKG_VERSION")).to_owned());
        Behaviour {
            limits: connection_limits::Behaviour::new(limits),
            crowd: Crowd::new(config.incoming_max),
            out: allow_block_list::Behaviour::default(),
            streams: Slim::new(streams::Behaviour::new(control)),
            identify: Slim::new(identify::Behaviour::new(about)),
            ping: Slim::new(ping::Behaviour::new(probe)),
            kad: Slim::paced(lookups::behaviour(local, &config.network), ASKED_A_SECOND),
            places: Slim::new(places),
            relay: Slim::new(Toggle::from(config.relay.then(|| passing_on(key)))),
            upgrade: Slim::new(dcutr::Behaviour::new(key.public().to_peer_id())),
        }
    }
}

/// What is passed on for others: enough for calls until a direct connection stands, or for good where none can be made.
fn passing_on(key: &Keypair) -> relay::Behaviour {
    let config = relay::Config {
        max_circuits: CIRCUITS_MAX,
        max_circuit_duration: CIRCUIT_MAX,
        max_circuit_bytes: CIRCUIT_BYTES,
        ..relay::Config::default()
    };
    let mut behaviour = relay::Behaviour::new(key.public().to_peer_id(), config);
    // Until it is known that others can dial this node.
    behaviour.set_status(Some(relay::Status::Disable));
    behaviour
}
