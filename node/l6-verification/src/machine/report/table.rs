//! A report for people.

use std::fmt::Write;

use super::{CaseReport, Interval, Report, Verdict};
use crate::machine::cases::excerpt;

/// Findings of one case that are told.
const FINDINGS_MAX: usize = 4;

impl Report {
    /// A line for each case, below it what is not right, and then what is said of all of it.
    #[must_use]
    pub fn table(&self) -> String {
        let mut table = format!("{:<24} {:<9} {:>9} {:>9} {:>8}\n", "CASE", "VERDICT", "RIGHT", "TIME", "TOKENS");
        for case in &self.cases {
            row(&mut table, case);
        }
        let share = |share: Option<f64>, interval: Option<Interval>| match (share, interval) {
            (None, _) => "not known".to_owned(),
            (Some(share), None) => format!("{share:.3}"),
            (Some(share), Some(Interval { low, high })) => format!("{share:.3} ({low:.3} to {high:.3})"),
        };
        let (k, outcome) = (self.k, self.outcome().word());
        let (hat, at) = (share(self.pass_hat(), self.pass_hat_interval), share(self.pass_at(), self.pass_at_interval));
        told(writeln!(table, "\n{} {}: {outcome}; pass^{k} {hat}, pass@{k} {at}", excerpt(&self.agent), self.version));
        table
    }
}

fn row(table: &mut String, case: &CaseReport) {
    let (passed, decided) = case.counts();
    let runs = u64::try_from(case.runs.len()).unwrap_or(u64::MAX).max(1);
    let mean = |of: fn(&super::RunFigures) -> u64| case.runs.iter().map(|run| of(&run.figures)).sum::<u64>() / runs;
    let (time, tokens) = (format!("{} ms", mean(|run| run.duration_ms)), mean(|run| run.tokens));
    let (id, verdict, right) = (excerpt(&case.id), case.outcome().word(), format!("{passed}/{decided}"));
    told(writeln!(table, "{id:<24} {verdict:<9} {right:>9} {time:>9} {tokens:>8}"));
    let mut lines: Vec<String> = Vec::new();
    for run in &case.runs {
        let new: Vec<String> = match &run.verdict {
            Verdict::Pass => Vec::new(),
            Verdict::Fail(findings) => findings.iter().map(ToString::to_string).collect(),
            Verdict::Undecided(why) => vec![format!("undecided: {why}")],
        };
        for line in new {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    for line in lines.iter().take(FINDINGS_MAX) {
        told(writeln!(table, "  {line}"));
    }
    if let Some(more) = lines.len().checked_sub(FINDINGS_MAX).filter(|more| *more > 0) {
        told(writeln!(table, "  and {more} more"));
    }
}

fn told(written: std::fmt::Result) {
    written.expect("writing to a text cannot fail");
}
