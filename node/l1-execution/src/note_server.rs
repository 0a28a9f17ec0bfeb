//! The session of a turn as tools of its agent, behind the same gate as all others: its notes, of which a model is given the last ones
//! with each message; saving how far it came; and handing its work over to another agent.

mod checkpoint;
mod handoff;

use std::sync::Arc;

use althing_protocol::{Contract, Label, is_hidden};
use althing_td::{AgentFile, RuntimeSpec};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::agents::AgentCalls;
use crate::context;
use crate::journal::{CHECKPOINT_ARGUMENTS_BYTES_MAX, Effect};
use crate::notes::{NOTE_BYTES_MAX, Note, NoteError, NoteKind, SessionNotes};
use crate::steps;
use crate::tools::{Definition, Fault, ToolServer, Tools};

/// The name of the server in `capabilities`.
pub const SERVER: &str = "session";
/// The tool that adds a note.
const NOTE: &str = "note";
/// The tool that gives all of them.
const NOTES: &str = "notes";
/// The tool that gives the work of the turn's task to another agent.
const HANDOFF: &str = "handoff";
/// The tool that saves how far the turn came.
const CHECKPOINT: &str = "checkpoint";
/// What reading them for a model is called before its gate.
pub(crate) const READ: &str = "session/notes";
/// All words of kinds.
const KINDS: [&str; 5] = ["done", "remaining", "decision", "assumption", "pitfall"];

/// Whether the contract of an agent permits one of the tools.
pub(crate) fn is_open(tools: &Tools) -> bool {
    tools.servers().has(SERVER) && [NOTE, NOTES].iter().any(|tool| tools.may(&format!("{SERVER}/{tool}")))
}

/// Has the turn that runs here hear the label of notes that it is given.
pub(crate) fn hear(notes: &[Note]) {
    context::hear(notes.iter().fold(None, |all, note| Label::of_both(all, note.label)));
}

/// The session of the turn that calls it, as a tool server.
pub(crate) struct NoteServer {
    handoffs: handoff::Handoffs,
    saves: SaveKind,
}

/// Whether an agent is given a state back when its turn is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SaveKind {
    /// By its own code, or not at all.
    Nothing,
    /// A program: between its calls, with its message.
    Program,
    /// A model: in place of its conversation so far, which its runtime writes with it.
    Model,
}

impl SaveKind {
    /// Of an agent of that file.
    pub fn of(file: &AgentFile) -> SaveKind {
        match &file.runtime {
            RuntimeSpec::Process { .. } if file.session.repeats() => SaveKind::Program,
            RuntimeSpec::Model { .. } => SaveKind::Model,
            _ => SaveKind::Nothing,
        }
    }
}

/// The state in the arguments of the tool that saves one; none where they are others.
pub(crate) fn state_in(arguments: &str) -> Option<String> {
    checkpoint::state_in(arguments)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewNote {
    kind: NoteKind,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl NoteServer {
    /// The server; none if the contract names none of its tools. `calls` reaches other agents; `as_itself` says whether
    /// the agent acts on its own behalf only, and `saves` how it is given a state back when its turn is resumed.
    pub fn of(
        contract: &Contract,
        as_itself: bool,
        saves: SaveKind,
        calls: Option<&Arc<dyn AgentCalls>>,
    ) -> Option<NoteServer> {
        let of_it = |name: &String| name.split_once('/').is_some_and(|(server, _)| server == SERVER);
        let handoffs = || handoff::Handoffs::of(contract, as_itself, calls);
        contract.capabilities.iter().any(of_it).then(|| NoteServer { handoffs: handoffs(), saves })
    }
}

fn definitions(saves: SaveKind) -> Vec<Definition> {
    let note = "Keeps a note for the later turns of this conversation, 1 KiB at most: what is done, what remains, a decision, an \
                assumption, or a pitfall. It cannot be changed; add another one.";
    let notes = "All notes of this conversation, the oldest first.";
    let given = json!({
        "type": "object",
        "properties": { "kind": { "enum": KINDS }, "text": { "type": "string" } },
        "required": ["kind", "text"],
        "additionalProperties": false,
    });
    let nothing = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    let all = [Definition::new(NOTE, note, given), Definition::new(NOTES, notes, nothing), handoff::definition()];
    all.into_iter().chain(checkpoint::definition(saves)).collect()
}

fn check(text: &str) -> Result<(), NoteError> {
    if text.trim().is_empty() {
        return Err(NoteError::Empty);
    }
    if text.len() > NOTE_BYTES_MAX {
        return Err(NoteError::TooLong { bytes: text.len() });
    }
    let is_invisible = |c: &char| is_hidden(*c) || c.is_control() && !matches!(*c, '\n' | '\t');
    match text.chars().find(is_invisible) {
        None => Ok(()),
        Some(c) => Err(NoteError::Invisible { code: c.into() }),
    }
}

fn arguments<T: for<'de> Deserialize<'de>>(value: Value) -> Result<T, Fault> {
    T::deserialize(value).map_err(|error| Fault::Failed(error.to_string()))
}

async fn dispatch(tool: &str, given: Value) -> Result<Value, Fault> {
    if tool != NOTE && tool != NOTES {
        return Err(Fault::Failed(format!("there is no tool {tool:?} for this agent")));
    }
    let failed = |error: NoteError| Fault::Failed(error.to_string());
    let turn = context::now();
    let SessionNotes(kept) = turn.notes.ok_or(NoteError::NoSession).map_err(failed)?;
    if tool == NOTES {
        let Nothing {} = arguments(given)?;
        let all = kept.all().map_err(failed)?;
        hear(&all);
        return Ok(json!({ "notes": all }));
    }
    let NewNote { kind, text } = arguments(given)?;
    check(&text).map_err(failed)?;
    let note = Note { kind, text, label: turn.attributes.sent().label };
    kept.add(note, steps::current_key()).await.map_err(failed)?;
    Ok(json!({ "noted": kind }))
}

impl ToolServer for NoteServer {
    fn is_own(&self) -> bool {
        true
    }

    fn effect(&self, tool: &str) -> Option<Effect> {
        // A note that comes again under its key is not added again, and work that was given away is no turn's any more.
        Some(if tool == NOTES { Effect::None } else { Effect::Repeatable })
    }

    fn is_step(&self, tool: &str) -> bool {
        // The rows before a checkpoint go with it.
        tool != CHECKPOINT
    }

    fn arguments_max(&self, tool: &str) -> Option<usize> {
        (tool == CHECKPOINT).then_some(CHECKPOINT_ARGUMENTS_BYTES_MAX)
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        Box::pin(std::future::ready(Ok(definitions(self.saves))))
    }

    fn call<'a>(&'a self, tool: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async move {
            let made = match tool {
                HANDOFF => self.handoffs.offer(arguments).await?,
                CHECKPOINT if self.saves == SaveKind::Program => checkpoint::save(arguments).await?,
                CHECKPOINT if self.saves == SaveKind::Model => checkpoint::check(arguments)?,
                _ => dispatch(tool, arguments).await?,
            };
            Ok(json!({
                "content": [{ "type": "text", "text": made.to_string() }],
                "structuredContent": made,
                "isError": false,
            }))
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

#[cfg(test)]
mod tests;
