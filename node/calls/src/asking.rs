//! Agents of this node that ask other agents: the same walk as any call, in the name of who asked them.

use std::sync::OnceLock;

use a2a::{Artifact, Message, Part, PartContent, Role, SendMessageRequest, StreamResponse, TaskState};
use althing_communication::Priority;
use althing_discovery::{Among, Nearness};
use althing_execution::agents::{AgentCalls, AgentReply, Question};
use althing_protocol::AgentId;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::machine::chain;
use crate::machine::task::rests;
use crate::operation::{CallRequest, Operation, OperationRequest, Reply};
use crate::outgoing::{Calls, WeakCalls};
use crate::trace::Trace;

/// Bytes of an answer that are taken; an agent that says more is not understood.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// Agents that are looked through for names.
const KNOWN_MAX: usize = 1_000;

/// The way from agents to calls. Agents run before there are calls, which is why it is tied to them later.
#[derive(Default)]
pub struct Asking(OnceLock<WeakCalls>);

impl Asking {
    /// Agents can ask from now on.
    pub fn tie(&self, calls: &Calls) {
        // The first tie holds.
        let _ = self.0.set(calls.downgrade());
    }

    fn calls(&self) -> Option<Calls> {
        self.0.get()?.upgrade()
    }
}

impl AgentCalls for Asking {
    fn known(&self, max: usize) -> Vec<String> {
        let Some(calls) = self.calls() else { return Vec::new() };
        let mut known: Vec<(Nearness, String)> = Vec::new();
        for agent in calls.known(KNOWN_MAX) {
            let nearness = calls.nearness(agent.agent.publisher());
            // Strangers' agents are asked by nobody here.
            if nearness != Nearness::Stranger && !known.iter().any(|(_, name)| name == agent.agent.name()) {
                known.push((nearness, agent.agent.name().to_owned()));
            }
        }
        known.sort_unstable();
        known.into_iter().take(max).map(|(_, name)| name).collect()
    }

    fn ask(&self, question: Question) -> BoxFuture<'_, Result<AgentReply, String>> {
        Box::pin(async move {
            let calls = self.calls().ok_or("this node is starting, or stopping")?;
            ask(&calls, question).await
        })
    }
}

async fn ask(calls: &Calls, question: Question) -> Result<AgentReply, String> {
    let to = calls.resolve(&question.to, Among::Near).await.map_err(|error| error.message)?;
    if calls.nearness(to.publisher()) == Nearness::Stranger {
        let publisher = to.publisher();
        return Err(format!(
            "{:?} is a stranger's, whom agents here do not ask: `althing trust {publisher}` changes that, and lets them call \
             this node's agents too; its own node must trust this one as well, unless anyone may call it",
            question.to
        ));
    }
    let from = calls.own(&question.from).ok_or_else(|| format!("{:?} is no agent of this node", question.from))?;
    let extend = if question.as_itself { chain::asked_as_itself } else { chain::asked_by };
    let principals = extend(&chain::read(&question.principals), &from, &to).map_err(|error| error.to_string())?;
    let mut message = Message::new(Role::User, vec![Part::text(question.message)]);
    message.message_id = calls.new_id();
    message.task_id = question.task;
    let request = SendMessageRequest { message, configuration: None, metadata: None, tenant: None };
    let params = serde_json::to_vec(&request).map_err(|error| error.to_string())?;
    let operation = OperationRequest::parse(Operation::SendStreamingMessage, params);
    let priority = if question.delay_tolerant { Priority::Bulk } else { Priority::Interactive };
    let request = CallRequest::new(to.clone(), operation.map_err(|error| error.message)?, principals)
        .in_trace(Trace::of(&tracing::Span::current()))
        .with_priority(priority);
    // On its own: who gives the answer up may do so before it is known which task that is.
    let given_up = CancellationToken::new();
    let _gives_up = given_up.clone().drop_guard();
    let conversing =
        Conversation { calls: calls.clone(), to: to.clone(), request, given_up, task: None, heard: Heard::default() };
    let conversing = tokio::spawn(conversing.run().in_current_span());
    let (state, task, text) = conversing.await.map_err(|error| error.to_string())??;
    Ok(AgentReply { agent: to.to_string(), task, state: name(&state), text })
}

/// One question and what comes of it.
struct Conversation {
    calls: Calls,
    to: AgentId,
    request: CallRequest,
    given_up: CancellationToken,
    task: Option<String>,
    heard: Heard,
}

