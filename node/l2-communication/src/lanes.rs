//! Lanes: the priority queues of the frames to one peer. All streams to it share one connection, whose queue is first in, first
//! out; so only few bytes are handed to it at a time, and a more urgent frame overtakes the rest.

use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Context;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use crate::machine::bandwidth::BandwidthEstimator;
use crate::network::BoxedStream;

/// The priority of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Priority {
    /// Hard real-time: never waits.
    Urgent,
    /// Somebody waits for the answer.
    #[default]
    Interactive,
    /// Delay-tolerant: uses the bandwidth that is left over.
    Bulk,
}

/// Bytes handed to a connection at once: as many as yamux puts into one of its frames.
const CHUNK: usize = 16 << 10;
/// The backlog of the connection above which a frame's next chunk waits: on a link of 1 MB/s, an urgent frame is delayed by
/// 16 ms of delay-tolerant bytes, or 256 ms of interactive ones, and by what the kernel and the link have queued.
const fn room(priority: Priority) -> Option<usize> {
    match priority {
        Priority::Urgent => None,
        Priority::Interactive => Some(256 << 10),
        Priority::Bulk => Some(16 << 10),
    }
}
/// How long a chunk waits for more urgent ones. A peer that stops reading one stream delays its others by no more, and
/// delay-tolerant frames do not starve: one chunk is sent in that time, which is 160 kB/s, and completes the longest frame
/// before its receiver's timeout.
const PATIENCE: Duration = Duration::from_millis(100);

/// The priority queues of one peer.
pub(crate) struct Lanes {
    /// Frames that are being written, by priority.
    writing: Mutex<[usize; 3]>,
    /// Notified when one of them was written.
    written: Notify,
    /// Held by the delay-tolerant frame that is being written: they go one after another.
    bulk: Arc<Semaphore>,
    bandwidth: Mutex<BandwidthEstimator>,
    begun: Instant,
}

impl Default for Lanes {
    fn default() -> Lanes {
        Lanes {
            writing: Mutex::default(),
            written: Notify::new(),
            bulk: Arc::new(Semaphore::new(1)),
            bandwidth: Mutex::default(),
            begun: Instant::now(),
        }
    }
}

/// A frame that is being written.
struct Writing<'a>(&'a Lanes, Priority);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.lock()[self.1 as usize] -= 1;
        self.0.written.notify_waiters();
    }
}

impl Lanes {
    /// Waits until a frame may begin: delay-tolerant ones go one after another, so that each one is soon complete.
    pub async fn queue(self: &Arc<Lanes>, priority: Priority) -> Option<OwnedSemaphorePermit> {
        match priority {
            Priority::Bulk => self.bulk.clone().acquire_owned().await.ok(),
            Priority::Urgent | Priority::Interactive => None,
        }
    }

    /// Writes a frame and flushes it.
    pub async fn write(
        &self,
        raw: &mut BoxedStream,
        bytes: &[u8],
        priority: Priority,
        mut turn: Option<OwnedSemaphorePermit>,
    ) -> std::io::Result<()> {
        self.lock()[priority as usize] += 1;
        let _writing = Writing(self, priority);
        if priority != Priority::Bulk {
            self.bandwidth().on_other(self.begun.elapsed());
        }
        for chunk in bytes.chunks(CHUNK) {
            let Some(below) = room(priority) else {
                put(raw, chunk).await?;
                continue;
            };
            let waited = self.wait(raw, priority, below).await;
            {
                let mut putting = std::pin::pin!(put(raw, chunk));
                // A frame that its peer does not read stops holding the bulk permit.
                match timeout(PATIENCE, &mut putting).await {
                    Ok(done) => done?,
                    Err(_) => {
                        turn = None;
                        putting.await?;
                    }
                }
            }
            if priority == Priority::Bulk {
                self.bandwidth().on_written(chunk.len(), waited, raw.sent(), self.begun.elapsed());
            }
        }
        drop(turn);
        Ok(())
    }

    /// Waits for more urgent frames, and for room, up to [`PATIENCE`]. True when there was no room at first.
    async fn wait(&self, raw: &mut BoxedStream, priority: Priority, below: usize) -> bool {
        let (mut waited, until) = (false, Instant::now() + PATIENCE);
        let next = if priority == Priority::Bulk { self.bandwidth().next(self.begun.elapsed()) } else { None };
        if let Some(next) = next {
            tokio::time::sleep_until((self.begun + next).min(until)).await;
        }
        let before = async {
            self.more_urgent_written(priority).await;
            let room = |cx: &mut Context<'_>| {
                let room = raw.poll_room(cx, below);
                waited |= room.is_pending();
                room
            };
            std::future::poll_fn(room).await;
        };
        // After that time the chunk is written regardless.
        let _ = timeout_at(until, before).await;
        waited
    }

    /// Waits until nothing more urgent is being written.
    async fn more_urgent_written(&self, priority: Priority) {
        loop {
            let mut written = std::pin::pin!(self.written.notified());
            // Registered before the check, so that no notification is missed.
            written.as_mut().enable();
            if self.lock()[..priority as usize].iter().all(|writing| *writing == 0) {
                return;
            }
            written.await;
        }
    }

    fn bandwidth(&self) -> MutexGuard<'_, BandwidthEstimator> {
        self.bandwidth.lock().expect("no holder of the bandwidth panics")
    }

    fn lock(&self) -> MutexGuard<'_, [usize; 3]> {
        self.writing.lock().expect("no holder of the lanes panics")
    }
}

