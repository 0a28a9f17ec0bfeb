//! The calling side: a unary call borrows an idle stream, a streaming call owns one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use althing_protocol::{Frame, FrameKind, OwnerProof, PublicKey};
use futures::Stream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout};

use crate::error::{CallError, StreamError};
use crate::inbound::name;
use crate::lanes::Priority;
use crate::network::OpenError;
use crate::service::{Request, Shared};
use crate::signed::SignedStream;
use crate::uses::Using;

/// How often a stream is opened before a call is given up.
const OPEN_TRIES: usize = 3;

/// A stream that nobody borrowed for this long is closed.
const IDLE: Duration = Duration::from_secs(20);

/// Streams that wait for the next call, and since when.
type Idle = Vec<(SignedStream, Instant)>;

/// Streams that wait for the next call.
#[derive(Default)]
pub(crate) struct Pool {
    idle: Mutex<BTreeMap<(PublicKey, &'static str), Idle>>,
    /// Those of the present connection to each peer: what was borrowed of an earlier one does not come back.
    eras: Mutex<BTreeMap<PublicKey, Arc<Era>>>,
}

/// Over when the peer is gone, or is to be reached another way.
#[derive(Default)]
struct Era(AtomicBool);

impl Pool {
    fn take(&self, peer: PublicKey, protocol: &'static str, shows: Option<&OwnerProof>) -> Option<SignedStream> {
        let mut idle = self.idle.lock().expect("no holder of the pool panics");
        let streams = idle.get_mut(&(peer, protocol))?;
        // Newest first: the old ones run into the other side's idle timeout together, and are then dropped together.
        while let Some((mut stream, _)) = streams.pop() {
            if !stream.is_spent(shows) {
                return Some(stream);
            }
        }
        None
    }

    fn era(&self, peer: PublicKey) -> Arc<Era> {
        self.eras().entry(peer).or_default().clone()
    }

    fn give(&self, (peer, protocol): (PublicKey, &'static str), stream: SignedStream, era: &Era, max: usize) {
        let mut idle = self.idle.lock().expect("no holder of the pool panics");
        // Looked at with the lock: what ends an era takes it afterwards.
        if era.0.load(Ordering::Acquire) {
            return;
        }
        let streams = idle.entry((peer, protocol)).or_default();
        if streams.len() < max {
            streams.push((stream, Instant::now()));
        }
    }

    /// Closes those that the other side closed, and those that nobody needed for long.
    pub fn sweep(&self) {
        let mut idle = self.idle.lock().expect("no holder of the pool panics");
        idle.retain(|_, streams| {
            streams.retain_mut(|(stream, since)| since.elapsed() < IDLE && !stream.is_closed());
            !streams.is_empty()
        });
        // Nobody has anything of the others.
        let held = |peer: &PublicKey| idle.keys().any(|(with, _)| with == peer);
        self.eras().retain(|peer, era| Arc::strong_count(era) > 1 || held(peer));
    }

    /// Forgets the streams to a peer that is gone, or is to be reached another way.
    pub fn forget(&self, peer: PublicKey) {
        if let Some(era) = self.eras().remove(&peer) {
            era.0.store(true, Ordering::Release);
        }
        self.idle.lock().expect("no holder of the pool panics").retain(|(with, _), _| *with != peer);
    }

    fn eras(&self) -> MutexGuard<'_, BTreeMap<PublicKey, Arc<Era>>> {
        self.eras.lock().expect("no holder of the eras panics")
    }

