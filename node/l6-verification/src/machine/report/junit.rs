//! A report as JUnit's XML.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report as Document, TestCase, TestCaseStatus, TestSuite};

use super::{CaseReport, CaseRun, Outcome, Report, RunFigures, Verdict};

/// The XML was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the report cannot be written as XML; write it as JSON")]
pub struct JUnitError;

impl Report {
    /// As XML: a suite of the agent, with a test for each case. What failed is a failure, and what is undecided an error: both
    /// stop a build.
    ///
    /// # Errors
    /// [`JUnitError`].
    pub fn junit(&self) -> Result<String, JUnitError> {
        let mut suite = TestSuite::new(self.agent.as_str());
        if let Some(version) = &self.version {
            suite.add_property(("version", version.as_str()));
        }
        suite.add_property(("scorer", self.scorer.word()));
        for agreement in &self.agreements {
            suite.add_property((agreement.judge.as_str(), agreement.words().as_str()));
        }
        if self.is_elsewhere {
            suite.add_property(("elsewhere", "true"));
        }
        for case in &self.cases {
            suite.add_test_case(test(case, self));
        }
        let mut document = Document::new("althing test");
        document.add_test_suite(suite);
        document.to_string().map_err(|_| JUnitError)
    }
}

fn test(case: &CaseReport, report: &Report) -> TestCase {
    let status = match case.outcome() {
        Outcome::Pass => TestCaseStatus::success(),
        Outcome::Fail => refused(NonSuccessKind::Failure, case),
        Outcome::Undecided => refused(NonSuccessKind::Error, case),
    };
    let mut test = TestCase::new(case.id.as_str(), status);
    let taken_ms = case.runs.iter().map(|run| run.figures.duration_ms).fold(0, u64::saturating_add);
    test.set_classname(report.agent.as_str()).set_time(Duration::from_millis(taken_ms));
    let told = |(run, number): (&CaseRun, u32)| figures(run, number, report.is_elsewhere);
    let runs: Vec<String> = case.runs.iter().zip(1_u32..).map(told).collect();
    test.set_system_out(runs.join("\n"));
    test
}

/// How a run went, on a line.
fn figures(run: &CaseRun, number: u32, is_elsewhere: bool) -> String {
    let known = |figure: Option<String>| figure.unwrap_or_else(|| "not known".to_owned());
    let RunFigures { first_token_ms, tokens, cost, .. } = run.figures;
    let tools = match run.called().as_slice() {
        // Which ones another node called is not seen, and none would say that it called none.
        [] if is_elsewhere => "not known".to_owned(),
        [] => "none".to_owned(),
        tools => tools.join(", "),
    };
    let denied = if run.denied.is_empty() { String::new() } else { format!("; denied {}", run.denied.join(", ")) };
    format!(
        "run {number}: agent {}; tools {tools}{denied}; tokens {}, in a second {}; first token after {}; cost {}",
        run.agent.as_deref().unwrap_or("none"),
        known(tokens.map(|tokens| tokens.to_string())),
        known(run.figures.tokens_per_second().map(|rate| format!("{rate:.1}"))),
        known(first_token_ms.map(|ms| format!("{ms} ms"))),
        known(cost.map(|micros| micros.to_string())),
    )
}

fn refused(kind: NonSuccessKind, case: &CaseReport) -> TestCaseStatus {
    let (passed, decided) = case.counts();
    let mut reasons = Vec::new();
    for (run, number) in case.runs.iter().zip(1_u32..) {
        match &run.verdict {
            Verdict::Pass => {}
            Verdict::Fail(findings) => {
                reasons.extend(findings.iter().map(|finding| format!("run {number}: {finding}")))
            }
            Verdict::Undecided(why) => reasons.push(format!("run {number}: undecided: {why}")),
        }
    }
    let mut status = TestCaseStatus::non_success(kind);
    let runs = case.runs.len();
    status.set_message(format!("{passed} of {decided} runs that were decided are right, of {runs} in all"));
    status.set_description(reasons.join("\n"));
    status
}
