//! What came of two versions that ran the same cases: pairs of runs, what these prove, and a table of that for people.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::done;
use super::scorer::Scorer;
use super::verdict::{Finding, Verdict, score};
use crate::machine::cases::{Case, excerpt};
use crate::machine::evidence::{self, Comparison, ComparisonError, Criteria, PairRun, PairSummary, compare};

/// Cases that broke, and runs without a pair, that a table names.
const NAMES_MAX: usize = 8;

/// One of the two that are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestedVersion {
    /// The agent's name.
    pub agent: String,
    /// As its file says it (semver 2.0.0).
    pub version: String,
}

/// A run of a case that one of both did not make, or of which cannot be told whether it is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairGap {
    /// Its name in the file of cases.
    pub case: String,
    /// Why.
    pub reason: String,
}

/// A case in all its pairs.
#[derive(Debug, Clone, PartialEq)]
pub struct CasePair {
    /// Its name in the file of cases.
    pub id: String,
    /// The mean score of the older version, from 0 to 1.
    pub before: f64,
    /// That of the newer one.
    pub after: f64,
}

/// Runs of the same cases by two versions, as they come.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pairs {
    is_scored: bool,
    runs: Vec<PairRun>,
    gaps: Vec<PairGap>,
}

/// What came of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparisonReport {
    /// The older version, and the newer one.
    pub versions: [TestedVersion; 2],
    /// How texts were compared with what is right.
    pub scorer: Scorer,
    /// How often each case was run by both.
    pub runs: u32,
    /// By what it was decided.
    pub criteria: Criteria,
    /// What the pairs say; none if there is no pair.
    pub comparison: Option<Comparison>,
    /// The cases that have pairs, in the order of their file.
    pub cases: Vec<CasePair>,
    /// The runs that are no pair.
    pub gaps: Vec<PairGap>,
}

impl Pairs {
    /// None yet. Where `is_scored`, a run has as its score the share of what its case names that is right; else 1 for a pass, and
    /// 0 for a fail.
    #[must_use]
    pub fn new(is_scored: bool) -> Pairs {
        Pairs { is_scored, ..Pairs::default() }
    }

    /// Adds a run of a case, by the older version and by the newer one. All runs of a case come one after the other.
    pub fn add(&mut self, case: &Case, slices: &BTreeSet<String>, [before, after]: [&Verdict; 2]) {
        let id = case.id.clone();
        match (self.score(case, before), self.score(case, after)) {
            (Ok(before), Ok(after)) => {
                self.runs.push(PairRun { case: id, slices: slices.clone(), before, after });
            }
            (Err(reason), _) | (_, Err(reason)) => self.gaps.push(PairGap { case: id, reason }),
        }
    }

    fn score(&self, case: &Case, verdict: &Verdict) -> Result<f64, String> {
        match verdict {
            Verdict::Undecided(why) => Err(why.clone()),
            Verdict::Pass => Ok(1.0),
            // What another version was told says nothing of this one, but for what it did by then.
            Verdict::Fail(findings) if let Some(missing) = off_tape(findings) => {
                Err(format!("{missing}; what asks something else is compared live"))
            }
            Verdict::Fail(findings) => Ok(if self.is_scored { score(case, findings) } else { 0.0 }),
        }
    }

    /// What they prove.
    ///
    /// # Errors
    /// [`ComparisonError`].
    pub fn report(
        self,
        versions: [TestedVersion; 2],
        scorer: Scorer,
        runs: u32,
        criteria: Criteria,
    ) -> Result<ComparisonReport, ComparisonError> {
        let comparison = match self.runs.as_slice() {
            [] => None,
            pairs => Some(compare(pairs, &criteria)?),
        };
        let of_case = |pairs: &[PairRun]| {
            let mean = |of: fn(&PairRun) -> f64| pairs.iter().map(of).sum::<f64>() / pairs.len() as f64;
            let (before, after) = (mean(|pair| pair.before), mean(|pair| pair.after));
            CasePair { id: pairs.first().map(|pair| pair.case.clone()).unwrap_or_default(), before, after }
        };
        let cases = self.runs.chunk_by(|one, next| one.case == next.case).map(of_case).collect();
        Ok(ComparisonReport { versions, scorer, runs, criteria, comparison, cases, gaps: self.gaps })
    }
}

impl ComparisonReport {
    /// What is known of the newer version. What is not known of a run is not made good by the others: no pass then.
    #[must_use]
    pub fn verdict(&self) -> evidence::Verdict {
        match self.comparison.as_ref().map(|comparison| comparison.verdict) {
            Some(verdict) if self.gaps.is_empty() || verdict == evidence::Verdict::Worse => verdict,
            _ => evidence::Verdict::Undecided { pairs: None },
        }
    }

