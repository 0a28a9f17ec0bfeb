//! The answer of an agent's program or server to one message: it is sent, read, and followed until a last state. What arrives
//! is told at once; what is decided about it is in `machine`.

mod machine;
mod reading;
mod relay;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use a2a::{Message, error_code, methods};
use reqwest::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::agent::{AgentError, Output, Parameters, Turn};
use crate::lenient_json;
use crate::process::client::{Client, PROGRAM_ENDED, whole};
use crate::process::text::unmarked;
use machine::course::{Course, Miss};
use machine::decoder::{self, ToldTask};
use reading::{Answer, Tasks};
use relay::Relay;

/// How long a program may take to answer a cancellation.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// How answers begin that refuse a request whenever it is made.
const REFUSALS: [&str; 5] = ["HTTP 401", "HTTP 403", "HTTP 404", "HTTP 405", "HTTP 410"];
/// How long it may take to tell of a task.
const TELL_TIMEOUT: Duration = Duration::from_secs(30);

/// The program's ids of a task, kept between the turns of the task.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RemoteTask {
    task_id: String,
    context_id: String,
}

impl fmt::Display for RemoteTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", json!(self))
    }
}

/// Sends one message to the program of the agent of that name, and tells its outputs until the answer is complete.
///
/// # Errors
/// The program's own error; that its answer ended while it worked, or has a gap, and asking for its task did not help.
pub(super) async fn turn(client: Client, agent: &str, turn: Turn, out: Output) -> Result<(), AgentError> {
    let remote: Option<RemoteTask> = turn.remembered.as_deref().and_then(|kept| serde_json::from_str(kept).ok());
    let mut message = turn.message;
    let context = remote.as_ref().map(|remote| remote.context_id.clone()).filter(|context| !context.is_empty());
    message.context_id = Some(context.unwrap_or(turn.context_id));
    message.task_id = remote.map(|remote| remote.task_id);
    let parameters = turn.parameters;
    let relay = Relay::new(out, &message, &turn.history);
    let course = Course::new(message.task_id.clone(), parameters.within);
    // A task of its own, so that a turn that is dropped before the program answers can still be cancelled there.
    let stop = CancellationToken::new();
    let dropped = stop.clone().drop_guard();
    let answer = Answer::new(agent.to_owned(), turn.task_id, relay, course);
    let running = RunningTurn { peer: Peer { client, parameters }, answer };
    let ended = tokio::spawn(running.until_stopped(message, stop)).await;
    drop(dropped);
    ended.unwrap_or_else(|error| Err(AgentError::internal("the turn broke off", error)))
}

/// Cancels the program's task while no turn runs; gives its message. If the program does not know the task or does not
/// answer, there is nothing to stop.
///
/// # Errors
/// The program's own error.
pub(super) async fn cancel(
    client: &Client,
    remembered: &str,
    parameters: &Parameters,
) -> Result<Option<Message>, AgentError> {
    let Ok(remote) = serde_json::from_str::<RemoteTask>(remembered) else { return Ok(None) };
    let mut request = json!({ "id": remote.task_id });
    if let Some(metadata) = &parameters.metadata {
        request["metadata"] = json!(metadata);
    }
    let answer = match timeout(CANCEL_TIMEOUT, ask(client, methods::CANCEL_TASK, request, parameters)).await {
        Ok(Err(error @ AgentError::Refused { code, .. })) if code != error_code::TASK_NOT_FOUND => {
            return Err(error);
        }
        Ok(answer) => answer,
        Err(_) => Err(AgentError::Failed(format!("no answer within {CANCEL_TIMEOUT:?}"))),
    };
    let task = answer.and_then(|task| decoder::task(task).map_err(AgentError::NotA2a));
    let task = task.inspect_err(|reason| tracing::debug!(%reason, "agent's program did not cancel its task"));
    Ok(task.ok().and_then(|told| told.task.status.message))
}

/// The result of an operation that answers once.
async fn ask(client: &Client, method: &str, params: Value, parameters: &Parameters) -> Result<Value, AgentError> {
    let answer = accepted(client.post(method, params, parameters).await?).await?;
    let answer = lenient_json::parse(unmarked(&whole(answer).await?));
    decoder::result(answer.map_err(|_| AgentError::NotA2a("something else than A2A: it is no JSON".to_owned()))?)
}

/// An answer whose status says that it is one; else the error in it.
async fn accepted(answer: Response) -> Result<Response, AgentError> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let said = lenient_json::parse(unmarked(&whole(answer).await?)).ok();
    let refusal = said.and_then(|said| decoder::result(said).err());
    let refusal = refusal.filter(|refusal| !matches!(refusal, AgentError::NotA2a(_)));
    Err(refusal.unwrap_or_else(|| AgentError::NotA2a(format!("HTTP {status}"))))
}

