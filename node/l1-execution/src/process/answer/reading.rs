//! Reads an answer, and asks for its task where it ends before a last state.

use std::fmt::Display;
use std::time::Duration;

use a2a::{StreamResponse, Task};
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::machine::course::{After, Course, Miss, Next, Verdict};
use super::machine::decoder::{Decoder, Said};
use super::relay::Relay;
use crate::agent::AgentError;

/// How long the rest of a stream is read whose last state was told: its connection can be used again then.
const REST_TIMEOUT: Duration = Duration::from_secs(1);
/// The most that is read of such a rest, bytes.
const REST_BYTES_MAX: usize = 64 << 10;

/// Who tells of an agent's tasks.
pub(super) trait Tasks {
    /// The agent's task as it is now.
    fn task(&self, id: &str) -> impl Future<Output = Result<Task, Miss>> + Send;
}

/// The answer to a message.
pub(super) struct Answer {
    relay: Relay,
    course: Course,
    begun: Instant,
    gave_up: bool,
}

impl Answer {
    /// None yet; the turn begins now.
    pub fn new(relay: Relay, course: Course) -> Answer {
        Answer { relay, course, begun: Instant::now(), gave_up: false }
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

    /// Reads the bytes of an answer until a last state or until their end, however they end.
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
            for said in decoder.push(&chunk)? {
                self.take(said).await?;
            }
            if self.course.is_over() {
                tokio::spawn(timeout(REST_TIMEOUT, read_rest(bytes)));
                return Ok(());
            }
        }
        for said in decoder.end() {
            // Of what broke off nobody expects that it is whole.
            if !(is_broken && matches!(said, Said::Odd(_))) {
                self.take(said).await?;
            }
        }
        Ok(())
    }

    async fn take(&mut self, said: Said) -> Result<(), AgentError> {
        match said {
            _ if self.course.is_over() => Ok(()),
            Said::Event(event) => match (self.course.hear(&event), *event) {
                (Verdict::Take, event) => self.relay.put(event).await,
                (Verdict::Aside, StreamResponse::Message(message)) => self.relay.put_aside(message).await,
                (Verdict::Aside | Verdict::Pass, _) => Ok(()),
            },
            Said::Refusal(error) => Err(error),
            Said::Odd(what) => self.course.odd(what),
        }
    }

    /// Asks for the task until its last state was told, where the answer ended before.
    ///
    /// # Errors
    /// Its answer ended while it worked, and asking does not help.
    pub async fn follow(&mut self, tasks: &impl Tasks) -> Result<(), AgentError> {
        let mut after = After::Answer;
        loop {
            match self.course.next(after, self.begun.elapsed()) {
                Next::Done => return Ok(()),
                Next::Fail(error) => return Err(error),
                Next::GiveUp(error) => {
                    self.gave_up = true;
                    return Err(error);
                }
                Next::Ask { task, pause } => {
                    sleep(pause).await;
                    after = match tasks.task(&task).await {
                        Ok(task) => self.told(task).await?,
                        Err(miss) => After::Missed(miss),
                    };
                }
            }
        }
    }

    async fn told(&mut self, task: Task) -> Result<After, AgentError> {
        let (before, event) = (self.relay.told(), StreamResponse::Task(task));
        if self.course.hear(&event) != Verdict::Take {
            return Ok(After::Missed(Miss::Now("it told of another task".to_owned())));
        }
        self.relay.put(event).await?;
        Ok(After::Told { changed: self.relay.told() > before })
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
