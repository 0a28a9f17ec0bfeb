//! Turns of an agent beside the tasks of this node, for tests and replays: no task is made of them, nothing of them is written, and
//! nobody hears of them. What such a turn asks goes to the journal that whoever runs it hands in.

use std::sync::Arc;
use std::time::Duration;

use a2a::{Artifact, Message, Task, TaskState};
use althing_call::{CallMetadata, Principal};
use althing_execution::agent::{Agent, Made};
use althing_execution::journal::{Journal, TurnRights};
use althing_execution::run_notes::{Judgement, RunNotes};
use althing_execution::{AgentError, Output, Turn};
use althing_failure::Kind;
use althing_protocol::{AgentRef, Attributes, Label};
use tokio::time::{Instant, timeout};

use crate::machine::record::Record;
use crate::machine::session::{Begin, RecordedTurn};
use crate::machine::task;
use crate::tasks::closing::status_message;
use crate::tasks::course::{self, TurnCourse};
use crate::tasks::live::TurnRequest;
use crate::tasks::outcome::TurnCopy;
use crate::tasks::runner::TaskRunner;
use crate::tasks::turn::{end_state, turn_of};
use crate::tasks::{begin, notes, resume};

/// How long a turn of a rehearsal takes at most.
pub const REHEARSAL_MAX: Duration = Duration::from_secs(600);

/// A task, with the tapes of its turns.
#[derive(Debug, Clone)]
pub struct TaskTape {
    /// The task as it is.
    pub task: Task,
    /// The name of its agent.
    pub agent: String,
    /// The version of the agent that was given its last message, where that was noted.
    pub version: Option<String>,
    /// The artifacts that its last turn made, where what is on record of its turns says which they are.
    pub made: Option<Vec<Artifact>>,
    /// The label of all that is in it.
    pub label: Option<Label>,
    /// What is recorded of its turns that are over, the oldest first; none where its agent's contract does not say so.
    pub turns: Vec<RecordedTurn>,
    /// With what each of them began.
    pub(super) begins: Vec<Begin>,
}

impl TaskTape {
    /// What its last turn answered: the task with the artifacts alone that this turn made; none where these are not known.
    #[must_use]
    pub fn answered(&self) -> Option<Task> {
        self.made.clone().map(|made| Task { artifacts: Some(made), ..self.task.clone() })
    }
}

/// Why an agent is not rehearsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RehearsalError {
    /// It does not run here.
    #[error("no agent {agent:?} runs on this node: an agent is tested on a node that hosts it")]
    NotHere {
        /// Its name, as its file has it.
        agent: String,
    },
    /// It reaches others by itself.
    #[error(
        "agent {agent:?} is a program, a server or a control loop: what it does by itself is in no journal, and a test could not keep \
         it from having effects. Agents of models and components can be tested, and what comes with the node"
    )]
    Open {
        /// Its name, as its file has it.
        agent: String,
    },
}

impl RehearsalError {
    /// What can be done about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            RehearsalError::NotHere { .. } => Kind::NotFound,
            RehearsalError::Open { .. } => Kind::Refused,
        }
    }
}

/// With what a turn of a rehearsal begins, beside its message.
#[derive(Debug, Clone, Copy)]
pub enum Script<'a> {
    /// With what that turn of a task began, by its place in [`TaskTape::turns`].
    Recorded(&'a TaskTape, usize),
    /// As if the owner of this node sent the message, with that label.
    New(Option<Label>),
    /// On the terms of a turn that is over.
    Copied(&'a TurnCopy),
}

/// How long a turn took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TurnTimes {
    /// Until its first output.
    pub first: Option<Duration>,
    /// In all.
    pub whole: Duration,
}

/// A conversation with an agent of this node, beside its tasks.
pub struct Rehearsal {
    runner: TaskRunner,
    agent: AgentRef,
    /// The task that is made in memory alone; none before the first message.
    record: Option<Record>,
    /// The artifacts that its last turn made.
    made: Vec<Artifact>,
    /// How its last turn went; none before the first message.
    course: Option<TurnCourse>,
    /// What its last turn did, as it is noted.
    run: RunNotes,
}

