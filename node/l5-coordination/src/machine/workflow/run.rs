//! One run of a workflow, and what becomes of its steps.

use std::fmt;

use althing_protocol::group::{Author, RunWorkflow, WorkId, Workflow};
use althing_protocol::{Label, PublisherId};
use minicbor::{Decode, Encode};

/// Bytes of the results of one run.
pub const RUN_RESULTS_MAX: usize = 512 << 10;
/// Bytes of all runs: workflows, inputs, results.
pub const RUNS_BYTES_MAX: usize = 16 << 20;
/// What an item counts beside its texts, so that many small ones are bounded too.
const ITEM_BYTES: usize = 64;

/// Whose something is, and in whose room: the author's owner.
pub(super) type Whose = (Author, PublisherId);

/// What became of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum RunState {
    /// Steps run, or wait for somebody's approval.
    #[n(0)]
    Running,
    /// Every step completed or was skipped.
    #[n(1)]
    Completed,
    /// A step failed, and no other runs any more. It can be resumed.
    #[n(2)]
    Failed,
    /// It was not wanted any more.
    #[n(3)]
    Canceled,
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RunState::Running => "running",
            RunState::Completed => "completed",
            RunState::Failed => "failed",
            RunState::Canceled => "canceled",
        })
    }
}

/// What a step is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum StepState {
    /// It waits for other steps.
    #[default]
    #[n(0)]
    Waiting,
    /// It has tasks that have not ended.
    #[n(1)]
    Working,
    /// It waits for somebody's approval.
    #[n(2)]
    Asking,
    /// It has a result.
    #[n(3)]
    Completed,
    /// Its condition did not hold, or all steps before it were skipped.
    #[n(4)]
    Skipped,
    /// It has no result, unless the run is resumed.
    #[n(5)]
    Failed,
}

impl fmt::Display for StepState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StepState::Waiting => "waiting",
            StepState::Working => "working",
            StepState::Asking => "asking",
            StepState::Completed => "completed",
            StepState::Skipped => "skipped",
            StepState::Failed => "failed",
        })
    }
}

/// What became of a task of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum ItemState {
    /// It has not ended.
    #[n(0)]
    Open,
    /// It completed.
    #[n(1)]
    Completed,
    /// It ended otherwise, or the queue did not take it.
    #[n(2)]
    Failed,
}

/// One task of a step.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Item {
    /// Its id.
    #[n(0)]
    pub task: WorkId,
    /// What became of it.
    #[n(1)]
    pub state: ItemState,
    /// Its result, until that is part of the result of the step.
    #[n(2)]
    pub result: Option<String>,
}

/// A step of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct StepNow {
    /// What it is doing.
    #[n(0)]
    pub state: StepState,
    /// How often it was repeated.
    #[n(1)]
    pub round: u32,
    /// The round from which the rounds of its loop are counted: that of the last resumption after all had passed.
    #[n(2)]
    pub round_first: u32,
    /// Its tasks in this round, one for each item.
    #[n(3)]
    pub items: Vec<Item>,
    /// Its result; with several tasks the list of their results, in JSON.
    #[n(4)]
    pub result: Option<String>,
    /// Its result of the round before.
    #[n(5)]
    pub last: Option<String>,
    /// What is asked, while it waits for approval.
    #[n(6)]
    pub question: Option<String>,
    /// Until when that may be answered, Unix milliseconds.
    #[n(7)]
    pub due_ms: Option<u64>,
    /// Who answered.
    #[n(8)]
    pub by: Option<Author>,
    /// Why it failed.
    #[n(9)]
    pub why: Option<String>,
}

impl StepNow {
    /// Whether steps after it need not wait for it any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.state, StepState::Completed | StepState::Skipped)
    }

    /// What a template reads of it: its result, or that of the round before.
    #[must_use]
    pub fn text(&self) -> &str {
        self.result.as_deref().or(self.last.as_deref()).unwrap_or_default()
    }

    fn bytes(&self) -> usize {
        let texts = [&self.result, &self.last, &self.question];
        let items = self.items.iter().map(|item| ITEM_BYTES + item.result.as_ref().map_or(0, String::len));
        texts.into_iter().flatten().map(String::len).sum::<usize>() + items.sum::<usize>()
    }
}

