//! Calls that agents of this node make to other agents: the same path as any call, on behalf of whoever called them.

use std::sync::OnceLock;
use std::time::Duration;

use a2a::{Message, Part, Role, SendMessageRequest, StreamResponse, TaskState};
use althing_call::{
    Asker, CallRequest, Callee, Operation, OperationError, OperationRequest, Purpose, Refusal, Reply, TargetChoice,
    Trace, chain,
};
use althing_communication::Priority;
use althing_discovery::TrustRelation;
use althing_execution::TurnRights;
use althing_execution::agents::{AgentCalls, AgentReply, Question, WorkOffer};
use althing_execution::lease::Lease;
use althing_protocol::{AgentId, PublicKey};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use serde::Deserialize as _;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::agent_answer::AgentAnswer;
use crate::finding;
use crate::handoffs;
use crate::machine::addressee::Addressee;
use crate::outgoing::{Calls, WeakCalls};

/// How often a host is looked for of an agent that was called before this node started, and how long between two looks.
const HOST_LOOKS: u32 = 30;
const HOST_PAUSE: Duration = Duration::from_secs(1);

/// Known agents that are listed to find those that can be called.
const KNOWN_MAX: usize = 1_000;

/// Lets agents call other agents. Agents start before [`Calls`] exists, so it is connected later.
#[derive(Default)]
pub struct AgentCaller(OnceLock<WeakCalls>);

impl AgentCaller {
    /// Connects agents to `calls`; agents can call from now on.
    pub fn connect(&self, calls: &Calls) {
        // Only the first connection counts.
        let _ = self.0.set(calls.downgrade());
    }

    fn calls(&self) -> Option<Calls> {
        self.0.get()?.upgrade()
    }
}

impl AgentCalls for AgentCaller {
    fn known(&self, max: usize) -> Vec<String> {
        let Some(calls) = self.calls() else { return Vec::new() };
        let mut known: Vec<(TrustRelation, String)> = Vec::new();
        for agent in calls.known(KNOWN_MAX) {
            let relation = calls.relation(agent.agent.publisher());
            let may = calls.allows(&Asker::Agent, &agent.agent, Purpose::Call);
            if may && !known.iter().any(|(_, name)| name == agent.agent.name()) {
                known.push((relation, agent.agent.name().to_owned()));
            }
        }
        known.sort_unstable();
        known.into_iter().take(max).map(|(_, name)| name).collect()
    }

    fn callee(&self, name: String) -> BoxFuture<'_, Option<String>> {
        Box::pin(async move {
            let calls = self.calls()?;
            let found = calls.target(&Asker::Agent, &Callee::near(name), Purpose::Call).await.ok()?;
            let (agent, node) = (found.agent.to_string(), calls.first_host(&found.agent).await);
            Some(Addressee { agent: &agent, node }.to_string())
        })
    }

    fn compares_ids(&self, name: String) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let Some(calls) = self.calls() else { return false };
            let found = calls.target(&Asker::Agent, &Callee::near(name), Purpose::Call).await;
            found.is_ok_and(|found| compares_ids(&calls, &found.agent))
        })
    }

    fn ask(&self, question: Question) -> BoxFuture<'_, Result<AgentReply, String>> {
        Box::pin(async move {
            let calls = self.calls().ok_or("this node is starting, or stopping")?;
            ask(&calls, question).await
        })
    }

    fn find(&self, filter: Value) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async move {
            let calls = self.calls().ok_or("this node is starting, or stopping")?;
            let filter = finding::Filter::deserialize(filter).map_err(|error| error.to_string())?;
            finding::find(&calls, filter, &Asker::Agent).await
        })
    }

    fn describe(&self, agent: String) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async move {
            let calls = self.calls().ok_or("this node is starting, or stopping")?;
            finding::describe(&calls, &Asker::Agent, &agent).await.map_err(|error| error.message)
        })
    }

    fn hand_over(&self, offer: WorkOffer) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async move {
            let calls = self.calls().ok_or("this node is starting, or stopping")?;
            // Large, and rarely needed.
            Box::pin(handoffs::offer(&calls, offer)).await
        })
    }
}

