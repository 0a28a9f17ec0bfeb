//! CancelTask, of a task whose turn runs and of one that waits for a message.

use a2a::TaskState;
use althing_call::{CallMetadata, OperationError, Reply, chain};
use althing_execution::AgentError;
use althing_execution::agent::Parameters;

use crate::machine::record::{RECORD_BYTES_MAX, Scope};
use crate::machine::task::{self, STATUS_MESSAGE_BYTES_MAX};
use crate::tasks::parking;
use crate::tasks::replies::shown;
use crate::tasks::runner::{HostedAgent, TaskRunner, internal};
use crate::tasks::service::TaskService;
use crate::tasks::store::Encoded;

impl TaskService {
    /// Cancels a task, and answers with it.
    ///
    /// # Errors
    /// `TaskNotFound`, `TaskNotCancelable`, and the agent's own error.
    pub async fn cancel(
        &self,
        agent: &HostedAgent,
        scope: Scope,
        request: &a2a::CancelTaskRequest,
        metadata: &CallMetadata,
    ) -> Result<Reply, OperationError> {
        let said = cancel_waiting(&self.runner, agent, scope, request, metadata).await?;
        let lock = self.runner.live().write_lock(&request.id).await;
        let mut record = self.runner.read(agent, scope, &request.id)?;
        if record.task.status.state.is_terminal() {
            return Err(OperationError::task_not_cancelable(&request.id));
        }
        if let Some(live) = self.runner.live().running(&request.id) {
            drop(lock);
            let mut state = live.state.subscribe();
            live.cancel.cancel();
            let _ = state.wait_for(task::is_idle).await;
            metadata.answer.add_all(live.said());
            let task = live.record().task;
            if task.status.state != TaskState::Canceled {
                return Err(OperationError::task_not_cancelable(&request.id));
            }
            return shown(task, None);
        }
        let parked = if record.is_parked() { parking::give_up(&mut record) } else { None };
        let mut cancelled = record.clone();
        // What the agent said is in it.
        cancelled.add_label(metadata.answer.label());
        let mut event = task::set_status(&mut cancelled.task, TaskState::Canceled, said, self.runner.now());
        let mut encoded = Encoded::of(&cancelled).map_err(internal)?;
        if encoded.len() > RECORD_BYTES_MAX {
            // The task is full: the agent's message on the cancellation is dropped.
            event = task::set_status(&mut record.task, TaskState::Canceled, None, self.runner.now());
            encoded = Encoded::of(&record).map_err(internal)?;
            cancelled = record;
        }
        let notes = self.runner.store().push().plan(&request.id, Some(&event), self.runner.now_ms());
        self.runner.store().write_telling(encoded, notes).await.map_err(internal)?;
        if let Some(turn) = parked {
            parking::forget(&self.runner, &cancelled, &turn).await;
        }
        metadata.answer.add_label(cancelled.label);
        let waiting = self.runner.live().take_waiting(&request.id);
        let told = waiting.iter().map(|listener| listener.tell(event.clone(), &metadata.answer));
        futures::future::join_all(told).await;
        shown(cancelled.task, None)
    }
}

/// Tells the agent that an idle task is cancelled, without holding the task's lock; gives the agent's message.
async fn cancel_waiting(
    runner: &TaskRunner,
    agent: &HostedAgent,
    scope: Scope,
    request: &a2a::CancelTaskRequest,
    metadata: &CallMetadata,
) -> Result<Option<a2a::Message>, OperationError> {
    let record = runner.read(agent, scope, &request.id)?;
    let waits = !record.task.status.state.is_terminal() && runner.live().running(&request.id).is_none();
    let Some(remembered) = record.remembered.filter(|_| waits) else { return Ok(None) };
    let parameters = Parameters {
        extensions: metadata.extensions.clone(),
        attributes: metadata.attributes.clone(),
        answer: metadata.answer.clone(),
        principals: chain::written(&metadata.principals),
        metadata: request.metadata.clone(),
        ..Parameters::default()
    };
    let Some(running) = runner.host().agent(&agent.agent) else { return Ok(None) };
    match running.cancel(&remembered, &parameters).await {
        Ok(said) => Ok(said.filter(|said| task::bytes(said) <= STATUS_MESSAGE_BYTES_MAX)),
        Err(AgentError::Refused { code, message, details }) => Err(OperationError::of_agent(code, message, details)),
        Err(_) => Ok(None),
    }
}
