//! What an agent emits during a turn, and the output gate that withholds it until it is checked.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use a2a::{Artifact, Message, Part, Role, TaskState};
use tokio::sync::mpsc;

use super::error::AgentError;
use super::{Metadata, Turn};

/// Outputs of one turn that are queued; beyond that the agent waits.
const OUTPUTS: usize = 32;
/// Withheld outputs of one turn, bytes of JSON.
const WITHHELD_BYTES_MAX: usize = 2 << 20;

/// One output of an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Made {
    /// An artifact, or a piece of one.
    Artifact {
        /// The artifact, or the parts to append to it.
        artifact: Artifact,
        /// True: append to the artifact of that id.
        append: bool,
        /// True: this is the last piece.
        last: bool,
    },
    /// The status of the task: `WORKING` with a progress message, or the end of the turn.
    Status(TaskState, Option<Message>),
    /// State for the next turn of the task; shown to nobody.
    Remember(String),
    /// An agent that may answer without a task created one. Earlier outputs are part of its beginning.
    Begun {
        /// `SUBMITTED` or `WORKING`; the end of a turn is a status.
        state: TaskState,
        /// The task's `metadata`.
        metadata: Option<Metadata>,
    },
    /// The complete answer of an agent that created no task.
    Reply(Message),
    /// A status or an artifact, with the `metadata` of its event.
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

/// The sending end: what an agent emits in a turn.
#[derive(Debug, Clone)]
pub struct Output {
    sender: mpsc::Sender<Made>,
    /// Records when the first output is emitted.
    first: Option<Arc<FirstOutput>>,
    /// Withholds answers until they are checked.
    withheld: Option<Withheld>,
}

/// The time until a turn's first output.
#[derive(Debug)]
pub(crate) struct FirstOutput {
    begun: tokio::time::Instant,
    after: OnceLock<Duration>,
}

impl FirstOutput {
    pub fn after(&self) -> Option<Duration> {
        self.after.get().copied()
    }
}

/// Outputs of a turn that the gate withholds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Withheld(Arc<Mutex<Outbox>>);

#[derive(Debug, Default)]
struct Outbox {
    made: Vec<Made>,
    bytes: usize,
}

impl Withheld {
    /// Withholds an answer or a part of one; gives back what passes the gate at once.
    fn hold(&self, made: Made) -> Result<Option<Made>, AgentError> {
        let made = match made {
            Made::Annotated(made, _) => *made,
            made => made,
        };
        let bytes = match &made {
            // State for the next turn is shown to nobody; a progress message could carry a part of an answer.
            Made::Remember(_) => return Ok(Some(made)),
            // Metadata is content without a citation.
            Made::Begun { state, .. } => return Ok(Some(Made::Begun { state: state.clone(), metadata: None })),
            Made::Status(TaskState::Working, _) => return Ok(None),
            Made::Status(_, message) => serde_json::to_vec(message).map_or(0, |json| json.len()),
            Made::Reply(message) => serde_json::to_vec(message).map_or(0, |json| json.len()),
            Made::Artifact { artifact, .. } => serde_json::to_vec(artifact).map_or(0, |json| json.len()),
            Made::Annotated(..) => return Err(AgentError::Failed("metadata has metadata".to_owned())),
        };
        let mut withheld = self.0.lock().expect("no holder of the withheld outputs panics");
        withheld.bytes += bytes;
        if withheld.bytes > WITHHELD_BYTES_MAX {
            return Err(AgentError::Failed(format!("its answer has more than {WITHHELD_BYTES_MAX} bytes")));
        }
        withheld.made.push(made);
        Ok(None)
    }

    /// Takes the withheld outputs.
    pub fn take(&self) -> Vec<Made> {
        std::mem::take(&mut self.0.lock().expect("no holder of the withheld outputs panics").made)
    }
}

/// The receiving end of [`Output`].
pub type Outputs = mpsc::Receiver<Made>;

impl Output {
    /// Both ends.
    #[must_use]
    pub fn channel() -> (Output, Outputs) {
        let (sender, receiver) = mpsc::channel(OUTPUTS);
        (Output { sender, first: None, withheld: None }, receiver)
    }

    /// Measures the time from now until the first output.
    pub(crate) fn timed(mut self) -> (Output, Arc<FirstOutput>) {
        let first = Arc::new(FirstOutput { begun: tokio::time::Instant::now(), after: OnceLock::new() });
        self.first = Some(first.clone());
        (self, first)
    }

    /// Withholds answers from now on.
    pub(crate) fn withholding(mut self) -> (Output, Withheld) {
        let withheld = Withheld::default();
        self.withheld = Some(withheld.clone());
        (self, withheld)
    }

    /// Emits `made`; waits while the queue is full.
    ///
    /// # Errors
    /// [`AgentError::Cancelled`] when the receiver is gone: the agent should stop.
    pub async fn put(&self, made: Made) -> Result<(), AgentError> {
        match &self.withheld {
            Some(withheld) => match withheld.hold(made)? {
                Some(made) => self.send(made).await,
                None => Ok(()),
            },
            None => self.send(made).await,
        }
    }

    /// Emits `made` past the gate.
    pub(crate) async fn send(&self, made: Made) -> Result<(), AgentError> {
        let answers = !matches!(made, Made::Remember(_) | Made::Begun { .. });
        if let (Some(first), true) = (&self.first, answers) {
            first.after.get_or_init(|| first.begun.elapsed());
        }
        self.sender.send(made).await.map_err(|_| AgentError::Cancelled)
    }

    /// Emits a whole text artifact.
    ///
    /// # Errors
    /// [`AgentError::Cancelled`].
    pub async fn text(&self, artifact_id: &str, text: impl Into<String>) -> Result<(), AgentError> {
        self.chunk(artifact_id, text, false, true).await
    }

    /// Emits a piece of a text artifact: the first with `append` false, the last with `last` true.
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
