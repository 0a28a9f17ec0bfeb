//! What a component is told that is not the same each time, in a turn that has a journal: time and randomness. A turn that is
//! resumed is told the same, so that it makes the same calls.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use althing_execution::current_journal;
use althing_execution::journal::{Clock, Journal, Reading};
use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng as _, SeedableRng as _, TryRng};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wasmtime_wasi::clocks::{monotonic_clock, wall_clock};
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtxBuilder};

/// The streams of randomness that one seed has, by what they are for.
const SECURE: u64 = 0;
const INSECURE: u64 = 1;
const INSECURE_SEED: u64 = 2;
/// The latest time that a journal notes, nanoseconds.
const NS_MAX: u64 = i64::MAX as u64;

/// How far a turn came at a checkpoint, beside what the component knows itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Progress {
    /// What it said.
    pub said: String,
    /// The records of its calls.
    pub records: Vec<Value>,
    /// How many system calls it made, with those that were refused.
    pub calls: u64,
    /// What its monotonic clock said last.
    pub monotonic_ns: u64,
    /// Words that it took of both streams of randomness.
    pub secure_words: u64,
    pub insecure_words: u64,
}

/// Time and randomness of one turn.
pub(super) struct Surroundings {
    journal: Arc<dyn Journal>,
    monotonic_ns: Arc<AtomicU64>,
    secure: Stream,
    insecure: Stream,
    insecure_seed: u128,
}

impl Surroundings {
    /// Those of the turn that runs here, from there on; none if its journal does not make them again.
    pub fn current(progress: &Progress) -> Option<Surroundings> {
        let journal = current_journal()?;
        let seed = journal.replay()?.seed();
        let mut first = Stream::new(seed, INSECURE_SEED, 0);
        Some(Surroundings {
            journal,
            monotonic_ns: Arc::new(AtomicU64::new(progress.monotonic_ns)),
            secure: Stream::new(seed, SECURE, progress.secure_words),
            insecure: Stream::new(seed, INSECURE, progress.insecure_words),
            insecure_seed: (u128::from(first.next_u64()) << 64) | u128::from(first.next_u64()),
        })
    }

    /// Has the component find them.
    pub fn provide(&self, builder: &mut WasiCtxBuilder) {
        let journal = || self.journal.clone();
        builder.wall_clock(WallTape { live: wall_clock(), journal: journal() });
        builder.monotonic_clock(MonotonicTape {
            live: monotonic_clock(),
            ahead_ns: AtomicU64::new(self.monotonic_ns.load(Ordering::Relaxed)),
            last_ns: self.monotonic_ns.clone(),
            journal: journal(),
        });
        builder.secure_random(self.secure.clone()).insecure_random(self.insecure.clone());
        builder.insecure_random_seed(self.insecure_seed);
    }

    /// Notes how far they came.
    pub fn note(&self, progress: &mut Progress) {
        progress.monotonic_ns = self.monotonic_ns.load(Ordering::Relaxed);
        (progress.secure_words, progress.insecure_words) = (self.secure.words(), self.insecure.words());
    }
}

/// Reads a clock by the journal. An error ends the turn, whatever the component hears until then.
fn read(journal: &dyn Journal, clock: Clock, ns: u64) -> u64 {
    let now = Reading { clock, ns: ns.min(NS_MAX) };
    let told = journal.replay().and_then(|replay| replay.read_clock(now).ok());
    told.unwrap_or(now).ns
}

/// The time of day.
struct WallTape {
    live: Box<dyn HostWallClock + Send>,
    journal: Arc<dyn Journal>,
}

impl HostWallClock for WallTape {
    fn resolution(&self) -> Duration {
        self.live.resolution()
    }

    fn now(&self) -> Duration {
        let ns = u64::try_from(self.live.now().as_nanos()).unwrap_or(NS_MAX);
        Duration::from_nanos(read(&*self.journal, Clock::Wall, ns))
    }
}

/// The clock that only goes forward, also where the turn goes on on a machine whose own began later.
struct MonotonicTape {
    live: Box<dyn HostMonotonicClock + Send>,
    /// How far it is ahead of the live one.
    ahead_ns: AtomicU64,
    /// What it said last.
    last_ns: Arc<AtomicU64>,
    journal: Arc<dyn Journal>,
}

impl HostMonotonicClock for MonotonicTape {
    fn resolution(&self) -> u64 {
        self.live.resolution()
    }

    fn now(&self) -> u64 {
        let now = self.live.now().saturating_add(self.ahead_ns.load(Ordering::Relaxed));
        let told = read(&*self.journal, Clock::Monotonic, now);
        self.ahead_ns.fetch_add(told.saturating_sub(now), Ordering::Relaxed);
        self.last_ns.fetch_max(told, Ordering::Relaxed);
        told
    }
}

/// Randomness that is the same for one seed.
#[derive(Clone)]
struct Stream(Arc<Mutex<ChaCha20Rng>>);

impl Stream {
    /// A stream of a seed, after so many words.
    fn new(seed: [u8; 32], stream: u64, words: u64) -> Stream {
        let mut random = ChaCha20Rng::from_seed(seed);
        random.set_stream(stream);
        random.set_word_pos(u128::from(words));
        Stream(Arc::new(Mutex::new(random)))
    }

    fn random(&self) -> MutexGuard<'_, ChaCha20Rng> {
        self.0.lock().expect("no holder of the randomness panics")
    }

    /// How many words were taken.
    fn words(&self) -> u64 {
        u64::try_from(self.random().get_word_pos()).unwrap_or(u64::MAX)
    }
}

impl TryRng for Stream {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.random().try_next_u32()
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.random().try_next_u64()
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.random().try_fill_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn randomness_is_the_same_for_one_seed_and_goes_on_where_it_was() {
        let mut first = Stream::new([7; 32], SECURE, 0);
        let words: Vec<u32> = (0..40).map(|_| first.next_u32()).collect();
        let mut again = Stream::new([7; 32], SECURE, 0);
        for (number, word) in (0u64..).zip(&words) {
            assert_eq!(again.words(), number);
            assert_eq!(Stream::new([7; 32], SECURE, number).next_u32(), *word, "word {number}");
            assert_eq!(again.next_u32(), *word);
        }
        for mut other in [Stream::new([8; 32], SECURE, 0), Stream::new([7; 32], INSECURE, 0)] {
            assert_ne!(other.next_u32(), words[0]);
        }
    }
}
