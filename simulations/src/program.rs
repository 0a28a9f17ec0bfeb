//! A scripted agent that behaves like an A2A program: it creates its tasks itself, may answer without one, refuses with errors of
//! its own, and is notified when a waiting task is cancelled.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use a2a::{Message, Part, Role, TaskState};
use althing_execution::agent::{Agent, Made, Metadata, Parameters};
use althing_execution::{AgentError, Output, Turn};
use althing_protocol::contract::DataLabel;
use althing_protocol::{Attributes, Label};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};

/// The parameters that the programs of a test received, by the message's text.
static HEARD: Mutex<BTreeMap<String, Vec<Parameters>>> = Mutex::new(BTreeMap::new());

fn heard() -> MutexGuard<'static, BTreeMap<String, Vec<Parameters>>> {
    HEARD.lock().expect("no holder of what was heard panics")
}

/// The parameters of the messages, or of the cancellations (`cancel TASK`), of that text, in order.
#[must_use]
pub fn heard_beside(text: &str) -> Vec<Parameters> {
    heard().get(text).cloned().unwrap_or_default()
}

/// Acts on the first word of its message.
pub struct Program;

/// What the program says of its answer to `label …`.
#[must_use]
pub fn answer_attributes() -> Attributes {
    let label = Some(Label { level: DataLabel::Restricted, trusted: false });
    Attributes { label, session: Some([9; 32]), delegation: None }
}

/// Metadata of one member.
#[must_use]
pub fn about(what: &str) -> Metadata {
    [("about".to_owned(), json!(what))].into()
}

fn said(text: &str) -> Message {
    let mut message = Message::new(Role::Agent, vec![Part::text(text)]);
    message.task_id = Some("the program's own".to_owned());
    message.context_id = Some("the program's own".to_owned());
    message
}

fn refusal(code: i32) -> AgentError {
    AgentError::Refused { code, message: format!("refused with {code}"), details: vec![json!({ "why": "so" })] }
}

impl Agent for Program {
    fn turn(&self, turn: Turn, out: Output) -> BoxFuture<'_, Result<(), AgentError>> {
        async move {
            let text = turn.text();
            heard().entry(text.clone()).or_default().push(turn.parameters.clone());
            let (verb, rest) = text.split_once(' ').unwrap_or((&text, ""));
            let begun = || Made::Begun { state: TaskState::Submitted, metadata: Some(about("task")) };
            match verb {
                "message" => out.put(Made::Reply(said(rest))).await,
                "label" => {
                    let added = turn.parameters.answer.add(&answer_attributes());
                    added.map_err(|error| AgentError::Failed(error.to_string()))?;
                    out.put(Made::Reply(said(rest))).await
                }
                "delegate" => {
                    let delegation = Some(vec![1; rest.parse().unwrap_or_default()]);
                    let added = turn.parameters.answer.add(&Attributes { delegation, ..Attributes::default() });
                    added.map_err(|error| AgentError::Failed(error.to_string()))?;
                    out.put(Made::Reply(said(rest))).await
                }
                "late" => {
                    tokio::time::sleep(std::time::Duration::from_secs(90)).await;
                    out.put(Made::Reply(said(rest))).await
                }
                "slow" => {
                    tokio::time::sleep(std::time::Duration::from_secs(30)).await;
                    out.put(Made::Reply(said(rest))).await
                }
                "refuse" => Err(refusal(rest.parse().unwrap_or(-32_603))),
                "break" => {
                    out.put(begun()).await?;
                    Err(refusal(-32_603))
                }
                "ask" => {
                    out.put(Made::Remember(rest.to_owned())).await?;
                    out.put(begun()).await?;
                    out.put(Made::Status(TaskState::InputRequired, Some(said("which?")))).await
                }
                "whole" => {
                    out.text("a", rest).await?;
                    out.put(Made::Status(TaskState::Completed, Some(said("done")))).await?;
                    out.put(Made::Begun { state: TaskState::Completed, metadata: None }).await
                }
                _ => {
                    out.put(begun()).await?;
                    out.put(Made::Status(TaskState::Working, None).annotated(Some(about("status")))).await?;
                    for (piece, append) in [("one ", false), ("two", true)] {
                        out.put(chunk(piece, append).annotated(Some(about(piece)))).await?;
                    }
                    out.put(Made::Status(TaskState::Completed, Some(said("done"))).annotated(Some(about("end")))).await
                }
            }
        }
        .boxed()
    }

    fn may_reply(&self) -> bool {
        true
    }

    fn is_enclosed(&self) -> bool {
        true
    }

    fn cancel<'a>(
        &'a self,
        remembered: &'a str,
        beside: &'a Parameters,
    ) -> BoxFuture<'a, Result<Option<Message>, AgentError>> {
        async move {
            heard().entry(format!("cancel {remembered}")).or_default().push(beside.clone());
            match remembered {
                "stubborn" => Err(refusal(-32_002)),
                _ => Ok(Some(said("as you wish"))),
            }
        }
        .boxed()
    }
}

fn chunk(text: &str, append: bool) -> Made {
    let artifact = a2a::Artifact {
        artifact_id: "a".to_owned(),
        name: None,
        description: None,
        parts: vec![Part::text(text)],
        metadata: Some([(text.trim().to_owned(), Value::Bool(true))].into()),
        extensions: None,
    };
    Made::Artifact { artifact, append, last: append }
}
