//! Agents of a node as they are now.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ProgramLine;

/// What `GET /ps` answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentEntries {
    /// Each agent: those that are there first, then those that are still to be started, then those that could not be.
    pub agents: Vec<AgentEntry>,
}

/// An agent as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AgentEntry {
    /// It is there, whether it answers or not.
    Instance(Box<AgentInstance>),
    /// It was added before the node started, and is still to be started.
    Start(AgentStart),
    /// It could not be started.
    Failure(AgentFailure),
}

impl AgentEntry {
    /// Which agent, by name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            AgentEntry::Instance(agent) => &agent.name,
            AgentEntry::Start(agent) => &agent.name,
            AgentEntry::Failure(agent) => &agent.name,
        }
    }

    /// Its latency class; none where that is not known.
    #[must_use]
    pub fn class(&self) -> Option<&str> {
        match self {
            AgentEntry::Instance(agent) => Some(&agent.class),
            AgentEntry::Start(agent) => Some(&agent.class),
            AgentEntry::Failure(_) => None,
        }
    }

    /// What it can do now.
    #[must_use]
    pub fn state(&self) -> AgentCondition {
        match self {
            AgentEntry::Instance(agent) => agent.state,
            AgentEntry::Start(agent) => agent.state,
            AgentEntry::Failure(agent) => agent.state,
        }
    }

    /// Why that is so, or what is to be known of it.
    #[must_use]
    pub fn why(&self) -> Option<&str> {
        match self {
            AgentEntry::Instance(agent) => agent.why.as_deref(),
            AgentEntry::Start(agent) => agent.why.as_deref(),
            AgentEntry::Failure(agent) => Some(&agent.why),
        }
    }

    /// What a program of it said last.
    #[must_use]
    pub fn said(&self) -> Option<&ProgramLine> {
        match self {
            AgentEntry::Instance(agent) => agent.said.as_ref(),
            AgentEntry::Start(_) => None,
            AgentEntry::Failure(agent) => agent.said.as_ref(),
        }
    }

    /// All that is known of it where it is there.
    #[must_use]
    pub fn instance(&self) -> Option<&AgentInstance> {
        match self {
            AgentEntry::Instance(agent) => Some(agent),
            AgentEntry::Start(_) | AgentEntry::Failure(_) => None,
        }
    }
}

/// What an agent can do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AgentCondition {
    /// It accepts turns.
    Ready,
    /// Its program is being started.
    Starting,
    /// Its program ended and is being started again.
    Restarting,
    /// Its server does not answer.
    Unreachable,
    /// It runs on without a deadline guarantee.
    Degraded,
    /// It does not run until somebody does something about it.
    Suspended,
    /// It could not be started.
    Failed,
}

impl AgentCondition {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AgentCondition::Ready => "ready",
            AgentCondition::Starting => "starting",
            AgentCondition::Restarting => "restarting",
            AgentCondition::Unreachable => "unreachable",
            AgentCondition::Degraded => "degraded",
            AgentCondition::Suspended => "suspended",
            AgentCondition::Failed => "failed",
        }
    }
}

/// An agent that is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentInstance {
    /// Which agent, by name.
    pub name: String,
    /// `hrt`, `srt` or `dt`.
    pub class: String,
    /// `native`, `process`, `remote`, `model` or `wasm`.
    pub runtime: String,
    /// What it can do now.
    pub state: AgentCondition,
    /// Why that is so, or what is to be known of it.
    pub why: Option<String>,
    /// The process id of its program.
    pub pid: Option<u32>,
    /// What a program of it said last.
    pub said: Option<ProgramLine>,
    /// How its programs are contained.
    pub containment: Vec<ProgramContainment>,
    /// Turns that run or wait.
    pub turns: u64,
    /// Turns since its start.
    pub turns_total: u64,
    /// How long its turns take until their first output.
    pub first_output_us: FirstOutput,
    /// Its jobs, if it is a hard real-time agent.
    pub hrt: Option<HardJobs>,
    /// Tools that its contract names and that are neither called nor shown to a model.
    pub tools_refused: Vec<ToolRefusal>,
    /// Tool servers that did not answer when they were asked last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools_away: Vec<ToolServerAbsence>,
    /// What failed in silence, or was refused by a gate, since this version was started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<AgentFinding>,
    /// Which of several versions it is that divide the agent's calls; not written where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<VersionShare>,
}

/// One of several versions of an agent that divide its calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionShare {
    /// Which of them, by its version.
    pub version: String,
    /// Its share of new conversations, percent.
    pub share_percent: u8,
}

