//! What can be done with the tasks of this node: an agent, whose task it is and a request come in, a reply goes out. The caller
//! check was made before. Nothing else of a task leaves this room but its label, which is added to the answer of each call that
//! is shown something of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use althing_call::{CallMetadata, OperationError, Params, Reply};
use althing_communication::{Entropy, WallClock};
use althing_execution::agent::OwnCard;
use althing_execution::{Host, SuccessRate, TurnRecorder, success_of};
use althing_protocol::contract::DataLabel;
use althing_protocol::{AgentId, AgentRef};
use althing_store::Store;

use crate::machine::moves::Signer;
use crate::machine::record::Scope;
use crate::machine::task::{Duplicate, compare_message};
use crate::push::Postman;
use crate::tasks::absence;
use crate::tasks::duplicates::works_on;
use crate::tasks::expiry;
use crate::tasks::figures::AgentFigures;
use crate::tasks::live_tasks::TurnEnd;
use crate::tasks::outcome::CountOutcomes;
use crate::tasks::push_configs;
use crate::tasks::replies::{shown, stream};
use crate::tasks::runner::{HostedAgent, TaskRunner};
use crate::tasks::store::TaskStoreError;
use crate::tasks::subscribing;

/// The tasks of this node.
#[derive(Clone)]
pub struct TaskService {
    pub(super) runner: TaskRunner,
}

impl TaskService {
    /// Opens the task store. Tasks that ran when the node ended wait for their agent ([`crate::Sessions::resume`]), if their
    /// turns can begin again, and are set to failed else. A damaged task does not keep the store
    /// from opening: only summaries are read, and a failure that cannot be written is remembered until the node ends. `owner`
    /// is this node's owner, `signer` the node itself, in whose name it hands tasks over.
    ///
    /// # Errors
    /// [`TaskStoreError::Read`]: the disk, or the whole store, cannot be read.
    pub async fn open(
        store: Arc<dyn Store>,
        host: Arc<Host>,
        owner: Scope,
        signer: Signer,
        clock: WallClock,
        entropy: Entropy,
    ) -> Result<TaskService, TaskStoreError> {
        let runner = TaskRunner::open(store, host, owner, signer, clock, entropy).await?;
        absence::give_up_later(&runner);
        expiry::expire_later(&runner);
        Ok(TaskService { runner })
    }

    /// A task as it is.
    ///
    /// # Errors
    /// `TaskNotFound`.
    pub fn get(
        &self,
        agent: &HostedAgent,
        scope: Scope,
        request: &a2a::GetTaskRequest,
        metadata: &CallMetadata,
    ) -> Result<Reply, OperationError> {
        let record = self.runner.read(agent, scope, &request.id)?;
        metadata.answer.add_label(record.label);
        shown(record.task, request.history_length)
    }

    /// The further events of a task, after the task as it is.
    ///
    /// # Errors
    /// `TaskNotFound`, `Unsupported` if it is over, `OVERLOADED` if too many listen.
    pub async fn subscribe(
        &self,
        agent: &HostedAgent,
        scope: Scope,
        request: &a2a::SubscribeToTaskRequest,
        metadata: &CallMetadata,
    ) -> Result<Reply, OperationError> {
        let (task, events) = subscribing::subscribe(&self.runner, agent, scope, &request.id, metadata).await?;
        Ok(stream(task, events, Ok))
    }

    /// Answers one of the operations on push notification configurations.
    ///
    /// # Errors
    /// `PushNotSupported`, `TaskNotFound`, and why a configuration is refused.
    pub async fn push(&self, agent: &HostedAgent, scope: Scope, params: Params) -> Result<Reply, OperationError> {
        push_configs::handle(&self.runner, agent, scope, params).await
    }

    /// Whether a message of that id began a task here.
    #[must_use]
    pub fn has_begun(&self, agent: &HostedAgent, scope: Scope, message_id: &str) -> bool {
        let (runner, name) = (&self.runner, agent.name());
        // In this order: a turn that ends is in the store before it is live no more.
        runner.live().began_by(name, scope, message_id).is_some()
            || runner.store().began_by(name, scope, message_id).is_some()
    }

    /// The version of an agent that works on the same message here, if one does, and the id of the conversation in which it does.
    #[must_use]
    pub fn at_work(&self, agent: &HostedAgent, scope: Scope, message: &a2a::Message) -> Option<(Arc<str>, String)> {
        let (live, id) = (self.runner.live(), &message.message_id);
        let task = live.began_by(agent.name(), scope, id)?;
        let working = live.running(&task).filter(|working| works_on(working, id))?;
        let of_it = working.record().task;
        (compare_message(&of_it, message) == Duplicate::Same).then(|| (working.agent.version.clone(), of_it.context_id))
    }

    /// Whether this is a task of that agent.
    #[must_use]
    pub fn is_of(&self, id: &str, agent: &AgentId) -> bool {
        let (runner, name) = (&self.runner, agent.name());
        runner.live().is_of(id, name) || runner.store().is_of(id, name)
    }

    /// The number of turns that run.
    #[must_use]
    pub fn count(&self) -> usize {
        self.runner.live().count()
    }

    /// How many turns of each agent run, by its name, of those that have one.
    #[must_use]
    pub fn by_agent(&self) -> BTreeMap<String, usize> {
        self.runner.live().by_agent()
    }

