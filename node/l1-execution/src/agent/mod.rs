//! The interface of an agent: it is given turns and emits outputs.

mod error;
mod output;

use std::collections::HashMap;

use a2a::{Artifact, Message, Part};
use futures::future::BoxFuture;

pub use error::AgentError;
pub(crate) use output::Withheld;
pub use output::{Made, Output, Outputs};

/// An agent that runs in the node's own process.
pub trait Agent: Send + Sync + 'static {
    /// Works on one message. What it makes goes to `out` as it is made; returning ends the turn, with the task
    /// completed unless `out` was told otherwise. The future is dropped when the task is cancelled.
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>>;

    /// Turns that it runs at once, where it has a bound of its own; beyond, they fail.
    fn turns_max(&self) -> Option<usize> {
        None
    }

    /// True for an agent that makes its tasks itself, and may answer without one: until it put [`Made::Begun`] or
    /// [`Made::Reply`], nobody knows which it will be.
    fn may_reply(&self) -> bool {
        false
    }

    /// What the agent says of itself beside its agent file, once it is up.
    fn own_card(&self) -> Option<OwnCard> {
        None
    }

    /// A task is cancelled while it waits for its next message; gives the agent's words, if it has any. `remembered` is
    /// what the agent asked to have kept for it.
    fn cancel<'a>(
        &'a self,
        _remembered: &'a str,
        _beside: &'a Parameters,
    ) -> BoxFuture<'a, Result<Option<Message>, AgentError>> {
        Box::pin(async { Ok(None) })
    }
}

/// The state of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentState {
    /// It accepts turns.
    Ready,
    /// Its program is being started.
    Starting,
    /// Its program ended and is being restarted.
    Restarting {
        /// Why it ended.
        why: String,
        /// How often it was restarted.
        restarts: u32,
    },
    /// It runs on without a deadline guarantee.
    Degraded {
        /// Why.
        why: String,
    },
    /// It does not run until it is removed and added again.
    Suspended {
        /// Why.
        why: String,
    },
}

/// What an agent's own card says that is not in its agent file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OwnCard {
    /// The extensions that it supports, or requires: A2A's AgentExtension.
    pub extensions: Vec<a2a::AgentExtension>,
    /// Media types that it reads.
    pub input_modes: Vec<String>,
    /// Media types that it writes.
    pub output_modes: Vec<String>,
}

/// A2A's `metadata`, as a2a-lf has it.
pub type Metadata = HashMap<String, serde_json::Value>;

/// One message of a task, to be worked on.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The task.
    pub task_id: String,
    /// The conversation that the task belongs to.
    pub context_id: String,
    /// The new message.
    pub message: Message,
    /// What was said in the task before, oldest first.
    pub history: Vec<Message>,
    /// What was made in the task before.
    pub artifacts: Vec<Artifact>,
    /// What the runtime asked to have kept for this task in the turn before.
    pub remembered: Option<String>,
    /// What travels beside the message.
    pub parameters: Parameters,
}

/// What travels beside a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters {
    /// URIs of the A2A extensions that the client would like to use.
    pub extensions: Vec<String>,
    /// Who asks, the origin first.
    pub principals: Vec<String>,
    /// W3C `traceparent` of the turn, when it is traced.
    pub traceparent: Option<String>,
    /// W3C `tracestate`.
    pub tracestate: Option<String>,
    /// `metadata` of the request.
    pub metadata: Option<Metadata>,
    /// `acceptedOutputModes` of its configuration.
    pub accepted_output_modes: Option<Vec<String>>,
    /// `historyLength` of its configuration.
    pub history_length: Option<i32>,
}

impl Turn {
    /// All text of the message, its parts joined by line ends.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.message.parts.iter().filter_map(Part::as_text).collect();
        texts.join("\n")
    }
}
