//! What is asked of the workflows and schedules of groups.

use althing_protocol::group::Overlap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An operation on the workflows of a group.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum WorkflowRequest {
    /// Begins a run.
    Run {
        /// The workflow file, as read.
        file: String,
        /// The input of the run.
        input: String,
    },
    /// Begins a run of a workflow that the group keeps, or that was installed here.
    RunNamed {
        /// Its name.
        name: String,
        /// The input of the run.
        input: String,
    },
    /// Lets a run that failed go on.
    Resume {
        /// Which.
        run: String,
    },
    /// Ends a run, and its tasks.
    Cancel {
        /// Which.
        run: String,
    },
    /// Answers what a step asks.
    Approve {
        /// Which run.
        run: String,
        /// The step; none if only one asks.
        step: Option<String>,
        /// Whether the run goes on.
        approved: bool,
        /// The result of the step, or why it was rejected.
        note: String,
    },
}

/// An operation on the schedules of a group.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum ScheduleRequest {
    /// Adds a schedule, or replaces that of the same name.
    Add {
        /// Its name.
        name: String,
        /// The times, in the syntax of cron.
        cron: String,
        /// The time zone, as the IANA names it.
        zone: String,
        /// What runs.
        work: ScheduledWork,
        /// The input of each run.
        input: String,
        /// Whether the last time that was missed counts, once.
        catch_up: bool,
        /// What becomes of times that come while a run has not ended.
        #[serde(default)]
        overlap: OverlapRule,
    },
    /// Removes one.
    Remove {
        /// Its name.
        name: String,
    },
}

/// What becomes of a time that comes while a run of the schedule has not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OverlapRule {
    /// The next run begins beside it.
    Allow,
    /// The time passes, and is counted.
    #[default]
    Skip,
    /// That run is canceled, and the next one begins.
    Replace,
}

impl From<OverlapRule> for Option<Overlap> {
    fn from(rule: OverlapRule) -> Option<Overlap> {
        match rule {
            OverlapRule::Allow => None,
            OverlapRule::Skip => Some(Overlap::Skip),
            OverlapRule::Replace => Some(Overlap::Replace),
        }
    }
}

impl From<Option<Overlap>> for OverlapRule {
    fn from(overlap: Option<Overlap>) -> OverlapRule {
        match overlap {
            None => OverlapRule::Allow,
            Some(Overlap::Skip) => OverlapRule::Skip,
            Some(Overlap::Replace) => OverlapRule::Replace,
        }
    }
}

/// What a schedule runs.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum ScheduledWork {
    /// A workflow file, as read.
    Workflow(String),
    /// One task for an agent with this capability.
    Capability(String),
    /// One task for the agent of this name.
    Agent(String),
}
