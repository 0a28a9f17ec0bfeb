//! A turn that is over, as its rows tell it again: what it began with, and what came of each of its steps.

use std::collections::BTreeMap;

use althing_execution::journal::{Checkpoint, Reading, StepOutcome};
use althing_execution::tools::CallKind;
use althing_protocol::{Digest, Label};

use super::row::{Begin, Choice, ResultRow, Row, RowBody, StepKind};
use super::rows::{given_up, result_of};
use super::{Damage, SessionId, TurnId, TurnRows};

/// A turn whose rows stay with its task.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedTurn {
    /// The task's id.
    pub task: String,
    /// The id of the message that began it.
    pub message: String,
    /// The id of its agent.
    pub agent: String,
    /// In which version that one was.
    pub version: String,
    /// The hash of the manifest that it was bound to.
    pub binding: String,
    /// The label of what came with the call.
    pub label: Option<Label>,
    /// What randomness of the turn was made of.
    pub seed: [u8; 32],
    /// What clocks said to it, since its last checkpoint.
    pub readings: Vec<Reading>,
    /// Its last checkpoint: the steps before it are deleted.
    pub checkpoint: Option<Checkpoint>,
    /// The steps, in the order of their numbers.
    pub steps: Vec<RecordedStep>,
}

/// A step of it.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedStep {
    /// Its number in the turn.
    pub seq: u32,
    /// What it was.
    pub kind: CallKind,
    /// `server/tool`, or what the node calls it.
    pub name: String,
    /// The digest of its name and arguments ([`call_digest`](super::call_digest)).
    pub call: Digest,
    /// What came of it; none if its turn ended before that was known.
    pub outcome: Option<StepOutcome>,
}

fn wrong(row: u32, what: &str) -> Damage {
    Damage { step: 0, what: format!("row {row}: {what}") }
}

/// With what the turn of these rows began.
///
/// # Errors
/// [`Damage`]: the first of them does not say it.
pub fn beginning(rows: &[(u32, Vec<u8>)]) -> Result<Begin, Damage> {
    let (_, first) = rows.first().ok_or_else(|| wrong(0, "there is none"))?;
    let Some(Row { body: RowBody::Begin(begin), .. }) = Row::peek(first) else {
        return Err(wrong(0, "it is not the beginning of a turn"));
    };
    Ok(*begin)
}

/// The turn of a session with these rows, in the order of their keys, with the number in each key.
///
/// # Errors
/// [`Damage`]: they are not the rows of a turn as it was written.
pub fn recorded(session: SessionId, rows: &[(u32, Vec<u8>)]) -> Result<RecordedTurn, Damage> {
    let mut begin = beginning(rows)?;
    // Whether they are those of that turn, and all of them follow one another.
    let mut read = TurnRows::read(TurnId::of(session, &begin.task, &begin.message), begin.clone(), rows)?;
    let mut steps: BTreeMap<u32, RecordedStep> = BTreeMap::new();
    let mut parts: Vec<u8> = Vec::new();
    for (key, bytes) in rows {
        match Row::peek(bytes).ok_or_else(|| wrong(*key, "it cannot be read"))?.body {
            RowBody::Intent(intent) => {
                let (seq, kind) = (intent.step, call_kind(intent.kind));
                let step = RecordedStep { seq, kind, name: intent.name, call: intent.call, outcome: None };
                steps.insert(seq, step);
            }
            RowBody::Result(part) => {
                parts.extend_from_slice(&part.bytes);
                if part.more == 0 {
                    let step = step(part, std::mem::take(&mut parts)).map_err(|what| wrong(*key, what))?;
                    steps.insert(step.seq, step);
                }
            }
            // What the agent heard then.
            RowBody::Resolved(said) if said.choice == Choice::Failed => {
                if let Some(step) = steps.get_mut(&said.step) {
                    step.outcome = Some(given_up());
                }
            }
            // What it did from there on counts no more, and another one may have gone on.
            RowBody::Restart(restart) => {
                steps.retain(|seq, _| *seq < restart.step);
                (begin.version, begin.binding) = (restart.version, restart.binding);
            }
            RowBody::Begin(_)
            | RowBody::Resolved(_)
            | RowBody::Checkpoint(_)
            | RowBody::Reads(_)
            | RowBody::Note(_) => {}
        }
    }
    let Begin { task, message, agent, version, binding, label, seed, .. } = begin;
    let (readings, checkpoint) = (read.take_tape(), read.take_checkpoint());
    let steps = steps.into_values().collect();
    Ok(RecordedTurn { task, message, agent, version, binding, label, seed, readings, checkpoint, steps })
}

/// The step of which that is the last part of the result, whose bytes are these.
fn step(last: ResultRow, whole: Vec<u8>) -> Result<RecordedStep, &'static str> {
    let result = result_of(last.is_result, whole)?;
    let outcome = Some(StepOutcome { result, tokens: last.tokens, label: last.label });
    Ok(RecordedStep { seq: last.step, kind: call_kind(last.kind), name: last.name, call: last.call, outcome })
}

fn call_kind(kind: StepKind) -> CallKind {
    match kind {
        StepKind::Tool => CallKind::Tool,
        StepKind::Recall => CallKind::Recall,
        StepKind::Model => CallKind::Model,
    }
}
