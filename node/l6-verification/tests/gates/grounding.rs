//! Answers that must cite what is kept.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use a2a::{Message, Part, PartContent, Role, TaskState};
use althing_execution::agent::{Made, Metadata, Parameters, UNWORDED_FAILURE};
use althing_execution::evaluation::EVALUATIONS;
use althing_execution::memory::{MEMORY, Memories};
use althing_execution::process::ProcessConfig;
use althing_execution::run_notes::RunNotes;
use althing_execution::verdicts::{RefusedAnswer, TurnVerdicts};
use althing_execution::{Builtins, Host, Output, Ports, Turn};
use althing_store::MemoryStore;
use althing_td::AgentFile;
use althing_verification::gates::output_gates;
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};

use super::{Book, Judge, NEXT, SCRIPTS, Script, Seen, drained, script_of, text, verdicts, why};

const ENDING: Made = Made::Status(TaskState::Completed, None);
/// What nobody kept.
const UNKNOWN: &str = "[#000000000000]";

/// An agent whose answers must cite, and the mark of a passage that it keeps.
struct Clerk {
    host: Host,
    script: Arc<Script>,
    mark: String,
}

impl Clerk {
    async fn new(verify: Value) -> Clerk {
        Clerk::with(Ports::none(), verify).await
    }

    async fn with(ports: Ports, verify: Value) -> Clerk {
        let now_ms = AtomicU64::new(1_000);
        let memories = Arc::new(Memories::new(
            Arc::new(MemoryStore::new(&[MEMORY])),
            // Later with each look at it.
            Arc::new(move || now_ms.fetch_add(1, Ordering::SeqCst)),
            Arc::new(|bytes: &mut [u8]| bytes.fill(7)),
            Arc::new(|_: &str| Ok(None)),
        ));
        let script = Arc::new(Script { answers: Mutex::default(), heard: Arc::default(), fails: None });
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        SCRIPTS.lock().expect("nobody panics").insert(number, script.clone());
        let mut builtins = Builtins::new();
        builtins.insert("script", |config, _, _| script_of(config));
        let ports = Ports { output_gates: output_gates(), memories: Some(memories.clone()), ..ports };
        let host = Host::new(builtins, ProcessConfig::default()).with_ports(ports);
        let file = json!({
            "name": "clerk",
            "description": "Says what it is given to say",
            "runtime": { "native": { "builtin": "script", "config": { "script": number } } },
            "contract": {
                "class": { "latency": "srt" },
                "capabilities": ["agents/judge"],
                "memory": { "require_grounding": true },
                "verify": verify,
            },
        });
        host.start(&AgentFile::parse(&file.to_string()).expect("an agent file"), Path::new("/")).expect("it starts");
        let memory = memories.operate("clerk").expect("opened");
        memory.remember("rules.txt", "A dog costs ninety euro of tax in a year.").await.expect("kept");
        let id = memory.recall("dog", 1).await.expect("recalled").remove(0).id;
        Clerk { host, script, mark: format!("[#{id}]") }
    }

    /// What comes of a turn with these answers, one for each time that it is asked.
    async fn seen(&self, answers: Vec<Vec<Made>>) -> Seen {
        *self.script.answers.lock().expect("nobody panics") = answers;
        let (book, run) = (Arc::<Book>::default(), RunNotes::default());
        let verdicts = Some(TurnVerdicts(book.clone()));
        let turn = Turn {
            task_id: "task".to_owned(),
            context_id: "context".to_owned(),
            message: Message::new(Role::User, vec![Part::text("how much?")]),
            history: vec![Message::new(Role::User, vec![Part::text("earlier")])],
            artifacts: Vec::new(),
            remembered: None,
            parameters: Parameters { verdicts, run: run.clone(), ..Parameters::default() },
        };
        let (out, mut outputs) = Output::channel();
        let ended = self.host.turn("clerk", turn, out).await;
        let heard = std::mem::take(&mut *self.script.heard.lock().expect("nobody panics"));
        let status = self.host.status();
        let found = status.iter().flat_map(|agent| &agent.findings).map(|found| (found.finding, found.count));
        let refused = book.0.lock().expect("nobody panics").clone();
        Seen { made: drained(&mut outputs), ended, heard, refused, found: found.collect(), run }
    }
}

