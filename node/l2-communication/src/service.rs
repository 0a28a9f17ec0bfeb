//! The shell of L2: ties a [`Network`] to callers and to [`Inbound`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use althing_protocol::object::{self, Membership};
use althing_protocol::{AgentId, Authored, Frame, FrameKind, Hello, PublicKey, SecretKey};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, watch};
use tokio::time::{Instant, interval, sleep, timeout};

use crate::caller::Caller;
use crate::config::CommunicationConfig;
use crate::error::CallError;
use crate::inbound::{self, Inbound};
use crate::keys::{self, KEYS, Keys};
use crate::lanes::{Lanes, Priority};
use crate::machine::manners::Manners;
use crate::network::{AcceptError, Network, PeerEvent};
use crate::outbound::{self, Events, Pool};
use crate::ports::{Entropy, WallClock};
use crate::reach::{self, REACH, Reaching};
use crate::signed::Opening;

/// How long a stream beyond the limit may wait.
const ADMIT_PATIENCE: Duration = Duration::from_millis(250);

/// How often streams are looked for that nobody needs.
const SWEEP: Duration = Duration::from_secs(5);

/// One operation asked of a peer, or by one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// The operation's name.
    pub operation: String,
    /// The agent that it is for, where the protocol addresses agents.
    pub agent: Option<AgentId>,
    /// How long the answer is wanted.
    pub deadline: Option<Duration>,
    /// W3C `traceparent`.
    pub traceparent: Option<String>,
    /// W3C `tracestate`.
    pub tracestate: Option<String>,
    /// Who asks, the origin first.
    pub principals: Vec<String>,
    /// A2A extension URIs that the client activates.
    pub extensions: Vec<String>,
    /// How soon it is to be there; not told to the peer, who has an opinion of its own.
    pub priority: Priority,
    /// What is asked.
    pub body: Vec<u8>,
}

impl Request {
    /// `operation` with `body` and nothing else.
    #[must_use]
    pub fn new(operation: &str, body: Vec<u8>) -> Request {
        Request { operation: operation.to_owned(), body, ..Request::default() }
    }

    pub(crate) fn from_frame(frame: Frame) -> Request {
        Request {
            operation: frame.operation.unwrap_or_default(),
            agent: frame.agent,
            deadline: frame.deadline_ms.map(Duration::from_millis),
            traceparent: frame.traceparent,
            tracestate: frame.tracestate,
            principals: frame.principals.unwrap_or_default(),
            extensions: frame.extensions.unwrap_or_default(),
            priority: Priority::default(),
            body: frame.body,
        }
    }

    pub(crate) fn into_frame(self, deadline: Duration) -> Frame {
        let some = |list: Vec<String>| (!list.is_empty()).then_some(list);
        Frame {
            operation: Some(self.operation),
            agent: self.agent,
            deadline_ms: u64::try_from(deadline.as_millis()).ok(),
            traceparent: self.traceparent,
            tracestate: self.tracestate,
            principals: some(self.principals),
            extensions: some(self.extensions),
            ..Frame::new(FrameKind::Request, self.body)
        }
    }
}

/// Signed calls over a network.
#[derive(Clone)]
pub struct Communication {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub network: Arc<dyn Network>,
    pub config: CommunicationConfig,
    pub clock: WallClock,
    pub pool: Pool,
    key: SecretKey,
    entropy: Entropy,
    membership: watch::Receiver<Option<Vec<u8>>>,
    limits: Limits,
    refused: AtomicU64,
    /// Whose nodes the peers proved to be.
    owners: Mutex<BTreeMap<PublicKey, Authored<Membership>>>,
    /// Which keys speak for whom.
    pub keys: Keys,
    /// How others can reach this node.
    pub reaching: Reaching,
    /// Who writes to which peer.
    lanes: Mutex<BTreeMap<PublicKey, Arc<Lanes>>>,
    /// Whom this node trusts.
    trusts: OnceLock<Trusts>,
    manners: Mutex<Manners>,
    begun: Instant,
}

