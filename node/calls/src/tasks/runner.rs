//! The life of tasks, and what it stands on: the agents that work on them, the disk, the clock. Who may call is decided
//! before; what wraps a task or moves it to another node attaches here.

use std::sync::Arc;

use althing_communication::{CallerRule, Entropy, Priority, WallClock};
use althing_execution::Host;
use althing_execution::agent::OwnCard;
use althing_protocol::AgentId;
use althing_store::{Store, WriteError};
use chrono::{DateTime, Utc};

use crate::error::OperationError;
use crate::machine::record::{Record, Scope};
use crate::tasks::arrivals::Arrivals;
use crate::tasks::live_tasks::LiveTasks;
use crate::tasks::store::{TaskStore, TaskStoreError};

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

/// The life of tasks on this node.
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
    live: LiveTasks,
    arrivals: Arrivals,
}

impl TaskRunner {
    /// Opens the task store. Tasks that were running when the node ended are failed, and say so. No stored task keeps it
    /// from opening: only summaries are read, and what cannot be written is known until the node ends.
    pub async fn open(
        store: Arc<dyn Store>,
        host: Arc<Host>,
        owner: Scope,
        clock: WallClock,
        entropy: Entropy,
    ) -> Result<TaskRunner, TaskStoreError> {
        let store = TaskStore::open(store, owner, i64::try_from(clock.now_ms()).unwrap_or(i64::MAX)).await?;
        let (live, arrivals) = (LiveTasks::new(), Arrivals::default());
        Ok(TaskRunner { context: Arc::new(Context { host, store, clock, entropy, owner, live, arrivals }) })
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        let now_ms = i64::try_from(self.context.clock.now_ms()).unwrap_or(i64::MAX);
        DateTime::from_timestamp_millis(now_ms).unwrap_or(DateTime::UNIX_EPOCH)
    }

    pub(crate) fn host(&self) -> &Host {
        &self.context.host
    }

    /// What is on disk.
    pub(crate) fn store(&self) -> &TaskStore {
        &self.context.store
    }

    /// Those that are not over.
    pub(crate) fn live(&self) -> &LiveTasks {
        &self.context.live
    }

    /// Messages that are being taken.
    pub(crate) fn arrivals(&self) -> &Arrivals {
        &self.context.arrivals
    }

    /// Is that the scope of this node's own owner?
    pub(crate) fn is_own(&self, scope: Scope) -> bool {
        scope == self.context.owner
    }

    pub(crate) fn may_reply(&self, agent: &HostedAgent) -> bool {
        self.host().agent(agent.id.name()).is_some_and(|agent| agent.may_reply())
    }

    /// What an agent says of itself beside its description, as far as it runs here and is up.
    pub(crate) fn own_card(&self, agent: &AgentId) -> Option<OwnCard> {
        self.host().agent(agent.name())?.own_card()
    }

    /// A UUIDv7 (RFC 9562 §5.7) of our own clock and randomness.
    pub(crate) fn new_id(&self) -> String {
        let random = self.context.entropy.bytes();
        uuid::Builder::from_unix_timestamp_millis(self.context.clock.now_ms(), &random).into_uuid().to_string()
    }

    /// The task as it is, if it is this caller's with this agent.
    pub(crate) fn read(&self, agent: &HostedAgent, scope: Scope, id: &str) -> Result<Record, OperationError> {
        match self.live().record(id) {
            Some(record) => own(agent, scope, id, Some(record)),
            None => self.kept(agent, scope, id),
        }
    }

    /// The same, of a task at rest.
    pub(crate) fn kept(&self, agent: &HostedAgent, scope: Scope, id: &str) -> Result<Record, OperationError> {
        own(agent, scope, id, self.store().read(id).map_err(internal)?)
    }
}

/// A task is shown to nobody but the caller, and the agent, that it belongs to.
fn own(agent: &HostedAgent, scope: Scope, id: &str, record: Option<Record>) -> Result<Record, OperationError> {
    let own = record.filter(|record| record.agent == agent.id.name() && record.scope == scope);
    own.ok_or_else(|| OperationError::task_not_found(id))
}

pub(crate) fn internal(error: TaskStoreError) -> OperationError {
    // That is no secret, and whoever asks can do something about it; where the disk is, and how large, is in the log.
    if let TaskStoreError::Write(WriteError::Full { .. }) = error {
        tracing::error!(%error, "a task is not taken");
        return OperationError::disk_full();
    }
    OperationError::internal(error.to_string())
}
