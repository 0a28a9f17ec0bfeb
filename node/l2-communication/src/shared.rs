//! What all streams and calls of one node share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use althing_protocol::{Hello, OwnerProof, PublicKey, PublisherId, SecretKey, VerifiedOwner};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::config::CommunicationConfig;
use crate::frames::Frames;
use crate::keys::{self, Keys};
use crate::lanes::Lanes;
use crate::machine::caller::Caller;
use crate::machine::peer_rate_limits::PeerRateLimits;
use crate::machine::trust_level::{Holder, TrustLevel};
use crate::network::Network;
use crate::ports::{Entropy, WallClock};
use crate::reach::state::ReachState;
use crate::signed::Opening;
use crate::stream_pool::StreamPool;
use crate::stream_slots::{StreamSlot, StreamSlots};
use crate::tap::Tap;
use crate::uses::{InUse, Using};

/// How long a stream beyond the limit may wait for a slot.
const ADMIT_PATIENCE: Duration = Duration::from_millis(250);

pub(crate) struct Shared {
    pub network: Arc<dyn Network>,
    pub config: CommunicationConfig,
    pub clock: WallClock,
    pub pool: StreamPool,
    key: SecretKey,
    entropy: Entropy,
    membership: watch::Receiver<Option<Arc<OwnerProof>>>,
    pub slots: StreamSlots,
    /// The budget of incoming frames.
    frames: Arc<Frames>,
    /// Peers whose agents are called from here.
    in_use: Arc<InUse>,
    refused: AtomicU64,
    /// The owners that peers proved.
    owners: Mutex<BTreeMap<PublicKey, VerifiedOwner>>,
    /// Those of them that were not connected at the last sweep.
    absent: Mutex<BTreeSet<PublicKey>>,
    /// The publishers' keys.
    pub keys: Keys,
    /// How others can reach this node.
    pub reach: ReachState,
    /// The priority queues of each peer.
    lanes: Mutex<BTreeMap<PublicKey, Arc<Lanes>>>,
    /// Whom this node trusts.
    trusts: OnceLock<Trusts>,
    rate_limits: Mutex<PeerRateLimits>,
    pub begun: Instant,
    /// Random bytes that name this run of the node: no other run of it, nor another node with its key, has them.
    pub instance: [u8; 16],
    /// Where frames are copied to, for an owner who looks.
    pub tap: Arc<Tap>,
}

pub(crate) type Trusts = Box<dyn Fn(&Caller) -> bool + Send + Sync>;

impl Shared {
    pub fn new(
        network: Arc<dyn Network>,
        key: SecretKey,
        membership: watch::Receiver<Option<Arc<OwnerProof>>>,
        config: CommunicationConfig,
        clock: WallClock,
        entropy: Entropy,
    ) -> Shared {
        let slots = StreamSlots::new(config.streams);
        let frames = Arc::new(Frames::new(config.frame_bytes));
        let instance = entropy.bytes();
        Shared {
            network,
            config,
            clock,
            pool: StreamPool::default(),
            key,
            entropy,
            membership,
            slots,
            frames,
            in_use: Arc::default(),
            refused: AtomicU64::new(0),
            owners: Mutex::default(),
            absent: Mutex::default(),
            keys: Keys::default(),
            reach: ReachState::default(),
            lanes: Mutex::default(),
            trusts: OnceLock::new(),
            rate_limits: Mutex::default(),
            begun: Instant::now(),
            instance,
            tap: Arc::new(Tap::new()),
        }
    }

    /// Sets whom this node trusts, once.
    pub fn set_trusts(&self, trusts: Trusts) {
        // The first one stays.
        let _ = self.trusts.set(trusts);
    }

    /// Bytes of frames that peers have announced, that may be read, and that are not handed on yet.
    pub fn frame_bytes_held(&self) -> usize {
        self.frames.held()
    }