    /// A line for all pairs and for each slice, the cases that broke, the runs that are no pair, and what is said of all of it.
    #[must_use]
    pub fn table(&self) -> String {
        let mut table = String::new();
        if let Some(comparison) = &self.comparison {
            let [slice, pairs, broken, mended] = ["SLICE", "PAIRS", "BROKEN", "MENDED"];
            done(writeln!(
                table,
                "{slice:<24} {pairs:>6} {broken:>6} {mended:>6} {:<26} {:<8} VERDICT",
                "DIFFERENCE", "P"
            ));
            row(&mut table, "all", &comparison.whole);
            comparison.slices.iter().for_each(|(name, slice)| row(&mut table, name, slice));
        }
        let broken: Vec<String> = self.cases.iter().filter(|case| case.after < case.before).map(change).collect();
        names(&mut table, "broken", &broken);
        let gaps: Vec<String> = self.gaps.iter().map(|gap| format!("{}: {}", excerpt(&gap.case), gap.reason)).collect();
        names(&mut table, "no pair", &gaps);
        let [before, after] = &self.versions;
        let name = |version: &TestedVersion| format!("{} {}", excerpt(&version.agent), version.version);
        done(writeln!(table, "\n{} against {}: {}", name(after), name(before), self.words()));
        table
    }

    /// What is said of all of it, with the reason.
    fn words(&self) -> String {
        let Some(comparison) = &self.comparison else {
            return "undecided: there is no run of a case that both made".to_owned();
        };
        let margin = self.criteria.margin;
        let against = comparison.against.iter().map(|name| excerpt(name)).collect::<Vec<_>>().join(", ");
        match self.verdict() {
            evidence::Verdict::Better => "better".to_owned(),
            evidence::Verdict::NoWorse => format!("no worse: it loses less than {margin}, if anything"),
            evidence::Verdict::Worse if against.is_empty() => "worse".to_owned(),
            evidence::Verdict::Worse => format!("worse: {against} broke, and what others won does not make up for it"),
            evidence::Verdict::Undecided { .. } if !self.gaps.is_empty() => {
                let gaps = self.gaps.len();
                format!(
                    "undecided: {gaps} runs have no pair, and the others do not make up for what is not known of them"
                )
            }
            evidence::Verdict::Undecided { pairs } => {
                let because = if against.is_empty() { String::new() } else { format!(" because of {against}") };
                format!("undecided{because}; {}", needed(pairs, &comparison.whole))
            }
        }
    }
}

/// What a run asked that its tape does not have, where nothing else is known to be wrong.
fn off_tape(findings: &[Finding]) -> Option<&Finding> {
    let is_wrong = |one: &Finding| matches!(one, Finding::Forbidden(_) | Finding::Agent { .. });
    findings.iter().find(|one| matches!(one, Finding::NotOnTape(_)) && !findings.iter().any(is_wrong))
}

/// How much would decide.
fn needed(pairs: Option<u64>, whole: &PairSummary) -> String {
    const OFTEN: &str = "would decide four times of five, if things are as they look";
    match pairs {
        None => "no number of cases within reach would decide it".to_owned(),
        Some(cases) if whole.p.is_none() => format!("{cases} cases in all {OFTEN}"),
        Some(pairs) => {
            let (cases, runs) = (whole.cases, pairs.div_ceil(whole.cases.max(1)));
            format!(
                "{pairs} pairs in all {OFTEN}: more cases, or {runs} runs of each of these {cases} with models that are asked for real"
            )
        }
    }
}

fn row(table: &mut String, name: &str, summary: &PairSummary) {
    let PairSummary { pairs, broken, mended, difference, interval, p, verdict, .. } = summary;
    let difference = format!("{difference:+.3} ({:+.3} to {:+.3})", interval.low, interval.high);
    let p = p.map_or_else(|| "-".to_owned(), |p| format!("{p:.5}"));
    let verdict = match verdict {
        evidence::Verdict::Better => "better",
        evidence::Verdict::NoWorse => "no worse",
        evidence::Verdict::Worse => "worse",
        evidence::Verdict::Undecided { .. } => "undecided",
    };
    let name = excerpt(name);
    done(writeln!(table, "{name:<24} {pairs:>6} {broken:>6} {mended:>6} {difference:<26} {p:<8} {verdict}"));
}

/// A case with its scores.
fn change(case: &CasePair) -> String {
    format!("{} ({:.3} to {:.3})", excerpt(&case.id), case.before, case.after)
}

