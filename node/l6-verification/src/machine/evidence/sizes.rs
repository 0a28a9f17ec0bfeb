//! How many pairs would decide.

use statrs::function::erf::erfc_inv;

use super::decision::{Criteria, Decision, Passes, SCORES_MIN, of_passes, unseen};

/// The most pairs that a comparison takes: up to there, its probabilities are exact to ten digits.
pub const PAIRS_MAX: u64 = 100_000;
/// Of 100 comparisons of that size, 80 decide: so many standard deviations are left for bad luck.
const LUCK: f64 = 0.841_621_233_572_914_3;

/// How many pairs decide four times of five, if of all pairs these shares are broken and mended; none if [`PAIRS_MAX`] would
/// not do.
#[must_use]
pub fn pairs_to_decide(broken: f64, mended: f64, criteria: &Criteria) -> Option<u64> {
    let (gain, moved) = (mended - broken, mended + broken);
    let deviation = (moved - gain * gain).max(0.0).sqrt();
    smallest(1, |pairs| {
        let (of, luck) = (pairs as f64, LUCK * deviation * (pairs as f64).sqrt());
        let (expected, all) = (gain * of, moved * of);
        let unlucky = Passes {
            pairs,
            broken: count((all - expected + luck) / 2.0, f64::ceil, pairs),
            mended: count((all + expected - luck) / 2.0, f64::floor, pairs),
        };
        let lucky = Passes {
            pairs,
            broken: count((all - expected - luck) / 2.0, f64::floor, pairs),
            mended: count((all + expected + luck) / 2.0, f64::ceil, pairs),
        };
        let passes = |sample| matches!(of_passes(sample, criteria).0, Decision::Better | Decision::NoWorse);
        let fails = |sample| of_passes(sample, criteria).0 == Decision::Worse;
        passes(unlucky) || fails(lucky)
    })
}

/// How many cases decide four times of five, if the differences of their scores have this mean and this deviation; none if
/// [`PAIRS_MAX`] would not do.
#[must_use]
pub fn scores_to_decide(mean: f64, deviation: f64, criteria: &Criteria) -> Option<u64> {
    // Both bounds lie so many deviations of the mean away from it.
    let width = std::f64::consts::SQRT_2 * erfc_inv(criteria.alpha) + LUCK;
    smallest(SCORES_MIN as u64, |cases| {
        let off = width * deviation / (cases as f64).sqrt();
        mean.abs() > off || mean - off - unseen(cases, criteria.alpha) > -criteria.margin
    })
}

fn count(of: f64, whole: fn(f64) -> f64, most: u64) -> u64 {
    (whole(of).max(0.0) as u64).min(most)
}

/// The smallest size from `first` on that decides: doubled until one does, then halved.
fn smallest(first: u64, decides: impl Fn(u64) -> bool) -> Option<u64> {
    let mut enough = first;
    while !decides(enough) {
        if enough == PAIRS_MAX {
            return None;
        }
        enough = (2 * enough).min(PAIRS_MAX);
    }
    let mut few = if enough == first { first - 1 } else { enough / 2 };
    while enough - few > 1 {
        let middle = few + (enough - few) / 2;
        if decides(middle) {
            enough = middle;
        } else {
            few = middle;
        }
    }
    Some(enough)
}

#[cfg(test)]
mod tests;