type Trusts = Box<dyn Fn(&Caller) -> bool + Send + Sync>;

struct Limits {
    inbound: Arc<Semaphore>,
    inbound_by_peer: Mutex<ByPeer>,
    outbound_by_peer: Mutex<ByPeer>,
}

/// What one peer may have of calls (0), and of each thing that nodes ask each other by themselves: that never waits for
/// calls, nor for each other.
type ByPeer = BTreeMap<(PublicKey, u8), Arc<Semaphore>>;

/// Streams of one peer for what nodes ask each other by themselves.
const OWN_STREAMS: usize = 8;

/// Which kind of stream a protocol has; see [`ByPeer`].
pub(crate) fn kind(protocol: &'static str) -> u8 {
    match protocol {
        KEYS => 1,
        REACH => 2,
        _ => 0,
    }
}

impl Communication {
    /// Starts L2 on `network`, which must prove the same key. `membership` is shown to every peer and may be renewed.
    #[must_use]
    pub fn start(
        network: Arc<dyn Network>,
        key: SecretKey,
        membership: watch::Receiver<Option<Vec<u8>>>,
        config: CommunicationConfig,
        clock: WallClock,
        entropy: Entropy,
    ) -> Communication {
        let limits = Limits {
            inbound: Arc::new(Semaphore::new(config.streams_max)),
            inbound_by_peer: Mutex::default(),
            outbound_by_peer: Mutex::default(),
        };
        let events = network.events();
        let shared = Arc::new(Shared {
            network,
            config,
            clock,
            pool: Pool::default(),
            key,
            entropy,
            membership,
            limits,
            refused: AtomicU64::new(0),
            owners: Mutex::default(),
            keys: Keys::default(),
            reaching: Reaching::default(),
            lanes: Mutex::default(),
            trusts: OnceLock::new(),
            manners: Mutex::default(),
            begun: Instant::now(),
        });
        tokio::spawn(forget_the_gone(Arc::downgrade(&shared), events));
        let communication = Communication { shared: shared.clone() };
        // Errors mean that this network has an L2 already, which then serves.
        let _ = communication.serve(REACH, Arc::new(reach::Serving(Arc::downgrade(&shared))));
        if communication.serve(KEYS, Arc::new(keys::Serving(Arc::downgrade(&shared)))).is_ok() {
            tokio::spawn(keys::spread(Arc::downgrade(&shared), shared.network.events()));
        }
        communication
    }

    /// Says whom this node trusts. Everybody else is a stranger: served at a bounded rate, and not believed alone. Whoever
    /// says so first is heard.
    pub fn trusts(&self, trusts: impl Fn(&Caller) -> bool + Send + Sync + 'static) {
        let _ = self.shared.trusts.set(Box::new(trusts));
    }

    /// Hands the calls of `protocol` to `to`.
    ///
    /// # Errors
    /// [`AcceptError::Taken`] when that was done before.
    pub fn serve(&self, protocol: &'static str, to: Arc<dyn Inbound>) -> Result<(), AcceptError> {
        let incoming = self.shared.network.accept(protocol)?;
        tokio::spawn(inbound::accept(self.shared.clone(), protocol, incoming, to));
        Ok(())
    }

