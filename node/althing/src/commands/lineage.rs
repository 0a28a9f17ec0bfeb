//! `althing lineage` and `althing verify run`.

use althing_api::{CheckVerdict, LineageGap, LineageReport, LineageTask, RunVerification, TurnCall, TurnRun};

use crate::args::Verify;
use crate::commands::agent::escape;
use crate::commands::{Out, date_time, one_line, short};
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// Digits of a hash that are shown; `--json` has all.
const HASH_CHARS: usize = 12;

/// Shows what led to an answer.
pub async fn run(at: &Paths, task: &str, out: &Out) -> Result<(), Failure> {
    let path = format!("/tasks/{}/lineage", escape(task));
    let report: LineageReport = at.connect().await?.read(&path).await?;
    out.show(&report, people);
    Ok(())
}

/// Checks what is recorded of a task. Exits as refused if something does not hold.
pub async fn verify(at: &Paths, asked: &Verify, out: &Out) -> Result<(), Failure> {
    let Verify::Run { task } = asked;
    let path = format!("/tasks/{}/verification", escape(task));
    let report: RunVerification = at.connect().await?.read(&path).await?;
    out.show(&report, verdicts);
    if report.holds { Ok(()) } else { Err(Failure::shown(code::REFUSED)) }
}

fn cut(hash: &str) -> String {
    hash.chars().take(HASH_CHARS).collect()
}

fn people(report: &LineageReport) -> String {
    let mut lines: Vec<String> = report.tasks.iter().flat_map(task_lines).collect();
    lines.extend(report.gaps.iter().map(gap_line));
    if report.more {
        lines.push("more tasks were called than are followed".to_owned());
    }
    joined(&lines)
}

/// Lines of a report, of which other nodes and agents wrote parts.
fn joined(lines: &[String]) -> String {
    lines.iter().map(|line| one_line(line)).collect::<Vec<_>>().join("\n")
}

fn task_lines(of: &LineageTask) -> Vec<String> {
    let LineageTask { task, agent, node, caller, turns, forgotten } = of;
    let caller = caller.as_ref().map(|caller| format!(", called by {caller}")).unwrap_or_default();
    let mut lines = vec![format!("task {task} of {agent} on {}{caller}", short(node))];
    if *forgotten > 0 {
        lines.push(format!("  {forgotten} older turns are not recorded any more"));
    }
    if turns.is_empty() {
        lines.push("  nothing is recorded: no turn of it is over, or it is older than such records".to_owned());
    }
    lines.extend(turns.iter().flat_map(turn_lines));
    lines
}

fn turn_lines(turn: &TurnRun) -> Vec<String> {
    let TurnRun { message, version, binding, input, output, .. } = turn;
    let mut lines = vec![
        format!("  turn {message}, {}, version {version}, bound to {}", date_time(turn.ended_ms), cut(binding)),
        format!("    prompt   {}", cut(input)),
    ];
    if turn.resumed {
        lines.push("    note     it went on from its journal: earlier calls may be missing".to_owned());
    }
    let more = |count: u64| if count == 0 { String::new() } else { format!(", and {count} more") };
    if !turn.passages.is_empty() {
        lines.push(format!("    source   {}{}", turn.passages.join(", "), more(turn.more_passages)));
    }
    lines.extend(turn.models.iter().map(|model| format!("    model    {model}")));
    lines.extend(turn.calls.iter().map(call_line));
    if turn.more_calls > 0 {
        lines.push(format!("    tool     {} more calls", turn.more_calls));
    }
    if turn.proof {
        lines.push("    proof    its deadlines were proved: `althing verify run` proves them again".to_owned());
    }
    lines.push(format!("    output   {}", cut(output)));
    lines
}

fn call_line(call: &TurnCall) -> String {
    let TurnCall { tool, outcome, arguments, result, task, .. } = call;
    let hash = |hash: Option<&String>| hash.map_or_else(|| "none".to_owned(), |hash| cut(hash));
    let task = task.as_ref().map(|task| format!(", task {task}")).unwrap_or_default();
    format!(
        "    tool     {tool} {outcome}: arguments {}, result {}{task}",
        hash(arguments.as_ref()),
        hash(result.as_ref())
    )
}

fn gap_line(gap: &LineageGap) -> String {
    let LineageGap { task, agent, caller, why } = gap;
    let agent = agent.as_ref().map(|agent| format!(" of {agent}")).unwrap_or_default();
    let caller = caller.as_ref().map(|caller| format!(", called by {caller}")).unwrap_or_default();
    format!("task {task}{agent}{caller}: {why}")
}

