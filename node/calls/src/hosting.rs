//! The A2A operations on the agents that this node hosts. One handler for every face and for the network.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use a2a::{SendMessageResponse, StreamResponse, Task, TaskState};
use althing_communication::{Caller, Entropy, Priority, Trust, WallClock};
use althing_discovery::Nearness;
use althing_execution::agent::{OwnCard, Parameters};
use althing_execution::{AgentError, Host};
use althing_protocol::{AgentId, CallerId, PublisherId};
use althing_store::Store;
use futures::StreamExt as _;
use serde::Serialize;
use tokio::sync::{mpsc, watch};

use crate::error::OperationError;
use crate::machine::chain;
use crate::machine::listing::{Filter, page_token};
use crate::machine::record::{RECORD_BYTES_MAX, Scope};
use crate::machine::task::{self, ANSWER_BYTES_MAX, WORD_BYTES_MAX};
use crate::operation::{CallMetadata, OperationRequest, Reply};
use crate::params::Params;
use crate::tasks::live::{Live, crowded};
use crate::tasks::opening::{Opening, Outcome};
use crate::tasks::store::Encoded;
use crate::tasks::{HostedAgent, Taken, TaskRunner, TaskStoreError, internal};

/// Bytes around a task in an answer that is more than the task.
const WRAPPING: usize = 4 << 10;
/// Tasks of a page: when not asked for, and at most (A2A 1.0.1 §3.1.4).
const PAGE_DEFAULT: i32 = 50;
const PAGE_MAX: i32 = 100;

/// The hosting side of calls.
#[derive(Clone)]
pub struct Hosting {
    shared: Arc<Shared>,
}

struct Shared {
    tasks: TaskRunner,
    trust: watch::Receiver<Trust>,
    agents: Mutex<BTreeMap<AgentId, HostedAgent>>,
}

impl Hosting {
    /// Opens the task store. Tasks that were running when the node ended are failed, and say so. No stored task keeps it
    /// from opening: only summaries are read, and what cannot be written is known until the node ends.
    ///
    /// # Errors
    /// [`TaskStoreError::Read`]: the disk, or the whole store, cannot be read.
    pub async fn open(
        store: Arc<dyn Store>,
        host: Arc<Host>,
        trust: watch::Receiver<Trust>,
        clock: WallClock,
        entropy: Entropy,
    ) -> Result<Hosting, TaskStoreError> {
        let owner = Scope(CallerId::Publisher(trust.borrow().owner));
        let tasks = TaskRunner::open(store, host, owner, clock, entropy).await?;
        Ok(Hosting { shared: Arc::new(Shared { tasks, trust, agents: Mutex::default() }) })
    }

    /// Adds, or replaces, an agent.
    pub fn add(&self, agent: HostedAgent) {
        self.agents().insert(agent.id.clone(), agent);
    }

    /// Takes an agent away. Its tasks stay; those that run are cancelled.
    pub fn remove(&self, agent: &AgentId) {
        self.agents().remove(agent);
        self.tasks().live().cancel(agent.name());
    }

    /// Is the agent hosted here?
    #[must_use]
    pub fn hosts(&self, agent: &AgentId) -> bool {
        self.agents().contains_key(agent)
    }

    /// How soon the agent's answers are wanted.
    pub(crate) fn priority(&self, agent: &AgentId) -> Priority {
        self.agents().get(agent).map_or(Priority::default(), |hosted| hosted.priority)
    }

    /// How near the publisher of an agent is to this node's owner.
    pub(crate) fn nearness(&self, publisher: PublisherId) -> Nearness {
        let trust = self.shared.trust.borrow();
        match publisher {
            own if own == trust.owner => Nearness::Own,
            other if trust.trusted.contains(&CallerId::Publisher(other)) => Nearness::Trusted,
            // Who is in a private network holds its key.
            _ if trust.private => Nearness::Trusted,
            _ => Nearness::Stranger,
        }
    }

    /// The owner of this node, and the publishers that it trusts.
    pub(crate) fn near(&self) -> Vec<PublisherId> {
        let trust = self.shared.trust.borrow();
        std::iter::once(trust.owner).chain(trust.publishers()).collect()
    }

