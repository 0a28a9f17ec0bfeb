//! The walk of one call, outgoing (design: "out"): a face hands over a request with its principal; L3 says where the
//! agent is; L2 sends one signed frame, or the agent is hosted here.

use std::sync::{Arc, Weak};
use std::time::Duration;

use althing_communication::{CallError, Caller, Communication, OpenError, Request, WallClock};
use althing_discovery::{Among, Discovery, FindError, Nearness};
use althing_execution::agent::OwnCard;
use althing_protocol::{AgentId, PublicKey, PublisherId};
use althing_store::Store;
use futures::StreamExt as _;
use tracing::Instrument as _;

use crate::CALL;
use crate::error::OperationError;
use crate::hosting::Hosting;
use crate::listing;
use crate::machine::chain;
use crate::operation::{CallRequest, Callee, Operation, Reply};
use crate::params::Params;
use crate::remote::{Follower, Remote};
use crate::trace::Trace;

/// How long the answer to a message is waited for: agents may work for a while. A node that
/// is gone is noticed in seconds, by its connection.
const ANSWER_PATIENCE: Duration = Duration::from_secs(3_600);
/// How long the first event of a task that is known may take. That of an answer is the agent's, as any answer.
const FIRST_EVENT_PATIENCE: Duration = Duration::from_secs(60);

/// Publishers whose agents of a name are looked for.
const NEAR_MAX: usize = 8;

/// The calling side.
#[derive(Clone)]
pub struct Calls {
    shared: Arc<Shared>,
}

struct Shared {
    communication: Communication,
    discovery: Discovery,
    hosting: Hosting,
    remote: Remote,
    clock: WallClock,
    me: Caller,
}

impl Calls {
    /// Ties the layers together. `owner` is whose node this is.
    #[must_use]
    pub fn new(
        communication: Communication,
        discovery: Discovery,
        hosting: Hosting,
        store: Arc<dyn Store>,
        clock: WallClock,
        owner: PublisherId,
    ) -> Calls {
        let me = Caller { node: communication.network().local(), owner: Some(owner) };
        let shared = Shared { communication, discovery, hosting, remote: Remote::new(store), clock, me };
        Calls { shared: Arc::new(shared) }
    }

    /// The agent that `text` names. A name that nobody near is known to have is looked for among the agents of this
    /// node's owner and of those it trusts, wherever they are; never among strangers', whose names are anybody's. A
    /// stranger's agent that is known is meant only where `among` says so.
    ///
    /// # Errors
    /// `AGENT_UNKNOWN`, also for a name that several agents have.
    pub async fn resolve(&self, text: &str, among: Among) -> Result<AgentId, OperationError> {
        let nearness = |publisher| self.shared.hosting.nearness(publisher);
        let discovery = &self.shared.discovery;
        let resolved = discovery.resolve(text, among, nearness);
        let near = |id: &AgentId| nearness(id.publisher()) != Nearness::Stranger;
        let settled = text.starts_with("urn:")
            || matches!(&resolved, Err(FindError::Ambiguous { .. }))
            || resolved.as_ref().is_ok_and(near);
        if !settled {
            let publishers = self.shared.hosting.near().into_iter().take(NEAR_MAX);
            let ids = publishers.filter_map(|publisher| AgentId::new(publisher, text).ok());
            let looking = ids.map(|id| async move {
                let hosts = discovery.seek_hosts(&id).await;
                (!hosts.is_empty()).then_some(id)
            });
            // The owner's own comes first.
            if let Some(id) = futures::future::join_all(looking).await.into_iter().flatten().next() {
                return Ok(id);
            }
        }
        resolved.map_err(|error: FindError| OperationError::agent_unknown(error.to_string()))
    }

    /// Looks for the nodes of an agent that none is known of.
    pub async fn seek(&self, agent: &AgentId) {
        self.shared.discovery.seek_hosts(agent).await;
    }

    /// For those whom the calls outlive.
    pub(crate) fn downgrade(&self) -> WeakCalls {
        WeakCalls(Arc::downgrade(&self.shared))
    }

    /// The agent of this node's owner that has that name.
    pub(crate) fn own(&self, name: &str) -> Option<AgentId> {
        AgentId::new(self.shared.me.owner?, name).ok()
    }

    pub(crate) fn nearness(&self, publisher: PublisherId) -> Nearness {
        self.shared.hosting.nearness(publisher)
    }

    pub(crate) fn new_id(&self) -> String {
        self.shared.hosting.new_id()
    }

    /// What an agent that this node hosts says of itself beside its description.
    #[must_use]
    pub fn own_card(&self, agent: &AgentId) -> Option<OwnCard> {
        let hosting = &self.shared.hosting;
        hosting.hosts(agent).then(|| hosting.own_card(agent)).flatten()
    }

    /// L3, for faces that describe and find.
    #[must_use]
    pub fn discovery(&self) -> &Discovery {
        &self.shared.discovery
    }

