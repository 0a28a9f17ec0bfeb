//! One invocation of the `chat` action: sends the message, follows the answer, and tells observers of it. HTTP and
//! WebSocket share it.

use std::sync::Arc;
use std::time::Duration;

use althing_calls::{
    CallRequest, Callee, Operation, OperationError, OperationRequest, Principal, Refusal, Reply, Trace,
};
use althing_protocol::AgentId;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use super::answer::Answer;
use super::chat::Chat;
use super::problem;
use crate::Gateway;
use crate::client::Client;
use crate::response_budget::{Account, Full, Share};

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
pub(super) struct Progress {
    /// What the agent answered so far; complete once `ended`.
    pub answer: Answer,
    /// Whether no more comes, and why if something failed.
    pub ended: Option<Result<(), OperationError>>,
    /// The room that the answer takes.
    share: Share,
}

/// An invocation that runs. The agent goes on working if this is dropped once its task has an id; before, it gives up after a
/// minute.
pub(super) struct Invocation {
    progress: watch::Receiver<Progress>,
    begun: Instant,
    turn: Option<String>,
}

/// A message that can be sent: its bytes alone are kept while the agent is looked for.
pub(super) struct Message {
    params: Vec<u8>,
    turn: Option<String>,
    share: Share,
}

impl Message {
    /// The message of an action's input.
    ///
    /// # Errors
    /// When the client has no room for it.
    pub fn new(gateway: &Gateway, chat: &Chat, account: &Account) -> Result<Message, OperationError> {
        Message::of(&chat.params(&gateway.calls.new_id()), chat.turn.clone(), account)
    }

    /// The message with these parameters of SendStreamingMessage.
    ///
    /// # Errors
    /// When the client has no room for it.
    pub fn of(params: &Value, turn: Option<String>, account: &Account) -> Result<Message, OperationError> {
        let params = params.to_string().into_bytes();
        let share = account.hold(params.len())?;
        Ok(Message { params, turn, share })
    }
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
        message: Message,
        client: &Client,
        trace: Trace,
    ) -> Result<Invocation, OperationError> {
        let target = client.target(&gateway.calls, &Callee::Id(agent.clone())).await?;
        let places = gateway.wot.invocations.0.clone();
        let busy = |_| OperationError::busy(format!("{INVOCATIONS_MAX} invocations are running; try again"));
        let place = places.try_acquire_owned().map_err(busy)?;
        let begun = Instant::now();
        let Message { params, turn, mut share } = message;
        let request = OperationRequest::parse(Operation::SendStreamingMessage, params)?;
        let request = CallRequest::new(target, request, vec![client.principal.clone()]).in_trace(trace);
        let events = match gateway.calls.ask(request).await? {
            Reply::Events(events) => events,
            Reply::One(event) => futures::stream::iter([Ok(event)]).boxed(),
        };
        share.resize(0)?;
        let (tell, progress) = watch::channel(Progress { answer: Answer::default(), ended: None, share });
        let follow = Follow {
            gateway: gateway.clone(),
            agent: agent.clone(),
            of: client.principal.clone(),
            turn: turn.clone(),
            tell,
            place,
        };
        tokio::spawn(follow.run(events));
        Ok(Invocation { progress, begun, turn })
    }

    /// The id of its task, once it is known; none if there is no task.
    pub async fn task(&mut self) -> Option<String> {
        let known = |progress: &Progress| progress.answer.task.is_some() || progress.ended.is_some();
        let progress = self.progress.wait_for(known).await;
        progress.ok().and_then(|progress| progress.answer.task.clone())
    }

    /// The output of `chat`, once the answer is complete; waits no longer than `limit`.
    pub async fn output(&mut self, limit: Duration) -> Option<Result<Value, Failed>> {
        let (begun, turn) = (self.begun, self.turn.clone());
        self.ended(limit, |answer| answer.output(turn.as_deref(), begun.elapsed().as_secs_f64())).await
    }

    /// What `read` makes of the answer, once it is complete and no failure; waits no longer than `limit`.
    pub async fn ended<T>(&mut self, limit: Duration, read: impl FnOnce(&Answer) -> T) -> Option<Result<T, Failed>> {
        let ended = self.progress.wait_for(|progress| progress.ended.is_some());
        let progress = tokio::time::timeout(limit, ended).await.ok()?;
        let Ok(progress) = progress else {
            return Some(Err(Failed::Call(OperationError::internal("an invocation ended without a word"))));
        };
        if let Some(Err(error)) = &progress.ended {
            return Some(Err(Failed::Call(error.clone())));
        }
        Some(Failed::check(&progress.answer).map(|()| read(&progress.answer)))
    }
}

/// Why an invocation has no output.
#[derive(Debug)]
pub(super) enum Failed {
    Call(OperationError),
    /// The agent failed, rejected or cancelled its task.
    Task {
        how: &'static str,
        why: String,
        task: Option<String>,
    },
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
    pub fn problem(&self) -> (axum::http::StatusCode, String, String) {
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

impl From<Full> for Failed {
    fn from(full: Full) -> Failed {
        Failed::Call(full.into())
    }
}

impl From<OperationError> for Failed {
    fn from(error: OperationError) -> Failed {
        Failed::Call(error)
    }
}

/// Why an event was not taken.
enum Untaken {
    Odd(String),
    Full(Full),
}

impl Progress {
    /// Takes an event, and keeps of the answer what somebody may read.
    fn take(&mut self, event: &[u8], turn: Option<&str>, unread: bool) -> Result<Value, Untaken> {
        let told = self.answer.take(event, turn).map_err(Untaken::Odd)?;
        if unread {
            self.answer.forget();
        }
        if let Err(full) = self.share.resize(self.answer.bytes()) {
            self.answer.forget();
            return Err(Untaken::Full(full));
        }
        Ok(told)
    }
}

/// What follows an answer to its end.
struct Follow {
    gateway: Arc<Gateway>,
    agent: AgentId,
    /// Whose task it is.
    of: Principal,
    turn: Option<String>,
    tell: watch::Sender<Progress>,
    place: OwnedSemaphorePermit,
}

impl Follow {
    async fn run(self, mut events: Events) {
        let Follow { gateway, agent, of, turn, tell, place } = self;
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
            let mut taken = Err(Untaken::Odd(String::new()));
            let unread = tell.is_closed();
            tell.send_modify(|progress| taken = progress.take(&event, turn.as_deref(), unread));
            match taken {
                Ok(told) => gateway.wot.bus.tell(&agent, &of, &told),
                Err(Untaken::Full(full)) => break Err(full.into()),
                Err(Untaken::Odd(error)) => {
                    break Err(OperationError::invalid_agent_response(format!("{agent} answered oddly: {error}")));
                }
            }
        };
        let ended = match ended {
            Ok(()) if tell.borrow().answer.is_running() => {
                let message = format!("the answer of {agent} broke off; its task may still run");
                Err(OperationError { refusal: Refusal::AgentUnreachable, message, details: Vec::new(), remedy: None })
            }
            ended => ended,
        };
        tell.send_modify(|progress| progress.ended = Some(ended));
        drop(place);
    }
}
