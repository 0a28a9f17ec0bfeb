//! What passes the gate of an agent, as the gate sees it.

use althing_keeper::Level;
use althing_protocol::contract::DataLabel;
use althing_protocol::{AgentRef, Attributes, Label};
use serde_json::Value;

use crate::context::CallContext;
use crate::statements::ModelClearance;

pub use crate::call_kind::CallKind;

/// A system call of an agent, or what the node does for one of its turns.
#[derive(Debug, Clone, Copy)]
pub struct ToolCall<'a> {
    /// Whether the agent wants it, or the node for a turn of it.
    pub kind: CallKind,
    /// The agent, in the version that runs.
    pub agent: &'a AgentRef,
    /// The task in whose turn it is made; empty outside turns.
    pub task: &'a str,
    /// W3C `traceparent` of the turn, when it is traced.
    pub trace: Option<&'a str>,
    /// The hash of the manifest that the agent was bound to, hexadecimal; empty outside turns.
    pub binding_hash: &'a str,
    /// The label of the data that the agent works with, as its contract says it.
    pub label: DataLabel,
    /// Session and delegation of the call that the turn answers, and the label of its data and of all answers that the turn was
    /// given since; nothing outside turns.
    pub attributes: &'a Attributes,
    /// The label of all that the turn was given so far: what the call may carry out; none where nothing was said of that.
    pub carries: Option<Label>,
    /// The server: what stands before the `/` of `tool`; empty where there is none.
    pub server: &'a str,
    /// `server/tool`.
    pub tool: &'a str,
    /// Hash of the tool's definition; empty when it is not known.
    pub definition: &'a str,
    /// JSON of any kind: what is no object is refused after the gate allowed it.
    pub arguments: &'a Value,
    /// On whose behalf, the origin first.
    pub principals: &'a [String],
    /// Whether the call is a step of its turn's journal, whose batches take rows of the gate.
    pub is_journalled: bool,
    /// Whether it is made in a turn of a test, so that nobody is asked about it.
    pub asks_nobody: bool,
    /// How far the model is cleared that a request goes to; none of everything else.
    pub clearance: Option<ModelClearance>,
    /// How strongly the program is enclosed that has the tool; none where it is no program, or did not run yet.
    pub level: Option<Level>,
}

impl<'a> ToolCall<'a> {
    /// A system call of `tool` in the turn that has this context.
    pub(crate) fn of(
        agent: &'a AgentRef,
        turn: &'a CallContext,
        tool: &'a str,
        definition: &'a str,
        arguments: &'a Value,
    ) -> ToolCall<'a> {
        ToolCall {
            kind: CallKind::Tool,
            agent,
            task: &turn.task,
            trace: turn.trace.as_deref(),
            binding_hash: &turn.binding_hash,
            label: turn.label,
            attributes: turn.attributes.sent(),
            carries: turn.attributes.sent().label,
            server: tool.split_once('/').map_or("", |(server, _)| server),
            tool,
            definition,
            arguments,
            principals: &turn.principals,
            is_journalled: false,
            asks_nobody: turn.rights.journal.as_ref().is_some_and(|journal| journal.asks_nobody()),
            clearance: None,
            level: None,
        }
    }
}

/// Whether an agent may call a tool, before anything is known of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// It may.
    Allowed,
    /// It may if somebody consents to the call.
    Ask,
    /// It may not.
    Denied,
}