impl Rehearsal {
    pub(super) fn new(runner: &TaskRunner, agent: &str, version: Option<&str>) -> Result<Rehearsal, RehearsalError> {
        let not_here = || RehearsalError::NotHere { agent: agent.to_owned() };
        let versions = runner.host().versions(agent);
        let same = versions.iter().find(|one| version == Some(&*one.version));
        let chosen = same.or(versions.first()).cloned().ok_or_else(not_here)?;
        // A control loop has none: it does not run in turns.
        let inner = runner.host().agent(&chosen);
        if !inner.is_some_and(|inner| is_enclosed(&*inner)) {
            return Err(RehearsalError::Open { agent: agent.to_owned() });
        }
        let (runner, run) = (runner.clone(), RunNotes::default());
        Ok(Rehearsal { runner, agent: chosen, record: None, made: Vec::new(), course: None, run })
    }

    /// The agent, in the version that answers.
    #[must_use]
    pub fn agent(&self) -> &AgentRef {
        &self.agent
    }

    /// The hash of the manifest that it is bound to.
    #[must_use]
    pub fn binding(&self) -> String {
        begin::binding(&self.runner, &self.agent)
    }

    /// The task as it is by now; none before the first message.
    #[must_use]
    pub fn task(&self) -> Option<&Task> {
        self.record.as_ref().map(|record| &record.task)
    }

    /// What its last turn answered: the task with the artifacts alone that this turn made; none before the first message.
    #[must_use]
    pub fn answered(&self) -> Option<Task> {
        self.task().map(|task| Task { artifacts: Some(self.made.clone()), ..task.clone() })
    }

    /// How its last turn went; none before the first message.
    #[must_use]
    pub fn course(&self) -> Option<TurnCourse> {
        self.course
    }

    /// What agents said that judged the answer of its last turn, in their order.
    #[must_use]
    pub fn judgements(&self) -> Vec<Judgement> {
        self.run.facts().judgements
    }

    /// The gate that could not judge the answer of its last turn, where that is held back for this.
    #[must_use]
    pub fn unjudged(&self) -> Option<String> {
        self.run.facts().unjudged.filter(|_| self.course == Some(TurnCourse::Unjudged))
    }

    /// Gives the agent the message of a turn that is over, as [`Rehearsal::turn`] does.
    pub async fn copy(&mut self, copy: &TurnCopy, journal: Arc<dyn Journal>) -> TurnTimes {
        self.turn(copy.message.clone(), Script::Copied(copy), journal).await
    }

    /// Gives the agent a message, and waits until its turn has ended: then [`Rehearsal::answered`] has what it answered. A message
    /// after the end of a task begins another one in the same conversation.
    pub async fn turn(&mut self, message: Message, script: Script<'_>, journal: Arc<dyn Journal>) -> TurnTimes {
        let (message_id, now) = (message.message_id.clone(), self.runner.now());
        let mut record = self.told(message, script);
        let asked = request(script, &record, message_id);
        let notes = notes::of(&self.runner, &self.agent, &record);
        let mut turn = turn_of(record.clone(), &asked, Some(notes), None);
        turn.parameters.rights = TurnRights { lease: None, journal: Some(journal) };
        task::set_status(&mut record.task, TaskState::Working, None, now);
        let begun = Instant::now();
        let (mut first, mut made) = (None, Vec::new());
        let most = asked.within.map_or(REHEARSAL_MAX, |within| within.min(REHEARSAL_MAX));
        let hear = || {
            first.get_or_insert_with(|| begun.elapsed());
        };
        let ended = timeout(most, self.play(turn, (&mut record, &mut made), hear)).await;
        let missed = ended.is_err().then(|| course::missed(most));
        let ended = ended.unwrap_or_else(|_| {
            Err(AgentError::Failed(format!("it did not end within the {} ms that it may take", most.as_millis())))
        });
        let fault = missed.or_else(|| ended.as_ref().err().map(course::course));
        self.close(&mut record, ended);
        let course = fault.unwrap_or_else(|| course::course_of(&record.task.status.state));
        self.course = Some(course::heard(course, &asked.run));
        self.run = asked.run;
        (self.record, self.made) = (Some(record), made);
        TurnTimes { first, whole: begun.elapsed() }
    }

