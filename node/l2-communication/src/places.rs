//! The places of streams: how many each peer may have each way, and, of those that peers open, which stand when there are too
//! many of all together; that is decided by [`machine::stream_admission`](crate::machine::stream_admission). Each protocol that
//! brings limits of its own has places of its own, so that it never waits for another.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use althing_protocol::PublicKey;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::machine::nearness::{Holder, Nearness};
use crate::machine::stream_admission::{Effect, Input, StreamAdmission, StreamId};

/// Streams that are just being opened, beside those that stand: as many as wait to be taken under one protocol.
const OPENING_MAX: usize = 256;

/// What the streams of one protocol may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamLimits {
    /// Streams of one peer, each way.
    pub per_peer_max: usize,
    /// Streams that all peers together have open towards this node.
    pub total_max: usize,
    /// Streams to one peer that are kept open for the next call.
    pub idle_max: usize,
}

/// The streams of one peer, one way; an entry that nobody uses is dropped by [`Places::sweep`].
type ByPeer = Mutex<BTreeMap<(PublicKey, &'static str), Weak<Semaphore>>>;

/// The places of one node.
pub(crate) struct Places {
    common: (StreamLimits, Arc<Pool>),
    /// Those of protocols that have some of their own.
    own: Mutex<BTreeMap<&'static str, (StreamLimits, Arc<Pool>)>>,
    inbound: ByPeer,
    outbound: ByPeer,
}

/// The name under which protocols stand that have no places of their own.
const COMMON: &str = "";

pub(crate) struct Pool {
    state: Mutex<PoolState>,
}

struct PoolState {
    admission: StreamAdmission,
    ends: BTreeMap<StreamId, CancellationToken>,
    next: StreamId,
}

/// The place of one stream that a peer opened; free again when it is dropped.
pub(crate) struct StreamPlace {
    pool: Arc<Pool>,
    stream: StreamId,
    ended: CancellationToken,
    _of_peer: OwnedSemaphorePermit,
}

impl Places {
    pub fn new(common: StreamLimits) -> Places {
        Places {
            common: (common, Pool::new(&common)),
            own: Mutex::default(),
            inbound: ByPeer::default(),
            outbound: ByPeer::default(),
        }
    }

    /// That protocol has these places for itself.
    pub fn set_own(&self, protocol: &'static str, limits: StreamLimits) {
        self.own().insert(protocol, (limits, Pool::new(&limits)));
    }

    /// What streams of that protocol may take.
    pub fn limits(&self, protocol: &'static str) -> StreamLimits {
        self.of(protocol).1
    }

    fn of(&self, protocol: &'static str) -> (&'static str, StreamLimits, Arc<Pool>) {
        match self.own().get(protocol) {
            Some((limits, pool)) => (protocol, *limits, pool.clone()),
            None => (COMMON, self.common.0, self.common.1.clone()),
        }
    }

    /// What bounds the streams that a peer opens.
    pub fn inbound(&self, peer: PublicKey, protocol: &'static str) -> Arc<Semaphore> {
        let (name, limits, _) = self.of(protocol);
        of_peer(&self.inbound, (peer, name), limits.per_peer_max)
    }

    /// What bounds the streams to a peer.
    pub fn outbound(&self, peer: PublicKey, protocol: &'static str) -> Arc<Semaphore> {
        let (name, limits, _) = self.of(protocol);
        of_peer(&self.outbound, (peer, name), limits.per_peer_max)
    }

    /// A place for a stream that its peer, which `of_peer` lets open it, has not proven anything on. None when there is none.
    pub fn open(&self, protocol: &'static str, holder: Holder, of_peer: OwnedSemaphorePermit) -> Option<StreamPlace> {
        let (_, _, pool) = self.of(protocol);
        let ended = CancellationToken::new();
        let stream = {
            let mut state = pool.lock();
            let stream = state.next;
            state.next += 1;
            state.ends.insert(stream, ended.clone());
            state.step(Input::Opened { stream, holder });
            stream
        };
        let place = StreamPlace { pool, stream, ended, _of_peer: of_peer };
        (!place.ended.is_cancelled()).then_some(place)
    }

    /// Drops what is kept for peers that have no streams.
    pub fn sweep(&self) {
        for map in [&self.inbound, &self.outbound] {
            lock(map).retain(|_, limit| limit.strong_count() > 0);
        }
    }

    /// Peers for which something is kept.
    #[cfg(test)]
    pub fn peers(&self) -> usize {
        lock(&self.inbound).len() + lock(&self.outbound).len()
    }

    fn own(&self) -> MutexGuard<'_, BTreeMap<&'static str, (StreamLimits, Arc<Pool>)>> {
        self.own.lock().expect("no holder of the protocols' places panics")
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

impl Pool {
    fn new(limits: &StreamLimits) -> Arc<Pool> {
        let admission = StreamAdmission::new(limits.total_max, OPENING_MAX);
        Arc::new(Pool { state: Mutex::new(PoolState { admission, ends: BTreeMap::new(), next: 0 }) })
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().expect("no holder of the places panics")
    }
}

impl PoolState {
    fn step(&mut self, input: Input) {
        if let Some(Effect::Refuse { stream } | Effect::End { stream }) = self.admission.step(input)
            && let Some(end) = self.ends.remove(&stream)
        {
            end.cancel();
        }
    }
}

impl StreamPlace {
    /// Both sides said hello: may it stand?
    pub fn proven(&self, nearness: Nearness) -> bool {
        self.pool.lock().step(Input::Proven { stream: self.stream, nearness });
        !self.ended.is_cancelled()
    }

    /// A call begins on it, of a peer that is this near now.
    pub fn busy(&self, nearness: Nearness) {
        self.pool.lock().step(Input::Busy { stream: self.stream, nearness });
    }

    /// The call is over.
    pub fn idle(&self) {
        self.pool.lock().step(Input::Idle { stream: self.stream });
    }

    /// Waits until its place is another's.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.ends.remove(&self.stream);
        state.step(Input::Closed { stream: self.stream });
    }
}
