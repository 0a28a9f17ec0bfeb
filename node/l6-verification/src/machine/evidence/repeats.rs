//! What repeated runs of cases say: pass^k, the share of cases that pass k times of k, and pass@k, at least once of k.

use super::exact::{Interval, rate_bounds};
use super::rate::{pass_at, pass_hat};

/// The runs of one case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaseRuns {
    /// How many were good.
    pub passed: u32,
    /// How many there were in all.
    pub runs: u32,
}

/// An estimate with its bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The share that is most probable, from 0 to 1; without bias for each k.
    pub value: f64,
    /// What the share is with a probability of 1 − α: for new cases of the same kind, or, where there is one case alone, for
    /// new runs of it.
    pub interval: Interval,
}

/// Why there is no estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RepeatError {
    /// Nothing was run.
    #[error("there is no case: run some, then ask for the share that passes")]
    NoCase,
    /// It is asked for no run at all.
    #[error("a case cannot pass 0 times of 0: ask for 1 or more")]
    NoRepeat,
    /// It is asked for more runs than there were.
    #[error("case {case} ran {runs} times, and {asked} are asked for: run each case {asked} times or more")]
    Runs {
        /// Its number, from 1.
        case: usize,
        /// How often it ran.
        runs: u32,
        /// How often it should have.
        asked: u32,
    },
    /// More passed than ran.
    #[error("case {case} has {passed} passes of {runs} runs: its counts are wrong")]
    Counts {
        /// Its number, from 1.
        case: usize,
        /// How often it passed.
        passed: u32,
        /// How often it ran.
        runs: u32,
    },
}

/// pass^k: the share of cases that pass `k` times of `k`.
///
/// # Errors
/// [`RepeatError`].
pub fn pass_all(cases: &[CaseRuns], k: u32, alpha: f64) -> Result<Estimate, RepeatError> {
    check(cases, k)?;
    let all = |case: &CaseRuns| pass_hat(case.runs, case.passed, k);
    Ok(estimate(cases, all, alpha, |share| share.powf(f64::from(k))))
}

/// pass@k: the share of cases that pass at least once of `k` times.
///
/// # Errors
/// [`RepeatError`].
pub fn pass_any(cases: &[CaseRuns], k: u32, alpha: f64) -> Result<Estimate, RepeatError> {
    check(cases, k)?;
    let any = |case: &CaseRuns| pass_at(case.runs, case.passed, k);
    Ok(estimate(cases, any, alpha, |share| 1.0 - (1.0 - share).powf(f64::from(k))))
}

fn check(cases: &[CaseRuns], k: u32) -> Result<(), RepeatError> {
    if cases.is_empty() {
        return Err(RepeatError::NoCase);
    }
    if k == 0 {
        return Err(RepeatError::NoRepeat);
    }
    for (case, &CaseRuns { passed, runs }) in (1..).zip(cases) {
        if passed > runs {
            return Err(RepeatError::Counts { case, passed, runs });
        }
        if runs < k {
            return Err(RepeatError::Runs { case, runs, asked: k });
        }
    }
    Ok(())
}

/// The mean over the cases. Runs of a case are alike, so that cases are what is counted; of a single case its runs are all there
/// is, and the bounds of their share become those of `k` runs by `of_share`.
fn estimate(
    cases: &[CaseRuns],
    value: impl Fn(&CaseRuns) -> Option<f64>,
    alpha: f64,
    of_share: impl Fn(f64) -> f64,
) -> Estimate {
    // Each case was checked, so that each has a share.
    let sum: f64 = cases.iter().filter_map(value).sum();
    let interval = match cases {
        [case] => {
            let bounds = rate_bounds(f64::from(case.passed), f64::from(case.runs), alpha);
            Interval { low: of_share(bounds.low), high: of_share(bounds.high) }
        }
        _ => rate_bounds(sum, cases.len() as f64, alpha),
    };
    Estimate { value: sum / cases.len() as f64, interval }
}

#[cfg(test)]
mod tests;
