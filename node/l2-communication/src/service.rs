//! The shell of L2: ties a [`Network`] to callers and to [`Inbound`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use althing_protocol::keyring::Origin;
use althing_protocol::{
    AgentId, Frame, FrameKind, Hello, OwnerProof, PublicKey, PublisherId, SecretKey, VerifiedOwner,
};
use tokio::sync::{OwnedSemaphorePermit, broadcast, watch};
use tokio::time::{Instant, interval, sleep, timeout};

use crate::caller::Caller;
use crate::config::CommunicationConfig;
use crate::error::CallError;
use crate::frames::Frames;
use crate::inbound::{self, Inbound};
use crate::keys::{self, KEYS, Keys};
use crate::lanes::{Lanes, Priority};
use crate::machine::manners::Manners;
use crate::machine::nearness::{Holder, Nearness};
use crate::network::{AcceptError, Network, PeerEvent};
use crate::outbound::{self, Events, Pool};
use crate::places::{Places, StreamLimits, StreamPlace};
use crate::ports::{Entropy, WallClock};
use crate::reach::{self, REACH, Reaching};
use crate::signed::Opening;
use crate::uses::{InUse, Using};

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
    /// Of a call that came in: where its caller stands. Nobody tells that; the receiver knows it.
    pub holder: Option<Holder>,
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
            holder: None,
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
    membership: watch::Receiver<Option<Arc<OwnerProof>>>,
    pub places: Places,
    /// Bytes of frames that come in.
    frames: Arc<Frames>,
    /// Whose agents are called from here.
    in_use: Arc<InUse>,
    refused: AtomicU64,
    /// Whose nodes the peers proved to be.
    owners: Mutex<BTreeMap<PublicKey, VerifiedOwner>>,
    /// Which keys speak for whom.
    pub keys: Keys,
    /// How others can reach this node.
    pub reaching: Reaching,
    /// Who writes to which peer.
    lanes: Mutex<BTreeMap<PublicKey, Arc<Lanes>>>,
    /// Whom this node trusts.
    trusts: OnceLock<Trusts>,
    manners: Mutex<Manners>,
    pub begun: Instant,
}

type Trusts = Box<dyn Fn(&Caller) -> bool + Send + Sync>;

/// What nodes ask each other by themselves has places of its own, so that it never waits for calls, nor these for each other.
/// A node asks for keys on a stream of each of its connections, and tells on another.
const KEYS_LIMITS: StreamLimits = StreamLimits { per_peer_max: 8, total_max: 1_024, idle_max: 1 };
/// Of all peers few ask at one time.
const REACH_LIMITS: StreamLimits = StreamLimits { per_peer_max: 8, total_max: 256, idle_max: 1 };

