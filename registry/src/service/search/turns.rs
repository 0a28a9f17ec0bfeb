//! What strangers ask for and costs much takes turns: little of it at one time, so that nobody keeps the others out. It is done
//! on threads for which nobody waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use althing_edge::{Origins, Place};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Heavy reads at one time; the others wait for a moment.
const AT_ONCE: usize = 2;
/// How long one waits for its turn.
const WITHIN: Duration = Duration::from_secs(2);
/// Turns of a kind that one origin has at one time: it never has all of them while others wait.
const OF_ORIGIN_AT_ONCE: usize = AT_ONCE - 1;
/// Requests of one origin for turns of a kind that run or wait.
const OF_ORIGIN_MAX: usize = 16;

/// What takes milliseconds, at one time.
fn short_at_once() -> usize {
    half(std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// Half of so many processors, unless there is only one: the others are left to everything else.
fn half(processors: usize) -> usize {
    (processors / 2).max(1)
}

/// Why something gets no turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// Others are at it.
    #[error("too much is asked for at one time that costs much: try again in a moment")]
    Busy,
    /// The same origin waits for many others.
    #[error("{OF_ORIGIN_MAX} requests from your address that cost much run or wait: wait for their answers")]
    Yours,
    /// It ended before its time.
    #[error("the request failed here: try again")]
    Failed,
}

/// Who takes turns. An origin is where somebody asks from; none where many come through one, such as a proxy.
#[derive(Clone)]
pub struct Turns {
    heavy: Queue,
    short: Queue,
    reads: Queue,
    replays: Arc<Semaphore>,
}

/// Turns of one kind, and who has them or waits for them.
#[derive(Clone)]
struct Queue {
    free: Arc<Semaphore>,
    origins: Origins,
    shares: Shares,
}

/// Turns of each origin that has or waits for one.
#[derive(Clone, Default)]
struct Shares(Arc<Mutex<BTreeMap<String, Weak<Semaphore>>>>);

impl Shares {
    fn of(&self, origin: &str) -> Arc<Semaphore> {
        let mut shares = self.0.lock().expect("no holder panics");
        // Nothing is kept of who has left.
        shares.retain(|_, share| share.strong_count() > 0);
        if let Some(share) = shares.get(origin).and_then(Weak::upgrade) {
            return share;
        }
        let share = Arc::new(Semaphore::new(OF_ORIGIN_AT_ONCE));
        shares.insert(origin.to_owned(), Arc::downgrade(&share));
        share
    }
}

impl Default for Turns {
    fn default() -> Turns {
        Turns {
            heavy: Queue::of(AT_ONCE),
            short: Queue::of(short_at_once()),
            reads: Queue::of(short_at_once()),
            replays: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }
}

/// A turn; it ends when this is dropped.
pub struct Turn {
    _permit: OwnedSemaphorePermit,
    _share: Option<OwnedSemaphorePermit>,
    _place: Option<Place>,
}

impl Turns {
    /// Waits for a turn of a heavy read, for somebody from that origin, of which another may have to end first.
    ///
    /// # Errors
    /// [`TurnError`].
    pub async fn take(&self, origin: Option<String>) -> Result<Turn, TurnError> {
        self.heavy.turn(origin).await
    }

    /// Waits for a turn of what takes milliseconds, such as verifying what was sent, for somebody from that origin. Heavy reads
    /// keep nobody from it.
    ///
    /// # Errors
    /// [`TurnError`].
    pub async fn short(&self, origin: Option<String>) -> Result<Turn, TurnError> {
        self.short.turn(origin).await
    }

    /// Waits for a turn to read what takes milliseconds, such as a page, for somebody from that origin. Neither heavy reads nor
    /// what is verified keep anybody from it.
    ///
    /// # Errors
    /// [`TurnError`].
    pub async fn read(&self, origin: Option<String>) -> Result<Turn, TurnError> {
        self.reads.turn(origin).await
    }

    /// Waits for a turn to read a part of what happened before, however long that takes: whoever waits comes next.
    pub async fn replay(&self) -> Option<Turn> {
        let permit = self.replays.clone().acquire_owned().await.ok()?;
        Some(Turn { _permit: permit, _share: None, _place: None })
    }
}

impl Queue {
    fn of(at_once: usize) -> Queue {
        let free = Arc::new(Semaphore::new(at_once));
        Queue { free, origins: Origins::of(OF_ORIGIN_MAX), shares: Shares::default() }
    }

    async fn turn(&self, origin: Option<String>) -> Result<Turn, TurnError> {
        let share = origin.as_deref().map(|origin| self.shares.of(origin));
        let place = origin.map(|origin| self.origins.place(origin).ok_or(TurnError::Yours)).transpose()?;
        let both = async {
            // The own one first: whoever waits for that keeps no turn from others.
            let share = match share {
                Some(share) => Some(share.acquire_owned().await?),
                None => None,
            };
            Ok::<_, AcquireError>((share, self.free.clone().acquire_owned().await?))
        };
        let both = tokio::time::timeout(WITHIN, both).await;
        let (share, permit) = both.map_err(|_| TurnError::Busy)?.map_err(|_| TurnError::Busy)?;
        Ok(Turn { _permit: permit, _share: share, _place: place })
    }
}

impl Turn {
    /// Does something in this turn, on a thread of its own. The turn ends with it, also if nobody waits for that any more.
    ///
    /// # Errors
    /// [`TurnError::Failed`].
    pub async fn spend<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, TurnError> {
        let working = tokio::task::spawn_blocking(move || {
            let _turn = self;
            work()
        });
        working.await.map_err(|_| TurnError::Failed)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use futures::future::join_all;

    use super::*;

    fn from(origin: &str) -> Option<String> {
        Some(origin.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_is_told_so_and_one_origin_keeps_few_waiting() {
        let turns = Turns::default();
        let held = join_all(["a", "c"].map(|origin| turns.take(from(origin)))).await;
        assert!(held.iter().all(Result::is_ok) && held.len() == AT_ONCE);
        assert_eq!(turns.take(from("b")).await.err(), Some(TurnError::Busy));
        let more = join_all((0..OF_ORIGIN_MAX).map(|_| turns.take(from("a")))).await;
        let refused = |error| more.iter().filter(|turn| turn.as_ref().err() == Some(&error)).count();
        assert_eq!((refused(TurnError::Busy), refused(TurnError::Yours)), (OF_ORIGIN_MAX - 1, 1));
        let through_one = join_all((0..2 * OF_ORIGIN_MAX).map(|_| turns.take(None))).await;
        assert!(through_one.iter().all(|turn| turn.as_ref().err() == Some(&TurnError::Busy)));
        drop(held);
        assert!(turns.take(from("b")).await.is_ok());
        assert!(turns.heavy.origins.is_empty(), "nothing is kept of who has left");
        drop(turns.heavy.shares.of("d"));
        assert_eq!(turns.heavy.shares.0.lock().expect("nobody panics").len(), 1, "nor here, when the next one asks");
    }

    /// SR-7
    #[tokio::test(start_paused = true)]
    async fn no_origin_has_all_turns_of_heavy_reads() {
        let turns = Turns::default();
        let mut held = vec![turns.take(from("a")).await.expect("a turn")];
        assert_eq!(turns.take(from("a")).await.err(), Some(TurnError::Busy), "another of its own must end first");
        let mut waiting = Box::pin(turns.take(from("a")));
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        let other = turns.take(from("b")).await.expect("what waits for its own keeps no turn from others");
        held.pop();
        assert!(waiting.await.is_ok(), "it comes next");
        drop(other);
        // Many come through a proxy.
        let through_one = join_all((0..AT_ONCE).map(|_| turns.take(None))).await;
        assert!(through_one.iter().all(Result::is_ok));
    }

    /// SR-7
    #[tokio::test]
    async fn short_work_has_turns_and_shares_of_its_own_and_keeps_its_turn_until_it_is_done() {
        let turns = Turns::default();
        let _heavy = join_all((0..AT_ONCE).map(|_| turns.take(None))).await;
        let turn = turns.short(from("a")).await.expect("searches do not keep it waiting");
        let (begun, is_begun) = tokio::sync::oneshot::channel();
        let (go_on, going_on) = std::sync::mpsc::sync_channel::<()>(1);
        let mut working = Box::pin(turn.spend(move || {
            let _ = begun.send(());
            going_on.recv().is_ok()
        }));
        assert!(futures::poll!(working.as_mut()).is_pending());
        is_begun.await.expect("it is done, and nobody is held up");
        let at_once = short_at_once();
        assert_eq!(turns.short.free.available_permits(), at_once - 1);
        // Whoever asked has gone; it is still being worked for.
        drop(working);
        assert_eq!((turns.short.free.available_permits(), turns.short.origins.is_empty()), (at_once - 1, false));
        go_on.send(()).expect("it waits for that");
        while turns.short.free.available_permits() < at_once {
            tokio::task::yield_now().await;
        }
        let turn = turns.short(from("a")).await.expect("a turn");
        let failed: Result<(), TurnError> = turn.spend(|| panic!("a bug")).await;
        assert_eq!(failed, Err(TurnError::Failed));
    }

    /// SR-7
    #[tokio::test(start_paused = true)]
    async fn of_short_work_and_reads_too_one_origin_has_one_turn_and_others_come_before_its_next() {
        let turns = Turns::default();
        for queue in [&turns.short, &turns.reads] {
            // All turns but one.
            let _held = join_all((1..short_at_once()).map(|_| queue.turn(None))).await;
            let first = queue.turn(from("a")).await.expect("a turn");
            let mut more: Vec<_> = (1..OF_ORIGIN_MAX).map(|_| Box::pin(queue.turn(from("a")))).collect();
            for waiting in &mut more {
                assert!(futures::poll!(waiting.as_mut()).is_pending());
            }
            let mut other = Box::pin(queue.turn(from("b")));
            assert!(futures::poll!(other.as_mut()).is_pending());
            drop(first);
            let Poll::Ready(Ok(other)) = futures::poll!(other.as_mut()) else { panic!("another of a came first") };
            let mut next = more.remove(0);
            assert!(futures::poll!(next.as_mut()).is_pending());
            drop(other);
            assert!(futures::poll!(next.as_mut()).is_ready());
        }
    }

    #[test]
    fn short_work_leaves_half_of_the_processors_to_everything_else() {
        assert_eq!([1, 2, 3, 4, 64].map(half), [1, 1, 1, 2, 32]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_comes_next() {
        let turns = Turns::default();
        let mut held = join_all(["a", "c"].map(|origin| turns.take(from(origin)))).await;
        let (waited, ()) = tokio::join!(turns.take(from("b")), async { drop(held.pop()) });
        assert!(waited.is_ok());
        let replays = join_all((0..AT_ONCE).map(|_| turns.replay())).await;
        let (waited, ()) = tokio::join!(turns.replay(), async { drop(replays) });
        assert!(waited.is_some(), "they do not wait for searches");
    }
}
