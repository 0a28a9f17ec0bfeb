//! The swarm's task and the handle to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use althing_communication::{DialError, Kept, Nearness, PeerEvent, Standing};
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
use crate::connections::Connections;
use crate::dialling::{options, plain};
use crate::harbour::Harbour;
use crate::identity::{peer_id, public_key};
use crate::lookups::{Done, Lookups, Wanted};
use crate::offenders::Offenders;
use crate::probes::Probes;
use crate::streams::Control;
use crate::transport::{build, listen};
use crate::verifying::{Refused, Verified};

/// Dials that wait for the swarm's task.
const COMMANDS: usize = 256;
/// How often what has ended in the table is dropped.
const TABLE_SWEEP: std::time::Duration = std::time::Duration::from_secs(30);
/// Events of the swarm before others have their turn.
const EVENTS_AT_ONCE: u32 = 8;
/// How often the state of the table is shown.
const TABLE_LOOK: std::time::Duration = std::time::Duration::from_millis(250);
/// Of several connections to one peer it is seen after this which of them stand.
const SETTLE: std::time::Duration = std::time::Duration::from_millis(500);
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
    table: Mutex<(Kept, Arc<[PublicKey]>)>,
    probes: Mutex<Probes>,
    /// What was confirmed of this node's addresses, and the relays that hold a place for it.
    standing: Mutex<(Vec<Multiaddr>, Vec<PublicKey>)>,
}

pub(crate) enum Command {
    Look(Wanted, Done),
    Withdraw(RecordKey),
    Regard(PublicKey, Nearness),
    Dial { peer: Option<PublicKey>, addresses: Vec<Multiaddr>, done: oneshot::Sender<Result<PublicKey, DialError>> },
    Disconnect(PublicKey),
    Probe { peer: PublicKey, address: Multiaddr, done: oneshot::Sender<Result<PublicKey, DialError>> },
    Stand(Standing),
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
            probes: Mutex::default(),
            standing: Mutex::default(),
        });
        listen(&mut swarm, &config, |address| shared.add_listening(address)).await?;
        let (commands, inbox) = mpsc::channel(COMMANDS);
        let (lookups, verified) = Lookups::new(local, &config.network, config.clock.clone());
        let task = Task {
            swarm,
            shared: shared.clone(),
            dials: BTreeMap::new(),
            crowded: BTreeMap::new(),
            waiting: Vec::new(),
            lookups,
            harbour: Harbour::default(),
            offenders: Offenders::new(config.shut_out),
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

    pub fn connections(&self) -> std::sync::MutexGuard<'_, Connections<ConnectionId>> {
        self.connections.lock().expect("no holder of the connections panics")
    }

    pub fn probes(&self) -> std::sync::MutexGuard<'_, Probes> {
        self.probes.lock().expect("no holder of the probes panics")
    }

    pub fn standing(&self) -> std::sync::MutexGuard<'_, (Vec<Multiaddr>, Vec<PublicKey>)> {
        self.standing.lock().expect("no holder of the standing panics")
    }

    fn remove_listening(&self, address: &Multiaddr) {
        self.listening.lock().expect("no holder of the addresses panics").retain(|held| held != address);
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
    /// Peers with several connections, and when the surplus goes.
    crowded: BTreeMap<PublicKey, Instant>,
    /// Those who wait for a dial that somebody else began.
    waiting: Vec<(PublicKey, oneshot::Sender<Result<PublicKey, DialError>>)>,
    lookups: Lookups,
    harbour: Harbour,
    offenders: Offenders,
}

