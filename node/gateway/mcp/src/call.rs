//! One call of an agent: sends the message, follows the task, tells progress, and cancels the task with the request.

use std::time::Duration;

use a2a::{Message, Part, PartContent, Role, SendMessageRequest, StreamResponse, Task};
use althing_calls::{
    CallRequest, Calls, Operation, OperationError, OperationRequest, Principal, Refusal, Reply, Target, Trace,
};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use rmcp::model::{CallToolResult, ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext, RoleServer};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout, timeout_at};

use crate::answer::{Answer, RELAY, is_idle};
use crate::failed::Failed;

/// How long an answer is awaited by default. Clients give a request up after 60 s.
const WAIT_DEFAULT_S: u64 = 50;
/// How long at most: what a call between nodes may take.
const WAIT_MAX_S: u64 = 3_600;
/// How long a relayed request is awaited: a tool that tells how far it is may take as long. One that is silent is given up by the
/// node that calls it.
const RELAY_WAIT_S: u64 = WAIT_MAX_S;
/// How long a cancelled call waits for the id of its task.
const TASK_ID_PATIENCE: Duration = Duration::from_secs(2);
/// The least time between two progress notifications.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
/// How long a notification may wait for its client to read.
const NOTIFY_PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of text that wait for the next notification.
const UNTOLD_BYTES_MAX: usize = 4_096;

/// The arguments of a tool that calls an agent.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    #[serde(default)]
    pub agent: Option<String>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    data: Option<Value>,
    #[serde(default)]
    task_id: Option<String>,
    #[serde(default)]
    context_id: Option<String>,
    #[serde(default)]
    wait_seconds: Option<u64>,
    /// Whether `data` is a request of MCP, to be relayed.
    #[serde(skip)]
    relays: bool,
}

/// The members of the schema of these arguments, but for `agent`.
pub(crate) fn properties() -> Value {
    // A schema that says nothing of a value does not pass some clients' checks.
    let any = ["object", "array", "string", "number", "boolean"].map(|kind| json!({ "type": kind }));
    json!({
        "message": { "type": "string", "description": "What you say to the agent, in plain text." },
        "data": {
            "description": "Structured data for the agent, beside or instead of the text.",
            "anyOf": any,
        },
        "task_id": {
            "type": "string",
            "description": "The task to continue, or, without message and data, to wait for.",
        },
        "context_id": { "type": "string", "description": "The conversation that a new task belongs to." },
        "wait_seconds": {
            "type": "integer",
            "minimum": 1,
            "maximum": WAIT_MAX_S,
            "default": WAIT_DEFAULT_S,
            "description": "How long to wait for the answer. After that the task goes on, and its id is returned.",
        },
    })
}

/// The schema of the answer.
pub(crate) fn output() -> Value {
    json!({
        "type": "object",
        "properties": {
            "agent": { "type": "string", "description": "The agent's id." },
            "state": {
                "type": "string",
                "enum": [
                    "completed", "working", "submitted", "input-required", "auth-required", "failed", "canceled",
                    "rejected", "unspecified",
                ],
            },
            "text": { "type": "string", "description": "What the agent said and made, or its data as JSON." },
            "task_id": { "type": "string", "description": "Its task, if there is one." },
            "context_id": { "type": "string", "description": "The conversation that it belongs to." },
            "data": { "type": "array", "description": "The data that the agent made." },
        },
        "required": ["agent", "state", "text"],
    })
}

type Events = BoxStream<'static, Result<Vec<u8>, OperationError>>;

/// Who calls whom.
pub(crate) struct Caller<'a> {
    pub calls: &'a Calls,
    pub principal: Principal,
    pub context: &'a RequestContext<RoleServer>,
    pub target: Target,
}

