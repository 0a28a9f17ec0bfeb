//! CancelTask, of a task whose turn runs and of one that waits for a message.

use a2a::{StreamResponse, TaskState};
use althing_call::{CallMetadata, OperationError, Reply, chain};
use althing_execution::agent::Parameters;
use althing_execution::{AgentError, cancel_task};
use althing_protocol::AgentRef;
use althing_store::Batch;

use crate::journal::TurnJournal;
use crate::machine::record::{RECORD_BYTES_MAX, Record, Scope};
use crate::machine::recovery;
use crate::machine::session::TurnRows;
use crate::machine::task::{self, STATUS_MESSAGE_BYTES_MAX};
use crate::tasks::begin;
use crate::tasks::closing;
use crate::tasks::live::LiveTask;
use crate::tasks::parking;
use crate::tasks::replies::shown;
use crate::tasks::runner::{HostedAgent, TaskRunner, internal};
use crate::tasks::service::TaskService;
use crate::tasks::store::Encoded;
use crate::tasks::task_rows::{self, TaskRows};

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
            return end_turn(&live, metadata).await;
        }
        let rows = match record.begin.is_some() {
            true => waiting_rows(&self.runner, &request.id).await?,
            false => None,
        };
        let words = (said, in_doubt(rows.as_ref()));
        let is_parked = record.is_parked();
        let parked = if is_parked { parking::give_up(&mut record) } else { None };
        record.begin = None;
        let (cancelled, encoded, event) = ended(&self.runner, record, words, metadata)?;
        let mut notes = self.runner.store().push().plan(&request.id, Some(&event), self.runner.now_ms());
        let journals = self.runner.store().journals();
        let journal = match rows.filter(|_| !is_parked) {
            // Rarely needed, and large.
            Some(rows) => Box::pin(end_journal(&self.runner, rows, &mut notes.rows)).await,
            None => None,
        };
        if let Err(error) = self.runner.store().write_telling(encoded, notes).await {
            // Its turn still goes on later, with its rows.
            journal.iter().for_each(|journal| journals.release(&journal.turn().prefix()));
            return Err(internal(error));
        }
        match parked {
            Some(turn) => parking::forget(&self.runner, &cancelled, &turn).await,
            None => journals.give_up(&cancelled.agent, &request.id),
        }
        metadata.answer.add_label(cancelled.label);
        let waiting = self.runner.live().take_waiting(&request.id);
        let told = waiting.iter().map(|listener| listener.tell(event.clone(), &metadata.answer));
        futures::future::join_all(told).await;
        shown(cancelled.task, None)
    }
}

/// Cancels a turn that runs, and answers with its task when it has ended.
async fn end_turn(live: &LiveTask, metadata: &CallMetadata) -> Result<Reply, OperationError> {
    let mut state = live.state.subscribe();
    live.cancel.cancel();
    let _ = state.wait_for(task::is_idle).await;
    metadata.answer.add_all(live.said());
    let task = live.record().task;
    if task.status.state != TaskState::Canceled {
        return Err(OperationError::task_not_cancelable(&live.id));
    }
    shown(task, None)
}

/// A task that is cancelled, as it is written, with the event that tells of it; `said` is the agent's message on that.
fn ended(
    runner: &TaskRunner,
    mut record: Record,
    (said, doubt): (Option<a2a::Message>, Option<a2a::Message>),
    metadata: &CallMetadata,
) -> Result<(Record, Encoded, StreamResponse), OperationError> {
    let mut cancelled = record.clone();
    let said = joined(said, doubt.clone());
    // What the agent said is in it.
    cancelled.add_label(metadata.answer.label());
    let event = task::set_status(&mut cancelled.task, TaskState::Canceled, said, runner.now());
    let encoded = Encoded::of(&cancelled).map_err(internal)?;
    if encoded.len() <= RECORD_BYTES_MAX {
        return Ok((cancelled, encoded, event));
    }
    // The task is full: the agent's message on the cancellation is dropped.
    let event = task::set_status(&mut record.task, TaskState::Canceled, doubt, runner.now());
    let encoded = Encoded::of(&record).map_err(internal)?;
    Ok((record, encoded, event))
}

/// A task whose turn was to go on, and will not, with the rows of its journal; none if no turn of it was to go on.
async fn waiting_rows(runner: &TaskRunner, id: &str) -> Result<Option<TaskRows>, OperationError> {
    let (reader, named) = (runner.clone(), id.to_owned());
    runner.apart(move || task_rows::read(&reader, &named)).await?.map_err(internal)
}

/// Which calls are in doubt of a turn that was to go on, and will not; none if that is not known.
fn in_doubt(rows: Option<&TaskRows>) -> Option<a2a::Message> {
    let rows = rows.and_then(|(_, rows)| rows.as_ref().ok());
    let doubts = rows.map(TurnRows::doubts).unwrap_or_default();
    recovery::with_doubts(None, &doubts).map(closing::status_message)
}

/// What the agent said, and after it which calls are in doubt: whatever it says, they are told.
fn joined(said: Option<a2a::Message>, doubt: Option<a2a::Message>) -> Option<a2a::Message> {
    let Some(mut said) = said else { return doubt };
    said.parts.extend(doubt.into_iter().flat_map(|doubt| doubt.parts));
    Some(said)
}

/// Adds to the batch that ends a task what becomes of the journal of its turn, which was to go on, and will not. The journal, as
/// far as it can be read, is dropped when the batch is written.
async fn end_journal(runner: &TaskRunner, (record, rows): TaskRows, batch: &mut Batch) -> Option<TurnJournal> {
    let began = record.read_begin()?.ok()?;
    match rows {
        Ok(rows) => {
            let agent = AgentRef { id: began.agent.parse().ok()?, version: began.version.as_str().into() };
            let journal = begin::opened(runner, &agent, rows, begin::payer(runner, &record));
            journal.end(batch).await;
            Some(journal)
        }
        Err(_) => {
            runner.store().journals().add_deletion(&begin::turn(&record, &began)?.prefix(), batch);
            None
        }
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
    match cancel_task(runner.host(), &agent.agent, &remembered, &parameters).await {
        Ok(said) => Ok(said.filter(|said| task::bytes(said) <= STATUS_MESSAGE_BYTES_MAX)),
        Err(AgentError::Refused { code, message, details }) => Err(OperationError::of_agent(code, message, details)),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_in_doubt_are_told_whatever_the_agent_says_of_the_cancellation() {
        let message = |text: &str| Some(closing::status_message(text.to_owned()));
        let texts = |message: Option<a2a::Message>| {
            let parts = message.into_iter().flat_map(|message| message.parts);
            parts.filter_map(|part| part.as_text().map(str::to_owned)).collect::<Vec<_>>()
        };
        assert_eq!(texts(joined(message("stopped"), message("step 1"))), ["stopped", "step 1"]);
        assert_eq!(texts(joined(None, message("step 1"))), ["step 1"]);
        assert_eq!(texts(joined(message("stopped"), None)), ["stopped"]);
        assert_eq!(texts(joined(None, None)), [""; 0]);
    }
}