fn verdicts(report: &RunVerification) -> String {
    let mut lines = vec![format!(
        "task {} of {}: {}",
        report.task,
        report.agent,
        if report.holds { "what is recorded of it holds" } else { "NOT ALL that is recorded of it holds" }
    )];
    if report.forgotten > 0 {
        lines.push(format!("{} older turns are not recorded any more", report.forgotten));
    }
    for turn in &report.turns {
        lines.push(format!("turn {}", turn.message));
        lines.extend(turn.checks.iter().map(|check| {
            let word = match check.verdict {
                CheckVerdict::Holds => "ok    ",
                CheckVerdict::Broken => "BROKEN",
                CheckVerdict::Gone => "gone  ",
            };
            format!("  {word} {:9}  {}", check.what, check.why)
        }));
    }
    joined(&lines)
}

#[cfg(test)]
mod tests {
    use althing_api::{RunCheck, TurnVerification};

    use super::*;

    #[test]
    fn a_lineage_leads_from_the_prompt_over_sources_and_tools_to_the_output() {
        let call = TurnCall {
            tool: "agents/echo".to_owned(),
            outcome: "done".to_owned(),
            definition: None,
            arguments: Some("b".repeat(64)),
            result: None,
            task: Some("t-2".to_owned()),
        };
        let turn = TurnRun {
            message: "m-1".to_owned(),
            version: "1.0.0".to_owned(),
            node: "did:key:z6Mk".to_owned(),
            ended_ms: 0,
            trace: None,
            binding: "d".repeat(64),
            resumed: true,
            models: vec!["small".to_owned()],
            input: "e".repeat(64),
            passages: vec!["p-1".to_owned()],
            more_passages: 2,
            calls: vec![call],
            more_calls: 0,
            output: "f".repeat(64),
            proof: false,
        };
        let task = LineageTask {
            task: "t-1".to_owned(),
            agent: "clerk".to_owned(),
            node: "did:key:z6Mk".to_owned(),
            caller: None,
            turns: vec![turn],
            forgotten: 0,
        };
        let gap = LineageGap {
            task: "t-2".to_owned(),
            agent: Some("urn:echo".to_owned()),
            caller: Some("t-1".to_owned()),
            why: "it is not connected".to_owned(),
        };
        let why = "it is\n    output   ffff".to_owned();
        let forged = LineageGap { why, caller: Some("t-1\u{202e}".to_owned()), ..gap.clone() };
        let told = people(&LineageReport { tasks: Vec::new(), gaps: vec![forged], more: false });
        assert_eq!(told, r"task t-2 of urn:echo, called by t-1\u{202e}: it is\u{a}    output   ffff");
        let told = people(&LineageReport { tasks: vec![task], gaps: vec![gap], more: false });
        let order = [
            "prompt   eeeeeeeeeeee",
            "note     it went on from its journal",
            "source   p-1, and 2 more",
            "model    small",
            "tool     agents/echo done",
            "output   f",
        ];
        let places: Vec<usize> = order.iter().map(|words| told.find(words).expect(words)).collect();
        assert!(places.is_sorted(), "{told}");
        assert!(told.contains("arguments bbbbbbbbbbbb, result none, task t-2"), "{told}");
        assert!(told.ends_with("task t-2 of urn:echo, called by t-1: it is not connected"), "{told}");
    }

    #[test]
    fn what_does_not_hold_is_told_in_capitals() {
        let check = |verdict| RunCheck { what: "output".to_owned(), verdict, why: "why".to_owned() };
        let checks = vec![check(CheckVerdict::Holds), check(CheckVerdict::Broken)];
        let turn = TurnVerification { message: "m-1".to_owned(), checks };
        let report = RunVerification {
            task: "t-1".to_owned(),
            agent: "clerk".to_owned(),
            holds: false,
            turns: vec![turn],
            forgotten: 0,
        };
        let told = verdicts(&report);
        assert!(told.contains("NOT ALL") && told.contains("  BROKEN output     why"), "{told}");
        let checks = vec![RunCheck { why: "why\n  ok     output".to_owned(), ..check(CheckVerdict::Broken) }];
        let turns = vec![TurnVerification { message: "m-1".to_owned(), checks }];
        let told = verdicts(&RunVerification { turns, ..report });
        assert_eq!(told.lines().count(), 3, "no reason is a check: {told}");
    }
}
