//! What the owner of the node is told of the steps of a task's turns: names, digests, sizes and times, and nothing of what is in
//! them. The owner reads the rest in the task.

use althing_failure::{CallStep, Kind, Remedy};

use crate::journal::RowSeal;
use crate::machine::record::Record;
use crate::machine::session::{Damage, RowSummary, TurnId};
use crate::tasks::begin;
use crate::tasks::rehearsal::TaskTape;
use crate::tasks::runner::TaskRunner;

/// Turns of a task that are shown at once: the newest ones.
const TURNS_MAX: usize = 16;

/// The journal of a turn, without what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnSteps {
    /// The id of the message that began it.
    pub message: String,
    /// When it ended, Unix milliseconds; none if it did not.
    pub ended_ms: Option<u64>,
    /// Its rows, in their order.
    pub rows: Vec<RowSummary>,
}

/// Why the steps of a task are not shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepsError {
    /// There is no such task.
    #[error("there is no task {task:?} on this node")]
    NoTask {
        /// The id that was named.
        task: String,
    },
    /// It has no journal.
    #[error(
        "task {task} has no journal: it is over, and the contract of agent {agent:?} does not say `record: tape`, or its \
         journal made room for newer ones"
    )]
    NoJournal {
        /// The id that was named.
        task: String,
        /// Which version of which agent made it.
        agent: String,
    },
    /// Its turn is not over, and has no journal.
    #[error(
        "task {task} is not over, and has no journal: agent {agent:?} has made no step that is written down, and a program that is \
         only given its message again makes none"
    )]
    Unwritten {
        /// The id that was named.
        task: String,
        /// Which version of which agent works on it.
        agent: String,
    },
    /// It was begun by somebody else.
    #[error(
        "task {task} is of another caller than the owner of this node, and what was said in it is shown to that one alone"
    )]
    OtherCaller {
        /// The id that was named.
        task: String,
    },
    /// Its rows cannot be read.
    #[error("the journal of task {task} cannot be read: {what}")]
    Damaged {
        /// The id that was named.
        task: String,
        /// What is wrong.
        what: String,
    },
    /// The task itself cannot be read.
    #[error("{reason}")]
    Task {
        /// Why.
        reason: String,
    },
}

impl StepsError {
    /// What can be done about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            StepsError::NoTask { .. } | StepsError::NoJournal { .. } | StepsError::Unwritten { .. } => Kind::NotFound,
            StepsError::OtherCaller { .. } => Kind::Refused,
            StepsError::Damaged { .. } | StepsError::Task { .. } => Kind::Failed,
        }
    }

    /// What to do next, where that is a step of its own.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            StepsError::NoTask { .. } => Some(CallStep::NameTask.into()),
            StepsError::NoJournal { .. }
            | StepsError::Unwritten { .. }
            | StepsError::OtherCaller { .. }
            | StepsError::Damaged { .. }
            | StepsError::Task { .. } => None,
        }
    }
}

/// The journals of a task's turns, the oldest first: of those that are over and are recorded, and of the one that is not over.
pub(super) fn of(runner: &TaskRunner, task: &str) -> Result<Vec<TurnSteps>, StepsError> {
    let record = record(runner, task)?;
    let recorded = runner.store().journals().recorded(task).into_iter();
    let mut keys: Vec<(Vec<u8>, Option<u64>)> = recorded.map(|(key, ended_ms)| (key, Some(ended_ms))).collect();
    // One that is ending is both.
    let unended = unended(runner, &record).map(|turn| turn.prefix());
    if let Some(key) = unended.filter(|key| keys.iter().all(|(known, _)| known != key)) {
        keys.push((key, None));
    }
    let seal = RowSeal::of(runner.host().memory_seal(&record.agent));
    let mut turns = Vec::new();
    for (key, ended_ms) in keys.split_off(keys.len().saturating_sub(TURNS_MAX)) {
        let read = runner.store().journals().summaries(&key, &seal).map_err(|damage| damaged(task, damage))?;
        turns.extend(read.map(|(message, rows)| TurnSteps { message, ended_ms, rows }));
    }
    if turns.is_empty() {
        let (task, agent) = (task.to_owned(), record.agent);
        let is_over = runner.live().running(&task).is_none();
        return Err(match is_over {
            true => StepsError::NoJournal { task, agent },
            false => StepsError::Unwritten { task, agent },
        });
    }
    Ok(turns)
}

/// A task of this node's owner, with the tapes of its turns.
pub(super) fn tape(runner: &TaskRunner, task: &str) -> Result<TaskTape, StepsError> {
    let record = record(runner, task)?;
    if !runner.is_own(record.scope) {
        return Err(StepsError::OtherCaller { task: task.to_owned() });
    }
    let seal = RowSeal::of(runner.host().memory_seal(&record.agent));
    let mut keys = runner.store().journals().taped(task);
    let mut turns = Vec::new();
    for key in keys.split_off(keys.len().saturating_sub(TURNS_MAX)) {
        let read = runner.store().journals().tape(&key, &seal);
        turns.extend(read.map_err(|damage| damaged(task, damage))?);
    }
    let Record { task, agent, label, version, runs, .. } = record;
    let (begins, turns) = turns.into_iter().unzip();
    let made = runs.made_last(&task);
    Ok(TaskTape { task, agent, version, made, label, turns, begins })
}

/// A task as it is.
pub(super) fn record(runner: &TaskRunner, task: &str) -> Result<Record, StepsError> {
    if let Some(record) = runner.live().record(task) {
        return Ok(record);
    }
    let read = runner.store().read(task).map_err(|error| StepsError::Task { reason: error.to_string() })?;
    read.ok_or_else(|| StepsError::NoTask { task: task.to_owned() })
}

fn damaged(task: &str, Damage { step: _, what }: Damage) -> StepsError {
    StepsError::Damaged { task: task.to_owned(), what }
}

/// The turn of a task that is not over, if it has a journal.
fn unended(runner: &TaskRunner, record: &Record) -> Option<TurnId> {
    match runner.live().running(&record.task.id) {
        Some(live) => Some(*live.request.journal.as_ref()?.turn()),
        None => begin::turn(record, &record.read_begin()?.ok()?),
    }
}
