//! What gates refused of a task's answers: beside the task on disk, written in the batch that ends the turn, deleted with the task,
//! sealed where the memory of its agent is.

use a2a::TaskState;
use althing_failure::{CallStep, Kind, Remedy};
use althing_store::Batch;

use crate::journal::{RowSeal, SESSION_ROWS};
use crate::tasks::begin;
use crate::tasks::live::LiveTask;
use crate::tasks::refusals::{TaskRefusal, key, row};
use crate::tasks::runner::TaskRunner;

/// What gates refused of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskVerdict {
    /// The name of its agent.
    pub agent: String,
    /// The state of the task by now.
    pub state: TaskState,
    /// The refused answers, the oldest first.
    pub refusals: Vec<TaskRefusal>,
}

/// Why it is not shown what gates refused of a task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerdictError {
    /// There is no such task.
    #[error("there is no task {task:?} on this node")]
    NoTask {
        /// The id that was named.
        task: String,
    },
    /// The row cannot be read.
    #[error("what gates refused of task {task} cannot be read: {what}")]
    Damaged {
        /// The id that was named.
        task: String,
        /// What is wrong.
        what: String,
    },
}

impl VerdictError {
    /// What can be done about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            VerdictError::NoTask { .. } => Kind::NotFound,
            VerdictError::Damaged { .. } => Kind::Failed,
        }
    }

    /// What to do next, where that is a step of its own.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            VerdictError::NoTask { .. } => Some(CallStep::NameTask.into()),
            VerdictError::Damaged { .. } => None,
        }
    }
}

/// Adds to the batch that ends a turn what gates refused in it, if they refused anything.
pub(super) fn end(runner: &TaskRunner, live: &LiveTask, batch: &mut Batch) {
    let new = live.take_refusals();
    if new.is_empty() {
        return;
    }
    let seal = begin::row_seal(runner, &live.agent);
    let mut all = runner.store().refusals(&live.id, &seal).unwrap_or_else(|what| {
        tracing::warn!(task = live.id, what, "what gates refused before of a task cannot be read, and is replaced");
        Vec::new()
    });
    let (message, ended_ms) = (&live.request.message_id, runner.now_ms());
    all.extend(new.into_iter().map(|refused| TaskRefusal { message: message.clone(), ended_ms, refused }));
    let key = key(&live.id);
    batch.put(SESSION_ROWS, key, seal.close(&key, &row(all)));
}

/// What gates refused of a task.
pub(super) fn of(runner: &TaskRunner, task: &str) -> Result<TaskVerdict, VerdictError> {
    let known = match runner.live().record(task) {
        Some(record) => Some((record.agent, record.task.status.state)),
        None => runner.store().summary(task).map(|summary| (summary.agent, summary.state)),
    };
    let (agent, state) = known.ok_or_else(|| VerdictError::NoTask { task: task.to_owned() })?;
    let seal = RowSeal::of(runner.host().memory_seal(&agent));
    let refusals = runner.store().refusals(task, &seal);
    let refusals = refusals.map_err(|what| VerdictError::Damaged { task: task.to_owned(), what })?;
    Ok(TaskVerdict { agent, state, refusals })
}
