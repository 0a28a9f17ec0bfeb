//! What operations on the workflows and schedules of groups answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::OverlapRule;

/// What an operation on the workflows of a group answers: each has its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum WorkflowReply {
    /// Of `run` and `runNamed`.
    Start(RunStart),
    /// Of `resume`.
    Resumption(RunResumption),
    /// Of `cancel`.
    Cancellation(RunCancellation),
    /// Of `approve`.
    Approval(StepApproval),
}

/// A run of a workflow began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunStart {
    /// Its id.
    pub run: String,
    /// Its number in the group.
    pub number: Option<u64>,
}

/// Runs of workflows, in the order in which they began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunList {
    /// Each of them.
    pub runs: Vec<RunSummary>,
}

/// What every look at a run tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunSummary {
    /// Its id.
    pub run: String,
    /// Its number in the group.
    pub number: u64,
    /// The workflow's name.
    pub workflow: String,
    /// What became of it.
    pub state: RunCondition,
    /// How many steps it has.
    pub steps: usize,
    /// Those that completed.
    pub completed: usize,
    /// Those that were left out.
    pub skipped: usize,
    /// Those that wait for somebody's approval.
    pub asking: usize,
    /// When it began, milliseconds since 1970.
    pub started_ms: u64,
    /// The name of the schedule that began it, if one did.
    pub schedule: Option<String>,
}

/// What became of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RunCondition {
    /// It goes on.
    Running,
    /// All its steps are done.
    Completed,
    /// A step failed.
    Failed,
    /// It was not wanted any more.
    Canceled,
}

impl RunCondition {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RunCondition::Running => "running",
            RunCondition::Completed => "completed",
            RunCondition::Failed => "failed",
            RunCondition::Canceled => "canceled",
        }
    }
}

/// A run of a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunDetails {
    /// What every look at it tells.
    #[serde(flatten)]
    pub summary: RunSummary,
    /// The id of whoever's run it is.
    pub author: String,
    /// Its input, as it was given.
    pub input: String,
    /// How often it was resumed.
    pub resumed: u32,
    /// When it ended, milliseconds since 1970.
    pub ended_ms: Option<u64>,
    /// The result of its last step that completed.
    pub result: Option<String>,
    /// The first step that failed.
    pub failure: Option<StepFailure>,
    /// Its steps, in the order of the workflow.
    pub step: Vec<StepStatus>,
}

/// A step that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepFailure {
    /// Its id.
    pub step: String,
    /// Why, for people.
    pub why: String,
}

/// A step of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepStatus {
    /// Its id.
    pub step: String,
    /// What it is doing.
    pub state: StepCondition,
    /// How often it was repeated.
    pub round: u32,
    /// The ids of its tasks in this round.
    pub tasks: Vec<String>,
    /// What it asks, while it waits for approval.
    pub question: Option<String>,
    /// Until when that may be answered, milliseconds since 1970.
    pub due_ms: Option<u64>,
    /// The id of who answered.
    pub by: Option<String>,
    /// Its result; with several tasks the list of their results, in JSON.
    pub result: Option<String>,
    /// Why it failed.
    pub why: Option<String>,
}

/// What a step of a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StepCondition {
    /// It waits for other steps.
    Waiting,
    /// Its tasks are under way.
    Working,
    /// It waits for somebody's approval.
    Asking,
    /// It has a result.
    Completed,
    /// It was left out.
    Skipped,
    /// It has none, and gets none.
    Failed,
}

impl StepCondition {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            StepCondition::Waiting => "waiting",
            StepCondition::Working => "working",
            StepCondition::Asking => "asking",
            StepCondition::Completed => "completed",
            StepCondition::Skipped => "skipped",
            StepCondition::Failed => "failed",
        }
    }
}

/// A run that failed goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunResumption {
    /// Its id.
    pub resumed: String,
}

/// A run was ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunCancellation {
    /// Its id.
    pub canceled: String,
}

/// What a step asked was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepApproval {
    /// The id of the run.
    pub run: String,
    /// The id of the step.
    pub step: String,
    /// Whether the run goes on.
    pub approved: bool,
}

/// What an operation on the schedules of a group answers: each has its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ScheduleReply {
    /// Of `add`.
    Addition(ScheduleAddition),
    /// Of `remove`.
    Removal(ScheduleRemoval),
}

/// A schedule was added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleAddition {
    /// Its name.
    pub schedule: String,
    /// Its next times, milliseconds since 1970.
    pub next_ms: Vec<u64>,
}

/// The schedules of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleList {
    /// Each of them.
    pub schedules: Vec<ScheduleStatus>,
}

/// A schedule, and what became of its runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleStatus {
    /// Its name.
    pub schedule: String,
    /// The times, in the syntax of cron.
    pub cron: String,
    /// The time zone, as the IANA names it.
    pub zone: String,
    /// Whether the last time that was missed counts, once.
    pub catch_up: bool,
    /// What becomes of times that come while a run has not ended.
    pub overlap: OverlapRule,
    /// How many times passed because of that.
    pub skipped: u64,
    /// The last of them, milliseconds since 1970.
    pub last_skipped_ms: Option<u64>,
    /// Its run that waits for somebody's approval, if one does.
    pub asking: Option<ScheduleQuestion>,
    /// The name of the workflow that runs.
    pub workflow: String,
    /// The id of whoever the runs are.
    pub author: String,
    /// The last time that counted, milliseconds since 1970.
    pub last_ms: Option<u64>,
    /// The id of the run that it began.
    pub last_run: Option<String>,
    /// How many of its last runs failed, one after the other.
    pub failures: u32,
    /// Since when there is an alarm for that, milliseconds since 1970.
    pub alarm_ms: Option<u64>,
    /// Its next times, milliseconds since 1970.
    pub next_ms: Vec<u64>,
}

/// A run of a schedule that waits for somebody's approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleQuestion {
    /// The id of the run.
    pub run: String,
    /// Its number in the group.
    pub number: u64,
    /// The id of the step that asks.
    pub step: String,
    /// When the run began, milliseconds since 1970.
    pub started_ms: u64,
}

/// A schedule was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleRemoval {
    /// Its name.
    pub removed: String,
}

#[cfg(test)]
mod tests;
