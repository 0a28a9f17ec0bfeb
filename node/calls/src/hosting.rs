//! The A2A operations on the agents that this node hosts. One handler for every face and for the network.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use a2a::{SendMessageResponse, StreamResponse, Task, TaskState};
use althing_communication::{Caller, CallerRule, Entropy, Priority, Trust, WallClock};
use althing_discovery::TrustRelation;
use althing_execution::agent::{OwnCard, Parameters};
use althing_execution::{AgentError, Host};
use althing_protocol::{AgentId, CallerId, PublisherId};
use althing_store::Store;
use futures::StreamExt as _;
use tokio::sync::{mpsc, watch};

use crate::elsewhere::Elsewhere;
use crate::error::OperationError;
use crate::machine::chain;
use crate::machine::listing::{Filter, page_token};
use crate::machine::record::{RECORD_BYTES_MAX, Scope};
use crate::machine::redirects::{NO_REDIRECT, Redirect};
use crate::machine::relation;
use crate::machine::task::{self, ANSWER_BYTES_MAX, STATUS_MESSAGE_BYTES_MAX};
use crate::params::Params;
use crate::push::Postman;
use crate::push_configs;
use crate::request::{CallMetadata, OperationRequest, Reply};
use crate::tasks::first_response::{FirstResponse, Outcome};
use crate::tasks::live::{LiveTask, too_many_listeners};
use crate::tasks::store::Encoded;
use crate::tasks::{Accepted, HostedAgent, TaskRunner, TaskStoreError, internal};

/// Bytes of an answer beside the task in it.
const WRAPPING: usize = 4 << 10;
/// Page size: the default and the maximum (A2A 1.0.1 §3.1.4).
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
    /// Who does what this node cannot.
    elsewhere: OnceLock<Arc<dyn Elsewhere>>,
}

