//! The A2A client that gives turns to an agent's program, over JSON-RPC on its socket, or on loopback.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use a2a::{AgentCard, Message, SendMessageResponse, StreamResponse, Task, TaskState, methods};
use althing_protocol::limits::EXTENSIONS_MAX;
use althing_td::MODES_MAX;
use futures::StreamExt as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::agent::{AgentError, Made, Metadata, Output, OwnCard, Parameters, Turn};
use crate::process::said::Said;
use crate::sse::Events;

/// How often a program that does not answer yet is asked for its card.
const KNOCK: Duration = Duration::from_millis(50);
/// How long a program may take to show its card when it is first asked: it may be about to listen elsewhere. Doubles each
/// time.
const CARD_PATIENCE_MIN: Duration = Duration::from_millis(250);
const CARD_PATIENCE_MAX: Duration = Duration::from_secs(5);
/// Longest answer that is not a stream.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Bytes of one extension of a program's card, as JSON, that are shown.
const EXTENSION_BYTES_MAX: usize = 4_096;
/// Bytes of a media type.
const MODE_BYTES_MAX: usize = 128;
/// What the names of this project's extensions begin with.
const OURS: &str = "https://althing.dev/";
/// Characters of a program's error that are taken.
const ERROR_CHARS_MAX: usize = 1_000;
/// How long a program may take to note a cancellation.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a program listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A Unix socket.
    Socket(PathBuf),
    /// A port on loopback.
    Port(u16),
}

impl Place {
    /// What stands in front of a path; on a socket the name is anybody's.
    fn base(&self) -> String {
        match self {
            Place::Socket(_) => "http://localhost".to_owned(),
            Place::Port(port) => format!("http://127.0.0.1:{port}"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Socket(_) => f.write_str(
                "the Unix socket that it was handed (descriptor 3, LISTEN_FDS; its path is in ALTHING_SOCKET; a program \
                 that can only listen on a port says `port: tcp` in its agent file)",
            ),
            Place::Port(port) => write!(f, "http://127.0.0.1:{port} ($PORT)"),
        }
    }
}

/// A program that showed its card.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
    streams: bool,
    own_card: Arc<OwnCard>,
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
    pub async fn connect(place: &Place) -> Client {
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(5));
        if let Place::Socket(path) = place {
            builder = builder.unix_socket(path.as_path());
        }
        let http = builder.build().expect("a client of these options always builds");
        let mut patience = CARD_PATIENCE_MIN;
        loop {
            match Client::card(&http, place, patience).await {
                Ok(card) => return Client::of(http, place, &card),
                Err(reason) => tracing::trace!(%place, %reason, "no agent card yet"),
            }
            patience = (patience * 2).min(CARD_PATIENCE_MAX);
            sleep(KNOCK).await;
        }
    }

    async fn card(http: &reqwest::Client, place: &Place, patience: Duration) -> Result<AgentCard, AgentError> {
        let url = format!("{}/.well-known/agent-card.json", place.base());
        let response = http.get(url).timeout(patience).send().await.map_err(not_a2a)?;
        serde_json::from_slice(&whole(response).await?).map_err(not_a2a)
    }

    /// Only the path of the card's address is taken: the program is where we started it, whatever it says.
    fn of(http: reqwest::Client, place: &Place, card: &AgentCard) -> Client {
        let json_rpc = card.supported_interfaces.iter().find(|face| face.protocol_binding == "JSONRPC");
        let path = json_rpc
            .and_then(|face| reqwest::Url::parse(&face.url).ok())
            .map_or("/".to_owned(), |url| url.path().to_owned());
        let streams = card.capabilities.streaming.unwrap_or(false);
        let own_card = Arc::new(own_card(card));
        Client { http, url: format!("{}{path}", place.base()), streams, own_card }
    }

    /// What the program's card says of it.
    pub fn own_card(&self) -> OwnCard {
        OwnCard::clone(&self.own_card)
    }

    /// One message to the program, and what it makes of it.
    pub async fn turn(&self, turn: Turn, out: Output) -> Result<(), AgentError> {
        let theirs: Option<Theirs> = turn.remembered.as_deref().and_then(|kept| serde_json::from_str(kept).ok());
        let (mut message, said) = (turn.message, Said::of(&turn.history));
        message.context_id = Some(theirs.as_ref().map_or(turn.context_id, |theirs| theirs.context_id.clone()));
        message.task_id = theirs.map(|theirs| theirs.task_id);
        let (task, named) = (message.task_id.clone(), CancellationToken::new());
        if task.is_some() {
            named.cancel();
        }
        // On its own, so that a turn which is dropped before the program answered can still be cancelled there.
        let stop = CancellationToken::new();
        let dropped = stop.clone().drop_guard();
        let (client, parameters) = (self.clone(), turn.parameters);
        let running = Running { client, parameters, task, begun: false, named, said };
        let ended = tokio::spawn(running.until_stopped(message, out, stop)).await;
        drop(dropped);
        ended.unwrap_or_else(|error| Err(AgentError::internal("the turn broke off", error)))
    }

    /// Tells the program that its task is cancelled while no turn runs; gives its words. A program that does not know
    /// the task any more, or does not answer, has nothing left to stop.
    ///
    /// # Errors
    /// The program's own error.
    pub async fn cancel(&self, remembered: &str, beside: &Parameters) -> Result<Option<Message>, AgentError> {
        let Ok(theirs) = serde_json::from_str::<Theirs>(remembered) else { return Ok(None) };
        let mut request = json!({ "id": theirs.task_id });
        if let Some(metadata) = &beside.metadata {
            request["metadata"] = json!(metadata);
        }
        let cancelling = self.ask(methods::CANCEL_TASK, request, beside);
        let answer = match tokio::time::timeout(CANCEL_TIMEOUT, cancelling).await {
            Ok(Err(error @ AgentError::Refused { code, .. })) if code != a2a::error_code::TASK_NOT_FOUND => {
                return Err(error);
            }
            Ok(answer) => answer,
            Err(_) => Err(AgentError::Failed(format!("no answer within {CANCEL_TIMEOUT:?}"))),
        };
        let task = answer.and_then(|task| serde_json::from_value::<Task>(task).map_err(not_a2a));
        let task = task.inspect_err(|reason| tracing::debug!(%reason, "agent's program did not cancel its task"));
        Ok(task.ok().and_then(|task| task.status.message))
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
        sent.send().await.map_err(|error| AgentError::internal("the agent's program did not answer", error))
    }
}

