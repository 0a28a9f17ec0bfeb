//! The transports of the swarm, and the addresses that it listens on.

use althing_protocol::SecretKey;
use either::Either;
use futures::StreamExt as _;
use hickory_resolver::config::{ResolverConfig, ResolverOpts};
use libp2p::core::Multiaddr;
use libp2p::core::muxing::{StreamMuxer, StreamMuxerBox};
use libp2p::core::transport::Boxed;
use libp2p::core::upgrade::Version;
use libp2p::identity::Keypair;
use libp2p::pnet::{PnetConfig, PreSharedKey};
use libp2p::swarm::SwarmEvent;
use libp2p::{PeerId, Swarm, Transport as _, noise, quic, tcp, yamux};

use crate::behaviour::Behaviour;
use crate::closing::ClosingMuxer;
use crate::config::{Libp2pConfig, ListenError};
use crate::connection_limits::PendingConnectionGate;
use crate::counted_yamux::CountedYamux;
use crate::egress::Egresses;
use crate::identity::public_key;
use crate::streams::Control;

/// Streams on one connection: twice what L2 allows both sides, with room for closing ones. A peer that opens more loses the
/// connection.
const STREAMS_MAX: usize = 1_024;
/// The flow-control window of a QUIC stream: that of yamux.
const QUIC_STREAM_BYTES: u32 = 256 << 10;
/// The flow-control window of a QUIC connection.
const QUIC_CONNECTION_BYTES: u32 = 16 << 20;
/// How long to wait for the first listen address.
const LISTEN_PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);
/// How long the addresses of a name are believed. A container that starts again has another one, and the DNS of container
/// engines gives its answers a day.
const NAME_AGE_MAX: std::time::Duration = std::time::Duration::from_secs(10);
/// Unsent bytes that the kernel accepts (TCP_NOTSENT_LOWAT).
#[cfg(target_os = "linux")]
const UNSENT_MAX: u32 = 16 << 10;
/// A connection ends when sent data is not acknowledged for this long (TCP_USER_TIMEOUT; RFC 5482). By default the kernel
/// retries for a quarter of an hour, and libp2p's pings notice later.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX: std::time::Duration = std::time::Duration::from_secs(12);

pub(crate) fn build(
    key: &SecretKey,
    config: &Libp2pConfig,
    streams: &Control,
) -> Result<Swarm<Behaviour>, ListenError> {
    let (mut seed, local) = (key.seed(), key.public());
    let transport = |reason: String| ListenError::Transport(reason);
    let keypair = Keypair::ed25519_from_bytes(&mut seed).map_err(|error| transport(error.to_string()))?;
    let (relayed, client) = libp2p::relay::client::new(keypair.public().to_peer_id());
    let (servers, options) = names().map_err(transport)?;
    let builder = libp2p::SwarmBuilder::with_existing_identity(keypair)
        .with_tokio()
        .with_other_transport(|key| transport_of(key, config, streams.egresses.clone(), relayed))
        .map_err(|error| transport(error.to_string()))?
        .with_dns_config(servers, options);
    let swarm = builder
        .with_behaviour(|key| Behaviour::new(key, local, config, streams, client))
        .map_err(|error| transport(error.to_string()))?
        .with_swarm_config(|swarm| swarm.with_idle_connection_timeout(config.idle_timeout))
        .with_connection_timeout(config.dial_timeout)
        .build();
    Ok(swarm)
}

/// The system's resolver, which forgets sooner than it would.
fn names() -> Result<(ResolverConfig, ResolverOpts), String> {
    let (servers, mut options) =
        hickory_resolver::system_conf::read_system_conf().map_err(|error| error.to_string())?;
    options.positive_max_ttl = Some(NAME_AGE_MAX);
    options.negative_max_ttl = Some(NAME_AGE_MAX);
    Ok((servers, options))
}

/// TCP, noise and yamux, as libp2p's own builder combines them, with streams that fail when their connection is closed; the
/// same over relayed connections; and QUIC. In a private network all bytes on TCP are encrypted with its key, and there is no
/// QUIC; relays are members, so that they relay members only.
fn transport_of(
    key: &Keypair,
    config: &Libp2pConfig,
    egresses: Egresses,
    relayed: libp2p::relay::client::Transport,
) -> Result<Boxed<(PeerId, StreamMuxerBox)>, Box<dyn std::error::Error + Send + Sync>> {
    let noise = noise::Config::new(key)?;
    let mut streams = yamux::Config::default();
    streams.set_max_num_streams(STREAMS_MAX);
    let plain = tcp::tokio::Transport::new(tcp::Config::default().nodelay(true)).map(|stream, _| tune(stream));
    let behind = config.network_key.as_ref().map(|key| PnetConfig::new(PreSharedKey::new(*key.as_bytes())));
    let (private, pending_max) = (behind.is_some(), config.pending_incoming_max);
    let transport = match behind {
        Some(behind) => Either::Left(plain.and_then(move |stream, _| behind.handshake(stream))),
        None => Either::Right(plain),
    };
    let transport = transport.upgrade(Version::V1Lazy).authenticate(noise).multiplex(CountedYamux(streams));
    let counted = egresses.clone();
    let tcp = transport.map(move |(peer, muxer): (PeerId, ClosingMuxer<_>), _| counting(&counted, peer, muxer));
    // A gate for each transport: the source address of a QUIC packet may be spoofed.
    let tcp = PendingConnectionGate::new(tcp.boxed(), pending_max);
    let mut streams = yamux::Config::default();
    streams.set_max_num_streams(STREAMS_MAX);
    let relayed = relayed
        .upgrade(Version::V1Lazy)
        .authenticate(noise::Config::new(key)?)
        .multiplex(CountedYamux(streams))
        .map(move |(peer, muxer): (PeerId, ClosingMuxer<_>), _| counting(&egresses, peer, muxer));
    let relayed = PendingConnectionGate::new(relayed.boxed(), pending_max);
    if private {
        return Ok(relayed.or_transport(tcp).map(|either, _| either.into_inner()).boxed());
    }
    // QUIC streams do not share a backlog in this process: nothing is counted for them.
    let mut limits = quic::Config::new(key);
    limits.max_concurrent_stream_limit = STREAMS_MAX as u32;
    limits.max_stream_data = QUIC_STREAM_BYTES;
    limits.max_connection_data = QUIC_CONNECTION_BYTES;
    let quic = quic::tokio::Transport::new(limits);
    let quic = quic.map(|(peer, connection), _| (peer, StreamMuxerBox::new(connection)));
    let quic = PendingConnectionGate::new(quic.boxed(), pending_max);
    let direct = tcp.or_transport(quic).map(|either, _| either.into_inner());
    Ok(relayed.or_transport(direct).map(|either, _| either.into_inner()).boxed())
}

