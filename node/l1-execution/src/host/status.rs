//! The status of agents.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::containment::Containment;
use crate::definition::Unfit;

/// The status of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentStatus {
    /// Its name.
    pub name: String,
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
    /// The services that did not accept its credentials when it asked them last.
    pub unauthorised: Vec<String>,
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

impl RunningAgent {
    pub(super) fn status(&self, name: &str, scheduling: Option<&Scheduling>) -> AgentStatus {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (runtime, state, pid) = match &self.runtime {
            Runtime::Native(agent) => ("native", agent.state(), None),
            Runtime::Process(process) => ("process", process.state(), process.pid()),
            Runtime::Remote(remote) => ("remote", remote.state(), None),
            Runtime::Wasm(_) => ("wasm", AgentState::Ready, None),
            Runtime::Model(_) => ("model", AgentState::Ready, None),
            Runtime::Hard(hard) => ("wasm", crate::hard::state(hard), None),
        };
        let own = if let Runtime::Process(process) = &self.runtime { process.containment() } else { None };
        let hard = match (&self.runtime, scheduling) {
            (Runtime::Hard(hard), Some(scheduling)) => Some(crate::hard::status(&scheduling.kernel, hard)),
            _ => None,
        };
        AgentStatus {
            name: name.to_owned(),
            class: self.contract.class.name(),
            runtime,
            state,
            pid,
            containment: self.calls.tools.containment(own),
            turns: TurnStatus {
                running: read(&self.turns),
                total: read(&self.total),
                first_p50_ns: self.first.quantile(500),
                first_p99_ns: self.first.quantile(990),
                late: read(&self.late),
            },
            hard,
            gives_tasks: crate::groups::gives_tasks(&self.contract),
            unfit: self.calls.tools.unfit(),
            unauthorised: match &self.runtime {
                Runtime::Model(agent) => agent.unauthorised(),
                _ => Vec::new(),
            },
        }
    }
}
