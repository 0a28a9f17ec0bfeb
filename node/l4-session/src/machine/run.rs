//! What is kept of a turn beside its task: with what it was done, by name and hash, and nothing of what was said. Pure.
//!
//! **Input**: what was noted while the turn ran, and the task as it is then. **Output**: its record, and whether what the task holds
//! is still what was recorded.
//!
//! **Invariants**: the records of one task are bounded; the newest ones stay.

use a2a::{Artifact, Message, Part, Role, Task, TaskState};
use althing_execution::admission::AdmissionProof;
use althing_execution::run_notes::{CallFacts, TurnFacts};
use althing_protocol::{digest, hex};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Bytes of all records of one task, as they are stored.
pub(crate) const RUNS_BYTES_MAX: usize = 24 << 10;
/// Artifacts of a task among which those of its last turn are looked for: each way to divide them is hashed.
const DIVIDED_MAX: usize = 16;

/// The records of a task's turns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Runs {
    /// The newest ones, the oldest first.
    pub kept: Vec<RunRecord>,
    /// Older ones, which made room for them.
    #[serde(default)]
    pub forgotten: u64,
}

/// What is kept of one turn. Hashes are SHA-256, hexadecimal, of canonical JSON (RFC 8785).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// The id of the message that began it.
    pub message: String,
    /// The name of the agent.
    pub agent: String,
    /// Its version, as its file has it.
    pub version: String,
    /// The DID of the node that ran it.
    pub node: String,
    /// When it ended, Unix milliseconds.
    pub ended_ms: u64,
    /// The id of its trace, if it was traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The hash of the manifest that its agent was bound to.
    pub binding: String,
    /// Whether it went on from its journal, after its node ended or it waited: what it did by then may not be among this.
    #[serde(default, skip_serializing_if = "is_false")]
    pub resumed: bool,
    /// The models that answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// The calls of tools, in the order in which they ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<RunCall>,
    /// Calls that are not among these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_calls: u64,
    /// The ids of the passages that were recalled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passages: Vec<String>,
    /// Passages that are not among these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_passages: u64,
    /// The hash of the message.
    pub input: String,
    /// The hash of what the task held when the turn ended: its state, its status message and its artifacts.
    pub output: String,
    /// Why its agent keeps its deadlines, if it is a hard real-time agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<AdmissionProof>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunCall {
    /// `server/tool`.
    pub tool: String,
    /// `done`, or what else came of it.
    pub outcome: String,
    /// The hash of the tool's definition; empty where it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub definition: String,
    /// The hash of its arguments; empty where they could not be read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub arguments: String,
    /// The hash of its result, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The agent that was called, where the tool is another agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callee: Option<RunCallee>,
}

/// Another agent that was called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCallee {
    /// Its id.
    pub agent: String,
    /// The task whose turns are recorded.
    pub task: String,
}

/// Whether what a task holds is what was recorded of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestCheck {
    /// It is.
    Equal,
    /// It is not.
    Different,
    /// The task does not hold it any more, or holds what came later.
    Gone,
}

/// Of what nobody but the shell of L4 knows.
pub(crate) struct RunContext<'a> {
    /// The id of the message that began the turn.
    pub message: &'a str,
    /// The agent's name and version.
    pub agent: (&'a str, &'a str),
    /// The node's DID.
    pub node: &'a str,
    /// Unix milliseconds.
    pub ended_ms: u64,
    /// W3C `traceparent`, if the turn is traced.
    pub traceparent: Option<&'a str>,
    /// Whether it went on from its journal.
    pub resumed: bool,
}

impl RunRecord {
    /// The record of a turn, and of its task as it is now; none of one that did not begin.
    pub(crate) fn of(context: &RunContext<'_>, facts: TurnFacts, task: &Task) -> Option<RunRecord> {
        let binding = facts.binding?.to_string();
        let (agent, version) = context.agent;
        let message = begun_by(task, context.message);
        Some(RunRecord {
            message: context.message.to_owned(),
            agent: agent.to_owned(),
            version: version.to_owned(),
            node: context.node.to_owned(),
            ended_ms: context.ended_ms,
            trace: context.traceparent.and_then(|parent| parent.split('-').nth(1)).map(str::to_owned),
            binding,
            resumed: context.resumed,
            models: facts.models,
            calls: facts.calls.into_iter().map(RunCall::of).collect(),
            more_calls: facts.more_calls,
            passages: facts.passages,
            more_passages: facts.more_passages,
            input: message.map(input_hash).unwrap_or_default(),
            output: output_hash(task),
            proof: facts.proof,
        })
    }

    /// Takes calls away, the last ones first, then the passages and the proof, until it has room.
    fn shorten(&mut self) {
        let half = self.calls.len() / 2;
        if self.calls.is_empty() {
            self.more_passages = self.more_passages.saturating_add(self.passages.len() as u64);
            self.passages.clear();
            self.proof = None;
        } else {
            self.more_calls = self.more_calls.saturating_add((self.calls.len() - half) as u64);
            self.calls.truncate(half);
        }
    }
}

