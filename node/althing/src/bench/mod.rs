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
    let report = match &bench.class {
        BenchClass::Hrt(hrt) => hrt::run(hrt, out).await?,
        BenchClass::Srt(srt) => srt::run(srt, out).await?,
        BenchClass::Dt(dt) => dt::run(dt, out).await?,
        BenchClass::Layers(layers) => layers::run(layers, out).await?,
    };
    if let Some(path) = &bench.output {
        write(path, &format!("{report:#}"))?;
    }
    if let Some(path) = &bench.plot {
        write(path, &plot::svg(&report))?;
    }
    out.show(&report, people);
    let broken: Vec<String> =
        goals(&report).filter(|goal| goal["holds"] == false).map(|goal| goal.to_string()).collect();
    if broken.is_empty() { Ok(()) } else { Err(Failure::new(code::FAILED, "not every goal is met")) }
}

fn goals(report: &Value) -> impl Iterator<Item = &Value> {
    report["goals"].as_array().into_iter().flatten()
}

/// One goal: what was measured, what is wanted, and whether that holds.
fn goal(name: &str, measured: f64, relation: &str, wanted: f64) -> Value {
    let holds = if relation == "≤" { measured <= wanted } else { measured >= wanted };
    json!({ "name": name, "measured": measured, "relation": relation, "wanted": wanted, "holds": holds })
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
        let verdict = if goal["holds"] == true { "holds " } else { "MISSED" };
        shown.push_str(&format!(
            "{verdict}  {}: {:.3} ({} {:.3})\n",
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
