//! How agents are, and what they do.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::definition::Unfit;
use crate::hrt::RunState;

/// How an agent is, and what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentStatus {
    /// Its name.
    pub name: String,
    /// `hrt`, `srt` or `dt`.
    pub class: &'static str,
    /// `native`, `process`, `model` or `wasm`.
    pub runtime: &'static str,
    /// How it is.
    pub state: AgentState,
    /// The process id of its program.
    pub pid: Option<u32>,
    /// Its turns.
    pub turns: TurnStatus,
    /// Its jobs, when it is one of hard real-time.
    pub hard: Option<HardStatus>,
    /// Tools that its contract names and that are not called, by `server/tool`.
    pub unfit: BTreeMap<String, Unfit>,
}

/// Turns of an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TurnStatus {
    /// That run now, or wait to.
    pub running: u64,
    /// Since it was started.
    pub total: u64,
    /// Half of them had a first output within this; nanoseconds.
    pub first_p50_ns: u64,
    /// 99 of 100.
    pub first_p99_ns: u64,
    /// Turns whose first output came later than the contract aims at.
    pub late: u64,
}

impl Running {
    pub(super) fn status(&self, name: &str, scheduling: Option<&Scheduling>) -> AgentStatus {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (runtime, state, pid) = match &self.runtime {
            Runtime::Native(_) => ("native", AgentState::Ready, None),
            Runtime::Process(process) => ("process", process.state(), process.pid()),
            Runtime::Wasm(_) => ("wasm", AgentState::Ready, None),
            Runtime::Model(_) => ("model", AgentState::Ready, None),
            Runtime::Hard(hard) => ("wasm", standing(hard), None),
        };
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
            turns: TurnStatus {
                running: read(&self.turns),
                total: read(&self.total),
                first_p50_ns: self.first.quantile(500),
                first_p99_ns: self.first.quantile(990),
                late: read(&self.late),
            },
            hard,
            unfit: self.calls.tools.unfit(),
        }
    }
}

fn run_state(hard: &HardAgent) -> AgentState {
    match hard.cell.run_state() {
        (RunState::Running, _) => AgentState::Ready,
        (RunState::Degraded, why) => AgentState::Degraded { why },
        (RunState::Suspended | RunState::Broken, why) => AgentState::Suspended { why },
    }
}