/// A run of a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Run {
    /// Its id.
    #[n(0)]
    pub id: WorkId,
    /// What runs.
    #[n(1)]
    pub workflow: Workflow,
    /// Its input.
    #[n(2)]
    pub input: String,
    /// Whose run it is: its tasks are done for them.
    #[n(3)]
    pub author: Author,
    /// How many were begun up to it.
    #[n(4)]
    pub number: u64,
    /// When it began, Unix milliseconds.
    #[n(5)]
    pub started_ms: u64,
    /// What became of it.
    #[n(6)]
    pub state: RunState,
    /// How often it was resumed.
    #[n(7)]
    pub resumed: u32,
    /// How many ended before it did, and when, Unix milliseconds.
    #[n(8)]
    pub ended: Option<(u64, u64)>,
    /// The schedule that began it, and when that was made.
    #[n(9)]
    pub schedule: Option<(String, u64)>,
    /// In whose room it is: the author's owner.
    #[n(10)]
    pub owner: PublisherId,
    /// The label of all results that its tasks had so far; none before the first.
    #[n(11)]
    pub label: Option<Label>,
    /// Its steps, in the order of the workflow.
    #[cbor(skip)]
    pub steps: Vec<StepNow>,
}

impl Run {
    /// A run before its first step.
    pub(super) fn new(command: &RunWorkflow, (author, owner): Whose, number: u64, started_ms: u64) -> Run {
        Run {
            id: command.run,
            workflow: command.workflow.clone(),
            input: command.input.clone(),
            author,
            owner,
            number,
            started_ms,
            state: RunState::Running,
            resumed: 0,
            ended: None,
            schedule: None,
            label: None,
            steps: vec![StepNow::default(); command.workflow.steps.len()],
        }
    }

    /// Its step of that id, as it is now.
    #[must_use]
    pub fn step(&self, id: &str) -> Option<&StepNow> {
        self.steps.get(self.workflow.place(id)?)
    }

    /// Its result: that of the last of its steps that completed.
    #[must_use]
    pub fn result(&self) -> Option<&str> {
        let last = self.steps.iter().rev().find(|step| step.state == StepState::Completed)?;
        last.result.as_deref()
    }

    /// The first step that failed, and why.
    #[must_use]
    pub fn failure(&self) -> Option<(&str, &str)> {
        let failed = self.steps.iter().zip(&self.workflow.steps).find(|(step, _)| step.state == StepState::Failed)?;
        Some((&failed.1.id, failed.0.why.as_deref().unwrap_or_default()))
    }

    /// Its tasks that have not ended: place of the step, place of the item, task.
    pub fn open(&self) -> impl Iterator<Item = (usize, usize, WorkId)> {
        self.steps.iter().enumerate().flat_map(|(at, step)| {
            let items = step.items.iter().enumerate().filter(|(_, item)| item.state == ItemState::Open);
            items.map(move |(number, item)| (at, number, item.task))
        })
    }

    /// When a question of it ends unanswered, Unix milliseconds.
    #[must_use]
    pub fn due_ms(&self) -> Option<u64> {
        self.steps.iter().filter(|step| step.state == StepState::Asking).filter_map(|step| step.due_ms).min()
    }

    /// Bytes of what its steps returned and ask.
    #[must_use]
    pub fn results_bytes(&self) -> usize {
        self.steps.iter().map(StepNow::bytes).sum()
    }

    /// All its bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.workflow.bytes() + self.input.len() + self.results_bytes()
    }

    /// The id of the task of an item in the present round: it follows from the run, so that every member finds the same.
    pub(super) fn task_id(&self, at: usize, item: usize) -> WorkId {
        let mut bytes = b"althing workflow task".to_vec();
        bytes.extend(self.id.as_bytes());
        for number in [at, item] {
            bytes.extend(u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes());
        }
        bytes.extend(self.steps[at].round.to_be_bytes());
        bytes.extend(self.resumed.to_be_bytes());
        id_of(&bytes)
    }
}

/// The id that follows from these bytes.
pub(super) fn id_of(bytes: &[u8]) -> WorkId {
    let digest = althing_protocol::digest(bytes);
    let mut id = [0; 16];
    id.copy_from_slice(&digest[..16]);
    WorkId::from_bytes(id)
}