fn names(table: &mut String, what: &str, all: &[String]) {
    for name in all.iter().take(NAMES_MAX) {
        done(writeln!(table, "  {what}: {name}"));
    }
    if let Some(more) = all.len().checked_sub(NAMES_MAX).filter(|more| *more > 0) {
        done(writeln!(table, "  {what}: {more} more"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::verdict::Finding;
    use super::*;
    use crate::machine::cases::{CaseSchema, Expectation, ToolRule};

    fn case(id: &str, expectation: &Expectation) -> Case {
        Case::new(id, &["hello".to_owned()], &["hi".to_owned()], expectation).expect("a case")
    }

    fn plain(id: &str) -> Case {
        case(id, &Expectation::default())
    }

    fn versions() -> [TestedVersion; 2] {
        ["1.0.0", "1.1.0"].map(|version| TestedVersion { agent: "clerk".to_owned(), version: version.to_owned() })
    }

    fn failed() -> Verdict {
        Verdict::Fail(vec![Finding::NoData])
    }

    /// So many cases of a slice, of which so many broke.
    fn add(pairs: &mut Pairs, slice: &str, count: usize, broken: usize) {
        for at in 0..count {
            let after = if at < broken { failed() } else { Verdict::Pass };
            pairs.add(
                &plain(&format!("{slice} {at}")),
                &BTreeSet::from([format!("lang={slice}")]),
                [&Verdict::Pass, &after],
            );
        }
    }

    fn report(pairs: Pairs) -> ComparisonReport {
        pairs.report(versions(), Scorer::default(), 1, Criteria::default()).expect("a report")
    }

    #[test]
    fn a_slice_that_broke_is_told_and_makes_all_of_it_worse() {
        let mut pairs = Pairs::new(false);
        add(&mut pairs, "en", 900, 0);
        add(&mut pairs, "fi", 20, 20);
        let report = report(pairs);
        assert_eq!(report.verdict(), evidence::Verdict::Worse);
        let table = report.table();
        assert!(table.contains("clerk 1.1.0 against clerk 1.0.0: worse: lang=fi broke"), "{table}");
        assert!(table.contains("broken: fi 0 (1.000 to 0.000)") && table.contains("broken: 12 more"), "{table}");
    }

    #[test]
    fn what_is_undecided_names_how_much_would_decide() {
        let mut pairs = Pairs::new(false);
        add(&mut pairs, "en", 10, 0);
        let report = report(pairs);
        let evidence::Verdict::Undecided { pairs: Some(needed) } = report.verdict() else { panic!("{report:?}") };
        let (table, runs) = (report.table(), needed.div_ceil(10));
        assert!(table.contains(&format!("{needed} pairs in all would decide")), "{table}");
        assert!(table.contains(&format!("{runs} runs of each of these 10")), "{table}");
    }

    #[test]
    fn a_run_that_was_not_made_leaves_no_pass() {
        let mut pairs = Pairs::new(false);
        add(&mut pairs, "en", 300, 0);
        assert_eq!(report(pairs.clone()).verdict(), evidence::Verdict::NoWorse);
        let unmade = Verdict::Undecided("its tape is gone".to_owned());
        pairs.add(&plain("lost"), &BTreeSet::new(), [&Verdict::Pass, &unmade]);
        let partial = report(pairs);
        assert_eq!(partial.verdict(), evidence::Verdict::Undecided { pairs: None });
        let table = partial.table();
        assert!(table.contains("no pair: lost: its tape is gone") && table.contains("1 runs have no pair"), "{table}");
        let mut none = Pairs::new(false);
        none.add(&plain("lost"), &BTreeSet::new(), [&unmade, &unmade]);
        let none = report(none);
        assert_eq!((none.verdict(), none.cases.len()), (evidence::Verdict::Undecided { pairs: None }, 0));
        assert!(none.table().contains("no run of a case that both made"));
    }

    /// What is not known of a run does not hide that others broke.
    #[test]
    fn what_is_worse_is_worse_also_with_a_gap() {
        let mut pairs = Pairs::new(false);
        add(&mut pairs, "en", 40, 30);
        let unmade = Verdict::Undecided("its tape is gone".to_owned());
        pairs.add(&plain("lost"), &BTreeSet::new(), [&unmade, &Verdict::Pass]);
        assert_eq!(report(pairs).verdict(), evidence::Verdict::Worse);
    }

    #[test]
    fn a_score_is_the_share_of_what_a_case_names_that_is_right() {
        let tools = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let expectation = Expectation {
            tools: Some(ToolRule::Exact(tools(&["a/x"]))),
            never: tools(&["a/y", "a/z"]),
            schema: CaseSchema::new(&serde_json::json!({ "type": "object" })).ok(),
            ..Expectation::default()
        };
        let case = case("one", &expectation);
        let forbidden = |name: &str| Finding::Forbidden(name.to_owned());
        assert!((score(&case, &[Finding::NoData]) - 0.75).abs() < 1e-12);
        assert!((score(&case, &[Finding::NoData, Finding::Denied("no".to_owned())]) - 0.75).abs() < 1e-12);
        assert!((score(&case, &[Finding::NoData, forbidden("a/y"), forbidden("a/z")]) - 0.5).abs() < 1e-12);
        assert!(score(&case, &[Finding::NoAnswer("nothing was said".to_owned())]).abs() < 1e-12);
        let mut pairs = Pairs::new(true);
        for _ in 0..2 {
            pairs.add(&case, &BTreeSet::new(), [&Verdict::Pass, &failed()]);
        }
        let report = report(pairs);
        let [pair] = report.cases.as_slice() else { panic!("{report:?}") };
        assert!((pair.after - 0.75).abs() < 1e-12 && (pair.before - 1.0).abs() < 1e-12, "{pair:?}");
        let whole = report.comparison.expect("a pair").whole;
        assert_eq!((whole.pairs, whole.cases, whole.p), (2, 1, None));
    }
}
