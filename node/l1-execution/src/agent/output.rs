//! What an agent emits during a turn.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use a2a::{Artifact, Message, Part, Role, TaskState};
use tokio::sync::mpsc;

use super::Turn;
use super::error::AgentError;
use super::gate::{Gates, OutputGate};
use super::made::Made;
use super::repair::Repair;

/// Outputs of one turn that are queued; beyond that the agent waits.
const OUTPUTS: usize = 32;

/// The sending end: what an agent emits in a turn.
#[derive(Debug, Clone)]
pub struct Output {
    sender: mpsc::Sender<Made>,
    /// Records when the first output is emitted.
    first: Option<Arc<FirstOutput>>,
    /// Holds outputs back until they are checked.
    gates: Option<Arc<Gates>>,
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

/// The receiving end of [`Output`].
pub type Outputs = mpsc::Receiver<Made>;

impl Output {
    /// Both ends.
    #[must_use]
    pub fn channel() -> (Output, Outputs) {
        let (sender, receiver) = mpsc::channel(OUTPUTS);
        (Output { sender, first: None, gates: None }, receiver)
    }

    /// Measures the time from now until the first output.
    pub(crate) fn timed(mut self) -> (Output, Arc<FirstOutput>) {
        let first = Arc::new(FirstOutput { begun: tokio::time::Instant::now(), after: OnceLock::new() });
        self.first = Some(first.clone());
        (self, first)
    }

    /// Lets all outputs pass these gates from now on; what they hold back is shown by [`Output::release`].
    pub(crate) fn gated(mut self, gates: Vec<Box<dyn OutputGate>>) -> Output {
        self.gates = Some(Arc::new(Gates::new(gates)));
        self
    }

    /// Whether the agent may hear the message of a turn.
    pub(crate) fn admit(&self, message: &Message) -> Result<(), AgentError> {
        self.gates.as_ref().map_or(Ok(()), |gates| gates.admit(message))
    }

    /// Whether the agent may ever answer again in the same turn.
    pub(crate) fn may_repair(&self) -> bool {
        self.gates.as_ref().is_some_and(|gates| gates.may_repair())
    }

    /// What the agent is told of what was refused, if it may answer again.
    pub(crate) fn repair(&self) -> Option<Repair> {
        self.gates.as_ref()?.repair()
    }

    /// Ends a turn: emits what its gates release. `ended` is how the turn ended by itself.
    pub(crate) async fn release(&self, ended: Result<(), AgentError>) -> Result<(), AgentError> {
        let Some(gates) = &self.gates else { return ended };
        // It has not ended: what is held back of it is made again when it goes on.
        if ended.as_ref().is_err_and(AgentError::is_interruption) {
            return ended;
        }
        ended.map_err(|error| gates.failure(error))?;
        for made in gates.release().await? {
            self.send(made).await?;
        }
        Ok(())
    }

    /// Emits `made`; waits while the queue is full.
    ///
    /// # Errors
    /// [`AgentError::Cancelled`] when the receiver is gone: the agent should stop. [`AgentError::Failed`] where more would be
    /// held back of the turn than may be.
    pub async fn put(&self, made: Made) -> Result<(), AgentError> {
        match &self.gates {
            Some(gates) => match gates.hold(made)? {
                Some(made) => self.send(made).await,
                None => Ok(()),
            },
            None => self.send(made).await,
        }
    }

    /// Emits `made` past the gates.
    async fn send(&self, made: Made) -> Result<(), AgentError> {
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