impl Hosting {
    /// Opens the task store. Tasks that ran when the node ended are set to failed. A damaged task does not keep the store
    /// from opening: only summaries are read, and a failure that cannot be written is remembered until the node ends.
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
        let owner = trust.borrow().owner;
        let tasks = TaskRunner::open(store, host, Scope::of(CallerId::Publisher(owner)), clock, entropy).await?;
        let shared = Shared { tasks, trust, agents: Mutex::default(), elsewhere: OnceLock::new() };
        Ok(Hosting { shared: Arc::new(shared) })
    }

    /// From now on answers new messages that another node serves with a redirect to it. The first one stays.
    pub fn redirect_by(&self, elsewhere: Arc<dyn Elsewhere>) {
        // A second one would be a fault of the composition: the first decides.
        let _ = self.shared.elsewhere.set(elsewhere);
    }

    /// Adds or replaces an agent.
    pub fn add(&self, agent: HostedAgent) {
        self.agents().insert(agent.id.clone(), agent);
    }

    /// Removes an agent. Its tasks stay; running turns are cancelled.
    pub fn remove(&self, agent: &AgentId) {
        self.agents().remove(agent);
        self.tasks().live().cancel(agent.name());
    }

    /// Is the agent hosted here?
    #[must_use]
    pub fn hosts(&self, agent: &AgentId) -> bool {
        self.agents().contains_key(agent)
    }

    /// The hash of the manifest that the agent is bound to, if it runs here.
    pub(crate) fn binding_hash(&self, agent: &AgentId) -> Option<Arc<str>> {
        self.hosts(agent).then(|| self.tasks().host().binding(agent.name()))?.map(|binding| binding.hash.clone())
    }

    /// The priority of the agent's answers.
    pub(crate) fn priority(&self, agent: &AgentId) -> Priority {
        self.agents().get(agent).map_or(Priority::default(), |hosted| hosted.priority)
    }

    /// How far this node trusts a publisher.
    pub(crate) fn relation(&self, publisher: PublisherId) -> TrustRelation {
        relation::of_publisher(&self.shared.trust.borrow(), publisher)
    }

    /// The owner of this node and the publishers that it trusts, the owner first.
    pub(crate) fn trusted_publishers(&self) -> Vec<PublisherId> {
        let trust = self.shared.trust.borrow();
        std::iter::once(trust.owner).chain(trust.publishers()).collect()
    }

    /// Whether this node has that task of the agent.
    pub(crate) fn has_task(&self, agent: &AgentId, id: &str) -> bool {
        let (tasks, name) = (self.tasks(), agent.name());
        self.hosts(agent) && (tasks.live().is_of(id, name) || tasks.store().is_of(id, name))
    }

    /// The number of turns that run.
    #[must_use]
    pub fn live_tasks(&self) -> usize {
        self.tasks().live().count()
    }

    /// How many turns of each agent run, by its name, of those that have one.
    #[must_use]
    pub fn running_turns(&self) -> BTreeMap<String, usize> {
        self.tasks().live().by_agent()
    }

    /// Ends the turns that run, and accepts no message any more: the node is being stopped. Callers are refused with `OVERLOADED`,
    /// or, where their task was shown to them already, it fails; both say why.
    pub fn end_turns(&self) {
        self.tasks().ending().cancel();
    }

    /// Serves one operation of `caller`: the caller check, then the operation.
    ///
    /// # Errors
    /// A2A's errors, `CALLER_NOT_ALLOWED`, and `REDIRECTED`.
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
        let (scope, streams) = (Scope::of_call(caller.id(), &metadata.principals), request.operation().streams());
        let may_redirect = metadata.extensions.iter().all(|extension| extension != NO_REDIRECT);
        if may_redirect && let Some(redirect) = self.redirect(&hosted, scope, &request.params) {
            return Err(OperationError::redirected(redirect));
        }
        if let (Params::Send(_), Some(elsewhere)) = (&request.params, self.shared.elsewhere.get()) {
            elsewhere.refused(agent).map_or(Ok(()), |why| Err(OperationError::busy(why)))?;
        }
        match request.params {
            Params::Send(request) if streams => self.send_streaming(&hosted, scope, *request, metadata).await,
            Params::Send(request) => self.send(&hosted, scope, *request, metadata).await,
            Params::Get(request) => shown(self.tasks().read(&hosted, scope, &request.id)?.task, request.history_length),
            Params::List(request) => {
                // All tasks of a page are decoded, however little of them is shown.
                let hosting = self.clone();
                self.tasks().apart(move || hosting.list(&hosted, scope, &request)).await?
            }
            Params::Cancel(request) => self.cancel(&hosted, scope, &request, metadata).await,
            Params::Subscribe(request) => self.subscribe(&hosted, scope, &request).await,
            Params::Card => Err(OperationError::no_extended_card()),
            Params::CreatePush(_) | Params::GetPush(_) | Params::ListPush(_) | Params::DeletePush(_) => {
                push_configs::handle(self.tasks(), &hosted, scope, request.params).await
            }
        }
    }

    /// Where a new message is sent instead. One that was taken here before is answered by its task.
    fn redirect(&self, agent: &HostedAgent, scope: Scope, params: &Params) -> Option<Redirect> {
        let Params::Send(request) = params else { return None };
        let (name, message) = (agent.id.name(), &request.message);
        if message.task_id.is_some() {
            return None;
        }
        let redirect = self.shared.elsewhere.get()?.served_by(&agent.id)?;
        let tasks = self.tasks();
        let is_known = tasks.live().began_by(name, scope, &message.message_id).is_some()
            || tasks.store().began_by(name, scope, &message.message_id).is_some();
        (!is_known).then_some(redirect)
    }

    /// Whether only this node may call the agent.
    pub(crate) fn is_for_this_node(&self, agent: &AgentId) -> bool {
        self.agents().get(agent).is_some_and(|hosted| hosted.callers == CallerRule::ThisNode)
    }

    /// Whether the agent is hosted here and would answer `caller`, which calls on behalf of these principals.
    pub(crate) fn answers(&self, caller: &Caller, agent: &AgentId, principals: &[chain::Principal]) -> bool {
        let hosted = self.agents().get(agent).cloned();
        let may = |hosted: &HostedAgent| {
            chain::check(&self.shared.trust.borrow(), &hosted.callers, caller, principals).is_ok()
        };
        hosted.as_ref().is_some_and(may)
    }

    /// The agent card that a running agent serves itself, if any.
    pub(crate) fn own_card(&self, agent: &AgentId) -> Option<OwnCard> {
        self.tasks().own_card(agent)
    }

    /// The latency class of an agent's contract, if it runs here.
    pub(crate) fn latency_class(&self, agent: &AgentId) -> Option<&'static str> {
        Some(self.tasks().host().latency(agent.name())?.name())
    }

    pub(crate) fn new_id(&self) -> String {
        self.tasks().new_id()
    }

    /// Sends push notifications through `postman`; without one, none are served.
    pub fn notify_through(&self, postman: Arc<dyn Postman>) {
        self.tasks().notify_through(postman);
    }

    /// Whether push notifications are sent.
    pub(crate) fn notifies(&self) -> bool {
        self.tasks().store().push().is_served()
    }

    pub(crate) fn tasks(&self) -> &TaskRunner {
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
        // Once the task's id is disclosed, clients that hang up no longer cancel the turn.
        let before = move |live: &Arc<LiveTask>| {
            live.keep_alive();
            (at_once && live.disclose(), live.state.subscribe())
        };
        let (live, (named, mut state)) =
            match self.tasks().begin(agent, scope, request, metadata, at_once, before).await? {
                Accepted::New(live, prepared) => (live, prepared),
                Accepted::DuplicateRunning(live) => {
                    let prepared = before(&live);
                    (live, prepared)
                }
                Accepted::Duplicate(id) => {
                    if let Some(live) = self.tasks().live().running(&id).filter(|_| !at_once) {
                        let _ = live.state.subscribe().wait_for(task::is_idle).await;
                    }
                    return sent(self.tasks().read(agent, scope, &id)?.task, history_length);
                }
            };
        let is_told = named && self.tasks().keep_shown(&live).await.map_err(internal)?;
        if !is_told {
            // The sender lives in `live`, which is held here: waiting cannot fail.
            let _ = state.wait_for(task::is_idle).await;
            match live.answer.outcome() {
                Some(Outcome::Reply(message)) => return Reply::json(&SendMessageResponse::Message(message)),
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
        let shown = !self.tasks().may_reply(agent);
        let begun = self.tasks().begin(agent, scope, request, metadata, shown, LiveTask::open).await?;
        let (live, waiting) = match begun {
            Accepted::New(live, waiting) => (live, waiting),
            Accepted::DuplicateRunning(live) => {
                if live.shows() {
                    // Whether there is a task to tell of, its first response says.
                    let _ = self.tasks().keep_shown(&live).await.map_err(internal)?;
                }
                let waiting = live.open();
                (live, waiting)
            }
            Accepted::Duplicate(id) => {
                let Some(live) = self.tasks().live().running(&id) else {
                    // It is idle: there are no further events.
                    let task = self.tasks().read(agent, scope, &id)?.task;
                    return Ok(stream(task::view(task, history_length, true), mpsc::channel(1).1, Ok));
                };
                let (task, events) = live.listen(false).ok_or_else(|| too_many_listeners(&id))?;
                return Ok(stream(task::view(task, history_length, true), events, Ok));
            }
        };
        let first = waiting.first_response().await;
        match first.ok_or_else(|| OperationError::internal("the turn ended without a response"))? {
            FirstResponse::Task(task, events) => {
                Ok(stream(task::view(task, history_length, true), events, move |event| live.for_sender(event)))
            }
            FirstResponse::Reply(message) => {
                let event = serde_json::to_vec(&StreamResponse::Message(message));
                let event = event.map_err(|error| OperationError::internal(error.to_string()));
                Ok(Reply::Events(futures::stream::iter([event]).boxed()))
            }
            FirstResponse::Refused(error) => Err(error),
        }
    }

    async fn subscribe(
        &self,
        agent: &HostedAgent,
        scope: Scope,
        request: &a2a::SubscribeToTaskRequest,
    ) -> Result<Reply, OperationError> {
        let (task, events) = self.tasks().subscribe(agent, scope, &request.id).await?;
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
        let lock = self.tasks().live().write_lock(&request.id).await;
        let mut record = self.tasks().read(agent, scope, &request.id)?;
        if record.task.status.state.is_terminal() {
            return Err(OperationError::task_not_cancelable(&request.id));
        }
        if let Some(live) = self.tasks().live().running(&request.id) {
            drop(lock);
            let mut state = live.state.subscribe();
            live.cancel.cancel();
            let _ = state.wait_for(task::is_idle).await;
            let task = live.record().task;
            if task.status.state != TaskState::Canceled {
                return Err(OperationError::task_not_cancelable(&request.id));
            }
            return shown(task, None);
        }
        let mut cancelled = record.clone();
        let mut event = task::set_status(&mut cancelled.task, TaskState::Canceled, said, self.tasks().now());
        let mut encoded = Encoded::of(&cancelled).map_err(internal)?;
        if encoded.len() > RECORD_BYTES_MAX {
            // The task is full: the agent's message on the cancellation is dropped.
            event = task::set_status(&mut record.task, TaskState::Canceled, None, self.tasks().now());
            encoded = Encoded::of(&record).map_err(internal)?;
            cancelled = record;
        }
        let notes = self.tasks().store().push().plan(&request.id, Some(&event), self.tasks().now_ms());
        self.tasks().store().write_telling(encoded, notes).await.map_err(internal)?;
        let waiting = self.tasks().live().take_waiting(&request.id);
        futures::future::join_all(waiting.iter().map(|listener| listener.tell(event.clone()))).await;
        shown(cancelled.task, None)
    }

    /// Tells the agent that an idle task is cancelled, without holding the task's lock; gives the agent's message.
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
            Ok(said) => Ok(said.filter(|said| task::bytes(said) <= STATUS_MESSAGE_BYTES_MAX)),
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
            scope,
            context_id: request.context_id.as_deref().filter(|id| !id.is_empty()),
            state: request.status.as_ref().filter(|state| **state != TaskState::Unspecified),
            after_ms: request.status_timestamp_after.map(|at| at.timestamp_millis()),
        };
        let token = request.page_token.as_deref().filter(|token| !token.is_empty());
        let page = self.tasks().store().page(&filter, token, usize::try_from(size).unwrap_or(1));
        let page =
            page.ok_or_else(|| OperationError::invalid_params("`pageToken` is not one that this node gave out"))?;
        let with_artifacts = request.include_artifacts.unwrap_or(false);
        let mut tasks = Vec::with_capacity(page.ids.len());
        let (mut next_page_token, mut room, mut last) = (page.next, ANSWER_BYTES_MAX - WRAPPING, None);
        for id in &page.ids {
            // It may just have been evicted.
            let Ok(record) = self.tasks().read(agent, scope, id) else { continue };
            let place = crate::listing::place(&record.task);
            let task = task::view(record.task, request.history_length, with_artifacts);
            // One task, with its comma, always fits a page.
            let task = task::fit(task, ANSWER_BYTES_MAX - WRAPPING - 1);
            let size = serde_json::to_vec(&task).map_or(usize::MAX, |json| json.len()).saturating_add(1);
            if size > room {
                // The page ends early; the rest comes with the next.
                next_page_token = last.as_ref().map_or(next_page_token, page_token);
                break;
            }
            room -= size;
            tasks.push(task);
            last = Some(place);
        }
        let total_size = i32::try_from(page.total).unwrap_or(i32::MAX);
        Reply::json(&a2a::ListTasksResponse { tasks, next_page_token, page_size: size, total_size })
    }
}

