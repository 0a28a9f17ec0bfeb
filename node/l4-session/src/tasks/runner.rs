//! Runs tasks on the agents of this node; owns their store and clock. The caller check was made before. Whatever wraps a
//! task or moves it to another node attaches here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use althing_call::OperationError;
use althing_communication::{CallerRule, Entropy, Priority, WallClock};
use althing_execution::agent::OwnCard;
use althing_execution::tools::PendingAsks;
use althing_execution::{Host, TurnRecorder};
use althing_protocol::{AgentId, AgentRef};
use althing_store::{Store, WriteError};
use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::machine::moves::Signer;
use crate::machine::record::{Record, Scope};
use crate::push::{KeepError, Postman};
use crate::tasks::figures::TurnFigures;
use crate::tasks::in_flight::InFlightMessages;
use crate::tasks::live_tasks::LiveTasks;
use crate::tasks::reads::Reads;
use crate::tasks::standing::Recheck;
use crate::tasks::store::{TaskStore, TaskStoreError};
use crate::tasks::tenure::Tenures;

/// What is to be known of an agent that this node hosts, for its calls and its tasks.
#[derive(Debug, Clone)]
pub struct HostedAgent {
    /// The agent, in the version that answers.
    pub agent: AgentRef,
    /// Who may call it.
    pub callers: CallerRule,
    /// Media types that it accepts.
    pub input_modes: Vec<String>,
    /// Whether a new message to a task interrupts its turn.
    pub barge_in: bool,
    /// Whether it is given a message again whose turn is over; else its earlier task answers that.
    pub is_told_again: bool,
    /// The priority of its answers, by the class of its contract.
    pub priority: Priority,
}

impl HostedAgent {
    /// Its id, which its other versions have too.
    #[must_use]
    pub fn id(&self) -> &AgentId {
        &self.agent.id
    }

    /// Its name, unique within its publisher.
    #[must_use]
    pub fn name(&self) -> &str {
        self.agent.name()
    }
}

/// Runs the tasks of this node.
#[derive(Clone)]
pub(crate) struct TaskRunner {
    context: Arc<Context>,
}

struct Context {
    host: Arc<Host>,
    store: TaskStore,
    clock: WallClock,
    entropy: Entropy,
    owner: Scope,
    signer: Signer,
    live: LiveTasks,
    in_flight: InFlightMessages,
    reads: Reads,
    figures: TurnFigures,
    /// Cancelled when the node is being stopped.
    ending: CancellationToken,
    tenures: OnceLock<Arc<dyn Tenures>>,
    asks: OnceLock<Arc<dyn PendingAsks>>,
    recorder: OnceLock<Arc<dyn TurnRecorder>>,
    resumers: Mutex<BTreeMap<String, Resumer>>,
}

/// What goes on with the turn of a task that rests: of an agent of that name, the task of that id.
pub(crate) type GoOn = fn(TaskRunner, String, String) -> BoxFuture<'static, ()>;

/// An agent whose turns may go on.
#[derive(Clone)]
pub(crate) struct Resumer {
    pub agent: HostedAgent,
    /// Decides whether the callers of its turns may still call it.
    pub recheck: Recheck,
    pub go_on: GoOn,
}

/// What callers are told whose turns end with the node.
pub(crate) const STOPPING: &str =
    "its node is being stopped: send the message again once it is up, or to another node that hosts the agent";

impl TaskRunner {
    /// Opens the task store, as [`crate::TaskService::open`] says.
    pub async fn open(
        store: Arc<dyn Store>,
        host: Arc<Host>,
        owner: Scope,
        signer: Signer,
        clock: WallClock,
        entropy: Entropy,
    ) -> Result<TaskRunner, TaskStoreError> {
        let store = TaskStore::open(store, owner, i64::try_from(clock.now_ms()).unwrap_or(i64::MAX)).await?;
        let (live, in_flight, reads) = (LiveTasks::new(), InFlightMessages::default(), Reads::new());
        let (figures, ending) = (TurnFigures::default(), CancellationToken::new());
        let (tenures, asks, recorder, resumers) = Default::default();
        let context = Context {
            host,
            store,
            clock,
            entropy,
            owner,
            signer,
            live,
            in_flight,
            reads,
            figures,
            ending,
            tenures,
            asks,
            recorder,
            resumers,
        };
        Ok(TaskRunner { context: Arc::new(context) })
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        let now_ms = i64::try_from(self.context.clock.now_ms()).unwrap_or(i64::MAX);
        DateTime::from_timestamp_millis(now_ms).unwrap_or(DateTime::UNIX_EPOCH)
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.context.clock.now_ms()
    }

    /// Sends push notifications through `postman`.
    pub(crate) fn notify_through(&self, postman: Arc<dyn Postman>) {
        let (clock, context) = (self.context.clock.clone(), Arc::downgrade(&self.context));
        let look = move |id: &str| {
            let runner = TaskRunner { context: context.upgrade()? };
            let record = runner.live().record(id).or_else(|| runner.store().read(id).ok().flatten());
            record.map(|record| (record.task, record.label))
        };
        self.store().push().serve(postman, move || clock.now_ms(), look);
    }

    pub(crate) fn host(&self) -> &Host {
        &self.context.host
    }

    /// Cancelled when the node is being stopped: turns end then, and no message is accepted.
    pub(crate) fn ending(&self) -> &CancellationToken {
        &self.context.ending
    }

    pub(crate) fn store(&self) -> &TaskStore {
        &self.context.store
    }

    pub(crate) fn live(&self) -> &LiveTasks {
        &self.context.live
    }

