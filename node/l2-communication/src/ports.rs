//! What the composition hands to L2 instead of ambient state: the time of day and randomness.

use std::sync::Arc;

/// The time of day in Unix milliseconds; real in `althing`, virtual in simulations.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl WallClock {
    /// A clock that reads from `now_ms`.
    pub fn new(now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> WallClock {
        WallClock(Arc::new(now_ms))
    }

    /// Unix milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        (self.0)()
    }
}

/// Fills a buffer with random bytes.
type Fill = dyn Fn(&mut [u8]) + Send + Sync;

/// A source of random bytes; the operating system's in `althing`, seeded in simulations.
#[derive(Clone)]
pub struct Entropy(Arc<Fill>);

impl Entropy {
    /// A source that fills buffers with `fill`.
    pub fn new(fill: impl Fn(&mut [u8]) + Send + Sync + 'static) -> Entropy {
        Entropy(Arc::new(fill))
    }

    /// Fills `bytes` with randomness.
    pub fn fill(&self, bytes: &mut [u8]) {
        (self.0)(bytes);
    }

    /// `N` random bytes.
    #[must_use]
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }
}

impl std::fmt::Debug for WallClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WallClock")
    }
}

impl std::fmt::Debug for Entropy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Entropy")
    }
}