    /// Is this a task of that agent on this node?
    pub(crate) fn knows(&self, agent: &AgentId, id: &str) -> bool {
        let known = || self.tasks().live().is_of(id, agent.name()) || self.tasks().store().is_of(id, agent.name());
        self.hosts(agent) && known()
    }

    /// Tasks that are alive now.
    #[must_use]
    pub fn live_tasks(&self) -> usize {
        self.tasks().live().count()
    }

    /// One operation asked by `caller`: the caller check, then the operation.
    ///
    /// # Errors
    /// A2A's errors, and `CALLER_NOT_ALLOWED`.
    pub async fn handle(
        &self,
        caller: &Caller,
        agent: &AgentId,
        request: OperationRequest,
        metadata: &CallMetadata,
    ) -> Result<Reply, OperationError> {
        let hosted = self.agents().get(agent).cloned();
        let hosted = hosted.ok_or_else(|| OperationError::agent_not_here(format!("{agent} is not hosted here")))?;
        let may = chain::check(&self.shared.trust.borrow(), &hosted.callers, caller, &metadata.principals);
        may.map_err(|refused| OperationError::caller_not_allowed(refused.to_string()))?;
        let (scope, streams) = (Scope(caller.id()), request.operation().streams());
        match request.params {
            Params::Send(request) if streams => self.send_streaming(&hosted, scope, *request, metadata).await,
            Params::Send(request) => self.send(&hosted, scope, *request, metadata).await,
            Params::Get(request) => shown(self.tasks().read(&hosted, scope, &request.id)?.task, request.history_length),
            Params::List(request) => self.list(&hosted, scope, &request),
            Params::Cancel(request) => self.cancel(&hosted, scope, &request, metadata).await,
            Params::Subscribe(request) => self.subscribe(&hosted, scope, &request),
        }
    }

    /// What an agent says of itself beside its description, as far as it runs here and is up.
    pub(crate) fn own_card(&self, agent: &AgentId) -> Option<OwnCard> {
        self.tasks().own_card(agent)
    }

    pub(crate) fn new_id(&self) -> String {
        self.tasks().new_id()
    }

    fn tasks(&self) -> &TaskRunner {
        &self.shared.tasks
    }

