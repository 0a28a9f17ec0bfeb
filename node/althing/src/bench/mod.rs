//! `althing bench`: what contracts are worth on this machine, beside a floor and a peer in the same run.

mod dt;
mod figures;
mod hrt;
mod layers;
mod load;
mod plot;
mod srt;
mod stub;
mod windows;

use std::path::Path;

use serde_json::{Value, json};

use crate::args::{Bench, BenchClass};
use crate::commands::Out;
use crate::exit::{Failure, code};

/// Measures one class, writes the report, and says what does not hold.
pub async fn run(bench: &Bench, out: &Out) -> Result<(), Failure> {
    let mut report = match &bench.class {
        BenchClass::Hrt(hrt) => hrt::run(hrt, out).await?,
        BenchClass::Srt(srt) => srt::run(srt, out).await?,
        BenchClass::Dt(dt) => dt::run(dt, out).await?,
        BenchClass::Layers(layers) => layers::run(layers, out).await?,
    };
    if bench.no_goals
        && let Some(report) = report.as_object_mut()
    {
        report.remove("goals");
    }
    if let Some(path) = &bench.output {
        write(path, &format!("{report:#}"))?;
    }
    if let Some(path) = &bench.plot {
        write(path, &plot::svg(&report))?;
    }
    out.show(&report, people);
    verdict(&report)
}

/// Exit code 8 where a goal was missed; what was not judged, for lack of jobs or of goals, was not missed.
fn verdict(report: &Value) -> Result<(), Failure> {
    let missed = goals(report).filter(|goal| goal["holds"] == false).count();
    match missed {
        0 => Ok(()),
        missed => Err(Failure::new(code::GOAL_MISSED, format!("goals that were missed: {missed}"))),
    }
}

fn goals(report: &Value) -> impl Iterator<Item = &Value> {
    report["goals"].as_array().into_iter().flatten()
}

/// One goal: what was measured, what is wanted, and whether that holds.
fn goal(name: &str, measured: f64, relation: &str, wanted: f64) -> Value {
    let holds = if relation == "≤" { measured <= wanted } else { measured >= wanted };
    json!({ "name": name, "measured": measured, "relation": relation, "wanted": wanted, "holds": holds })
}

/// A goal that so few jobs say nothing of: a single one would decide.
fn not_judged(name: &str, measured: f64, relation: &str, wanted: f64, why: &str) -> Value {
    json!({ "name": name, "measured": measured, "relation": relation, "wanted": wanted, "holds": null, "notJudged": why })
}

fn people(report: &Value) -> String {
    let mut shown = String::new();
    if report["rows"].is_array() {
        shown = figures::table_of(report);
        shown.push('\n');
    }
    if let Some(layers) = report["layers"].as_array() {
        let us = |value: &Value| value.as_f64().map_or_else(String::new, |us| format!("{us:.1}"));
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let row = |row: &Value| {
            vec![
                word(&row["layer"]),
                word(&row["what"]),
                us(&row["us"]["p50"]),
                us(&row["us"]["p99"]),
                us(&row["ofTheFloor"]),
            ]
        };
        let rows: Vec<Vec<String>> = layers.iter().map(row).collect();
        shown = crate::commands::table(&["layer", "what", "p50 us", "p99 us", "of a bare task"], &rows);
        shown.push('\n');
    }
    for goal in goals(report) {
        let number = |name: &str| goal[name].as_f64().unwrap_or_default();
        let verdict = match goal["holds"].as_bool() {
            Some(true) => "holds ",
            Some(false) => "MISSED",
            None => "      ",
        };
        let why = goal["notJudged"].as_str().map(|why| format!("; not judged: {why}")).unwrap_or_default();
        shown.push_str(&format!(
            "{verdict}  {}: {:.3} ({} {:.3}){why}\n",
            goal["name"].as_str().unwrap_or_default(),
            number("measured"),
            goal["relation"].as_str().unwrap_or_default(),
            number("wanted")
        ));
    }
    shown
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
}

/// Tells a person what is going on, on standard error.
fn progress(out: &Out, text: &str) {
    // Nobody looks on where it goes to a file.
    if !out.json && std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        eprintln!("{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_goal_is_exit_code_8_and_what_is_not_judged_is_not_missed() {
        let holds = goal("fine", 1.0, "≤", 2.0);
        let missed = goal("slow", 3.0, "≤", 2.0);
        let few = not_judged("ratio", 9.0, "≤", 1.5, "too few jobs");
        assert!(verdict(&json!({ "goals": [holds, few] })).is_ok());
        assert!(verdict(&json!({})).is_ok(), "`--no-goals`");
        let failure = verdict(&json!({ "goals": [holds, few, missed, missed] })).expect_err("missed");
        assert_eq!((failure.code, failure.message.as_str()), (8, "goals that were missed: 2"));
        let shown = people(&json!({ "goals": [holds, missed, few] }));
        assert!(shown.contains("holds   fine") && shown.contains("MISSED  slow"), "{shown}");
        assert!(shown.contains("not judged: too few jobs"), "{shown}");
    }
}