impl AgentInstance {
    /// An agent of that name, class and runtime in that state, of which nothing more is known.
    #[must_use]
    pub fn new(name: &str, class: &str, runtime: &str, state: AgentCondition) -> AgentInstance {
        AgentInstance {
            name: name.to_owned(),
            class: class.to_owned(),
            runtime: runtime.to_owned(),
            state,
            why: None,
            pid: None,
            said: None,
            containment: Vec::new(),
            turns: 0,
            turns_total: 0,
            first_output_us: FirstOutput { p50: 0.0, p99: 0.0, late: 0 },
            hrt: None,
            tools_refused: Vec::new(),
            tools_away: Vec::new(),
            rollout: None,
            findings: Vec::new(),
        }
    }
}

/// An agent that was added before the node started, and is still to be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentStart {
    /// Which agent, by name.
    pub name: String,
    /// `hrt`, `srt` or `dt`.
    pub class: String,
    /// `starting`.
    pub state: AgentCondition,
    /// What is to be known of it; not written where that is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// An agent that could not be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentFailure {
    /// Which agent, by name.
    pub name: String,
    /// `failed`.
    pub state: AgentCondition,
    /// Why it could not be.
    pub why: String,
    /// What a program of it said last.
    pub said: Option<ProgramLine>,
}

/// How a program of an agent is contained, or was when it ran last, and what it was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgramContainment {
    /// Which program: `runtime` is the agent's own, `tools.NAME` that of a tool server.
    pub program: String,
    /// Whether anything contains it.
    pub contained: bool,
    /// How strongly.
    pub level: EnclosureLevel,
    /// The same in words.
    pub how: String,
    /// What it was refused.
    pub refused: Vec<ProgramRefusal>,
    /// Whether it was refused more than that.
    pub more_refused: bool,
    /// The block of its file that would grant all that can be granted of it; none if that is nothing.
    pub needs: Option<String>,
}

/// How strongly a program is enclosed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EnclosureLevel {
    /// It reaches whatever the account reaches.
    None,
    /// An account of its own, and seccomp.
    Account,
    /// Landlock and seccomp.
    Landlock,
    /// Namespaces of its own, and what `Landlock` has.
    Namespaces,
}

/// What a program tried, and its sandbox does not let it do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramRefusal {
    /// What it tried to do.
    pub access: FileAccess,
    /// With which file, or with which address and port. The program chose it, so it may hold anything.
    pub path: String,
    /// The block of its file that would grant it; none if nothing does.
    pub write: Option<String>,
    /// All of it in words.
    pub text: String,
}

/// What a program tries to do with a file or a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FileAccess {
    /// Read a file, or list a folder.
    Read,
    /// Write a file, or make one in a folder.
    Write,
    /// Run a file as a program.
    Execute,
    /// Connect to a Unix socket, or to a port of a host.
    Connect,
}

/// How long turns take until their first output.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FirstOutput {
    /// The median, microseconds.
    pub p50: f64,
    /// The 99th percentile, microseconds.
    pub p99: f64,
    /// Turns that missed the contract's target for it.
    pub late: u64,
}

/// Jobs of a hard real-time agent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HardJobs {
    /// The index of its core among those for hard real-time.
    pub core: usize,
    /// Jobs released.
    pub jobs: u64,
    /// Jobs that missed their deadline.
    pub missed: u64,
    /// Of those, misses that stalls of the machine account for.
    pub explained: u64,
    /// Jobs stopped at the end of their budget.
    pub overruns: u64,
    /// Jobs that failed.
    pub failures: u64,
    /// Jobs that used a fallback value for an input that was not set in time.
    pub fallbacks: u64,
    /// The proved bound of response times, microseconds; stalls of the machine excepted.
    pub response_bound_us: f64,
    /// The 99th percentile of response times, microseconds.
    pub response_p99_us: f64,
    /// The longest response time of a completed job, microseconds.
    pub response_max_us: f64,
}

/// What was found of turns of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentFinding {
    /// What, by its name: `said-nothing`, `answer-refused`.
    pub finding: String,
    /// In how many turns, or jobs of a control loop.
    pub count: u64,
    /// The newest task of which it was found; empty of jobs that belong to none.
    pub task: String,
    /// The version of the agent.
    pub version: String,
}

/// A tool server that does not answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolServerAbsence {
    /// Its name in the agent file.
    pub server: String,
    /// Why it did not answer.
    pub why: String,
}

/// A tool that is neither called nor shown to a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolRefusal {
    /// Which: `server/tool`.
    pub tool: String,
    /// The reason for programs: `TOOL_CHANGED` or `TOOL_REFUSED`.
    pub reason: String,
    /// The reason for people.
    pub why: String,
    /// Where its definition is not the one that was bound.
    pub differences: Vec<ToolDifference>,
}

/// A member of a tool's definition that is not what was bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolDifference {
    /// Which: `description`.
    pub field: String,
    /// What was bound, from a little before the first difference; empty if there was nothing.
    pub old: String,
    /// What is there now.
    pub new: String,
}

#[cfg(test)]
mod tests;
