//! The figures are those of scipy 1.17.1.

use super::*;

fn is_near(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-8 * expected.abs().max(1e-3), "{found} is not {expected}");
}

/// `scipy.stats.binomtest(broken, broken + mended, 0.5).pvalue`
#[test]
fn mcnemar_is_the_binomial_test_of_scipy() {
    is_near(mcnemar(0, 0), 1.0);
    is_near(mcnemar(5, 5), 1.0);
    is_near(mcnemar(1, 7), 0.0703125);
    is_near(mcnemar(9, 1), 0.021484375);
    is_near(mcnemar(0, 6), 0.03125);
    is_near(mcnemar(12, 30), 0.007915897334896727);
    is_near(mcnemar(150, 210), 0.001834007417096482);
    is_near(mcnemar(40_000, 40_600), 0.034867397511712306);
}

/// `scipy.stats.beta.ppf(alpha / 2, passed, of - passed + 1)` and `beta.ppf(1 - alpha / 2, passed + 1, of - passed)`
#[test]
fn bounds_of_shares_are_those_of_scipy() {
    for (passed, of, alpha, low, high) in [
        (0.0, 10.0, 0.05, 0.0, 0.3084971078187607),
        (10.0, 10.0, 0.05, 0.6915028921812392, 1.0),
        (7.0, 10.0, 0.05, 0.3475471499400027, 0.9332604888222655),
        (1.0, 1_000.0, 0.05, 2.531748749129404e-5, 0.005558924279826672),
        (62.5, 80.0, 0.05, 0.6747998144227565, 0.8659780671428688),
        (33.0, 100.0, 0.01, 0.21457364098472412, 0.4620907800803009),
        (99_990.0, 100_000.0, 0.05, 0.9998161041546233, 0.999952045104861),
    ] {
        let bounds = rate_bounds(passed, of, alpha);
        is_near(bounds.low, low);
        is_near(bounds.high, high);
    }
}

#[test]
fn bounds_end_for_the_smallest_parts_of_a_pass() {
    let bounds = rate_bounds(1e-9, 30.0, 0.05);
    assert!(bounds.low >= 0.0 && bounds.low < 1e-6 && bounds.high < 0.2, "{bounds:?}");
}

/// `scipy.stats.fisher_exact`
#[test]
fn fisher_is_that_of_scipy() {
    is_near(fisher((1, 99), (9, 91)), 0.018487679877476362);
    is_near(fisher((0, 50), (3, 47)), 0.24242424242424243);
    is_near(fisher((5, 5), (5, 5)), 1.0);
    is_near(fisher((12, 188), (2, 298)), 0.0005176469340736729);
}
