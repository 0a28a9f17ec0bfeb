//! `althing bench`: what contracts are worth on this machine, beside a floor and a peer in the same run.

pub mod args;
mod dt;
mod error;
mod figures;
mod hrt;
mod layers;
mod load;
mod nothing;
mod plot;
mod srt;
mod stub;
mod summary;
mod windows;

use std::path::{Path, PathBuf};

use althing_client::{Out, table};
use althing_communication::WallClock;
use serde_json::{Value, json};

pub use args::Bench;
use args::{BenchAll, BenchClass};
pub use error::BenchError;

/// What the benchmarks are handed.
pub struct Ports {
    /// The program that their nodes run.
    pub program: PathBuf,
    /// The time of day.
    pub clock: WallClock,
}

/// Measures one class, writes the report, and fails if a goal was missed.
///
/// # Errors
/// See [`BenchError`].
pub async fn run(bench: &Bench, out: &Out, ports: &Ports) -> Result<(), BenchError> {
    let mut report = match &bench.class {
        BenchClass::Hrt(hrt) => hrt::run(hrt, out).await?,
        BenchClass::Srt(srt) => srt::run(srt, out, &ports.program).await?,
        BenchClass::Dt(dt) => dt::run(dt, out).await?,
        BenchClass::All(all) => run_all(all, out, ports).await?,
        BenchClass::Layers(layers) => layers::run(layers, out, &ports.clock).await?,
    };
    if bench.no_goals {
        measure_only(&mut report);
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

/// The classes one after the other: none is load of another one.
async fn run_all(all: &BenchAll, out: &Out, ports: &Ports) -> Result<Value, BenchError> {
    let hard = Box::pin(hrt::run(&all.hrt, out)).await?;
    let soft = Box::pin(srt::run(&all.srt, out, &ports.program)).await?;
    let tolerant = Box::pin(dt::run(&all.dt, out)).await?;
    Ok(summary::together(vec![("hrt", hard), ("srt", soft), ("dt", tolerant)]))
}

/// Keeps the figures, and drops what they are compared with.
fn measure_only(report: &mut Value) {
    let figure = |goal: &Value| json!({ "name": goal["name"], "measured": goal["measured"] });
    let figures: Vec<Value> = goals(report).map(figure).collect();
    if let Some(report) = report.as_object_mut() {
        report.remove("goals");
        report.insert("figures".to_owned(), figures.into());
    }
}

/// Fails if a goal was missed; goals that were not judged, for lack of jobs, do not count.
fn verdict(report: &Value) -> Result<(), BenchError> {
    let missed = goals(report).filter(|goal| goal["holds"] == false).count();
    match missed {
        0 => Ok(()),
        missed => Err(BenchError::GoalsMissed(missed)),
    }
}

fn goals(report: &Value) -> impl Iterator<Item = &Value> {
    report["goals"].as_array().into_iter().flatten()
}

/// One goal: the measured figure, the limit, and whether it holds.
fn goal(name: &str, measured: f64, relation: &str, wanted: f64) -> Value {
    let holds = if relation == "≤" { measured <= wanted } else { measured >= wanted };
    json!({ "name": name, "measured": measured, "relation": relation, "wanted": wanted, "holds": holds })
}

/// A goal that is not judged: there are too few jobs.
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
        shown = table(&["layer", "what", "p50 us", "p99 us", "of a bare task"], &rows);
        shown.push('\n');
    }
    if report["classes"].is_array() {
        shown.push_str(&summary::table_of(report));
        shown.push('\n');
    }
    for figure in report["figures"].as_array().into_iter().flatten() {
        let (name, measured) = (figure["name"].as_str(), figure["measured"].as_f64());
        shown.push_str(&format!("{}: {:.3}\n", name.unwrap_or_default(), measured.unwrap_or_default()));
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

fn write(path: &Path, text: &str) -> Result<(), BenchError> {
    std::fs::write(path, text).map_err(|error| BenchError::Write { path: path.to_owned(), error })
}

/// Prints progress for people on standard error.
fn progress(out: &Out, text: &str) {
    // Only to a terminal.
    if !out.json && std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        eprintln!("{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_goal_is_an_error_and_what_is_not_judged_is_not_missed() {
        let holds = goal("fine", 1.0, "≤", 2.0);
        let missed = goal("slow", 3.0, "≤", 2.0);
        let few = not_judged("ratio", 9.0, "≤", 1.5, "too few jobs");
        assert!(verdict(&json!({ "goals": [holds, few] })).is_ok());
        assert!(verdict(&json!({})).is_ok(), "`--no-goals`");
        let error = verdict(&json!({ "goals": [holds, few, missed, missed] })).expect_err("missed");
        assert!(matches!(error, BenchError::GoalsMissed(2)), "{error:?}");
        let shown = people(&json!({ "goals": [holds, missed, few] }));
        assert!(shown.contains("holds   fine") && shown.contains("MISSED  slow"), "{shown}");
        assert!(shown.contains("not judged: too few jobs"), "{shown}");
    }

    #[test]
    fn without_goals_the_figures_are_shown_and_nothing_is_judged() {
        let mut report = json!({ "goals": [goal("slow", 3.0, "≤", 2.0)] });
        measure_only(&mut report);
        assert_eq!(report, json!({ "figures": [{ "name": "slow", "measured": 3.0 }] }));
        assert!(verdict(&report).is_ok());
        assert_eq!(people(&report), "slow: 3.000\n");
    }
}