/// The program that is asked, with what was sent beside the message.
struct Peer {
    client: Client,
    parameters: Parameters,
}

impl Tasks for Peer {
    async fn task(&self, id: &str) -> Result<ToldTask, Miss> {
        let mut request = json!({ "id": id });
        if let Some(length) = self.parameters.history_length {
            request["historyLength"] = json!(length);
        }
        let asking = ask(&self.client, methods::GET_TASK, request, &self.parameters);
        let answer = timeout(TELL_TIMEOUT, asking).await;
        let answer = answer.map_err(|_| Miss::Now(format!("no answer within {} s", TELL_TIMEOUT.as_secs())))?;
        decoder::task(answer.map_err(miss)?).map_err(Miss::Odd)
    }
}

struct RunningTurn {
    peer: Peer,
    answer: Answer,
}

impl RunningTurn {
    /// Runs until the end or until `stop`; then cancels the program's task too.
    async fn until_stopped(mut self, message: Message, stop: CancellationToken) -> Result<(), AgentError> {
        {
            let named = self.answer.named();
            let work = self.work(message);
            tokio::pin!(work);
            tokio::select! {
                ended = &mut work => return ended,
                () = stop.cancelled() => {}
            }
            // The task cannot be cancelled without its id, which the program's first event holds.
            tokio::select! {
                _ = &mut work => {}
                () = named.cancelled() => {}
                () = sleep(CANCEL_TIMEOUT) => {}
            }
        }
        self.cancel().await;
        Err(AgentError::Cancelled)
    }

    async fn work(&mut self, message: Message) -> Result<(), AgentError> {
        let Peer { client, parameters } = &self.peer;
        let method = if client.streams { methods::SEND_STREAMING_MESSAGE } else { methods::SEND_MESSAGE };
        let answer = accepted(client.post(method, params(&message, parameters), parameters).await?).await?;
        self.answer.listen(answer.bytes_stream()).await?;
        let followed = self.answer.follow(&self.peer).await;
        if self.answer.gave_up() {
            self.cancel().await;
        }
        followed
    }

    async fn cancel(&mut self) {
        let Some(id) = self.answer.take_task() else { return };
        let cancelling = ask(&self.peer.client, methods::CANCEL_TASK, json!({ "id": id }), &self.peer.parameters);
        match timeout(CANCEL_TIMEOUT, cancelling).await {
            Ok(Ok(_)) => {}
            Ok(Err(reason)) => tracing::debug!(task = id, %reason, "agent's program did not cancel its task"),
            Err(_) => tracing::debug!(task = id, "agent's program did not answer to a cancellation"),
        }
    }
}

/// What an error says of asking for a task again.
fn miss(error: AgentError) -> Miss {
    match error {
        AgentError::Refused { code: error_code::TASK_NOT_FOUND, .. } => Miss::Unknown,
        AgentError::Refused { code: error_code::METHOD_NOT_FOUND | error_code::UNSUPPORTED_OPERATION, .. } => {
            Miss::Silent("it does not tell of its tasks (GetTask)".to_owned())
        }
        AgentError::Refused { code: error_code::INVALID_PARAMS | error_code::INVALID_REQUEST, message, .. } => {
            Miss::Silent(format!("it refuses to tell of its task (GetTask): {message}"))
        }
        AgentError::NotA2a(what) if REFUSALS.iter().any(|status| what.starts_with(status)) => {
            Miss::Silent(format!("it refuses to tell of its task (GetTask): {what}"))
        }
        // What was too long once grows only.
        AgentError::TooLong(what) => Miss::Ever(format!("its task cannot be read (GetTask): {what}")),
        AgentError::Breakdown(what) if what == PROGRAM_ENDED => Miss::Ever("the agent's program ended".to_owned()),
        AgentError::Breakdown(what) => Miss::Now(what.to_owned()),
        error => Miss::Now(error.to_string()),
    }
}

/// The parameters of a message to the program, with those that the client sent.
fn params(message: &Message, parameters: &Parameters) -> Value {
    let mut params = json!({ "message": message });
    if let Some(metadata) = &parameters.metadata {
        params["metadata"] = json!(metadata);
    }
    if let Some(modes) = &parameters.accepted_output_modes {
        params["configuration"]["acceptedOutputModes"] = json!(modes);
    }
    if let Some(length) = parameters.history_length {
        params["configuration"]["historyLength"] = json!(length);
    }
    params
}
