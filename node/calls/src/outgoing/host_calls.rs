//! Has one host answer a call: this node, or another one by one signed frame.

use std::sync::Arc;
use std::time::Duration;

use althing_call::{CallRequest, Operation, OperationError, Reply, Trace, chain};
use althing_communication::{CallError, Caller, Communication, OpenError, Request, WallClock};
use althing_discovery::Discovery;
use althing_protocol::{AgentId, PublicKey};
use althing_session::{Follower, Remote};
use futures::StreamExt as _;

use crate::CALL;
use crate::hosting::Hosting;

/// Timeout of the answer to a message: agents may work for a while. A node that has gone is noticed within seconds by its
/// connection.
const ANSWER_PATIENCE: Duration = Duration::from_secs(3_600);
/// Timeout of the first event of a subscription. The first event of an answer has [`ANSWER_PATIENCE`].
const FIRST_EVENT_PATIENCE: Duration = Duration::from_secs(60);

/// A call whose agent is resolved.
pub(super) struct Call {
    pub agent: AgentId,
    pub request: CallRequest,
}

/// Has hosts answer calls, one host at a time, and remembers the tasks in their answers.
pub(super) struct HostCalls {
    communication: Communication,
    discovery: Discovery,
    hosting: Hosting,
    remote: Arc<Remote>,
    clock: WallClock,
    me: Caller,
}

impl HostCalls {
    pub fn new(
        (communication, discovery, hosting): (Communication, Discovery, Hosting),
        remote: Arc<Remote>,
        clock: WallClock,
        me: Caller,
    ) -> HostCalls {
        HostCalls { communication, discovery, hosting, remote, clock, me }
    }

    /// Has one host answer, which may be this node.
    pub async fn ask_host(&self, node: PublicKey, call: &Call) -> Result<Reply, SendError> {
        if node == self.me.node {
            let CallRequest { request, metadata, .. } = &call.request;
            let handled = self.hosting.handle(&self.me, &call.agent, request.clone(), metadata).await;
            return handled.map_err(SendError::Answer);
        }
        let reply = self.send(node, call).await?;
        self.discovery.note_use(node);
        Ok(reply)
    }

    /// Sends a call to a node; reconnects once if it is no longer connected.
    async fn send(&self, node: PublicKey, call: &Call) -> Result<Reply, SendError> {
        match self.send_once(node, call).await {
            Err(SendError::Call(CallError::Unreachable { reason: OpenError::NotConnected, .. }))
                if self.discovery.reconnect(node).await =>
            {
                self.send_once(node, call).await
            }
            outcome => outcome,
        }
    }

    async fn send_once(&self, node: PublicKey, call: &Call) -> Result<Reply, SendError> {
        tracing::Span::current().record("peer", tracing::field::display(&node));
        let trace = Trace::of(&tracing::Span::current());
        let (asked, metadata, operation) = (&call.request, &call.request.metadata, call.request.operation());
        let is_message = operation.is_message();
        let request = Request {
            operation: operation.name().to_owned(),
            agent: Some(call.agent.clone()),
            deadline: is_message.then_some(ANSWER_PATIENCE),
            traceparent: trace.traceparent,
            tracestate: trace.tracestate,
            principals: chain::written(&metadata.principals),
            extensions: metadata.extensions.clone(),
            activated: metadata.activated.clone(),
            attributes: metadata.attributes.clone(),
            answer: metadata.answer.clone(),
            priority: asked.priority,
            body: asked.request.bytes().to_vec(),
            holder: None,
            frame: None,
        };
        if !operation.streams() {
            let body = self.communication.call(node, CALL, request).await?;
            return self.checked(node, call, body).await.map(Reply::One);
        }
        let mut events = self.communication.stream(node, CALL, request).await?;
        // The first event is awaited here, so that a refusal is returned by the operation and not in its stream.
        let patience = if is_message { ANSWER_PATIENCE } else { FIRST_EVENT_PATIENCE };
        let first = tokio::time::timeout(patience, events.next()).await;
        let after_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        let first = first.map_err(|_| CallError::Deadline { peer: node, after_ms })??;
        let later = events.into_stream();
        let (remote, clock) = (self.remote.clone(), self.clock.clone());
        let (agent, answer) = (call.agent.clone(), metadata.answer.clone());
        let all = futures::stream::iter(first.map(Ok)).chain(later);
        let followed = all.scan(Follower::default(), move |follower, event| {
            let (remote, clock) = (remote.clone(), clock.clone());
            let (agent, label) = (agent.clone(), answer.label());
            let event = event.map_err(refusal).and_then(|event| match follower.follow(&event) {
                Ok(news) => Ok((event, news)),
                Err(error) => Err(not_a2a(node, &error)),
            });
            async move {
                if let Ok((_, Some(task))) = &event {
                    remote.note(node, &agent, (task.clone(), label), clock.now_ms()).await;
                }
                Some(event.map(|(event, _)| event))
            }
        });
        Ok(Reply::Events(followed.boxed()))
    }

