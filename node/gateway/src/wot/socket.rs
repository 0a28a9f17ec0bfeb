//! The WebSocket sub-protocol of Eclipse LMOS: actions, properties and events of one agent on one connection.
//!
//! Its specification and its SDK differ in names: `thingID` or `thingId`, `name` and `value` or `property` and `data` of
//! properties. Both are read, and a request is answered in the names that it used. A client that sends no `correlationID`
//! finds the `messageID` of its request there.

mod message;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use althing_calls::{Callee, Operation, OperationError, Trace};
use althing_protocol::AgentId;
use althing_protocol::limits::TRACE_BYTES_MAX;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::{SinkExt as _, StreamExt as _};
use message::Asked;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::chat::Chat;
use super::invocation::{self, Failed, Invocation};
use super::td::SUBPROTOCOL;
use super::{actions, problem, properties, thing};
use crate::client::Client;
use crate::response_budget::Full;
use crate::{BODY_BYTES_MAX, Gateway};

/// WebSockets that are open at one time.
const SOCKETS_MAX: usize = 128;
/// Requests of one WebSocket that are worked on at one time, subscriptions among them.
const REQUESTS_MAX: usize = 32;
/// Messages that wait to be sent.
const WAITING_MAX: usize = 64;
/// A ping is sent this often.
const PING_EVERY: Duration = Duration::from_secs(20);
/// A connection on which nothing came for this long, not even the answer to a ping, is closed.
const SILENT_MAX: Duration = Duration::from_secs(60);
/// A client that does not take a message for this long is disconnected.
const SENDING_MAX: Duration = Duration::from_secs(10);
/// How long the output of an action is awaited.
const ANSWER_MAX: Duration = Duration::from_secs(3_600);
/// Said to a client whose token or certificate is over (RFC 6455 §7.4.1: a policy).
const OVER: CloseFrame = CloseFrame {
    code: close_code::POLICY,
    reason: Utf8Bytes::from_static("what opened this connection is over: its token was removed, or has expired"),
};
/// The only action, and the event that has a message of this sub-protocol.
const CHAT: &str = "chat";
const AGENT_EVENT: &str = "agentEvent";

/// The places of open WebSockets.
pub(super) struct Sockets(Arc<Semaphore>);

impl Default for Sockets {
    fn default() -> Sockets {
        Sockets(Arc::new(Semaphore::new(SOCKETS_MAX)))
    }
}

impl Sockets {
    /// How many there are.
    pub fn open(&self) -> usize {
        SOCKETS_MAX - self.0.available_permits()
    }
}

/// `GET /things/{agent}/ws`.
pub(super) async fn open(
    State(gateway): State<Arc<Gateway>>,
    Path(agent): Path<String>,
    client: Client,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let (id, known) = match thing::find(&gateway, &agent).await {
        Ok(found) => found,
        Err(error) => return problem::of(&error),
    };
    let id = match client.target(&gateway.calls, &Callee::Id(id)).await {
        Ok(target) => target.agent,
        Err(error) => return problem::of(&error),
    };
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(refused) => {
            let status = refused.into_response().status();
            return problem::refuse(status, "NO_WEBSOCKET", "a WebSocket is opened here (RFC 6455)");
        }
    };
    let Ok(place) = gateway.wot.sockets.0.clone().try_acquire_owned() else {
        return problem::of(&OperationError::busy(format!("{SOCKETS_MAX} WebSockets are open; try again")));
    };
    let thing = known.description.id().map_or_else(|| id.to_string(), str::to_owned);
    let upgrade = upgrade.protocols([SUBPROTOCOL]).max_message_size(BODY_BYTES_MAX).max_frame_size(BODY_BYTES_MAX);
    upgrade.on_upgrade(move |socket| run(socket, Whom { gateway, client, agent: id, thing }, place))
}

/// Who speaks with whom on a connection.
struct Whom {
    gateway: Arc<Gateway>,
    client: Client,
    agent: AgentId,
    /// The id of the Thing.
    thing: String,
}

/// What the requests of a connection share.
struct SocketConnection {
    whom: Whom,
    out: mpsc::Sender<Message>,
    /// The task of the last invocation, which `queryAction` and `cancelAction` are about.
    last: Mutex<Option<String>>,
    /// The subscriptions, by event.
    subscribed: Mutex<BTreeMap<String, AbortHandle>>,
}

