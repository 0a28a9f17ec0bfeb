//! A report for people.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::{Agreement, CaseReport, Report, RunFigures, Verdict, done};
use crate::machine::cases::excerpt;
use crate::machine::evidence::Interval;

/// What is said of a test of an agent that runs on another node.
const ELSEWHERE: &str =
    "it runs on another node: its answers were judged; its tools, tokens and effects there are not seen here";
/// Lines of one kind that are told of one case.
const FINDINGS_MAX: usize = 4;
/// Characters of the column of cases, at least: that of a task's id, which is the name of a case made of it, needs more.
const CASE_CHARS_MIN: usize = 24;

impl Report {
    /// A line for each case, below it what is not right, and then what is said of all of it.
    #[must_use]
    pub fn table(&self) -> String {
        let widest = self.cases.iter().map(|case| excerpt(&case.id).chars().count()).max();
        let width = widest.unwrap_or_default().max(CASE_CHARS_MIN);
        let mut table = row(["CASE", "VERDICT", "RIGHT", "TIME", "FIRST", "TOKENS", "PER S", "COST"], width);
        for case in &self.cases {
            table.push_str(&figures(case, width));
            self.course(&mut table, case);
            findings(&mut table, case);
            self.judged(&mut table, case);
        }
        let share = |share: Option<f64>, interval: Option<Interval>| match (share, interval) {
            (None, _) => "not known".to_owned(),
            (Some(share), None) => format!("{share:.3}"),
            (Some(share), Some(Interval { low, high })) => format!("{share:.3} ({low:.3} to {high:.3})"),
        };
        let (k, outcome) = (self.k, self.outcome().word());
        let (hat, at) = (share(self.pass_hat(), self.pass_hat_interval), share(self.pass_at(), self.pass_at_interval));
        let version = self.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        done(writeln!(table, "\n{}{version}: {outcome}; pass^{k} {hat}, pass@{k} {at}", excerpt(&self.agent)));
        for agreement in &self.agreements {
            done(writeln!(table, "{} {}", excerpt(&agreement.judge), agreement.words()));
        }
        if self.is_elsewhere {
            done(writeln!(table, "{ELSEWHERE}"));
        }
        table
    }

    /// Whom the runs of a case were for, and what they called, where that is more than nothing.
    fn course(&self, table: &mut String, case: &CaseReport) {
        let mut lines: Vec<String> = Vec::new();
        for run in &case.runs {
            let other = run.agent.as_deref().filter(|agent| *agent != self.agent);
            let found = other.map(|agent| format!("found {}", excerpt(agent)));
            let called = run.called();
            let called = (!called.is_empty()).then(|| format!("called {}", excerpt(&called.join(", "))));
            let denied = (!run.denied.is_empty()).then(|| format!("denied {}", excerpt(&run.denied.join(", "))));
            let line = found.into_iter().chain(called).chain(denied).collect::<Vec<_>>().join("; ");
            if !line.is_empty() && !lines.contains(&line) {
                lines.push(line);
            }
        }
        listed(table, &lines);
    }

    /// What judges said of a case, each with how far its word goes.
    fn judged(&self, table: &mut String, case: &CaseReport) {
        let words: BTreeSet<(&str, &str)> =
            case.runs.iter().flat_map(|run| &run.judges).map(|said| (said.judge.as_str(), said.word())).collect();
        for (judge, word) in words {
            let known = self.agreements.iter().find(|agreement| agreement.judge == judge);
            let known = known.map_or_else(|| "its agreement is not measured".to_owned(), Agreement::words);
            let wanted = case.grade.map(|grade| format!(", wanted {}", grade.word())).unwrap_or_default();
            done(writeln!(table, "  {} says {word}{wanted} ({known})", excerpt(judge)));
        }
    }
}

fn row(cells: [&str; 8], width: usize) -> String {
    let [id, verdict, right, time, first, tokens, rate, cost] = cells;
    format!("{id:<width$} {verdict:<9} {right:>7} {time:>9} {first:>9} {tokens:>8} {rate:>8} {cost:>8}\n")
}

/// The means of its runs, of those of which a figure is known.
fn figures(case: &CaseReport, width: usize) -> String {
    let (passed, decided) = case.counts();
    let mean = |of: fn(&RunFigures) -> Option<u64>| {
        let known: Vec<u64> = case.runs.iter().filter_map(|run| of(&run.figures)).collect();
        let sum = known.iter().fold(0_u64, |sum, figure| sum.saturating_add(*figure));
        sum.checked_div(u64::try_from(known.len()).unwrap_or(u64::MAX))
    };
    let shown = |figure: Option<String>| figure.unwrap_or_else(|| "-".to_owned());
    let milliseconds = |time: Option<u64>| shown(time.map(|time| format!("{time} ms")));
    let count = |figure: Option<u64>| shown(figure.map(|figure| figure.to_string()));
    let rates: Vec<f64> = case.runs.iter().filter_map(|run| run.figures.tokens_per_second()).collect();
    let rate = (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64);
    let is_known = case.runs.iter().all(|run| run.figures.cost.is_some());
    row(
        [
            &excerpt(&case.id),
            case.outcome().word(),
            &format!("{passed}/{decided}"),
            &milliseconds(mean(|run| Some(run.duration_ms))),
            &milliseconds(mean(|run| run.first_token_ms)),
            &count(mean(|run| run.tokens)),
            &shown(rate.map(|rate| format!("{rate:.0}"))),
            &count(mean(|run| run.cost).filter(|_| is_known)),
        ],
        width,
    )
}

fn findings(table: &mut String, case: &CaseReport) {
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
    listed(table, &lines);
}

/// The first of these lines, below a case.
fn listed(table: &mut String, lines: &[String]) {
    for line in lines.iter().take(FINDINGS_MAX) {
        done(writeln!(table, "  {line}"));
    }
    if let Some(more) = lines.len().checked_sub(FINDINGS_MAX).filter(|more| *more > 0) {
        done(writeln!(table, "  and {more} more"));
    }
}
