//! What an agent is to the node: something that is given turns and makes outputs.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use a2a::{Artifact, Message, Part, Role, TaskState};
use futures::future::BoxFuture;
use tokio::sync::mpsc;

use crate::error::AgentError;
use crate::memory::Held;

/// Outputs of one turn that may wait to be taken; beyond, the agent waits.
const OUTPUTS: usize = 32;

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

/// What an agent makes.
#[derive(Debug, Clone, PartialEq)]
pub enum Made {
    /// An artifact, or more of one.
    Artifact {
        /// The artifact, or the parts to append to it.
        artifact: Artifact,
        /// True: append to the artifact of that id.
        append: bool,
        /// True: nothing more will be appended.
        last: bool,
    },
    /// Where the task stands: `WORKING` with a word on progress, or how the turn ends.
    Status(TaskState, Option<Message>),
    /// Something to be kept for the task's next turn; not shown to anybody.
    Remember(String),
    /// An agent that may answer without a task made one. What it put before this is how its task begins.
    Begun {
        /// `SUBMITTED` or `WORKING`; how a turn ends is a status.
        state: TaskState,
        /// The task's `metadata`.
        metadata: Option<Metadata>,
    },
    /// The agent's whole answer, for which it made no task.
    Reply(Message),
    /// A status or an artifact, with the `metadata` of the event that brought it.
    Annotated(Box<Made>, Metadata),
}

impl Made {
    /// The same with the metadata of its event, if that has any.
    #[must_use]
    pub fn annotated(self, metadata: Option<Metadata>) -> Made {
        match metadata {
            Some(metadata) if !metadata.is_empty() => Made::Annotated(Box::new(self), metadata),
            _ => self,
        }
    }
}

/// Where an agent puts what it makes.
#[derive(Debug, Clone)]
pub struct Output {
    sender: mpsc::Sender<Made>,
    /// Told when the first is put.
    first: Option<Arc<First>>,
    /// Holds answers back until they are known to be good.
    held: Option<Held>,
}

/// When a turn's first output came.
#[derive(Debug)]
pub(crate) struct First {
    begun: tokio::time::Instant,
    after: OnceLock<Duration>,
}

impl First {
    pub fn after(&self) -> Option<Duration> {
        self.after.get().copied()
    }
}

/// Where what an agent makes is taken.
pub type Outputs = mpsc::Receiver<Made>;

impl Output {
    /// Both ends.
    #[must_use]
    pub fn channel() -> (Output, Outputs) {
        let (sender, receiver) = mpsc::channel(OUTPUTS);
        (Output { sender, first: None, held: None }, receiver)
    }

    /// The same, watched for its first output from now on.
    pub(crate) fn watched(mut self) -> (Output, Arc<First>) {
        let first = Arc::new(First { begun: tokio::time::Instant::now(), after: OnceLock::new() });
        self.first = Some(first.clone());
        (self, first)
    }

    /// The same, with answers held back.
    pub(crate) fn held(mut self) -> (Output, Held) {
        let held = Held::default();
        self.held = Some(held.clone());
        (self, held)
    }

    /// Hands out `made`; waits while nobody takes it.
    ///
    /// # Errors
    /// [`AgentError::Cancelled`] when nobody will: the agent should stop.
    pub async fn put(&self, made: Made) -> Result<(), AgentError> {
        match &self.held {
            Some(held) => match held.hold(made)? {
                Some(made) => self.send(made).await,
                None => Ok(()),
            },
            None => self.send(made).await,
        }
    }

    /// Hands out what was held back, or need not be.
    pub(crate) async fn send(&self, made: Made) -> Result<(), AgentError> {
        let answers = !matches!(made, Made::Remember(_) | Made::Begun { .. });
        if let (Some(first), true) = (&self.first, answers) {
            first.after.get_or_init(|| first.begun.elapsed());
        }
        self.sender.send(made).await.map_err(|_| AgentError::Cancelled)
    }

    /// A whole artifact of text.
    ///
    /// # Errors
    /// [`AgentError::Cancelled`].
    pub async fn text(&self, artifact_id: &str, text: impl Into<String>) -> Result<(), AgentError> {
        self.chunk(artifact_id, text, false, true).await
    }

    /// A piece of an artifact of text: the first with `append` false, the last with `last` true.
    ///
    /// # Errors
    /// [`AgentError::Cancelled`].
    pub async fn chunk(
        &self,
        artifact_id: &str,
        text: impl Into<String>,
        append: bool,
        last: bool,
    ) -> Result<(), AgentError> {
        let artifact = Artifact {
            artifact_id: artifact_id.to_owned(),
            name: None,
            description: None,
            parts: vec![Part::text(text)],
            metadata: None,
            extensions: None,
        };
        self.put(Made::Artifact { artifact, append, last }).await
    }

    /// Ends the turn with a question: the task waits for the next message.
    ///
    /// # Errors
    /// [`AgentError::Cancelled`].
    pub async fn ask(&self, turn: &Turn, question: impl Into<String>) -> Result<(), AgentError> {
        let mut message = Message::new(Role::Agent, vec![Part::text(question)]);
        message.task_id = Some(turn.task_id.clone());
        message.context_id = Some(turn.context_id.clone());
        self.put(Made::Status(TaskState::InputRequired, Some(message))).await
    }
}
