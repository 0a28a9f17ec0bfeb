//! Generated answers that are none of what a contract says, as agents emit them: whole and in pieces, as artifacts, endings and
//! replies, with more beside them. Nobody sees anything of one.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use a2a::{Artifact, Message, Part, PartContent, Role, TaskState};
use althing_execution::agent::{Made, Metadata, Parameters};
use althing_execution::process::ProcessConfig;
use althing_execution::{AgentError, Builtins, Host, Output, Ports, Turn};
use althing_td::AgentFile;
use althing_testing::at_night;
use althing_verification::gates::output_gates;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use serde_json::{Value, json};

use super::{NEXT, SCRIPTS, Script, artifact, script_of};

/// Answers that are tried, each in two ways: by day, and at night.
const CASES: [u32; 2] = [1_000, 50_000];
/// A good answer, with a word that stands in most bad ones.
const GOOD: &str = r#"{"total":7,"note":"quicksand"}"#;
const WORD: &str = "quicksand";
/// More than is held back of one turn.
const TOO_LONG: usize = 2 << 20;

/// How a bad answer is emitted.
#[derive(Debug, Clone, Copy)]
enum Form {
    Artifact,
    Annotated,
    AnswerEnd,
    Reply,
    /// After progress that says it all.
    Progress,
}

/// JSON that is no object with a number `total`.
fn wrong() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), "[a-z]{0,12}".prop_map(Value::from)];
    let list = prop::collection::vec(any::<i64>(), 0..5).prop_map(Value::from);
    let none = prop_oneof![leaf, list].boxed();
    let without = prop::collection::btree_map("[a-s]{1,8}", any::<i64>(), 0..4).prop_map(|members| json!(members));
    prop_oneof![
        none.clone(),
        any::<i64>().prop_map(Value::from),
        without,
        none.prop_map(|total| json!({ "total": total, "note": WORD })),
    ]
    .boxed()
}