impl Conversation {
    /// The state in which its task rests, the task, and what was said. A task that nobody waits for any more, or that
    /// is not understood, is cancelled.
    async fn run(mut self) -> Result<(TaskState, String, String), String> {
        let rested = self.listen().await;
        let task = self.task.take();
        match (rested, task) {
            (Ok(state), task) => Ok((state, task.unwrap_or_default(), self.heard.told())),
            (Err(reason), Some(task)) => {
                let params = serde_json::json!({ "id": task }).to_string().into_bytes();
                if let Ok(cancel) = OperationRequest::parse(Operation::CancelTask, params) {
                    let cancel = CallRequest { callee: self.to.into(), request: cancel, ..self.request };
                    // Its node may be gone, and the task with it.
                    let _ = self.calls.ask(cancel).await;
                }
                Err(reason)
            }
            (Err(reason), None) => Err(reason),
        }
    }

    async fn listen(&mut self) -> Result<TaskState, String> {
        let reply = self.calls.ask(self.request.clone()).await.map_err(|error| error.message)?;
        let Reply::Events(mut events) = reply else { return Err("it answered with no stream".to_owned()) };
        loop {
            let next = if self.task.is_none() {
                // The first says which task it is.
                events.next().await
            } else {
                tokio::select! {
                    biased;
                    () = self.given_up.cancelled() => return Err("it was given up".to_owned()),
                    next = events.next() => next,
                }
            };
            let event = next.ok_or("it ended without an answer")?.map_err(|error| error.message)?;
            let event: StreamResponse = serde_json::from_slice(&event).map_err(|error| error.to_string())?;
            if let StreamResponse::Task(task) = &event {
                self.task = Some(task.id.clone());
            }
            if let Some(state) = self.heard.hear(event)? {
                return Ok(state);
            }
        }
    }
}

/// A2A's name of a state.
fn name(state: &TaskState) -> String {
    let name = serde_json::to_value(state).unwrap_or_default();
    name.as_str().unwrap_or_default().to_owned()
}

#[derive(Default)]
struct Heard {
    text: String,
    /// What came as data, a line each.
    data: String,
}

impl Heard {
    /// Its words; its data, where it had no words.
    fn told(self) -> String {
        if self.text.trim().is_empty() { self.data } else { self.text }
    }

    /// Takes one event; gives the state in which the task rests.
    fn hear(&mut self, event: StreamResponse) -> Result<Option<TaskState>, String> {
        match event {
            StreamResponse::Task(task) if rests(&task.status.state) => {
                for artifact in task.artifacts.unwrap_or_default() {
                    self.artifact(&artifact, false)?;
                }
                self.message(task.status.message)?;
                Ok(Some(task.status.state))
            }
            StreamResponse::Task(_) => Ok(None),
            StreamResponse::StatusUpdate(update) if rests(&update.status.state) => {
                self.message(update.status.message)?;
                Ok(Some(update.status.state))
            }
            StreamResponse::StatusUpdate(_) => Ok(None),
            StreamResponse::ArtifactUpdate(update) => {
                self.artifact(&update.artifact, update.append.unwrap_or_default()).map(|()| None)
            }
            StreamResponse::Message(message) => self.message(Some(message)).map(|()| Some(TaskState::Completed)),
        }
    }

    fn artifact(&mut self, artifact: &Artifact, append: bool) -> Result<(), String> {
        if !append {
            self.part("")?;
        }
        for part in &artifact.parts {
            match &part.content {
                PartContent::Text(text) => self.say(text)?,
                PartContent::Data(data) => self.note(data)?,
                PartContent::Raw(_) | PartContent::Url(_) => {}
            }
        }
        Ok(())
    }

    fn message(&mut self, message: Option<Message>) -> Result<(), String> {
        let parts = message.map(|message| message.parts).unwrap_or_default();
        parts.iter().filter_map(Part::as_text).try_for_each(|text| self.part(text))
    }

    /// On a line of its own.
    fn part(&mut self, text: &str) -> Result<(), String> {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.say("\n")?;
        }
        self.say(text)
    }

    fn say(&mut self, text: &str) -> Result<(), String> {
        self.text.push_str(text);
        self.bounded()
    }

    fn note(&mut self, data: &serde_json::Value) -> Result<(), String> {
        if !self.data.is_empty() {
            self.data.push('\n');
        }
        self.data.push_str(&data.to_string());
        self.bounded()
    }

    fn bounded(&self) -> Result<(), String> {
        if self.text.len() + self.data.len() > TEXT_BYTES_MAX {
            return Err(format!("its answer passes {TEXT_BYTES_MAX} bytes"));
        }
        Ok(())
    }
}