    /// Who this node is, where tasks move.
    pub(crate) fn signer(&self) -> &Signer {
        &self.context.signer
    }

    /// Who knows the groups for whose tasks turns run.
    pub(crate) fn tenures(&self) -> &OnceLock<Arc<dyn Tenures>> {
        &self.context.tenures
    }

    /// Who knows what people are asked: where nobody does, no turn ends for that.
    pub(crate) fn asks(&self) -> &OnceLock<Arc<dyn PendingAsks>> {
        &self.context.asks
    }

    /// Who records turns, if anybody does.
    pub(crate) fn recorder(&self) -> &OnceLock<Arc<dyn TurnRecorder>> {
        &self.context.recorder
    }

    /// Notes an agent that was added, in place of its other versions.
    pub(crate) fn note_resumer(&self, agent: &HostedAgent, recheck: Recheck, go_on: GoOn) {
        let mut resumers = self.context.resumers.lock().expect("no holder of the agents panics");
        resumers.insert(agent.name().to_owned(), Resumer { agent: agent.clone(), recheck, go_on });
    }

    /// The version of an agent that was added last.
    pub(crate) fn resumer(&self, agent: &str) -> Option<Resumer> {
        self.context.resumers.lock().expect("no holder of the agents panics").get(agent).cloned()
    }

    /// What is counted of turns.
    pub(crate) fn figures(&self) -> &TurnFigures {
        &self.context.figures
    }

    /// Messages that are being accepted.
    pub(crate) fn in_flight(&self) -> &InFlightMessages {
        &self.context.in_flight
    }

    /// The scope of this node's own owner.
    pub(crate) fn owner(&self) -> Scope {
        self.context.owner
    }

    /// Whether that is the scope of this node's own owner.
    pub(crate) fn is_own(&self, scope: Scope) -> bool {
        scope.payer() == self.context.owner
    }

    pub(crate) fn may_reply(&self, agent: &HostedAgent) -> bool {
        self.host().agent(&agent.agent).is_some_and(|agent| agent.may_reply())
    }

    /// The agent card that a running agent serves itself, if any.
    pub(crate) fn own_card(&self, agent: &AgentRef) -> Option<OwnCard> {
        self.host().agent(agent)?.own_card()
    }

    /// A UUIDv7 (RFC 9562 §5.7) of our own clock and randomness.
    pub(crate) fn new_id(&self) -> String {
        let random = self.context.entropy.bytes();
        uuid::Builder::from_unix_timestamp_millis(self.context.clock.now_ms(), &random).into_uuid().to_string()
    }

    /// The node's clock and randomness.
    pub(crate) fn ports(&self) -> (&WallClock, &Entropy) {
        (&self.context.clock, &self.context.entropy)
    }

    /// Gives it for as long as somebody else has it.
    pub(crate) fn weak(&self) -> impl Fn() -> Option<TaskRunner> + Send + use<> {
        let context = Arc::downgrade(&self.context);
        move || Some(TaskRunner { context: context.upgrade()? })
    }

    /// The task as it is, if it belongs to this caller and this agent.
    pub(crate) fn read(&self, agent: &HostedAgent, scope: Scope, id: &str) -> Result<Record, OperationError> {
        match self.live().record(id) {
            Some(record) => own(agent, scope, id, Some(record)),
            None => self.kept(agent, scope, id),
        }
    }

    /// The same, of an idle task.
    pub(crate) fn kept(&self, agent: &HostedAgent, scope: Scope, id: &str) -> Result<Record, OperationError> {
        own(agent, scope, id, self.store().read(id).map_err(internal)?)
    }

    /// Whether the task belongs to this caller and this agent, which does not change. It is not read for that.
    pub(crate) fn is_own_task(&self, agent: &HostedAgent, scope: Scope, id: &str) -> bool {
        let name = agent.name();
        // In this order: a turn that ends is in the store before it is live no more.
        self.live().is_own(id, name, scope).unwrap_or_else(|| {
            self.store().summary(id).is_some_and(|summary| summary.agent == name && summary.scope == scope)
        })
    }

    /// Does what reads many tasks, or a large one, where nothing else waits for it.
    pub(crate) async fn apart<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, OperationError> {
        self.context.reads.apart(work).await
    }
}

/// The record, if it belongs to this caller and this agent, and is not on another node by now.
fn own(agent: &HostedAgent, scope: Scope, id: &str, record: Option<Record>) -> Result<Record, OperationError> {
    let own = record.filter(|record| record.agent == agent.name() && record.scope == scope);
    let own = own.ok_or_else(|| OperationError::task_not_found(id))?;
    match &own.departed {
        Some(proof) => Err(OperationError::task_moved(proof.clone())),
        None => Ok(own),
    }
}

pub(crate) fn internal(error: TaskStoreError) -> OperationError {
    // The caller is told that the disk is full; path and sizes are only in the log.
    if let TaskStoreError::Write(WriteError::Full { .. }) = error {
        tracing::error!(%error, "a task is refused: the disk is full");
        return OperationError::disk_full();
    }
    if let TaskStoreError::Write(WriteError::Stopped { .. } | WriteError::Closed { .. }) = error {
        tracing::error!(%error, "a task is refused: the store takes no writes");
        return OperationError::store_stopped();
    }
    OperationError::internal(error.to_string())
}

/// Why a push notification configuration was not kept, as the caller is told.
pub(crate) fn unkept(error: KeepError) -> OperationError {
    match error {
        KeepError::Full(full) => OperationError::busy(full.to_string()),
        KeepError::Write(error) => internal(error.into()),
    }
}
