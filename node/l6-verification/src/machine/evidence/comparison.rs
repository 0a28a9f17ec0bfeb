//! Two versions that ran the same cases: better, worse, no worse, or undecided.

use std::collections::{BTreeMap, BTreeSet};

use super::decision::{Criteria, Decision, Passes, of_passes, of_scores};
use super::exact::Interval;
use super::sizes::{PAIRS_MAX, pairs_to_decide, scores_to_decide};

/// Slices of one comparison: each of them needs more pairs, the more there are.
pub const SLICES_MAX: usize = 64;

/// A run of a case by both versions.
#[derive(Debug, Clone, PartialEq)]
pub struct PairRun {
    /// The id of the case.
    pub case: String,
    /// What the case belongs to, such as a language or a kind of request.
    pub slices: BTreeSet<String>,
    /// The score of the older version, from 0 to 1; of a verdict, 1 is a pass and 0 a fail.
    pub before: f64,
    /// That of the newer one.
    pub after: f64,
}

/// What is known of the newer version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Chance does not explain that it passes more often, or scores higher.
    Better,
    /// It loses less than the margin, if anything.
    NoWorse,
    /// It loses, and chance does not explain that.
    Worse,
    /// Nothing of this can be said, which is no pass.
    Undecided {
        /// As many pairs in all decide four times of five, if things are as they look; of scores, as many cases. None if no
        /// number within reach does.
        pairs: Option<u64>,
    },
}

impl Verdict {
    /// Whether the newer version may take the older one's place.
    #[must_use]
    pub fn is_pass(self) -> bool {
        matches!(self, Verdict::Better | Verdict::NoWorse)
    }
}

/// What a part of the pairs says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairSummary {
    /// Runs of both versions.
    pub pairs: u64,
    /// Cases that these are of.
    pub cases: u64,
    /// Pairs that passed before and fail now; of scores, that scored higher before.
    pub broken: u64,
    /// Pairs the other way round.
    pub mended: u64,
    /// How much the mean rose, from −1 to 1.
    pub difference: f64,
    /// Bounds of that for further runs of these cases; for all cases of the kind where each ran once.
    pub interval: Interval,
    /// McNemar's p; none of scores.
    pub p: Option<f64>,
    /// What that comes to.
    pub verdict: Verdict,
}

/// A comparison with its slices.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// What all pairs come to: no pass where a slice broke, or may have.
    pub verdict: Verdict,
    /// All pairs as one.
    pub whole: PairSummary,
    /// Those of each slice.
    pub slices: BTreeMap<String, PairSummary>,
    /// The slices that decided the verdict against what all pairs as one say.
    pub against: Vec<String>,
}

/// Why nothing can be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComparisonError {
    /// There are no pairs.
    #[error("no case was run by both versions: run the same cases with both")]
    Nothing,
    /// There are too many.
    #[error("there are {found} pairs, and {PAIRS_MAX} is the most: take a part of the cases, or fewer runs of each")]
    Size {
        /// How many there are.
        found: usize,
    },
    /// There are too many slices.
    #[error("the cases have {found} slices, and {SLICES_MAX} is the most: leave out what no verdict is wanted of")]
    Slices {
        /// How many there are.
        found: usize,
    },
    /// A score is none.
    #[error("a score of case {case:?} is not from 0 to 1: its scorer must give numbers from 0 (worst) to 1 (best)")]
    Score {
        /// The id of the case.
        case: String,
    },
    /// The criteria make no sense.
    #[error("alpha must be above 0 and at most 0.5, and the margin from 0 to below 1")]
    Criteria,
}

/// Compares. Scores of 0 and 1 alone are passes and fails, which McNemar's test compares; it counts runs of a case one by one,
/// since versions that are equally good at each case break as many runs of it as they mend. Other scores are compared by the
/// bootstrap over cases.
///
/// Slices share the probability of a wrong *worse* among them, the whole has as much again, and each uses one side of it.
///
/// # Errors
/// [`ComparisonError`].
pub fn compare(pairs: &[PairRun], criteria: &Criteria) -> Result<Comparison, ComparisonError> {
    check(pairs, criteria)?;
    let is_binary = pairs.iter().flat_map(|pair| [pair.before, pair.after]).all(|score| score == 0.0 || score == 1.0);
    let whole: Vec<&PairRun> = pairs.iter().collect();
    let names: BTreeSet<&String> = pairs.iter().flat_map(|pair| &pair.slices).collect();
    if names.len() > SLICES_MAX {
        return Err(ComparisonError::Slices { found: names.len() });
    }
    let of_slice = Criteria { alpha: criteria.alpha / names.len().max(1) as f64, ..*criteria };
    let slices: BTreeMap<String, PairSummary> = names
        .into_iter()
        .map(|name| {
            let part: Vec<&PairRun> = pairs.iter().filter(|pair| pair.slices.contains(name)).collect();
            (name.clone(), summary(&part, is_binary, &of_slice))
        })
        .collect();
    let whole = summary(&whole, is_binary, criteria);
    let (verdict, against) = judge(&whole, &slices, criteria.margin);
    Ok(Comparison { verdict, whole, slices, against })
}

