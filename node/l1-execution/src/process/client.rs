//! The A2A client of an agent's program or server, over JSON-RPC: on a socket, on loopback, or at an address.

use std::fmt;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use a2a::{AgentCard, Message, SendMessageResponse, StreamResponse, Task, TaskState, methods};
use althing_protocol::limits::EXTENSIONS_MAX;
use althing_td::{MODES_MAX, Place};
use futures::StreamExt as _;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::sys::stat::{Mode, fstat};
use reqwest::header::AUTHORIZATION;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::agent::{AgentError, Made, Metadata, Output, OwnCard, Parameters, Turn};
use crate::http::{bearer, bound, refusal};
use crate::process::calls::TURN_HEADER;
use crate::process::interface::Interface;
use crate::process::seen::SeenMessages;
use crate::sse::Events;

/// How often the card of a program that does not answer yet is requested.
const CARD_RETRY: Duration = Duration::from_millis(50);
/// How long the first request for a card may take: the program may be about to listen on another address. Doubles with each
/// request.
const CARD_PATIENCE_MIN: Duration = Duration::from_millis(250);
const CARD_PATIENCE_MAX: Duration = Duration::from_secs(5);
/// The longest answer that is not a stream.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Bytes of an extension of a program's card, as JSON; longer ones are left out.
const EXTENSION_BYTES_MAX: usize = 4_096;
/// Bytes of a media type.
const MODE_BYTES_MAX: usize = 128;
/// The prefix of this project's extensions.
const OURS: &str = "https://althing.dev/";
/// Characters of a program's error that are kept.
const ERROR_CHARS_MAX: usize = 1_000;
/// How long a server elsewhere may say nothing while it answers.
const SILENT_MAX: Duration = Duration::from_secs(300);
/// How long a program may take to answer a cancellation.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a program listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProgramAddress {
    /// A Unix socket.
    Socket(PathBuf),
    /// A port on loopback.
    Port(u16),
    /// A server elsewhere: the address below which its card is.
    Url(String),
}

impl ProgramAddress {
    /// The base URL; on a socket the host name does not matter.
    fn base(&self) -> String {
        match self {
            ProgramAddress::Socket(_) => "http://localhost".to_owned(),
            ProgramAddress::Port(port) => format!("http://127.0.0.1:{port}"),
            ProgramAddress::Url(url) => url.trim_end_matches('/').to_owned(),
        }
    }

    /// Scheme, host and port.
    fn origin(&self) -> String {
        let base = self.base();
        let parsed = reqwest::Url::parse(&base).map(|url| url.origin().ascii_serialization());
        parsed.unwrap_or(base)
    }
}

impl fmt::Display for ProgramAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramAddress::Socket(_) => f.write_str(
                "the Unix socket that it was handed (descriptor 3, LISTEN_FDS; its path is in ALTHING_SOCKET; a program \
                 that can only listen on a port says `port: tcp` in its agent file)",
            ),
            ProgramAddress::Port(port) => write!(f, "http://127.0.0.1:{port} ($PORT)"),
            ProgramAddress::Url(url) => f.write_str(url),
        }
    }
}

/// A card, and its text as it came, which signatures cover.
#[derive(Debug)]
pub struct ShownCard {
    /// The card.
    pub card: AgentCard,
    /// Its text.
    pub raw: Vec<u8>,
}

/// The client of a program that showed its card.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
    /// The tenant that its card names, which each request repeats (A2A §8.3.2).
    tenant: Option<Arc<str>>,
    streams: bool,
    own_card: Arc<OwnCard>,
    /// The turn that it sends messages of, for a program that makes system calls.
    turn: Option<Arc<str>>,
    /// The very socket that showed the card, by which `http` connects: whatever the program puts in its place, such as a link to
    /// the socket of somebody else, is not connected to.
    _socket: Option<Arc<OwnedFd>>,
}

/// Holds the socket at a path, without following a link.
fn held(path: &Path) -> std::io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let socket = open(path, flags, Mode::empty())?;
    let is_socket = fstat(&socket)?.st_mode & libc::S_IFMT == libc::S_IFSOCK;
    if is_socket { Ok(socket) } else { Err(std::io::Error::other("what is there is no socket")) }
}

/// The program's ids of a task, kept between the turns of the task.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RemoteTask {
    task_id: String,
    context_id: String,
}

impl Client {
    /// Requests the card until the program shows one.
    pub async fn connect(address: &ProgramAddress) -> Client {
        let mut patience = CARD_PATIENCE_MIN;
        loop {
            match Client::connect_once(address, patience).await {
                Ok(client) => return client,
                Err(reason) => tracing::trace!(%address, %reason, "no agent card yet"),
            }
            patience = (patience * 2).min(CARD_PATIENCE_MAX);
            sleep(CARD_RETRY).await;
        }
    }

