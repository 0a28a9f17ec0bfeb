//! The A2A operations on the agents that this node hosts. One handler for every face and for the network.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use a2a::{SendMessageResponse, StreamResponse, Task, TaskState};
use althing_communication::{
    Caller, CallerRule, Entropy, Holder, Nearness as CallerNearness, Priority, Trust, WallClock,
};
use althing_discovery::Nearness;
use althing_execution::agent::{OwnCard, Parameters};
use althing_execution::{AgentError, Host};
use althing_protocol::{AgentId, CallerId, PublisherId};
use althing_store::{Store, WriteError};
use chrono::{DateTime, Utc};
use futures::StreamExt as _;
use serde::Serialize;
use tokio::sync::{mpsc, watch};

use crate::alive::{Alive, crowded};
use crate::arrivals::Arrivals;
use crate::error::OperationError;
use crate::machine::chain;
use crate::machine::listing::{Filter, page_token};
use crate::machine::shares::{Claim, Whose};
use crate::machine::task::{self, ANSWER_BYTES_MAX, HISTORY_BYTES_MAX, WORD_BYTES_MAX};
use crate::opening::{Opening, Outcome};
use crate::operation::{CallMetadata, OperationRequest, Reply};
use crate::params::Params;
use crate::tasks::{Encoded, RECORD_BYTES_MAX, Record, Scope, TaskStoreError, Tasks, WORKING_BYTES_MAX};
use crate::turn::{self, Asked, Live};

/// Bytes around a task in an answer that is more than the task.
const WRAPPING: usize = 4 << 10;
/// Tasks of a page: when not asked for, and at most (A2A 1.0.1 §3.1.4).
const PAGE_DEFAULT: i32 = 50;
const PAGE_MAX: i32 = 100;

/// An agent that this node hosts, as far as calls care.
#[derive(Debug, Clone)]
pub struct HostedAgent {
    /// Its id; its name is that of its runtime too.
    pub id: AgentId,
    /// Who may call it.
    pub callers: CallerRule,
    /// Media types that it takes.
    pub input_modes: Vec<String>,
    /// Whether a new message to a task stops the turn that runs.
    pub barge_in: bool,
    /// How soon its answers are wanted: the class of its contract.
    pub priority: Priority,
}

/// The hosting side of calls.
#[derive(Clone)]
pub struct Hosting {
    shared: Arc<Shared>,
}

struct Shared {
    host: Arc<Host>,
    tasks: Tasks,
    clock: WallClock,
    entropy: Entropy,
    trust: watch::Receiver<Trust>,
    agents: Mutex<BTreeMap<AgentId, HostedAgent>>,
    alive: Alive,
    arrivals: Arrivals,
}