/// Registers the backlog of a connection for its peer.
fn counting<M>(egresses: &Egresses, peer: PeerId, muxer: ClosingMuxer<M>) -> (PeerId, StreamMuxerBox)
where
    ClosingMuxer<M>: StreamMuxer<Substream: Send, Error: Send + Sync + std::error::Error + 'static> + Send + 'static,
{
    if let Some(key) = public_key(peer) {
        egresses.add(key, muxer.egress());
    }
    (peer, StreamMuxerBox::new(muxer))
}

/// Limits the unsent bytes in the kernel's send buffer, which grows to megabytes that nothing can overtake, and the time until a
/// dead connection fails.
fn tune(stream: tcp::tokio::TcpStream) -> tcp::tokio::TcpStream {
    #[cfg(target_os = "linux")]
    {
        let socket = socket2::SockRef::from(&stream.0);
        if let Err(error) = socket.set_tcp_notsent_lowat(UNSENT_MAX) {
            tracing::debug!(%error, "cannot limit the send buffer of a connection; urgent frames may wait behind others");
        }
        if let Err(error) = socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX)) {
            tracing::debug!(%error, "cannot set TCP_USER_TIMEOUT; only pings will notice a dead connection");
        }
    }
    stream
}

/// Listens, and waits until every address is bound or refused.
pub(crate) async fn listen(
    swarm: &mut Swarm<Behaviour>,
    config: &Libp2pConfig,
    mut bound: impl FnMut(Multiaddr),
) -> Result<(), ListenError> {
    for text in &config.listen {
        let address: Multiaddr = text.parse().map_err(|_| ListenError::Address(text.clone()))?;
        let refused = |reason: String| ListenError::Io { address: text.clone(), reason };
        probe(&address).map_err(|error| refused(error.to_string()))?;
        let id = swarm.listen_on(address).map_err(|error| refused(error.to_string()))?;
        loop {
            // A wildcard address yields one event for each interface; a machine may have none yet.
            let Ok(event) = tokio::time::timeout(LISTEN_PATIENCE, swarm.select_next_some()).await else { break };
            match event {
                SwarmEvent::NewListenAddr { listener_id, address } => {
                    bound(address);
                    if listener_id == id {
                        break;
                    }
                }
                SwarmEvent::ListenerClosed { listener_id, reason, .. } if listener_id == id => {
                    return Err(refused(reason.err().map_or_else(|| "closed".to_owned(), |error| error.to_string())));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Checks with a plain socket that the port is free: libp2p sets SO_REUSEPORT, and a second node on the same port would get half
/// of the first one's connections.
fn probe(address: &Multiaddr) -> std::io::Result<()> {
    use libp2p::multiaddr::Protocol;
    let mut ip = None;
    for part in address {
        match part {
            Protocol::Ip4(v4) => ip = Some(std::net::IpAddr::V4(v4)),
            Protocol::Ip6(v6) => ip = Some(std::net::IpAddr::V6(v6)),
            Protocol::Tcp(port) if port != 0 => {
                return ip.map_or(Ok(()), |ip| std::net::TcpListener::bind((ip, port)).map(drop));
            }
            Protocol::Udp(port) if port != 0 => {
                return ip.map_or(Ok(()), |ip| std::net::UdpSocket::bind((ip, port)).map(drop));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_kernel_is_told_when_to_give_a_connection_up_and_how_little_to_hold() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let stream =
            tokio::net::TcpStream::connect(listener.local_addr().expect("an address")).await.expect("connects");
        let stream = tune(tcp::tokio::TcpStream(stream));
        let socket = socket2::SockRef::from(&stream.0);
        assert_eq!(socket.tcp_user_timeout().expect("is known"), Some(UNACKNOWLEDGED_MAX));
        assert_eq!(socket.tcp_notsent_lowat().expect("is known"), UNSENT_MAX);
    }
}
