//! The swarm's task and the handle to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use althing_communication::network::Incoming;
use althing_communication::{AcceptError, BoxedStream, DialError, Network, OpenError, PeerEvent, PeerInfo};
use althing_protocol::{PublicKey, SecretKey};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use libp2p::core::muxing::StreamMuxerBox;
use libp2p::core::transport::Boxed;
use libp2p::core::upgrade::Version;
use libp2p::core::{ConnectedPoint, Multiaddr};
use libp2p::identity::Keypair;
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::swarm::{ConnectionId, SwarmEvent};
use libp2p::{PeerId, Swarm, Transport as _, noise, tcp, yamux};
use tokio::sync::{broadcast, mpsc, oneshot};

use crate::behaviour::{Behaviour, BehaviourEvent};
use crate::closing::Closing;
use crate::config::{Libp2pConfig, ListenError};
use crate::connections::Connections;
use crate::egress::{Egresses, Multiplexing};
use crate::identity::{peer_id, public_key};
use crate::streams::Control;

/// Streams on one connection: twice what L2 lets both sides have, for those that are just being closed. Who opens more
/// loses the connection.
const STREAMS_MAX: usize = 1_024;
/// How long the first of the addresses that are listened on is waited for.
const LISTEN_PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);
/// Bytes that the kernel takes and cannot send yet.
#[cfg(target_os = "linux")]
const UNSENT_MAX: u32 = 16 << 10;
/// Dials that wait for the swarm's task.
const COMMANDS: usize = 256;
/// Events that a slow receiver may lag behind.
const EVENTS: usize = 1_024;

/// A node's libp2p network. The swarm ends when the last handle is dropped.
pub struct Libp2pNetwork {
    local: PublicKey,
    commands: mpsc::Sender<Command>,
    streams: Control,
    shared: Arc<Shared>,
}

struct Shared {
    connections: Mutex<Connections<ConnectionId>>,
    listening: Mutex<Vec<Multiaddr>>,
    events: broadcast::Sender<PeerEvent>,
}

enum Command {
    Dial { peer: Option<PublicKey>, addresses: Vec<Multiaddr>, done: oneshot::Sender<Result<PublicKey, DialError>> },
    Disconnect(PublicKey),
}

impl Libp2pNetwork {
    /// Starts a swarm with the identity `key` that listens where `config` says.
    ///
    /// # Errors
    /// See [`ListenError`].
    pub async fn start(key: &SecretKey, config: Libp2pConfig) -> Result<Libp2pNetwork, ListenError> {
        let streams = Control::default();
        let mut swarm = build(key, &config, &streams)?;
        let local = key.public();
        let shared = Arc::new(Shared {
            connections: Mutex::new(Connections::new(local)),
            listening: Mutex::default(),
            events: broadcast::Sender::new(EVENTS),
        });
        listen(&mut swarm, &config, &shared).await?;
        let (commands, inbox) = mpsc::channel(COMMANDS);
        let task = Task { swarm, shared: shared.clone(), dials: BTreeMap::new() };
        tokio::spawn(task.run(inbox));
        Ok(Libp2pNetwork { local, commands, streams, shared })
    }

    async fn command_dial(&self, peer: Option<PublicKey>, addresses: Vec<Multiaddr>) -> Result<PublicKey, DialError> {
        let (done, outcome) = oneshot::channel();
        let command = Command::Dial { peer, addresses, done };
        self.commands.send(command).await.map_err(|_| DialError::Stopped)?;
        outcome.await.map_err(|_| DialError::Stopped)?
    }
}

fn build(key: &SecretKey, config: &Libp2pConfig, streams: &Control) -> Result<Swarm<Behaviour>, ListenError> {
    let mut seed = key.seed();
    let transport = |reason: String| ListenError::Transport(reason);
    let keypair = Keypair::ed25519_from_bytes(&mut seed).map_err(|error| transport(error.to_string()))?;
    let builder = libp2p::SwarmBuilder::with_existing_identity(keypair)
        .with_tokio()
        .with_other_transport(|key| transport_of(key, streams.egresses.clone()))
        .map_err(|error| transport(error.to_string()))?
        .with_dns()
        .map_err(|error| transport(error.to_string()))?;
    let swarm = builder
        .with_behaviour(|key| Behaviour::new(key, config, streams))
        .map_err(|error| transport(error.to_string()))?
        .with_swarm_config(|swarm| swarm.with_idle_connection_timeout(config.idle_timeout))
        .with_connection_timeout(config.dial_timeout)
        .build();
    Ok(swarm)
}