/// What a message came to.
enum Taken<T> {
    /// A turn.
    New(Arc<Live>, T),
    /// It was taken before, and its turn runs, or has just ended.
    Again(Arc<Live>),
    /// It was taken before, into this task.
    Before(String),
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
        let own = Scope(CallerId::Publisher(trust.borrow().owner));
        let tasks = Tasks::open(store, own, i64::try_from(clock.now_ms()).unwrap_or(i64::MAX)).await?;
        let shared = Shared {
            host,
            tasks,
            clock,
            entropy,
            trust,
            agents: Mutex::default(),
            alive: Alive::new(),
            arrivals: Arrivals::default(),
        };
        Ok(Hosting { shared: Arc::new(shared) })
    }

    /// Adds, or replaces, an agent.
    pub fn add(&self, agent: HostedAgent) {
        self.agents().insert(agent.id.clone(), agent);
    }

    /// Takes an agent away. Its tasks stay; those that run are cancelled.
    pub fn remove(&self, agent: &AgentId) {
        self.agents().remove(agent);
        self.shared.alive.cancel(agent.name());
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
        let known = || self.alive().is_of(id, agent.name()) || self.tasks().is_of(id, agent.name());
        self.hosts(agent) && known()
    }

    /// Tasks that are alive now.
    #[must_use]
    pub fn live_tasks(&self) -> usize {
        self.shared.alive.count()
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
            Params::Get(request) => shown(self.read(&hosted, scope, &request.id)?.task, request.history_length),
            Params::List(request) => self.list(&hosted, scope, &request),
            Params::Cancel(request) => self.cancel(&hosted, scope, &request, metadata).await,
            Params::Subscribe(request) => self.subscribe(&hosted, scope, &request),
        }
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        let now_ms = i64::try_from(self.shared.clock.now_ms()).unwrap_or(i64::MAX);
        DateTime::from_timestamp_millis(now_ms).unwrap_or(DateTime::UNIX_EPOCH)
    }

    pub(crate) fn host(&self) -> &Host {
        &self.shared.host
    }

    fn may_reply(&self, agent: &HostedAgent) -> bool {
        self.host().agent(agent.id.name()).is_some_and(|agent| agent.may_reply())
    }

    /// What an agent says of itself beside its description, as far as it runs here and is up.
    pub(crate) fn own_card(&self, agent: &AgentId) -> Option<OwnCard> {
        self.host().agent(agent.name())?.own_card()
    }

    pub(crate) fn tasks(&self) -> &Tasks {
        &self.shared.tasks
    }

    pub(crate) fn alive(&self) -> &Alive {
        &self.shared.alive
    }

    fn agents(&self) -> MutexGuard<'_, BTreeMap<AgentId, HostedAgent>> {
        self.shared.agents.lock().expect("no holder of the agents panics")
    }

    /// A UUIDv7 (RFC 9562 §5.7) of our own clock and randomness.
    pub(crate) fn new_id(&self) -> String {
        let random = self.shared.entropy.bytes();
        uuid::Builder::from_unix_timestamp_millis(self.shared.clock.now_ms(), &random).into_uuid().to_string()
    }

    /// The task as it is, if it is this caller's with this agent.
    fn read(&self, agent: &HostedAgent, scope: Scope, id: &str) -> Result<Record, OperationError> {
        match self.alive().record(id) {
            Some(record) => own(agent, scope, id, Some(record)),
            None => self.kept(agent, scope, id),
        }
    }

    /// The same, of a task at rest.
    fn kept(&self, agent: &HostedAgent, scope: Scope, id: &str) -> Result<Record, OperationError> {
        own(agent, scope, id, self.tasks().read(id).map_err(internal)?)
    }

    /// What the message came to before, if it was taken before. Whoever is not answered sends a message again, and
    /// must not have the work done twice.
    fn taken_before<T>(
        &self,
        agent: &HostedAgent,
        scope: Scope,
        message: &a2a::Message,
    ) -> Result<Option<Taken<T>>, OperationError> {
        let began = self.tasks().began_by(agent.id.name(), scope, &message.message_id);
        for id in began.iter().chain(&message.task_id) {
            // Looked for first: a turn that ends meanwhile may leave no task behind, and then its answer is wanted.
            let running = self.alive().running(id);
            // A task that is not there is answered for below.
            let Ok(record) = self.read(agent, scope, id) else { continue };
            match task::heard(&record.task, message) {
                task::Heard::Never => {}
                task::Heard::Same => {
                    let of_it = running.or_else(|| self.alive().running(id));
                    let of_it = of_it.filter(|live| live.is_of(&message.message_id));
                    return Ok(Some(of_it.map_or_else(|| Taken::Before(id.clone()), Taken::Again)));
                }
                task::Heard::Other => return Err(OperationError::message_id_reused(&message.message_id, id)),
            }
        }
        Ok(None)
    }

    /// Takes a message: into a new task, or into the one that it names. The task is on disk when this returns.
    async fn accept(
        &self,
        agent: &HostedAgent,
        scope: Scope,
        request: a2a::SendMessageRequest,
        metadata: &CallMetadata,
    ) -> Result<Taken<()>, OperationError> {
        let mut asked = Asked::new(&request, metadata, self.may_reply(agent));
        let message = request.message;
        check_modes(agent, &message, || self.own_card(&agent.id))?;
        if request.configuration.is_some_and(|c| c.task_push_notification_config.is_some()) {
            return Err(OperationError::push_not_supported());
        }
        let continues = message.task_id.clone();
        let _gate = match &continues {
            Some(id) => Some(self.alive().gate(id).await),
            None => None,
        };
        // Until what it began is known to all.
        let arrival = (scope, agent.id.name().to_owned(), message.message_id.clone());
        let _taking = self.shared.arrivals.take(arrival).await;
        if let Some(taken) = self.taken_before(agent, scope, &message)? {
            return Ok(taken);
        }
        let record = match continues {
            None => {
                let context_id = message.context_id.clone().unwrap_or_else(|| self.new_id());
                let task = task::submitted(self.new_id(), context_id, message, self.now());
                Record { task, agent: agent.id.name().to_owned(), scope, remembered: None }
            }
            Some(id) => {
                let mut record = self.read(agent, scope, &id)?;
                if message.context_id.as_ref().is_some_and(|context| *context != record.task.context_id) {
                    let message = format!("task {id} belongs to context {:?}", record.task.context_id);
                    return Err(OperationError::invalid_params(message));
                }
                if let Some(running) = self.alive().running(&id) {
                    if !agent.barge_in {
                        let message = format!("task {id} is being worked on; wait for it, or cancel it");
                        return Err(OperationError::unsupported(message));
                    }
                    // The gate is held, so that of two messages that come at once one interrupts the other.
                    running.interrupt().await;
                    record = self.read(agent, scope, &id)?;
                }
                if !task::takes(&record.task, &message) {
                    let message = format!("what was said in task {id} passes {HISTORY_BYTES_MAX} bytes; begin another");
                    return Err(OperationError::unsupported(message));
                }
                asked.before = Some(record.task.status.clone());
                let over = |_| OperationError::unsupported(format!("task {id} is over; send a message without taskId"));
                task::continued(&mut record.task, message, self.now()).map_err(over)?;
                record
            }
        };
        let encoded = Encoded::of(&record).map_err(internal)?;
        if encoded.len() > WORKING_BYTES_MAX {
            let message = "the task would hold more than one may; begin another, or send less";
            return Err(OperationError::unsupported(message));
        }
        let claim = self.claim(&record, asked.call.holder);
        let live = self.alive().begin(&record, claim, encoded.len(), asked)?;
        if let Err(error) = self.tasks().write(encoded).await {
            self.alive().put_to_rest(&record.task.id, Vec::new);
            return Err(internal(error));
        }
        Ok(Taken::New(live, ()))
    }

    /// What a turn of the task takes, and of whose share.
    fn claim(&self, record: &Record, holder: Option<Holder>) -> Claim<Whose> {
        let is_own = record.scope.0 == CallerId::Publisher(self.shared.trust.borrow().owner);
        let nearness = match holder {
            _ if is_own => CallerNearness::Own,
            holder => holder.map_or(CallerNearness::Stranger, |holder| holder.nearness),
        };
        Claim {
            whose: match holder {
                // Keys are free: strangers of one origin have one share.
                Some(holder) if nearness == CallerNearness::Stranger => Whose::Crowd(holder.crowd()),
                _ => Whose::Scope(record.scope),
            },
            nearness,
            agent: record.agent.clone(),
            bytes: task::held_bytes(&record.task),
            agent_turns_max: self.host().turns_max(&record.agent),
        }
    }

    /// Takes a message and starts its turn, to the end of both even when whoever asked goes away meanwhile: else a task
    /// could be on disk, and counted as alive, with nobody to work on it. `before` the turn starts listeners are added.
    async fn begin<T: Send + 'static>(
        &self,
        agent: &HostedAgent,
        scope: Scope,
        request: a2a::SendMessageRequest,
        metadata: &CallMetadata,
        before: impl FnOnce(&Arc<Live>) -> T + Send + 'static,
    ) -> Result<Taken<T>, OperationError> {
        let (hosting, agent, metadata) = (self.clone(), agent.clone(), metadata.clone());
        let beginning = async move {
            let live = match hosting.accept(&agent, scope, request, &metadata).await? {
                Taken::New(live, ()) => live,
                Taken::Again(live) => return Ok(Taken::Again(live)),
                Taken::Before(id) => return Ok(Taken::Before(id)),
            };
            let prepared = before(&live);
            hosting.start(&live);
            Ok(Taken::New(live, prepared))
        };
        let begun = tokio::spawn(tracing::Instrument::in_current_span(beginning)).await;
        begun.unwrap_or_else(|error| Err(OperationError::internal(format!("the message was not taken: {error}"))))
    }

    fn start(&self, live: &Arc<Live>) {
        let (hosting, live) = (self.clone(), live.clone());
        let binding = live.record().agent.clone();
        let binding = hosting.host().binding(&binding).map(|binding| binding.hash).unwrap_or_default();
        let span = tracing::info_span!("turn", otel.kind = "internal", althing.binding.hash = &*binding);
        tokio::spawn(async move {
            let (running, of) = (hosting.clone(), live.clone());
            let turn = tracing::Instrument::instrument(async move { turn::run(&running, &of).await }, span);
            // A turn that panics is no reason to leave its task alive.
            if let Err(error) = tokio::spawn(turn).await {
                turn::broke(&hosting, &live, &error.to_string()).await;
            }
        });
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
        let (live, (named, mut state)) = match self.begin(agent, scope, request, metadata, before).await? {
            Taken::New(live, prepared) => (live, prepared),
            Taken::Again(live) => {
                let prepared = before(&live);
                (live, prepared)
            }
            Taken::Before(id) => {
                if let Some(live) = self.alive().running(&id).filter(|_| !at_once) {
                    let _ = live.state.subscribe().wait_for(task::rests).await;
                }
                return sent(self.read(agent, scope, &id)?.task, history_length);
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
        let (live, waiting) = match self.begin(agent, scope, request, metadata, Live::open).await? {
            Taken::New(live, waiting) => (live, waiting),
            Taken::Again(live) => {
                let waiting = live.open();
                (live, waiting)
            }
            Taken::Before(id) => {
                let Some(live) = self.alive().running(&id) else {
                    // It rests: there is nothing to hear of it but how it is.
                    let task = self.read(agent, scope, &id)?.task;
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
        self.read(agent, scope, &request.id)?;
        let (task, events) = self.alive().listen(&request.id, || self.kept(agent, scope, &request.id))?;
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
        let gate = self.alive().gate(&request.id).await;
        let mut record = self.read(agent, scope, &request.id)?;
        if record.task.status.state.is_terminal() {
            return Err(OperationError::task_not_cancelable(&request.id));
        }
        if let Some(live) = self.alive().running(&request.id) {
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
        let mut event = task::set(&mut cancelled.task, TaskState::Canceled, said, self.now());
        let mut encoded = Encoded::of(&cancelled).map_err(internal)?;
        if encoded.len() > RECORD_BYTES_MAX {
            // It holds all that it may: the agent's words on it find no room.
            event = task::set(&mut record.task, TaskState::Canceled, None, self.now());
            encoded = Encoded::of(&record).map_err(internal)?;
            cancelled = record;
        }
        self.tasks().write(encoded).await.map_err(internal)?;
        let waiting = self.alive().take_waiting(&request.id);
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
        let record = self.read(agent, scope, &request.id)?;
        let waits = !record.task.status.state.is_terminal() && self.alive().running(&request.id).is_none();
        let Some(remembered) = record.remembered.filter(|_| waits) else { return Ok(None) };
        let parameters = Parameters {
            extensions: metadata.extensions.clone(),
            principals: chain::written(&metadata.principals),
            metadata: request.metadata.clone(),
            ..Parameters::default()
        };
        let Some(running) = self.host().agent(agent.id.name()) else { return Ok(None) };
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
        let page = self.tasks().page(&filter, token, usize::try_from(size).unwrap_or(1));
        let page = page.ok_or_else(|| OperationError::invalid_params("`pageToken` is none of ours"))?;
        let with_artifacts = request.include_artifacts.unwrap_or(false);
        let mut tasks = Vec::with_capacity(page.ids.len());
        let (mut next_page_token, mut room, mut last) = (page.next, ANSWER_BYTES_MAX - WRAPPING, None);
        for id in &page.ids {
            // It may just have been forgotten to make room.
            let Ok(record) = self.read(agent, scope, id) else { continue };
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

/// A task is shown to nobody but the caller, and the agent, that it belongs to.
fn own(agent: &HostedAgent, scope: Scope, id: &str, record: Option<Record>) -> Result<Record, OperationError> {
    let own = record.filter(|record| record.agent == agent.id.name() && record.scope == scope);
    own.ok_or_else(|| OperationError::task_not_found(id))
}

/// What neither its description nor its own card names is not taken.
fn check_modes(
    agent: &HostedAgent,
    message: &a2a::Message,
    own_card: impl Fn() -> Option<OwnCard>,
) -> Result<(), OperationError> {
    let among = |modes: &[String], kind: &str| modes.iter().any(|mode| mode == kind || mode == "*/*");
    let taken =
        |kind: &str| among(&agent.input_modes, kind) || own_card().is_some_and(|card| among(&card.input_modes, kind));
    let kinds = message.parts.iter().filter_map(|part| part.media_type.as_deref()).filter(|kind| !kind.is_empty());
    match kinds.into_iter().find(|kind| !taken(kind)) {
        None => Ok(()),
        Some(kind) => Err(OperationError::content_type(format!(
            "{} does not take {kind:?}; it takes {}",
            agent.id.name(),
            agent.input_modes.join(", ")
        ))),
    }
}

fn internal(error: TaskStoreError) -> OperationError {
    // That is no secret, and whoever asks can do something about it; where the disk is, and how large, is in the log.
    if let TaskStoreError::Write(WriteError::Full { .. }) = error {
        tracing::error!(%error, "a task is not taken");
        return OperationError::disk_full();
    }
    OperationError::internal(error.to_string())
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