    /// Asks `peer`, and waits for its one answer. Dropping the future cancels the call.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call(&self, peer: PublicKey, protocol: &'static str, request: Request) -> Result<Vec<u8>, CallError> {
        outbound::unary(&self.shared, peer, protocol, request).await
    }

    /// Asks `peer` for an answer in events.
    ///
    /// # Errors
    /// See [`CallError`]; the peer's own refusal comes from [`Events::next`].
    pub async fn stream(&self, peer: PublicKey, protocol: &'static str, request: Request) -> Result<Events, CallError> {
        outbound::streaming(&self.shared, peer, protocol, request).await
    }

    /// Whether the peer was shown, when this call was made, whose node this is now. Otherwise it is to be made anew.
    #[must_use]
    pub fn is_current(&self, events: &Events) -> bool {
        events.stream.shows(self.shared.own_membership().as_deref())
    }

    /// Whose node a connected peer proved to be.
    #[must_use]
    pub fn owner(&self, peer: PublicKey) -> Option<PublicKey> {
        self.shared.owner(peer)
    }

    /// What is known of keys.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.shared.keys
    }

    /// The network below.
    #[must_use]
    pub fn network(&self) -> &Arc<dyn Network> {
        &self.shared.network
    }

    /// Says in the log that something of `peer` was refused, `what`, and why: once a minute for each peer.
    pub fn complain(&self, peer: PublicKey, what: &'static str, reason: &dyn std::fmt::Display) {
        self.shared.complain(peer, what, reason);
    }

    /// Streams that were closed because something on them was refused, since the start.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }
}

