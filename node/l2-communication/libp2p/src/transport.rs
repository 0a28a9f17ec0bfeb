//! How bytes travel: the transports that a swarm is built of, and the addresses that it listens on.

use althing_protocol::SecretKey;
use either::Either;
use futures::StreamExt as _;
use libp2p::core::Multiaddr;
use libp2p::core::muxing::{StreamMuxer, StreamMuxerBox};
use libp2p::core::transport::Boxed;
use libp2p::core::upgrade::Version;
use libp2p::identity::Keypair;
use libp2p::pnet::{PnetConfig, PreSharedKey};
use libp2p::swarm::SwarmEvent;
use libp2p::{PeerId, Swarm, Transport as _, noise, quic, tcp, yamux};

use crate::behaviour::Behaviour;
use crate::closing::Closing;
use crate::config::{Libp2pConfig, ListenError};
use crate::doors::Doors;
use crate::egress::{Egresses, Multiplexing};
use crate::identity::public_key;
use crate::streams::Control;

/// Streams on one connection: twice what L2 lets both sides have, for those that are just being closed. Who opens more
/// loses the connection.
const STREAMS_MAX: usize = 1_024;
/// Bytes under way on a stream of QUIC: as many as on one of yamux.
const QUIC_STREAM_BYTES: u32 = 256 << 10;
/// Bytes under way on a connection of QUIC.
const QUIC_CONNECTION_BYTES: u32 = 16 << 20;
/// How long the first of the addresses that are listened on is waited for.
const LISTEN_PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);
/// Bytes that the kernel takes and cannot send yet.
#[cfg(target_os = "linux")]
const UNSENT_MAX: u32 = 16 << 10;
/// A connection ends when what was sent on it is not acknowledged for this long (TCP_USER_TIMEOUT; RFC 5482). The kernel
/// itself would try for a quarter of an hour, and probes of libp2p see it later.
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
    let (passed_on, places) = libp2p::relay::client::new(keypair.public().to_peer_id());
    let builder = libp2p::SwarmBuilder::with_existing_identity(keypair)
        .with_tokio()
        .with_other_transport(|key| transport_of(key, config, streams.egresses.clone(), passed_on))
        .map_err(|error| transport(error.to_string()))?
        .with_dns()
        .map_err(|error| transport(error.to_string()))?;
    let swarm = builder
        .with_behaviour(|key| Behaviour::new(key, local, config, streams, places))
        .map_err(|error| transport(error.to_string()))?
        .with_swarm_config(|swarm| swarm.with_idle_connection_timeout(config.idle_timeout))
        .with_connection_timeout(config.dial_timeout)
        .build();
    Ok(swarm)
}

/// tcp, noise and yamux, as libp2p's own builder puts them together, with streams that end with their connection; the
/// same over connections that relays pass on; and quic. In a private network every byte on TCP is behind its key, and
/// there is no quic; a relay is a member itself, so that what it passes on is a member's.
fn transport_of(
    key: &Keypair,
    config: &Libp2pConfig,
    egresses: Egresses,
    passed_on: libp2p::relay::client::Transport,
) -> Result<Boxed<(PeerId, StreamMuxerBox)>, Box<dyn std::error::Error + Send + Sync>> {
    let noise = noise::Config::new(key)?;
    let mut streams = yamux::Config::default();
    streams.set_max_num_streams(STREAMS_MAX);
    let plain = tcp::tokio::Transport::new(tcp::Config::default().nodelay(true)).map(|stream, _| tune(stream));
    let behind = config.network_key.as_ref().map(|key| PnetConfig::new(PreSharedKey::new(*key.as_bytes())));
    let (private, doors) = (behind.is_some(), config.pending_incoming_max);
    let transport = match behind {
        Some(behind) => Either::Left(plain.and_then(move |stream, _| behind.handshake(stream))),
        None => Either::Right(plain),
    };
    let transport = transport.upgrade(Version::V1Lazy).authenticate(noise).multiplex(Multiplexing(streams));
    let counted = egresses.clone();
    let tcp = transport.map(move |(peer, muxer): (PeerId, Closing<_>), _| counting(&counted, peer, muxer));
    // Places of their own for each: whoever sends packets of QUIC may write any address on them.
    let tcp = Doors::new(tcp.boxed(), doors);
    let mut streams = yamux::Config::default();
    streams.set_max_num_streams(STREAMS_MAX);
    let passed_on = passed_on
        .upgrade(Version::V1Lazy)
        .authenticate(noise::Config::new(key)?)
        .multiplex(Multiplexing(streams))
        .map(move |(peer, muxer): (PeerId, Closing<_>), _| counting(&egresses, peer, muxer));
    let passed_on = Doors::new(passed_on.boxed(), doors);
    if private {
        return Ok(passed_on.or_transport(tcp).map(|either, _| either.into_inner()).boxed());
    }
    // Streams of QUIC share no backlog of ours: nothing is counted for them.
    let mut limits = quic::Config::new(key);
    limits.max_concurrent_stream_limit = STREAMS_MAX as u32;
    limits.max_stream_data = QUIC_STREAM_BYTES;
    limits.max_connection_data = QUIC_CONNECTION_BYTES;
    let quic = quic::tokio::Transport::new(limits);
    let quic = quic.map(|(peer, connection), _| (peer, StreamMuxerBox::new(connection)));
    let quic = Doors::new(quic.boxed(), doors);
    let direct = tcp.or_transport(quic).map(|either, _| either.into_inner());
    Ok(passed_on.or_transport(direct).map(|either, _| either.into_inner()).boxed())
}

/// A connection whose backlog is counted with those of its peer.
fn counting<M>(egresses: &Egresses, peer: PeerId, muxer: Closing<M>) -> (PeerId, StreamMuxerBox)
where
    Closing<M>: StreamMuxer<Substream: Send, Error: Send + Sync + std::error::Error + 'static> + Send + 'static,
{
    if let Some(key) = public_key(peer) {
        egresses.add(key, muxer.egress());
    }
    (peer, StreamMuxerBox::new(muxer))
}

/// Has the kernel take no more than a little of what cannot be sent yet: its buffer grows to megabytes, and what is in
/// there is overtaken by nothing. And has it give up a connection on which nothing comes through any more.
fn tune(stream: tcp::tokio::TcpStream) -> tcp::tokio::TcpStream {
    #[cfg(target_os = "linux")]
    {
        let socket = socket2::SockRef::from(&stream.0);
        if let Err(error) = socket.set_tcp_notsent_lowat(UNSENT_MAX) {
            tracing::debug!(%error, "a connection's buffer cannot be bounded; urgent frames may wait behind others");
        }
        if let Err(error) = socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX)) {
            tracing::debug!(%error, "a connection that is cut off will be seen to be by the next probes only");
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
            // An address of every interface is told for each of them; a machine may have none yet.
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

/// libp2p shares ports between processes (SO_REUSEPORT): a second node on one port would get half of the other's
/// connections. A plain socket tells whether the port is taken.
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