/// An answer to SendMessage that is a task.
fn sent(task: Task, history_length: Option<i32>) -> Result<Reply, OperationError> {
    let task = task::view(task, history_length, true);
    Reply::json(&SendMessageResponse::Task(task::fit(task, ANSWER_BYTES_MAX - WRAPPING)))
}

/// A task with as much of its history as was requested and fits.
fn shown(task: Task, history_length: Option<i32>) -> Result<Reply, OperationError> {
    Reply::json(&task::fit(task::view(task, history_length, true), ANSWER_BYTES_MAX))
}

/// A stream of the task as it is, then its events.
fn stream(
    task: Task,
    events: mpsc::Receiver<StreamResponse>,
    told: impl Fn(StreamResponse) -> Result<StreamResponse, OperationError> + Send + 'static,
) -> Reply {
    let later =
        futures::stream::unfold(events, |mut events| async { events.recv().await.map(|event| (event, events)) });
    let task = task::fit(task, ANSWER_BYTES_MAX - WRAPPING);
    let all = futures::stream::iter([StreamResponse::Task(task)]).chain(later);
    Reply::Events(
        all.map(move |event| {
            serde_json::to_vec(&told(event)?).map_err(|error| OperationError::internal(error.to_string()))
        })
        .boxed(),
    )
}

#[cfg(test)]
mod tests;
