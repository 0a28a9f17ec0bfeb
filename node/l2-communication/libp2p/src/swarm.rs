//! The swarm's task and the handle to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use althing_communication::{DialError, PeerEvent, Reachability, TableStats, TrustLevel};
use althing_protocol::record::RecordKey;
use althing_protocol::{PublicKey, SecretKey};
use futures::StreamExt as _;
use libp2p::core::{ConnectedPoint, Endpoint, Multiaddr};
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::swarm::{ConnectionId, SwarmEvent};
use libp2p::{PeerId, Swarm, identify, relay};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::time::Instant;

use crate::behaviour::{Behaviour, BehaviourEvent};
use crate::config::{Libp2pConfig, ListenError};
use crate::dialling::{options, plain};
use crate::identity::{peer_id, public_key};
use crate::lookups::{Done, Lookups, Query};
use crate::machine::ban_list::BanList;
use crate::machine::connections::Connections;
use crate::machine::probes::Probes;
use crate::machine::relay_reservations::RelayReservations;
use crate::streams::Control;
use crate::transport::{build, listen};
use crate::verifying::{Refused, Verified};

/// Commands that wait for the swarm's task.
const COMMANDS: usize = 256;
/// How often expired records are dropped.
const RECORD_SWEEP: Duration = Duration::from_secs(30);
/// Events of the swarm before its task yields.
const EVENTS_AT_ONCE: u32 = 8;
/// The interval of periodic work.
const TICK: Duration = Duration::from_millis(250);
/// Duplicate connections to a peer are closed after this, when the dialler has closed its spares itself.
const SETTLE: Duration = Duration::from_millis(500);
/// Events that a slow receiver may lag behind.
const EVENTS: usize = 1_024;

/// A node's libp2p network. The swarm ends when the last handle is dropped.
pub struct Libp2pNetwork {
    pub(crate) local: PublicKey,
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) streams: Control,
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    connections: Mutex<Connections<ConnectionId>>,
    pub listening: Mutex<Vec<Multiaddr>>,
    pub events: broadcast::Sender<PeerEvent>,
    begun: Instant,
    table: Mutex<(TableStats, Arc<[PublicKey]>)>,
    probes: Mutex<Probes>,
    reachability: Mutex<Reached>,
}

/// Where others can reach this node.
#[derive(Default)]
pub(crate) struct Reached {
    /// Its confirmed addresses.
    pub confirmed: Vec<Multiaddr>,
    /// The relays that granted it a reservation.
    pub relays: Vec<PublicKey>,
}

pub(crate) enum Command {
    StartQuery(Query, Done),
    Withdraw(RecordKey),
    SetTrust(PublicKey, TrustLevel),
    Dial { peer: Option<PublicKey>, addresses: Vec<Multiaddr>, done: oneshot::Sender<Result<PublicKey, DialError>> },
    Disconnect(PublicKey),
    Probe { peer: PublicKey, address: Multiaddr, done: oneshot::Sender<Result<PublicKey, DialError>> },
    SetReachability(Reachability),
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
            begun: Instant::now(),
            table: Mutex::new((TableStats::default(), Arc::new([]))),
            probes: Mutex::default(),
            reachability: Mutex::default(),
        });
        listen(&mut swarm, &config, |address| shared.add_listening(address)).await?;
        let (commands, inbox) = mpsc::channel(COMMANDS);
        let (lookups, verified) = Lookups::new(local, &config.network, config.clock.clone());
        let task = SwarmTask {
            swarm,
            shared: shared.clone(),
            dials: BTreeMap::new(),
            settling: BTreeMap::new(),
            waiting: Vec::new(),
            lookups,
            relays: RelayReservations::default(),
            bans: BanList::new(config.ban_duration),
        };
        tokio::spawn(task.run(inbox, verified));
        Ok(Libp2pNetwork { local, commands, streams, shared })
    }
}

impl Shared {
    fn add_listening(&self, address: Multiaddr) {
        let mut listening = self.listening.lock().expect("no holder of the addresses panics");
        if !listening.contains(&address) {
            listening.push(address);
        }
    }

    pub fn connections(&self) -> MutexGuard<'_, Connections<ConnectionId>> {
        self.connections.lock().expect("no holder of the connections panics")
    }

    pub fn probes(&self) -> MutexGuard<'_, Probes> {
        self.probes.lock().expect("no holder of the probes panics")
    }

    pub fn reachability(&self) -> MutexGuard<'_, Reached> {
        self.reachability.lock().expect("no holder of the reachability panics")
    }

    /// The time since the start of the network.
    pub fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn remove_listening(&self, address: &Multiaddr) {
        self.listening.lock().expect("no holder of the addresses panics").retain(|held| held != address);
    }

    fn publish(&self, event: Option<PeerEvent>) {
        if let Some(event) = event {
            // An error means that there is no receiver.
            let _ = self.events.send(event);
        }
    }
}

