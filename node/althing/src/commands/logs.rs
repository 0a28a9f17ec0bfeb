//! `althing logs`: what the programs of an agent said.

use althing_client::Lines;
use althing_control::LogsRequest;
use serde_json::Value;

use crate::args::Logs;
use crate::commands::{Out, plain, print_line, text};
use crate::exit::Failure;
use crate::paths::Paths;

/// Prints the lines that are kept, and those that come if that is asked for.
pub async fn run(at: &Paths, logs: &Logs, out: &Out) -> Result<(), Failure> {
    let request = LogsRequest { agent: logs.agent.clone(), follow: logs.follow };
    let mut lines = at.connect().await?.lines("/logs", &request).await?;
    let printed = tokio::select! {
        printed = print(&mut lines, out) => printed?,
        _ = tokio::signal::ctrl_c() => return Ok(()),
    };
    if printed == 0 && !out.json {
        eprintln!("althing: {} has said nothing: no program of it runs, or none wrote anything yet", logs.agent);
    }
    Ok(())
}

/// How many lines there were.
async fn print(lines: &mut Lines, out: &Out) -> Result<usize, Failure> {
    let mut printed = 0;
    while let Some(line) = lines.next::<Value>().await? {
        printed += 1;
        let shown = if out.json { line.to_string() } else { plain(&shown(&line), &std::io::stdout()) };
        print_line(&shown);
    }
    Ok(printed)
}

fn shown(line: &Value) -> String {
    if let Some(gone) = line["gone"].as_u64() {
        return format!("({gone} older lines are not kept)");
    }
    let at = line["atMs"].as_i64().and_then(chrono::DateTime::from_timestamp_millis);
    let at = at.map(|at| at.format("%H:%M:%S").to_string()).unwrap_or_default();
    let program = match text(line, "program") {
        own if own == "runtime" => String::new(),
        other => format!(" {other}:"),
    };
    format!("{at}{program} {}", text(line, "text"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::shown;

    #[test]
    fn a_line_says_when_and_which_program_but_the_agents_own_said_it() {
        let line = |program: &str| json!({ "program": program, "text": "No module named a2a", "atMs": 3_661_000 });
        assert_eq!(shown(&line("runtime")), "01:01:01 No module named a2a");
        assert_eq!(shown(&line("tools.maps")), "01:01:01 tools.maps: No module named a2a");
        assert_eq!(shown(&json!({ "gone": 7 })), "(7 older lines are not kept)");
    }
}
