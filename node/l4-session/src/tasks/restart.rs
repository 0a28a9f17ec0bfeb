//! A turn that stopped where its agent did something else than before its node ended, or where another agent would have gone on:
//! the owner of the node has it go on anew from one of its steps, within a day.

use std::time::Duration;

use a2a::TaskState;
use althing_call::Principal;
use althing_failure::{CallStep, Kind, Remedy};
use tokio::time::timeout;

use crate::journal::{Journals, RowSeal};
use crate::machine::record::Record;
use crate::machine::session::{Damage, RestartError, TurnRows};
use crate::machine::task;
use crate::tasks::begin;
use crate::tasks::resume;
use crate::tasks::runner::TaskRunner;
use crate::tasks::store::{Encoded, TaskStoreError};

/// How long the end of a turn is waited for that is on disk: whoever listens to it is told of it meanwhile.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// Why a turn does not go on anew.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestartRefusal {
    /// There is no such task.
    #[error("there is no task {task:?} on this node")]
    NoTask {
        /// The id that was named.
        task: String,
    },
    /// It did not stop for that, or too long ago.
    #[error(
        "no turn of task {task} stopped with DIVERGED or VERSION_CHANGED within the last day, or its journal made room for newer ones: \
         send the message again"
    )]
    NotStopped {
        /// The id that was named.
        task: String,
    },
    /// Whoever listens to it is still told that it stopped.
    #[error(
        "task {task} has stopped, and its turn is still ending, since somebody who listens to it reads slowly: try again in a moment"
    )]
    StillEnding {
        /// The id that was named.
        task: String,
    },
    /// Its agent is not here.
    #[error("the agent {agent:?} of task {task} does not run on this node now, or cannot be given a message again")]
    NoAgent {
        /// The id that was named.
        task: String,
        /// The agent's name.
        agent: String,
    },
    /// Its rows cannot be read.
    #[error("the journal of task {task} cannot be read: {what}")]
    Damaged {
        /// The id that was named.
        task: String,
        /// What is wrong.
        what: String,
    },
    /// Not from that step.
    #[error("task {task}: {error}")]
    Step {
        /// The id that was named.
        task: String,
        /// Why not.
        error: RestartError,
    },
    /// The task cannot be read or written.
    #[error("{reason}")]
    Task {
        /// Why, in words for a person.
        reason: String,
    },
}

impl RestartRefusal {
    /// What can be done about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            RestartRefusal::NoTask { .. } => Kind::NotFound,
            RestartRefusal::NotStopped { .. } | RestartRefusal::Step { error: RestartError::Final { .. }, .. } => {
                Kind::Refused
            }
            RestartRefusal::NoAgent { .. } | RestartRefusal::StillEnding { .. } => Kind::NotYet,
            RestartRefusal::Step { error: RestartError::Checkpoint { .. } | RestartError::NoStep { .. }, .. } => {
                Kind::Invalid
            }
            RestartRefusal::Step { error: RestartError::Journal(_), .. }
            | RestartRefusal::Damaged { .. }
            | RestartRefusal::Task { .. } => Kind::Failed,
        }
    }

    /// What to do next, where that is a step of its own.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            RestartRefusal::NoTask { .. } => Some(CallStep::NameTask.into()),
            _ => None,
        }
    }
}

/// Has the turn of a task that stopped go on anew from a step, as `by` says. That is on disk when this completes. A turn that is still
/// ending is waited for, for a moment.
pub(super) async fn restart(runner: &TaskRunner, id: &str, from: u32, by: &Principal) -> Result<(), RestartRefusal> {
    let refused = attempt(runner, id, from, by).await;
    if !matches!(refused, Err(RestartRefusal::StillEnding { .. })) {
        return refused;
    }
    // Without the lock, which is that of other tasks too.
    if let Some(live) = runner.live().running(id) {
        let mut state = live.state.subscribe();
        // An error means that it takes longer, which the next attempt finds.
        let _ = timeout(END_PATIENCE, state.wait_for(task::is_idle)).await;
    }
    attempt(runner, id, from, by).await
}