    /// The task with one more message.
    fn told(&mut self, message: Message, script: Script<'_>) -> Record {
        let now = self.runner.now();
        let new = |id: String, context: String, message: Message| {
            Record::new(task::submitted(id, context, message, now), self.agent.name(), self.runner.owner())
        };
        match self.record.take() {
            Some(mut record) => {
                let again = message.clone();
                match task::continue_with(&mut record.task, message, now) {
                    Ok(()) => record,
                    Err(_) => new(self.runner.new_id(), record.task.context_id, again),
                }
            }
            None => match script {
                Script::Recorded(tape, _) => new(tape.task.id.clone(), tape.task.context_id.clone(), message),
                Script::New(_) | Script::Copied(_) => new(self.runner.new_id(), self.runner.new_id(), message),
            },
        }
    }

    /// Runs the turn, and applies what the agent emits, also to the artifacts of this turn alone; `hear` is called at each of it.
    async fn play(
        &self,
        turn: Turn,
        (record, artifacts): (&mut Record, &mut Vec<Artifact>),
        mut hear: impl FnMut(),
    ) -> Result<(), AgentError> {
        let (output, mut outputs) = Output::channel();
        let mut working = Box::pin(self.runner.host().turn(&self.agent, turn, output));
        let (mut outcome, mut bytes) = (None, 0);
        loop {
            tokio::select! {
                biased;
                made = outputs.recv() => match made {
                    Some(made) => {
                        hear();
                        self.apply((&mut *record, &mut *artifacts), made, &mut bytes)?;
                    }
                    // All outputs were applied; how the turn ended comes from `working`.
                    None => match outcome.take() {
                        Some(outcome) => return outcome,
                        None => return working.as_mut().await,
                    },
                },
                ended = &mut working, if outcome.is_none() => outcome = Some(ended),
            }
        }
    }

    fn apply(
        &self,
        (record, artifacts): (&mut Record, &mut Vec<Artifact>),
        made: Made,
        bytes: &mut usize,
    ) -> Result<(), AgentError> {
        let size = task::size(&made);
        *bytes = bytes.saturating_add(size.artifact_bytes);
        if task::exceeds_message_limit(&made, &size) || *bytes > task::ARTIFACT_BYTES_MAX {
            return Err(AgentError::Failed("its answer is larger than one may be".to_owned()));
        }
        if let Made::Remember(kept) = made {
            record.remembered = Some(kept);
            return Ok(());
        }
        if task::is_idle(&record.task.status.state) {
            return Err(AgentError::Failed("it went on after it had said that it was done".to_owned()));
        }
        let now = self.runner.now();
        let stepped = task::collect(artifacts, &made).and_then(|()| task::step(&mut record.task, made, now));
        stepped.map(drop).map_err(|error| AgentError::Failed(error.to_string()))
    }

    /// The state of the task after the turn, unless the agent set it itself.
    fn close(&self, record: &mut Record, ended: Result<(), AgentError>) {
        let (state, reason) = match end_state(ended) {
            (Some(state), reason) => (state, reason),
            (None, _) if task::is_idle(&record.task.status.state) => return,
            (None, _) => (TaskState::Completed, None),
        };
        task::set_status(&mut record.task, state, reason.map(status_message), self.runner.now());
    }
}

/// Whether all that an agent does outside itself goes through the journal of its turn. A program that is given a message again only
/// promises that, and is no such agent.
fn is_enclosed(agent: &dyn Agent) -> bool {
    agent.is_enclosed() || agent.is_resumable() && agent.calls_in_order()
}

fn request(script: Script<'_>, record: &Record, message_id: String) -> TurnRequest {
    match script {
        Script::Recorded(tape, place) => {
            let began = tape.begins.get(place).map(|begin| resume::request(begin, record));
            TurnRequest { message_id, ..began.unwrap_or_default() }
        }
        Script::New(label) => {
            let attributes = Attributes { label, ..Attributes::default() };
            let call = CallMetadata { attributes, principals: vec![Principal::Local], ..CallMetadata::default() };
            TurnRequest { call, message_id, ..TurnRequest::default() }
        }
        // With notes of its own.
        Script::Copied(copy) => TurnRequest { run: RunNotes::default(), ..copy.request.clone() },
    }
}
