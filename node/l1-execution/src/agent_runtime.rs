//! What an agent that was started runs on.

use std::sync::Arc;

use crate::agent::{Agent, AgentState};
use crate::kernel::HardAgent;
use crate::process::ProcessAgent;
use crate::process::remote::RemoteAgent;

/// One of those that agent files name; of modules those that are hard real-time are apart.
pub(crate) enum Runtime {
    Native(Arc<dyn Agent>),
    Process(Arc<ProcessAgent>),
    Remote(Arc<RemoteAgent>),
    Wasm(Arc<dyn Agent>),
    Model(Arc<dyn Agent>),
    Hard(Arc<HardAgent>),
}

impl Runtime {
    /// What runs turns; none for hard real-time control loops.
    pub fn agent(&self) -> Option<Arc<dyn Agent>> {
        match self {
            Runtime::Native(agent) | Runtime::Model(agent) | Runtime::Wasm(agent) => Some(agent.clone()),
            Runtime::Process(process) => Some(process.clone()),
            Runtime::Remote(remote) => Some(remote.clone()),
            Runtime::Hard(_) => None,
        }
    }

    /// Whether nothing but system calls leads out of it.
    pub fn is_enclosed(&self) -> bool {
        match self {
            Runtime::Native(agent) | Runtime::Wasm(agent) => agent.is_enclosed(),
            Runtime::Process(_) | Runtime::Remote(_) | Runtime::Model(_) | Runtime::Hard(_) => false,
        }
    }

    /// Its concurrent turns, if they have a limit.
    pub fn turns_max(&self) -> Option<usize> {
        match self {
            Runtime::Native(agent) | Runtime::Model(agent) | Runtime::Wasm(agent) => agent.turns_max(),
            Runtime::Process(_) | Runtime::Remote(_) | Runtime::Hard(_) => None,
        }
    }

    /// Its kind, its state, and the process id of its program, if it is one that runs.
    pub fn status(&self) -> (&'static str, AgentState, Option<u32>) {
        match self {
            Runtime::Native(agent) => ("native", agent.state(), None),
            Runtime::Process(process) => ("process", process.state(), process.pid()),
            Runtime::Remote(remote) => ("remote", remote.state(), None),
            Runtime::Wasm(_) => ("wasm", AgentState::Ready, None),
            Runtime::Model(_) => ("model", AgentState::Ready, None),
            Runtime::Hard(hard) => ("wasm", crate::hard::state(hard), None),
        }
    }
}