async fn attempt(runner: &TaskRunner, id: &str, from: u32, by: &Principal) -> Result<(), RestartRefusal> {
    let lock = runner.live().write_lock(id).await;
    let unkept = |reason: String| RestartRefusal::Task { reason };
    let (reader, named) = (runner.clone(), id.to_owned());
    let stopped = runner.apart(move || read(&reader, &named)).await;
    let TurnStop { mut record, mut rows, seal } = stopped.map_err(|error| unkept(error.message))??;
    let name = record.agent.clone();
    let no_agent = || RestartRefusal::NoAgent { task: id.to_owned(), agent: name.clone() };
    let resumer = runner.resumer(&name).ok_or_else(no_agent)?;
    let agent = resume::version_for(runner, &resumer.agent, &record, true);
    let agent = agent.filter(|agent| begin::is_resumable(runner, agent)).ok_or_else(no_agent)?;
    let binding = begin::binding(runner, &agent);
    let said_by = by.to_string();
    let dropped = rows.restart(from, (&*agent.version, binding.as_str()), (said_by.as_str(), runner.now_ms()));
    dropped.map_err(|error| RestartRefusal::Step { task: id.to_owned(), error })?;
    record = record.begun_with(Some(rows.begin()));
    record.version = Some((*agent.version).to_owned());
    let event = task::set_status(&mut record.task, TaskState::Working, None, runner.now());
    let mut notes = runner.store().push().plan(id, Some(&event), runner.now_ms());
    Journals::reopen(&rows, &seal, &mut notes.rows);
    let unwritten = |error: TaskStoreError| unkept(error.to_string());
    let encoded = Encoded::of(&record).map_err(unwritten)?;
    runner.store().write_telling(encoded, notes).await.map_err(unwritten)?;
    let journals = runner.store().journals();
    journals.release(&rows.turn().prefix());
    journals.losses().forget(id);
    journals.await_agent(name.clone(), id.to_owned());
    drop(lock);
    tracing::info!(agent = name, task = id, from, %by, "a turn that stopped goes on anew");
    tokio::spawn(resume::go_on(runner.clone(), name, id.to_owned()));
    Ok(())
}

/// A turn that stopped.
struct TurnStop {
    record: Record,
    rows: TurnRows,
    /// How its rows are stored.
    seal: RowSeal,
}

fn read(runner: &TaskRunner, id: &str) -> Result<TurnStop, RestartRefusal> {
    let read = runner.store().read(id).map_err(|error| RestartRefusal::Task { reason: error.to_string() })?;
    let record = read.ok_or_else(|| RestartRefusal::NoTask { task: id.to_owned() })?;
    let has_failed = record.task.status.state == TaskState::Failed && record.departed.is_none();
    let journals = runner.store().journals();
    let turn = journals.restartable(id, runner.now_ms()).filter(|_| has_failed);
    let key = turn.ok_or_else(|| RestartRefusal::NotStopped { task: id.to_owned() })?;
    // It was live before that was on disk, and is so until all who listen were told.
    if runner.live().running(id).is_some() {
        return Err(RestartRefusal::StillEnding { task: id.to_owned() });
    }
    let damaged = |Damage { what, .. }: Damage| RestartRefusal::Damaged { task: id.to_owned(), what };
    let seal = RowSeal::of(runner.host().memory_seal(&record.agent));
    let begin = journals.begin(&key, &seal).map_err(damaged)?;
    let turn = begin::turn(&record, &begin).filter(|turn| turn.prefix() == key);
    let other = || Damage { step: 0, what: "its beginning is that of another turn".to_owned() };
    let turn = turn.ok_or_else(other).map_err(damaged)?;
    let rows = journals.read(turn, begin, &seal).map_err(damaged)?;
    Ok(TurnStop { record, rows, seal })
}
