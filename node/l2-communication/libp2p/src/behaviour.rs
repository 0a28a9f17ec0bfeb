//! The network behaviours of a node.

use libp2p::allow_block_list::{self, BlockedPeers};
use libp2p::connection_limits::{self, ConnectionLimits};
use libp2p::identity::Keypair;
use libp2p::swarm::NetworkBehaviour;
use libp2p::swarm::behaviour::toggle::Toggle;
use libp2p::{dcutr, identify, kad, ping, relay};

use althing_protocol::PublicKey;

use crate::config::Libp2pConfig;
use crate::connection_limits::EstablishedConnectionLimiter;
use crate::lookups;
use crate::record_store::BoundedRecordStore;
use crate::streams::{self, Control};
use crate::wake_driven::WakeDriven;

/// Two nodes that dial each other at once, over TCP and QUIC, have four connections for a moment, and two more while each
/// probes the other. A limit of 1 would leave none.
const CONNECTIONS_PER_PEER: u32 = 6;

/// Kademlia events on one connection in a second, with bursts of twice as many. A faster peer is delayed, and of more than 32
/// streams at one time libp2p drops some.
const KAD_EVENTS_PER_SECOND: u32 = 200;

/// Connections that this relay serves at one time.
const CIRCUITS_MAX: usize = 64;
/// How long one of them may last.
const CIRCUIT_MAX: std::time::Duration = std::time::Duration::from_secs(60 * 60);
/// Bytes that one of them may carry each way.
const CIRCUIT_BYTES: u64 = 64 << 20;

#[derive(NetworkBehaviour)]
pub(crate) struct Behaviour {
    limits: connection_limits::Behaviour,
    pub established: EstablishedConnectionLimiter,
    pub banned: allow_block_list::Behaviour<BlockedPeers>,
    streams: WakeDriven<streams::Behaviour>,
    identify: WakeDriven<identify::Behaviour>,
    ping: WakeDriven<ping::Behaviour>,
    pub kad: WakeDriven<kad::Behaviour<BoundedRecordStore>>,
    /// Reserves slots at relays, and accepts the connections that they relay.
    relay_client: WakeDriven<relay::client::Behaviour>,
    /// Relays connections of others.
    pub relay: WakeDriven<Toggle<relay::Behaviour>>,
    /// Upgrades relayed connections to direct ones by hole punching.
    upgrade: WakeDriven<dcutr::Behaviour>,
}

impl Behaviour {
    pub fn new(
        key: &Keypair,
        local: PublicKey,
        config: &Libp2pConfig,
        control: &Control,
        relay_client: relay::client::Behaviour,
    ) -> Behaviour {
        let limits = ConnectionLimits::default().with_max_established_per_peer(Some(CONNECTIONS_PER_PEER));
        let probe = ping::Config::new().with_interval(config.ping_interval).with_timeout(config.ping_timeout);
        let about = identify::Config::new("/althing/1".to_owned(), key.public())
            .with_agent_version(concat!("althing/", env!("CARGO_PKG_VERSION")).to_owned());
        Behaviour {
            limits: connection_limits::Behaviour::new(limits),
            established: EstablishedConnectionLimiter::new(config.incoming_max),
            banned: allow_block_list::Behaviour::default(),
            streams: WakeDriven::new(streams::Behaviour::new(control)),
            identify: WakeDriven::new(identify::Behaviour::new(about)),
            ping: WakeDriven::new(ping::Behaviour::new(probe)),
            kad: WakeDriven::throttled(lookups::behaviour(local, &config.network), KAD_EVENTS_PER_SECOND),
            relay_client: WakeDriven::new(relay_client),
            relay: WakeDriven::new(Toggle::from(config.relay.then(|| relay_server(key)))),
            upgrade: WakeDriven::new(dcutr::Behaviour::new(key.public().to_peer_id())),
        }
    }
}

/// The limits of relaying: enough for calls until a direct connection is established, or for good where none is possible.
fn relay_server(key: &Keypair) -> relay::Behaviour {
    let config = relay::Config {
        max_circuits: CIRCUITS_MAX,
        max_circuit_duration: CIRCUIT_MAX,
        max_circuit_bytes: CIRCUIT_BYTES,
        ..relay::Config::default()
    };
    let mut behaviour = relay::Behaviour::new(key.public().to_peer_id(), config);
    // Disabled until this node is known to be reachable.
    behaviour.set_status(Some(relay::Status::Disable));
    behaviour
}
