//! The simulated network: any number of nodes in one process, in tokio's (virtual) time, from one seed.
//!
//! Links have latency, jitter and loss, and can be cut. A stream delivers its bytes in order, as TCP does: a lost segment costs a
//! retransmission; different streams overtake each other. A cut link holds the segments in flight, and its connection ends when
//! it stays cut.

mod network;
mod routing;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use althing_protocol::PublicKey;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{Notify, broadcast, mpsc};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};

use althing_communication::address_groups::AddressGroup;
use althing_communication::network::{BoxedStream, DialError, PeerEvent};
use althing_communication::ports::WallClock;
use althing_communication::routing::K;
use routing::DhtNode;
pub use routing::{Hostile, Question, Reply};

/// Bytes that one segment carries.
const SEGMENT: usize = 16 << 10;
/// Segments in flight on one stream before the writer waits (256 KiB, yamux's window).
const WINDOW: usize = 16;
/// Retransmissions after which a segment always arrives (Linux's tcp_retries2).
const RETRIES_MAX: u32 = 15;
/// Streams that wait to be accepted under one protocol.
const ACCEPT_QUEUE: usize = 64;
/// The interval at which a node looks itself up, which refreshes its routing table.
const REFRESH: Duration = Duration::from_secs(300);
/// Events that a slow receiver may lag behind.
const EVENTS: usize = 1_024;

/// How links behave.
#[derive(Debug, Clone)]
pub struct LinkConfig {
    /// One way.
    pub latency: Duration,
    /// Added to the latency, uniformly from 0 to this, for each segment.
    pub jitter: Duration,
    /// Share of segments that are lost and sent again, 0 to 1.
    pub loss: f64,
    /// The delay of a retransmission.
    pub retransmit: Duration,
    /// A connection whose link is cut for this long ends.
    pub dead_after: Duration,
}

impl Default for LinkConfig {
    fn default() -> Self {
        LinkConfig {
            latency: Duration::from_millis(1),
            jitter: Duration::ZERO,
            loss: 0.0,
            retransmit: Duration::from_millis(200),
            dead_after: Duration::from_secs(6),
        }
    }
}

/// The whole simulated network.
#[derive(Clone)]
pub struct SimNet {
    begun: Instant,
    state: Arc<Mutex<State>>,
    /// Notified of each cut and heal; waiters check their link again in the order in which they began to wait.
    links_changed: Arc<Notify>,
}

struct State {
    /// The network's name, to which the DHT's records are bound.
    network: String,
    /// Unix milliseconds at which the network began.
    epoch_ms: u64,
    link: LinkConfig,
    rng: StdRng,
    nodes: BTreeMap<PublicKey, Node>,
    /// Of each node, by peer: each connection stands here twice.
    connections: BTreeMap<PublicKey, BTreeMap<PublicKey, Connection>>,
    /// What is cut: from whom to whom.
    cut: BTreeSet<(PublicKey, PublicKey)>,
}

struct Node {
    /// Its part of the DHT.
    dht: DhtNode,
    /// Its address on the internet.
    ip: Option<IpAddr>,
    /// It is looking itself up.
    joining: bool,
    /// Ends its tasks when it is removed.
    _gone: DropGuard,
    events: broadcast::Sender<PeerEvent>,
    accepting: BTreeMap<&'static str, mpsc::Sender<(PublicKey, BoxedStream)>>,
}

#[derive(Clone)]
struct Connection {
    dialler: PublicKey,
    closed: CancellationToken,
}

/// One node's view of a [`SimNet`].
pub struct SimNetwork {
    net: SimNet,
    local: PublicKey,
}

/// Both ends of a pair, in one order.
impl SimNet {
    /// An empty network, whose random draws all come from `seed`.
    #[must_use]
    pub fn new(seed: u64, link: LinkConfig) -> SimNet {
        let state = State {
            network: "althing".to_owned(),
            epoch_ms: 0,
            link,
            rng: StdRng::seed_from_u64(seed),
            nodes: BTreeMap::new(),
            connections: BTreeMap::new(),
            cut: BTreeSet::new(),
        };
        SimNet { begun: Instant::now(), state: Arc::new(Mutex::new(state)), links_changed: Arc::default() }
    }

    /// Sets its name, and the time of day at which it began (Unix milliseconds).
    #[must_use]
    pub fn named(self, network: &str, epoch_ms: u64) -> SimNet {
        {
            let mut state = self.lock();
            network.clone_into(&mut state.network);
            state.epoch_ms = epoch_ms;
        }
        self
    }

