//! What a release brings, for whoever looks at it before it is signed or installed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a release brings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ReleaseContents {
    /// What an agent file says.
    Agent {
        /// The agent file as JSON, as it would be added here: whole, so that who agrees to it is shown also what an older
        /// program has no words for.
        file: Value,
        /// What each of its programs may reach, in words.
        reaches: Vec<String>,
    },
    /// What a workflow file says.
    Workflow {
        /// What it does, and what it needs.
        workflow: WorkflowOutline,
    },
}

/// What something that is installed brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum InstallContents {
    /// What an agent file says.
    Agent {
        /// What each of its programs may reach, in words.
        reaches: Vec<String>,
        /// The agent file as JSON, whole.
        file: Value,
    },
    /// What a workflow file says.
    Workflow {
        /// What it does.
        workflow: WorkflowSteps,
    },
}

/// What a workflow does, and what it needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowOutline {
    /// Its own name.
    pub name: String,
    /// The same for people.
    pub title: String,
    /// What it does, in the words of its author.
    pub description: Option<String>,
    /// Which version: `1.2.0`.
    pub version: String,
    /// Each after those that it waits for.
    pub steps: Vec<WorkflowStep>,
    /// The capabilities that its steps need, each once.
    pub capabilities: Vec<String>,
    /// The names of the agents that its steps need, each once.
    pub agents: Vec<String>,
    /// Those of both that are not known here.
    pub unknown: Vec<String>,
}

/// What a workflow does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowSteps {
    /// Each after those that it waits for.
    pub steps: Vec<WorkflowStep>,
}

/// A step of a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowStep {
    /// By which other steps name it.
    pub id: String,
    /// The ids of the steps that must have ended before.
    pub after: Vec<String>,
    /// For how long it may take, milliseconds.
    pub timeout_ms: Option<u64>,
    /// It is left out unless this is so; not written if it never is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<StepTest>,
    /// How often it runs; not written if that is once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<StepRepeat>,
    /// What it does.
    #[serde(flatten)]
    pub action: StepAction,
}

/// What the result of a step must be for another one to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepTest {
    /// The id of the step.
    pub step: String,
    /// What it must be, in words: `equals "yes"`.
    pub is: String,
}

/// A step, and those before it, run more than once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepRepeat {
    /// The id of the step that it goes back to.
    pub from: String,
    /// What its result must be at the end, in words: `contains "done"`.
    pub until: String,
    /// How many rounds there are at most.
    pub rounds_max: u8,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum StepAction {
    /// It has somebody work.
    Task(StepTask),
    /// It asks a person.
    Approval(StepQuestion),
}

/// The work of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepTask {
    /// The template of what is handed over.
    pub input: String,
    /// The id of the step whose result is a list, of which each item is a task.
    pub for_each: Option<String>,
    /// How often it is attempted, at most.
    pub attempts_max: u8,
    /// Who works.
    #[serde(flatten)]
    pub target: StepTarget,
}

/// Who does the work of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StepTarget {
    /// Whoever can this: `billing.view`.
    Capability(String),
    /// The agent of this name.
    Agent(String),
}

/// What a step asks a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepQuestion {
    /// The template of the question.
    pub approve: String,
}

#[cfg(test)]
mod tests;
