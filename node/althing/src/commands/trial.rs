//! `althing test`, `althing compare`, `althing case` and `althing replay`

use std::io::Write as _;
use std::path::Path;

use althing_api::{
    ComparisonReply, ComparisonRequest, ComparisonVerdict, LiveTest, ReplayRequest, TaskCase, TaskReplay, TestOutcome,
    TestReply, TestRequest, UPLOAD_FILE_BYTES_MAX,
};
use althing_store::file::{read_bytes, read_text};
use althing_verification::machine::cases::{CASES_BYTES_MAX, Cases};

use crate::args::{Case, CaseArgs, Compare, Test};
use crate::commands::agent::escape;
use crate::commands::{Out, plain};
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// What is said of a case whose task has no tape.
const NO_TAPE: &str = "the task has no tape: the case has its input and its answer alone, and runs with --live. With `record: tape` in its \
     agent's contract, the next task has one";

/// What is said of a case without a target.
const NO_TARGET: &str = "the case has no target: what the task answered last is no text, or is not known apart from what it had made \
     before a question. Write what is right into the case; the text of an answer is not judged without";

/// The text of a file of cases.
pub fn read_cases(file: &Path) -> Result<String, Failure> {
    read_text(file, UPLOAD_FILE_BYTES_MAX as u64).map_err(|error| wrong(file, &error))
}

/// Tests an agent; exits with a code of its own where it cannot be told whether it passes.
pub async fn test(at: &Paths, test: &Test, out: &Out) -> Result<(), Failure> {
    let cases = read_cases(&test.cases)?;
    let request = TestRequest {
        agent: test.agent.clone(),
        cases,
        runs: Some(test.runs),
        scorer: Some(test.scorer.clone()),
        floor: test.floor,
        live: test.live.then(|| LiveTest { test_servers: test.test_server.clone() }),
        effects_elsewhere: test.yes,
        junit: test.junit.is_some(),
    };
    let asked = at.connect().await?.ask("/tests", &request).await;
    let reply: TestReply = asked.map_err(|error| Failure::from(error).in_file(&test.cases))?;
    if let (Some(file), Some(xml)) = (&test.junit, &reply.junit) {
        std::fs::write(file, xml).map_err(|error| wrong(file, &error))?;
    }
    out.show(&reply.report, |_| reply.table.clone());
    match reply.report.verdict {
        TestOutcome::Pass => Ok(()),
        TestOutcome::Fail => Err(Failure::shown(code::FAILED)),
        TestOutcome::Undecided => Err(Failure::shown(code::UNDECIDED)),
    }
}

/// Compares two versions; exits with a code of its own where it cannot be told whether the newer one is worse.
pub async fn compare(at: &Paths, compare: &Compare, out: &Out) -> Result<(), Failure> {
    let cases = read_cases(&compare.cases)?;
    let request = ComparisonRequest {
        before: compare.before.clone(),
        after: compare.after.clone(),
        cases,
        runs: Some(compare.runs),
        margin: Some(compare.margin),
        seed: Some(compare.seed),
        slices: compare.slice.clone(),
        scores: compare.scores,
        scorer: Some(compare.scorer.clone()),
        live: compare.live.then(|| LiveTest { test_servers: compare.test_server.clone() }),
    };
    let asked = at.connect().await?.ask("/comparisons", &request).await;
    let reply: ComparisonReply = asked.map_err(|error| Failure::from(error).in_file(&compare.cases))?;
    out.show(&reply.report, |_| reply.table.clone());
    match reply.report.verdict {
        ComparisonVerdict::Better | ComparisonVerdict::NoWorse => Ok(()),
        ComparisonVerdict::Worse => Err(Failure::shown(code::FAILED)),
        ComparisonVerdict::Undecided => Err(Failure::shown(code::UNDECIDED)),
    }
}

/// Makes cases.
pub async fn case(at: &Paths, case: &Case, out: &Out) -> Result<(), Failure> {
    let Case::Add(CaseArgs { task, to }) = case;
    let path = format!("/tasks/{}/case", escape(task));
    let made: TaskCase = at.connect().await?.read(&path).await?;
    match to {
        None => out.show(&made, |made| made.case.clone()),
        Some(file) => {
            let count = append(file, &made.case)?;
            let cases = if count == 1 { "1 case".to_owned() } else { format!("{count} cases") };
            out.show(&made, |_| format!("{} has {cases} now", file.display()));
        }
    }
    if !made.recorded && !out.json {
        eprintln!("{}", plain(NO_TAPE, &std::io::stderr()));
    }
    if !has_target(&made.case) && !out.json {
        eprintln!("{}", plain(NO_TARGET, &std::io::stderr()));
    }
    Ok(())
}