impl RunCall {
    fn of(facts: CallFacts) -> RunCall {
        let CallFacts { tool, definition, arguments, result, outcome, breaks_schema: _, callee, is_check: _ } = facts;
        let callee = callee.map(|(agent, task)| RunCallee { agent, task });
        RunCall { tool, outcome: outcome.to_owned(), definition, arguments, result, callee }
    }
}

impl Runs {
    /// Whether nothing is recorded.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.forgotten == 0
    }

    /// Adds the record of a turn that ended; older ones, and what does not fit of it, make room.
    pub fn add(&mut self, run: RunRecord) {
        self.kept.push(run);
        while bytes(&self.kept) > RUNS_BYTES_MAX {
            if self.kept.len() > 1 {
                self.kept.remove(0);
                self.forgotten = self.forgotten.saturating_add(1);
                continue;
            }
            let Some(last) = self.kept.last_mut() else { return };
            if last.calls.is_empty() && last.passages.is_empty() && last.proof.is_none() {
                // Its names alone are bounded where they come from.
                return;
            }
            last.shorten();
        }
    }

    /// The artifacts of a task that its last turn made: all of them where it had one message, and else those that come after what the
    /// turn before had left, as far as the hash of that says what it was. None where they are not known, as where a turn changed an
    /// artifact of an earlier one.
    pub fn made_last(&self, task: &Task) -> Option<Vec<Artifact>> {
        let history = task.history.as_deref().unwrap_or_default();
        let all = task.artifacts.as_deref().unwrap_or_default();
        let mut told = history.iter().enumerate().rev().filter(|(_, message)| message.role != Role::Agent);
        let (last, _) = told.next()?;
        let Some((_, before)) = told.next() else { return Some(all.to_vec()) };
        if all.is_empty() {
            return Some(Vec::new());
        }
        if all.len() > DIVIDED_MAX {
            return None;
        }
        let left = &self.kept.iter().rfind(|run| run.message == before.message_id)?.output;
        // What was said last goes into the history when the next message comes.
        let said = last.checked_sub(1).and_then(|at| history.get(at)).filter(|message| message.role == Role::Agent);
        let said = said.map(|message| message.parts.as_slice());
        let is_left = |artifacts: &[Artifact]| {
            let artifacts = (!artifacts.is_empty()).then_some(artifacts);
            let of = |state: &TaskState, said| hash_of(state, said, artifacts) == *left;
            let states = [TaskState::InputRequired, TaskState::AuthRequired];
            states.iter().any(|state| of(state, said) || said.is_some() && of(state, None))
        };
        let place = (0..=all.len()).find(|place| is_left(&all[..*place]))?;
        Some(all[place..].to_vec())
    }

    /// Of each record, whether the task still holds the message and the output that were recorded.
    pub fn checks(&self, task: &Task) -> Vec<(DigestCheck, DigestCheck)> {
        let newest = self.kept.len().saturating_sub(1);
        let check = |(place, run): (usize, &RunRecord)| {
            let held = begun_by(task, &run.message).map(input_hash);
            let input = held.map_or(DigestCheck::Gone, |held| equal(&run.input, &held));
            // A later turn adds to the artifacts, and has a status of its own.
            let output = if place == newest { equal(&run.output, &output_hash(task)) } else { DigestCheck::Gone };
            (input, output)
        };
        self.kept.iter().enumerate().map(check).collect()
    }
}

fn equal(recorded: &str, held: &str) -> DigestCheck {
    if recorded == held { DigestCheck::Equal } else { DigestCheck::Different }
}

fn bytes(runs: &[RunRecord]) -> usize {
    let mut bytes = Vec::new();
    // Writing to memory does not fail, and no member is of a kind that CBOR lacks.
    ciborium::into_writer(runs, &mut bytes).map_or(usize::MAX, |()| bytes.len())
}

/// The message that began a turn, as its task holds it.
fn begun_by<'a>(task: &'a Task, message: &str) -> Option<&'a Message> {
    task.history.iter().flatten().rfind(|held| held.message_id == message)
}

fn input_hash(message: &Message) -> String {
    hash(&json!({ "role": message.role, "parts": message.parts }))
}

fn output_hash(task: &Task) -> String {
    let said = task.status.message.as_ref().map(|message| message.parts.as_slice());
    hash_of(&task.status.state, said, task.artifacts.as_deref())
}

fn hash_of(state: &TaskState, said: Option<&[Part]>, artifacts: Option<&[Artifact]>) -> String {
    hash(&json!({ "state": state, "said": said, "artifacts": artifacts }))
}

fn hash(value: &serde_json::Value) -> String {
    hex(&digest(&serde_json_canonicalizer::to_vec(value).unwrap_or_default()))
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests;
