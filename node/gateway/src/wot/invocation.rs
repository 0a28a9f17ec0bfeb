//! One invocation of the `chat` action: sends the message, follows the answer, and tells observers of it. HTTP and
//! WebSocket share it.

use std::sync::Arc;
use std::time::Duration;

use althing_calls::{CallRequest, Operation, OperationError, OperationRequest, Refusal, Reply, Trace};
use althing_protocol::AgentId;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use super::chat::{Answer, Chat};
use super::problem;
use crate::Gateway;

/// Invocations that are followed at one time; each holds the answer that it has so far.
const INVOCATIONS_MAX: usize = 512;

/// The places of running invocations.
pub(super) struct Invocations(Arc<Semaphore>);

impl Default for Invocations {
    fn default() -> Invocations {
        Invocations(Arc::new(Semaphore::new(INVOCATIONS_MAX)))
    }
}

impl Invocations {
    /// How many there are.
    pub fn running(&self) -> usize {
        INVOCATIONS_MAX - self.0.available_permits()
    }
}

/// How far an invocation is.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    /// What the agent answered so far; complete once `ended`.
    pub answer: Answer,
    /// Whether no more comes, and why if something failed.
    pub ended: Option<Result<(), OperationError>>,
}

/// An invocation that runs. The agent goes on working if this is dropped once its task has an id; before, it gives up.
pub(super) struct Invocation {
    progress: watch::Receiver<Progress>,
    begun: Instant,
    turn: Option<String>,
}

type Events = BoxStream<'static, Result<Vec<u8>, OperationError>>;

impl Invocation {
    /// Sends the message.
    ///
    /// # Errors
    /// Why it was not taken.
    pub async fn begin(
        gateway: &Arc<Gateway>,
        agent: &AgentId,
        chat: Chat,
        trace: Trace,
    ) -> Result<Invocation, OperationError> {
        let places = gateway.wot.invocations.0.clone();
        let busy = |_| OperationError::busy(format!("{INVOCATIONS_MAX} invocations are running; try again"));
        let place = places.try_acquire_owned().map_err(busy)?;
        let begun = Instant::now();
        let params = chat.params(&gateway.calls.new_id()).to_string().into_bytes();
        let request = OperationRequest::parse(Operation::SendStreamingMessage, params)?;
        let request = CallRequest::new(agent.clone(), request, vec![gateway.principal()]).in_trace(trace);
        let events = match gateway.calls.ask(request).await? {
            Reply::Events(events) => events,
            Reply::One(event) => futures::stream::iter([Ok(event)]).boxed(),
        };
        let (tell, progress) = watch::channel(Progress::default());
        let follow = Follow { gateway: gateway.clone(), agent: agent.clone(), turn: chat.turn.clone(), tell, place };
        tokio::spawn(follow.run(events));
        Ok(Invocation { progress, begun, turn: chat.turn })
    }

    /// The id of its task, once it is known; none if there is no task.
    pub async fn task(&mut self) -> Option<String> {
        let known = |progress: &Progress| progress.answer.task.is_some() || progress.ended.is_some();
        let progress = self.progress.wait_for(known).await;
        progress.ok().and_then(|progress| progress.answer.task.clone())
    }

    /// The output, once the answer is complete; waits no longer than `limit`.
    pub async fn output(&mut self, limit: Duration) -> Option<Result<Value, Failed>> {
        let ended = self.progress.wait_for(|progress| progress.ended.is_some());
        let progress = tokio::time::timeout(limit, ended).await.ok()?;
        let Ok(progress) = progress else {
            return Some(Err(Failed::Call(OperationError::internal("an invocation ended without a word"))));
        };
        if let Some(Err(error)) = &progress.ended {
            return Some(Err(Failed::Call(error.clone())));
        }
        let seconds = self.begun.elapsed().as_secs_f64();
        Some(Failed::check(&progress.answer).map(|()| progress.answer.output(self.turn.as_deref(), seconds)))
    }
}

/// Why an invocation has no output.
#[derive(Debug)]
pub(super) enum Failed {
    /// The call failed.
    Call(OperationError),
    /// The agent failed, rejected or cancelled its task.
    Task { how: &'static str, why: String, task: Option<String> },
}

impl Failed {
    /// Whether a complete answer is an output.
    pub fn check(answer: &Answer) -> Result<(), Failed> {
        match answer.failure() {
            Some(how) => Err(Failed::Task { how, why: answer.last_words(), task: answer.task.clone() }),
            None => Ok(()),
        }
    }

    /// Status, reason and detail, as problem details have them.
    pub fn told(&self) -> (axum::http::StatusCode, String, String) {
        use axum::http::StatusCode;
        match self {
            Failed::Call(error) => (problem::status(&error.refusal), error.reason().to_owned(), error.message.clone()),
            Failed::Task { how, why, task } => {
                let status = match *how {
                    "canceled" => StatusCode::CONFLICT,
                    "rejected" => StatusCode::UNPROCESSABLE_ENTITY,
                    _ => StatusCode::INTERNAL_SERVER_ERROR,
                };
                let task = task.as_deref().map_or_else(String::new, |task| format!(" {task}"));
                let why = if why.is_empty() { String::new() } else { format!(": {why}") };
                let detail = format!("the agent's task{task} was {how}{why}").replace("was failed", "failed");
                (status, format!("TASK_{}", how.to_ascii_uppercase()), detail)
            }
        }
    }
}

impl From<OperationError> for Failed {
    fn from(error: OperationError) -> Failed {
        Failed::Call(error)
    }
}

/// What follows an answer to its end.
struct Follow {
    gateway: Arc<Gateway>,
    agent: AgentId,
    turn: Option<String>,
    tell: watch::Sender<Progress>,
    place: OwnedSemaphorePermit,
}

impl Follow {
    async fn run(self, mut events: Events) {
        let Follow { gateway, agent, turn, tell, place } = self;
        let ended = loop {
            let event = tokio::select! {
                event = events.next() => event,
                // Whoever asked is gone, and nobody could find the task.
                () = tell.closed(), if tell.borrow().answer.task.is_none() => return,
            };
            let event = match event {
                Some(Ok(event)) => event,
                Some(Err(error)) => break Err(error),
                None => break Ok(()),
            };
            let mut taken = Err(String::new());
            tell.send_modify(|progress| taken = progress.answer.take(&event, turn.as_deref()));
            match taken {
                Ok(told) => gateway.wot.bus.tell(&agent, &told),
                Err(error) => {
                    break Err(OperationError::invalid_agent_response(format!("{agent} answered oddly: {error}")));
                }
            }
        };
        let ended = match ended {
            Ok(()) if tell.borrow().answer.is_running() => {
                let message = format!("the answer of {agent} broke off; its task may still run");
                Err(OperationError { refusal: Refusal::AgentUnreachable, message, details: Vec::new() })
            }
            ended => ended,
        };
        tell.send_modify(|progress| progress.ended = Some(ended));
        drop(place);
    }
}