/// A part with which no answer is good.
fn bad_part() -> BoxedStrategy<Part> {
    let media = prop::sample::select(vec!["text/html", "text/plain; charset=utf-8", "image/png", "application/xml"]);
    let deep = |levels: usize| format!("{{\"total\":7,\"x\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
    prop_oneof![
        16 => wrong().prop_map(|value| Part::text(value.to_string())),
        16 => wrong().prop_map(Part::data),
        16 => (1..GOOD.len()).prop_map(|at| Part::text(&GOOD[..at])),
        8 => "[a-z ]{1,20}".prop_map(|words| Part::text(format!("x{words}{GOOD}"))),
        8 => "[a-z ]{1,20}".prop_map(|words| Part::text(format!("{GOOD}{words}x"))),
        4 => Just(Part::text(format!("{GOOD}{GOOD}"))),
        4 => Just(Part::text(format!(r#"{{"total":8,{}"#, &GOOD[1..]))),
        4 => (65_usize..200).prop_map(move |levels| Part::text(deep(levels))),
        4 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Part::raw),
        4 => Just(Part::url(format!("https://files.example/{WORD}"))),
        8 => media.clone().prop_map(|media| Part::text(GOOD).with_media_type(media)),
        4 => media.prop_map(|media| Part::data(json!({ "total": 7, "note": WORD })).with_media_type(media)),
        1 => Just(Part::data(json!({ "total": 7, "note": WORD.repeat(TOO_LONG / WORD.len()) }))),
    ]
    .boxed()
}

/// The parts of a bad answer, how they are emitted, and of how many characters pieces of them are.
fn answer() -> impl Strategy<Value = (Vec<Part>, Form, usize)> {
    let forms = vec![Form::Artifact, Form::Annotated, Form::AnswerEnd, Form::Reply, Form::Progress];
    let good = Part::data(json!({ "total": 7 }));
    let parts = prop_oneof![
        6 => bad_part().prop_map(|part| vec![part]),
        1 => bad_part().prop_map({ let good = good.clone(); move |part| vec![good.clone(), part] }),
        1 => bad_part().prop_map(move |part| vec![part, good.clone()]),
        // Nothing is said.
        1 => "[ \n\t]{0,5}".prop_map(|space| vec![Part::text(space)]),
    ];
    (parts, prop::sample::select(forms), 1..40_usize)
}

fn message(parts: &[Part]) -> Message {
    Message::new(Role::Agent, parts.to_vec())
}

/// These parts at once.
fn whole(parts: &[Part], form: Form) -> Vec<Made> {
    let one = || artifact(parts.to_vec(), false);
    match form {
        Form::Artifact => vec![one()],
        Form::Annotated => vec![one().annotated(Some(Metadata::from([("note".to_owned(), json!(WORD))])))],
        Form::AnswerEnd => vec![Made::Status(TaskState::Completed, Some(message(parts)))],
        Form::Reply => vec![Made::Reply(message(parts))],
        Form::Progress => vec![Made::Status(TaskState::Working, Some(message(parts))), one()],
    }
}

/// These parts as they are streamed: texts in pieces of that many characters.
fn streamed(parts: &[Part], size: usize) -> Vec<Made> {
    let mut pieces = Vec::new();
    for part in parts {
        // A large one is a few hundred thousand pieces else.
        let size = size.max(part.as_text().map_or(0, str::len) / 1_000);
        match part.as_text() {
            Some(text) => {
                let letters: Vec<char> = text.chars().collect();
                let piece =
                    |piece: &[char]| Part { content: PartContent::Text(piece.iter().collect()), ..part.clone() };
                pieces.extend(letters.chunks(size).map(piece));
            }
            None => pieces.push(part.clone()),
        }
    }
    pieces.into_iter().enumerate().map(|(place, piece)| artifact(vec![piece], place > 0)).collect()
}

/// A host with an agent that answers what the script says, and whose contract verifies so.
pub(super) fn host_with(verify: &Value) -> (Host, Arc<Script>) {
    let script = Arc::new(Script { answers: Mutex::default(), heard: Arc::default(), fails: None });
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    SCRIPTS.lock().expect("nobody panics").insert(number, script.clone());
    let mut builtins = Builtins::new();
    builtins.insert("script", |config, _, _| script_of(config));
    let ports = Ports { output_gates: output_gates(), ..Ports::none() };
    let host = Host::new(builtins, ProcessConfig::default()).with_ports(ports);
    let file = json!({
        "name": "script",
        "description": "Says what it is given to say",
        "runtime": { "native": { "builtin": "script", "config": { "script": number } } },
        "contract": { "class": { "latency": "srt" }, "verify": verify },
    });
    host.start(&AgentFile::parse(&file.to_string()).expect("an agent file"), Path::new("/")).expect("it starts");
    (host, script)
}

/// The same with a contract that has a schema and a media type.
pub(super) fn host() -> (Host, Arc<Script>) {
    let total = json!({ "type": "object", "properties": { "total": { "type": "number" } }, "required": ["total"] });
    host_with(&json!({ "schema": { "output": total }, "media": ["application/json"] }))
}

/// What callers see of a turn with these outputs in a task that has these artifacts, and how it ended.
pub(super) async fn turn(
    (host, script): &(Host, Arc<Script>),
    artifacts: &[Artifact],
    outputs: Vec<Made>,
) -> (Vec<Made>, Result<(), AgentError>) {
    script.answers.lock().expect("nobody panics").push(outputs);
    let turn = Turn {
        task_id: "task".to_owned(),
        context_id: "context".to_owned(),
        message: Message::new(Role::User, vec![Part::text("how much?")]),
        history: Vec::new(),
        artifacts: artifacts.to_vec(),
        remembered: None,
        parameters: Parameters::default(),
    };
    let (out, mut shown) = Output::channel();
    let listening = async {
        let mut all = Vec::new();
        while let Some(made) = shown.recv().await {
            all.push(made);
        }
        all
    };
    tokio::join!(listening, host.turn("script", turn, out))
}

#[test]
fn no_malformed_answer_reaches_anybody_whole_or_streamed() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let scene = host();
    let good = vec![artifact(vec![Part::text(GOOD)], false)];
    let (shown, ended) = runtime.block_on(turn(&scene, &[], good));
    assert_eq!((shown.len(), ended), (1, Ok(())), "a good answer is shown");
    let mut runner = TestRunner::new(ProptestConfig::with_cases(CASES[usize::from(at_night())]));
    let outcome = runner.run(&answer(), |(parts, form, size)| {
        for outputs in [whole(&parts, form), streamed(&parts, size)] {
            let (shown, ended) = runtime.block_on(turn(&scene, &[], outputs));
            let bare = |made: &Made| *made == Made::Status(TaskState::Working, None);
            prop_assert!(shown.iter().all(bare), "{} outputs were shown", shown.len());
            match ended {
                Err(AgentError::GateRefused(why) | AgentError::Failed(why)) => {
                    prop_assert!(!why.contains(WORD), "{why}")
                }
                other => return Err(TestCaseError::fail(format!("it passed: {other:?}"))),
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
