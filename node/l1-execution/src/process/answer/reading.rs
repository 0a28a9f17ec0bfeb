//! Reads an answer, and asks for its task where it ends before a last state.

use std::fmt::Display;
use std::time::Duration;

use a2a::{Message, StreamResponse, Task, TaskStatus};
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::machine::course::{After, Course, Miss, Next, Verdict};
use super::machine::decoder::{AnswerItem, Decoder, ToldTask};
use super::machine::omissions::{NamedPlaces, Omission, OmissionKind};
use super::machine::words::says_something;
use super::relay::Relay;
use crate::agent::AgentError;

/// How long the rest of a stream is read whose last state was told: its connection can be used again then.
const REST_TIMEOUT: Duration = Duration::from_secs(1);
/// The most that is read of such a rest, bytes.
const REST_BYTES_MAX: usize = 64 << 10;

/// Who tells of an agent's tasks.
pub(super) trait Tasks {
    /// The agent's task as it is now.
    fn task(&self, id: &str) -> impl Future<Output = Result<ToldTask, Miss>> + Send;
}

/// The answer to a message.
pub(super) struct Answer {
    /// The name of who answers, and the task of this node that it answers in, for logs.
    agent: String,
    task: String,
    /// What was left out of it, and named in the log.
    omitted: NamedPlaces,
    relay: Relay,
    course: Course,
    begun: Instant,
    gave_up: bool,
    /// A message that waits until it is known whether there is a task.
    held: Option<Message>,
    /// A last state that waits until nothing is missing before it.
    end: Option<StreamResponse>,
    /// What the agent told of its task with such a state: told where the turn fails, so that what was made is not lost.
    untold: Option<Task>,
}

impl Answer {
    /// None yet; the turn of that agent in that task of this node begins now.
    pub fn new(agent: String, task: String, relay: Relay, course: Course) -> Answer {
        let (omitted, begun) = (NamedPlaces::default(), Instant::now());
        Answer { agent, task, omitted, relay, course, begun, gave_up: false, held: None, end: None, untold: None }
    }

    /// Cancelled as soon as the id of the agent's task is known.
    pub fn named(&self) -> CancellationToken {
        self.relay.named()
    }

    /// Takes the id of the agent's task, if that may still be worked on.
    pub fn take_task(&mut self) -> Option<String> {
        self.relay.task.take()
    }

    /// Whether it failed while the agent still works.
    pub fn gave_up(&self) -> bool {
        self.gave_up
    }