struct SwarmTask {
    swarm: Swarm<Behaviour>,
    shared: Arc<Shared>,
    dials: BTreeMap<ConnectionId, oneshot::Sender<Result<PublicKey, DialError>>>,
    /// Peers with several connections, and when the duplicates are closed.
    settling: BTreeMap<PublicKey, Duration>,
    /// Callers that wait for a dial that Kademlia began.
    waiting: Vec<(PublicKey, oneshot::Sender<Result<PublicKey, DialError>>)>,
    lookups: Lookups,
    relays: RelayReservations,
    bans: BanList,
}

impl SwarmTask {
    async fn run(
        mut self,
        mut inbox: mpsc::Receiver<Command>,
        mut verified: mpsc::Receiver<Result<Verified, Refused>>,
    ) {
        let mut tick = tokio::time::interval(TICK);
        let mut sweep = tokio::time::interval(RECORD_SWEEP);
        let mut events = 0;
        loop {
            tokio::select! {
                _ = tick.tick() => self.on_tick(),
                _ = sweep.tick() => {
                    self.swarm.behaviour_mut().kad.0.store_mut().sweep();
                }
                Some(outcome) = verified.recv() => {
                    self.lookups.on_verified(&mut self.swarm.behaviour_mut().kad.0, outcome);
                    self.ban_offenders();
                }
                command = inbox.recv() => match command {
                    Some(command) => self.handle_command(command),
                    None => return,
                },
                event = self.swarm.select_next_some() => {
                    self.on_event(event);
                    events = (events + 1) % EVENTS_AT_ONCE;
                    if events == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            }
        }
    }

    fn handle_command(&mut self, command: Command) {
        match command {
            Command::StartQuery(query, done) => self.lookups.start(&mut self.swarm.behaviour_mut().kad.0, query, done),
            Command::Withdraw(key) => self.swarm.behaviour_mut().kad.0.stop_providing(&key.to_multihash().into()),
            Command::SetTrust(peer, trust) => {
                self.swarm.behaviour_mut().established.set_trust(peer_id(peer), trust);
            }
            Command::Disconnect(peer) => {
                // An error means that it was not connected.
                let _ = self.swarm.disconnect_peer_id(peer_id(peer));
            }
            Command::Probe { peer, address, done } => self.probe(peer, address, done),
            Command::SetReachability(reachability) => self.set_reachability(&reachability),
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
                    // Kademlia is dialling it already.
                    Err(libp2p::swarm::DialError::DialPeerConditionFalse(_)) if peer.is_some() => {
                        self.waiting.extend(peer.map(|peer| (peer, done)));
                    }
                    Err(error) => {
                        let _ = done.send(Err(DialError::Failed(plain(&error))));
                    }
                }
            }
        }
    }

    fn on_event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        match event {
            SwarmEvent::ConnectionEstablished { peer_id, connection_id, endpoint, .. } => {
                self.established(peer_id, connection_id, &endpoint);
            }
            SwarmEvent::ConnectionClosed { connection_id, .. } if self.shared.probes().closed(connection_id) => {}
            SwarmEvent::ConnectionClosed { peer_id, connection_id, cause, .. } => {
                if let Some(peer) = public_key(peer_id) {
                    tracing::debug!(%peer, ?cause, "connection closed");
                    let event = self.shared.connections().closed(peer, connection_id);
                    if event.is_some() {
                        self.lookups.on_disconnected(peer);
                        self.relays.remove_relay(peer);
                    }
                    let gone = event.is_some().then_some(peer);
                    self.shared.publish(event);
                    if gone.is_some() {
                        self.promote_expired_probes(gone);
                    }
                }
            }
            SwarmEvent::OutgoingConnectionError { connection_id, peer_id, error, .. } => {
                self.dial_failed(connection_id, peer_id, &error);
            }
            SwarmEvent::Behaviour(BehaviourEvent::Ping(ping)) => match ping.result {
                Ok(round_trip) => {
                    if let Some(peer) = public_key(ping.peer) {
                        self.shared.connections().measured(peer, ping.connection, round_trip);
                    }
                }
                Err(reason) => {
                    tracing::debug!(peer = %ping.peer, %reason, "ping failed; connection closed");
                    self.swarm.close_connection(ping.connection);
                }
            },
            SwarmEvent::Behaviour(BehaviourEvent::Identify(identify::Event::Received {
                connection_id,
                peer_id,
                info,
                ..
            })) => self.on_identified(peer_id, connection_id, &info),
            SwarmEvent::Behaviour(BehaviourEvent::Kad(event)) => {
                let shared = &self.shared;
                let remote = |peer| shared.connections().remote(peer);
                self.lookups.on_event(&mut self.swarm.behaviour_mut().kad.0, event, remote);
                self.ban_offenders();
            }
            SwarmEvent::NewListenAddr { listener_id, address } => {
                self.relays.on_granted(listener_id);
                self.shared.add_listening(address);
            }
            SwarmEvent::ExpiredListenAddr { address, .. } => self.shared.remove_listening(&address),
            SwarmEvent::ListenerClosed { listener_id, addresses, reason } => {
                tracing::debug!(?addresses, ?reason, "listener closed");
                addresses.iter().for_each(|address| self.shared.remove_listening(address));
                self.relays.on_closed(listener_id, self.shared.now());
            }
            SwarmEvent::Behaviour(BehaviourEvent::Upgrade(event)) => {
                tracing::debug!(peer = %event.remote_peer_id, result = ?event.result.map(drop), "hole punched");
            }
            _ => {}
        }
    }

    /// Bans peers that repeatedly stored malformed or forged records: closes their connections, and refuses new ones.
    fn ban_offenders(&mut self) {
        for peer in self.swarm.behaviour_mut().kad.0.store_mut().take_offences() {
            if self.bans.record_offence(peer, self.shared.now()) {
                tracing::warn!(%peer, "banned for some minutes: it stores malformed or forged records in the DHT");
                self.swarm.behaviour_mut().banned.block_peer(peer_id(peer));
                // Other nodes are not referred to it either.
                self.lookups.remove_node(&mut self.swarm.behaviour_mut().kad.0, peer_id(peer));
            }
        }
    }

    /// Publishes the state of the DHT to the handles.
    fn publish_table(&mut self) {
        let table = self.lookups.stats(&mut self.swarm.behaviour_mut().kad.0);
        *self.shared.table.lock().expect("no holder of the table's state panics") = table;
    }

    fn dial_failed(&mut self, connection_id: ConnectionId, peer_id: Option<PeerId>, error: &libp2p::swarm::DialError) {
        let failed = matches!(
            error,
            libp2p::swarm::DialError::Transport(_)
                | libp2p::swarm::DialError::NoAddresses
                | libp2p::swarm::DialError::WrongPeerId { .. }
        );
        if let Some(peer) = peer_id.filter(|peer| failed && !self.swarm.is_connected(peer)) {
            self.lookups.remove_node(&mut self.swarm.behaviour_mut().kad.0, peer);
        }
        self.shared.probes().failed(connection_id);
        if let Some(peer) = peer_id.and_then(public_key).filter(|peer| !self.shared.connections().contains(*peer)) {
            self.end_waiting(peer, &Err(DialError::Failed(plain(error))));
        }
        if let Some(done) = self.dials.remove(&connection_id) {
            let _ = done.send(Err(DialError::Failed(plain(error))));
        }
    }

    /// A peer sent its identify message.
    fn on_identified(&mut self, peer_id: PeerId, connection: ConnectionId, info: &identify::Info) {
        let Some(peer) = public_key(peer_id) else { return };
        let from = self.shared.connections().address(peer, connection);
        let direct = from.as_ref().filter(|address| !crate::is_relayed(address));
        self.lookups.on_identified(&mut self.swarm.behaviour_mut().kad.0, peer_id, info, direct);
        self.shared.connections().set_listens_at(peer, self.lookups.listening(peer));
        if info.protocols.contains(&libp2p::relay::HOP_PROTOCOL_NAME) {
            if let Some(address) = direct.filter(|_| self.shared.connections().dialled(peer, connection)) {
                self.relays.add_relay(peer, address.clone());
            }
        } else {
            self.relays.remove_relay(peer);
        }
    }

    /// Publishes the state of the DHT, closes finished probes and duplicate connections, lifts bans, and requests relay
    /// reservations.
    fn on_tick(&mut self) {
        self.publish_table();
        let now = self.shared.now();
        // Callers that have given up.
        self.waiting.retain(|(_, done)| !done.is_closed());
        self.promote_expired_probes(None);
        for id in self.shared.probes().finished(now) {
            self.swarm.close_connection(id);
        }
        let settled: Vec<PublicKey> = self.settling.extract_if(.., |_, at| *at <= now).map(|(peer, _)| peer).collect();
        for id in settled.into_iter().flat_map(|peer| self.shared.connections().surplus(peer)) {
            self.swarm.close_connection(id);
        }
        for peer in self.bans.lift_expired(now) {
            self.swarm.behaviour_mut().banned.unblock_peer(peer_id(peer));
        }
        if let Some((relay, address)) = self.relays.next_relay(now) {
            let listener = self.swarm.listen_on(address);
            if let Err(error) = &listener {
                tracing::debug!(%relay, %error, "cannot listen at a relay");
            }
            self.relays.on_requested(relay, listener.ok(), now);
        }
        self.shared.reachability().relays = self.relays.relays();
    }

    /// From now on, expired probes and those of a disconnected peer count as ordinary connections.
    fn promote_expired_probes(&mut self, gone: Option<PublicKey>) {
        let now = self.shared.now();
        let promoted = self.shared.probes().promote_expired(now, gone);
        for (id, peer, address) in promoted {
            let event = self.shared.connections().established(peer, id, false, address);
            self.settling.insert(peer, now + SETTLE);
            self.shared.publish(event);
            self.end_waiting(peer, &Ok(peer));
        }
    }

    fn probe(&mut self, peer: PublicKey, address: Multiaddr, done: oneshot::Sender<Result<PublicKey, DialError>>) {
        let options = DialOpts::peer_id(peer_id(peer)).condition(PeerCondition::Always).addresses(vec![address]);
        let options = options.allocate_new_port().build();
        let id = options.connection_id();
        self.shared.probes().dial(id);
        match self.swarm.dial(options) {
            Ok(()) => drop(self.dials.insert(id, done)),
            Err(error) => {
                self.shared.probes().failed(id);
                let _ = done.send(Err(DialError::Failed(plain(&error))));
            }
        }
    }

    fn set_reachability(&mut self, new: &Reachability) {
        let announced: Vec<Multiaddr> = new.announced.iter().filter_map(|address| address.parse().ok()).collect();
        let before = std::mem::replace(&mut self.shared.reachability().confirmed, announced.clone());
        for gone in before.iter().filter(|address| !announced.contains(address)) {
            self.swarm.remove_external_address(gone);
        }
        for address in announced {
            self.swarm.add_external_address(address);
        }
        if let Some(relay) = self.swarm.behaviour_mut().relay.0.as_mut() {
            let status = if new.reachable { relay::Status::Enable } else { relay::Status::Disable };
            relay.set_status(Some(status));
        }
        for listener in self.relays.set_wanted(new.hidden) {
            self.swarm.remove_listener(listener);
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
        // In a hole punch both sides dial, and one of them takes the role of the listener.
        let dialled = matches!(endpoint, ConnectedPoint::Dialer { role_override: Endpoint::Dialer, .. });
        let trust = self.shared.connections().trust_level(peer);
        let connected = trust.is_some();
        if let Some(trust) = trust {
            self.swarm.behaviour_mut().established.set_trust(peer_id, trust);
        }
        let address = address_of(endpoint).to_string();
        let expectable = !dialled && connected && !endpoint.is_relayed();
        if self.shared.probes().established(id, peer, &address, expectable, self.shared.now()) {
            if let Some(done) = done {
                let _ = done.send(Ok(peer));
            }
            return;
        }
        let event = self.shared.connections().established(peer, id, dialled, address);
        if connected {
            self.settling.insert(peer, self.shared.now() + SETTLE);
        }
        self.shared.publish(event);
        self.end_waiting(peer, &Ok(peer));
        if let Some(done) = done {
            let _ = done.send(Ok(peer));
        }
    }

    fn end_waiting(&mut self, peer: PublicKey, outcome: &Result<PublicKey, DialError>) {
        for (_, done) in self.waiting.extract_if(.., |(waiting, _)| *waiting == peer) {
            let _ = done.send(outcome.clone());
        }
    }
}

/// The address at the other end; that of the relay, with `/p2p-circuit`, where there is one.
fn address_of(endpoint: &ConnectedPoint) -> &Multiaddr {
    match endpoint {
        ConnectedPoint::Listener { local_addr, .. } if endpoint.is_relayed() => local_addr,
        _ => endpoint.get_remote_address(),
    }
}

impl Libp2pNetwork {
    /// The size of this node's part of the DHT, and the nodes of its routing table, at the last tick.
    pub(crate) fn table(&self) -> (TableStats, Arc<[PublicKey]>) {
        self.shared.table.lock().expect("no holder of the table's state panics").clone()
    }
}
