//! `althing session`

use std::collections::BTreeSet;
use std::path::Path;

use althing_api::{
    CallDoubt, CallOutcome, RestartRequest, ResumeRequest, SessionEntry, SessionList, SessionResumption, SessionRow,
    SessionSteps, SessionTurn, StoppedTurn,
};
use althing_store::file::read_text;

use crate::args::{ResumeArgs, Session, StepsArgs};
use crate::commands::agent::escape;
use crate::commands::{Out, date_time, one_line, table};
use crate::exit::Failure;
use crate::paths::Paths;

/// Bytes of a result that somebody hands in.
const RESULT_BYTES_MAX: u64 = 1 << 20;
/// Digits of a digest that are shown; `--json` has all.
const DIGEST_CHARS: usize = 12;
/// Digits of an id that name it where no other begins so.
const ID_CHARS_MIN: usize = 4;

/// Lists sessions, shows one, or says what became of a call.
pub async fn run(at: &Paths, session: &Session, out: &Out) -> Result<(), Failure> {
    match session {
        Session::List => {
            let all: SessionList = at.connect().await?.read("/sessions").await?;
            out.show(&all, listed);
        }
        Session::Show(StepsArgs { task, steps }) => {
            let path = format!("/sessions/{}/steps", escape(task));
            let shown: SessionSteps = at.connect().await?.read(&path).await?;
            out.show(&shown, |shown| if *steps { stepwise(shown) } else { turns(shown) });
        }
        Session::Resume(ResumeArgs { task, from: Some(from), .. }) => {
            let client = at.connect().await?;
            let path = format!("/sessions/{}/restart", escape(&named(&client.read("/sessions").await?, task)?));
            let done: SessionResumption = client.ask(&path, &RestartRequest { from: *from }).await?;
            out.show(&done, |done| format!("task {} goes on anew from step {}", done.resumed, done.step));
        }
        Session::Resume(args) => {
            let request = request(args)?;
            let client = at.connect().await?;
            let path = format!("/sessions/{}", escape(&named(&client.read("/sessions").await?, &args.task)?));
            let done: SessionResumption = client.ask(&path, &request).await?;
            out.show(&done, |done| format!("task {} goes on after step {}", done.resumed, done.step));
        }
    }
    Ok(())
}

/// The task of that id, or of that beginning of one where one turn alone has such a task; else what was written, of which the node
/// says what is wrong.
fn named(all: &SessionList, written: &str) -> Result<String, Failure> {
    let tasks = all.sessions.iter().map(|one| &one.task).chain(all.stopped.iter().map(|turn| &turn.task));
    let is_long = written.chars().count() >= ID_CHARS_MIN;
    let begin: BTreeSet<&String> = tasks.filter(|task| is_long && task.starts_with(written)).collect();
    match begin.len() {
        many if many > 1 && begin.iter().all(|task| *task != written) => {
            Err(Failure::usage(format!("{many} tasks begin with {written}: write more of the one that is meant")))
        }
        1 => Ok(begin.into_iter().map(String::as_str).collect()),
        _ => Ok(written.to_owned()),
    }
}

/// What is said of which call. The command line has one of the three, or none where it has `--from`.
fn request(args: &ResumeArgs) -> Result<ResumeRequest, Failure> {
    let ResumeArgs { task: _, done, again, failed, from: _ } = args;
    let (step, outcome) = match (done.as_deref(), again, failed) {
        (Some([step, file]), ..) => {
            let number =
                step.parse::<u32>().map_err(|_| Failure::usage(format!("--done {step}: N is the number of a step")))?;
            (number, read(Path::new(file))?)
        }
        (_, Some(step), _) => (*step, CallOutcome::Again),
        (.., Some(step)) => (*step, CallOutcome::Failed),
        _ => return Err(Failure::usage("name one step: `--done N FILE`, `--again N` or `--failed N`")),
    };
    Ok(ResumeRequest { step, outcome })
}