    fn agents(&self) -> MutexGuard<'_, BTreeMap<AgentId, HostedAgent>> {
        self.shared.agents.lock().expect("no holder of the agents panics")
    }

    async fn send(
        &self,
        agent: &HostedAgent,
        scope: Scope,
        request: a2a::SendMessageRequest,
        metadata: &CallMetadata,
    ) -> Result<Reply, OperationError> {
        let configuration = request.configuration.clone();
        let at_once = configuration.as_ref().and_then(|c| c.return_immediately).unwrap_or(false);
        let history_length = configuration.and_then(|c| c.history_length);
        // Whoever is given the task's id at once can ask for it; and nobody who waits gives the turn up.
        let before = move |live: &Arc<Live>| {
            live.want();
            (at_once && live.disclose(), live.state.subscribe())
        };
        let (live, (named, mut state)) = match self.tasks().begin(agent, scope, request, metadata, before).await? {
            Taken::New(live, prepared) => (live, prepared),
            Taken::Again(live) => {
                let prepared = before(&live);
                (live, prepared)
            }
            Taken::Before(id) => {
                if let Some(live) = self.tasks().live().running(&id).filter(|_| !at_once) {
                    let _ = live.state.subscribe().wait_for(task::rests).await;
                }
                return sent(self.tasks().read(agent, scope, &id)?.task, history_length);
            }
        };
        if !named {
            // The sender lives in `live`, which is held here: waiting cannot fail.
            let _ = state.wait_for(task::rests).await;
            match live.answer.outcome() {
                Some(Outcome::Reply(message)) => return json(&SendMessageResponse::Message(message)),
                Some(Outcome::Refused(error)) => return Err(error),
                None => {}
            }
        }
        sent(live.record().task, history_length)
    }

    async fn send_streaming(
        &self,
        agent: &HostedAgent,
        scope: Scope,
        request: a2a::SendMessageRequest,
        metadata: &CallMetadata,
    ) -> Result<Reply, OperationError> {
        let history_length = request.configuration.as_ref().and_then(|c| c.history_length);
        let (live, waiting) = match self.tasks().begin(agent, scope, request, metadata, Live::open).await? {
            Taken::New(live, waiting) => (live, waiting),
            Taken::Again(live) => {
                let waiting = live.open();
                (live, waiting)
            }
            Taken::Before(id) => {
                let Some(live) = self.tasks().live().running(&id) else {
                    // It rests: there is nothing to hear of it but how it is.
                    let task = self.tasks().read(agent, scope, &id)?.task;
                    return Ok(stream(task::shown(task, history_length, true), mpsc::channel(1).1, Ok));
                };
                let (task, events) = live.listen(false).ok_or_else(|| crowded(&id))?;
                return Ok(stream(task::shown(task, history_length, true), events, Ok));
            }
        };
        let opening = waiting.opening().await;
        match opening.ok_or_else(|| OperationError::internal("the turn ended without a word"))? {
            Opening::Task(task, events) => {
                Ok(stream(task::shown(task, history_length, true), events, move |event| live.told(event)))
            }
            Opening::Reply(message) => {
                let event = serde_json::to_vec(&StreamResponse::Message(message));
                let event = event.map_err(|error| OperationError::internal(error.to_string()));
                Ok(Reply::Events(futures::stream::iter([event]).boxed()))
            }
            Opening::Refused(error) => Err(error),
        }
    }

    fn subscribe(
        &self,
        agent: &HostedAgent,
        scope: Scope,
        request: &a2a::SubscribeToTaskRequest,
    ) -> Result<Reply, OperationError> {
        // Whose task it is does not change.
        self.tasks().read(agent, scope, &request.id)?;
        let (task, events) =
            self.tasks().live().listen(&request.id, || self.tasks().kept(agent, scope, &request.id))?;
        Ok(stream(task, events, Ok))
    }

    async fn cancel(
        &self,
        agent: &HostedAgent,
        scope: Scope,
        request: &a2a::CancelTaskRequest,
        metadata: &CallMetadata,
    ) -> Result<Reply, OperationError> {
        let said = self.cancel_waiting(agent, scope, request, metadata).await?;
        let gate = self.tasks().live().gate(&request.id).await;
        let mut record = self.tasks().read(agent, scope, &request.id)?;
        if record.task.status.state.is_terminal() {
            return Err(OperationError::task_not_cancelable(&request.id));
        }
        if let Some(live) = self.tasks().live().running(&request.id) {
            drop(gate);
            let mut state = live.state.subscribe();
            live.cancel.cancel();
            let _ = state.wait_for(task::rests).await;
            let task = live.record().task;
            if task.status.state != TaskState::Canceled {
                return Err(OperationError::task_not_cancelable(&request.id));
            }
            return shown(task, None);
        }
        let mut cancelled = record.clone();
        let mut event = task::set(&mut cancelled.task, TaskState::Canceled, said, self.tasks().now());
        let mut encoded = Encoded::of(&cancelled).map_err(internal)?;
        if encoded.len() > RECORD_BYTES_MAX {
            // It holds all that it may: the agent's words on it find no room.
            event = task::set(&mut record.task, TaskState::Canceled, None, self.tasks().now());
            encoded = Encoded::of(&record).map_err(internal)?;
            cancelled = record;
        }
        self.tasks().store().write(encoded).await.map_err(internal)?;
        let waiting = self.tasks().live().take_waiting(&request.id);
        futures::future::join_all(waiting.iter().map(|listener| listener.tell(event.clone()))).await;
        shown(cancelled.task, None)
    }

    /// Tells the agent of a task that waits that it is cancelled, outside of the task's gate; gives the agent's words.
    async fn cancel_waiting(
        &self,
        agent: &HostedAgent,
        scope: Scope,
        request: &a2a::CancelTaskRequest,
        metadata: &CallMetadata,
    ) -> Result<Option<a2a::Message>, OperationError> {
        let record = self.tasks().read(agent, scope, &request.id)?;
        let waits = !record.task.status.state.is_terminal() && self.tasks().live().running(&request.id).is_none();
        let Some(remembered) = record.remembered.filter(|_| waits) else { return Ok(None) };
        let parameters = Parameters {
            extensions: metadata.extensions.clone(),
            principals: chain::written(&metadata.principals),
            metadata: request.metadata.clone(),
            ..Parameters::default()
        };
        let Some(running) = self.tasks().host().agent(agent.id.name()) else { return Ok(None) };
        match running.cancel(&remembered, &parameters).await {
            Ok(said) => Ok(said.filter(|said| task::bytes(said) <= WORD_BYTES_MAX)),
            Err(AgentError::Refused { code, message, details }) => {
                Err(OperationError::of_agent(code, message, details))
            }
            Err(_) => Ok(None),
        }
    }

    fn list(
        &self,
        agent: &HostedAgent,
        scope: Scope,
        request: &a2a::ListTasksRequest,
    ) -> Result<Reply, OperationError> {
        let size = request.page_size.unwrap_or(PAGE_DEFAULT);
        if !(1..=PAGE_MAX).contains(&size) {
            return Err(OperationError::invalid_params(format!("`pageSize` is {size}, and may be 1 to {PAGE_MAX}")));
        }
        let filter = Filter {
            agent: agent.id.name(),
            scope: scope.0,
            context_id: request.context_id.as_deref().filter(|id| !id.is_empty()),
            state: request.status.as_ref().filter(|state| **state != TaskState::Unspecified),
            after_ms: request.status_timestamp_after.map(|at| at.timestamp_millis()),
        };
        let token = request.page_token.as_deref().filter(|token| !token.is_empty());
        let page = self.tasks().store().page(&filter, token, usize::try_from(size).unwrap_or(1));
        let page = page.ok_or_else(|| OperationError::invalid_params("`pageToken` is none of ours"))?;
        let with_artifacts = request.include_artifacts.unwrap_or(false);
        let mut tasks = Vec::with_capacity(page.ids.len());
        let (mut next_page_token, mut room, mut last) = (page.next, ANSWER_BYTES_MAX - WRAPPING, None);
        for id in &page.ids {
            // It may just have been forgotten to make room.
            let Ok(record) = self.tasks().read(agent, scope, id) else { continue };
            let place = crate::listing::place(&record.task);
            let task = task::shown(record.task, request.history_length, with_artifacts);
            // With the comma behind it one always fits a page.
            let task = task::fitted(task, ANSWER_BYTES_MAX - WRAPPING - 1);
            let size = serde_json::to_vec(&task).map_or(usize::MAX, |json| json.len()).saturating_add(1);
            if size > room {
                // The page ends early: what is left comes with the next.
                next_page_token = last.as_ref().map_or(next_page_token, page_token);
                break;
            }
            room -= size;
            tasks.push(task);
            last = Some(place);
        }
        let total_size = i32::try_from(page.total).unwrap_or(i32::MAX);
        json(&a2a::ListTasksResponse { tasks, next_page_token, page_size: size, total_size })
    }
}