/// tcp, noise and yamux, as libp2p's own builder puts them together, with streams that end with their connection.
fn transport_of(
    key: &Keypair,
    egresses: Egresses,
) -> Result<Boxed<(PeerId, StreamMuxerBox)>, Box<dyn std::error::Error + Send + Sync>> {
    let noise = noise::Config::new(key)?;
    let mut streams = yamux::Config::default();
    streams.set_max_num_streams(STREAMS_MAX);
    let transport = tcp::tokio::Transport::new(tcp::Config::default().nodelay(true))
        .map(|stream, _| keep_little(stream))
        .upgrade(Version::V1Lazy)
        .authenticate(noise)
        .multiplex(Multiplexing(streams));
    let known = move |(peer, muxer): (PeerId, Closing<_>), _| {
        if let Some(key) = public_key(peer) {
            egresses.add(key, muxer.egress());
        }
        (peer, StreamMuxerBox::new(muxer))
    };
    Ok(transport.map(known).boxed())
}

/// Has the kernel take no more than a little of what cannot be sent yet: its buffer grows to megabytes, and what is in
/// there is overtaken by nothing.
fn keep_little(stream: tcp::tokio::TcpStream) -> tcp::tokio::TcpStream {
    #[cfg(target_os = "linux")]
    if let Err(error) = socket2::SockRef::from(&stream.0).set_tcp_notsent_lowat(UNSENT_MAX) {
        tracing::debug!(%error, "a connection's buffer cannot be bounded; urgent frames may wait behind others");
    }
    stream
}

/// Listens, and waits until every address is bound or refused.
async fn listen(swarm: &mut Swarm<Behaviour>, config: &Libp2pConfig, shared: &Shared) -> Result<(), ListenError> {
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
                    shared.add_listening(address);
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
            _ => {}
        }
    }
    Ok(())
}

impl Shared {
    fn add_listening(&self, address: Multiaddr) {
        let mut listening = self.listening.lock().expect("no holder of the addresses panics");
        if !listening.contains(&address) {
            listening.push(address);
        }
    }

    fn connections(&self) -> std::sync::MutexGuard<'_, Connections<ConnectionId>> {
        self.connections.lock().expect("no holder of the connections panics")
    }

    fn tell(&self, event: Option<PeerEvent>) {
        if let Some(event) = event {
            // An error means that nobody listens.
            let _ = self.events.send(event);
        }
    }
}

struct Task {
    swarm: Swarm<Behaviour>,
    shared: Arc<Shared>,
    dials: BTreeMap<ConnectionId, oneshot::Sender<Result<PublicKey, DialError>>>,
}

impl Task {
    async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        loop {
            tokio::select! {
                command = inbox.recv() => match command {
                    Some(command) => self.obey(command),
                    None => return,
                },
                event = self.swarm.select_next_some() => self.note(event),
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Disconnect(peer) => {
                // An error means that it was not connected.
                let _ = self.swarm.disconnect_peer_id(peer_id(peer));
            }
            Command::Dial { peer: Some(peer), done, .. } if self.shared.connections().contains(peer) => {
                let _ = done.send(Ok(peer));
            }
            Command::Dial { peer, addresses, done } => {
                let options = options(peer, addresses);
                let id = options.connection_id();
                match self.swarm.dial(options) {
                    Ok(()) => {
                        self.dials.insert(id, done);
                    }
                    Err(error) => {
                        let _ = done.send(Err(DialError::Failed(plain(&error))));
                    }
                }
            }
        }
    }

    fn note(&mut self, event: SwarmEvent<BehaviourEvent>) {
        match event {
            SwarmEvent::ConnectionEstablished { peer_id, connection_id, endpoint, .. } => {
                self.established(peer_id, connection_id, &endpoint);
            }
            SwarmEvent::ConnectionClosed { peer_id, connection_id, cause, .. } => {
                if let Some(peer) = public_key(peer_id) {
                    tracing::debug!(%peer, ?cause, "connection closed");
                    let event = self.shared.connections().closed(peer, connection_id);
                    self.shared.tell(event);
                }
            }
            SwarmEvent::OutgoingConnectionError { connection_id, error, .. } => {
                if let Some(done) = self.dials.remove(&connection_id) {
                    let _ = done.send(Err(DialError::Failed(plain(&error))));
                }
            }
            SwarmEvent::Behaviour(BehaviourEvent::Ping(ping)) => match ping.result {
                Ok(round_trip) => {
                    if let Some(peer) = public_key(ping.peer) {
                        self.shared.connections().measured(peer, ping.connection, round_trip);
                    }
                }
                Err(reason) => {
                    tracing::debug!(peer = %ping.peer, %reason, "peer does not answer; its connection is closed");
                    self.swarm.close_connection(ping.connection);
                }
            },
            SwarmEvent::NewListenAddr { address, .. } => self.shared.add_listening(address),
            SwarmEvent::ExpiredListenAddr { address, .. } => {
                self.shared.listening.lock().expect("no holder of the addresses panics").retain(|a| *a != address);
            }
            _ => {}
        }
    }

