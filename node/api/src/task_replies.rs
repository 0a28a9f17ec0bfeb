//! What operations on the tasks of groups answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What an operation on the tasks of a group answers: each has its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum TaskReply {
    /// Of `submit`.
    Submission(TaskSubmission),
    /// Of `cancel`.
    Cancellation(TaskCancellation),
    /// Of `depend`.
    Dependency(TaskDependency),
    /// Of `define`.
    Rule(ResourceRule),
    /// Of `vote` and `decide`.
    Choice(ResourceChoice),
}

/// A task was submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskSubmission {
    /// Its id; that of the earlier task, if one was submitted with the same key.
    pub task: String,
    /// Its number in the group.
    pub number: Option<u64>,
}

/// Tasks of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskList {
    /// The newest of them, in the order in which they were submitted.
    pub tasks: Vec<TaskSummary>,
    /// How many there are.
    pub total: usize,
}

/// What every look at a task tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskSummary {
    /// Its id.
    pub task: String,
    /// Its number in the group.
    pub number: u64,
    /// What becomes of it.
    pub state: WorkState,
    /// What the member's agent must have: a capability, or `agent NAME`.
    pub needs: String,
    /// `low`, `normal`, `high` or `critical`.
    pub priority: String,
    /// The member that has it.
    pub member: Option<String>,
    /// The present attempt, or the next one: 1 for the first.
    pub attempt: u8,
    /// The member that had it last.
    pub last_member: Option<String>,
    /// The last fencing token that was given for it; 0 before the first.
    pub fencing_token: u64,
    /// How often a member took it from another one.
    pub stolen: u32,
    /// How often it went to another member than the one before.
    pub handed_over: u32,
    /// Why its last attempt, or the task, ended without a result.
    pub why: Option<String>,
    /// Whether gates of its agent's contract let its result pass; not written if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
}

/// What becomes of a task of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkState {
    /// It waits for others.
    Blocked,
    /// A member may take it.
    Ready,
    /// A member has it, and has not begun.
    Assigned,
    /// A member works on it.
    Working,
    /// It has a result.
    Completed,
    /// It has none, and is not attempted any more.
    Failed,
    /// Its deadline passed, or the lease of its last attempt.
    TimedOut,
    /// It was not wanted any more.
    Canceled,
}

impl WorkState {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            WorkState::Blocked => "blocked",
            WorkState::Ready => "ready",
            WorkState::Assigned => "assigned",
            WorkState::Working => "working",
            WorkState::Completed => "completed",
            WorkState::Failed => "failed",
            WorkState::TimedOut => "timed-out",
            WorkState::Canceled => "canceled",
        }
    }

    /// Whether it stays so.
    #[must_use]
    pub fn is_finished(self) -> bool {
        matches!(self, WorkState::Completed | WorkState::Failed | WorkState::TimedOut | WorkState::Canceled)
    }
}

/// All that is known of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskDetails {
    /// What every look at it tells.
    #[serde(flatten)]
    pub summary: TaskSummary,
    /// The id of who submitted it.
    pub author: String,
    /// When that was, milliseconds since 1970.
    pub submitted_ms: u64,
    /// What is to be done.
    pub input: TaskContent,
    /// Its result, if it has one.
    pub result: Option<TaskContent>,
    /// When the member loses it unless it gives a sign of life, milliseconds since 1970.
    pub lease_until_ms: Option<u64>,
    /// When it must have ended, milliseconds since 1970.
    pub deadline_ms: Option<u64>,
    /// How often it is attempted, at most.
    pub attempts_max: u8,
    /// What only one task may use at a time.
    pub resources: Vec<String>,
    /// The channel by which it came; not written if its submitter named none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Members that must not do it, each with why.
    pub refused: Vec<TaskRefusal>,
    /// What keeps it from beginning.
    pub waits_for: Option<String>,
    /// Where the result is, if a member holds it; not written if the group itself does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_reference: Option<ContentReference>,
    /// Why the result cannot be had from that member; not written if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_error: Option<String>,
    /// What each member lacks for it; not written where nobody asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidates: Option<Vec<MemberVerdict>>,
    /// Then whether this node leads: only the leader knows the other members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained_by_leader: Option<bool>,
}

