//! The sessions of this node that have unfinished turns: they go on when their agents are added, and the owner of the node says
//! what came of calls that are in doubt.

use std::sync::Arc;

use a2a::{Message, Part, TaskState};
use althing_call::Principal;
use althing_execution::journal::{JournalError, StepOutcome};
use althing_execution::tools::{PendingAsks, RESULT_BYTES_MAX};
use althing_failure::{CallStep, Kind, Remedy};
use althing_protocol::Label;
use althing_protocol::contract::DataLabel;
use althing_store::Batch;
use serde_json::Value;

use crate::journal::TurnJournal;
use crate::machine::losses::TurnLoss;
use crate::machine::session::{Choice, Doubt};
use crate::machine::task::is_idle;
use crate::tasks::begin;
use crate::tasks::live::LiveTask;
use crate::tasks::recording;
use crate::tasks::rehearsal::{Rehearsal, RehearsalError, TaskTape};
use crate::tasks::restart::{self, RestartRefusal};
use crate::tasks::resume;
use crate::tasks::runner::{HostedAgent, TaskRunner};
use crate::tasks::runs::{self, TaskRuns};
use crate::tasks::service::TaskService;
use crate::tasks::standing::Recheck;
use crate::tasks::steps::{self, StepsError, TurnSteps};
use crate::tasks::task_rows;
use crate::tasks::tenure::Tenures;
use crate::tasks::verdicts::{self, TaskVerdict, VerdictError};

/// The sessions of a node.
#[derive(Clone)]
pub struct Sessions {
    runner: TaskRunner,
}

/// A turn that has not ended, with its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// Its name: 32 hexadecimal digits.
    pub session: String,
    /// The task's id.
    pub task: String,
    /// The agent's name.
    pub agent: String,
    /// The context's id.
    pub context: String,
    /// What the turn does.
    pub state: SessionState,
    /// Rows of its journal; none before its first call, or while its first request to a model is answered.
    pub rows: u64,
    /// Their bytes, with their keys.
    pub bytes: u64,
    /// The calls of which nobody knows whether they took place.
    pub doubts: Vec<CallDoubt>,
}

/// What an unfinished turn does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// It runs.
    Working,
    /// It goes on when its agent has been added, or when somebody has answered what it waits for.
    Waiting,
    /// It goes on when somebody says what came of its calls.
    InDoubt,
}

/// A call of which nobody knows whether it took place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallDoubt {
    /// The number of the step in its turn.
    pub seq: u32,
    /// `server/tool`.
    pub name: String,
    /// When it was about to be made, Unix milliseconds.
    pub since_ms: u64,
}

/// What came of a call, as the owner of the node says.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolution {
    /// It took place; this is what the tool answered, as the agent hears it.
    Done(Value),
    /// It is to be made again.
    Again,
    /// It failed, or is to be given up.
    Failed,
}

/// Why nothing was said of a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolutionError {
    /// No turn of such a task runs.
    #[error("no task {task:?} waits on this node")]
    NoTask {
        /// The id that was named.
        task: String,
    },
    /// It waits for its agent, or until that may go on.
    #[error(
        "task {task} goes on when its agent {agent:?} runs here and may go on with it, and what came of its calls can be said then: \
         start the agent, or answer what it waits for"
    )]
    Waiting {
        /// The id that was named.
        task: String,
        /// The agent's name.
        agent: String,
    },
    /// It is not in doubt.
    #[error("step {seq} of task {task} is not in doubt: {}", in_doubt(.doubts))]
    NotInDoubt {
        /// Whose step was named.
        task: String,
        /// The number that was named.
        seq: u32,
        /// The steps that are.
        doubts: Vec<u32>,
    },
    /// The result is too long.
    #[error("the result has {bytes} bytes, and {RESULT_BYTES_MAX} is the most that a tool may answer")]
    TooLong {
        /// Its bytes, as JSON.
        bytes: usize,
    },
    /// It could not be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl ResolutionError {
    /// What can be done about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            ResolutionError::NoTask { .. } => Kind::NotFound,
            ResolutionError::Waiting { .. } => Kind::NotYet,
            ResolutionError::NotInDoubt { .. } => Kind::Refused,
            ResolutionError::TooLong { .. } => Kind::Invalid,
            ResolutionError::Journal(_) => Kind::Failed,
        }
    }

    /// What to do next, where that is a step of its own.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            ResolutionError::NoTask { .. } => Some(CallStep::ListSessions.into()),
            ResolutionError::Waiting { .. }
            | ResolutionError::NotInDoubt { .. }
            | ResolutionError::TooLong { .. }
            | ResolutionError::Journal(_) => None,
        }
    }
}

