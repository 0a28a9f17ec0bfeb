//! Tells what an agent says of its task as the outputs of a turn, each thing once.

use a2a::{Artifact, Message, StreamResponse, Task, TaskState, TaskStatus};
use tokio_util::sync::CancellationToken;

use super::RemoteTask;
use super::machine::artifacts::{Artifacts, Share};
use super::machine::course::is_last;
use super::machine::members::is_made_id;
use crate::agent::{AgentError, Made, Metadata, Output};
use crate::process::seen::SeenMessages;

/// What was told in a turn so far.
pub(super) struct Relay {
    out: Output,
    /// The program's task, until it is terminal.
    pub task: Option<String>,
    /// The task that the message goes on with, as it was known.
    goes_on: Option<RemoteTask>,
    /// Whether the program made a task.
    begun: bool,
    /// Cancelled as soon as the id of the program's task is known.
    named: CancellationToken,
    /// The program's messages that were seen.
    seen: SeenMessages,
    artifacts: Artifacts,
    /// The state and the metadata of the task that were told last.
    state: Option<TaskState>,
    metadata: Option<Metadata>,
    /// How many outputs were told.
    told: u64,
}

impl Relay {
    /// The outputs of a turn that is answered to a message, which goes on with the task that it names; the agent's messages of the
    /// history are known.
    pub fn new(out: Output, sent: &Message, history: &[Message]) -> Relay {
        let (task, named) = (sent.task_id.clone(), CancellationToken::new());
        if task.is_some() {
            named.cancel();
        }
        let goes_on = sent.task_id.clone().map(|task_id| {
            let context_id = sent.context_id.clone().unwrap_or_default();
            RemoteTask { task_id, context_id }
        });
        let (seen, artifacts) = (SeenMessages::of(history, sent), Artifacts::default());
        Relay { out, task, goes_on, begun: false, named, seen, artifacts, state: None, metadata: None, told: 0 }
    }

    /// Cancelled as soon as the id of the program's task is known.
    pub fn named(&self) -> CancellationToken {
        self.named.clone()
    }

    /// How many outputs were told.
    pub fn output_count(&self) -> u64 {
        self.told
    }

    /// How much of what was told an event has; what is no task has nothing of it.
    pub fn share(&self, event: &StreamResponse) -> Share {
        match event {
            StreamResponse::Task(task) => self.artifacts.share(task.artifacts.as_deref().unwrap_or_default()),
            _ => self.artifacts.share(&[]),
        }
    }

    /// Notes the id of the program's task before anything is told of it.
    pub fn note_task(&mut self, task: Option<&str>) {
        if let Some(task) = task {
            self.task = Some(task.to_owned());
            self.named.cancel();
        }
    }

    /// Tells an event.
    ///
    /// # Errors
    /// [`AgentError::Cancelled`].
    pub async fn put(&mut self, event: StreamResponse) -> Result<(), AgentError> {
        match event {
            StreamResponse::Task(task) => self.put_task(task).await,
            StreamResponse::Message(message) => self.tell(Made::Reply(message)).await,
            StreamResponse::StatusUpdate(update) => {
                self.name(update.task_id, update.context_id).await?;
                self.begin(TaskState::Submitted, None).await?;
                self.put_status(update.status, update.metadata).await
            }
            StreamResponse::ArtifactUpdate(update) => {
                self.name(update.task_id, update.context_id).await?;
                self.begin(TaskState::Submitted, None).await?;
                let (append, last) = (update.append.unwrap_or(false), update.last_chunk.unwrap_or(false));
                self.artifacts.note(&update.artifact, append);
                self.tell(Made::Artifact { artifact: update.artifact, append, last }.annotated(update.metadata)).await
            }
        }
    }

    /// Tells a message beside that task as progress.
    ///
    /// # Errors
    /// [`AgentError::Cancelled`].
    pub async fn put_aside(&mut self, message: Message, task: Option<&str>) -> Result<(), AgentError> {
        if let Some(task) = task
            && !self.begun
        {
            let known = self.goes_on.as_ref().filter(|known| known.task_id == task).map(|known| &known.context_id);
            let context = message.context_id.as_ref().filter(|context| !context.is_empty()).or(known);
            let context = context.cloned().unwrap_or_default();
            self.name(task.to_owned(), context).await?;
            self.begin(TaskState::Submitted, None).await?;
        }
        // An event comes once: what says the same again is another message. In a history it is known again by its id.
        if self.seen.mark_seen(&message) || is_made_id(&message.message_id) {
            self.tell(Made::Status(TaskState::Working, Some(message))).await?;
        }
        Ok(())
    }

