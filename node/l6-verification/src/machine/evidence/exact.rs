//! Probabilities of counts, and bounds of shares, without an approximation by the normal distribution.

use statrs::function::beta::beta_reg;
use statrs::function::factorial::ln_factorial;

/// How often the interval is halved in which a bound lies: to the precision of the numbers, for every shape.
const HALVINGS: u32 = 60;

/// From where to where, both included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

/// McNemar's test, exact: how probable it is, between two versions that are equally good, that the two counts are as far apart
/// as these or farther. `broken` pairs passed before and fail after, `mended` ones the other way round; pairs that are equal
/// say nothing.
#[must_use]
pub fn mcnemar(broken: u64, mended: u64) -> f64 {
    let all = broken.saturating_add(mended);
    if all == 0 {
        return 1.0;
    }
    let few = broken.min(mended);
    let tail = beta_reg((all - few) as f64, few as f64 + 1.0, 0.5);
    (2.0 * tail).min(1.0)
}

/// Clopper's and Pearson's bounds of a share of which `passed` of `of` was seen: each is missed with a probability of `alpha`/2
/// at most. Parts of a pass count as such: a sum of shares varies less than a sum of passes and fails, so that the bounds hold.
#[must_use]
pub fn rate_bounds(passed: f64, of: f64, alpha: f64) -> Interval {
    let passed = passed.clamp(0.0, of);
    let failed = of - passed;
    let low = if passed > 0.0 { quantile(passed, failed + 1.0, alpha / 2.0) } else { 0.0 };
    let high = if failed > 0.0 { quantile(passed + 1.0, failed, 1.0 - alpha / 2.0) } else { 1.0 };
    Interval { low, high }
}

/// Where the beta distribution reaches a probability.
fn quantile(a: f64, b: f64, probability: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if beta_reg(a, b, middle) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// Fisher's exact test: how probable it is, if two shares are equal, that counts with the same sums are as improbable as these
/// or more. Each pair is (bad, good).
#[must_use]
pub fn fisher(one: (u64, u64), other: (u64, u64)) -> f64 {
    let (of_one, of_other, bad) = (one.0 + one.1, other.0 + other.1, one.0 + other.0);
    let choose = |of: u64, some: u64| ln_factorial(of) - ln_factorial(some) - ln_factorial(of - some);
    let all = choose(of_one + of_other, bad);
    let probability = |of_bad: u64| (choose(of_one, of_bad) + choose(of_other, bad - of_bad) - all).exp();
    // Equal probabilities differ in their last bits.
    let limit = probability(one.0) * (1.0 + 1e-7);
    let possible = bad.saturating_sub(of_other)..=bad.min(of_one);
    possible.map(probability).filter(|each| *each <= limit).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests;
