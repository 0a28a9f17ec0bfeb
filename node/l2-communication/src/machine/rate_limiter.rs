//! A rate limiter with a burst: the generic cell rate algorithm (GCRA, ITU-T I.371). Times are since the start of the node.

use std::time::Duration;

/// The burst, in seconds of the rate.
pub const BURST: u32 = 2;

/// The time at which the whole burst is available again (the theoretical arrival time of GCRA).
#[derive(Debug, Clone, Copy, Default)]
pub struct RateLimiter(Option<Duration>);

impl RateLimiter {
    /// Takes one of `rate` permits a second: how long the caller must wait for it.
    pub fn take(&mut self, rate: u32, now: Duration) -> Duration {
        let each = Duration::from_secs(1) / rate.max(1);
        let full = self.0.map_or(now, |full| full.max(now)) + each;
        self.0 = Some(full);
        full.saturating_sub(now).saturating_sub(each * rate * BURST)
    }

    /// Is the whole burst available?
    #[must_use]
    pub fn is_full(&self, now: Duration) -> bool {
        self.0.is_none_or(|full| full <= now)
    }
}