fn check(pairs: &[PairRun], criteria: &Criteria) -> Result<(), ComparisonError> {
    if !criteria.is_sound() {
        return Err(ComparisonError::Criteria);
    }
    if pairs.is_empty() {
        return Err(ComparisonError::Nothing);
    }
    if pairs.len() as u64 > PAIRS_MAX {
        return Err(ComparisonError::Size { found: pairs.len() });
    }
    let is_score = |score: f64| (0.0..=1.0).contains(&score);
    match pairs.iter().find(|pair| !is_score(pair.before) || !is_score(pair.after)) {
        Some(pair) => Err(ComparisonError::Score { case: pair.case.clone() }),
        None => Ok(()),
    }
}

/// What the whole and its slices come to, and which slices decided that: those that broke, else those that lost more than the
/// margin so far and are not decided.
fn judge(whole: &PairSummary, slices: &BTreeMap<String, PairSummary>, margin: f64) -> (Verdict, Vec<String>) {
    let broken: Vec<String> =
        slices.iter().filter(|(_, slice)| slice.verdict == Verdict::Worse).map(|(name, _)| name.clone()).collect();
    if !broken.is_empty() {
        return (Verdict::Worse, broken);
    }
    if !whole.verdict.is_pass() {
        return (whole.verdict, Vec::new());
    }
    let mut doubtful = Vec::new();
    let mut needed = Some(0);
    for (name, slice) in slices.iter().filter(|(_, slice)| slice.difference < -margin) {
        let Verdict::Undecided { pairs } = slice.verdict else { continue };
        doubtful.push(name.clone());
        // More pairs of the same kind: the slice has the same part in them.
        let of_whole = pairs.map(|pairs| pairs.saturating_mul(whole.pairs).div_ceil(slice.pairs.max(1)));
        needed = needed.zip(of_whole).map(|(some, others): (u64, u64)| some.max(others));
    }
    if doubtful.is_empty() { (whole.verdict, doubtful) } else { (Verdict::Undecided { pairs: needed }, doubtful) }
}

fn summary(pairs: &[&PairRun], is_binary: bool, criteria: &Criteria) -> PairSummary {
    let mut by_case: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    let mut passes = Passes { pairs: pairs.len() as u64, ..Passes::default() };
    for pair in pairs {
        let (sum, runs) = by_case.entry(&pair.case).or_default();
        *sum += pair.after - pair.before;
        *runs += 1.0;
        passes.broken += u64::from(pair.after < pair.before);
        passes.mended += u64::from(pair.after > pair.before);
    }
    let differences: Vec<f64> = by_case.values().map(|(sum, runs)| sum / runs).collect();
    let (decision, interval, p) = match is_binary {
        true => {
            let (decision, interval, p) = of_passes(passes, criteria);
            (decision, interval, Some(p))
        }
        false => {
            let (decision, interval) = of_scores(&differences, criteria);
            (decision, interval, None)
        }
    };
    let verdict = match decision {
        Decision::Better => Verdict::Better,
        Decision::NoWorse => Verdict::NoWorse,
        Decision::Worse => Verdict::Worse,
        Decision::Open if is_binary => Verdict::Undecided { pairs: pairs_missing(passes, criteria) },
        Decision::Open => Verdict::Undecided { pairs: cases_missing(&differences, criteria) },
    };
    let gains: f64 = pairs.iter().map(|pair| pair.after - pair.before).sum();
    let difference = if is_binary { gains / pairs.len().max(1) as f64 } else { mean(&differences) };
    let Passes { pairs, broken, mended } = passes;
    PairSummary { pairs, cases: differences.len() as u64, broken, mended, difference, interval, p, verdict }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// How many pairs would decide, if things are as they look.
fn pairs_missing(passes: Passes, criteria: &Criteria) -> Option<u64> {
    let share = |some: u64| some as f64 / passes.pairs.max(1) as f64;
    let needed = pairs_to_decide(share(passes.broken), share(passes.mended), criteria)?;
    Some(needed.max(passes.pairs + 1)).filter(|needed| *needed <= PAIRS_MAX)
}

fn cases_missing(differences: &[f64], criteria: &Criteria) -> Option<u64> {
    let middle = mean(differences);
    let squares: f64 = differences.iter().map(|value| (value - middle).powi(2)).sum();
    let deviation = (squares / differences.len().saturating_sub(1).max(1) as f64).sqrt();
    let needed = scores_to_decide(middle, deviation, criteria)?;
    Some(needed.max(differences.len() as u64 + 1)).filter(|needed| *needed <= PAIRS_MAX)
}

#[cfg(test)]
mod tests;
