//! What one sample of pairs decides.

use super::bootstrap::mean_bounds;
use super::exact::{Interval, mcnemar, rate_bounds};

/// So many cases with scores are the fewest that decide anything: of fewer, resamples do not show what the sample lacks.
pub const SCORES_MIN: usize = 20;

/// By what a comparison is decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Criteria {
    /// How often chance alone may decide wrongly, above 0 and at most ½.
    pub alpha: f64,
    /// The loss that is accepted, in the share of passes or in the mean score, from 0 to below 1. Nothing is *no worse* without
    /// one.
    pub margin: f64,
    /// Of what draws are made where a test draws: the same seed, the same figures.
    pub seed: u64,
}

impl Default for Criteria {
    fn default() -> Criteria {
        Criteria { alpha: 0.05, margin: 0.05, seed: 0 }
    }
}

impl Criteria {
    /// Whether the numbers are those of probabilities.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.alpha > 0.0 && self.alpha <= 0.5 && (0.0..1.0).contains(&self.margin)
    }
}

/// What is known of the newer version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Better,
    NoWorse,
    Worse,
    Open,
}

/// Of how many pairs each version passed alone.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Passes {
    pub pairs: u64,
    /// Passed before, fails now.
    pub broken: u64,
    /// Failed before, passes now.
    pub mended: u64,
}

/// What passes and fails decide, with the bounds of the difference and McNemar's p.
pub(super) fn of_passes(passes: Passes, criteria: &Criteria) -> (Decision, Interval, f64) {
    let Passes { pairs, broken, mended } = passes;
    let p = mcnemar(broken, mended);
    // Both shares are bounded on both sides, each with half of what may be missed: their difference lies between.
    let bounds = |some: u64| rate_bounds(some as f64, pairs as f64, criteria.alpha / 2.0);
    let (lost, won) = (bounds(broken), bounds(mended));
    let interval = match pairs {
        0 => Interval { low: -1.0, high: 1.0 },
        _ => Interval { low: won.low - lost.high, high: won.high - lost.low },
    };
    let decision = if p <= criteria.alpha && mended > broken {
        Decision::Better
    } else if interval.low > -criteria.margin {
        Decision::NoWorse
    } else if p <= criteria.alpha && broken > mended {
        Decision::Worse
    } else {
        Decision::Open
    };
    (decision, interval, p)
}

/// What the differences of scores decide, one of each case, with the bounds of their mean.
pub(super) fn of_scores(differences: &[f64], criteria: &Criteria) -> (Decision, Interval) {
    let bounds = mean_bounds(differences, criteria.alpha, criteria.seed);
    let Some(interval) = bounds else { return (Decision::Open, Interval { low: -1.0, high: 1.0 }) };
    let decision = if differences.len() < SCORES_MIN {
        Decision::Open
    } else if interval.low > 0.0 {
        Decision::Better
    } else if interval.low - unseen(differences.len() as u64, criteria.alpha) > -criteria.margin {
        Decision::NoWorse
    } else if interval.high < 0.0 {
        Decision::Worse
    } else {
        Decision::Open
    };
    (decision, interval)
}

/// The largest share of cases of which a sample of this size has none, missed with a probability of `alpha`/2: each of them may
/// have lost the whole score.
pub(super) fn unseen(size: u64, alpha: f64) -> f64 {
    1.0 - (alpha / 2.0).powf(1.0 / size.max(1) as f64)
}