/// A turn under way.
struct Running {
    client: Client,
    parameters: Parameters,
    /// The program's task, while it is not over.
    task: Option<String>,
    /// Whether the program has a task, or made something that only a task has.
    begun: bool,
    /// Cancelled as soon as the program named its task.
    named: CancellationToken,
    /// What the program said in the task.
    said: Said,
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
        let params = params(&message, &self.parameters);
        let answer = self.client.ask(methods::SEND_MESSAGE, params, &self.parameters).await?;
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
        let params = params(&message, &self.parameters);
        let response = self.client.post(methods::SEND_STREAMING_MESSAGE, params, &self.parameters).await?;
        let kind = response.headers().get(reqwest::header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            let answer = serde_json::from_slice(&whole(response).await?).map_err(not_a2a)?;
            return result(answer).and(Err(AgentError::NotA2a("no event stream".to_owned())));
        }
        let mut events = Events::default();
        let mut bytes = response.bytes_stream();
        while let Some(chunk) = bytes.next().await {
            let chunk = chunk.map_err(broke_off)?;
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
            StreamResponse::Message(message) => out.put(Made::Reply(message)).await,
            StreamResponse::StatusUpdate(update) => {
                self.name(update.task_id, update.context_id, out).await?;
                self.begin(TaskState::Submitted, None, out).await?;
                self.put_status(update.status, update.metadata, out).await
            }
            StreamResponse::ArtifactUpdate(update) => {
                self.name(update.task_id, update.context_id, out).await?;
                self.begin(TaskState::Submitted, None, out).await?;
                let (append, last) = (update.append.unwrap_or(false), update.last_chunk.unwrap_or(false));
                out.put(Made::Artifact { artifact: update.artifact, append, last }.annotated(update.metadata)).await
            }
        }
    }

    async fn put_task(&mut self, mut task: Task, out: &Output) -> Result<(), AgentError> {
        let unheard = self.said.unheard(&mut task);
        self.name(task.id, task.context_id, out).await?;
        self.put_words(unheard, out).await?;
        for artifact in task.artifacts.into_iter().flatten() {
            out.put(Made::Artifact { artifact, append: false, last: true }).await?;
        }
        let (state, first) = (task.status.state.clone(), !self.begun);
        // What a task begins with is told with it, not again.
        if !first || state != TaskState::Working || task.status.message.is_some() {
            self.put_status(task.status, None, out).await?;
        }
        if first || task.metadata.is_some() {
            self.begun = false;
            self.begin(state, task.metadata, out).await?;
        }
        Ok(())
    }

    /// Says what the program said before the state in which its task is.
    async fn put_words(&mut self, words: Vec<Message>, out: &Output) -> Result<(), AgentError> {
        let any = !words.is_empty();
        for word in words {
            out.put(Made::Status(TaskState::Working, Some(word))).await?;
        }
        // The last of them is what it said once, not what it says now.
        if any { out.put(Made::Status(TaskState::Working, None)).await } else { Ok(()) }
    }

    /// Keeps the program's own names for the task, the first time that it says them in this turn.
    async fn name(&mut self, task_id: String, context_id: String, out: &Output) -> Result<(), AgentError> {
        if self.begun {
            return Ok(());
        }
        self.task = Some(task_id.clone());
        self.named.cancel();
        out.put(Made::Remember(json!(Theirs { task_id, context_id }).to_string())).await
    }

    /// Says that the program made a task, once.
    async fn begin(&mut self, state: TaskState, metadata: Option<Metadata>, out: &Output) -> Result<(), AgentError> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        out.put(Made::Begun { state, metadata }).await
    }

    async fn put_status(
        &mut self,
        status: a2a::TaskStatus,
        metadata: Option<Metadata>,
        out: &Output,
    ) -> Result<(), AgentError> {
        if let Some(message) = &status.message {
            self.said.hear(message);
        }
        let state = match status.state {
            // A task whose agent says something is worked on: no agent submits one.
            TaskState::Unspecified | TaskState::Submitted if status.message.is_some() => TaskState::Working,
            state => state,
        };
        if matches!(state, TaskState::Unspecified | TaskState::Submitted) {
            return match metadata {
                Some(_) => out.put(Made::Begun { state, metadata }).await,
                None => Ok(()),
            };
        }
        if state.is_terminal() {
            self.task = None;
        }
        out.put(Made::Status(state, status.message).annotated(metadata)).await
    }
}

