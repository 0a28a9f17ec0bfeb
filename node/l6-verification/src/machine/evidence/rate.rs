//! How often a case may be relied on, from `n` runs of which `c` were right.

/// pass^k: the chance that `k` runs are all right, without bias: C(c, k) / C(n, k). None if there are fewer than `k` runs, or `k`
/// is 0.
#[must_use]
pub fn pass_hat(n: u32, c: u32, k: u32) -> Option<f64> {
    if k == 0 || k > n || c > n {
        return None;
    }
    if c < k {
        return Some(0.0);
    }
    Some((0..k).map(|drawn| f64::from(c - drawn) / f64::from(n - drawn)).product())
}

/// pass@k: the chance that at least one of `k` runs is right, without bias: 1 - C(n - c, k) / C(n, k). None as above.
#[must_use]
pub fn pass_at(n: u32, c: u32, k: u32) -> Option<f64> {
    pass_hat(n, n.checked_sub(c)?, k).map(|all_wrong| 1.0 - all_wrong)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_near(one: Option<f64>, other: f64) -> bool {
        one.is_some_and(|one| (one - other).abs() < 1e-12)
    }

    #[test]
    fn rates_are_those_of_draws_without_return() {
        // 5 runs, 3 right: of the 10 pairs 3 are right, and 9 have a right one.
        assert!(is_near(pass_hat(5, 3, 2), 0.3) && is_near(pass_at(5, 3, 2), 0.9));
        assert!(is_near(pass_hat(4, 4, 4), 1.0) && is_near(pass_at(4, 0, 4), 0.0));
        assert!(is_near(pass_hat(5, 1, 2), 0.0) && is_near(pass_at(5, 4, 2), 1.0));
        for (n, c, k) in [(3, 3, 4), (3, 3, 0), (3, 4, 1), (0, 0, 1)] {
            assert_eq!((pass_hat(n, c, k), pass_at(n, c, k)), (None, None), "{n}, {c}, {k}");
        }
    }

    proptest! {
        #[test]
        fn one_run_is_a_share_and_more_are_harder_or_easier(n in 1..60_u32, c in 0..60_u32, k in 1..60_u32) {
            let (c, k) = (c.min(n), k.min(n));
            prop_assert!(is_near(pass_hat(n, c, 1), f64::from(c) / f64::from(n)));
            let (hat, at) = (pass_hat(n, c, k).expect("enough"), pass_at(n, c, k).expect("enough"));
            let share = f64::from(c) / f64::from(n);
            prop_assert!((0.0..=1.0).contains(&hat) && hat <= share + 1e-9 && share <= at + 1e-9 && at <= 1.0);
        }
    }
}