async fn run(socket: WebSocket, whom: Whom, place: OwnedSemaphorePermit) {
    let (out, mut waiting) = mpsc::channel(WAITING_MAX);
    let connection = Arc::new(SocketConnection { whom, out, last: Mutex::default(), subscribed: Mutex::default() });
    let (mut sender, mut receiver) = socket.split();
    // Whoever leaves takes its subscriptions along.
    let mut requests = JoinSet::new();
    let mut ping = tokio::time::interval(PING_EVERY);
    let mut heard = Instant::now();
    let standing = connection.whom.client.standing.clone();
    let over = async {
        match &standing {
            Some(standing) => standing.over().await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(over);
    loop {
        let next = tokio::select! {
            came = receiver.next() => match came {
                Some(Ok(message)) => Next::Came(message),
                Some(Err(_)) | None => break,
            },
            Some(message) = waiting.recv() => Next::Send(message),
            _ = requests.join_next(), if !requests.is_empty() => continue,
            _ = ping.tick() => Next::Send(Message::Ping(Vec::new().into())),
            () = over.as_mut() => {
                let _ = tokio::time::timeout(SENDING_MAX, sender.send(Message::Close(Some(OVER)))).await;
                break;
            }
        };
        match next {
            Next::Came(message) => {
                heard = Instant::now();
                if connection.take(message, &mut requests).await.is_break() {
                    break;
                }
            }
            Next::Send(message) => {
                let sent = tokio::time::timeout(SENDING_MAX, sender.send(message)).await;
                if !matches!(sent, Ok(Ok(()))) || heard.elapsed() > SILENT_MAX {
                    break;
                }
            }
        }
    }
    drop(place);
}

/// What an action is to be sent, or why it cannot.
type Input = Result<invocation::Message, OperationError>;

/// What a connection does next.
enum Next {
    Came(Message),
    Send(Message),
}

impl SocketConnection {
    /// Begins to serve a message.
    async fn take(self: &Arc<Self>, message: Message, requests: &mut JoinSet<()>) -> ControlFlow<()> {
        let asked = match &message {
            Message::Text(text) => Asked::parse(text.as_str()),
            Message::Close(_) => return ControlFlow::Break(()),
            Message::Ping(_) | Message::Pong(_) => return ControlFlow::Continue(()),
            Message::Binary(_) => Err("messages are text, JSON".to_owned()),
        };
        let refused = match asked {
            Err(error) => Some(Asked::unreadable(&self.whom.thing).error(
                StatusCode::BAD_REQUEST,
                &error,
                &self.whom.gateway.calls.new_id(),
            )),
            Ok(asked) if requests.len() >= REQUESTS_MAX => {
                let error = format!("{REQUESTS_MAX} requests of this connection are running");
                Some(asked.error(StatusCode::TOO_MANY_REQUESTS, &error, &self.whom.gateway.calls.new_id()))
            }
            Ok(asked) if asked.kind == "subscribeevent" || asked.kind == "subscribeallevents" => {
                self.subscribe(asked, requests)
            }
            Ok(mut asked) => {
                let input = asked.take_input();
                let input = (asked.kind == "invokeaction").then(|| self.input(input));
                let connection = self.clone();
                requests.spawn(async move {
                    let answer = connection.answer(&asked, input).await;
                    let answer = connection.said(&answer).unwrap_or_else(|full| connection.full(&asked, full));
                    // It fails if the connection is gone.
                    let _ = connection.out.send(answer).await;
                });
                None
            }
        };
        // A full queue ends the connection: its client sends and does not read.
        match refused.map(|refused| self.out.try_send(Message::text(refused.to_string()))) {
            Some(Err(_)) => ControlFlow::Break(()),
            Some(Ok(())) | None => ControlFlow::Continue(()),
        }
    }

    /// A message that counts as kept until it was sent.
    fn said(&self, message: &Value) -> Result<Message, Full> {
        let text = message.to_string();
        let bytes = self.whom.client.account.hold(text.len())?.into_bytes(text)?;
        // Text stays text.
        Ok(Utf8Bytes::try_from(bytes).map_or_else(|_| Message::text(""), Message::Text))
    }

    /// Says that there was no room for an answer.
    fn full(&self, asked: &Asked, full: Full) -> Message {
        let status = StatusCode::TOO_MANY_REQUESTS;
        Message::text(asked.error(status, &full.to_string(), &self.whom.gateway.calls.new_id()).to_string())
    }

    /// The message of an action's input.
    fn input(&self, input: Value) -> Result<invocation::Message, OperationError> {
        let chat = Chat::parse(input).map_err(OperationError::invalid_params)?;
        invocation::Message::new(&self.whom.gateway, &chat, &self.whom.client.account)
    }

    async fn answer(&self, asked: &Asked, input: Option<Input>) -> Value {
        let answered =
            if asked.thing == self.whom.thing { self.serve(asked, input).await } else { Err(self.no_such(asked)) };
        let message = self.whom.gateway.calls.new_id();
        match answered {
            Ok((kind, members)) => asked.reply(kind, members, &message),
            Err(failed) => {
                let (status, _, detail) = failed.problem();
                asked.error(status, &detail, &message)
            }
        }
    }

    fn no_such(&self, asked: &Asked) -> Failed {
        let thing: String = asked.thing.chars().take(200).collect();
        OperationError::agent_unknown(format!("{thing:?} is not this Thing, which is {}", self.whom.thing)).into()
    }

    /// The type and the members of the answer.
    async fn serve(&self, asked: &Asked, input: Option<Input>) -> Result<(&'static str, Value), Failed> {
        if let Some(input) = input {
            return Ok(("actionStatus", self.invoke(asked, input).await?));
        }
        match asked.kind.as_str() {
            "queryaction" => Ok(("actionStatus", self.query(asked).await?)),
            "cancelaction" => Ok(("actionStatus", self.cancel(asked).await?)),
            "readproperty" => self.read(asked).await,
            "readallproperties" => Ok(("propertyReadings", self.readings(&properties::NAMES).await?)),
            "readmultipleproperties" => {
                let names = asked.member("properties").and_then(Value::as_array).cloned().unwrap_or_default();
                let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
                Ok(("propertyReadings", self.readings(&names).await?))
            }
            "unsubscribeevent" | "unsubscribeallevents" => {
                let gone = self.subscriptions().remove(AGENT_EVENT);
                let done = if gone.is_some_and(|task| {
                    task.abort();
                    true
                }) {
                    "unsubscribed"
                } else {
                    "nothing was subscribed"
                };
                Ok(("acknowledgement", json!({ "message": done })))
            }
            "writeproperty" | "writemultipleproperties" | "writeallproperties" => {
                Err(OperationError::unsupported("the properties of an agent are read only").into())
            }
            "observeproperty" | "unobserveproperty" => {
                Err(OperationError::unsupported("no property of an agent can be observed; agentEvent can").into())
            }
            kind => {
                let kind: String = kind.chars().take(64).collect();
                Err(OperationError::invalid_params(format!("there is no message of type {kind:?}")).into())
            }
        }
    }

    async fn invoke(&self, asked: &Asked, input: Input) -> Result<Value, Failed> {
        Self::check_action(asked)?;
        let Whom { gateway, client, agent, .. } = &self.whom;
        let mut invocation = Invocation::begin(gateway, agent, input?, client, trace(asked)).await?;
        let task = invocation.task().await;
        *self.last.lock().expect("no holder of the last task panics") = task;
        let late = || Failed::Call(OperationError::deadline("the agent did not answer"));
        let output = invocation.output(ANSWER_MAX).await.ok_or_else(late)??;
        Ok(json!({ "action": CHAT, "status": "completed", "output": output }))
    }

    fn check_action(asked: &Asked) -> Result<(), Failed> {
        let action = asked.member("action").and_then(Value::as_str).unwrap_or_default();
        let shown: String = action.chars().take(64).collect();
        let refuse = || Failed::Call(OperationError::method_not_found(&shown));
        (action == CHAT).then_some(()).ok_or_else(refuse)
    }

    fn last(&self) -> Result<String, Failed> {
        let last = self.last.lock().expect("no holder of the last task panics").clone();
        let none = || OperationError::task_not_found("of an action on this connection");
        Ok(last.ok_or_else(none)?)
    }

    async fn query(&self, asked: &Asked) -> Result<Value, Failed> {
        Self::check_action(asked)?;
        let status = actions::read(&self.whom.gateway, &self.whom.agent, &self.last()?, &self.whom.client).await?;
        // This sub-protocol knows three states.
        let word = if status["status"] == "running" { json!("pending") } else { status["status"].clone() };
        let mut members = json!({ "action": CHAT, "status": word });
        if let Some(output) = status.get("output") {
            members["output"] = output.clone();
        }
        Ok(members)
    }

    async fn cancel(&self, asked: &Asked) -> Result<Value, Failed> {
        Self::check_action(asked)?;
        let params = json!({ "id": self.last()? });
        properties::one(&self.whom.gateway, &self.whom.agent, Operation::CancelTask, &params, &self.whom.client)
            .await?;
        Ok(json!({ "action": CHAT, "status": "failed" }))
    }

    async fn read(&self, asked: &Asked) -> Result<(&'static str, Value), Failed> {
        let (name, names) = asked.property();
        let value = self.value(&name).await?;
        let mut members = json!({ "timestamp": self.whom.gateway.calls.now() });
        members[names.0] = json!(name);
        members[names.1] = value;
        Ok(("propertyReading", members))
    }

    async fn readings(&self, names: &[&str]) -> Result<Value, Failed> {
        let mut data = json!({});
        // A name that comes twice is read once.
        for name in properties::NAMES.into_iter().filter(|name| names.contains(name)) {
            data[name] = self.value(name).await?;
        }
        if let Some(unknown) = names.iter().find(|name| !properties::NAMES.contains(name)) {
            self.value(unknown).await?;
        }
        Ok(json!({ "data": data, "timestamp": self.whom.gateway.calls.now() }))
    }

    async fn value(&self, name: &str) -> Result<Value, Failed> {
        let shown: String = name.chars().take(64).collect();
        let unknown = || Failed::Call(OperationError::method_not_found(&shown));
        Ok(properties::read(&self.whom.gateway, &self.whom.agent, name, &self.whom.client)
            .await
            .ok_or_else(unknown)??)
    }

    /// Sends events from now on; gives the acknowledgement, which comes before the first event.
    fn subscribe(self: &Arc<Self>, asked: Asked, requests: &mut JoinSet<()>) -> Option<Value> {
        let message = self.whom.gateway.calls.new_id();
        let event = asked.member("event").and_then(Value::as_str);
        let is_known = asked.kind == "subscribeallevents" || event == Some(AGENT_EVENT);
        if asked.thing != self.whom.thing || !is_known {
            let error = format!("there is no event of that name here, but {AGENT_EVENT} of {}", self.whom.thing);
            return Some(asked.error(StatusCode::NOT_FOUND, &error, &message));
        }
        let acknowledgement = asked.reply("acknowledgement", json!({ "message": "subscribed" }), &message);
        let observed = match self.whom.gateway.wot.bus.observe(&self.whom.agent, &self.whom.client) {
            Ok(observed) => observed,
            Err(full) => return Some(asked.error(StatusCode::TOO_MANY_REQUESTS, &full.to_string(), &message)),
        };
        let connection = self.clone();
        let task = requests.spawn(async move {
            loop {
                let told = observed.next().await;
                let data: Value = serde_json::from_str(&told.text).unwrap_or_default();
                let calls = &connection.whom.gateway.calls;
                let members = json!({ "event": AGENT_EVENT, "data": data, "timestamp": calls.now() });
                // What waits and what is sent are not both there.
                drop(told);
                let Ok(event) = connection.said(&asked.reply("event", members, &calls.new_id())) else { continue };
                if connection.out.send(event).await.is_err() {
                    return;
                }
            }
        });
        if let Some(before) = self.subscriptions().insert(AGENT_EVENT.to_owned(), task) {
            before.abort();
        }
        Some(acknowledgement)
    }

    fn subscriptions(&self) -> MutexGuard<'_, BTreeMap<String, AbortHandle>> {
        self.subscribed.lock().expect("no holder of the subscriptions panics")
    }
}

fn trace(asked: &Asked) -> Trace {
    let text = |name: &str| {
        let text = asked.member(name).and_then(Value::as_str).filter(|text| text.len() <= TRACE_BYTES_MAX);
        text.map(str::to_owned)
    };
    Trace { traceparent: text("traceparent"), tracestate: text("tracestate") }
}