fn says(words: &str) -> Message {
    Message::new(Role::Agent, vec![Part::text(words)])
}

/// What the owner is told of a refused answer.
fn told(refused: &[RefusedAnswer]) -> Vec<(u64, &str, &str, &str)> {
    refused.iter().map(|one| (one.attempt, one.gate.as_str(), one.place.as_str(), one.answer.as_str())).collect()
}

/// What is traced of verdicts: the gate and the label of each.
#[derive(Clone, Default)]
struct Evaluations(Arc<Mutex<Vec<(String, String)>>>);

/// The fields of one verdict.
#[derive(Default)]
struct Fields {
    gate: String,
    label: String,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "gen_ai.evaluation.name" => self.gate = value.to_owned(),
            "gen_ai.evaluation.score.label" => self.label = value.to_owned(),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

impl Subscriber for Evaluations {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == EVALUATIONS
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.0.lock().expect("nobody panics").push((fields.gate, fields.label));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn an_answer_is_shown_with_its_citations_or_not_at_all() {
    let clerk = Clerk::new(json!({})).await;
    let cited = format!("ninety euro {}", clerk.mark);
    let seen = clerk.seen(vec![vec![text(&cited), ENDING]]).await;
    assert_eq!((&seen.ended, &seen.refused), (&Ok(()), &Vec::new()));
    let [Made::Artifact { artifact, .. }, Made::Artifact { artifact: beside, .. }, end] = &seen.made[..] else {
        panic!("{:?}", seen.made)
    };
    assert_eq!((artifact.parts[0].as_text(), artifact.name.as_deref(), end), (Some(cited.as_str()), None, &ENDING));
    let PartContent::Data(citations) = &beside.parts[0].content else { panic!("{beside:?}") };
    let id = citations["citations"][0]["id"].as_str().expect("an id");
    assert_eq!((beside.artifact_id.as_str(), format!("[#{id}]")), ("citations-2", clerk.mark.clone()));

    let seen = clerk.seen(vec![vec![text("ninety euro"), ENDING]]).await;
    assert!(why(&seen).starts_with("GATE_REFUSED: the gate `grounding`"), "{:?}", seen.ended);
    assert!(why(&seen).contains("not grounded") && seen.made.is_empty(), "{:?} {:?}", seen.ended, seen.made);
    // It is not asked again, and its owner is told what was refused.
    assert_eq!((seen.heard.len(), told(&seen.refused)), (1, vec![(1, "grounding", "", "ninety euro")]));
    assert_eq!((verdicts(&seen), seen.found), (vec![("grounding".to_owned(), "refused")], vec![("answer-refused", 1)]));
}

#[tokio::test]
async fn an_answer_that_cites_nothing_is_not_shown_since_one_that_cites_takes_its_place() {
    let clerk = Clerk::new(json!({})).await;
    let cited = format!("ninety euro {}", clerk.mark);
    for answer in [vec![text("a lie"), text(&cited)], vec![text(&cited), text("a lie")]] {
        let seen = clerk.seen(vec![answer]).await;
        assert!(why(&seen).contains("cites nothing") && seen.made.is_empty(), "{:?} {:?}", seen.ended, seen.made);
    }
}

#[tokio::test]
async fn an_answer_that_is_not_grounded_goes_back_as_often_as_the_contract_says() {
    let clerk = Clerk::new(json!({ "repair": 2, "media": ["text/*"] })).await;
    let (cited, unknown) = (format!("ninety euro {}", clerk.mark), format!("ninety {UNKNOWN}"));
    let answers = ["ninety euro", unknown.as_str(), cited.as_str()].map(|words| vec![text(words), ENDING]);
    let seen = clerk.seen(Vec::from(answers)).await;
    assert_eq!((&seen.ended, seen.made.len()), (&Ok(()), 3), "the answer, its citations and its end: {:?}", seen.made);
    let [first, second, third] = &seen.heard[..] else { panic!("{:?}", seen.heard) };
    assert_eq!(first, "how much?");
    for (heard, told) in [(second, "cites nothing"), (third, UNKNOWN)] {
        assert!(heard.starts_with(first) && heard.contains("the gate `grounding` says"), "{heard}");
        assert!(heard.contains(told), "{heard}");
    }
    let refused = vec![(1, "grounding", "", "ninety euro"), (2, "grounding", UNKNOWN, unknown.as_str())];
    assert_eq!(told(&seen.refused), refused);
    let said = |gate: &str, word: &'static str| (gate.to_owned(), word);
    assert_eq!(verdicts(&seen), [said("grounding", "passed"), said("grounding", "refused"), said("media", "passed")]);
    assert_eq!(seen.found, [("answer-refused", 1)], "it is one answer");

    let spent = clerk.seen(vec![vec![text("ninety euro")]; 3]).await;
    assert!(why(&spent).starts_with("GATE_REFUSED: the gate `grounding`"), "{:?}", spent.ended);
    assert_eq!((spent.heard.len(), spent.refused.len(), spent.made.len()), (3, 3, 0));
}

#[tokio::test]
async fn a_verdict_is_told_once_the_last_gate_has_spoken() {
    let (told, asked) = (Evaluations::default(), Arc::<Mutex<Vec<String>>>::default());
    // While there is one subscriber alone, whether an event is wanted is asked of the thread that comes first, which may be that of
    // another test: it has none.
    let _second = tracing::Dispatch::new(Evaluations::default());
    let _guard = tracing::subscriber::set_default(told.clone());
    let ports = Ports { agents: Some(Arc::new(Judge("{\"passed\": true}", asked.clone()))), ..Ports::none() };
    let verify = json!({ "media": ["text/*"], "checks": [{ "by": "agents/judge" }], "repair": 1 });
    let clerk = Clerk::with(ports, verify).await;
    let answers = vec![vec![text("ninety euro")], vec![text(&format!("ninety euro {}", clerk.mark))]];
    let seen = clerk.seen(answers).await;
    assert_eq!(seen.ended, Ok(()));
    let said = |gate: &str, label: &str| (gate.to_owned(), label.to_owned());
    let told = told.0.lock().expect("nobody panics").clone();
    assert_eq!(told, [said("grounding", "fail"), said("verify", "pass")], "no refused answer passed");
    let asked = asked.lock().expect("nobody panics");
    assert_eq!(asked.len(), 1, "no agent judges what a rule refuses: {asked:?}");
}

#[tokio::test]
async fn what_cites_nothing_is_shown_neither_before_an_answer_nor_beside_it() {
    const WORD: &str = "quicksand";
    let metadata = || Some(Metadata::from([("answer".to_owned(), json!(WORD))]));
    for verify in [json!({}), json!({ "deliver": "early" })] {
        let clerk = Clerk::new(verify.clone()).await;
        let begun = Made::Begun { state: TaskState::Working, metadata: metadata() };
        let progress = Made::Status(TaskState::Working, Some(says(WORD))).annotated(metadata());
        let cited = text(&format!("ninety euro {}", clerk.mark)).annotated(metadata());
        let seen = clerk.seen(vec![vec![begun, progress, cited, ENDING]]).await;
        assert_eq!((&seen.ended, seen.made.last()), (&Ok(()), Some(&ENDING)), "{verify}");
        assert!(!format!("{:?}", seen.made).contains(WORD), "{verify}: {:?}", seen.made);
        // An answer is held back as a whole.
        let seen = clerk.seen(vec![vec![text(WORD), ENDING]]).await;
        assert!(seen.ended.is_err() && seen.made.is_empty(), "{verify}: {:?}", seen.made);
        // Nor is it shown since the turn fails.
        let failed = Made::Status(TaskState::Failed, Some(says(WORD)));
        let seen = clerk.seen(vec![vec![text(WORD), failed]]).await;
        let [Made::Status(TaskState::Failed, Some(shown))] = &seen.made[..] else { panic!("{:?}", seen.made) };
        assert_eq!((&seen.ended, shown.text()), (&Ok(()), Some(UNWORDED_FAILURE)), "{verify}");
    }
}
