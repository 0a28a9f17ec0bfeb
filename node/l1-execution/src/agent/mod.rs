//! The interface of an agent: it is given turns and emits outputs.

mod error;
mod gate;
mod made;
mod output;
mod repair;

use std::time::Duration;

use a2a::{Artifact, Message, Part};
use althing_protocol::group::Target;
use althing_protocol::{Activated, AnswerAttributes, Attributes};
use futures::future::BoxFuture;

use crate::journal::TurnRights;
use crate::notes::SessionNotes;
use crate::run_notes::RunNotes;
use crate::verdicts::TurnVerdicts;

pub use error::{AgentError, UNWORDED_FAILURE};
pub use gate::{Hold, OutputGate};
pub use made::{Made, Metadata};
pub use output::{Output, Outputs};
pub use repair::Repair;

/// An agent that runs in the node's own process.
pub trait Agent: Send + Sync + 'static {
    /// Processes one message, and emits its outputs to `out`. Returning ends the turn; the task is completed unless a status
    /// says otherwise. The future is dropped when the task is cancelled.
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>>;

    /// The concurrent turns that it allows, if it has a limit; further ones fail.
    fn turns_max(&self) -> Option<usize> {
        None
    }

    /// True for an agent that creates its tasks itself and may answer without one: which of both is known only once it emits
    /// [`Made::Begun`] or [`Made::Reply`].
    fn may_reply(&self) -> bool {
        false
    }

    /// True for an agent that reaches nothing outside itself but by system calls.
    fn is_enclosed(&self) -> bool {
        false
    }

    /// True for an agent whose turn may run again from its beginning, after its node ended: whatever it does goes through the
    /// journal of the turn.
    fn is_resumable(&self) -> bool {
        false
    }

    /// False for an agent whose turn makes several calls at once, or in another order when it runs again: its journal finds each
    /// by what it calls with which arguments.
    fn calls_in_order(&self) -> bool {
        true
    }

    /// The own card of the agent, once it is up.
    fn own_card(&self) -> Option<OwnCard> {
        None
    }

    /// The group that it stands for, if it only gives that what it is told.
    fn serves_group(&self) -> Option<&ServedGroup> {
        None
    }

    /// Its state.
    fn state(&self) -> AgentState {
        AgentState::Ready
    }

    /// The services that did not accept its credentials (HTTP 401 or 403) when it asked them last, each in words.
    fn unauthorised(&self) -> Vec<String> {
        Vec::new()
    }

    /// Cancels a task that waits for its next message; gives the agent's message, if any. `remembered` is the state that the
    /// agent stored for the task.
    fn cancel<'a>(
        &'a self,
        _remembered: &'a str,
        _parameters: &'a Parameters,
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
    /// Its server does not answer.
    Unreachable {
        /// Why.
        why: String,
    },
    /// It runs on without a deadline guarantee.
    Degraded {
        /// Why.
        why: String,
    },
    /// It does not run until it is removed and added again, or, where its server shows another card, until that is accepted.
    Suspended {
        /// Why.
        why: String,
    },
}

/// The parts of an agent's own card that are not in its agent file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OwnCard {
    /// The extensions that it supports or requires (A2A AgentExtension).
    pub extensions: Vec<a2a::AgentExtension>,
    /// Media types that it reads.
    pub input_modes: Vec<String>,
    /// Media types that it writes.
    pub output_modes: Vec<String>,
}

/// A group that an agent stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedGroup {
    /// The group's name or id.
    pub group: String,
    /// Which agent of a member does what the agent is told.
    pub target: Target,
}

/// One message of a task, to be processed.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The task.
    pub task_id: String,
    /// The conversation that the task belongs to.
    pub context_id: String,
    /// The new message.
    pub message: Message,
    /// The earlier messages of the task, oldest first.
    pub history: Vec<Message>,
    /// The artifacts of the task so far.
    pub artifacts: Vec<Artifact>,
    /// The state that the runtime stored in the previous turn of the task.
    pub remembered: Option<String>,
    /// The parameters of the message.
    pub parameters: Parameters,
}

/// The parameters of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters {
    /// URIs of the A2A extensions that the client requests.
    pub extensions: Vec<String>,
    /// Where the agent names those of them that it activates, before its first answer.
    pub activated: Activated,
    /// Label, session and delegation of the call.
    pub attributes: Attributes,
    /// Where those of the answer are added to; what is streamed already has been sent without what comes later.
    pub answer: AnswerAttributes,
    /// The chain of principals, the origin first.
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
    /// The lease under which the turn runs, and its journal.
    pub rights: TurnRights,
    /// The notes of its session.
    pub notes: Option<SessionNotes>,
    /// Where gates tell what they refuse of it.
    pub verdicts: Option<TurnVerdicts>,
    /// How long the turn may take, if it has a limit.
    pub within: Option<Duration>,
    /// Where what the turn does is noted.
    pub run: RunNotes,
}

impl Turn {
    /// The text parts of the message, joined by line breaks.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.message.parts.iter().filter_map(Part::as_text).collect();
        texts.join("\n")
    }
}