impl Communication {
    /// Starts L2 on `network`, which must prove the same key. `membership` is shown to every peer and may be renewed.
    #[must_use]
    pub fn start(
        network: Arc<dyn Network>,
        key: SecretKey,
        membership: watch::Receiver<Option<Arc<OwnerProof>>>,
        config: CommunicationConfig,
        clock: WallClock,
        entropy: Entropy,
    ) -> Communication {
        let places = Places::new(config.common_limits());
        let frames = Arc::new(Frames::new(config.frame_bytes));
        let events = network.events();
        let shared = Arc::new(Shared {
            network,
            config,
            clock,
            pool: Pool::default(),
            key,
            entropy,
            membership,
            places,
            frames,
            in_use: Arc::default(),
            refused: AtomicU64::new(0),
            owners: Mutex::default(),
            keys: Keys::default(),
            reaching: Reaching::default(),
            lanes: Mutex::default(),
            trusts: OnceLock::new(),
            manners: Mutex::default(),
            begun: Instant::now(),
        });
        tokio::spawn(follow_peers(Arc::downgrade(&shared), events));
        let communication = Communication { shared: shared.clone() };
        // Errors mean that this network has an L2 already, which then serves.
        let _ = communication.serve_limited(REACH, REACH_LIMITS, Arc::new(reach::Serving(Arc::downgrade(&shared))));
        let serving = Arc::new(keys::Serving(Arc::downgrade(&shared)));
        if communication.serve_limited(KEYS, KEYS_LIMITS, serving).is_ok() {
            tokio::spawn(keys::run(Arc::downgrade(&shared), shared.network.events()));
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

    /// The same; its streams have places of their own, and so many. Without that they share those of all protocols.
    ///
    /// # Errors
    /// [`AcceptError::Taken`] when that was done before.
    pub fn serve_limited(
        &self,
        protocol: &'static str,
        limits: StreamLimits,
        to: Arc<dyn Inbound>,
    ) -> Result<(), AcceptError> {
        let incoming = self.shared.network.accept(protocol)?;
        self.shared.places.set_own(protocol, limits);
        tokio::spawn(inbound::accept(self.shared.clone(), protocol, incoming, to));
        Ok(())
    }

    /// Bytes of frames that peers have announced, that may be read, and that are not handed on yet.
    #[must_use]
    pub fn frame_bytes_held(&self) -> usize {
        self.shared.frames.held()
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
    pub fn owner(&self, peer: PublicKey) -> Option<PublisherId> {
        self.shared.owner(peer)
    }

    /// Where what this peer tells comes from, as far as somebody pays for it.
    #[must_use]
    pub fn origin(&self, peer: PublicKey) -> Origin {
        keys::origin(&self.shared, peer)
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

/// Tells the network how near who comes is; drops what was kept for a peer when its last connection is gone, and streams that
/// nobody needs.
async fn follow_peers(shared: std::sync::Weak<Shared>, mut events: broadcast::Receiver<PeerEvent>) {
    let mut sweep = interval(SWEEP);
    loop {
        let event = tokio::select! {
            biased;
            event = events.recv() => event,
            _ = sweep.tick() => {
                let Some(shared) = shared.upgrade() else { return };
                shared.sweep();
                continue;
            }
        };
        let Some(shared) = shared.upgrade() else { return };
        match event {
            Ok(PeerEvent::Disconnected(peer)) => shared.forget(peer),
            Ok(PeerEvent::Moved(peer)) => shared.pool.forget(peer),
            Ok(PeerEvent::Connected(peer)) => shared.regard(peer),
            // Who was missed is seen by what is swept.
            Err(broadcast::error::RecvError::Lagged(_)) => shared.sweep(),
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
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
            holder: self.holder(peer),
            frames: self.frames.clone(),
        }
    }

    /// A peer, and where it stands.
    fn holder(&self, peer: PublicKey) -> Holder {
        let nearness = self.nearness(&Caller { node: peer, owner: self.owner(peer) });
        Holder { peer, nearness, origin: self.network.origin(peer) }
    }

    /// How near a peer is to this node. Where nobody has said whom it trusts, nobody is a stranger.
    pub fn nearness(&self, caller: &Caller) -> Nearness {
        if self.is_own(caller) {
            return Nearness::Own;
        }
        match self.is_trusted(caller) {
            None | Some(true) => Nearness::Trusted,
            Some(false) if self.in_use.contains(caller.node) => Nearness::InUse,
            Some(false) => Nearness::Stranger,
        }
    }

    /// Is it a node of this node's owner?
    fn is_own(&self, caller: &Caller) -> bool {
        let shown = self.membership.borrow();
        shown.as_deref().is_some_and(|shown| caller.owner == Some(shown.owner()))
    }

    /// Tells the network how near a peer is.
    fn regard(&self, peer: PublicKey) {
        self.network.regard(peer, self.holder(peer).nearness);
    }

    /// An agent of that peer's is called, until what this gives is dropped.
    pub fn uses(&self, peer: PublicKey) -> Using {
        let known = self.in_use.contains(peer);
        let using = self.in_use.begin(peer);
        if !known {
            self.regard(peer);
        }
        using
    }

    /// How long a peer's stream may stand without a call.
    pub fn idle_timeout(&self, nearness: Nearness) -> Duration {
        match nearness {
            Nearness::Stranger => self.config.stranger_idle_timeout.min(self.config.idle_timeout),
            Nearness::InUse | Nearness::Trusted | Nearness::Own => self.config.idle_timeout,
        }
    }

    /// A place for one more stream from `peer`, if it has not too many. A peer that keeps to the limit may open a stream just
    /// before its last one is seen to be closed: so there is a little patience. Strangers open them at a bounded rate, and take
    /// no place among all while they wait.
    pub async fn admit(&self, peer: PublicKey, protocol: &'static str) -> Option<StreamPlace> {
        let of_peer = self.places.inbound(peer, protocol);
        let of_peer = timeout(ADMIT_PATIENCE, of_peer.acquire_owned()).await.ok()?.ok()?;
        self.pace(&Caller { node: peer, owner: self.owner(peer) }).await;
        self.places.open(protocol, self.holder(peer), of_peer)
    }

    /// Waits until one more call to `peer` may be made.
    pub async fn queue(&self, peer: PublicKey, protocol: &'static str) -> OwnedSemaphorePermit {
        let of_peer = self.places.outbound(peer, protocol);
        of_peer.acquire_owned().await.expect("these semaphores are never closed")
    }

    /// What a connected peer showed of its owner before.
    pub fn shown_owner(&self, peer: PublicKey) -> Option<VerifiedOwner> {
        self.owners().get(&peer).cloned()
    }

    /// What the peer showed of its owner in its opening; whether it holds is judged when it matters.
    pub fn note_owner(&self, peer: PublicKey, hello: &Hello) -> Option<VerifiedOwner> {
        let shown = keys::note_owner(self, peer, hello)?;
        self.owners().insert(peer, shown.clone());
        // Who has left meanwhile was forgotten before this, and is not to be remembered.
        if self.network.is_connected(peer) {
            self.regard(peer);
        } else {
            self.owners().remove(&peer);
            self.keys.forget_peer(peer);
        }
        Some(shown)
    }

    /// Whose node a connected peer proved to be.
    pub fn owner(&self, peer: PublicKey) -> Option<PublisherId> {
        let shown = self.owners().get(&peer).cloned()?;
        self.owner_by(&shown)
    }

    /// The owner, as long as the membership holds by what is known of keys now.
    pub fn owner_by(&self, shown: &VerifiedOwner) -> Option<PublisherId> {
        self.keys.owns(shown, shown.membership.body.node, self.clock.now_ms()).ok()
    }

    /// What this node shows of its own owner.
    pub fn own_membership(&self) -> Option<Arc<OwnerProof>> {
        self.membership.borrow().clone()
    }

    fn owners(&self) -> std::sync::MutexGuard<'_, BTreeMap<PublicKey, VerifiedOwner>> {
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
        self.keys.forget_peer(peer);
        self.lanes().remove(&peer);
    }

    /// Drops what nobody needs: what was kept for peers that are gone, too, which a call that was under way then may have
    /// brought back.
    fn sweep(&self) {
        self.pool.sweep();
        self.places.sweep();
        self.in_use.sweep();
        self.manners().sweep(self.begun.elapsed());
        let here: BTreeSet<PublicKey> = self.network.connected().into_iter().collect();
        self.owners().retain(|peer, _| here.contains(peer));
        self.lanes().retain(|peer, lanes| here.contains(peer) || Arc::strong_count(lanes) > 1);
        // Trust changes, and use ends.
        here.into_iter().for_each(|peer| self.regard(peer));
    }
}

#[cfg(test)]
mod tests;
