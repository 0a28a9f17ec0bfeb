//! Reads that cost much take turns: few at one time, and none of them keeps the others out.

use std::sync::Arc;
use std::time::Duration;

use althing_edge::{Origins, Place};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Heavy reads at one time; the others wait for a moment.
const AT_ONCE: usize = 2;
/// How long one waits for its turn.
const WITHIN: Duration = Duration::from_secs(2);
/// Heavy reads of one origin that run or wait.
const OF_ORIGIN_MAX: usize = 16;

/// Why a heavy read gets no turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// Others are at it.
    #[error("too many searches and large pages at one time: try again in a moment")]
    Busy,
    /// The same origin waits for many others.
    #[error("{OF_ORIGIN_MAX} searches and large pages from your address run or wait: wait for their answers")]
    Yours,
}

/// Who takes turns. An origin is where somebody asks from; none where many come through one, such as a proxy.
#[derive(Clone)]
pub struct Turns {
    free: Arc<Semaphore>,
    replays: Arc<Semaphore>,
    origins: Origins,
}

impl Default for Turns {
    fn default() -> Turns {
        let semaphore = || Arc::new(Semaphore::new(AT_ONCE));
        Turns { free: semaphore(), replays: semaphore(), origins: Origins::of(OF_ORIGIN_MAX) }
    }
}

/// A turn; it ends when this is dropped.
pub struct Turn {
    _permit: OwnedSemaphorePermit,
    _place: Option<Place>,
}

impl Turns {
    /// Waits for a turn, for somebody from that origin.
    ///
    /// # Errors
    /// [`TurnError`].
    pub async fn take(&self, origin: Option<String>) -> Result<Turn, TurnError> {
        let place = origin.map(|origin| self.origins.place(origin).ok_or(TurnError::Yours)).transpose()?;
        let permit = tokio::time::timeout(WITHIN, self.free.clone().acquire_owned()).await;
        let permit = permit.map_err(|_| TurnError::Busy)?.map_err(|_| TurnError::Busy)?;
        Ok(Turn { _permit: permit, _place: place })
    }

    /// Waits for a turn to read a part of what happened before, however long that takes: whoever waits comes next.
    pub async fn replay(&self) -> Option<Turn> {
        let permit = self.replays.clone().acquire_owned().await.ok()?;
        Some(Turn { _permit: permit, _place: None })
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    fn from(origin: &str) -> Option<String> {
        Some(origin.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_is_told_so_and_one_origin_keeps_few_waiting() {
        let turns = Turns::default();
        let held = join_all((0..AT_ONCE).map(|_| turns.take(from("a")))).await;
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(turns.take(from("b")).await.err(), Some(TurnError::Busy));
        let more = join_all((0..OF_ORIGIN_MAX).map(|_| turns.take(from("a")))).await;
        let refused = |error| more.iter().filter(|turn| turn.as_ref().err() == Some(&error)).count();
        assert_eq!((refused(TurnError::Busy), refused(TurnError::Yours)), (OF_ORIGIN_MAX - AT_ONCE, AT_ONCE));
        let through_one = join_all((0..2 * OF_ORIGIN_MAX).map(|_| turns.take(None))).await;
        assert!(through_one.iter().all(|turn| turn.as_ref().err() == Some(&TurnError::Busy)));
        drop(held);
        assert!(turns.take(from("b")).await.is_ok());
        assert!(turns.origins.is_empty(), "nothing is kept of who has left");
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_comes_next() {
        let turns = Turns::default();
        let mut held = join_all((0..AT_ONCE).map(|_| turns.take(from("a")))).await;
        let (waited, ()) = tokio::join!(turns.take(from("b")), async { drop(held.pop()) });
        assert!(waited.is_ok());
        let replays = join_all((0..AT_ONCE).map(|_| turns.replay())).await;
        let (waited, ()) = tokio::join!(turns.replay(), async { drop(replays) });
        assert!(waited.is_some(), "they do not wait for searches");
    }
}