    /// What is counted of the turns of each agent, by its name.
    #[must_use]
    pub fn figures(&self) -> BTreeMap<String, AgentFigures> {
        self.runner.figures().all()
    }

    /// Of the turns of an agent that runs here the share that went well, by its name; none where none ended yet.
    #[must_use]
    pub fn success(&self, agent: &str) -> Option<SuccessRate> {
        success_of(self.runner.host(), agent)
    }

    /// Ends the turns that run, and accepts no message any more.
    pub fn end_turns(&self) {
        self.runner.ending().cancel();
    }

    /// The version of the agent that was given the last message of a task of this caller; none if there is no such task, or if
    /// it is older than what says so.
    pub async fn version_of(&self, agent: &HostedAgent, scope: Scope, id: &str) -> Option<String> {
        if !self.runner.is_own_task(agent, scope, id) {
            return None;
        }
        let (runner, agent, id) = (self.runner.clone(), agent.clone(), id.to_owned());
        self.runner.apart(move || runner.read(&agent, scope, &id)).await.ok()?.ok()?.version
    }

    /// Cancels every turn of a version of an agent.
    pub fn cancel_agent(&self, agent: &AgentRef) {
        self.runner.live().cancel(agent);
    }

    /// Cancels every turn of an agent that runs no more, by its name, also of versions that did not run: work that one gave away is
    /// followed before it is started.
    pub fn cancel_all(&self, agent: &str) {
        self.runner.live().cancel_all(agent);
    }

    /// Whether a version of an agent has work that is not over: a turn that runs, work that it gave away, or a turn that is to go
    /// on, such as when somebody has answered.
    pub async fn has_work(&self, agent: &AgentRef) -> bool {
        let (runner, name) = (&self.runner, agent.name());
        // In this order: a turn that comes to wait is among those that do before it is live no more.
        if runner.live().has_any(agent) {
            return true;
        }
        let given = runner.store().handoffs().all_given().into_iter();
        let given = given.filter(|id| runner.store().is_of(id, name));
        let waiting: Vec<String> = runner.store().journals().unfinished(name).into_iter().chain(given).collect();
        if waiting.is_empty() {
            return false;
        }
        let (reader, version) = (runner.clone(), agent.version.clone());
        let is_of_version = move |id: &String| {
            let record = reader.store().read(id).ok().flatten();
            let record = record.filter(|record| !record.task.status.state.is_terminal());
            record.is_some_and(|record| record.version.as_deref() == Some(&*version))
        };
        let found = runner.apart(move || waiting.iter().any(is_of_version)).await;
        // What cannot be looked at now is not ended for that.
        found.unwrap_or(true)
    }

    /// The hash of the manifest that a running agent is bound to.
    #[must_use]
    pub fn binding_hash(&self, agent: &AgentRef) -> Option<Arc<str>> {
        self.runner.host().binding(agent).map(|binding| binding.hash)
    }

    /// The latency class of a running agent's contract.
    #[must_use]
    pub fn latency_class(&self, agent: &AgentRef) -> Option<&'static str> {
        Some(self.runner.host().latency(agent)?.name())
    }

    /// The label of the data that a running agent works with, by its contract.
    #[must_use]
    pub fn data_label(&self, agent: &AgentRef) -> Option<DataLabel> {
        self.runner.host().data_label(agent)
    }

    /// The agent card that a running agent serves itself, if any.
    #[must_use]
    pub fn own_card(&self, agent: &AgentRef) -> Option<OwnCard> {
        self.runner.own_card(agent)
    }

    /// Who this node is, where tasks move.
    #[must_use]
    pub fn signer(&self) -> &Signer {
        self.runner.signer()
    }

    /// A new id, by the node's clock and randomness.
    #[must_use]
    pub fn new_id(&self) -> String {
        self.runner.new_id()
    }

    /// Sends push notifications through `postman`.
    pub fn notify_through(&self, postman: Arc<dyn Postman>) {
        self.runner.notify_through(postman);
    }

    /// Tells `hear` of each turn that ends from now on and whose task is kept. The first one stays.
    pub fn follow_ends(&self, hear: impl Fn(TurnEnd) + Send + Sync + 'static) {
        self.runner.live().follow_ends(Box::new(hear));
    }

    /// Lets somebody count what comes of turns from now on. The first one stays.
    pub fn count_outcomes(&self, counter: Arc<dyn CountOutcomes>) {
        self.runner.live().count_by(counter);
    }

    /// Whether a conversation of this caller with an agent has a task that is kept.
    #[must_use]
    pub fn has_context(&self, agent: &HostedAgent, scope: Scope, context: &str) -> bool {
        self.runner.store().has_context(agent.name(), scope, context)
    }

    /// Has turns recorded that end from now on, in the batch of their end. The first one stays.
    pub fn record_turns(&self, recorder: Arc<dyn TurnRecorder>) {
        // A second one would be a fault of the composition: the first records.
        let _ = self.runner.recorder().set(recorder);
    }

    /// Whether push notifications are sent.
    #[must_use]
    pub fn notifies(&self) -> bool {
        self.runner.store().push().is_served()
    }
}

#[cfg(test)]
mod tests;