    /// Asks an agent, wherever it is. Dropping the future, or the events, cancels the call but not the task.
    ///
    /// # Errors
    /// A2A's errors and this project's refusals.
    pub async fn ask(&self, request: CallRequest) -> Result<Reply, OperationError> {
        let span = tracing::info_span!(
            "a2a.client",
            otel.kind = "client",
            rpc.method = request.operation().name(),
            agent = tracing::field::Empty,
        );
        request.trace.continue_in(&span);
        self.walk(request).instrument(span).await
    }

    async fn walk(&self, request: CallRequest) -> Result<Reply, OperationError> {
        let agent = match &request.callee {
            Callee::Id(agent) => agent.clone(),
            Callee::Named(name, among) => self.resolve(name, *among).await?,
        };
        tracing::Span::current().record("agent", tracing::field::display(&agent));
        let call = Call { agent, request };
        let (shared, operation) = (&self.shared, call.request.operation());
        let hosts = self.hosts(&call).await;
        if operation == Operation::ListTasks && hosts.len() > 1 {
            return self.list(&call, hosts).await;
        }
        if hosts.first() == Some(&shared.me.node) {
            let CallRequest { request, metadata, .. } = call.request;
            return shared.hosting.handle(&shared.me, &call.agent, request, &metadata).await;
        }
        let mut failed = None;
        for node in hosts {
            match self.send(node, &call).await {
                // Nothing was sent: another host may be asked.
                Err(Failed::Call(error @ CallError::Unreachable { .. })) => failed = Some(error),
                Err(error) => return Err(error.into()),
                Ok(reply) => {
                    shared.discovery.note_use(node);
                    return Ok(reply);
                }
            }
        }
        if let Params::Get(request) = &call.request.request.params
            && let Some(task) = shared.remote.last_known(&call.agent, &request.id)
        {
            let json = serde_json::to_vec(&task).map_err(|error| OperationError::internal(error.to_string()))?;
            return Ok(Reply::One(json));
        }
        let unknown = || OperationError::agent_unknown(format!("no node that hosts {} is known", call.agent));
        Err(failed.map_or_else(unknown, refusal))
    }

    /// The caller's tasks with an agent that several nodes host. All must answer: a list that lacks some would not say so.
    async fn list(&self, call: &Call, hosts: Vec<PublicKey>) -> Result<Reply, OperationError> {
        let pages = hosts.into_iter().map(|node| async move {
            let reply = self.page(node, call).await?;
            let Reply::One(body) = reply else { return Err(OperationError::internal("a list is no stream")) };
            let not_a_list = |error| OperationError::invalid_agent_response(format!("{node} gave no list: {error}"));
            serde_json::from_slice::<a2a::ListTasksResponse>(&body).map_err(not_a_list)
        });
        let merged = listing::merge(futures::future::try_join_all(pages).await?);
        let json = serde_json::to_vec(&merged).map_err(|error| OperationError::internal(error.to_string()))?;
        Ok(Reply::One(json))
    }

    async fn page(&self, node: PublicKey, call: &Call) -> Result<Reply, OperationError> {
        let shared = &self.shared;
        if node == shared.me.node {
            let CallRequest { request, metadata, .. } = &call.request;
            return shared.hosting.handle(&shared.me, &call.agent, request.clone(), metadata).await;
        }
        Ok(self.send(node, call).await?)
    }

    /// Where to ask: the node of the task for what is about a task, or else every node that hosts the agent.
    async fn hosts(&self, call: &Call) -> Vec<PublicKey> {
        let shared = &self.shared;
        // Tasks of this node's own come first: no other node's word about them counts.
        if let Some(id) = call.request.request.params.task_id().filter(|id| !shared.hosting.knows(&call.agent, id))
            && let Some(node) = shared.remote.node(&call.agent, id)
        {
            return vec![node];
        }
        shared.discovery.seek_hosts(&call.agent).await
    }

    /// Asks a node; one that is not connected any more is connected again, once.
    async fn send(&self, node: PublicKey, call: &Call) -> Result<Reply, Failed> {
        match self.send_once(node, call).await {
            Err(Failed::Call(CallError::Unreachable { reason: OpenError::NotConnected, .. }))
                if self.shared.discovery.reach(node).await =>
            {
                self.send_once(node, call).await
            }
            outcome => outcome,
        }
    }

