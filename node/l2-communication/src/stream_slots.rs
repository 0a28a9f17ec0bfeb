//! Stream slots: how many streams each peer may have each way, and which inbound streams are kept when all peers together
//! have too many, as [`machine::stream_admission`](crate::machine::stream_admission) decides. Each protocol
//! has a pool and limits of its own, so that it never waits for another.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use althing_protocol::PublicKey;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::machine::stream_admission::{Effect, Input, StreamAdmission, StreamId};
use crate::machine::trust_level::{Holder, TrustLevel};

/// Streams whose opening is not complete, beside those that are open: as many as may wait to be accepted under one protocol.
const OPENING_MAX: usize = 256;

/// The limits on the streams of one protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamLimits {
    /// Streams of one peer, each way; of more, ours queue and theirs are closed. yamux allows 512 on a connection, both
    /// ways and of all protocols together: choose small ones, as all but calls do.
    pub per_peer_max: usize,
    /// Streams that all peers together have open towards this node; beyond, the stream of a less trusted peer, or of the
    /// one with most streams, is closed.
    pub total_max: usize,
    /// Streams to one peer that are kept open for the next call.
    pub idle_max: usize,
}

impl Default for StreamLimits {
    /// What the calls of agents need.
    fn default() -> Self {
        StreamLimits { per_peer_max: 256, total_max: 4_096, idle_max: 64 }
    }
}

/// The limit on the streams of one peer, one way; [`StreamSlots::sweep`] drops unused entries.
type ByPeer = Mutex<BTreeMap<(PublicKey, &'static str), Weak<Semaphore>>>;

/// The stream slots of one node.
pub(crate) struct StreamSlots {
    /// The limits of a protocol that this node calls and does not serve.
    unserved: StreamLimits,
    pools: Mutex<BTreeMap<&'static str, (StreamLimits, Arc<SlotPool>)>>,
    inbound: ByPeer,
    outbound: ByPeer,
}

pub(crate) struct SlotPool {
    state: Mutex<SlotPoolState>,
}

struct SlotPoolState {
    admission: StreamAdmission,
    ends: BTreeMap<StreamId, CancellationToken>,
    next: StreamId,
}

/// The slot of one inbound stream, which dropping it frees.
pub(crate) struct StreamSlot {
    pool: Arc<SlotPool>,
    stream: StreamId,
    ended: CancellationToken,
    _of_peer: OwnedSemaphorePermit,
}

impl StreamSlots {
    pub fn new(unserved: StreamLimits) -> StreamSlots {
        StreamSlots { unserved, pools: Mutex::default(), inbound: ByPeer::default(), outbound: ByPeer::default() }
    }

    /// Sets the limits on the streams of `protocol`, before its first stream.
    pub fn add_pool(&self, protocol: &'static str, limits: StreamLimits) {
        self.pools().insert(protocol, (limits, SlotPool::new(&limits)));
    }

    /// The limits on the streams of `protocol`.
    pub fn limits(&self, protocol: &'static str) -> StreamLimits {
        self.of(protocol).0
    }

    fn of(&self, protocol: &'static str) -> (StreamLimits, Arc<SlotPool>) {
        let mut pools = self.pools();
        let pool = || (self.unserved, SlotPool::new(&self.unserved));
        let (limits, pool) = pools.entry(protocol).or_insert_with(pool);
        (*limits, pool.clone())
    }

    /// The limit on the streams that a peer opens.
    pub fn inbound(&self, peer: PublicKey, protocol: &'static str) -> Arc<Semaphore> {
        of_peer(&self.inbound, (peer, protocol), self.limits(protocol).per_peer_max)
    }

    /// The limit on the streams to a peer.
    pub fn outbound(&self, peer: PublicKey, protocol: &'static str) -> Arc<Semaphore> {
        of_peer(&self.outbound, (peer, protocol), self.limits(protocol).per_peer_max)
    }

    /// A slot for an inbound stream whose opening is not complete; `of_peer` is its peer's permit. `None` when there is none.
    pub fn open(&self, protocol: &'static str, holder: Holder, of_peer: OwnedSemaphorePermit) -> Option<StreamSlot> {
        let (_, pool) = self.of(protocol);
        let ended = CancellationToken::new();
        let stream = {
            let mut state = pool.lock();
            let stream = state.next;
            state.next += 1;
            state.ends.insert(stream, ended.clone());
            state.step(Input::Opened { stream, holder });
            stream
        };
        let slot = StreamSlot { pool, stream, ended, _of_peer: of_peer };
        (!slot.ended.is_cancelled()).then_some(slot)
    }

    /// Drops the limits of peers without streams.
    pub fn sweep(&self) {
        for map in [&self.inbound, &self.outbound] {
            lock(map).retain(|_, limit| limit.strong_count() > 0);
        }
    }

    /// Peers with a limit.
    #[cfg(test)]
    pub fn peers(&self) -> usize {
        lock(&self.inbound).len() + lock(&self.outbound).len()
    }

    fn pools(&self) -> MutexGuard<'_, BTreeMap<&'static str, (StreamLimits, Arc<SlotPool>)>> {
        self.pools.lock().expect("no holder of the pools panics")
    }
}

fn lock(map: &ByPeer) -> MutexGuard<'_, BTreeMap<(PublicKey, &'static str), Weak<Semaphore>>> {
    map.lock().expect("no holder of the peers' limits panics")
}

fn of_peer(map: &ByPeer, of: (PublicKey, &'static str), max: usize) -> Arc<Semaphore> {
    let mut map = lock(map);
    if let Some(limit) = map.get(&of).and_then(Weak::upgrade) {
        return limit;
    }
    let limit = Arc::new(Semaphore::new(max));
    map.insert(of, Arc::downgrade(&limit));
    limit
}

impl SlotPool {
    fn new(limits: &StreamLimits) -> Arc<SlotPool> {
        let admission = StreamAdmission::new(limits.total_max, OPENING_MAX);
        Arc::new(SlotPool { state: Mutex::new(SlotPoolState { admission, ends: BTreeMap::new(), next: 0 }) })
    }

    fn lock(&self) -> MutexGuard<'_, SlotPoolState> {
        self.state.lock().expect("no holder of the slots panics")
    }
}

impl SlotPoolState {
    fn step(&mut self, input: Input) {
        if let Some(Effect::Refuse { stream } | Effect::End { stream }) = self.admission.step(input)
            && let Some(end) = self.ends.remove(&stream)
        {
            end.cancel();
        }
    }
}

impl StreamSlot {
    /// Both sides said hello: is the stream kept?
    pub fn proven(&self, trust: TrustLevel) -> bool {
        self.pool.lock().step(Input::Proven { stream: self.stream, trust });
        !self.ended.is_cancelled()
    }

    /// A call begins on it, of a peer with this trust level now.
    pub fn busy(&self, trust: TrustLevel) {
        self.pool.lock().step(Input::Busy { stream: self.stream, trust });
    }

    /// The call is over.
    pub fn idle(&self) {
        self.pool.lock().step(Input::Idle { stream: self.stream });
    }

    /// Waits until the slot is given to another stream.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.ends.remove(&self.stream);
        state.step(Input::Closed { stream: self.stream });
    }
}