impl Task {
    async fn run(
        mut self,
        mut inbox: mpsc::Receiver<Command>,
        mut verified: mpsc::Receiver<Result<Verified, Refused>>,
    ) {
        let mut look = tokio::time::interval(TABLE_LOOK);
        let mut sweep = tokio::time::interval(TABLE_SWEEP);
        let mut events = 0;
        loop {
            tokio::select! {
                _ = look.tick() => {
                    self.tell_of_the_table();
                    self.keep_order();
                }
                _ = sweep.tick() => {
                    self.swarm.behaviour_mut().kad.0.store_mut().sweep();
                }
                Some(outcome) = verified.recv() => {
                    self.lookups.verified(&mut self.swarm.behaviour_mut().kad.0, outcome);
                    self.shut_out_offenders();
                }
                command = inbox.recv() => match command {
                    Some(command) => self.obey(command),
                    None => return,
                },
                event = self.swarm.select_next_some() => {
                    self.note(event);
                    events = (events + 1) % EVENTS_AT_ONCE;
                    if events == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Look(wanted, done) => self.lookups.begin(&mut self.swarm.behaviour_mut().kad.0, wanted, done),
            Command::Withdraw(key) => self.swarm.behaviour_mut().kad.0.stop_providing(&key.to_multihash().into()),
            Command::Regard(peer, nearness) => self.swarm.behaviour_mut().crowd.regard(peer_id(peer), nearness),
            Command::Disconnect(peer) => {
                // An error means that it was not connected.
                let _ = self.swarm.disconnect_peer_id(peer_id(peer));
            }
            Command::Probe { peer, address, done } => self.probe(peer, address, done),
            Command::Stand(standing) => self.stand(&standing),
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
                    // Kademlia is just dialling it.
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

    fn note(&mut self, event: SwarmEvent<BehaviourEvent>) {
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
                        self.lookups.left(peer);
                        self.harbour.lost(peer);
                    }
                    let gone = event.is_some().then_some(peer);
                    self.shared.tell(event);
                    if gone.is_some() {
                        self.keep_those_that_are_no_probes(Instant::now(), gone);
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
                    tracing::debug!(peer = %ping.peer, %reason, "peer does not answer; its connection is closed");
                    self.swarm.close_connection(ping.connection);
                }
            },
            SwarmEvent::Behaviour(BehaviourEvent::Identify(identify::Event::Received {
                connection_id,
                peer_id,
                info,
                ..
            })) => self.identified(peer_id, connection_id, &info),
            SwarmEvent::Behaviour(BehaviourEvent::Kad(event)) => {
                let shared = &self.shared;
                let remote = |peer| shared.connections().remote(peer);
                self.lookups.note(&mut self.swarm.behaviour_mut().kad.0, event, remote);
                self.shut_out_offenders();
            }
            SwarmEvent::NewListenAddr { listener_id, address } => {
                self.harbour.given(listener_id);
                self.shared.add_listening(address);
            }
            SwarmEvent::ExpiredListenAddr { address, .. } => self.shared.remove_listening(&address),
            SwarmEvent::ListenerClosed { listener_id, addresses, reason } => {
                tracing::debug!(?addresses, ?reason, "nobody listens there any more");
                addresses.iter().for_each(|address| self.shared.remove_listening(address));
                self.harbour.closed(listener_id, Instant::now());
            }
            SwarmEvent::Behaviour(BehaviourEvent::Upgrade(event)) => {
                tracing::debug!(peer = %event.remote_peer_id, result = ?event.result.map(drop), "hole punched");
            }
            _ => {}
        }
    }

    /// Ends the connections of those who want rubbish kept, and takes none of them for a while.
    fn shut_out_offenders(&mut self) {
        for peer in self.swarm.behaviour_mut().kad.0.store_mut().offences() {
            if self.offenders.offended(peer, Instant::now()) {
                tracing::warn!(%peer, "it wants rubbish kept in the table; it is shut out for some minutes");
                self.swarm.behaviour_mut().out.block_peer(peer_id(peer));
                // Nor is it recommended to others.
                self.lookups.unreachable(&mut self.swarm.behaviour_mut().kad.0, peer_id(peer));
            }
        }
    }

    /// Shows others what the table is like now.
    fn tell_of_the_table(&mut self) {
        let table = self.lookups.kept(&mut self.swarm.behaviour_mut().kad.0);
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
            self.lookups.unreachable(&mut self.swarm.behaviour_mut().kad.0, peer);
        }
        self.shared.probes().failed(connection_id);
        if let Some(peer) = peer_id.and_then(public_key).filter(|peer| !self.shared.connections().contains(*peer)) {
            self.end_waiting(peer, &Err(DialError::Failed(plain(error))));
        }
        if let Some(done) = self.dials.remove(&connection_id) {
            let _ = done.send(Err(DialError::Failed(plain(error))));
        }
    }

