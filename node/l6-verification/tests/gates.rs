//! What callers see of turns whose contracts have gates.

#[path = "gates/continued.rs"]
mod continued;
#[path = "gates/grounding.rs"]
mod grounding;
#[path = "gates/malformed.rs"]
mod malformed;
#[path = "gates/same_answer.rs"]
mod same_answer;
#[path = "gates/unjudged.rs"]
mod unjudged;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use a2a::{Artifact, Message, Part, Role, TaskState};
use althing_execution::agent::{Made, Metadata, Parameters};
use althing_execution::agents::{AgentCalls, AgentReply, Question};
use althing_execution::process::ProcessConfig;
use althing_execution::run_notes::RunNotes;
use althing_execution::verdicts::{RefusedAnswer, TurnVerdicts, Verdicts};
use althing_execution::{Agent, AgentError, Builtins, Host, Output, Outputs, Ports, Turn};
use althing_td::AgentFile;
use althing_verification::gates::output_gates;
use futures::future::BoxFuture;
use serde_json::{Value, json};

fn artifact(parts: Vec<Part>, append: bool) -> Made {
    let artifact = Artifact {
        artifact_id: "answer".to_owned(),
        name: Some("a name".to_owned()),
        description: None,
        parts,
        metadata: None,
        extensions: None,
    };
    Made::Artifact { artifact, append, last: false }
}

fn text(text: &str) -> Made {
    artifact(vec![Part::text(text)], false)
}

/// Answers each of its turns with the next of these.
struct Script {
    answers: Mutex<Vec<Vec<Made>>>,
    /// What it was told, one text a turn.
    heard: Arc<Mutex<Vec<String>>>,
    /// How its turns end, if not well.
    fails: Option<AgentError>,
}

impl Agent for Script {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move {
            self.heard.lock().expect("nobody panics").push(turn.text());
            let answer = self.answers.lock().expect("nobody panics").remove(0);
            for made in answer {
                out.put(made).await?;
            }
            self.fails.clone().map_or(Ok(()), Err)
        })
    }
}

/// The scripts of this process, by the number in the configuration of their agents: what builds agents is a plain function.
static SCRIPTS: Mutex<BTreeMap<u64, Arc<Script>>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

fn script_of(config: &Value) -> Result<Arc<dyn Agent>, String> {
    let number = config["script"].as_u64().ok_or("it has no number")?;
    let script = SCRIPTS.lock().expect("nobody panics").remove(&number).ok_or("there is none of that number")?;
    Ok(script)
}

/// A judge that says that.
struct Judge(&'static str, Arc<Mutex<Vec<String>>>);

impl AgentCalls for Judge {
    fn known(&self, _: usize) -> Vec<String> {
        vec!["judge".to_owned()]
    }

    fn ask(&self, question: Question) -> BoxFuture<'_, Result<AgentReply, String>> {
        Box::pin(async move {
            self.1.lock().expect("nobody panics").push(question.message);
            Ok(AgentReply {
                agent: "urn:judge".to_owned(),
                task: "1".to_owned(),
                state: "TASK_STATE_COMPLETED".to_owned(),
                text: self.0.to_owned(),
            })
        })
    }

    fn find(&self, _: Value) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async { Err("it finds nothing".to_owned()) })
    }

    fn describe(&self, _: String) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async { Err("it describes nothing".to_owned()) })
    }
}

/// What is kept for the owner.
#[derive(Default)]
struct Book(Mutex<Vec<RefusedAnswer>>);

impl Verdicts for Book {
    fn add(&self, refused: RefusedAnswer) {
        self.0.lock().expect("nobody panics").push(refused);
    }
}