/// The result in a file: what is no JSON is a text.
fn read(file: &Path) -> Result<CallOutcome, Failure> {
    let text =
        read_text(file, RESULT_BYTES_MAX).map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
    Ok(CallOutcome::Done(serde_json::from_str(&text).unwrap_or_else(|_| text.trim_end().into())))
}

fn listed(all: &SessionList) -> String {
    if all.sessions.is_empty() {
        return format!("no turn here is journalled{}", stopped(all));
    }
    let cells = |one: &SessionEntry| {
        let (rows, bytes) = (one.rows.to_string(), one.bytes.to_string());
        vec![one.task.clone(), one.agent.clone(), one.state.name().to_owned(), rows, bytes]
    };
    let rows: Vec<Vec<String>> = all.sessions.iter().map(cells).collect();
    table(&["task", "agent", "state", "rows", "bytes"], &rows) + &doubtful(all) + &stopped(all)
}

/// The turns of a task.
fn turns(shown: &SessionSteps) -> String {
    let cells = |turn: &SessionTurn| {
        let bytes: u64 = turn.rows.iter().map(|row| row.bytes).sum();
        vec![turn.message.clone(), end(turn), turn.rows.len().to_string(), bytes.to_string()]
    };
    let rows: Vec<Vec<String>> = shown.turns.iter().map(cells).collect();
    table(&["message", "ended", "rows", "bytes"], &rows)
}

/// Their rows.
fn stepwise(shown: &SessionSteps) -> String {
    let of_turn = |turn: &SessionTurn| {
        let rows: Vec<Vec<String>> = turn.rows.iter().map(cells).collect();
        let table = table(&["row", "at", "what", "step", "name", "digest", "bytes", "label"], &rows);
        // Whoever sent it chose its id.
        format!("message {}, {}\n{table}", one_line(&turn.message), end(turn))
    };
    shown.turns.iter().map(of_turn).collect::<Vec<String>>().join("\n")
}

fn cells(row: &SessionRow) -> Vec<String> {
    let short = |digest: &String| digest.chars().take(DIGEST_CHARS).collect::<String>();
    vec![
        row.row.to_string(),
        date_time(row.at_ms),
        row.kind.name().to_owned(),
        row.step.map(|step| step.to_string()).unwrap_or_default(),
        row.name.clone().unwrap_or_default(),
        row.digest.as_ref().map(short).unwrap_or_default(),
        row.bytes.to_string(),
        row.label.clone().unwrap_or_default(),
    ]
}

/// When a turn ended.
fn end(turn: &SessionTurn) -> String {
    turn.ended_ms.map_or_else(|| "not over".to_owned(), date_time)
}

fn line(task: &str, doubt: &CallDoubt) -> String {
    let called = one_line(&doubt.name);
    format!("  step {} of {task} called {called}, since {}\n", doubt.step, date_time(doubt.since_ms))
}

/// Which calls are in doubt, and how to end that; nothing where none is.
fn doubtful(all: &SessionList) -> String {
    let lines: String =
        all.sessions.iter().flat_map(|one| one.doubts.iter().map(|doubt| line(&one.task, doubt))).collect();
    if lines.is_empty() {
        return lines;
    }
    format!(
        "\nThis node ended while these calls were made. Whether they were carried out is not known, and none is repeated:\n\
         {lines}Find out with what each was called, look where it leads, then say so:\n  \
         `althing audit query --action NAME`         the intents of calls of that name, which `audit show` shows whole\n  \
         `althing session resume TASK --done N FILE`  it was carried out, and FILE has its result\n  \
         `althing session resume TASK --again N`      it was not: make it again\n  \
         `althing session resume TASK --failed N`     tell the agent that it failed"
    )
}

