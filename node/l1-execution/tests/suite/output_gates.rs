//! What callers see of a turn whose outputs pass gates, and when.

mod scripted_gate;

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use a2a::{Artifact, Message, Part, Role, TaskState};
use althing_execution::agent::{Hold, Made, Metadata, OutputGate, Parameters};
use althing_execution::process::ProcessConfig;
use althing_execution::{Agent, AgentError, Builtins, GatedTurn, Host, Output, Outputs, Ports, Turn, cancel_task};
use althing_td::AgentFile;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use scripted_gate::Scripted;

fn answer(text: &str) -> Made {
    let artifact = Artifact {
        artifact_id: "answer".to_owned(),
        name: None,
        description: None,
        parts: vec![Part::text(text)],
        metadata: None,
        extensions: None,
    };
    Made::Artifact { artifact, append: false, last: true }
}

fn annotated(text: &str) -> Made {
    answer(text).annotated(Some(Metadata::from([("model".to_owned(), json!("small"))])))
}

const PROGRESS: Made = Made::Status(TaskState::Working, None);
const ENDING: Made = Made::Status(TaskState::Completed, None);

/// Says what it was told, with progress and metadata, and is suspended once before it ends.
struct Parrot;

impl Agent for Parrot {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move {
            out.put(PROGRESS).await?;
            out.put(annotated(&turn.text())).await?;
            tokio::task::yield_now().await;
            out.put(ENDING).await
        })
    }

    fn cancel<'a>(
        &'a self,
        remembered: &'a str,
        _: &'a Parameters,
    ) -> BoxFuture<'a, Result<Option<Message>, AgentError>> {
        Box::pin(async move { Ok(Some(Message::new(Role::Agent, vec![Part::text(remembered)]))) })
    }
}

/// A host that runs the parrot with these ports.
fn host(ports: Ports) -> Host {
    host_of(ports, &json!({}))
}

/// A host that runs the parrot with these ports, and with more in its contract.
fn host_of(ports: Ports, contract: &Value) -> Host {
    let mut builtins = Builtins::new();
    builtins.insert("parrot", |_, _, _| Ok(Arc::new(Parrot)));
    let host = Host::new(builtins, ProcessConfig::default()).with_ports(ports);
    let mut file = json!({
        "name": "parrot",
        "description": "Says what it is told",
        "runtime": { "native": { "builtin": "parrot" } },
        "contract": { "class": { "latency": "srt" } },
    });
    for (field, value) in contract.as_object().into_iter().flatten() {
        file["contract"][field] = value.clone();
    }
    host.start(&AgentFile::parse(&file.to_string()).expect("an agent file"), Path::new("/")).expect("it starts");
    host
}

fn told(text: &str) -> Turn {
    Turn {
        task_id: "task".to_owned(),
        context_id: "context".to_owned(),
        message: Message::new(Role::User, vec![Part::text(text)]),
        history: vec![Message::new(Role::User, vec![Part::text("earlier")])],
        artifacts: Vec::new(),
        remembered: None,
        parameters: Parameters::default(),
    }
}

fn shown(made: &mut Outputs) -> Vec<Made> {
    std::iter::from_fn(|| made.try_recv().ok()).collect()
}

/// What is shown of a turn while it is suspended, what after it, and how it ends.
async fn turn(host: &Host, text: &str) -> (Vec<Made>, Vec<Made>, Result<(), AgentError>) {
    let (out, mut made) = Output::channel();
    let mut turn = pin!(host.turn("parrot", told(text), out));
    assert_eq!(turn.as_mut().now_or_never(), None, "it is suspended");
    let first = shown(&mut made);
    let ended = turn.await;
    (first, shown(&mut made), ended)
}

/// Holds all back but progress, and signs what it releases.
fn signing(sign: &str) -> Box<dyn OutputGate> {
    let keeps = &["artifact", "status", "state", "begun", "reply"];
    Box::new(Scripted { keeps, drops: &[], sign: sign.to_owned() })
}

#[tokio::test]
async fn without_gates_outputs_are_shown_as_they_are_emitted() {
    let host = host(Ports::none());
    let (first, then, ended) = turn(&host, "hello").await;
    assert_eq!((first, then, ended), (vec![PROGRESS, annotated("hello")], vec![ENDING], Ok(())));
}

#[tokio::test]
async fn gates_release_a_turn_in_their_order_with_its_metadata() {
    let gates = |turn: &GatedTurn<'_>| -> Vec<Box<dyn OutputGate>> {
        let first = format!("turn {} of {} of {}", turn.number, turn.task, turn.agent.name());
        vec![signing(&first), signing("second")]
    };
    let host = host(Ports { output_gates: Arc::new(gates), ..Ports::none() });
    let (first, then, ended) = turn(&host, "hello").await;
    assert_eq!(first, [PROGRESS], "its answer is held back");
    let signs = ["turn 2 of task of parrot", "second"].map(|sign| Made::Remember(sign.to_owned()));
    let [one, two] = signs;
    assert_eq!((then, ended), (vec![annotated("hello"), ENDING, one, two], Ok(())));
}

#[tokio::test]
async fn what_is_said_of_a_cancelled_task_is_not_shown_where_answers_are_judged() {
    let schema = json!({ "schema": { "output": { "type": "object" } } });
    let media = json!({ "media": ["text/*"] });
    // It has no model that could be cut.
    let finished = json!({ "finished": true });
    for (verify, is_shown) in [(json!({}), true), (finished, true), (media, false), (schema, false)] {
        let host = host_of(Ports::none(), &json!({ "verify": verify }));
        assert_eq!(host.verifies("parrot"), !is_shown, "{verify}");
        let said = cancel_task(&host, "parrot", "quicksand", &Parameters::default()).await.expect("it is cancelled");
        assert_eq!(said.is_some(), is_shown, "{verify}");
    }
}