    async fn send_once(&self, node: PublicKey, call: &Call) -> Result<Reply, Failed> {
        let trace = Trace::of(&tracing::Span::current());
        let (asked, metadata, operation) = (&call.request, &call.request.metadata, call.request.operation());
        let is_message = matches!(operation, Operation::SendMessage | Operation::SendStreamingMessage);
        let request = Request {
            operation: operation.name().to_owned(),
            agent: Some(call.agent.clone()),
            deadline: is_message.then_some(ANSWER_PATIENCE),
            traceparent: trace.traceparent,
            tracestate: trace.tracestate,
            principals: chain::written(&metadata.principals),
            extensions: metadata.extensions.clone(),
            priority: asked.priority,
            body: asked.request.bytes().to_vec(),
            holder: None,
        };
        let shared = &self.shared;
        if !operation.streams() {
            let body = shared.communication.call(node, CALL, request).await?;
            return self.checked(node, call, body).await.map(Reply::One);
        }
        let mut events = shared.communication.stream(node, CALL, request).await?;
        // The first event is waited for here, so that a refusal is the operation's own and not its stream's.
        let patience = if is_message { ANSWER_PATIENCE } else { FIRST_EVENT_PATIENCE };
        let first = tokio::time::timeout(patience, events.next()).await;
        let after_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        let first = first.map_err(|_| CallError::Deadline { peer: node, after_ms })??;
        let later = events.into_stream();
        let (calls, agent) = (self.clone(), call.agent.clone());
        let all = futures::stream::iter(first.map(Ok)).chain(later);
        let followed = all.scan(Follower::default(), move |follower, event| {
            let (calls, agent) = (calls.clone(), agent.clone());
            let event = event.map_err(refusal).and_then(|event| match follower.follow(&event) {
                Ok(news) => Ok((event, news)),
                Err(error) => Err(no_a2a(node, &error)),
            });
            async move {
                if let Ok((_, Some(task))) = &event {
                    calls.shared.remote.note(node, &agent, task.clone(), calls.shared.clock.now_ms()).await;
                }
                Some(event.map(|(event, _)| event))
            }
        });
        Ok(Reply::Events(followed.boxed()))
    }

    /// An answer that is what the operation answers with; tasks in it are remembered.
    async fn checked(&self, node: PublicKey, call: &Call, body: Vec<u8>) -> Result<Vec<u8>, Failed> {
        let wrong = |error: serde_json::Error| Failed::Answer(no_a2a(node, &error));
        let task: Option<a2a::Task> = match call.request.operation() {
            Operation::SendMessage => match serde_json::from_slice(&body).map_err(wrong)? {
                a2a::SendMessageResponse::Task(task) => Some(task),
                a2a::SendMessageResponse::Message(_) => None,
            },
            Operation::ListTasks => {
                serde_json::from_slice::<a2a::ListTasksResponse>(&body).map_err(wrong)?;
                None
            }
            _ => Some(serde_json::from_slice(&body).map_err(wrong)?),
        };
        if let Some(task) = task {
            self.shared.remote.note(node, &call.agent, task, self.shared.clock.now_ms()).await;
        }
        Ok(body)
    }
}

/// A call whose agent is known.
struct Call {
    agent: AgentId,
    request: CallRequest,
}

/// The calling side, for those whom it outlives.
#[derive(Clone)]
pub(crate) struct WeakCalls(Weak<Shared>);

impl WeakCalls {
    pub fn upgrade(&self) -> Option<Calls> {
        self.0.upgrade().map(|shared| Calls { shared })
    }
}

/// Why an operation on another node failed.
enum Failed {
    /// The call did.
    Call(CallError),
    /// The answer is none.
    Answer(OperationError),
}

impl From<CallError> for Failed {
    fn from(error: CallError) -> Failed {
        Failed::Call(error)
    }
}

impl From<Failed> for OperationError {
    fn from(failed: Failed) -> OperationError {
        match failed {
            Failed::Call(error) => refusal(error),
            Failed::Answer(error) => error,
        }
    }
}

fn no_a2a(node: PublicKey, error: &serde_json::Error) -> OperationError {
    OperationError::invalid_agent_response(format!("{node} answered with something else than A2A: {error}"))
}

/// What a failed call is to whoever asked.
fn refusal(error: CallError) -> OperationError {
    match error {
        CallError::Refused { body, .. } => OperationError::from_peer(&body),
        error @ CallError::Deadline { .. } => OperationError::deadline(error.to_string()),
        error @ CallError::Request(_) => OperationError::invalid_params(error.to_string()),
        error => OperationError::agent_unreachable(error.to_string()),
    }
}

/// An agent that is known, for listings.
#[derive(Debug, Clone)]
pub struct Known {
    /// Its id.
    pub agent: AgentId,
    /// A node that hosts it.
    pub node: PublicKey,
    /// Its title.
    pub title: String,
}

impl Calls {
    /// The agents that this node knows, at most `max`.
    #[must_use]
    pub fn known(&self, max: usize) -> Vec<Known> {
        let query = althing_discovery::Query { limit: Some(max), ..Default::default() };
        let (found, _) = self.shared.discovery.find(&query);
        let known = found.into_iter().map(|found| Known {
            agent: found.candidate.verified.agent.clone(),
            node: found.node,
            title: found.candidate.description.title().to_owned(),
        });
        known.collect()
    }
}
