//! Following a task from now on.

use a2a::Task;
use althing_call::{CallMetadata, OperationError};

use crate::machine::record::Scope;
use crate::machine::task::is_idle;
use crate::tasks::events::{TaskEvents, left_turn};
use crate::tasks::runner::{HostedAgent, TaskRunner};

/// Subscribes to a task that belongs to this caller and this agent: gives it as it is, and its further events. What is said
/// of them is added to the answer of the call.
pub(crate) async fn subscribe(
    runner: &TaskRunner,
    agent: &HostedAgent,
    scope: Scope,
    id: &str,
    call: &CallMetadata,
) -> Result<(Task, TaskEvents), OperationError> {
    if !runner.is_own_task(agent, scope, id) {
        return Err(OperationError::task_not_found(id));
    }
    loop {
        // Whatever refuses it comes before the task is read, which may be large.
        if let Some(listening) = runner.live().listen(id, &call.answer)? {
            return Ok(listening);
        }
        let summary = runner.store().summary(id).ok_or_else(|| OperationError::task_not_found(id))?;
        if summary.state.is_terminal() && !summary.departed {
            return Err(OperationError::unsupported(format!("task {id} is over; GetTask shows it")));
        }
        if runner.ending().is_cancelled() && !is_idle(&summary.state) {
            return Err(left_turn());
        }
        let (reader, of, named) = (runner.clone(), agent.clone(), id.to_owned());
        let record = runner.apart(move || reader.kept(&of, scope, &named)).await??;
        // Turns went on meanwhile.
        let is_as_read = || runner.store().summary(id).as_ref() == Some(&summary);
        if let Some(events) = runner.live().wait(id, &call.answer, is_as_read)? {
            call.answer.add_label(record.label);
            return Ok((record.task, events));
        }
    }
}
