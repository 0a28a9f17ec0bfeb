//! Who may do something so many times a second, and twice as many at once (the generic cell rate algorithm, ITU-T I.371).
//! Times are those since the node began.

use std::time::Duration;

/// What may be done at once, in seconds of what may be done all the time.
pub const BURST: u32 = 2;

/// When somebody will have its whole burst again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Turns(Option<Duration>);

impl Turns {
    /// It does once more what it may do `rate` times a second: how long it is to wait.
    pub fn take(&mut self, rate: u32, now: Duration) -> Duration {
        let each = Duration::from_secs(1) / rate.max(1);
        let settled = self.0.map_or(now, |settled| settled.max(now)) + each;
        self.0 = Some(settled);
        settled.saturating_sub(now).saturating_sub(each * rate * BURST)
    }

    /// Has it less than the whole burst?
    #[must_use]
    pub fn owes(&self, now: Duration) -> bool {
        self.0.is_some_and(|settled| settled > now)
    }
}
