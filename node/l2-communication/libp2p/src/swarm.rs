//! The swarm's task and the handle to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use althing_communication::network::Incoming;
use althing_communication::{
    AcceptError, BoxedStream, DialError, Kept, Network, OpenError, PeerEvent, PeerInfo, Routing,
};
use althing_protocol::record::RecordKey;
use althing_protocol::{PublicKey, SecretKey};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use libp2p::core::{ConnectedPoint, Multiaddr};
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::swarm::{ConnectionId, SwarmEvent};
use libp2p::{PeerId, Swarm, identify};
use tokio::sync::{broadcast, mpsc, oneshot};

use crate::behaviour::{Behaviour, BehaviourEvent};
use crate::config::{Libp2pConfig, ListenError};
use crate::connections::Connections;
use crate::identity::{peer_id, public_key};
use crate::lookups::{Done, Lookups, Verified, Wanted};
use crate::streams::Control;
use crate::transport::{build, listen};

/// Dials that wait for the swarm's task.
const COMMANDS: usize = 256;
/// How often what has ended in the table is dropped.
const TABLE_SWEEP: std::time::Duration = std::time::Duration::from_secs(30);
/// How often the state of the table is shown.
const TABLE_LOOK: std::time::Duration = std::time::Duration::from_millis(250);
/// Events that a slow receiver may lag behind.
const EVENTS: usize = 1_024;

/// A node's libp2p network. The swarm ends when the last handle is dropped.
pub struct Libp2pNetwork {
    local: PublicKey,
    pub(crate) commands: mpsc::Sender<Command>,
    streams: Control,
    shared: Arc<Shared>,
}

struct Shared {
    connections: Mutex<Connections<ConnectionId>>,
    listening: Mutex<Vec<Multiaddr>>,
    events: broadcast::Sender<PeerEvent>,
    table: Mutex<(Kept, Arc<[PublicKey]>)>,
}

pub(crate) enum Command {
    Look(Wanted, Done),
    Withdraw(RecordKey),
    Learn(PublicKey, Vec<Multiaddr>),
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
        let local = key.public();
        let mut swarm = build(key, &config, &streams)?;
        let shared = Arc::new(Shared {
            connections: Mutex::new(Connections::new(local)),
            listening: Mutex::default(),
            events: broadcast::Sender::new(EVENTS),
            table: Mutex::new((Kept::default(), Arc::new([]))),
        });
        listen(&mut swarm, &config, |address| shared.add_listening(address)).await?;
        let (commands, inbox) = mpsc::channel(COMMANDS);
        let (lookups, verified) = Lookups::new(local, &config.network, config.clock.clone());
        let task = Task { swarm, shared: shared.clone(), dials: BTreeMap::new(), lookups };
        tokio::spawn(task.run(inbox, verified));
        Ok(Libp2pNetwork { local, commands, streams, shared })
    }

    async fn command_dial(&self, peer: Option<PublicKey>, addresses: Vec<Multiaddr>) -> Result<PublicKey, DialError> {
        let (done, outcome) = oneshot::channel();
        let command = Command::Dial { peer, addresses, done };
        self.commands.send(command).await.map_err(|_| DialError::Stopped)?;
        outcome.await.map_err(|_| DialError::Stopped)?
    }
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
    lookups: Lookups,
}

impl Task {
    async fn run(
        mut self,
        mut inbox: mpsc::Receiver<Command>,
        mut verified: mpsc::Receiver<Result<Verified, PublicKey>>,
    ) {
        let mut look = tokio::time::interval(TABLE_LOOK);
        let mut sweep = tokio::time::interval(TABLE_SWEEP);
        loop {
            tokio::select! {
                _ = look.tick() => self.tell_of_the_table(),
                _ = sweep.tick() => self.swarm.behaviour_mut().kad.store_mut().sweep(),
                Some(outcome) = verified.recv() => {
                    self.lookups.verified(&mut self.swarm.behaviour_mut().kad, outcome);
                }
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
            Command::Look(wanted, done) => self.lookups.begin(&mut self.swarm.behaviour_mut().kad, wanted, done),
            Command::Withdraw(key) => self.swarm.behaviour_mut().kad.stop_providing(&key.to_multihash().into()),
            Command::Learn(peer, addresses) => {
                self.lookups.take_in(&mut self.swarm.behaviour_mut().kad, peer_id(peer), addresses);
            }
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
                    if event.is_some() {
                        self.lookups.left(peer);
                    }
                    self.shared.tell(event);
                }
            }
            SwarmEvent::OutgoingConnectionError { connection_id, peer_id, error, .. } => {
                let failed = matches!(
                    error,
                    libp2p::swarm::DialError::Transport(_)
                        | libp2p::swarm::DialError::NoAddresses
                        | libp2p::swarm::DialError::WrongPeerId { .. }
                );
                if let Some(peer) = peer_id.filter(|peer| failed && !self.swarm.is_connected(peer)) {
                    self.lookups.unreachable(&mut self.swarm.behaviour_mut().kad, peer);
                }
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
            SwarmEvent::Behaviour(BehaviourEvent::Identify(identify::Event::Received {
                connection_id,
                peer_id,
                info,
                ..
            })) => {
                let from = public_key(peer_id).and_then(|peer| self.shared.connections().address(peer, connection_id));
                self.lookups.identified(&mut self.swarm.behaviour_mut().kad, peer_id, &info, from.as_ref());
            }
            SwarmEvent::Behaviour(BehaviourEvent::Kad(event)) => {
                let shared = &self.shared;
                let remote = |peer| shared.connections().remote(peer);
                self.lookups.note(&mut self.swarm.behaviour_mut().kad, event, remote);
            }
            SwarmEvent::NewListenAddr { address, .. } => self.shared.add_listening(address),
            SwarmEvent::ExpiredListenAddr { address, .. } => {
                self.shared.listening.lock().expect("no holder of the addresses panics").retain(|a| *a != address);
            }
            _ => {}
        }
    }

    /// Shows others what the table is like now.
    fn tell_of_the_table(&mut self) {
        let table = Lookups::kept(&mut self.swarm.behaviour_mut().kad);
        *self.shared.table.lock().expect("no holder of the table's state panics") = table;
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
        // Where the table knows it to be.
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

impl Libp2pNetwork {
    /// What this node keeps for others, and the nodes in its table, as they were a moment ago.
    pub(crate) fn table(&self) -> (Kept, Arc<[PublicKey]>) {
        self.shared.table.lock().expect("no holder of the table's state panics").clone()
    }
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

    fn routing(&self) -> &dyn Routing {
        self
    }
}