fn in_doubt(doubts: &[u32]) -> String {
    match doubts {
        [] => "no step of it is".to_owned(),
        [one] => format!("its step {one} is"),
        doubts => format!("its steps {} are", doubts.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    }
}

impl From<Doubt> for CallDoubt {
    fn from(doubt: Doubt) -> CallDoubt {
        CallDoubt { seq: doubt.seq, name: doubt.name, since_ms: doubt.since_ms }
    }
}

impl Sessions {
    /// Those of the node that has these tasks.
    #[must_use]
    pub fn of(tasks: &TaskService) -> Sessions {
        Sessions { runner: tasks.runner.clone() }
    }

    /// Goes on with the unfinished turns of an agent that was added and runs, if there are any; `recheck` decides again whether
    /// their callers may call it. Outside a runtime of tokio nothing happens.
    /// They also go on by that when somebody has answered what they wait for: `recheck` is kept, and must not keep these tasks.
    pub fn resume(&self, agent: &HostedAgent, recheck: Recheck) {
        self.runner.note_resumer(agent, recheck.clone(), resume::go_on);
        if !self.runner.store().journals().waiting().contains_key(agent.name()) {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(resume::resume(self.runner.clone(), agent.clone(), recheck));
        }
    }

    /// Goes on with turns that are for tasks of groups as these say. Until then they wait. The first one stays.
    pub fn ask_tenures(&self, tenures: Arc<dyn Tenures>) {
        // A second one would be a fault of the composition: the first decides.
        let _ = self.runner.tenures().set(tenures);
    }

    /// From now on turns end where somebody is asked about their next call, and go on when these say that it was answered. Until
    /// then, calls wait for the answer. The first one stays.
    pub fn ask_people(&self, asks: Arc<dyn PendingAsks>) {
        // A second one would be a fault of the composition: the first decides.
        let _ = self.runner.asks().set(asks);
    }

    /// The unfinished turns that have a journal, and those that wait for their agent; by their tasks' ids, the oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<SessionSummary> {
        let waiting = self.runner.store().journals().waiting().clone();
        let waiting = waiting.values().flatten().filter_map(|id| self.waiting(id));
        let live = self.runner.live().journalled();
        let mut all: Vec<SessionSummary> = live.iter().filter_map(|live| running(live)).chain(waiting).collect();
        all.sort_by(|one, other| one.task.cmp(&other.task));
        all.dedup_by(|one, other| one.task == other.task);
        all
    }

    /// The journals of a task's turns, the oldest first: names, digests, sizes and times, and nothing of what is in them.
    ///
    /// # Errors
    /// [`StepsError`].
    pub fn steps(&self, task: &str) -> Result<Vec<TurnSteps>, StepsError> {
        steps::of(&self.runner, task)
    }

    /// A task that this node's owner gave an agent, with all that models and tools said in those of its turns that are over and are
    /// recorded: for tests and replays. One that is not recorded has no turns in it.
    ///
    /// # Errors
    /// [`StepsError`].
    pub fn tape(&self, task: &str) -> Result<TaskTape, StepsError> {
        steps::tape(&self.runner, task)
    }

    /// A conversation with an agent that runs here, beside the tasks of this node: by its name, in that version if it runs, and else
    /// in the one that was started first.
    ///
    /// # Errors
    /// [`RehearsalError`].
    pub fn rehearsal(&self, agent: &str, version: Option<&str>) -> Result<Rehearsal, RehearsalError> {
        Rehearsal::new(&self.runner, agent, version)
    }

    /// What gates refused of a task's answers, with these: for the owner of the node, and for nobody who may only call its agents.
    ///
    /// # Errors
    /// [`VerdictError`].
    pub fn verdict(&self, task: &str) -> Result<TaskVerdict, VerdictError> {
        verdicts::of(&self.runner, task)
    }

    /// What the turns of a task did that are over, by names and hashes, the oldest first.
    ///
    /// # Errors
    /// [`StepsError`].
    pub fn runs(&self, task: &str) -> Result<TaskRuns, StepsError> {
        runs::of(&self.runner, task)
    }

    /// The turns that did not go on after the node had ended: those that may go on anew from one of their steps, and the newest
    /// others since the node began; for a day.
    #[must_use]
    pub fn lost(&self) -> Vec<TurnLoss> {
        let (journals, now_ms) = (self.runner.store().journals(), self.runner.now_ms());
        let stopped = self.stopped();
        let mut others = journals.losses().at(now_ms);
        others.retain(|loss| stopped.iter().all(|known| known.task != loss.task));
        stopped.into_iter().chain(others).collect()
    }

    /// The turns that stopped with `DIVERGED` or `VERSION_CHANGED` and may go on anew from one of their steps, with why and until
    /// when; the one that stopped last first, and the newest of many.
    #[must_use]
    pub fn stopped(&self) -> Vec<TurnLoss> {
        let all = self.runner.store().journals().all_restartable(self.runner.now_ms());
        all.into_iter().filter_map(|(task, until_ms)| self.stop(task, until_ms)).collect()
    }

    /// The turn of a task that stopped, if it may go on anew.
    fn stop(&self, task: String, until_ms: u64) -> Option<TurnLoss> {
        let record = self.runner.store().read(&task).ok()??;
        let has_failed = record.task.status.state == TaskState::Failed && record.departed.is_none();
        let texts = |message: &Message| message.parts.iter().filter_map(Part::as_text).collect::<Vec<_>>().join(" ");
        let why = record.task.status.message.as_ref().map(texts).unwrap_or_default();
        has_failed.then_some(TurnLoss { agent: record.agent, task, why, restart_until_ms: Some(until_ms) })
    }

    /// A turn that waits for its agent.
    fn waiting(&self, id: &str) -> Option<SessionSummary> {
        let (record, rows) = task_rows::read(&self.runner, id).ok()??;
        let (rows, begin) = match rows {
            Ok(rows) => (Some((rows.size(), rows.doubts())), rows.begin().clone()),
            Err(_) => (None, record.read_begin()?.ok()?),
        };
        let session = begin::turn(&record, &begin)?.session.text();
        let ((rows, bytes), doubts) = rows.unwrap_or_default();
        Some(SessionSummary {
            session,
            task: id.to_owned(),
            agent: record.agent,
            context: record.task.context_id,
            state: SessionState::Waiting,
            rows: u64::from(rows),
            bytes,
            doubts: doubts.into_iter().map(CallDoubt::from).collect(),
        })
    }

    /// Has the turn of a task that stopped with `DIVERGED` or `VERSION_CHANGED` go on anew from step `from`, as `by` says: what the
    /// steps before it brought is told again, and they keep their keys. The task works again then.
    ///
    /// # Errors
    /// [`RestartRefusal`]; then nothing changed. A step that must not be made twice is never forgotten.
    pub async fn restart(&self, task: &str, from: u32, by: &Principal) -> Result<(), RestartRefusal> {
        restart::restart(&self.runner, task, from, by).await
    }

    /// Says what came of a call in doubt: step `seq` of a task's turn. The turn goes on when none is in doubt any more. What
    /// was said, and that `by` said it, is on disk when this completes, with what is recorded of that. A result has the label of what the turn was given, with what
    /// the tool's profile says; without one nobody vouches for it, as for what the tool itself answers.
    ///
    /// # Errors
    /// [`ResolutionError`]; then nothing was said.
    pub async fn settle(&self, task: &str, seq: u32, how: Resolution, by: &Principal) -> Result<(), ResolutionError> {
        let live = self.runner.live().running(task).ok_or_else(|| self.unsettled(task))?;
        let journal = live.request.journal.as_ref();
        let journal = journal.ok_or_else(|| ResolutionError::NoTask { task: task.to_owned() })?;
        let (choice, outcome) = match how {
            Resolution::Done(result) => {
                let bytes = result.to_string().len();
                if bytes > RESULT_BYTES_MAX {
                    return Err(ResolutionError::TooLong { bytes });
                }
                let label = Some(told_label(&self.runner, &live, journal, seq).await);
                (Choice::Done, Some(StepOutcome { result: Ok(result), tokens: 0, label }))
            }
            Resolution::Again => (Choice::Again, None),
            Resolution::Failed => (Choice::Failed, None),
        };
        let by = by.to_string();
        let brought = outcome.as_ref().and_then(|outcome| Some((outcome.result.as_ref().ok()?, outcome.label)));
        let doubt = journal.ledger().doubts.into_iter().find(|doubt| doubt.seq == seq);
        let told = |doubt: Doubt| recording::told(&self.runner, &live, (seq, &doubt.name), (choice, brought), &by);
        let records = doubt.map_or_else(Batch::new, told);
        if journal.clear_doubt(seq, choice, outcome, (&by, records)).await? {
            return Ok(());
        }
        let doubts = journal.ledger().doubts.iter().map(|doubt| doubt.seq).collect();
        Err(ResolutionError::NotInDoubt { task: task.to_owned(), seq, doubts })
    }

    /// Why nothing is said of a call of a task that does not run.
    fn unsettled(&self, task: &str) -> ResolutionError {
        let waiting = self.runner.store().journals().all_unfinished();
        match waiting.into_iter().find(|(_, id)| id == task) {
            Some((agent, task)) => ResolutionError::Waiting { task, agent },
            None => ResolutionError::NoTask { task: task.to_owned() },
        }
    }
}