/// Whether all nodes of an agent do once what they are told twice under one message id, by what they show of it: not where one only
/// passes messages on, nor where nothing is known.
fn compares_ids(calls: &Calls, agent: &AgentId) -> bool {
    if let Some(is_told_again) = calls.hosting().is_told_again(agent) {
        return !is_told_again;
    }
    let discovery = calls.discovery();
    let hosts = discovery.hosts(agent).into_iter();
    let shown: Vec<bool> = hosts
        .filter_map(|host| discovery.described_by(host, agent))
        .map(|candidate| candidate.description.passes_on())
        .collect();
    !shown.is_empty() && !shown.contains(&true)
}

async fn ask(calls: &Calls, question: Question) -> Result<AgentReply, String> {
    let addressee = question.callee.as_deref().map(Addressee::read);
    // A call that is made once more asks whom it asked before, whatever the name leads to by now.
    let asked = addressee.map_or(question.to.as_str(), |addressee| addressee.agent);
    let mut target = match calls.target(&Asker::Agent, &Callee::near(asked), Purpose::Call).await {
        Ok(target) => target,
        Err(OperationError { refusal: Refusal::ConsentRequired { to }, .. }) => {
            let (task, state) = (question.task.unwrap_or_default(), state_name(&TaskState::AuthRequired));
            return Ok(AgentReply { agent: asked.to_owned(), task, state, text: to });
        }
        Err(error) => return Err(error.message),
    };
    let to = target.agent.clone();
    // What goes on with a task goes to where that is.
    let node = addressee.and_then(|addressee| addressee.node).filter(|_| question.task.is_none());
    let mut is_away = false;
    if question.callee.is_some() {
        // The name that led to it tells more than its id does.
        target.choice = TargetChoice::Name(question.to);
        is_away = !await_host(calls, &to, node).await;
        if node.is_none() && question.task.is_none() {
            check_alone(calls, &to)?;
        }
    }
    let from =
        calls.own_agent(&question.from).ok_or_else(|| format!("{:?} is no agent of this node", question.from))?;
    let extend = if question.as_itself { chain::asked_as_itself } else { chain::asked_by };
    let principals = extend(&chain::read(&question.principals), &from, &to).map_err(|error| error.to_string())?;
    let mut message = Message::new(Role::User, vec![Part::text(question.message)]);
    message.message_id = question.key.unwrap_or_else(|| calls.new_id());
    message.task_id = question.task;
    let request = SendMessageRequest { message, configuration: None, metadata: None, tenant: None };
    let params = serde_json::to_vec(&request).map_err(|error| error.to_string())?;
    let operation = OperationRequest::parse(Operation::SendStreamingMessage, params);
    let priority = if question.delay_tolerant { Priority::Bulk } else { Priority::Interactive };
    let request = CallRequest::new(target, operation.map_err(|error| error.message)?, principals)
        .in_trace(Trace::of(&tracing::Span::current()))
        .in_turn_bound_by(question.binding_hash)
        .with_attributes(question.attributes)
        .adding_to(question.answer)
        .with_priority(priority)
        .under(question.rights.of_callee())
        .for_host(node);
    // In a task of its own: the caller may be dropped before the task's id is known, and the task must be cancelled then.
    let (abandoned, paused) = (CancellationToken::new(), CancellationToken::new());
    let _hang_up_on_drop =
        HangUp { rights: question.rights.clone(), abandoned: abandoned.clone(), paused: paused.clone() };
    let conversation = Conversation {
        calls: calls.clone(),
        request,
        lease: question.rights.lease,
        abandoned,
        paused,
        task: None,
        received: AgentAnswer::default(),
    };
    let conversation = tokio::spawn(conversation.run().in_current_span());
    let answered = conversation.await.map_err(|error| error.to_string())?;
    let (state, task, text) = answered.map_err(|why| match node {
        Some(node) if is_away => format!("{why}; {node} may have done what this asks for, and no other node is asked"),
        _ => why,
    })?;
    Ok(AgentReply { agent: to.to_string(), task, state: state_name(&state), text })
}

/// Waits for the node to which a call goes that was begun, or for any that hosts the agent: a node that has just started knows none
/// yet. False if it does not come.
async fn await_host(calls: &Calls, agent: &AgentId, node: Option<PublicKey>) -> bool {
    for _ in 0..HOST_LOOKS {
        let is_there = match node {
            Some(node) => calls.is_here(agent, node) || calls.discovery().search_host(agent, node).await,
            None => calls.hosting().hosts(agent) || !calls.discovery().search_hosts(agent).await.is_empty(),
        };
        if is_there {
            return true;
        }
        tokio::time::sleep(HOST_PAUSE).await;
    }
    false
}

