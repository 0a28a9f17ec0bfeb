//! Workflows of a group: steps of which each is a task or an approval, and when they run.
//!
//! The steps of a workflow stand in an order in which each comes after those that it waits for, so that no circle can be
//! written.

use minicbor::{Decode, Encode};

use super::WorkId;
use super::work::{Needs, Priority, explained, named, shape};
use crate::limits::{CBOR_ITEMS_MAX, GROUP_VALUE_BYTES_MAX, WORK_LEASE_MIN_MS, WORKFLOW_BYTES_MAX};
use crate::object::ObjectError;

mod check;
mod graph;
#[cfg(test)]
mod tests;

pub use check::WorkflowError;
pub(super) use check::check_schedule_name;

/// A workflow.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Workflow {
    /// Its name, for people.
    #[n(0)]
    pub name: String,
    /// Its steps: each after those that it waits for.
    #[n(1)]
    pub steps: Vec<Step>,
}

/// A step of a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Step {
    /// Its id, by which other steps name it.
    #[n(0)]
    pub id: String,
    /// The steps that must have ended before. If there are some and all were skipped, it is skipped too.
    #[n(1)]
    pub after: Vec<String>,
    /// It is skipped unless this is so.
    #[n(2)]
    pub when: Option<When>,
    /// What it does.
    #[n(3)]
    pub action: Action,
    /// For how long it may take, milliseconds.
    #[n(4)]
    pub timeout_ms: Option<u64>,
    /// Whether it and steps before it are repeated.
    #[n(5)]
    pub repeat: Option<Repeat>,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Action {
    /// It is a task of the group, or several.
    #[n(0)]
    Task(#[n(0)] Box<Job>),
    /// Somebody is asked this, a template; the result is what they note.
    #[n(1)]
    Approval(#[n(0)] String),
}

/// The task, or the tasks, of a step.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Job {
    /// What it needs of the member that does it.
    #[n(0)]
    pub needs: Needs,
    /// The template of its input.
    #[n(1)]
    pub input: String,
    /// How urgent it is.
    #[n(2)]
    pub priority: Priority,
    /// How often it is attempted, at most.
    #[n(3)]
    pub attempts_max: u8,
    /// For how long a member has it without a sign of life, milliseconds.
    #[n(4)]
    pub lease_ms: u64,
    /// The step that returns a list in JSON: there is one task for each of its items.
    #[n(5)]
    pub for_each: Option<String>,
    /// True if its tasks complete only with results that gates of the agents' contracts let pass.
    #[n(6)]
    pub verify: Option<bool>,
}

/// What the result of a step must be.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Test {
    /// This text; space around both does not count.
    #[n(0)]
    Equals(#[n(0)] String),
    /// It contains this text.
    #[n(1)]
    Contains(#[n(0)] String),
}

impl Test {
    /// Whether a result is that.
    #[must_use]
    pub fn holds(&self, result: &str) -> bool {
        match self {
            Test::Equals(text) => result.trim() == text.trim(),
            Test::Contains(text) => result.contains(text.as_str()),
        }
    }
}

/// A condition on another step.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct When {
    /// The step. If it was skipped, the condition does not hold.
    #[n(0)]
    pub step: String,
    /// What its result must be.
    #[n(1)]
    pub test: Test,
}

/// Repeats a step, the steps that lead to it from an earlier one, and that one.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Repeat {
    /// The earlier step, or the step itself.
    #[n(0)]
    pub from: String,
    /// What the result of the step must be.
    #[n(1)]
    pub until: Test,
    /// How many rounds there are at most. If the result of the last one is another, the step fails.
    #[n(2)]
    pub rounds_max: u8,
}

/// Runs a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct RunWorkflow {
    /// The id of the run: random. No other run has it.
    #[n(0)]
    pub run: WorkId,
    /// The workflow.
    #[n(1)]
    pub workflow: Workflow,
    /// The input of the run.
    #[n(2)]
    pub input: String,
}

/// Approves a step of a run, or rejects it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Approve {
    /// Which run.
    #[n(0)]
    pub run: WorkId,
    /// Which step.
    #[n(1)]
    pub step: String,
    /// The round in which it was asked.
    #[n(2)]
    pub round: u32,
    /// Whether the run goes on; otherwise the step fails.
    #[n(3)]
    pub approved: bool,
    /// The result of the step, or why it was rejected.
    #[n(4)]
    pub note: String,
}

/// What becomes of times that passed while nobody led.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Missed {
    /// They pass.
    #[default]
    #[n(0)]
    Skip,
    /// The last of them counts, once.
    #[n(1)]
    RunOnce,
}

/// What becomes of a time that comes while a run of the same schedule has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Overlap {
    /// It passes.
    #[n(1)]
    Skip,
    /// That run is canceled, and the next one begins.
    #[n(2)]
    Replace,
}