    fn established(&mut self, peer_id: PeerId, id: ConnectionId, endpoint: &ConnectedPoint) {
        let done = self.dials.remove(&id);
        let Some(peer) = public_key(peer_id) else {
            tracing::warn!(peer = %peer_id, "peer has no ed25519 identity; its connection is closed");
            self.swarm.close_connection(id);
            if let Some(done) = done {
                let _ = done.send(Err(DialError::Failed("it has no ed25519 identity".to_owned())));
            }
            return;
        };
        let address = endpoint.get_remote_address().to_string();
        let (event, surplus) = self.shared.connections().established(peer, id, endpoint.is_dialer(), address);
        for id in surplus {
            self.swarm.close_connection(id);
        }
        self.shared.tell(event);
        if let Some(done) = done {
            let _ = done.send(Ok(peer));
        }
    }
}

/// A new port for each dial: reusing the listening port loses simultaneous dials.
fn options(peer: Option<PublicKey>, addresses: Vec<Multiaddr>) -> DialOpts {
    match (peer, addresses.first()) {
        (None, Some(address)) => DialOpts::unknown_peer_id().address(address.clone()).allocate_new_port().build(),
        (None, None) => DialOpts::unknown_peer_id().address(Multiaddr::empty()).build(),
        (Some(peer), _) => DialOpts::peer_id(peer_id(peer))
            .condition(PeerCondition::DisconnectedAndNotDialing)
            .addresses(addresses)
            .allocate_new_port()
            .build(),
    }
}

/// libp2p's dial errors repeat addresses over several lines; people get the reasons in one.
fn plain(error: &libp2p::swarm::DialError) -> String {
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

impl Network for Libp2pNetwork {
    fn local(&self) -> PublicKey {
        self.local
    }

    fn open(&self, peer: PublicKey, protocol: &'static str) -> BoxFuture<'_, Result<BoxedStream, OpenError>> {
        async move {
            let connection = self.shared.connections().that_stays(peer).ok_or(OpenError::NotConnected)?;
            self.streams.open(connection, protocol).await
        }
        .boxed()
    }

    fn accept(&self, protocol: &'static str) -> Result<Incoming, AcceptError> {
        self.streams.accept(protocol)
    }

    fn dial(&self, peer: Option<PublicKey>, addresses: Vec<String>) -> BoxFuture<'_, Result<PublicKey, DialError>> {
        async move {
            let parse = |text: &String| text.parse().map_err(|_| DialError::Address(text.clone()));
            let addresses = addresses.iter().map(parse).collect::<Result<Vec<Multiaddr>, _>>()?;
            if peer.is_some() {
                return self.command_dial(peer, addresses).await;
            }
            // Whoever answers: libp2p takes one address for a peer that is not known.
            let mut last = DialError::Failed("no address was given".to_owned());
            for address in addresses {
                match self.command_dial(None, vec![address]).await {
                    Err(DialError::Failed(reason)) => last = DialError::Failed(reason),
                    outcome => return outcome,
                }
            }
            Err(last)
        }
        .boxed()
    }

    fn disconnect(&self, peer: PublicKey) {
        // A full queue means that the swarm is drowning in dials; the connection then stays until its next failure.
        let _ = self.commands.try_send(Command::Disconnect(peer));
    }

    fn events(&self) -> broadcast::Receiver<PeerEvent> {
        self.shared.events.subscribe()
    }

    fn peers(&self) -> Vec<PeerInfo> {
        self.shared.connections().infos()
    }

    fn listening(&self) -> Vec<String> {
        let listening = self.shared.listening.lock().expect("no holder of the addresses panics");
        listening.iter().map(Multiaddr::to_string).collect()
    }
}