    /// A peer said who it is.
    fn identified(&mut self, peer_id: PeerId, connection: ConnectionId, info: &identify::Info) {
        let Some(peer) = public_key(peer_id) else { return };
        let from = self.shared.connections().address(peer, connection);
        let direct = from.as_ref().filter(|address| !crate::is_passed_on(address));
        self.lookups.identified(&mut self.swarm.behaviour_mut().kad.0, peer_id, info, direct);
        if info.protocols.contains(&libp2p::relay::HOP_PROTOCOL_NAME) {
            if let Some(address) = direct.filter(|_| self.shared.connections().dialled(peer, connection)) {
                self.harbour.found(peer, address.clone());
            }
        } else {
            self.harbour.lost(peer);
        }
    }

    /// Ends probes that have stood long enough, and asks relays for places.
    fn keep_order(&mut self) {
        let now = Instant::now();
        // Who is there all the same, or whose dial ended without a word, is not waited for.
        self.waiting.retain(|(_, done)| !done.is_closed());
        self.keep_those_that_are_no_probes(now, None);
        for id in self.shared.probes().over(now) {
            self.swarm.close_connection(id);
        }
        let settled: Vec<PublicKey> = self.crowded.extract_if(.., |_, at| *at <= now).map(|(peer, _)| peer).collect();
        for id in settled.into_iter().flat_map(|peer| self.shared.connections().surplus(peer)) {
            self.swarm.close_connection(id);
        }
        for peer in self.offenders.let_in(now) {
            self.swarm.behaviour_mut().out.unblock_peer(peer_id(peer));
        }
        if let Some((relay, address)) = self.harbour.next(now) {
            let listener = self.swarm.listen_on(address);
            if let Err(error) = &listener {
                tracing::debug!(%relay, %error, "no place at a relay");
            }
            self.harbour.asked(relay, listener.ok(), now);
        }
        self.shared.standing().1 = self.harbour.held();
    }

    fn keep_those_that_are_no_probes(&mut self, now: Instant, gone: Option<PublicKey>) {
        let kept = self.shared.probes().no_probes(now, gone);
        for (id, peer, address) in kept {
            let event = self.shared.connections().established(peer, id, false, address);
            self.crowded.insert(peer, now + SETTLE);
            self.shared.tell(event);
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

    fn stand(&mut self, standing: &Standing) {
        let announced: Vec<Multiaddr> = standing.announced.iter().filter_map(|address| address.parse().ok()).collect();
        let before = std::mem::replace(&mut self.shared.standing().0, announced.clone());
        for gone in before.iter().filter(|address| !announced.contains(address)) {
            self.swarm.remove_external_address(gone);
        }
        for address in announced {
            self.swarm.add_external_address(address);
        }
        if let Some(relay) = self.swarm.behaviour_mut().relay.0.as_mut() {
            let status = if standing.reachable { relay::Status::Enable } else { relay::Status::Disable };
            relay.set_status(Some(status));
        }
        for place in self.harbour.want(standing.hidden) {
            self.swarm.remove_listener(place);
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
        // Of two that punch a hole both dial, and one of them acts as if it had not.
        let dialled = matches!(endpoint, ConnectedPoint::Dialer { role_override: Endpoint::Dialer, .. });
        let nearness = self.shared.connections().nearness(peer);
        let connected = nearness.is_some();
        if let Some(nearness) = nearness {
            self.swarm.behaviour_mut().crowd.regard(peer_id, nearness);
        }
        let address = address_of(endpoint).to_string();
        let expectable = !dialled && connected && !endpoint.is_relayed();
        if self.shared.probes().established(id, peer, &address, expectable, Instant::now()) {
            if let Some(done) = done {
                let _ = done.send(Ok(peer));
            }
            return;
        }
        let event = self.shared.connections().established(peer, id, dialled, address);
        if connected {
            self.crowded.insert(peer, Instant::now() + SETTLE);
        }
        self.shared.tell(event);
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

/// The address at the other end; behind a relay that relay's, with the mark that it is one.
fn address_of(endpoint: &ConnectedPoint) -> &Multiaddr {
    match endpoint {
        ConnectedPoint::Listener { local_addr, .. } if endpoint.is_relayed() => local_addr,
        _ => endpoint.get_remote_address(),
    }
}

impl Libp2pNetwork {
    /// What this node keeps for others, and the nodes in its table, as they were a moment ago.
    pub(crate) fn table(&self) -> (Kept, Arc<[PublicKey]>) {
        self.shared.table.lock().expect("no holder of the table's state panics").clone()
    }
}
