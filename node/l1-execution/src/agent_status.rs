//! What is told of an agent that a node runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::agent::AgentState;
use crate::containment::Containment;
use crate::definition::Unfit;
use crate::finding_counts::FindingCount;
use crate::hard::HardStatus;

/// The status of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentStatus {
    /// Its name.
    pub name: String,
    /// Its version: of one agent several may run.
    pub version: Arc<str>,
    /// `hrt`, `srt` or `dt`.
    pub class: &'static str,
    /// `native`, `process`, `remote`, `model` or `wasm`.
    pub runtime: &'static str,
    /// Its state.
    pub state: AgentState,
    /// The process id of its program.
    pub pid: Option<u32>,
    /// How its programs are contained, or were when they ran last, and what they were refused: its own (`runtime`), and those
    /// of its tools (`tools.NAME`).
    pub containment: BTreeMap<String, Containment>,
    /// Its turns.
    pub turns: TurnStatus,
    /// Its jobs, if it is a hard real-time agent.
    pub hard: Option<HardStatus>,
    /// Whether it may give groups tasks.
    pub gives_tasks: bool,
    /// Unfit tools that its contract names, by `server/tool`.
    pub unfit: BTreeMap<String, Unfit>,
    /// Its tool servers that did not answer when they were asked last, and why.
    pub away: BTreeMap<String, String>,
    /// The services that did not accept its credentials when it asked them last.
    pub unauthorised: Vec<String>,
    /// What was found of its turns since it was started.
    pub findings: Vec<FindingCount>,
}

/// Turns of an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TurnStatus {
    /// Running or waiting.
    pub running: u64,
    /// Since its start.
    pub total: u64,
    /// The median time to the first output, nanoseconds.
    pub first_p50_ns: u64,
    /// The 99th percentile.
    pub first_p99_ns: u64,
    /// Turns that missed the contract's target for the first output.
    pub late: u64,
}
