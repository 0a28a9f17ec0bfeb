//! `althing doctor`.

use serde_json::{Value, json};

use crate::args::Doctor;
use crate::commands::{Out, rows, table, text};
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// Diagnoses the node, or the way from it to an agent. Exits with 1 if something is wrong.
pub async fn run(at: &Paths, asked: &Doctor, out: &Out) -> Result<(), Failure> {
    if asked.overhead {
        let measured = at.connect().await?.post("/doctor/overhead", &json!({})).await?;
        out.show(&measured, overhead);
        return Ok(());
    }
    let report = at.connect().await?.post("/doctor", &json!({ "agent": asked.agent, "anyone": asked.anyone })).await?;
    out.show(&report, |report| {
        let mut lines = Vec::new();
        for finding in rows(report, "findings") {
            let remedy = text(finding, "remedy");
            let mark = match (finding["fine"] == true, remedy.is_empty()) {
                (true, true) => "ok   ",
                (true, false) => "note ",
                (false, _) => "WRONG",
            };
            lines.push(format!("{mark} {}  {}", text(finding, "layer"), text(finding, "what")));
            if !remedy.is_empty() {
                let about = if finding["fine"] == true { "what can be done" } else { "what to do" };
                lines.push(format!("          {about}: {remedy}"));
            }
        }
        for asked in rows(report, "dialledBack") {
            let peer = text(asked, "peer");
            let from = if asked["fromInternet"] == true { "from the internet" } else { "from the same network" };
            let why = text(asked, "notAsked");
            if !why.is_empty() {
                lines.push(format!("      {peer} could not be asked to dial back: {why}"));
            }
            for dial in rows(asked, "dials") {
                let came = if dial["reached"] == true { "succeeded".to_owned() } else { text(dial, "why") };
                lines.push(format!("      {peer} dialled {} {from}: {came}", text(dial, "address")));
            }
        }
        lines.join("\n")
    });
    if report["fine"] == true {
        return Ok(());
    }
    Err(Failure::new(code::FAILED, "something is wrong; see above"))
}

/// What each layer adds to a call, microseconds.
fn overhead(measured: &Value) -> String {
    let us = |value: &Value| format!("{:.1}", value.as_f64().unwrap_or_default());
    let cells = |row: &Value| {
        vec![text(row, "layer"), text(row, "what"), us(&row["us"]["p50"]), us(&row["us"]["p99"]), us(&row["addsUs"])]
    };
    let all: Vec<Vec<String>> = rows(measured, "overhead").iter().map(cells).collect();
    let mut shown = table(&["layer", "what", "p50 µs", "p99 µs", "adds µs"], &all);
    if measured["remote"] != true {
        shown.push_str("no node of the same owner is connected: what the way to another node takes is not measured\n");
    }
    shown
}