/// Runs a workflow at the times of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Schedule {
    /// Its name: it replaces the schedule of the same name.
    #[n(0)]
    pub name: String,
    /// The times, in the syntax of cron: minute, hour, day of the month, month, day of the week.
    #[n(1)]
    pub cron: String,
    /// The time zone, as the IANA names it: `Europe/Berlin`.
    #[n(2)]
    pub zone: String,
    /// What becomes of times that were missed.
    #[n(3)]
    pub missed: Missed,
    /// What runs.
    #[n(4)]
    pub workflow: Workflow,
    /// The input of each run.
    #[n(5)]
    pub input: String,
    /// What becomes of times that come while a run has not ended; none if the next run begins beside it.
    #[n(6)]
    pub overlap: Option<Overlap>,
}

/// A time of a schedule has come.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Fire {
    /// The schedule.
    #[n(0)]
    pub name: String,
    /// The time, Unix milliseconds.
    #[n(1)]
    pub at_ms: u64,
    /// When the schedule was made, as the state says: another one of that name may have replaced it.
    #[n(2)]
    pub since_ms: u64,
}

impl Job {
    /// A task that is attempted once.
    #[must_use]
    pub fn new(needs: Needs, input: &str) -> Job {
        let lease_ms = WORK_LEASE_MIN_MS * 10;
        let (priority, for_each, verify) = (Priority::Normal, None, None);
        Job { needs, input: input.to_owned(), priority, attempts_max: 1, lease_ms, for_each, verify }
    }
}

impl Step {
    /// A step after others that does this.
    #[must_use]
    pub fn new(id: &str, after: &[&str], action: Action) -> Step {
        let after = after.iter().map(|id| (*id).to_owned()).collect();
        Step { id: id.to_owned(), after, when: None, action, timeout_ms: None, repeat: None }
    }

    /// The step that returns the list of its items, if it has a task for each of them.
    #[must_use]
    pub fn for_each(&self) -> Option<&str> {
        match &self.action {
            Action::Task(job) => job.for_each.as_deref(),
            Action::Approval(_) => None,
        }
    }

    /// The template of its input, or of what it asks.
    #[must_use]
    pub fn template(&self) -> &str {
        match &self.action {
            Action::Task(job) => &job.input,
            Action::Approval(question) => question,
        }
    }
}

impl Workflow {
    /// Its encoding, for a value of a group.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Reads an encoding.
    ///
    /// # Errors
    /// It is malformed, or the workflow cannot run.
    pub fn from_bytes(bytes: &[u8]) -> Result<Workflow, ObjectError> {
        crate::cbor::check(bytes, GROUP_VALUE_BYTES_MAX).map_err(|error| ObjectError::Shape(error.to_string()))?;
        let workflow: Workflow = minicbor::decode(bytes).map_err(|error| ObjectError::Shape(error.to_string()))?;
        workflow_fits(&workflow)?;
        Ok(workflow)
    }

    /// Data items of its encoding, at most.
    fn items_max(&self) -> usize {
        let of = |step: &Step| {
            let labels = match &step.action {
                Action::Task(job) => job.needs.labels.len(),
                Action::Approval(_) => 0,
            };
            let conditions = step.when.as_ref().map_or(0, |_| 10) + step.repeat.as_ref().map_or(0, |_| 12);
            44 + conditions + step.after.len() + labels
        };
        8 + self.steps.iter().map(of).sum::<usize>()
    }
}

fn input_fits(input: &str) -> Result<(), ObjectError> {
    if input.len() <= WORKFLOW_BYTES_MAX {
        return Ok(());
    }
    shape(format!("the input of a workflow has at most {WORKFLOW_BYTES_MAX} bytes"))
}

/// Data items that are left for what a state says of a run or a schedule beside its workflow.
const REST_ITEMS: usize = 64;

fn workflow_fits(workflow: &Workflow) -> Result<(), ObjectError> {
    workflow.check().map_err(|error| ObjectError::Shape(error.to_string()))?;
    if workflow.items_max() > CBOR_ITEMS_MAX - REST_ITEMS {
        return shape("the workflow is too large for one message; divide it, or use fewer labels".to_owned());
    }
    Ok(())
}

impl RunWorkflow {
    pub(super) fn check(&self) -> Result<(), ObjectError> {
        input_fits(&self.input)?;
        workflow_fits(&self.workflow)
    }

    pub(super) fn items_max(&self) -> usize {
        12 + self.workflow.items_max()
    }
}

impl Approve {
    pub(super) fn check(&self) -> Result<(), ObjectError> {
        named("the id of a step", &self.step)?;
        explained(&self.note)
    }
}

impl Schedule {
    /// Whether it can be: its name and its bounds, and whether its workflow can run.
    ///
    /// # Errors
    /// [`ObjectError::Shape`].
    pub fn check(&self) -> Result<(), ObjectError> {
        check_schedule_name(&self.name)?;
        named("a pattern of cron", &self.cron)?;
        named("a time zone", &self.zone)?;
        input_fits(&self.input)?;
        workflow_fits(&self.workflow)
    }

    pub(super) fn items_max(&self) -> usize {
        22 + self.workflow.items_max()
    }
}
