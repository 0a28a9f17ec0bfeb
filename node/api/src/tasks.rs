//! What is asked of the tasks of groups.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A task for a group.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubmitTask {
    /// Its id, 32 hexadecimal digits that nobody used before; by default the node chooses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The capability that the member's agent must have.
    pub capability: Option<String>,
    /// Or the agent's name.
    pub agent: Option<String>,
    /// What is to be done: a text, or an A2A message as JSON.
    pub text: String,
    /// `low`, `normal`, `high` or `critical`.
    pub priority: String,
    /// In how many seconds it must have ended.
    pub deadline_s: Option<u64>,
    /// The tasks that must complete before it begins.
    pub after: Vec<String>,
    /// A second task with the same key is not submitted.
    pub key: Option<String>,
    /// How often it is attempted, at most.
    pub attempts: u8,
    /// For how many seconds a member has it without a sign of life.
    pub lease_s: u64,
    /// Labels that the member must have.
    pub labels: Vec<String>,
    /// Memory that the member must have free, MiB.
    pub memory_mib: Option<u32>,
    /// Processor cores that it must have.
    pub cores: Option<u32>,
    /// Disk that it must have free, MiB.
    pub disk_mib: Option<u32>,
    /// GPUs that it must have.
    pub gpus: Option<u32>,
    /// The latency class in which it must run agents: `hrt`, `srt` or `dt`.
    pub class: Option<String>,
    /// What only one task may use at a time.
    pub resources: Vec<String>,
    /// The channel by which it came, such as `web`: 1 to 63 of the characters a-z, 0-9 and -; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
}

/// An operation on the tasks of a group.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum TaskRequest {
    /// Submits one.
    Submit(Box<SubmitTask>),
    /// Cancels one.
    Cancel {
        /// Which.
        task: String,
    },
    /// Makes one wait for another.
    Depend {
        /// Which.
        task: String,
        /// For this one.
        on: String,
    },
    /// Sets who gets a resource when several want it.
    Define {
        /// Which resource.
        resource: String,
        /// `first`, `vote`, `priority` or `human`.
        rule: String,
    },
    /// This node votes for the task that gets a resource next.
    Vote {
        /// Which resource.
        resource: String,
        /// Which task.
        task: String,
    },
    /// This node's owner decides which task gets a resource next.
    Decide {
        /// Which resource.
        resource: String,
        /// Which task.
        task: String,
    },
}
