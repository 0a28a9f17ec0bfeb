//! The A2A client that gives turns to an agent's program, over JSON-RPC on loopback.

use std::time::Duration;

use a2a::{AgentCard, Message, SendMessageResponse, StreamResponse, Task, TaskState, methods};
use futures::StreamExt as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::agent::{Made, Output, Parameters, Turn};
use crate::error::AgentError;
use crate::sse::Events;

/// How often a program that does not answer yet is asked for its card.
const KNOCK: Duration = Duration::from_millis(50);
/// Longest answer that is not a stream.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// How long a program may take to note a cancellation.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// A program that showed its card.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
    streams: bool,
}

/// The program's own names for what is one task to us, kept between the turns of the task.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Theirs {
    task_id: String,
    context_id: String,
}

impl Client {
    /// Asks for the card until the program shows one.
    pub async fn connect(port: u16) -> Client {
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(5))
            .build()
            .expect("a client of these options always builds");
        loop {
            match Client::card(&http, port).await {
                Ok(card) => return Client::of(http, port, &card),
                Err(reason) => tracing::trace!(port, %reason, "no agent card yet"),
            }
            sleep(KNOCK).await;
        }
    }

    async fn card(http: &reqwest::Client, port: u16) -> Result<AgentCard, AgentError> {
        let url = format!("http://127.0.0.1:{port}/.well-known/agent-card.json");
        let response = http.get(url).timeout(Duration::from_secs(5)).send().await.map_err(not_a2a)?;
        serde_json::from_slice(&whole(response).await?).map_err(not_a2a)
    }

    /// Only the path of the card's address is taken: the program is where we started it, whatever it says.
    fn of(http: reqwest::Client, port: u16, card: &AgentCard) -> Client {
        let json_rpc = card.supported_interfaces.iter().find(|face| face.protocol_binding == "JSONRPC");
        let path = json_rpc
            .and_then(|face| reqwest::Url::parse(&face.url).ok())
            .map_or("/".to_owned(), |url| url.path().to_owned());
        let streams = card.capabilities.streaming.unwrap_or(false);
        Client { http, url: format!("http://127.0.0.1:{port}{path}"), streams }
    }

    /// One message to the program, and what it makes of it.
    pub async fn turn(&self, turn: Turn, out: Output) -> Result<(), AgentError> {
        let theirs: Option<Theirs> = turn.remembered.as_deref().and_then(|kept| serde_json::from_str(kept).ok());
        let mut message = turn.message;
        message.context_id = Some(theirs.as_ref().map_or(turn.context_id, |theirs| theirs.context_id.clone()));
        message.task_id = theirs.map(|theirs| theirs.task_id);
        // On its own, so that a turn which is dropped before the program answered can still be cancelled there.
        let stop = CancellationToken::new();
        let dropped = stop.clone().drop_guard();
        let (client, parameters) = (self.clone(), turn.parameters);
        let running = Running { client, parameters, task: None, named: CancellationToken::new() };
        let ended = tokio::spawn(running.until_stopped(message, out, stop)).await;
        drop(dropped);
        ended.unwrap_or_else(|error| Err(AgentError::Failed(format!("the turn broke off: {error}"))))
    }

    async fn ask(&self, method: &str, params: Value, beside: &Parameters) -> Result<Value, AgentError> {
        let body = whole(self.post(method, params, beside).await?).await?;
        result(serde_json::from_slice(&body).map_err(not_a2a)?)
    }

    async fn post(&self, method: &str, params: Value, beside: &Parameters) -> Result<reqwest::Response, AgentError> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut sent = self.http.post(&self.url).header("A2A-Version", "1.0").json(&request);
        if !beside.extensions.is_empty() {
            sent = sent.header("A2A-Extensions", beside.extensions.join(", "));
        }
        for (name, value) in [("traceparent", &beside.traceparent), ("tracestate", &beside.tracestate)] {
            if let Some(value) = value {
                sent = sent.header(name, value);
            }
        }
        sent.send().await.map_err(|error| AgentError::Failed(format!("the agent's program did not answer: {error}")))
    }
}

/// A turn under way.
struct Running {
    client: Client,
    parameters: Parameters,
    /// The program's task, while it is not over.
    task: Option<String>,
    /// Cancelled as soon as the program named its task.
    named: CancellationToken,
}

impl Running {
    /// Works until the end, or until `stop`: then the program is told to stop too.
    async fn until_stopped(mut self, message: Message, out: Output, stop: CancellationToken) -> Result<(), AgentError> {
        {
            let named = self.named.clone();
            let work = self.work(message, &out);
            tokio::pin!(work);
            tokio::select! {
                ended = &mut work => return ended,
                () = stop.cancelled() => {}
            }
            // Without a name the task cannot be cancelled: the program's first event has it.
            tokio::select! {
                _ = &mut work => {}
                () = named.cancelled() => {}
                () = sleep(CANCEL_TIMEOUT) => {}
            }
        }
        self.cancel().await;
        Err(AgentError::Cancelled)
    }