impl Caller<'_> {
    /// Calls the agent and waits for its answer.
    pub async fn call(&self, arguments: Arguments) -> Result<CallToolResult, Failed> {
        Ok(self.answer(arguments).await?.into_result(&self.target.agent.to_string()))
    }

    /// Relays a request of MCP to the agent; gives the result as its server wrote it.
    pub async fn relay(&self, request: Value) -> Result<Value, Failed> {
        let wait_seconds = Some(RELAY_WAIT_S);
        let arguments = Arguments { data: Some(request), wait_seconds, relays: true, ..Arguments::default() };
        self.answer(arguments).await?.into_relayed(RELAY)
    }

    async fn answer(&self, arguments: Arguments) -> Result<Answer, Failed> {
        let wait = arguments.wait_seconds.unwrap_or(WAIT_DEFAULT_S);
        if !(1..=WAIT_MAX_S).contains(&wait) {
            return Err(Failed::Arguments(format!("`wait_seconds` is from 1 to {WAIT_MAX_S}")));
        }
        let until = Instant::now() + Duration::from_secs(wait);
        let mut answer = Answer::default();
        let outcome = self.follow(arguments, until, &mut answer).await;
        match outcome {
            Err(Failed::Cancelled) => {
                if let Some(task) = answer.task {
                    self.cancel(task).await;
                }
                Err(Failed::Cancelled)
            }
            Err(Failed::Answer(why)) => {
                let task = answer.task.map(|task| format!("; its task is {task}")).unwrap_or_default();
                Err(Failed::Answer(format!("{why}{task}")))
            }
            Err(failed) => Err(failed),
            Ok(()) if answer.state.is_none() => Err(Failed::Answer(format!(
                "no answer came within {wait} s, and the agent has no task to wait for; call again, with more \
                 wait_seconds"
            ))),
            Ok(()) => Ok(answer),
        }
    }

    /// Takes the answer's events until it is complete, or until that time.
    async fn follow(&self, arguments: Arguments, until: Instant, answer: &mut Answer) -> Result<(), Failed> {
        let relays = arguments.relays;
        let mut opening = Box::pin(self.open(arguments, answer));
        let opened = tokio::select! {
            opened = timeout_at(until, &mut opening) => opened,
            () = self.context.ct.cancelled() => {
                // A task that begins now is cancelled too.
                Ok(timeout(TASK_ID_PATIENCE, &mut opening).await.unwrap_or(Err(Failed::Cancelled)))
            }
        };
        drop(opening);
        let Ok(opened) = opened else { return Ok(()) };
        let Some(mut events) = opened? else { return Ok(()) };
        let mut progress = Progress::new(self.context);
        while !answer.is_complete() {
            let patience = if self.context.ct.is_cancelled() { Instant::now() + TASK_ID_PATIENCE } else { until };
            let next = tokio::select! {
                biased;
                () = self.context.ct.cancelled(), if answer.task.is_some() => return Err(Failed::Cancelled),
                () = self.context.ct.cancelled(), if patience == until => continue,
                next = timeout_at(patience, events.next()) => next,
            };
            match next {
                Err(_) if self.context.ct.is_cancelled() => return Err(Failed::Cancelled),
                Err(_) => return Ok(()),
                Ok(None) => return Err(Failed::Answer("the answer broke off".to_owned())),
                Ok(Some(event)) => {
                    let bytes = event?;
                    let event: StreamResponse = serde_json::from_slice(&bytes)
                        .map_err(|error| Failed::Answer(format!("the agent's answer is not A2A: {error}")))?;
                    let told = relayed_progress(&event);
                    // Progress is no part of the answer, however often it is told.
                    let counted = if told.is_some() { 0 } else { bytes.len() };
                    if let Some(told) = told {
                        progress.relay(told).await;
                    }
                    let news = answer.take(event, counted).map_err(Failed::Answer)?;
                    if !relays {
                        progress.tell(&news).await;
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends the message, or reads the task; none if the answer is complete already.
    async fn open(&self, arguments: Arguments, answer: &mut Answer) -> Result<Option<Events>, Failed> {
        let Arguments { agent: _, message, data, task_id, context_id, wait_seconds: _, relays } = arguments;
        let mut parts: Vec<Part> = message.map(Part::text).into_iter().collect();
        parts.extend(data.map(|data| Part {
            content: PartContent::Data(data),
            filename: None,
            media_type: Some("application/json".to_owned()),
            metadata: None,
        }));
        match task_id {
            Some(task) if parts.is_empty() => self.wait(task, answer).await,
            None if parts.is_empty() => {
                Err(Failed::Arguments("`message` or `data` is missing; only with `task_id` may both be".to_owned()))
            }
            task => {
                let mut message = Message::new(Role::User, parts);
                message.message_id = self.calls.new_id();
                message.task_id = task;
                message.context_id = context_id;
                message.extensions = relays.then(|| vec![RELAY.to_owned()]);
                let request = SendMessageRequest { message, configuration: None, metadata: None, tenant: None };
                let params = serde_json::to_value(&request).map_err(|error| Failed::Arguments(error.to_string()))?;
                self.events(Operation::SendStreamingMessage, &params).await.map(Some)
            }
        }
    }

    /// Follows a task that was begun before.
    async fn wait(&self, task: String, answer: &mut Answer) -> Result<Option<Events>, Failed> {
        let params = json!({ "id": task });
        if self.read(&params, answer).await? {
            return Ok(None);
        }
        match self.events(Operation::SubscribeToTask, &params).await {
            // It has ended in the meantime.
            Err(Failed::Operation(error)) if error.refusal == Refusal::Unsupported => {
                self.read(&params, answer).await?;
                Ok(None)
            }
            outcome => outcome.map(Some),
        }
    }

    /// Reads a task; tells whether it is idle.
    async fn read(&self, params: &Value, answer: &mut Answer) -> Result<bool, Failed> {
        match self.ask(Operation::GetTask, params).await? {
            Reply::One(body) => {
                let task: Task = serde_json::from_slice(&body)
                    .map_err(|error| Failed::Answer(format!("the task cannot be read: {error}")))?;
                let idle = is_idle(&task.status.state);
                answer.take_task(task);
                Ok(idle)
            }
            Reply::Events(_) => Err(Failed::Answer("the task cannot be read".to_owned())),
        }
    }

    async fn events(&self, operation: Operation, params: &Value) -> Result<Events, Failed> {
        match self.ask(operation, params).await? {
            Reply::Events(events) => Ok(events),
            Reply::One(_) => Err(Failed::Answer("the agent answered with no stream".to_owned())),
        }
    }

    /// Cancels a task, whose node may have gone.
    async fn cancel(&self, task: String) {
        let _ = self.ask(Operation::CancelTask, &json!({ "id": task })).await;
    }

    async fn ask(&self, operation: Operation, params: &Value) -> Result<Reply, OperationError> {
        let request = OperationRequest::parse(operation, params.to_string().into_bytes())?;
        let request = CallRequest::new(self.target.clone(), request, vec![self.principal.clone()]);
        self.calls.ask(request.in_trace(trace(self.context))).await
    }
}

/// The trace of a request: in its metadata, or in the headers of its HTTP request.
fn trace(context: &RequestContext<RoleServer>) -> Trace {
    let headers = context.extensions.get::<axum::http::request::Parts>().map(|parts| &parts.headers);
    let header = |name: &str| headers.and_then(|headers| headers.get(name)).and_then(|value| value.to_str().ok());
    let member = |name: &str| context.meta.get(name).and_then(Value::as_str);
    let value = |name: &str| member(name).or(header(name)).filter(|value| value.len() <= 512).map(str::to_owned);
    Trace { traceparent: value("traceparent"), tracestate: value("tracestate") }
}

/// What a relayed call tells of its progress.
fn relayed_progress(event: &StreamResponse) -> Option<&Value> {
    let StreamResponse::StatusUpdate(update) = event else { return None };
    update.metadata.as_ref()?.get(RELAY)
}

/// Tells a client how its request goes, if it asked for that.
struct Progress<'a> {
    peer: &'a Peer<RoleServer>,
    token: Option<ProgressToken>,
    told: u32,
    at: Option<Instant>,
    untold: String,
}

impl<'a> Progress<'a> {
    fn new(context: &'a RequestContext<RoleServer>) -> Progress<'a> {
        let token = context.meta.get_progress_token();
        Progress { peer: &context.peer, token, told: 0, at: None, untold: String::new() }
    }

    /// Tells what a server of tools told.
    async fn relay(&self, told: &Value) {
        let (Some(token), Some(progress)) = (&self.token, told["progress"].as_f64()) else { return };
        let mut notification = ProgressNotificationParam::new(token.clone(), progress);
        notification.total = told["total"].as_f64();
        notification.message = told["message"].as_str().map(str::to_owned);
        let _ = timeout(NOTIFY_PATIENCE, self.peer.notify_progress(notification)).await;
    }

    /// Tells what is new; what comes too soon after the last notification waits for the next.
    async fn tell(&mut self, news: &str) {
        let Some(token) = &self.token else { return };
        if self.untold.len() + news.len() <= UNTOLD_BYTES_MAX {
            self.untold.push_str(news);
        }
        if self.at.is_some_and(|at| at.elapsed() < PROGRESS_EVERY) {
            return;
        }
        self.told += 1;
        self.at = Some(Instant::now());
        let mut notification = ProgressNotificationParam::new(token.clone(), f64::from(self.told));
        notification.message = Some(std::mem::take(&mut self.untold)).filter(|text| !text.is_empty());
        // A client that does not read them gets the answer all the same.
        let _ = timeout(NOTIFY_PATIENCE, self.peer.notify_progress(notification)).await;
    }
}