    /// Reads the bytes of an answer until a last state or until their end, however they end, or until its task is to be asked for.
    ///
    /// # Errors
    /// The agent's own error; that it answers with something else.
    pub async fn listen<E: Display + Send + 'static>(
        &mut self,
        mut bytes: impl Stream<Item = Result<Bytes, E>> + Send + Unpin + 'static,
    ) -> Result<(), AgentError> {
        let (mut decoder, mut is_broken) = (Decoder::default(), false);
        while let Some(chunk) = bytes.next().await {
            let chunk = match chunk {
                Ok(chunk) => chunk,
                Err(error) => {
                    tracing::debug!(%error, "an agent's answer broke off");
                    is_broken = true;
                    break;
                }
            };
            for item in decoder.push(&chunk) {
                self.take(item).await?;
            }
            if self.course.is_heard() {
                tokio::spawn(timeout(REST_TIMEOUT, read_rest(bytes)));
                return Ok(());
            }
        }
        if is_broken {
            self.course.break_off();
        }
        for item in decoder.end() {
            match item {
                // Of what broke off nobody expects that it is whole.
                AnswerItem::Foreign(skipped) if is_broken => self.course.note_gap(skipped),
                item => self.take(item).await?,
            }
        }
        Ok(())
    }

    async fn take(&mut self, item: AnswerItem) -> Result<(), AgentError> {
        match item {
            AnswerItem::Details(omissions) => {
                self.name_omissions(&omissions);
                Ok(())
            }
            _ if self.course.is_heard() => Ok(()),
            AnswerItem::Event(event) => self.take_event(*event).await,
            AnswerItem::Refusal(error) => self.course.refuse(error),
            AnswerItem::Foreign(skipped) => self.course.note_foreign(skipped),
            AnswerItem::Named(skipped) | AnswerItem::Piece(skipped) => {
                self.course.note_gap(skipped);
                Ok(())
            }
            AnswerItem::Endless => self.course.endless(),
        }
    }

    /// Names in the log what was left out, the first time: what people would have read to the node's owner.
    fn name_omissions(&mut self, omissions: &[Omission]) {
        let (agent, task) = (self.agent.as_str(), self.task.as_str());
        for omission in omissions {
            if !self.omitted.note(omission) {
                continue;
            }
            match omission.kind {
                OmissionKind::Detail => {
                    tracing::debug!(agent, task, at = %omission, "a member of an agent's answer is not as A2A 1.0 has it");
                }
                OmissionKind::Message | OmissionKind::LastWord | OmissionKind::Artifact => {
                    tracing::info!(agent, task, at = %omission, "a part of an agent's answer cannot be read, and is left out");
                }
            }
        }
    }

    async fn take_event(&mut self, event: StreamResponse) -> Result<(), AgentError> {
        match (self.course.hear(&event, self.relay.share(&event)), event) {
            (Verdict::Take, event) => {
                self.put_held().await?;
                self.relay.put(event).await
            }
            (Verdict::Aside, StreamResponse::Message(message)) => {
                self.put_held().await?;
                self.relay.put_aside(message, self.course.task()).await
            }
            (Verdict::Hold, StreamResponse::Message(message)) => {
                self.relay.note_task(self.course.task());
                self.held = Some(message);
                Ok(())
            }
            (Verdict::Withhold, mut event) => {
                self.put_held().await?;
                self.relay.note_task(self.course.task());
                if let StreamResponse::Task(task) = &mut event {
                    // Those of the task that is asked for are told.
                    let artifacts = task.artifacts.take();
                    self.untold = Some(Task { artifacts, ..task.clone() });
                }
                self.end = Some(event);
                Ok(())
            }
            (Verdict::Aside | Verdict::Hold | Verdict::Pass, _) => Ok(()),
        }
    }

    /// Tells the message that waited: it is one beside a task.
    async fn put_held(&mut self) -> Result<(), AgentError> {
        match self.held.take() {
            Some(message) => self.relay.put_aside(message, self.course.task()).await,
            None => Ok(()),
        }
    }

    /// Asks for the task until its last state was told, where the answer ended before, or something of it may be missing.
    ///
    /// # Errors
    /// Its answer ended while it worked, or has a gap, and asking does not help; the agent's own error.
    pub async fn follow(&mut self, tasks: &impl Tasks) -> Result<(), AgentError> {
        let mut after = After::Answer;
        loop {
            match self.course.next(after, self.begun.elapsed()) {
                Next::Done => {
                    return match self.held.take() {
                        Some(message) => self.relay.put(StreamResponse::Message(message)).await,
                        None => Ok(()),
                    };
                }
                Next::Fail(error) => return self.fail(error).await,
                Next::GiveUp(error) => {
                    self.gave_up = true;
                    return self.fail(error).await;
                }
                Next::Ask { task, pause } => {
                    sleep(pause).await;
                    after = match tasks.task(&task).await {
                        Ok(task) => self.hear_task(task).await?,
                        Err(miss) => After::Missed(miss),
                    };
                }
            }
        }
    }

    /// Tells what waited before the turn fails.
    async fn fail(&mut self, error: AgentError) -> Result<(), AgentError> {
        self.put_held().await?;
        if let Some(task) = self.untold.take() {
            self.relay.put_rest(task).await?;
        }
        Err(error)
    }

    async fn hear_task(&mut self, told: ToldTask) -> Result<After, AgentError> {
        self.name_omissions(&told.omissions);
        let ToldTask { task, gap, .. } = told;
        if let Some(gap) = gap.filter(|_| self.course.task() == Some(task.id.as_str())) {
            self.course.note_gap(gap);
        }
        let (before, state) = (self.relay.output_count(), task.status.state.clone());
        let has_word = says_something(&task.status);
        let event = StreamResponse::Task(task);
        match self.course.hear(&event, self.relay.share(&event)) {
            Verdict::Take => {}
            Verdict::Withhold => {
                if let StreamResponse::Task(task) = event {
                    self.untold = Some(task);
                }
                return Ok(After::Told { changed: false });
            }
            Verdict::Aside | Verdict::Hold | Verdict::Pass => {
                return Ok(After::Missed(Miss::Now("it told of another task".to_owned())));
            }
        }
        self.put_held().await?;
        self.untold = None;
        let says_it = |status: &TaskStatus| status.state == state && (says_something(status) || !has_word);
        match (self.end.take_if(|end| status_of(end).is_some_and(says_it)), event) {
            // What the agent said with that state is told as it said it.
            (Some(end), StreamResponse::Task(task)) => {
                self.relay.put_artifacts(task).await?;
                self.relay.put(end).await?;
            }
            (_, event) => self.relay.put(event).await?,
        }
        Ok(After::Told { changed: self.relay.output_count() > before })
    }
}

/// The status that an event tells, if it does.
fn status_of(event: &StreamResponse) -> Option<&TaskStatus> {
    match event {
        StreamResponse::Task(task) => Some(&task.status),
        StreamResponse::StatusUpdate(update) => Some(&update.status),
        StreamResponse::Message(_) | StreamResponse::ArtifactUpdate(_) => None,
    }
}

/// Reads what follows the last state.
async fn read_rest<E>(mut bytes: impl Stream<Item = Result<Bytes, E>> + Unpin) {
    let mut read = 0;
    while let Some(Ok(chunk)) = bytes.next().await
        && read < REST_BYTES_MAX
    {
        read += chunk.len();
    }
}
