//! What agents say that judge answers, and how far that goes.

use crate::machine::evidence::Interval;

/// What an agent said that judged the last answer of a run: its first word, before the agent answered again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgeWord {
    /// The judge, as the contract names it: `agents/NAME`.
    pub judge: String,
    /// Whether it let the answer pass; none where it gave no verdict.
    pub passed: Option<bool>,
}

/// How often a judge said what the cases say.
#[derive(Debug, Clone, PartialEq)]
pub struct Agreement {
    /// Whose word it is: `agents/NAME`.
    pub judge: String,
    /// Runs of cases with a verdict in which it said the same. One without a verdict of its own does not agree.
    pub agreed: u32,
    /// Runs of such cases in which it was asked.
    pub asked: u32,
    /// Between which shares its agreement lies. Runs of one case are alike, so that cases are what is counted.
    pub interval: Option<Interval>,
}

impl JudgeWord {
    /// In one word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self.passed {
            Some(true) => "passed",
            Some(false) => "refused",
            None => "no verdict",
        }
    }
}

impl Agreement {
    /// In words for a person.
    #[must_use]
    pub fn words(&self) -> String {
        let Agreement { agreed, asked, .. } = self;
        let interval = self.interval.map(|Interval { low, high }| format!(" ({low:.3} to {high:.3})"));
        let share = f64::from(*agreed) / f64::from(*asked).max(1.0);
        format!("agreed in {agreed} of {asked} labelled runs, {share:.3}{}", interval.unwrap_or_default())
    }
}