    async fn work(&mut self, message: Message, out: &Output) -> Result<(), AgentError> {
        if self.client.streams {
            return self.stream(message, out).await;
        }
        let answer = self.client.ask(methods::SEND_MESSAGE, json!({ "message": message }), &self.parameters).await?;
        match serde_json::from_value(answer).map_err(not_a2a)? {
            SendMessageResponse::Task(task) => self.put(StreamResponse::Task(task), out).await,
            SendMessageResponse::Message(message) => self.put(StreamResponse::Message(message), out).await,
        }
    }

    async fn cancel(&mut self) {
        let Some(id) = self.task.take() else { return };
        let cancelling = self.client.ask(methods::CANCEL_TASK, json!({ "id": id }), &self.parameters);
        match tokio::time::timeout(CANCEL_TIMEOUT, cancelling).await {
            Ok(Ok(_)) => {}
            Ok(Err(reason)) => tracing::debug!(task = id, %reason, "agent's program did not cancel its task"),
            Err(_) => tracing::debug!(task = id, "agent's program did not answer to a cancellation"),
        }
    }

    async fn stream(&mut self, message: Message, out: &Output) -> Result<(), AgentError> {
        let params = json!({ "message": message });
        let response = self.client.post(methods::SEND_STREAMING_MESSAGE, params, &self.parameters).await?;
        let kind = response.headers().get(reqwest::header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            let answer = serde_json::from_slice(&whole(response).await?).map_err(not_a2a)?;
            return result(answer).and(Err(AgentError::NotA2a("no event stream".to_owned())));
        }
        let mut events = Events::default();
        let mut bytes = response.bytes_stream();
        while let Some(chunk) = bytes.next().await {
            let chunk = chunk.map_err(|error| AgentError::Failed(format!("the agent's program broke off: {error}")))?;
            let complete = events.push(&chunk).map_err(|_| AgentError::NotA2a("an endless event".to_owned()))?;
            for event in complete {
                let answer = serde_json::from_slice(&event).map_err(not_a2a)?;
                self.put(serde_json::from_value(result(answer)?).map_err(not_a2a)?, out).await?;
            }
        }
        Ok(())
    }

    async fn put(&mut self, event: StreamResponse, out: &Output) -> Result<(), AgentError> {
        match event {
            StreamResponse::Task(task) => self.put_task(task, out).await,
            StreamResponse::Message(message) => out.put(Made::Status(TaskState::Completed, Some(message))).await,
            StreamResponse::StatusUpdate(update) => self.put_status(update.status, out).await,
            StreamResponse::ArtifactUpdate(update) => {
                let (append, last) = (update.append.unwrap_or(false), update.last_chunk.unwrap_or(false));
                out.put(Made::Artifact { artifact: update.artifact, append, last }).await
            }
        }
    }

    async fn put_task(&mut self, task: Task, out: &Output) -> Result<(), AgentError> {
        self.task = Some(task.id.clone());
        self.named.cancel();
        let theirs = Theirs { task_id: task.id, context_id: task.context_id };
        out.put(Made::Remember(json!(theirs).to_string())).await?;
        for artifact in task.artifacts.into_iter().flatten() {
            out.put(Made::Artifact { artifact, append: false, last: true }).await?;
        }
        self.put_status(task.status, out).await
    }

    async fn put_status(&mut self, status: a2a::TaskStatus, out: &Output) -> Result<(), AgentError> {
        let news = status.message.is_some();
        match status.state {
            TaskState::Unspecified | TaskState::Submitted => Ok(()),
            TaskState::Working if !news => Ok(()),
            state => {
                if state.is_terminal() {
                    self.task = None;
                }
                out.put(Made::Status(state, status.message)).await
            }
        }
    }
}

/// The `result` of a JSON-RPC answer, or its error.
fn result(mut answer: Value) -> Result<Value, AgentError> {
    if let Some(error) = answer.get("error") {
        let message = error.get("message").and_then(Value::as_str).unwrap_or("an error without a message");
        return Err(AgentError::Failed(message.chars().take(1_000).collect()));
    }
    answer.get_mut("result").map(Value::take).ok_or_else(|| AgentError::NotA2a("neither result nor error".to_owned()))
}

/// The whole body, if it is not too long.
async fn whole(response: reqwest::Response) -> Result<Vec<u8>, AgentError> {
    let mut body = Vec::new();
    let mut bytes = response.bytes_stream();
    while let Some(chunk) = bytes.next().await {
        body.extend_from_slice(&chunk.map_err(not_a2a)?);
        if body.len() > ANSWER_BYTES_MAX {
            return Err(AgentError::NotA2a(format!("more than {ANSWER_BYTES_MAX} bytes")));
        }
    }
    Ok(body)
}

fn not_a2a(error: impl std::fmt::Display) -> AgentError {
    AgentError::NotA2a(format!("something else than A2A: {error}"))
}