/// What of a program's card goes into the card that its node serves, as far as it is not too much. The project's own
/// extensions are the node's to show.
fn own_card(card: &AgentCard) -> OwnCard {
    let fits = |extension: &&a2a::AgentExtension| {
        !extension.uri.starts_with(OURS)
            && serde_json::to_vec(extension).is_ok_and(|json| json.len() <= EXTENSION_BYTES_MAX)
    };
    let modes = |modes: &[String]| -> Vec<String> {
        modes.iter().filter(|mode| mode.len() <= MODE_BYTES_MAX).take(MODES_MAX).cloned().collect()
    };
    OwnCard {
        extensions: card.capabilities.extensions.iter().flatten().filter(fits).take(EXTENSIONS_MAX).cloned().collect(),
        input_modes: modes(&card.default_input_modes),
        output_modes: modes(&card.default_output_modes),
    }
}

/// The parameters of a message to the program: what the client sent beside it goes along.
fn params(message: &Message, beside: &Parameters) -> Value {
    let mut params = json!({ "message": message });
    if let Some(metadata) = &beside.metadata {
        params["metadata"] = json!(metadata);
    }
    if let Some(modes) = &beside.accepted_output_modes {
        params["configuration"]["acceptedOutputModes"] = json!(modes);
    }
    if let Some(length) = beside.history_length {
        params["configuration"]["historyLength"] = json!(length);
    }
    params
}

/// The `result` of a JSON-RPC answer, or its error.
fn result(mut answer: Value) -> Result<Value, AgentError> {
    if let Some(error) = answer.get("error") {
        let message = error.get("message").and_then(Value::as_str).unwrap_or("an error without a message");
        let message = message.chars().take(ERROR_CHARS_MAX).collect();
        let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
        let details = error.get("data").and_then(Value::as_array).cloned().unwrap_or_default();
        return Err(match code {
            Some(code) => AgentError::Refused { code, message, details },
            None => AgentError::Failed(message),
        });
    }
    answer.get_mut("result").map(Value::take).ok_or_else(|| AgentError::NotA2a("neither result nor error".to_owned()))
}

/// The whole body, if it is not too long.
async fn whole(response: reqwest::Response) -> Result<Vec<u8>, AgentError> {
    let mut body = Vec::new();
    let mut bytes = response.bytes_stream();
    while let Some(chunk) = bytes.next().await {
        body.extend_from_slice(&chunk.map_err(broke_off)?);
        if body.len() > ANSWER_BYTES_MAX {
            return Err(AgentError::NotA2a(format!("more than {ANSWER_BYTES_MAX} bytes")));
        }
    }
    Ok(body)
}

fn broke_off(error: reqwest::Error) -> AgentError {
    AgentError::internal("the agent's program broke off", error)
}

fn not_a2a(error: impl std::fmt::Display) -> AgentError {
    AgentError::NotA2a(format!("something else than A2A: {error}"))
}