/// Checks that a message may be sent whose intent names no node, and which may have been sent before: hosts do not share the memory of
/// keys. Where they compare none at all, somebody said that it is to be sent.
fn check_alone(calls: &Calls, agent: &AgentId) -> Result<(), String> {
    let hosts = calls.discovery().hosts(agent).len();
    if hosts > 1 && compares_ids(calls, agent) {
        return Err(format!(
            "{hosts} nodes host {agent}, and nobody knows to which of them this message went before, and what came of it: it is not \
             sent again. Find out, and ask in other words for what was not done"
        ));
    }
    Ok(())
}

/// Ends a conversation to which nobody listens any more.
struct HangUp {
    /// By what right the turn acts that asked.
    rights: TurnRights,
    abandoned: CancellationToken,
    paused: CancellationToken,
}

impl Drop for HangUp {
    fn drop(&mut self) {
        if self.rights.is_paused() { self.paused.cancel() } else { self.abandoned.cancel() }
    }
}

/// One call to another agent, until its task is idle.
struct Conversation {
    calls: Calls,
    request: CallRequest,
    /// The lease of the task of a group that it is for.
    lease: Option<Lease>,
    /// Cancelled when nobody wants the answer any more.
    abandoned: CancellationToken,
    /// Cancelled when the turn that asked goes on after this node was down, and sends the message again then.
    paused: CancellationToken,
    task: Option<String>,
    received: AgentAnswer,
}

impl Conversation {
    /// Gives the state in which the task became idle, the task's id and the text. A task that nobody waits for any more, or
    /// whose events cannot be read, is cancelled.
    async fn run(mut self) -> Result<(TaskState, String, String), String> {
        let paused = self.paused.clone();
        let ended = tokio::select! {
            biased;
            // The other agent goes on: what it answers is there when it is asked again.
            () = paused.cancelled() => return Err("the caller goes on when its node is up again".to_owned()),
            ended = self.listen() => ended,
        };
        let task = self.task.take();
        match (ended, task) {
            (Ok(state), task) => Ok((state, task.unwrap_or_default(), self.received.into_text())),
            (Err(reason), Some(task)) => {
                let params = serde_json::json!({ "id": task }).to_string().into_bytes();
                if let Ok(cancel) = OperationRequest::parse(Operation::CancelTask, params) {
                    let cancel = CallRequest { request: cancel, ..self.request };
                    // Its node may have gone, and the task with it.
                    let _ = self.calls.ask(cancel).await;
                }
                Err(reason)
            }
            (Err(reason), None) => Err(reason),
        }
    }

    async fn listen(&mut self) -> Result<TaskState, String> {
        // As late as possible: finding the agent may have taken long.
        self.lease.as_ref().map_or(Ok(()), Lease::check).map_err(|superseded| superseded.to_string())?;
        let lease = self.lease.clone();
        let superseded = async {
            match &lease {
                Some(lease) => lease.superseded().await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(superseded);
        let reply = match self.calls.ask(self.request.clone()).await {
            Ok(reply) => reply,
            Err(error) => return self.received.refused(error),
        };
        let Reply::Events(mut events) = reply else { return Err("it answered with no stream".to_owned()) };
        loop {
            let next = if self.task.is_none() {
                // The first event has the task's id.
                events.next().await
            } else {
                tokio::select! {
                    biased;
                    () = self.abandoned.cancelled() => return Err("the caller no longer waits".to_owned()),
                    superseded = superseded.as_mut() => return Err(superseded.to_string()),
                    next = events.next() => next,
                }
            };
            let event = next.ok_or("it ended without an answer")?.map_err(|error| error.message)?;
            let event: StreamResponse = serde_json::from_slice(&event).map_err(|error| error.to_string())?;
            if let StreamResponse::Task(task) = &event {
                self.task = Some(task.id.clone());
            }
            if let Some(state) = self.received.receive(event)? {
                return Ok(state);
            }
        }
    }
}

/// A2A's name of a state.
fn state_name(state: &TaskState) -> String {
    let name = serde_json::to_value(state).unwrap_or_default();
    name.as_str().unwrap_or_default().to_owned()
}