async fn put(raw: &mut BoxedStream, chunk: &[u8]) -> std::io::Result<()> {
    raw.write_all(chunk).await?;
    raw.flush().await
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::pin::Pin;
    use std::task::{Poll, Waker};

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    use super::*;
    use crate::network::RawStream;

    /// A connection that sends a chunk only when the test calls `carry`, and records whose it was.
    #[derive(Default)]
    struct Link {
        queued: Vec<u8>,
        gone: Vec<u8>,
        waiting: Vec<Waker>,
    }

    #[derive(Clone)]
    struct On(Arc<Mutex<Link>>);

    impl AsyncRead for On {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for On {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.0.lock().expect("no panic").queued.extend_from_slice(bytes);
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl RawStream for On {
        fn poll_room(&mut self, cx: &mut Context<'_>, below: usize) -> Poll<()> {
            let mut link = self.0.lock().expect("no panic");
            if link.queued.len() < below {
                return Poll::Ready(());
            }
            link.waiting.push(cx.waker().clone());
            Poll::Pending
        }
    }

    impl On {
        /// The link carries a chunk.
        fn carry(&self) {
            let mut link = self.0.lock().expect("no panic");
            let n = CHUNK.min(link.queued.len());
            let carried: Vec<u8> = link.queued.drain(..n).collect();
            link.gone.extend(carried);
            link.waiting.drain(..).for_each(Waker::wake);
        }
    }

    async fn settle() {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }

    fn frame(lanes: &Arc<Lanes>, on: &On, of: u8, chunks: usize, priority: Priority) -> tokio::task::JoinHandle<()> {
        let (lanes, on) = (lanes.clone(), on.clone());
        tokio::spawn(async move {
            let mut raw: BoxedStream = Box::new(on);
            let turn = lanes.queue(priority).await;
            lanes.write(&mut raw, &vec![of; chunks * CHUNK], priority, turn).await.expect("it is written");
        })
    }

    /// How many chunks went before the first of `of`.
    fn before(on: &On, of: u8) -> usize {
        let link = on.0.lock().expect("no panic");
        let all: Vec<u8> = link.gone.iter().chain(&link.queued).copied().collect();
        all.iter().position(|byte| *byte == of).expect("it was written") / CHUNK
    }

    // T8 (requirements): an urgent frame overtakes a long delay-tolerant one after the backlog allowed to that.
    #[tokio::test(start_paused = true)]
    async fn an_urgent_frame_overtakes_bulk() {
        let (lanes, on) = (Arc::<Lanes>::default(), On(Arc::default()));
        let bulk: Vec<_> = (0..8).map(|_| frame(&lanes, &on, b'b', 16, Priority::Bulk)).collect();
        settle().await;
        on.carry();
        settle().await;
        frame(&lanes, &on, b'u', 1, Priority::Urgent).await.expect("it is written");
        assert!(before(&on, b'u') <= 3, "{} chunks went before", before(&on, b'u'));
        while on.0.lock().expect("no panic").gone.len() < (8 * 16 + 1) * CHUNK {
            on.carry();
            settle().await;
        }
        for frame in bulk {
            frame.await.expect("it is written");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bulk_waits_while_others_write_and_is_never_starved() {
        let (lanes, on) = (Arc::<Lanes>::default(), On(Arc::default()));
        // Fills the room that interactive frames have, and then waits in the middle of a frame.
        let interactive = frame(&lanes, &on, b'i', 64, Priority::Interactive);
        settle().await;
        let bulk = frame(&lanes, &on, b'b', 1, Priority::Bulk);
        for _ in 0..20 {
            on.carry();
            settle().await;
        }
        assert!(!bulk.is_finished(), "it waits while somebody writes");
        tokio::time::advance(PATIENCE * 2).await;
        settle().await;
        assert!(bulk.is_finished() && !interactive.is_finished(), "but not for ever");
        while !interactive.is_finished() {
            on.carry();
            settle().await;
        }
    }

    /// Room in the connection is not enough: more urgent chunks may be written at any moment.
    #[tokio::test(start_paused = true)]
    async fn bulk_waits_for_a_frame_that_is_being_written_although_there_is_room() {
        let lanes = Arc::<Lanes>::default();
        // The peer reads nothing of it.
        let (mut stuck, _unread): (BoxedStream, _) = {
            let (mine, theirs) = tokio::io::duplex(1);
            (Box::new(mine), theirs)
        };
        let writes = lanes.clone();
        let interactive = tokio::spawn(async move {
            writes.write(&mut stuck, &vec![0; CHUNK], Priority::Interactive, None).await.is_ok()
        });
        settle().await;
        let bulk = frame(&lanes, &On(Arc::default()), b'b', 1, Priority::Bulk);
        settle().await;
        assert!(!bulk.is_finished(), "it waits for the other");
        tokio::time::advance(PATIENCE * 2).await;
        bulk.await.expect("it is written, for it is never starved");
        interactive.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_is_not_read_does_not_block_others() {
        let lanes = Arc::<Lanes>::default();
        // A peer that reads nothing of one stream.
        let (mut stuck, _unread): (BoxedStream, _) = {
            let (mine, theirs) = tokio::io::duplex(1);
            (Box::new(mine), theirs)
        };
        let held = lanes.clone();
        let waits = tokio::spawn(async move {
            let turn = held.queue(Priority::Bulk).await;
            held.write(&mut stuck, &vec![0; 4 * CHUNK], Priority::Bulk, turn).await.is_ok()
        });
        settle().await;
        let on = On(Arc::default());
        let other = frame(&lanes, &on, b'o', 1, Priority::Bulk);
        settle().await;
        tokio::time::advance(PATIENCE * 2).await;
        other.await.expect("it is written");
        assert!(!waits.is_finished());
        waits.abort();
    }
}
