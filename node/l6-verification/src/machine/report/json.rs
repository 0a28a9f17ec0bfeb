//! A report for programs.

use serde_json::{Value, json};

use super::{CaseReport, CaseRun, Interval, Report, Verdict};

impl Report {
    /// As JSON: `verdict` of all, of each case and of each run; shares from 0 to 1, times in milliseconds.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "agent": self.agent,
            "version": self.version,
            "scorer": self.scorer.word(),
            "verdict": self.outcome().word(),
            "k": self.k,
            "passHat": share(self.pass_hat(), self.pass_hat_interval),
            "passAt": share(self.pass_at(), self.pass_at_interval),
            "floor": self.floor.map(|floor| floor.share),
            "cases": self.cases.iter().map(case).collect::<Vec<Value>>(),
        })
    }
}

fn share(estimate: Option<f64>, interval: Option<Interval>) -> Value {
    let interval = interval.map(|Interval { low, high }| json!([low, high]));
    json!({ "estimate": estimate, "interval": interval })
}

fn case(case: &CaseReport) -> Value {
    let (passed, decided) = case.counts();
    json!({
        "id": case.id,
        "verdict": case.outcome().word(),
        "passed": passed,
        "decided": decided,
        "runs": case.runs.iter().map(run).collect::<Vec<Value>>(),
    })
}

fn run(run: &CaseRun) -> Value {
    let (verdict, reasons) = match &run.verdict {
        Verdict::Pass => ("pass", Vec::new()),
        Verdict::Fail(findings) => ("fail", findings.iter().map(ToString::to_string).collect()),
        Verdict::Undecided(why) => ("undecided", vec![why.clone()]),
    };
    let figures = run.figures;
    // More digits than a number of JSON has.
    let cost = figures.cost.map(|cost| cost.to_string());
    json!({
        "verdict": verdict,
        "reasons": reasons,
        "agent": run.agent,
        "tools": run.tools,
        "durationMs": figures.duration_ms,
        "firstTokenMs": figures.first_token_ms,
        "tokens": figures.tokens,
        "tokensPerSecond": figures.tokens_per_second(),
        "cost": cost,
    })
}

impl super::RunFigures {
    /// Tokens in a second; none for a run that took no time.
    #[must_use]
    pub fn tokens_per_second(&self) -> Option<f64> {
        (self.duration_ms > 0).then(|| self.tokens as f64 * 1_000.0 / self.duration_ms as f64)
    }
}
