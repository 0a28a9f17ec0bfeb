//! Many seeds, on all processors, and what is told of them.

use std::ops::RangeInclusive;

use super::flaw::{self, Flaw};
use super::{Counts, Outcome, Violation, adversary, as_it_is, run};
use crate::seeds;

/// What is printed, and whether everything holds.
pub struct Report {
    /// A line each.
    pub lines: Vec<String>,
    /// Whether nothing that must hold is broken.
    pub is_sound: bool,
}

/// Runs all seeds from `first` to `last`, on all processors: what happened, and what does not hold, in the order of the seeds.
///
/// # Panics
/// When a run panics.
#[must_use]
pub fn run_all(first: u64, last: u64) -> Vec<(u64, Counts, Vec<Violation>)> {
    seeds::run_all(first, last, |seed| {
        let outcome = run(seed, None, &*as_it_is());
        (outcome.counts, outcome.violations)
    })
}

/// The first of those seeds that breaks the invariant, if one does; `adversary` is let loose, and `flaw` is planted.
#[must_use]
pub fn first_break(
    mut seeds: RangeInclusive<u64>,
    adversary: Option<&'static str>,
    flaw: &dyn Flaw,
    invariant: Option<&str>,
) -> Option<Outcome> {
    seeds.find_map(|seed| {
        let outcome = run(seed, adversary, flaw);
        let of = |violation: &Violation| invariant.is_none_or(|name| violation.invariant == name);
        outcome.violations.iter().any(of).then_some(outcome)
    })
}

/// Runs one seed, with what was seen; or many, with a summary; or seeks the first that shows a bug, by breaking that invariant or,
/// without one, any.
#[must_use]
pub fn report(
    seeds: u64,
    seed: Option<u64>,
    adversary: Option<&str>,
    flaw: Option<&str>,
    invariant: Option<&str>,
) -> Report {
    let adversary = adversary.and_then(|name| adversary::known().find(|known| *known == name));
    let flaw = flaw.and_then(flaw::named);
    let is_usual = flaw.is_none() && adversary.is_none();
    let flaw = flaw.unwrap_or_else(as_it_is);
    let outcome = match seed {
        Some(seed) => Some(run(seed, adversary, &*flaw)),
        None if is_usual => return summary(seeds),
        None => first_break(1..=seeds, adversary, &*flaw, invariant),
    };
    let Some(outcome) = outcome else {
        let what = invariant.unwrap_or("anything");
        return Report { lines: vec![format!("{seeds} seeds, and none breaks {what}")], is_sound: true };
    };
    let mut lines = vec![format!("{:#?}", outcome.evidence.plan)];
    lines.extend(outcome.lines());
    let broken = outcome.violations.iter();
    lines.extend(broken.map(|violation| format!("seed {}: {}: {}", outcome.seed, violation.invariant, violation.why)));
    Report { lines, is_sound: outcome.violations.is_empty() }
}

fn summary(seeds: u64) -> Report {
    let (mut all, mut lines) = (Counts::default(), Vec::new());
    for (seed, counts, violations) in run_all(1, seeds) {
        all.add(&counts);
        let broken = violations.iter();
        lines.extend(broken.map(|violation| {
            format!("seed {seed} breaks {}: althing-sim rollouts --seed {seed}", violation.invariant)
        }));
    }
    let is_sound = lines.is_empty();
    lines.push(format!("{seeds} seeds: {all:?}"));
    Report { lines, is_sound }
}