    /// Checks that an answer has the operation's type, and remembers the task in it.
    async fn checked(&self, node: PublicKey, call: &Call, body: Vec<u8>) -> Result<Vec<u8>, SendError> {
        let task = task_in(node, call.request.operation(), &body)?;
        if let Some(task) = task {
            let label = call.request.metadata.answer.label();
            self.remote.note(node, &call.agent, (task, label), self.clock.now_ms()).await;
        }
        Ok(body)
    }
}

/// Why an operation on another node failed.
pub(super) enum SendError {
    /// The call failed.
    Call(CallError),
    /// What this node says of it: the answer is not A2A, or this node is the host and refuses.
    Answer(OperationError),
}

impl From<CallError> for SendError {
    fn from(error: CallError) -> SendError {
        SendError::Call(error)
    }
}

impl From<SendError> for OperationError {
    fn from(failed: SendError) -> OperationError {
        match failed {
            SendError::Call(error) => refusal(error),
            SendError::Answer(error) => error,
        }
    }
}

/// The task in an answer, which has the operation's type; none where that has no task.
fn task_in(node: PublicKey, operation: Operation, body: &[u8]) -> Result<Option<a2a::Task>, SendError> {
    let wrong = |error: serde_json::Error| SendError::Answer(not_a2a(node, &error));
    Ok(match operation {
        Operation::SendMessage => match serde_json::from_slice(body).map_err(wrong)? {
            a2a::SendMessageResponse::Task(task) => Some(task),
            a2a::SendMessageResponse::Message(_) => None,
        },
        Operation::ListTasks => {
            serde_json::from_slice::<a2a::ListTasksResponse>(body).map_err(wrong)?;
            None
        }
        Operation::CreatePushConfig | Operation::GetPushConfig => {
            serde_json::from_slice::<a2a::TaskPushNotificationConfig>(body).map_err(wrong)?;
            None
        }
        Operation::ListPushConfigs => {
            serde_json::from_slice::<a2a::ListTaskPushNotificationConfigsResponse>(body).map_err(wrong)?;
            None
        }
        Operation::DeletePushConfig => {
            serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(body).map_err(wrong)?;
            None
        }
        _ => Some(serde_json::from_slice(body).map_err(wrong)?),
    })
}

fn not_a2a(node: PublicKey, error: &serde_json::Error) -> OperationError {
    OperationError::invalid_agent_response(format!("{node} answered with something other than A2A: {error}"))
}

/// Maps a failed call to the caller's error.
pub(super) fn refusal(error: CallError) -> OperationError {
    match error {
        CallError::Refused { body, .. } => OperationError::from_peer(&body),
        error @ CallError::Deadline { .. } => OperationError::deadline(error.to_string()),
        error @ CallError::Request(_) => OperationError::invalid_params(error.to_string()),
        error => OperationError::agent_unreachable(error.to_string()),
    }
}