    /// Peers for which something is kept.
    #[cfg(test)]
    pub fn peers(&self) -> usize {
        self.eras().len()
    }
}

/// One call and its answer.
pub(crate) async fn unary(
    shared: &Shared,
    peer: PublicKey,
    protocol: &'static str,
    request: Request,
) -> Result<Vec<u8>, CallError> {
    let deadline = request.deadline.unwrap_or(shared.config.default_deadline);
    let calling = async {
        let _using = request.agent.is_some().then(|| shared.uses(peer));
        let _permit = shared.queue(peer, protocol).await;
        let era = shared.pool.era(peer);
        let mut stream = borrow(shared, peer, protocol).await?;
        let broken = |reason| CallError::Broken { peer, reason };
        let priority = request.priority;
        stream.send(request.into_frame(deadline), priority).await.map_err(broken)?;
        let frame = stream.receive().await.map_err(broken)?;
        let answer = match frame.kind {
            FrameKind::Response => Ok(frame.body),
            FrameKind::Error => Err(CallError::Refused { peer, body: frame.body }),
            kind => return Err(broken(StreamError::Unexpected(name(kind)))),
        };
        shared.pool.give((peer, protocol), stream, &era, shared.places.limits(protocol).idle_max);
        answer
    };
    let late = |_| CallError::Deadline { peer, after_ms: millis(deadline) };
    timeout(deadline, calling).await.map_err(late)?
}

/// One call and the events of its answer.
pub(crate) async fn streaming(
    shared: &Shared,
    peer: PublicKey,
    protocol: &'static str,
    request: Request,
) -> Result<Events, CallError> {
    let patience = request.deadline.unwrap_or(shared.config.default_deadline);
    let opening = async {
        let using = request.agent.is_some().then(|| shared.uses(peer));
        let permit = shared.queue(peer, protocol).await;
        let mut stream = borrow(shared, peer, protocol).await?;
        let priority = request.priority;
        stream
            .send(request.into_frame(patience), priority)
            .await
            .map_err(|reason| CallError::Broken { peer, reason })?;
        Ok(Events { peer, stream, _permit: permit, _using: using })
    };
    let late = |_| CallError::Deadline { peer, after_ms: millis(patience) };
    timeout(patience, opening).await.map_err(late)?
}

async fn borrow(shared: &Shared, peer: PublicKey, protocol: &'static str) -> Result<SignedStream, CallError> {
    if let Some(stream) = shared.pool.take(peer, protocol, shared.own_membership().as_deref()) {
        return Ok(stream);
    }
    // What opening takes is larger than what a call takes, and over soon.
    Box::pin(open(shared, peer, protocol)).await
}

async fn open(shared: &Shared, peer: PublicKey, protocol: &'static str) -> Result<SignedStream, CallError> {
    let mut tries = OPEN_TRIES;
    loop {
        let opening = timeout(shared.config.frame_timeout, shared.network.open(peer, protocol));
        tries -= 1;
        let raw = match opening.await.unwrap_or(Err(OpenError::Timeout)) {
            Ok(raw) => raw,
            // One of two connections may just be being closed.
            Err(OpenError::Io(_)) if tries > 0 => continue,
            Err(reason) => return Err(CallError::Unreachable { peer, reason }),
        };
        match SignedStream::open(raw, shared.opening(protocol, peer)).await {
            Ok((stream, hello)) => {
                shared.note_owner(peer, &hello);
                return Ok(stream);
            }
            // Nothing was asked yet, and a busy peer, or a second connection that is being closed, drops streams.
            Err(StreamError::Closed | StreamError::Io(_)) if tries > 0 => {}
            Err(reason) => return Err(CallError::Broken { peer, reason }),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The events of a streamed answer. Dropping it cancels the call.
pub struct Events {
    peer: PublicKey,
    pub(crate) stream: SignedStream,
    _permit: OwnedSemaphorePermit,
    _using: Option<Using>,
}

impl Events {
    /// The next event; `None` once the answer is complete.
    ///
    /// # Errors
    /// [`CallError::Refused`] when the peer ends the answer with an error, [`CallError::Broken`] when the stream fails.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, CallError> {
        let peer = self.peer;
        let frame = self.stream.receive().await.map_err(|reason| CallError::Broken { peer, reason })?;
        match frame.kind {
            FrameKind::Event => Ok(Some(frame.body)),
            FrameKind::End => Ok(None),
            FrameKind::Error => Err(CallError::Refused { peer, body: frame.body }),
            kind => Err(CallError::Broken { peer, reason: StreamError::Unexpected(name(kind)) }),
        }
    }

    /// Tells the peer at once that no more events are wanted.
    pub async fn cancel(mut self) {
        // A stream that fails here is closed all the same, which the peer takes for a cancellation.
        let _ = self.stream.send(Frame::new(FrameKind::Cancel, Vec::new()), Priority::Urgent).await;
    }

    /// The events as a stream that ends after the first error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Vec<u8>, CallError>> + Send {
        futures::stream::unfold(Some(self), |events| async move {
            let mut events = events?;
            match events.next().await {
                Ok(Some(body)) => Some((Ok(body), Some(events))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
    }
}
