//! What a test found: a verdict for each run of each case, how often it may be relied on, and one word for all of it. As a table
//! for people, as JSON, and as JUnit's XML for what builds software.

mod agreement;
mod comparison;
mod judges;
mod junit;
mod scorer;
mod table;
mod verdict;

pub use agreement::agreements;
pub use comparison::{CasePair, ComparisonReport, PairGap, Pairs, TestedVersion};
pub use judges::{Agreement, JudgeWord};
pub use junit::JUnitError;
pub use scorer::Scorer;
pub use verdict::{Finding, Observation, Verdict, judge};

use crate::machine::cases::Grade;
use crate::machine::evidence::{Interval, pass_at, pass_hat};

/// The exit code of a test that is undecided; nothing else ends with it.
pub const UNDECIDED_EXIT: u8 = 9;

/// One run of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseRun {
    /// What is said of it.
    pub verdict: Verdict,
    /// Whom the message was for, where that was found.
    pub agent: Option<String>,
    /// The tools that the agent asked for, in their order, also those that it was denied.
    pub tools: Vec<String>,
    /// Those of them that the test denied, in their order: nothing was called.
    pub denied: Vec<String>,
    /// What the agents said that judged its last answer.
    pub judges: Vec<JudgeWord>,
    /// How it went.
    pub figures: RunFigures,
}

/// How a run went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunFigures {
    /// How long it took, milliseconds.
    pub duration_ms: u64,
    /// How long until the first words of the answer, milliseconds, where that was measured.
    pub first_token_ms: Option<u64>,
    /// Tokens of prompts and answers; none where that is not known, as of an agent of another node.
    pub tokens: Option<u64>,
    /// What its models cost, millionths of their currency; none where that is not known.
    pub cost: Option<u64>,
}

impl RunFigures {
    /// Tokens in a second; none for a run that took no time, or whose tokens are not known.
    #[must_use]
    pub fn tokens_per_second(&self) -> Option<f64> {
        let tokens = self.tokens?;
        (self.duration_ms > 0).then(|| tokens as f64 * 1_000.0 / self.duration_ms as f64)
    }
}

/// All runs of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseReport {
    /// The case, by its id.
    pub id: String,
    /// What the case says of the answer, if it does.
    pub grade: Option<Grade>,
    /// Its runs, in their order.
    pub runs: Vec<CaseRun>,
}

/// What is said of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It passed.
    Pass,
    /// It failed.
    Fail,
    /// It cannot be told, which is not a pass.
    Undecided,
}

/// What is asked of a test beside that each run passes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Floor {
    /// The least share of cases that are right in all of `k` runs, 0 to 1.
    pub share: f64,
}

/// What a test came to, case by case.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The agent, as its owner calls it.
    pub agent: String,
    /// Its version, as its file has it; none of an agent of another node that told none.
    pub version: Option<String>,
    /// How texts were compared.
    pub scorer: Scorer,
    /// In how many runs a case should be right.
    pub k: u32,
    /// The cases, in their order.
    pub cases: Vec<CaseReport>,
    /// Between which shares pass^k and pass@k lie, where that is known.
    pub pass_hat_interval: Option<Interval>,
    /// The same of pass@k.
    pub pass_at_interval: Option<Interval>,
    /// The least that is asked, in place of all runs.
    pub floor: Option<Floor>,
    /// How often the agents that judge answers said what the cases say.
    pub agreements: Vec<Agreement>,
    /// Whether the agent runs on another node: which tools it called, and what they changed, is not seen here.
    pub is_elsewhere: bool,
}

impl Outcome {
    /// How reports write it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Pass => "pass",
            Outcome::Fail => "fail",
            Outcome::Undecided => "undecided",
        }
    }
}

impl CaseRun {
    /// The tools that were called, in their order: those that the test did not deny.
    #[must_use]
    pub fn called(&self) -> Vec<&str> {
        let mut denied: Vec<&str> = self.denied.iter().map(String::as_str).collect();
        let mut called = Vec::new();
        for tool in &self.tools {
            match denied.iter().position(|one| one == tool) {
                Some(at) => {
                    denied.swap_remove(at);
                }
                None => called.push(tool.as_str()),
            }
        }
        called
    }
}

impl CaseReport {
    /// How many of its runs passed, and how many were decided.
    #[must_use]
    pub fn counts(&self) -> (u32, u32) {
        let count = |wanted: fn(&Verdict) -> bool| {
            let runs = self.runs.iter().filter(|run| wanted(&run.verdict)).count();
            u32::try_from(runs).unwrap_or(u32::MAX)
        };
        let passed = count(|verdict| *verdict == Verdict::Pass);
        (passed, count(|verdict| !matches!(verdict, Verdict::Undecided(_))))
    }

    /// What is said of it: one run that failed is enough, and one that is undecided is no pass.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let (passed, decided) = self.counts();
        let is_whole = self.runs.iter().all(|run| !matches!(run.verdict, Verdict::Undecided(_)));
        if passed < decided {
            Outcome::Fail
        } else if is_whole && !self.runs.is_empty() {
            Outcome::Pass
        } else {
            Outcome::Undecided
        }
    }
}

impl Report {
    /// The share of cases that are right in each of `k` runs (pass^k), estimated from all runs; none while a case has fewer that
    /// were decided.
    #[must_use]
    pub fn pass_hat(&self) -> Option<f64> {
        self.mean(pass_hat)
    }

    /// The share of cases that are right in at least one of `k` runs (pass@k); none while a case has fewer that were decided.
    #[must_use]
    pub fn pass_at(&self) -> Option<f64> {
        self.mean(pass_at)
    }

    fn mean(&self, of: fn(u32, u32, u32) -> Option<f64>) -> Option<f64> {
        let shares = self.cases.iter().map(|case| {
            let (passed, decided) = case.counts();
            of(decided, passed, self.k)
        });
        let shares: Vec<f64> = shares.collect::<Option<_>>()?;
        (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
    }

    /// What is said of all of it. Without a floor each run of each case passes, or the test does not; with one, pass^k is
    /// above it as far as chance allows to say so.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let outcomes: Vec<Outcome> = self.cases.iter().map(CaseReport::outcome).collect();
        let is_any = |wanted: Outcome| outcomes.contains(&wanted);
        match (self.floor, self.pass_hat_interval) {
            _ if outcomes.is_empty() => Outcome::Undecided,
            (None, _) if is_any(Outcome::Fail) => Outcome::Fail,
            (Some(floor), Some(interval)) if interval.high < floor.share => Outcome::Fail,
            // What is not known of a case cannot be made good by the others.
            _ if is_any(Outcome::Undecided) => Outcome::Undecided,
            (None, _) => Outcome::Pass,
            (Some(floor), Some(interval)) if interval.low >= floor.share => Outcome::Pass,
            (Some(_), _) => Outcome::Undecided,
        }
    }
}

/// Nothing can hinder writing to a text.
fn done(written: std::fmt::Result) {
    written.expect("writing to a text cannot fail");
}

#[cfg(test)]
mod tests;
