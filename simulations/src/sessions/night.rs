//! Many seeds, on all processors.

use std::sync::Arc;

use super::flaw::Flaw;
use super::{Counts, Outcome, Violation, as_it_is, run};
use crate::seeds;

/// Runs all seeds from `first` to `last`, on all processors: what happened, and what does not hold, in the order of the
/// seeds.
///
/// # Panics
/// When a run panics.
#[must_use]
pub fn run_all(first: u64, last: u64) -> Vec<(u64, Counts, Vec<Violation>)> {
    seeds::run_all(first, last, |seed| {
        let outcome = run(seed, None, as_it_is());
        (outcome.counts, outcome.violations)
    })
}

/// The first of those seeds that breaks the invariant, if one does; `adversary` is let loose, and `flaw` is planted.
#[must_use]
pub fn first_break(
    seeds: std::ops::RangeInclusive<u64>,
    adversary: Option<&'static str>,
    flaw: &Arc<dyn Flaw>,
    invariant: Option<&str>,
) -> Option<Outcome> {
    let breaks = |outcome: &Outcome| {
        let of = |violation: &Violation| invariant.is_none_or(|name| violation.invariant == name);
        outcome.violations.iter().any(of)
    };
    seeds.map(|seed| run(seed, adversary, flaw.clone())).find(breaks)
}
