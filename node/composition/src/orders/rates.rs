//! How many signatures are verified for strangers, by origin.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use althing_communication::rate_limiter::RateLimiter;
use althing_protocol::keyring::Origin;
use tokio::time::Instant;

/// Signatures that are verified for the strangers of one origin in a second.
const SIGNATURES: u32 = 64;
/// How much of them may be ahead of time.
const PATIENCE: Duration = Duration::from_secs(2);
/// Origins that are counted.
const ORIGINS_MAX: usize = 1_024;

/// What was verified of late, by origin.
#[derive(Debug)]
pub(super) struct SignatureRates {
    limiters: Mutex<BTreeMap<Origin, RateLimiter>>,
    begun: Instant,
}

impl Default for SignatureRates {
    fn default() -> SignatureRates {
        SignatureRates { limiters: Mutex::default(), begun: Instant::now() }
    }
}

impl SignatureRates {
    /// Whether so many signatures are verified for a stranger now.
    pub(super) fn admits(&self, origin: &Origin, signatures: usize) -> bool {
        let now = self.begun.elapsed();
        let mut limiters = self.limiters.lock().expect("no holder of the rates panics");
        if limiters.len() >= ORIGINS_MAX {
            limiters.retain(|_, limiter| !limiter.is_full(now));
        }
        let mut limiter = limiters.get(origin).copied().unwrap_or_default();
        let wait = (0..signatures).map(|_| limiter.take(SIGNATURES, now)).last().unwrap_or_default();
        let is_admitted = wait <= PATIENCE && limiters.len() < ORIGINS_MAX;
        if is_admitted {
            limiters.insert(origin.clone(), limiter);
        }
        is_admitted
    }
}