/// Whether a line of a file of cases says which text is right.
fn has_target(line: &str) -> bool {
    Cases::read(line.as_bytes()).is_ok_and(|cases| cases.iter().all(|case| !case.targets.is_empty()))
}

/// Runs a task again; exits with 1 where it differs.
pub async fn replay(at: &Paths, task: &str, out: &Out) -> Result<(), Failure> {
    let request = ReplayRequest { task: task.to_owned() };
    let replay: TaskReplay = at.connect().await?.ask("/replay", &request).await?;
    out.show(&replay, replayed);
    if replay.equal { Ok(()) } else { Err(Failure::shown(code::FAILED)) }
}

fn replayed(replay: &TaskReplay) -> String {
    let TaskReplay { task, agent, version, equal, turns } = replay;
    let word = if *equal { "equal" } else { "it differs" };
    let mut told = format!("task {task}, {agent} {version}: {word}\n");
    if turns.len() > 1 {
        told.push_str(
            "  (of the messages before the last one what was asked and what it made; not how each of them ended)\n",
        );
    }
    for turn in turns {
        for difference in &turn.differences {
            told.push_str(&format!("  message {}: {difference}\n", turn.message));
        }
    }
    told
}

/// Adds a case after those of a file, if all of them may stand in it; gives how many it has then. What was there is not touched.
fn append(file: &Path, line: &str) -> Result<usize, Failure> {
    let known = match read_bytes(file, CASES_BYTES_MAX as u64) {
        Ok(known) => known,
        Err(error) if error.is_missing() => Vec::new(),
        Err(error) => return Err(wrong(file, &error)),
    };
    let mut cases = Cases::read(&known).map_err(|error| wrong(file, &error))?;
    for case in &Cases::read(line.as_bytes()).map_err(|error| wrong(file, &error))? {
        cases.add(case.clone()).map_err(|error| wrong(file, &error))?;
    }
    let before = if known.is_empty() || known.ends_with(b"\n") { "" } else { "\n" };
    let written = std::fs::OpenOptions::new().append(true).create(true).open(file);
    written
        .and_then(|mut opened| opened.write_all(format!("{before}{line}\n").as_bytes()))
        .map_err(|error| wrong(file, &error))?;
    Ok(cases.len())
}

fn wrong(file: &Path, error: &dyn std::error::Error) -> Failure {
    Failure::usage(format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use althing_api::TurnReplay;

    use super::*;

    #[test]
    fn a_case_is_added_after_those_of_a_file_unless_its_id_is_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("cases.jsonl");
        let line = |id: &str| format!(r#"{{"id":"{id}","input":"hi"}}"#);
        assert_eq!(append(&file, &line("a")).map_err(|failure| failure.message), Ok(1));
        // As an editor leaves it that writes no end of the last line.
        std::fs::write(&file, line("a")).expect("written");
        assert_eq!(append(&file, &line("b")).map_err(|failure| failure.message), Ok(2));
        let refused = append(&file, &line("b")).expect_err("it is there");
        assert!(refused.code == code::USAGE && refused.message.contains("line 2 has the id"), "{}", refused.message);
        let text = std::fs::read_to_string(&file).expect("it is there");
        assert_eq!(text, format!("{}\n{}\n", line("a"), line("b")));
    }

    #[test]
    fn a_case_without_a_target_is_found() {
        assert!(has_target(r#"{"id":"a","input":"hi","target":"heard"}"#));
        assert!(!has_target(r#"{"id":"a","input":["hi"]}"#) && !has_target(r#"{"id":"a","input":"hi"}"#));
    }

    #[test]
    fn a_replay_says_where_it_differs() {
        let turn = TurnReplay { message: "m-1".to_owned(), differences: vec!["ended as failed".to_owned()] };
        let (task, agent, version) = ("t".to_owned(), "clerk".to_owned(), "1.0.0".to_owned());
        let replay = TaskReplay { task, agent, version, equal: false, turns: vec![turn] };
        assert_eq!(replayed(&replay), "task t, clerk 1.0.0: it differs\n  message m-1: ended as failed\n");
        let equal = TaskReplay { equal: true, turns: Vec::new(), ..replay };
        assert_eq!(replayed(&equal), "task t, clerk 1.0.0: equal\n");
        let turn = |message: &str| TurnReplay { message: message.to_owned(), differences: Vec::new() };
        let long = TaskReplay { turns: vec![turn("m-1"), turn("m-2")], ..equal };
        assert!(replayed(&long).contains("not how each of them ended"), "what is not compared is not said to be equal");
    }
}