/// The label of what somebody says that a call in doubt brought, with that of all that its turn was given by then.
async fn told_label(runner: &TaskRunner, live: &LiveTask, journal: &TurnJournal, seq: u32) -> Label {
    let given = Label::of_both(journal.label().await, live.said().label());
    let doubts = journal.ledger().doubts;
    let tool = doubts.iter().find(|doubt| doubt.seq == seq).map_or("", |doubt| doubt.name.as_str());
    let nobody = || Label { level: given.map_or(DataLabel::Public, |given| given.level), trusted: false };
    let told = runner.host().tools(&live.agent).map_or_else(nobody, |tools| tools.told_label(tool, given));
    given.map_or(told, |given| given.join(told))
}

/// A turn that runs, or waits for what is said of its calls.
fn running(live: &LiveTask) -> Option<SessionSummary> {
    let journal = live.request.journal.as_ref()?;
    let ledger = journal.ledger();
    let doubts: Vec<CallDoubt> = ledger.doubts.into_iter().map(CallDoubt::from).collect();
    let state = if doubts.is_empty() { SessionState::Working } else { SessionState::InDoubt };
    let (rows, bytes) = (ledger.rows, ledger.bytes);
    let now = live.lock();
    let (context, state_now) = (now.record.task.context_id.clone(), &now.record.task.status.state);
    // Of a turn whose end is told at this moment the journal is deleted.
    (rows > 0 || !is_idle(state_now)).then(|| SessionSummary {
        session: journal.session(),
        task: live.id.clone(),
        agent: live.agent.name().to_owned(),
        context,
        state,
        rows,
        bytes,
        doubts,
    })
}
