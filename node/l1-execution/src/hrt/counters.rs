//! Lock-free counters and histograms of an agent's jobs; written by the executor, read by anybody.

use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets of one power of two.
const FINE: usize = 32;
const FINE_BITS: u32 = FINE.trailing_zeros();
/// Powers of two of nanoseconds: to 18 minutes.
const POWERS: usize = 41;

/// A histogram of times, with a resolution of 1/32.
#[derive(Debug)]
pub struct Histogram {
    buckets: Box<[AtomicU64]>,
    max: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        let buckets = (0..FINE * POWERS).map(|_| AtomicU64::new(0)).collect();
        Histogram { buckets, max: AtomicU64::new(0) }
    }
}

fn bucket(value: u64) -> usize {
    let power = value.max(1).ilog2();
    let place = match power.checked_sub(FINE_BITS) {
        // Small values have a bucket each.
        None => value as usize,
        Some(shift) => (shift as usize + 1) * FINE + ((value >> shift) as usize - FINE),
    };
    place.min(FINE * POWERS - 1)
}

/// The largest value of a bucket.
fn largest(place: usize) -> u64 {
    match (place / FINE).checked_sub(1) {
        None => place as u64,
        Some(shift) => ((FINE + place % FINE + 1) as u64).checked_shl(shift as u32).unwrap_or(u64::MAX) - 1,
    }
}

impl Histogram {
    /// Adds a value.
    pub fn add(&self, value: u64) {
        self.buckets[bucket(value)].fetch_add(1, Ordering::Relaxed);
        self.max.fetch_max(value, Ordering::Relaxed);
    }

    /// The maximum.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    /// The quantile at `permille` thousandths, rounded up to the end of its bucket; 0 without values.
    #[must_use]
    pub fn quantile(&self, permille: u64) -> u64 {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        let wanted = (counts.iter().sum::<u64>() * permille).div_ceil(1_000);
        let mut seen = 0;
        for (place, count) in counts.iter().enumerate() {
            seen += count;
            if wanted > 0 && seen >= wanted {
                return largest(place).min(self.max());
            }
        }
        0
    }
}

/// The counters of an agent's jobs.
#[derive(Debug, Default)]
pub struct JobCounters {
    /// Jobs that were released.
    pub jobs: AtomicU64,
    /// Jobs that missed their deadline, whatever the reason.
    pub missed: AtomicU64,
    /// Of those, misses that stalls of the machine account for.
    pub explained: AtomicU64,
    /// Jobs that were stopped at the end of their budget.
    pub overruns: AtomicU64,
    /// Jobs that failed by themselves.
    pub failures: AtomicU64,
    /// Jobs that used a fallback value for an input.
    pub fallbacks: AtomicU64,
    /// Jobs that put out what breaks its limits.
    pub out_of_limits: AtomicU64,
    /// Response times of completed jobs, nanoseconds.
    pub response: Histogram,
    /// From release until the executor noticed it, nanoseconds.
    pub lateness: Histogram,
    /// From the end of the budget until the executor regained control, nanoseconds.
    pub stop: Histogram,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bucket_holds_what_it_says(value in 0_u64..1 << 39) {
            let place = bucket(value);
            prop_assert!(largest(place) >= value);
            prop_assert!(largest(place) <= value + value / FINE as u64 + 1);
            prop_assert!(place == 0 || largest(place - 1) < value);
        }
    }

    #[test]
    fn quantiles_are_those_of_what_was_added() {
        let histogram = Histogram::default();
        assert_eq!(histogram.quantile(990), 0);
        (1..=1_000).for_each(|value| histogram.add(value * 1_000));
        let p99 = histogram.quantile(990);
        assert!((990_000..=1_021_000).contains(&p99), "{p99}");
        assert_eq!(histogram.quantile(1_000), 1_000_000);
        histogram.add(u64::MAX);
        assert_eq!(histogram.max(), u64::MAX);
    }
}