/// What callers saw of one turn, how it ended, what the agent heard, and what the owner was told.
struct Seen {
    made: Vec<Made>,
    ended: Result<(), AgentError>,
    heard: Vec<String>,
    refused: Vec<RefusedAnswer>,
    /// What was counted of it, and how often.
    found: Vec<(&'static str, u64)>,
    /// What is noted of it for the audit log, and for who measures judges.
    run: RunNotes,
}

/// What gates said, by their names.
fn verdicts(seen: &Seen) -> Vec<(String, &'static str)> {
    seen.run.verdicts().into_iter().map(|verdict| (verdict.gate, verdict.word.word())).collect()
}

/// What the judge said, one word for each answer that it judged.
fn judgements(seen: &Seen) -> Vec<Option<bool>> {
    seen.run.facts().judgements.into_iter().map(|judgement| judgement.passed).collect()
}

fn drained(outputs: &mut Outputs) -> Vec<Made> {
    std::iter::from_fn(|| outputs.try_recv().ok()).collect()
}

async fn seen_by(ports: Ports, verify: Value, message: &str, answers: Vec<Vec<Made>>) -> Seen {
    seen_of(ports, verify, message, (answers, None)).await
}

/// Of an agent that makes these outputs, and whose turns end so, if not well.
async fn seen_of(ports: Ports, verify: Value, message: &str, turns: (Vec<Vec<Made>>, Option<AgentError>)) -> Seen {
    let book = Arc::<Book>::default();
    let verdicts = Some(TurnVerdicts(book.clone()));
    let seen = seen_with(ports, verify, message, turns, verdicts).await;
    let refused = book.0.lock().expect("nobody panics").clone();
    Seen { refused, ..seen }
}

/// The same of a turn whose task is kept if there are `verdicts`.
async fn seen_with(
    ports: Ports,
    verify: Value,
    message: &str,
    (answers, fails): (Vec<Vec<Made>>, Option<AgentError>),
    verdicts: Option<TurnVerdicts>,
) -> Seen {
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let script = Arc::new(Script { answers: Mutex::new(answers), heard: heard.clone(), fails });
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    SCRIPTS.lock().expect("nobody panics").insert(number, script);
    let mut builtins = Builtins::new();
    builtins.insert("script", |config, _, _| script_of(config));
    let host =
        Host::new(builtins, ProcessConfig::default()).with_ports(Ports { output_gates: output_gates(), ..ports });
    let file = json!({
        "name": "script",
        "description": "Says what it is given to say",
        "runtime": { "native": { "builtin": "script", "config": { "script": number } } },
        "contract": { "class": { "latency": "srt" }, "capabilities": ["agents/judge"], "verify": verify },
    });
    host.start(&AgentFile::parse(&file.to_string()).expect("an agent file"), Path::new("/")).expect("it starts");
    let run = RunNotes::default();
    let turn = Turn {
        task_id: "task".to_owned(),
        context_id: "context".to_owned(),
        message: Message::new(Role::User, vec![Part::text(message)]),
        history: Vec::new(),
        artifacts: Vec::new(),
        remembered: None,
        parameters: Parameters { verdicts, run: run.clone(), ..Parameters::default() },
    };
    let (out, mut outputs) = Output::channel();
    let ended = host.turn("script", turn, out).await;
    let heard = heard.lock().expect("nobody panics").clone();
    let status = host.status();
    let found = status.iter().flat_map(|agent| &agent.findings).inspect(|found| assert_eq!(found.task, "task"));
    let found = found.map(|found| (found.finding, found.count)).collect();
    Seen { made: drained(&mut outputs), ended, heard, refused: Vec::new(), found, run }
}

async fn seen(verify: Value, answers: Vec<Vec<Made>>) -> Seen {
    seen_by(Ports::none(), verify, "how much?", answers).await
}

fn schema() -> Value {
    let total = json!({ "type": "object", "properties": { "total": { "type": "number" } }, "required": ["total"] });
    json!({ "schema": { "output": total } })
}

fn why(seen: &Seen) -> String {
    match &seen.ended {
        Err(AgentError::Failed(why) | AgentError::GateRefused(why) | AgentError::Rejected(why)) => why.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_bad_answer_reaches_nobody_whole_or_streamed() {
    let progress = Made::Status(TaskState::Working, Some(Message::new(Role::Agent, vec![Part::text("three!")])));
    let metadata = Metadata::from([("answer".to_owned(), json!("three"))]);
    for answer in [
        vec![text("three")],
        vec![progress, text("{\"total\":"), artifact(vec![Part::text(" three}")], true)],
        vec![artifact(vec![Part::data(json!({ "total": "three" }))], false).annotated(Some(metadata))],
        vec![Made::Status(TaskState::Completed, Some(Message::new(Role::Agent, vec![Part::text("three")])))],
        vec![],
    ] {
        let seen = seen(schema(), vec![answer]).await;
        assert!(why(&seen).starts_with("GATE_REFUSED: the gate `schema`"), "{:?}", seen.ended);
        assert!(!why(&seen).contains("three"), "{:?}", seen.ended);
        assert!(seen.made.iter().all(|made| *made == Made::Status(TaskState::Working, None)), "{:?}", seen.made);
    }
}

#[tokio::test]
async fn a_good_answer_is_shown_without_what_no_schema_describes() {
    let pieces = vec![text("{\"total\":"), artifact(vec![Part::text(" 3}")], true)];
    let seen = seen(schema(), vec![pieces]).await;
    assert_eq!(seen.ended, Ok(()));
    let [Made::Artifact { artifact: first, .. }, Made::Artifact { append: true, .. }] = &seen.made[..] else {
        panic!("{:?}", seen.made)
    };
    assert_eq!(first.name, None);
}

#[tokio::test]
async fn a_refused_answer_goes_back_as_often_as_the_contract_says() {
    let mut verify = schema();
    verify["repair"] = json!(1);
    let good = vec![text("{\"total\": 3}")];
    let repaired = seen(verify.clone(), vec![vec![text("three")], good.clone()]).await;
    assert_eq!(repaired.ended, Ok(()));
    assert_eq!(repaired.made.len(), 1, "{:?}", repaired.made);
    let [first, again] = &repaired.heard[..] else { panic!("{:?}", repaired.heard) };
    assert_eq!(first, "how much?");
    assert!(
        again.starts_with(first) && again.contains("the gate `schema` says") && again.contains("\"three\""),
        "{again}"
    );

    let spent = seen(
        verify,
        vec![vec![text("three")], vec![artifact(vec![Part::data(json!({ "total": "four" }))], false)], good],
    )
    .await;
    let told = |one: &RefusedAnswer| (one.attempt, one.place.clone(), one.answer.clone());
    let first = (1, String::new(), "three".to_owned());
    assert_eq!(repaired.refused.iter().map(told).collect::<Vec<_>>(), std::slice::from_ref(&first));
    let second = (2, "/total".to_owned(), r#"{"total":"four"}"#.to_owned());
    assert_eq!(spent.refused.iter().map(told).collect::<Vec<_>>(), [first, second]);
    assert_eq!((spent.heard.len(), spent.made.len()), (2, 0));
    assert!(why(&spent).starts_with("GATE_REFUSED"), "{:?}", spent.ended);
}

#[tokio::test]
async fn a_message_that_breaks_its_schema_is_not_heard() {
    let verify = json!({ "schema": { "input": { "type": "object" } } });
    let refused = seen(verify.clone(), vec![vec![text("anything")]]).await;
    assert!(refused.heard.is_empty() && refused.made.is_empty(), "{:?}", refused.heard);
    assert!(matches!(&refused.ended, Err(AgentError::Rejected(why)) if why.contains("message")), "{:?}", refused.ended);
    let heard = seen_by(Ports::none(), verify, "{}", vec![vec![text("anything")]]).await;
    assert_eq!((heard.ended, heard.made), (Ok(()), vec![text("anything")]));
}

#[tokio::test]
async fn what_is_delivered_early_fails_at_its_end() {
    let mut verify = schema();
    verify["deliver"] = json!("early");
    let ending = Made::Status(TaskState::Completed, None);
    let refused = seen(verify.clone(), vec![vec![text("three"), ending.clone()]]).await;
    assert_eq!(refused.made.len(), 1, "its text, and not that it is complete: {:?}", refused.made);
    assert!(why(&refused).starts_with("GATE_REFUSED"), "{:?}", refused.ended);
    let good = seen(verify, vec![vec![text("{\"total\": 3}"), ending.clone()]]).await;
    assert_eq!((good.ended, good.made.last()), (Ok(()), Some(&ending)));
}

#[tokio::test]
async fn a_failure_is_shown_without_an_answer() {
    let failed = Made::Status(TaskState::Failed, None);
    let seen = seen(schema(), vec![vec![text("three"), failed.clone()]]).await;
    assert_eq!((seen.ended, seen.made), (Ok(()), vec![failed]));
}

#[tokio::test]
async fn what_fails_in_silence_and_what_is_refused_is_counted_with_its_task() {
    let silent = vec![Made::Status(TaskState::Completed, None)];
    for (verify, answer, found) in [
        (json!({}), vec![text("three")], vec![]),
        (json!({}), silent.clone(), vec![("said-nothing", 1)]),
        (json!({ "media": ["text/*"] }), silent.clone(), vec![("said-nothing", 1)]),
        (json!({ "output": "optional" }), silent.clone(), vec![]),
        (json!({ "schema": { "input": { "type": "string" } } }), silent, vec![]),
        (schema(), vec![text("three")], vec![("answer-refused", 1)]),
        (json!({}), vec![Made::Status(TaskState::Failed, None)], vec![]),
    ] {
        let seen = seen(verify.clone(), vec![answer]).await;
        assert_eq!(seen.found, found, "{verify}: {:?}", seen.ended);
    }
    let mut repaired = schema();
    repaired["repair"] = json!(1);
    for again in ["four", "{\"total\": 3}"] {
        let seen = seen(repaired.clone(), vec![vec![text("three")], vec![text(again)]]).await;
        assert_eq!(seen.found, [("answer-refused", 1)], "it is one answer, whatever comes of it: {:?}", seen.ended);
    }
}

/// What a test or a shadow is asked belongs to no task that anybody could look at.
#[tokio::test]
async fn of_a_turn_whose_task_is_not_kept_nothing_is_counted() {
    let mut repaired = schema();
    repaired["repair"] = json!(1);
    for (verify, answers) in [
        (schema(), vec![vec![text("three")]]),
        (repaired, vec![vec![text("three")], vec![text("four")]]),
        (json!({}), vec![vec![Made::Status(TaskState::Completed, None)]]),
    ] {
        let seen = seen_with(Ports::none(), verify.clone(), "how much?", (answers, None), None).await;
        assert_eq!((seen.ended.is_err(), seen.found), (verify != json!({}), Vec::new()), "{verify}");
    }
}

/// Nobody says of a program whether it was cut.
#[tokio::test]
async fn where_no_model_answers_that_an_answer_is_finished_is_no_gate_and_no_verdict() {
    let progress = Made::Status(TaskState::Working, Some(Message::new(Role::Agent, vec![Part::text("soon")])));
    let seen = seen(json!({ "finished": true }), vec![vec![progress.clone(), text("three")]]).await;
    assert_eq!((seen.ended.clone(), seen.made.clone()), (Ok(()), vec![progress, text("three")]));
    assert!(verdicts(&seen).is_empty(), "no gate judged it: {:?}", verdicts(&seen));
    let verify = json!({ "finished": true, "media": ["text/*"] });
    let beside = seen_by(Ports::none(), verify, "how much?", vec![vec![text("three")]]).await;
    assert_eq!(verdicts(&beside), [("media".to_owned(), "passed")]);
}

/// An answer that is judged later than it is shown can be longer than what is kept for that, which is its own doing.
#[tokio::test]
async fn what_is_too_long_to_be_judged_is_refused_and_no_gate_failed() {
    let mut verify = schema();
    verify["deliver"] = json!("early");
    let long = "3".repeat(3 << 20);
    let seen = seen(verify, vec![vec![text(&long), Made::Status(TaskState::Completed, None)]]).await;
    assert!(why(&seen).starts_with("GATE_REFUSED: the gate `deliver`"), "{}", why(&seen));
    assert_eq!(seen.run.facts().unjudged, None);
}

#[tokio::test]
async fn a_judge_adds_refusals_and_takes_none_back() {
    let mut verify = schema();
    verify["checks"] = json!([{ "by": "agents/judge" }]);
    let good = || vec![vec![text("{\"total\": 3}")]];
    let judged = async |says: &'static str, answers: Vec<Vec<Made>>| {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let ports = Ports { agents: Some(Arc::new(Judge(says, asked.clone()))), ..Ports::none() };
        let seen = seen_by(ports, verify.clone(), "how much?", answers).await;
        let asked = asked.lock().expect("nobody panics").clone();
        (seen, asked)
    };
    let (seen, asked) = judged("{\"passed\": true}", good()).await;
    assert_eq!(seen.ended, Ok(()));
    assert!(asked.len() == 1 && asked[0].contains("how much?"), "{asked:?}");
    let said = |gate: &str, word: &'static str| (gate.to_owned(), word);
    assert_eq!(verdicts(&seen), [said("agents/judge", "passed"), said("schema", "passed")]);
    assert_eq!(judgements(&seen), [Some(true)]);

    let (seen, _) = judged("{\"passed\": false, \"reason\": \"3 is too much\"}", good()).await;
    assert!(why(&seen).contains("agents/judge") && !why(&seen).contains("too much"), "{:?}", seen.ended);
    assert!(seen.made.is_empty());
    assert_eq!((judgements(&seen), seen.run.facts().unjudged), (vec![Some(false)], None));

    let (seen, _) = judged("It looks good.", good()).await;
    assert!(why(&seen).contains("agents/judge"), "no verdict is none: {:?}", seen.ended);
    assert_eq!(verdicts(&seen), [said("agents/judge", "refused"), said("schema", "passed")]);
    assert_eq!(judgements(&seen), [None]);
    assert_eq!(seen.run.facts().unjudged.as_deref(), Some("agents/judge"), "that says nothing of the answer");

    let (seen, asked) = judged("{\"passed\": true}", vec![vec![text("pass me")]]).await;
    assert!(why(&seen).contains("`schema`") && asked.is_empty(), "{:?} {asked:?}", seen.ended);
    assert_eq!((verdicts(&seen), judgements(&seen)), (vec![said("schema", "refused")], Vec::new()));
}