    /// Streams that were closed because something on them was refused, since the start.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

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
            tap: self.tap.clone(),
            keeps_frames: false,
        }
    }

    /// A peer with its trust level and origin.
    fn holder(&self, peer: PublicKey) -> Holder {
        let trust = self.trust_level(&Caller { node: peer, owner: self.owner(peer) });
        Holder { peer, trust, origin: self.network.origin(peer) }
    }

    /// The trust level of a peer. Before [`Shared::set_trusts`] nobody is a stranger.
    pub fn trust_level(&self, caller: &Caller) -> TrustLevel {
        if self.is_own(caller) {
            return TrustLevel::Own;
        }
        match self.is_trusted(caller) {
            None | Some(true) => TrustLevel::Trusted,
            Some(false) if self.in_use.contains(caller.node) => TrustLevel::InUse,
            Some(false) => TrustLevel::Stranger,
        }
    }

    /// Is the caller a node of this node's owner?
    fn is_own(&self, caller: &Caller) -> bool {
        let shown = self.membership.borrow();
        shown.as_deref().is_some_and(|shown| caller.owner == Some(shown.owner()))
    }

    /// Tells the network the trust level of a peer.
    pub fn update_trust(&self, peer: PublicKey) {
        self.network.set_trust(peer, self.holder(peer).trust);
    }

    /// Counts a call to an agent of `peer`, until the result is dropped.
    pub fn uses(&self, peer: PublicKey) -> Using {
        let known = self.in_use.contains(peer);
        let using = self.in_use.begin(peer);
        if !known {
            self.update_trust(peer);
        }
        using
    }

    /// How long a peer's stream may be open without a call.
    pub fn idle_timeout(&self, trust: TrustLevel) -> Duration {
        match trust {
            TrustLevel::Stranger => self.config.stranger_idle_timeout.min(self.config.idle_timeout),
            TrustLevel::InUse | TrustLevel::Trusted | TrustLevel::Own => self.config.idle_timeout,
        }
    }

    /// A slot for one more stream from `peer`, if it has not too many. It waits a moment, since a peer within the limit may open a
    /// stream before the end of its last one is noticed. Strangers open streams at a bounded rate, and hold no slot meanwhile.
    pub async fn admit(&self, peer: PublicKey, protocol: &'static str) -> Option<StreamSlot> {
        let of_peer = self.slots.inbound(peer, protocol);
        let of_peer = timeout(ADMIT_PATIENCE, of_peer.acquire_owned()).await.ok()?.ok()?;
        self.throttle(&Caller { node: peer, owner: self.owner(peer) }).await;
        self.slots.open(protocol, self.holder(peer), of_peer)
    }

    /// Waits until one more call to `peer` may be made.
    pub async fn queue(&self, peer: PublicKey, protocol: &'static str) -> OwnedSemaphorePermit {
        let of_peer = self.slots.outbound(peer, protocol);
        of_peer.acquire_owned().await.expect("these semaphores are never closed")
    }

    /// The ownership proof that a connected peer showed before.
    pub fn shown_owner(&self, peer: PublicKey) -> Option<VerifiedOwner> {
        self.owners().get(&peer).cloned()
    }

    /// Takes the ownership proof of a peer's hello. Whether its keys are still valid is checked at each use.
    pub fn note_owner(&self, peer: PublicKey, hello: &Hello) -> Option<VerifiedOwner> {
        let shown = keys::note_owner(self, peer, hello)?;
        self.owners().insert(peer, shown.clone());
        // A stream may come before its connection is reported, or be read after its end: sweeps drop what stays behind.
        if self.network.is_connected(peer) {
            self.update_trust(peer);
        }
        Some(shown)
    }

    /// The owner that a connected peer proved.
    pub fn owner(&self, peer: PublicKey) -> Option<PublisherId> {
        let shown = self.owners().get(&peer).cloned()?;
        self.owner_by(&shown)
    }

    /// The owner, as long as the membership is valid by the keys known now.
    pub fn owner_by(&self, shown: &VerifiedOwner) -> Option<PublisherId> {
        self.keys.owns(shown, shown.membership.body.node, self.clock.now_ms()).ok()
    }

    /// The membership that this node shows.
    pub fn own_membership(&self) -> Option<Arc<OwnerProof>> {
        self.membership.borrow().clone()
    }

    pub fn owners(&self) -> std::sync::MutexGuard<'_, BTreeMap<PublicKey, VerifiedOwner>> {
        self.owners.lock().expect("no holder of the owners panics")
    }

    pub fn lanes(&self) -> std::sync::MutexGuard<'_, BTreeMap<PublicKey, Arc<Lanes>>> {
        self.lanes.lock().expect("no holder of the lanes panics")
    }

    /// Something that `peer` sent was refused.
    pub fn refuse(&self, peer: PublicKey, protocol: &'static str, reason: &dyn std::fmt::Display) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.log_refusal(peer, protocol, reason);
    }

    /// Logs that something of `peer` was refused, at most once a minute as a warning: a peer must not fill the log.
    pub fn log_refusal(&self, peer: PublicKey, protocol: &'static str, reason: &dyn std::fmt::Display) {
        match self.rate_limits().log_refusal(peer, self.begun.elapsed()) {
            Some(suppressed) => tracing::warn!(%peer, protocol, %reason, suppressed, "refused"),
            None => tracing::debug!(%peer, protocol, %reason, "refused"),
        }
    }

    /// Is a peer trusted? `None` before [`Shared::set_trusts`].
    pub fn is_trusted(&self, caller: &Caller) -> Option<bool> {
        self.trusts.get().map(|trusts| trusts(caller))
    }

    /// Delays a stranger's request that exceeds its rate.
    pub async fn throttle(&self, caller: &Caller) {
        let rate = self.config.stranger_rate;
        if rate > 0 && self.is_trusted(caller) == Some(false) {
            let wait = self.rate_limits().request(caller.node, rate, self.begun.elapsed());
            if !wait.is_zero() {
                sleep(wait).await;
            }
        }
    }

    fn rate_limits(&self) -> std::sync::MutexGuard<'_, PeerRateLimits> {
        self.rate_limits.lock().expect("no holder of the rate limits panics")
    }

    pub fn forget(&self, peer: PublicKey) {
        self.pool.forget(peer);
        self.owners().remove(&peer);
        self.keys.forget_peer(peer);
        self.lanes().remove(&peer);
    }

    /// Drops unused state, also that of departed peers, which a call under way may have added again.
    pub fn sweep(&self) {
        self.pool.sweep();
        self.slots.sweep();
        self.in_use.sweep();
        self.rate_limits().sweep(self.begun.elapsed());
        let here: BTreeSet<PublicKey> = self.network.connected().into_iter().collect();
        self.sweep_owners(&here);
        self.lanes().retain(|peer, lanes| here.contains(peer) || Arc::strong_count(lanes) > 1);
        // Trust levels change over time.
        here.into_iter().for_each(|peer| self.update_trust(peer));
    }
    /// Drops what peers showed that are not connected, at the second sweep that finds it so: the connection of a peer that has just
    /// come may not be among the reported ones yet.
    fn sweep_owners(&self, here: &BTreeSet<PublicKey>) {
        let absent = self.owners().keys().filter(|peer| !here.contains(peer)).copied().collect();
        let mut before = self.absent.lock().expect("no holder of the absent peers panics");
        for peer in before.intersection(&absent) {
            self.owners().remove(peer);
            self.keys.forget_peer(*peer);
        }
        *before = absent;
    }
}
