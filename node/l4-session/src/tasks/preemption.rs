//! A delay-tolerant turn that makes room for turns that wait for a processor: its agent is dropped, and begins again when they have
//! theirs. What it heard is told again from its journal, and no step is made twice. Its task goes on all the time.

use a2a::TaskState;
use althing_execution::AgentError;
use althing_execution::journal::JournalError;
use tokio::time::timeout;

use crate::machine::preemption::PREEMPTION_MAX;
use crate::machine::session::Damage;
use crate::machine::task;
use crate::tasks::begin;
use crate::tasks::live::LiveTask;
use crate::tasks::runner::TaskRunner;
use crate::tasks::task_rows;

const UNREADABLE: &str = "the task cannot be read any more";

/// Whether a turn ended to make room.
pub(super) fn makes_room(live: &LiveTask, error: &AgentError) -> bool {
    live.request.journal.is_some() && matches!(error, AgentError::Journal(JournalError::Preempted))
}

/// Waits until those have had their processor for which a turn makes room, but not for longer than that may take.
pub(super) async fn rest(live: &LiveTask) {
    let Some(journal) = &live.request.journal else { return };
    tracing::debug!(agent = live.agent.name(), task = live.id, "a turn makes room for others");
    // Whether they had it or not: it goes on.
    let _ = timeout(PREEMPTION_MAX, journal.until_there_is_room()).await;
}

/// Puts a task back to where its turn began, with the rows that its journal has on disk.
///
/// # Errors
/// They cannot be read: the turn ends.
pub(super) async fn rewind(runner: &TaskRunner, live: &LiveTask) -> Result<(), AgentError> {
    let Some(journal) = &live.request.journal else { return Ok(()) };
    let (reader, id) = (runner.clone(), live.id.clone());
    let (mut record, rows) = match runner.apart(move || task_rows::read(&reader, &id)).await {
        Ok(Ok(Some(read))) => read,
        Ok(Ok(None)) => return Err(AgentError::internal(UNREADABLE, "it is over, or gone")),
        Ok(Err(error)) => return Err(AgentError::internal(UNREADABLE, error)),
        Err(error) => return Err(AgentError::internal(UNREADABLE, error.message)),
    };
    let damaged = |Damage { step, what }| JournalError::Damaged { what: format!("step {step}: {what}") };
    let rows = begin::arranged(runner, &live.agent, rows.map_err(damaged)?);
    let journalled = usize::try_from(rows.size().1).unwrap_or(usize::MAX);
    task::set_status(&mut record.task, TaskState::Working, None, runner.now());
    runner.live().recount(&live.id, task::memory_bytes(&record.task).saturating_add(journalled));
    journal.rewind(rows).await;
    live.restore(record);
    live.request.run.clear();
    Ok(())
}