    /// Requests the card once, at the socket that is there now.
    async fn connect_once(address: &ProgramAddress, patience: Duration) -> Result<Client, AgentError> {
        let (at, socket) = match address {
            ProgramAddress::Socket(path) => {
                let socket = held(path).map_err(|error| AgentError::Failed(error.to_string()))?;
                let held = PathBuf::from(format!("/proc/self/fd/{}", socket.as_raw_fd()));
                (ProgramAddress::Socket(held), Some(Arc::new(socket)))
            }
            other => (other.clone(), None),
        };
        let http = Client::http(&at, &[], None).map_err(AgentError::Failed)?;
        let shown = Client::card(&http, &at, patience).await?;
        let interface = Interface::chosen(&shown.card.supported_interfaces).unwrap_or_default();
        Ok(Client { _socket: socket, ..Client::of(http, &at, &shown.card, interface) })
    }

    /// A client of HTTP for this address, which follows its name only to these places, if there are any; `secret` is sent as a bearer
    /// token with each request.
    ///
    /// # Errors
    /// The connection would not protect the secret, or the secret cannot be sent; nothing was sent.
    pub fn http(address: &ProgramAddress, leads_to: &[Place], secret: Option<&str>) -> Result<reqwest::Client, String> {
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(5));
        if let ProgramAddress::Socket(path) = address {
            builder = builder.unix_socket(path.as_path());
        }
        if let ProgramAddress::Url(_) = address {
            builder = builder.read_timeout(SILENT_MAX);
        }
        if let Some(secret) = secret {
            let bearer = bearer(&address.base(), secret)?;
            builder = builder.default_headers([(AUTHORIZATION, bearer)].into_iter().collect());
        }
        bound(builder, leads_to).build().map_err(|error| error.to_string())
    }

    /// Requests the card once; the client, and the card.
    ///
    /// # Errors
    /// It does not answer, or not with a card that names JSON-RPC of A2A 1.x.
    pub async fn of_card(
        http: &reqwest::Client,
        address: &ProgramAddress,
        patience: Duration,
    ) -> Result<(Client, ShownCard), AgentError> {
        let shown = Client::card(http, address, patience).await?;
        let Some(interface) = Interface::chosen(&shown.card.supported_interfaces) else {
            return Err(AgentError::NotA2a("a card without the JSON-RPC binding of A2A 1.x".to_owned()));
        };
        Ok((Client::of(http.clone(), address, &shown.card, interface), shown))
    }

    async fn card(
        http: &reqwest::Client,
        address: &ProgramAddress,
        patience: Duration,
    ) -> Result<ShownCard, AgentError> {
        let url = format!("{}/.well-known/agent-card.json", address.base());
        let response = http.get(url).timeout(patience).send().await.map_err(unasked)?;
        if !response.status().is_success() {
            return Err(not_a2a(response.status()));
        }
        let raw = whole(response).await?;
        let card = serde_json::from_slice(&raw).map_err(not_a2a)?;
        Ok(ShownCard { card, raw })
    }

    /// Only the path of the card's URL is used: the program is reached where it was started, and a server where its card is.
    fn of(http: reqwest::Client, address: &ProgramAddress, card: &AgentCard, interface: Interface) -> Client {
        let Interface { path, tenant } = interface;
        let streams = card.capabilities.streaming.unwrap_or(false);
        let own_card = Arc::new(own_card(card));
        Client {
            http,
            url: format!("{}{path}", address.origin()),
            tenant,
            streams,
            own_card,
            turn: None,
            _socket: None,
        }
    }

    /// The own card of the program.
    pub fn own_card(&self) -> OwnCard {
        OwnCard::clone(&self.own_card)
    }

    /// The client that sends the messages of that turn.
    pub fn of_turn(self, turn: String) -> Client {
        Client { turn: Some(turn.into()), ..self }
    }

    /// Sends one message to the program, and emits its outputs.
    pub async fn turn(&self, turn: Turn, out: Output) -> Result<(), AgentError> {
        let remote: Option<RemoteTask> = turn.remembered.as_deref().and_then(|kept| serde_json::from_str(kept).ok());
        let (mut message, seen) = (turn.message, SeenMessages::of(&turn.history));
        message.context_id = Some(remote.as_ref().map_or(turn.context_id, |remote| remote.context_id.clone()));
        message.task_id = remote.map(|remote| remote.task_id);
        let (task, named) = (message.task_id.clone(), CancellationToken::new());
        if task.is_some() {
            named.cancel();
        }
        // A task of its own, so that a turn that is dropped before the program answers can still be cancelled there.
        let stop = CancellationToken::new();
        let dropped = stop.clone().drop_guard();
        let (client, parameters) = (self.clone(), turn.parameters);
        let running = RunningTurn { client, parameters, task, begun: false, named, seen };
        let ended = tokio::spawn(running.until_stopped(message, out, stop)).await;
        drop(dropped);
        ended.unwrap_or_else(|error| Err(AgentError::internal("the turn broke off", error)))
    }

    /// Cancels the program's task while no turn runs; gives its message. If the program does not know the task or does not
    /// answer, there is nothing to stop.
    ///
    /// # Errors
    /// The program's own error.
    pub async fn cancel(&self, remembered: &str, parameters: &Parameters) -> Result<Option<Message>, AgentError> {
        let Ok(remote) = serde_json::from_str::<RemoteTask>(remembered) else { return Ok(None) };
        let mut request = json!({ "id": remote.task_id });
        if let Some(metadata) = &parameters.metadata {
            request["metadata"] = json!(metadata);
        }
        let cancelling = self.ask(methods::CANCEL_TASK, request, parameters);
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

    async fn ask(&self, method: &str, params: Value, parameters: &Parameters) -> Result<Value, AgentError> {
        let body = whole(self.post(method, params, parameters).await?).await?;
        result(serde_json::from_slice(&body).map_err(not_a2a)?)
    }

    async fn post(
        &self,
        method: &str,
        mut params: Value,
        parameters: &Parameters,
    ) -> Result<reqwest::Response, AgentError> {
        if let Some(tenant) = &self.tenant {
            params["tenant"] = json!(&**tenant);
        }
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut sent = self.http.post(&self.url).header("A2A-Version", "1.0").json(&request);
        if let Some(turn) = &self.turn {
            sent = sent.header(TURN_HEADER, &**turn);
        }
        if !parameters.extensions.is_empty() {
            sent = sent.header("A2A-Extensions", parameters.extensions.join(", "));
        }
        for (name, value) in [("traceparent", &parameters.traceparent), ("tracestate", &parameters.tracestate)] {
            if let Some(value) = value {
                sent = sent.header(name, value);
            }
        }
        let answered = sent.send().await;
        let answer = answered.map_err(|error| AgentError::internal("the agent's program did not answer", error))?;
        let lines = answer.headers().get_all("A2A-Extensions").iter().filter_map(|line| line.to_str().ok());
        let activated = lines.flat_map(|line| line.split(',')).map(str::trim);
        parameters.activated.name(activated, &parameters.extensions);
        Ok(answer)
    }
}

