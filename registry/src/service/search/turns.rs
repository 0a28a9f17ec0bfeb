//! Reads that cost much take turns: few at one time, and none of them keeps the others out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

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

/// How many there are of each origin.
#[derive(Clone)]
pub struct Origins {
    counts: Arc<Mutex<BTreeMap<String, usize>>>,
    max: usize,
}

/// A place among those of one origin; it is free again when this is dropped.
pub struct Place {
    origins: Origins,
    origin: String,
}

impl Origins {
    /// With so many places for each.
    #[must_use]
    pub fn of(max: usize) -> Origins {
        Origins { counts: Arc::default(), max }
    }

    /// A place, if there is one.
    ///
    /// # Panics
    /// If another holder panicked, as everywhere here.
    #[must_use]
    pub fn place(&self, origin: String) -> Option<Place> {
        let mut counts = self.counts.lock().expect("no holder panics");
        let count = counts.entry(origin.clone()).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        Some(Place { origins: self.clone(), origin })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.origins.counts.lock().expect("no holder panics");
        if let Some(count) = counts.get_mut(&self.origin) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.origin);
            }
        }
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
        assert!(turns.origins.counts.lock().expect("no holder panics").is_empty(), "nothing is kept of who has left");
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