    async fn put_task(&mut self, mut task: Task) -> Result<(), AgentError> {
        let is_new_word = task.status.message.as_ref().is_some_and(|message| self.seen.mark_seen(message));
        let unseen = self.seen.take_unseen(&mut task);
        self.name(task.id, task.context_id).await?;
        self.put_messages(unseen).await?;
        self.put_news(task.artifacts).await?;
        let (state, first) = (task.status.state.clone(), !self.begun);
        let is_news = if first {
            // The first status of a task is told with its beginning.
            state != TaskState::Working || task.status.message.is_some()
        } else {
            is_last(&state) || is_new_word || self.state.as_ref() != Some(&state)
        };
        if is_news {
            self.put_status(task.status, None).await?;
        }
        if first || (task.metadata.is_some() && task.metadata != self.metadata) {
            self.metadata.clone_from(&task.metadata);
            self.begun = false;
            self.begin(state, task.metadata).await?;
        }
        Ok(())
    }

    /// Tells what is new of the artifacts of a task, and of its history; its state is told by somebody else.
    ///
    /// # Errors
    /// [`AgentError::Cancelled`].
    pub async fn put_artifacts(&mut self, mut task: Task) -> Result<(), AgentError> {
        let unseen = self.seen.take_unseen(&mut task);
        self.name(task.id, task.context_id).await?;
        self.put_messages(unseen).await?;
        self.put_news(task.artifacts).await
    }

    /// Tells what follows what was told of a task that has a gap: nothing that was told is replaced by what may be less.
    ///
    /// # Errors
    /// [`AgentError::Cancelled`].
    pub async fn put_rest(&mut self, mut task: Task) -> Result<(), AgentError> {
        if let Some(artifacts) = &mut task.artifacts {
            artifacts.retain(|artifact| self.artifacts.has_told(artifact));
        }
        self.put_artifacts(task).await
    }

    async fn put_news(&mut self, artifacts: Option<Vec<Artifact>>) -> Result<(), AgentError> {
        for artifact in artifacts.into_iter().flatten() {
            if let Some((artifact, append)) = self.artifacts.news(artifact) {
                self.tell(Made::Artifact { artifact, append, last: true }).await?;
            }
        }
        Ok(())
    }

    /// Tells messages of the program before the status of its task.
    async fn put_messages(&mut self, messages: Vec<Message>) -> Result<(), AgentError> {
        let any = !messages.is_empty();
        for message in messages {
            self.tell(Made::Status(TaskState::Working, Some(message))).await?;
        }
        // Clears the message of the status: the last one is history.
        if any { self.tell(Made::Status(TaskState::Working, None)).await } else { Ok(()) }
    }

    /// Stores the program's ids of the task, once in this turn.
    async fn name(&mut self, task_id: String, context_id: String) -> Result<(), AgentError> {
        if self.begun {
            return Ok(());
        }
        self.task = Some(task_id.clone());
        self.named.cancel();
        self.tell(Made::Remember(RemoteTask { task_id, context_id }.to_string())).await
    }

    /// Tells that the program made a task, once.
    async fn begin(&mut self, state: TaskState, metadata: Option<Metadata>) -> Result<(), AgentError> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        if self.state.is_none() {
            self.state = Some(state.clone());
        }
        self.tell(Made::Begun { state, metadata }).await
    }

    async fn put_status(&mut self, status: TaskStatus, metadata: Option<Metadata>) -> Result<(), AgentError> {
        if let Some(message) = &status.message {
            self.seen.mark_seen(message);
        }
        self.state = Some(status.state.clone());
        let state = match status.state {
            // A task with a message of its agent is being worked on.
            TaskState::Unspecified | TaskState::Submitted if status.message.is_some() => TaskState::Working,
            state => state,
        };
        if matches!(state, TaskState::Unspecified | TaskState::Submitted) {
            return match metadata {
                Some(_) => self.tell(Made::Begun { state, metadata }).await,
                None => Ok(()),
            };
        }
        if state.is_terminal() {
            self.task = None;
        }
        self.tell(Made::Status(state, status.message).annotated(metadata)).await
    }

    async fn tell(&mut self, made: Made) -> Result<(), AgentError> {
        self.told += 1;
        self.out.put(made).await
    }
}
