//! The bootstrap: how a mean varies, by the sample alone.

use super::draws::Draws;
use super::exact::Interval;

/// How often a sample is drawn from again.
pub const RESAMPLES: usize = 9_999;
/// Draws in all: a large sample is drawn from less often, and varies less.
const DRAWS_MAX: usize = 20_000_000;
/// A sample of any size is drawn from so often.
const RESAMPLES_MIN: usize = 999;

/// The bounds of the mean by the percentiles of means of samples drawn again; each is missed with a probability of about
/// `alpha`/2. None for no values.
///
/// Of two versions that ran the same cases, the values are the differences, one of each case: runs of a case belong together.
#[must_use]
pub fn mean_bounds(values: &[f64], alpha: f64, seed: u64) -> Option<Interval> {
    let size = values.len();
    let resamples = (DRAWS_MAX.checked_div(size)?).clamp(RESAMPLES_MIN, RESAMPLES);
    let mut draws = Draws::new(seed);
    let mut means: Vec<f64> =
        (0..resamples).map(|_| (0..size).map(|_| values[draws.below(size)]).sum::<f64>() / size as f64).collect();
    means.sort_by(f64::total_cmp);
    Some(Interval { low: percentile(&means, alpha / 2.0), high: percentile(&means, 1.0 - alpha / 2.0) })
}

/// The value below which a share of sorted values lies, in between two of them on the line from one to the other.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let place = share * last as f64;
    let below = (place.floor() as usize).min(last);
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `scipy.stats.bootstrap((values,), numpy.mean, method="percentile")` with other draws: -0.0109 to 0.1674. On the draws of
    /// ChaCha20 by its own definition, `numpy.percentile` gives what stands here.
    #[test]
    fn bounds_are_those_of_numpy_on_the_same_draws() {
        let values: Vec<f64> = (0..40).map(|i| f64::from((i * 37) % 23 - 9) / 23.0).collect();
        let bounds = mean_bounds(&values, 0.05, 7).expect("values");
        assert!(
            (bounds.low + 0.011956521739130444).abs() < 1e-12 && (bounds.high - 0.16956521739130434).abs() < 1e-12,
            "{bounds:?}"
        );
        assert_eq!(mean_bounds(&values, 0.05, 7), Some(bounds));
        assert_ne!(mean_bounds(&values, 0.05, 8), Some(bounds));
    }

    #[test]
    fn a_sample_without_spread_has_no_width_and_no_sample_has_no_bounds() {
        assert_eq!(mean_bounds(&[0.25; 40], 0.05, 0), Some(Interval { low: 0.25, high: 0.25 }));
        assert_eq!(mean_bounds(&[], 0.05, 0), None);
    }
}