/// Drops what was kept for a peer when its last connection is gone, and streams that nobody needs.
async fn forget_the_gone(shared: std::sync::Weak<Shared>, mut events: broadcast::Receiver<PeerEvent>) {
    let mut sweep = interval(SWEEP);
    loop {
        let event = tokio::select! {
            biased;
            event = events.recv() => event,
            _ = sweep.tick() => {
                let Some(shared) = shared.upgrade() else { return };
                shared.pool.sweep();
                continue;
            }
        };
        let Some(shared) = shared.upgrade() else { return };
        match event {
            Ok(PeerEvent::Disconnected(peer)) => shared.forget(peer),
            Ok(PeerEvent::Moved(peer)) => shared.pool.forget(peer),
            Ok(PeerEvent::Connected(_)) => {}
            Err(broadcast::error::RecvError::Lagged(_)) => {
                let here = shared.network.connected();
                for peer in shared.limits.peers() {
                    if !here.contains(&peer) {
                        shared.forget(peer);
                    }
                }
            }
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

impl Limits {
    fn peers(&self) -> Vec<PublicKey> {
        let limits = self.outbound_by_peer.lock().expect("no holder of the limits panics");
        limits.keys().map(|(peer, _)| *peer).collect()
    }
}

fn of_peer(map: &Mutex<ByPeer>, peer: PublicKey, protocol: &'static str, max: usize) -> Arc<Semaphore> {
    let kind = kind(protocol);
    let mut map = map.lock().expect("no holder of the limits panics");
    let max = if kind > 0 { OWN_STREAMS } else { max };
    map.entry((peer, kind)).or_insert_with(|| Arc::new(Semaphore::new(max))).clone()
}

impl Shared {
    pub fn opening(&self, protocol: &'static str, peer: PublicKey) -> Opening<'_> {
        Opening {
            network: &self.config.network,
            protocol,
            key: &self.key,
            peer,
            challenge: self.entropy.bytes(),
            membership: self.own_membership(),
            timeout: self.config.frame_timeout,
            lanes: self.lanes().entry(peer).or_default().clone(),
        }
    }

    /// Leave for one more stream from `peer`, if it and all together have not too many. A peer that keeps to the limit
    /// may open a stream just before its last one is seen to be closed: so there is a little patience. Strangers open them
    /// at a bounded rate, and take no place among all while they wait.
    pub async fn admit(&self, peer: PublicKey, protocol: &'static str) -> Option<[OwnedSemaphorePermit; 2]> {
        let own = of_peer(&self.limits.inbound_by_peer, peer, protocol, self.config.streams_per_peer_max);
        let own = timeout(ADMIT_PATIENCE, own.acquire_owned()).await.ok()?.ok()?;
        self.pace(&Caller { node: peer, owner: self.owner(peer) }).await;
        let all = timeout(ADMIT_PATIENCE, self.limits.inbound.clone().acquire_owned()).await.ok()?.ok()?;
        Some([own, all])
    }

    /// Waits until one more call to `peer` may be made.
    pub async fn queue(&self, peer: PublicKey, protocol: &'static str) -> OwnedSemaphorePermit {
        let own = of_peer(&self.limits.outbound_by_peer, peer, protocol, self.config.streams_per_peer_max);
        own.acquire_owned().await.expect("these semaphores are never closed")
    }

    /// What the peer showed of its owner in its opening; whether it holds is judged when it matters.
    pub fn note_owner(&self, peer: PublicKey, hello: &Hello) -> Option<Authored<Membership>> {
        let bytes = hello.membership.as_deref()?;
        let shown = object::open::<Membership>(bytes, &self.config.network, "")
            .inspect_err(|reason| self.complain(peer, "membership", reason))
            .ok()?;
        if shown.body.node != peer {
            return None;
        }
        self.owners().insert(peer, shown.clone());
        Some(shown)
    }

    /// Whose node a connected peer proved to be.
    pub fn owner(&self, peer: PublicKey) -> Option<PublicKey> {
        let shown = self.owners().get(&peer).cloned()?;
        self.owner_by(&shown)
    }

    /// The owner, as long as the membership holds by what is known of keys now.
    pub fn owner_by(&self, shown: &Authored<Membership>) -> Option<PublicKey> {
        self.keys.owns(shown, shown.body.node, self.clock.now_ms()).ok()
    }

    /// What this node shows of its own owner.
    pub fn own_membership(&self) -> Option<Vec<u8>> {
        self.membership.borrow().clone()
    }

    fn owners(&self) -> std::sync::MutexGuard<'_, BTreeMap<PublicKey, Authored<Membership>>> {
        self.owners.lock().expect("no holder of the owners panics")
    }

    fn lanes(&self) -> std::sync::MutexGuard<'_, BTreeMap<PublicKey, Arc<Lanes>>> {
        self.lanes.lock().expect("no holder of the lanes panics")
    }

    /// Something that `peer` sent was refused.
    pub fn refuse(&self, peer: PublicKey, protocol: &'static str, reason: &dyn std::fmt::Display) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.complain(peer, protocol, reason);
    }

    /// Says in the log that something of `peer` was refused, unless that was said a moment ago: a peer must not fill the log.
    pub fn complain(&self, peer: PublicKey, protocol: &'static str, reason: &dyn std::fmt::Display) {
        match self.manners().complain(peer, self.begun.elapsed()) {
            Some(unsaid) => tracing::warn!(%peer, protocol, %reason, unsaid, "refused"),
            None => tracing::debug!(%peer, protocol, %reason, "refused"),
        }
    }

    /// Whether a peer is trusted, where that was said.
    pub fn is_trusted(&self, caller: &Caller) -> Option<bool> {
        self.trusts.get().map(|trusts| trusts(caller))
    }

    /// Has a stranger wait that asks too much.
    pub async fn pace(&self, caller: &Caller) {
        let rate = self.config.stranger_rate;
        if rate > 0 && self.is_trusted(caller) == Some(false) {
            let wait = self.manners().request(caller.node, rate, self.begun.elapsed());
            if !wait.is_zero() {
                sleep(wait).await;
            }
        }
    }

    fn manners(&self) -> std::sync::MutexGuard<'_, Manners> {
        self.manners.lock().expect("no holder of the manners panics")
    }

    fn forget(&self, peer: PublicKey) {
        self.pool.forget(peer);
        self.owners().remove(&peer);
        self.lanes().remove(&peer);
        self.manners().sweep(self.begun.elapsed());
        let full = |kind: u8, limit: &Arc<Semaphore>| {
            limit.available_permits() == if kind > 0 { OWN_STREAMS } else { self.config.streams_per_peer_max }
        };
        for map in [&self.limits.inbound_by_peer, &self.limits.outbound_by_peer] {
            // A limit that is still in use stays: whoever holds a permit would else not be counted.
            map.lock()
                .expect("no holder of the limits panics")
                .retain(|(with, kind), limit| *with != peer || !full(*kind, limit));
        }
    }
}