/// A running turn.
struct RunningTurn {
    client: Client,
    parameters: Parameters,
    /// The program's task, until it is terminal.
    task: Option<String>,
    /// Whether the program made a task.
    begun: bool,
    /// Cancelled as soon as the id of the program's task is known.
    named: CancellationToken,
    /// The program's messages that were seen.
    seen: SeenMessages,
}

impl RunningTurn {
    /// Runs until the end or until `stop`; then cancels the program's task too.
    async fn until_stopped(mut self, message: Message, out: Output, stop: CancellationToken) -> Result<(), AgentError> {
        {
            let named = self.named.clone();
            let work = self.work(message, &out);
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
        let unseen = self.seen.take_unseen(&mut task);
        self.name(task.id, task.context_id, out).await?;
        self.put_messages(unseen, out).await?;
        for artifact in task.artifacts.into_iter().flatten() {
            out.put(Made::Artifact { artifact, append: false, last: true }).await?;
        }
        let (state, first) = (task.status.state.clone(), !self.begun);
        // The first status of a task is emitted with its beginning.
        if !first || state != TaskState::Working || task.status.message.is_some() {
            self.put_status(task.status, None, out).await?;
        }
        if first || task.metadata.is_some() {
            self.begun = false;
            self.begin(state, task.metadata, out).await?;
        }
        Ok(())
    }

    /// Emits messages of the program before the status of its task.
    async fn put_messages(&mut self, messages: Vec<Message>, out: &Output) -> Result<(), AgentError> {
        let any = !messages.is_empty();
        for message in messages {
            out.put(Made::Status(TaskState::Working, Some(message))).await?;
        }
        // Clears the message of the status: the last one is history.
        if any { out.put(Made::Status(TaskState::Working, None)).await } else { Ok(()) }
    }

    /// Stores the program's ids of the task, once in this turn.
    async fn name(&mut self, task_id: String, context_id: String, out: &Output) -> Result<(), AgentError> {
        if self.begun {
            return Ok(());
        }
        self.task = Some(task_id.clone());
        self.named.cancel();
        out.put(Made::Remember(json!(RemoteTask { task_id, context_id }).to_string())).await
    }

    /// Emits that the program made a task, once.
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
            self.seen.mark_seen(message);
        }
        let state = match status.state {
            // A task with a message of its agent is being worked on.
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

/// The parts of a program's card that go into the card that its node serves, within limits. The node itself shows the
/// project's extensions.
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

/// Why a server was not asked for its card.
fn unasked(error: reqwest::Error) -> AgentError {
    match refusal(&error) {
        Some(why) => AgentError::Failed(why),
        None => not_a2a(error),
    }
}

fn not_a2a(error: impl std::fmt::Display) -> AgentError {
    AgentError::NotA2a(format!("something else than A2A: {error}"))
}