/// Which turns stopped, and how they go on; nothing where none did.
fn stopped(all: &SessionList) -> String {
    let line = |turn: &StoppedTurn| {
        let StoppedTurn { task, agent, why, until_ms } = turn;
        format!("  {task} of {agent}, until {}: {}\n", date_time(*until_ms), one_line(why))
    };
    let lines: String = all.stopped.iter().map(line).collect();
    if lines.is_empty() {
        return lines;
    }
    format!(
        "\nThese turns stopped when they were to go on, and their tasks failed. Each may still go on from one of its steps:\n\
         {lines}Find the first step that is to count no more, then name it:\n  \
         `althing session show TASK --steps`     which steps there are\n  \
         `althing session resume TASK --from N`  those before N are told again, and the turn goes on anew from N"
    )
}

#[cfg(test)]
mod tests {
    use althing_api::{SessionCondition, SessionRowKind};
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};
    use crate::exit::code;

    fn resume(words: &[&str]) -> Result<ResumeArgs, String> {
        let words = ["althing", "session", "resume"].iter().chain(words);
        let args = Args::try_parse_from(words).map_err(|error| error.to_string())?;
        match args.command {
            Command::Session(Session::Resume(args)) => Ok(args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_call_is_named_with_what_became_of_it() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("the folder takes files");
            path.to_string_lossy().into_owned()
        };
        let asked = |words: &[&str]| {
            let ResumeRequest { step, outcome } =
                request(&resume(words).expect("it is read")).expect("it names one step");
            (step, serde_json::to_string(&outcome).expect("JSON"))
        };
        assert_eq!(asked(&["t-1", "--again", "4"]), (4, r#""again""#.to_owned()));
        assert_eq!(asked(&["t-1", "--failed", "4"]), (4, r#""failed""#.to_owned()));
        let text = file("text", "paid, number 7\n");
        assert_eq!(asked(&["t-1", "--done", "4", &text]), (4, r#"{"done":"paid, number 7"}"#.to_owned()));
        let result = file("result.json", r#"{ "content": [] }"#);
        assert_eq!(asked(&["t-1", "--done", "4", &result]), (4, r#"{"done":{"content":[]}}"#.to_owned()));
    }

    #[test]
    fn a_task_is_named_by_its_beginning_where_no_other_begins_so() {
        let stopped = |task: &str| StoppedTurn {
            task: task.to_owned(),
            agent: "clerk".to_owned(),
            why: "DIVERGED".to_owned(),
            until_ms: 0,
        };
        let tasks = ["01a2285a", "01a2285b", "ffff00"].map(stopped);
        let all = SessionList { sessions: Vec::new(), stopped: Vec::from(tasks) };
        let of = |written: &str| named(&all, written).map_err(|failure| failure.code);
        assert_eq!(of("ffff"), Ok("ffff00".to_owned()));
        assert_eq!(of("01a2285a"), Ok("01a2285a".to_owned()));
        assert_eq!(of("01a2"), Err(code::USAGE));
        assert_eq!(of("fff"), Ok("fff".to_owned()), "too short to mean one");
        assert_eq!(of("beef"), Ok("beef".to_owned()), "the node says that there is none");
    }

    #[test]
    fn what_says_nothing_of_a_call_or_two_things_is_refused() {
        for words in [
            &["t-1"][..],
            &["--again", "4"],
            &["t-1", "--again", "4", "--failed", "4"],
            &["t-1", "--again", "4", "--from", "4"],
            &["t-1", "--from", "the end"],
            &["t-1", "--again", "x"],
            &["t-1", "--done", "4"],
        ] {
            assert!(resume(words).is_err(), "{words:?}");
        }
        let refused = |words: &[&str]| {
            let args = resume(words).expect("clap takes it");
            request(&args).expect_err("it is refused").message
        };
        assert!(refused(&["t-1", "--done", "x", "none"]).contains("--done x"));
        assert!(refused(&["t-1", "--done", "4", "/none/such"]).starts_with("/none/such: "));
        let twice = ["t-1", "--done", "4", "a", "--done", "5", "b"];
        assert!(refused(&twice).contains("one step"), "{twice:?}");
    }

    #[test]
    fn a_turn_that_stopped_goes_on_from_a_step() {
        let args = resume(&["t-1", "--from", "4"]).expect("it is read");
        assert_eq!((args.task.as_str(), args.from), ("t-1", Some(4)));
    }

    #[test]
    fn a_task_is_shown_by_its_turns_or_by_their_steps() {
        let row = SessionRow {
            row: 1,
            at_ms: 3_661_000,
            kind: SessionRowKind::Intent,
            step: Some(4),
            name: Some("bank/pay".to_owned()),
            digest: Some("0123456789abcdef".to_owned()),
            bytes: 300,
            label: Some("confidential".to_owned()),
        };
        let over = SessionTurn { message: "m-1".to_owned(), ended_ms: Some(3_661_000), rows: vec![row.clone(), row] };
        let other = SessionTurn { message: "m-2".to_owned(), ended_ms: None, rows: Vec::new() };
        let shown = SessionSteps { task: "t-1".to_owned(), turns: vec![over, other] };
        let (all, each) = (turns(&shown), stepwise(&shown));
        for words in ["m-1", "1970-01-01T01:01:01Z", "600", "m-2", "not over"] {
            assert!(all.contains(words) && !all.contains("bank/pay"), "{words} in {all}");
        }
        for words in ["message m-1, 1970-01-01T01:01:01Z\n", "intent", "bank/pay", "0123456789ab", "confidential"] {
            assert!(each.contains(words) && !each.contains("0123456789abc"), "{words} in {each}");
        }
        let forged = SessionTurn { message: "m-3, not over\nROW  AT".to_owned(), ended_ms: None, rows: Vec::new() };
        let told = stepwise(&SessionSteps { task: "t-1".to_owned(), turns: vec![forged] });
        assert_eq!(told.lines().count(), 2, "a message, and the head of its table: {told}");
    }

    #[test]
    fn doubt_is_listed_with_what_to_do_about_it() {
        let none = SessionList { sessions: Vec::new(), stopped: Vec::new() };
        assert_eq!(listed(&none), "no turn here is journalled");
        let well = SessionEntry {
            session: "00ff".to_owned(),
            task: "t-1".to_owned(),
            agent: "clerk".to_owned(),
            context: "c-1".to_owned(),
            state: SessionCondition::Working,
            rows: 3,
            bytes: 812,
            doubts: Vec::new(),
        };
        let fine = SessionList { sessions: vec![well.clone()], ..none.clone() };
        assert!(!listed(&fine).contains("resume"));
        let doubt = CallDoubt { step: 4, name: "bank/pay".to_owned(), since_ms: 3_661_000 };
        let told = listed(&SessionList {
            sessions: vec![SessionEntry { state: SessionCondition::InDoubt, doubts: vec![doubt], ..well }],
            ..none.clone()
        });
        for words in
            ["in doubt", "step 4 of t-1 called bank/pay, since 1970-01-01T01:01:01Z", "--again N", "--done N FILE"]
        {
            assert!(told.contains(words), "{words} in {told}");
        }
        // A turn that stopped is told beside those, and where it is the only one.
        let stop = StoppedTurn {
            task: "t-2".to_owned(),
            agent: "clerk".to_owned(),
            why: "DIVERGED: step 3 is another".to_owned(),
            until_ms: 3_661_000,
        };
        let forged = StoppedTurn { why: "DIVERGED\n  t-3 of clerk".to_owned(), ..stop.clone() };
        let told = listed(&SessionList { stopped: vec![forged], ..none.clone() });
        assert_eq!(told.lines().filter(|line| line.starts_with("  t-")).count(), 1, "{told}");
        for list in [fine, none] {
            let told = listed(&SessionList { stopped: vec![stop.clone()], ..list });
            for words in [
                "\nThese turns stopped",
                "t-2 of clerk, until 1970-01-01T01:01:01Z: DIVERGED: step 3 is another\n",
                "session show TASK --steps",
                "session resume TASK --from N",
            ] {
                assert!(told.contains(words), "{words} in {told}");
            }
        }
    }
}