/// The input or the result of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TaskContent {
    /// A text; what is no UTF-8 in it is replaced.
    Text(String),
    /// Where it is.
    Reference(ContentReference),
    /// An A2A message or answer, as its author wrote it: a JSON object.
    Message(Value),
}

/// Where something large is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContentReference {
    /// Its SHA-256, hexadecimal.
    pub digest: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// Its media type: `text/plain`.
    pub media_type: String,
    /// The DID of the member that holds it.
    pub holder: String,
}

/// A member that must not do a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskRefusal {
    /// Its DID.
    pub node: String,
    /// Why.
    pub reason: String,
}

/// Whether a member can do a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberVerdict {
    /// Its DID.
    pub node: String,
    /// The reason for programs: `noCapability`.
    pub reason: String,
    /// The reason for people.
    pub verdict: String,
}

/// A task was canceled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskCancellation {
    /// Its id.
    pub canceled: String,
}

/// A task waits for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskDependency {
    /// Which.
    pub task: String,
    /// For this one.
    pub on: String,
}

/// What a task waits for, and what waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskDependencies {
    /// The task that was asked for.
    pub task: TaskSummary,
    /// The tasks that it depends on.
    pub depends_on: Vec<TaskLink>,
    /// The tasks that depend on it.
    pub needed_by: Vec<TaskLink>,
    /// What keeps it from beginning.
    pub waits_for: Option<String>,
}

/// A task that another one is linked with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TaskLink {
    /// One that is shown here.
    Summary(Box<TaskSummary>),
    /// One that the group has forgotten, or that is not shown here.
    Id(TaskId),
}

/// The id of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskId {
    /// The id: 32 hexadecimal digits.
    pub task: String,
}

/// The resources that have a rule, are in use or are waited for; and the last decisions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceList {
    /// Each of them, by name.
    pub resources: Vec<ResourceStatus>,
    /// How many there are.
    pub total: usize,
    /// The last decisions, the newest last.
    pub decisions: Vec<ResourceDecision>,
}

/// A resource: who has it, and who waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceStatus {
    /// Its name.
    pub resource: String,
    /// Who gets it when several want it: `first`, `vote`, `priority` or `human`.
    pub rule: String,
    /// The task that has it.
    pub used_by: Option<String>,
    /// The first of the tasks that wait for it.
    pub waiting: Vec<ResourceClaim>,
    /// How many wait for it.
    pub waiting_total: usize,
    /// How many members voted.
    pub votes: usize,
    /// How many members the group has.
    pub members: usize,
    /// The task that gets it next, if that was decided.
    pub decided: Option<String>,
}

/// A task that waits for a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceClaim {
    /// Its id.
    pub task: String,
    /// Its number in the group.
    pub number: u64,
    /// What becomes of it.
    pub state: WorkState,
    /// How many members voted for it.
    pub votes: usize,
    /// Whether it may begin.
    pub next: bool,
}

/// A decision: who got a resource, who else wanted it, and who voted otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceDecision {
    /// How many were decided before.
    pub number: u64,
    /// Which resource.
    pub resource: String,
    /// By which rule.
    pub rule: String,
    /// The task that got it.
    pub task: String,
    /// The first of the tasks that waited for it.
    pub others: Vec<String>,
    /// How many waited for it.
    pub others_total: u32,
    /// The first of the members that voted for another task.
    pub dissent: Vec<ResourceVote>,
    /// How many did.
    pub dissent_total: u32,
    /// When it was decided, milliseconds since 1970.
    pub at_ms: u64,
}

/// A vote of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceVote {
    /// Its DID.
    pub node: String,
    /// The task that it voted for.
    pub task: String,
}

/// Who gets a resource when several want it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceRule {
    /// Which resource.
    pub resource: String,
    /// `first`, `vote`, `priority` or `human`.
    pub rule: String,
}

/// A vote of this node for a task that is to get a resource, or what its owner decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceChoice {
    /// Which resource.
    pub resource: String,
    /// Which task.
    pub task: String,
}

#[cfg(test)]
mod tests;
