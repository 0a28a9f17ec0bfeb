//! Reads tasks whose turns have not ended, with the rows of their journals.

use althing_protocol::{AgentId, AgentRef};

use crate::machine::record::Record;
use crate::machine::session::{Begin, Damage, TurnRows};
use crate::machine::task;
use crate::tasks::begin;
use crate::tasks::runner::TaskRunner;
use crate::tasks::store::TaskStoreError;

/// An unfinished task, with the rows of its journal.
pub(super) type TaskRows = (Record, Result<TurnRows, Damage>);

/// An unfinished task as it was when it was read, without its lock.
pub(super) struct TaskCopy {
    pub record: Record,
    pub rows: TurnRows,
    /// By which change it was on disk before it was read.
    change: u64,
}

impl TaskCopy {
    /// Bytes that it takes, about.
    pub fn bytes(&self) -> usize {
        let journal = usize::try_from(self.rows.size().1).unwrap_or(usize::MAX);
        task::memory_bytes(&self.record.task).saturating_add(journal)
    }

    /// Whether the task is still as it was then. The caller holds its lock. So are its rows: they change only while its turn runs,
    /// and one that ran since and waits again was written when it came to wait.
    fn is_current(&self, runner: &TaskRunner) -> bool {
        runner.store().change(&self.record.task.id) == Some(self.change)
    }
}

/// Reads an unfinished task with its journal, if both can be read.
pub(super) fn copy(runner: &TaskRunner, id: &str) -> Option<TaskCopy> {
    let change = runner.store().change(id)?;
    let record = runner.store().read(id).ok()??;
    let rows = rows(runner, &record)?.ok()?;
    Some(TaskCopy { record, rows, change })
}

/// Reads an unfinished task with its journal; none if it is finished by now, or gone.
pub(super) fn read(runner: &TaskRunner, id: &str) -> Result<Option<TaskRows>, TaskStoreError> {
    let Some(record) = runner.store().read(id)? else { return Ok(None) };
    let rows = rows(runner, &record);
    Ok(rows.map(|rows| (record, rows)))
}

/// The same, where nothing else waits, of a task whose lock is held: a copy that was read before counts as long as it is current. An
/// error is in words.
pub(super) async fn read_locked(
    runner: &TaskRunner,
    id: &str,
    copy: Option<Box<TaskCopy>>,
) -> Result<Option<TaskRows>, String> {
    if let Some(copy) = copy.filter(|copy| copy.is_current(runner)) {
        return Ok(Some((copy.record, Ok(copy.rows))));
    }
    let (reader, named) = (runner.clone(), id.to_owned());
    let read = runner.apart(move || self::read(&reader, &named)).await.map_err(|error| error.message)?;
    read.map_err(|error| error.to_string())
}

/// The rows of the turn of a task; none if no turn of it goes on.
fn rows(runner: &TaskRunner, record: &Record) -> Option<Result<TurnRows, Damage>> {
    if !record.goes_on() {
        return None;
    }
    let nobody = || Damage { step: 0, what: "its beginning names no agent".to_owned() };
    let read = |began: Begin| {
        let id: AgentId = began.agent.parse().map_err(|_| nobody())?;
        let turn = begin::turn_of(&id, record, &began);
        let agent = AgentRef { id, version: began.version.as_str().into() };
        runner.store().journals().read(turn, began, &begin::row_seal(runner, &agent))
    };
    record.read_begin().map(|began| began.and_then(read))
}