/// The answer to a message that is a task.
fn sent(task: Task, history_length: Option<i32>) -> Result<Reply, OperationError> {
    let task = task::shown(task, history_length, true);
    json(&SendMessageResponse::Task(task::fitted(task, ANSWER_BYTES_MAX - WRAPPING)))
}

/// A whole task, with as much of its history as was asked for and fits.
fn shown(task: Task, history_length: Option<i32>) -> Result<Reply, OperationError> {
    json(&task::fitted(task::shown(task, history_length, true), ANSWER_BYTES_MAX))
}

fn json(value: &impl Serialize) -> Result<Reply, OperationError> {
    serde_json::to_vec(value).map(Reply::One).map_err(|error| OperationError::internal(error.to_string()))
}

/// The task as it is, then what happens to it.
fn stream(
    task: Task,
    events: mpsc::Receiver<StreamResponse>,
    told: impl Fn(StreamResponse) -> Result<StreamResponse, OperationError> + Send + 'static,
) -> Reply {
    let later =
        futures::stream::unfold(events, |mut events| async { events.recv().await.map(|event| (event, events)) });
    let task = task::fitted(task, ANSWER_BYTES_MAX - WRAPPING);
    let all = futures::stream::iter([StreamResponse::Task(task)]).chain(later);
    Reply::Events(
        all.map(move |event| {
            serde_json::to_vec(&told(event)?).map_err(|error| OperationError::internal(error.to_string()))
        })
        .boxed(),
    )
}
