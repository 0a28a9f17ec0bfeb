//! Turns and calls that are over, and which decisions were about them.

use althing_execution::run_notes::arguments_hash;
use althing_policy::{EntityName, Gate, Kind};
use althing_protocol::{AgentRef, Contract};
use serde_json::Value;

use crate::decisions::DecisionRecord;

/// A turn that is over.
#[derive(Debug, Clone, Copy)]
pub struct PastTurn<'a> {
    /// The agent, in the version that ran.
    pub agent: &'a AgentRef,
    /// The A2A task.
    pub task: &'a str,
    /// When the turn before it ended, Unix milliseconds; 0 where none is known.
    pub after_ms: u64,
    /// When it ended, Unix milliseconds.
    pub ended_ms: u64,
    /// The id of its trace, hexadecimal, if it was traced.
    pub trace: Option<&'a str>,
    /// The contract that its agent was bound by; nothing where that is not known any more.
    pub contract: Option<&'a Contract>,
    /// What it called, in this order.
    pub calls: &'a [PastCall<'a>],
}

/// A call that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastCall<'a> {
    /// `server/tool`.
    pub tool: &'a str,
    /// What [`arguments_hash`] gave of its arguments; empty where they could not be read, so that nothing was decided.
    pub arguments: &'a str,
    /// `done`, `error`, `denied`, or another word where it may not have been made.
    pub outcome: &'a str,
}

impl PastCall<'_> {
    /// Whether it certainly reached its tool.
    pub(super) fn is_made(&self) -> bool {
        matches!(self.outcome, "done" | "error")
    }

    pub(super) fn is_denied(&self) -> bool {
        self.outcome == "denied"
    }

    /// Whether the decisions about both cannot be told apart.
    pub(super) fn is_like(&self, other: &PastCall<'_>) -> bool {
        match (memory_gate(self.tool), memory_gate(other.tool)) {
            (None, None) => (self.tool, self.arguments) == (other.tool, other.arguments),
            (one, two) => one == two,
        }
    }

    /// Whether a decision was about such a call.
    pub(super) fn is_subject_of(&self, record: &DecisionRecord) -> bool {
        match memory_gate(self.tool) {
            // They have not all of its arguments.
            Some(gate) => record.gate == gate.word(),
            None => {
                record.gate == Gate::UseTool.word()
                    && record.resource == EntityName::new(Kind::Tool, self.tool).to_string()
                    && record.arguments.as_deref().and_then(hash_of).as_deref() == Some(self.arguments)
            }
        }
    }
}

/// The hash of arguments as JSON; nothing where they are none.
pub(super) fn hash_of(arguments: &str) -> Option<String> {
    serde_json::from_str::<Value>(arguments).ok().as_ref().map(arguments_hash)
}

/// What a call of memory is to policies; nothing of other calls.
fn memory_gate(tool: &str) -> Option<Gate> {
    match tool.split_once('/')? {
        ("memory", "get" | "keys" | "recall") => Some(Gate::Recall),
        ("memory", _) => Some(Gate::Remember),
        _ => None,
    }
}
