//! What the owner of the node is told of what a task's turns did: names and hashes, and whether the task still holds what was
//! recorded.

use crate::machine::run::{DigestCheck, RunRecord};
use crate::tasks::runner::TaskRunner;
use crate::tasks::steps::{self, StepsError};

/// What is kept of the turns of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRuns {
    /// The task's id.
    pub task: String,
    /// The name of its agent.
    pub agent: String,
    /// The newest records, the oldest first.
    pub runs: Vec<RunRecord>,
    /// Older ones, which made room for them.
    pub forgotten: u64,
    /// Of each record, whether the task holds the message and the output that were recorded.
    pub checks: Vec<(DigestCheck, DigestCheck)>,
}

/// What is kept of the turns of a task that are over.
pub(super) fn of(runner: &TaskRunner, task: &str) -> Result<TaskRuns, StepsError> {
    let record = steps::record(runner, task)?;
    let checks = record.runs.checks(&record.task);
    let (agent, runs) = (record.agent, record.runs);
    Ok(TaskRuns { task: record.task.id, agent, runs: runs.kept, forgotten: runs.forgotten, checks })
}
