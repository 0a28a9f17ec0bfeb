//! `althing logs`: what the programs of an agent said.

use althing_api::{LogEntry, LogsRequest, ProgramLine};
use althing_client::Lines;

use crate::args::Logs;
use crate::commands::{Out, moment, reader_gone};
use crate::exit::Failure;
use crate::paths::Paths;

/// Prints the lines that are kept, and those that come if that is asked for.
pub async fn run(at: &Paths, logs: &Logs, out: &Out) -> Result<(), Failure> {
    let request = LogsRequest { agent: logs.agent.clone(), follow: logs.follow };
    let mut lines = at.connect().await?.watch("/logs", &request).await?;
    let printed = tokio::select! {
        printed = print(&mut lines, out) => printed?,
        _ = tokio::signal::ctrl_c() => return Ok(()),
        () = reader_gone() => return Ok(()),
    };
    if printed == 0 && !out.json {
        eprintln!("althing: {} has said nothing: no program of it runs, or none wrote anything yet", logs.agent);
    }
    Ok(())
}

/// How many lines there were, to the last one that somebody read.
async fn print(lines: &mut Lines, out: &Out) -> Result<usize, Failure> {
    let mut printed = 0;
    while let Some(line) = lines.next::<LogEntry>().await? {
        printed += 1;
        if !out.line(&line, shown) {
            break;
        }
    }
    Ok(printed)
}

fn shown(entry: &LogEntry) -> String {
    let ProgramLine { program, text, at_ms } = match entry {
        LogEntry::Gap(gap) => return format!("({} older lines are not kept)", gap.gone),
        LogEntry::Line(line) => line,
    };
    let at = moment(*at_ms).map(|at| at.format("%H:%M:%S").to_string()).unwrap_or_default();
    let program = match program.as_str() {
        "runtime" => String::new(),
        other => format!(" {other}:"),
    };
    format!("{at}{program} {text}")
}

#[cfg(test)]
mod tests {
    use althing_api::{LogEntry, LogGap, ProgramLine};

    use super::shown;

    #[test]
    fn a_line_says_when_and_which_program_but_the_agents_own_said_it() {
        let line = |program: &str| {
            let text = "No module named a2a".to_owned();
            LogEntry::Line(ProgramLine { program: program.to_owned(), text, at_ms: 3_661_000 })
        };
        assert_eq!(shown(&line("runtime")), "01:01:01 No module named a2a");
        assert_eq!(shown(&line("tools.maps")), "01:01:01 tools.maps: No module named a2a");
        assert_eq!(shown(&LogEntry::Gap(LogGap { gone: 7 })), "(7 older lines are not kept)");
    }
}