    /// The time of day, the same for all.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        let elapsed = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.lock().epoch_ms.saturating_add(elapsed)
    }

    /// See [`SimNet::now_ms`].
    #[must_use]
    pub fn clock(&self) -> WallClock {
        let net = self.clone();
        WallClock::new(move || net.now_ms())
    }

    /// How long the network exists, in the time of its runtime.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Adds a node, which is dialled at `sim:<did>`.
    #[must_use]
    pub fn join(&self, local: PublicKey) -> Arc<SimNetwork> {
        self.join_at(local, None)
    }

    /// Adds a node with an address on the internet, whose group counts.
    #[must_use]
    pub fn join_at(&self, local: PublicKey, ip: Option<IpAddr>) -> Arc<SimNetwork> {
        let gone = CancellationToken::new();
        let node = Node {
            dht: DhtNode::new(local, ip.and_then(AddressGroup::of)),
            ip,
            joining: false,
            _gone: gone.clone().drop_guard(),
            events: broadcast::Sender::new(EVENTS),
            accepting: BTreeMap::new(),
        };
        self.lock().nodes.insert(local, node);
        let joined = Arc::new(SimNetwork { net: self.clone(), local });
        let network = joined.clone();
        tokio::spawn(gone.run_until_cancelled_owned(async move {
            loop {
                sleep(REFRESH).await;
                network.refresh().await;
            }
        }));
        joined
    }

    /// Removes a node without closing its streams first, as a power cut does.
    pub fn crash(&self, node: PublicKey) {
        let peers: Vec<PublicKey> = self.peers_of(node).into_iter().map(|(peer, _)| peer).collect();
        for peer in peers {
            self.disconnect(node, peer);
        }
        self.lock().nodes.remove(&node);
    }

    /// How links behave now.
    #[must_use]
    pub fn link(&self) -> LinkConfig {
        self.lock().link.clone()
    }

    /// Sets how links behave from now on.
    pub fn set_link(&self, link: LinkConfig) {
        self.lock().link = link;
    }

    /// Cuts the link between two nodes.
    pub fn cut(&self, a: PublicKey, b: PublicKey) {
        self.cut_one_way(a, b);
        self.cut_one_way(b, a);
    }

    /// Cuts the link from one node to another, so that nothing of `from` arrives at `to`. Nobody can connect either, since
    /// that takes an answer.
    pub fn cut_one_way(&self, from: PublicKey, to: PublicKey) {
        let dead_after = {
            let mut state = self.lock();
            state.cut.insert((from, to));
            state.link.dead_after
        };
        self.links_changed.notify_waiters();
        let net = self.clone();
        tokio::spawn(async move {
            let healed = net.passable(from, to);
            tokio::select! {
                biased;
                () = healed => {}
                () = sleep(dead_after) => net.disconnect(from, to),
            }
        });
    }

    /// Restores the link between two nodes.
    pub fn heal(&self, a: PublicKey, b: PublicKey) {
        {
            let mut state = self.lock();
            state.cut.remove(&(a, b));
            state.cut.remove(&(b, a));
        }
        self.links_changed.notify_waiters();
    }

    /// Restores all links.
    pub fn heal_all(&self) {
        self.lock().cut.clear();
        self.links_changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the simulated network panics")
    }

    fn is_cut(&self, from: PublicKey, to: PublicKey) -> bool {
        self.lock().cut.contains(&(from, to))
    }

    /// Waits until the link from one node to another is not cut.
    async fn passable(&self, from: PublicKey, to: PublicKey) {
        loop {
            let changed = self.links_changed.notified();
            if !self.is_cut(from, to) {
                return;
            }
            changed.await;
        }
    }

    fn connected(&self, a: PublicKey, b: PublicKey) -> bool {
        self.lock().connection(a, b).is_some()
    }

    /// The peers of a node, each with whether the node dialled it.
    fn peers_of(&self, node: PublicKey) -> Vec<(PublicKey, bool)> {
        let state = self.lock();
        let held = state.connections.get(&node).into_iter().flatten();
        held.map(|(peer, held)| (*peer, held.dialler == node)).collect()
    }

    fn connect(&self, dialler: PublicKey, to: PublicKey) -> Result<(), DialError> {
        let mut state = self.lock();
        let is_cut = state.cut.contains(&(dialler, to)) || state.cut.contains(&(to, dialler));
        if !state.nodes.contains_key(&to) || is_cut {
            return Err(DialError::Failed(format!("no answer from {to}")));
        }
        if state.connection(dialler, to).is_some() {
            return Ok(());
        }
        let connection = Connection { dialler, closed: CancellationToken::new() };
        for (node, peer) in [(dialler, to), (to, dialler)] {
            state.connections.entry(node).or_default().insert(peer, connection.clone());
        }
        state.publish(dialler, PeerEvent::Connected(to));
        state.publish(to, PeerEvent::Connected(dialler));
        for (node, peer) in [(dialler, to), (to, dialler)] {
            state.on_contact(node, peer);
            if state.nodes.get_mut(&node).is_some_and(Node::should_join) {
                let network = SimNetwork { net: self.clone(), local: node };
                tokio::spawn(async move { network.refresh().await });
            }
        }
        Ok(())
    }

    fn disconnect(&self, a: PublicKey, b: PublicKey) {
        let mut state = self.lock();
        if let Some(connection) = state.take_connection(a, b) {
            connection.closed.cancel();
            state.publish(a, PeerEvent::Disconnected(b));
            state.publish(b, PeerEvent::Disconnected(a));
        }
    }

    /// When a segment that leaves now arrives.
    fn arrival(&self) -> Instant {
        let mut state = self.lock();
        let mut delay = state.link.latency;
        if !state.link.jitter.is_zero() {
            delay += state.link.jitter.mul_f64(state.rng.random::<f64>());
        }
        let loss = state.link.loss;
        let lost = |state: &mut State| loss > 0.0 && state.rng.random::<f64>() < loss;
        for _ in 0..RETRIES_MAX {
            if !lost(&mut state) {
                break;
            }
            delay += state.link.retransmit;
        }
        Instant::now() + delay
    }

    /// Carries one direction of a stream until either end, or the connection, closes.
    async fn carry(
        self,
        ends: (PublicKey, PublicKey),
        mut from: ReadHalf<DuplexStream>,
        mut to: WriteHalf<DuplexStream>,
        closed: CancellationToken,
    ) {
        let (sent, mut under_way) = mpsc::channel::<(Instant, Vec<u8>)>(WINDOW);
        let net = self.clone();
        let sending = async move {
            let mut last = Instant::now();
            let mut segment = vec![0; SEGMENT];
            while let Ok(len @ 1..) = from.read(&mut segment).await {
                last = last.max(net.arrival());
                if sent.send((last, segment[..len].to_vec())).await.is_err() {
                    return;
                }
            }
        };
        // It owns the queue: when its reader is gone, the sending half ends, too.
        let arriving = async move {
            while let Some((at, segment)) = under_way.recv().await {
                sleep_until(at).await;
                self.passable(ends.0, ends.1).await;
                if to.write_all(&segment).await.is_err() {
                    return;
                }
            }
            // An error means that the reader is gone already.
            let _ = to.shutdown().await;
        };
        tokio::select! {
            biased;
            () = closed.cancelled() => {}
            _ = async { tokio::join!(sending, arriving) } => {}
        }
    }
}

impl Node {
    /// Its routing table is small, and it is not looking itself up yet.
    fn should_join(&mut self) -> bool {
        self.dht.size() < K && !std::mem::replace(&mut self.joining, true)
    }
}

impl State {
    fn connection(&self, node: PublicKey, peer: PublicKey) -> Option<&Connection> {
        self.connections.get(&node)?.get(&peer)
    }

    fn take_connection(&mut self, a: PublicKey, b: PublicKey) -> Option<Connection> {
        let mut taken = None;
        for (node, peer) in [(a, b), (b, a)] {
            taken = self.connections.get_mut(&node).and_then(|held| held.remove(&peer)).or(taken);
        }
        taken
    }

    /// `node` had contact with `peer`, and may add it to its routing table.
    fn on_contact(&mut self, node: PublicKey, peer: PublicKey) {
        let group = self.nodes.get(&peer).and_then(|peer| peer.dht.group);
        if let Some(node) = self.nodes.get_mut(&node) {
            node.dht.on_contact(peer, group);
        }
    }

    fn publish(&self, node: PublicKey, event: PeerEvent) {
        if let Some(node) = self.nodes.get(&node) {
            // An error means that there is no receiver.
            let _ = node.events.send(event);
        }
    }
}
