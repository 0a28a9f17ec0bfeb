//! What is wrong with a file of cases.

use std::fmt;

/// Problems that are told of one file.
const PROBLEMS_MAX: usize = 20;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseProblem {
    /// The line, from 1; 0 for the whole file.
    pub line: usize,
    /// The member in it, such as `metadata.althing.tools`; empty for the whole line.
    pub place: String,
    /// What is wrong there.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

impl CaseProblem {
    pub(super) fn new(
        line: usize,
        place: impl Into<String>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> CaseProblem {
        CaseProblem { line, place: place.into(), what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for CaseProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str("the file")?,
            line => write!(f, "line {line}")?,
        }
        if !self.place.is_empty() {
            write!(f, ", {}", self.place)?;
        }
        write!(f, ": {}; {}", self.what, self.remedy)
    }
}

/// Why a file of cases is refused: all of it, since a case that is left out would not be missed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", told(problems, *more))]
pub struct CasesError {
    /// What is wrong, in the order of the file.
    pub problems: Vec<CaseProblem>,
    /// How many more there are.
    pub more: usize,
}

impl CasesError {
    pub(super) fn of(mut problems: Vec<CaseProblem>) -> CasesError {
        let more = problems.len().saturating_sub(PROBLEMS_MAX);
        problems.truncate(PROBLEMS_MAX);
        CasesError { problems, more }
    }
}

fn told(problems: &[CaseProblem], more: usize) -> String {
    let mut lines: Vec<String> = problems.iter().map(CaseProblem::to_string).collect();
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.join("\n")
}
