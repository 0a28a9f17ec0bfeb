use althing_testing::at_night;

use super::super::decision::of_scores;
use super::super::draws::Draws;
use super::*;

fn sample(draws: &mut Draws, pairs: u64, (broken, mended): (f64, f64)) -> Passes {
    let mut passes = Passes { pairs, ..Passes::default() };
    for _ in 0..pairs {
        if draws.happens(broken) {
            passes.broken += 1;
        } else if draws.happens(mended / (1.0 - broken)) {
            passes.mended += 1;
        }
    }
    passes
}

/// How many of 300 comparisons of the size that is said to do decide so.
fn decided(shares: (f64, f64), is: &[Decision]) -> usize {
    let criteria = Criteria::default();
    let pairs = pairs_to_decide(shares.0, shares.1, &criteria).expect("a size");
    let mut draws = Draws::new(pairs);
    (0..300).filter(|_| is.contains(&of_passes(sample(&mut draws, pairs, shares), &criteria).0)).count()
}

#[test]
fn a_comparison_of_the_size_it_promised_decides_four_times_of_five() {
    // With a probability of 80 % each, fewer than 218 of 300 come in one of 1,000 such tests.
    let passes = [Decision::Better, Decision::NoWorse];
    for (shares, is) in [
        ((0.08, 0.01), &[Decision::Worse][..]),
        ((0.2, 0.05), &[Decision::Worse][..]),
        ((0.01, 0.06), &passes[..]),
        ((0.02, 0.02), &passes[..]),
        ((0.005, 0.005), &passes[..]),
    ] {
        let found = decided(shares, is);
        assert!(found >= 218, "{found} of 300 at {shares:?}");
    }
}

#[test]
fn sizes_are_those_of_a_computation_with_scipy() {
    let criteria = Criteria::default();
    assert_eq!(pairs_to_decide(0.08, 0.01, &criteria), Some(184));
    assert_eq!(pairs_to_decide(0.02, 0.02, &criteria), Some(318));
    assert_eq!(pairs_to_decide(0.0, 0.0, &criteria), Some(86));
    assert_eq!(pairs_to_decide(0.1, 0.02, &Criteria { margin: 0.0, ..criteria }), Some(190));
}

#[test]
fn nothing_decides_between_equal_versions_without_a_margin() {
    let criteria = Criteria { margin: 0.0, ..Criteria::default() };
    assert_eq!(pairs_to_decide(0.02, 0.02, &criteria), None);
    assert_eq!(scores_to_decide(0.0, 0.1, &criteria), None);
}

#[test]
fn scores_that_vary_more_need_more_cases() {
    let criteria = Criteria::default();
    let sizes = [0.1, 0.2, 0.4].map(|deviation| scores_to_decide(0.0, deviation, &criteria).expect("a size"));
    assert!(sizes[0] < sizes[1] && sizes[1] < sizes[2], "{sizes:?}");
}

#[test]
fn a_comparison_of_scores_of_the_size_it_promised_decides_four_times_of_five() {
    let criteria = Criteria::default();
    // Differences that are as probable everywhere between two bounds, so far from their mean.
    const HALF: f64 = 0.35;
    let passes = [Decision::Better, Decision::NoWorse];
    for (mean, is) in [(-0.08, &[Decision::Worse][..]), (0.0, &passes[..]), (0.08, &passes[..])] {
        let cases = scores_to_decide(mean, HALF / 3.0_f64.sqrt(), &criteria).expect("a size");
        let mut draws = Draws::new(cases);
        let (all, least) = [(12, 5), (200, 142)][usize::from(at_night())];
        let found = (0..all).filter(|_| {
            let of = |draws: &mut Draws| mean + HALF * (draws.below(2_001) as f64 / 1_000.0 - 1.0);
            let differences: Vec<f64> = (0..cases).map(|_| of(&mut draws)).collect();
            is.contains(&of_scores(&differences, &criteria).0)
        });
        let found = found.count();
        // With a probability of 80 % each, fewer than 5 of 12 come in one of 1,000 such tests, as fewer than 142 of 200 do.
        assert!(found >= least, "{found} of {all} with {cases} cases each at {mean}");
    }
}
