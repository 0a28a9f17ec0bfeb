//! The agents that run on this node.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use althing_td::{AgentFile, RuntimeSpec};

use crate::agent::{Agent, Output, Turn};
use crate::error::{AgentError, StartError};
use crate::process::{ProcessAgent, ProcessConfig};

/// Makes a native agent from the `config` of its agent file; relative paths in it start at the given folder.
pub type Builder = fn(&serde_json::Value, &Path) -> Result<Arc<dyn Agent>, String>;

/// The native agents of this node, by name.
pub type Builtins = BTreeMap<&'static str, Builder>;

/// How an agent is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentState {
    /// Takes turns.
    Ready,
    /// Its program is being started.
    Starting,
    /// Its program ended and is started again.
    Restarting {
        /// What happened.
        why: String,
        /// How often it was started again.
        restarts: u32,
    },
}

/// How an agent is, and what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentStatus {
    /// Its name.
    pub name: String,
    /// `native` or `process`.
    pub runtime: &'static str,
    /// How it is.
    pub state: AgentState,
    /// The process id of its program.
    pub pid: Option<u32>,
    /// Turns that run now.
    pub turns: u64,
    /// Turns since it was started.
    pub turns_total: u64,
}

/// The agents that run on this node.
pub struct Host {
    builtins: Builtins,
    process: ProcessConfig,
    running: Mutex<BTreeMap<String, Arc<Running>>>,
}

struct Running {
    runtime: Runtime,
    turns: AtomicU64,
    turns_total: AtomicU64,
}

enum Runtime {
    Native(Arc<dyn Agent>),
    Process(ProcessAgent),
}

/// Counts a turn for as long as it lasts.
struct Counted<'a>(&'a AtomicU64);

impl<'a> Counted<'a> {
    fn new(running: &'a Running) -> Counted<'a> {
        running.turns.fetch_add(1, Ordering::Relaxed);
        running.turns_total.fetch_add(1, Ordering::Relaxed);
        Counted(&running.turns)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Host {
    /// A host with these native agents and no agent running.
    #[must_use]
    pub fn new(builtins: Builtins, process: ProcessConfig) -> Host {
        Host { builtins, process, running: Mutex::default() }
    }

    /// Starts the agent of an agent file that lies in `folder`. A program is started in the background and kept
    /// running; see [`Host::status`].
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(&self, file: &AgentFile, folder: &Path) -> Result<(), StartError> {
        let mut running = self.lock();
        if running.contains_key(&file.name) {
            return Err(StartError::Running(file.name.clone()));
        }
        let runtime = match &file.runtime {
            RuntimeSpec::Native { builtin, config } => {
                let build = self.builtins.get(builtin.as_str()).ok_or_else(|| StartError::UnknownBuiltin {
                    name: builtin.clone(),
                    known: self.builtins.keys().copied().collect::<Vec<_>>().join(", "),
                })?;
                let refused = |reason| StartError::Config { name: file.name.clone(), reason };
                Runtime::Native(build(config, folder).map_err(refused)?)
            }
            RuntimeSpec::Process { .. } => Runtime::Process(ProcessAgent::start(file, folder, &self.process)?),
            RuntimeSpec::Wasm { .. } => todo!(),
        };
        let agent = Running { runtime, turns: AtomicU64::new(0), turns_total: AtomicU64::new(0) };
        running.insert(file.name.clone(), Arc::new(agent));
        Ok(())
    }

    /// Stops an agent, and waits until its program and the program's children are gone. False when none of that
    /// name runs.
    pub async fn stop(&self, name: &str) -> bool {
        let stopped = self.lock().remove(name);
        if let Some(Runtime::Process(process)) = stopped.as_ref().map(|agent| &agent.runtime) {
            process.stop().await;
        }
        stopped.is_some()
    }

    /// Stops all agents.
    pub async fn stop_all(&self) {
        let names: Vec<String> = self.lock().keys().cloned().collect();
        futures::future::join_all(names.iter().map(|name| self.stop(name))).await;
    }

    /// Runs one turn of an agent to its end.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn turn(&self, name: &str, turn: Turn, out: Output) -> Result<(), AgentError> {
        let down = || AgentError::Down { agent: name.to_owned(), why: "it was removed from this node".to_owned() };
        let agent = self.lock().get(name).cloned().ok_or_else(down)?;
        let _counted = Counted::new(&agent);
        match &agent.runtime {
            Runtime::Native(native) => native.turn(turn, out).await,
            Runtime::Process(process) => process.turn(turn, out).await,
        }
    }

    /// Every agent and what it does.
    #[must_use]
    pub fn status(&self) -> Vec<AgentStatus> {
        let running = self.lock();
        let status = running.iter().map(|(name, agent)| {
            let (runtime, state, pid) = match &agent.runtime {
                Runtime::Native(_) => ("native", AgentState::Ready, None),
                Runtime::Process(process) => ("process", process.state(), process.pid()),
            };
            AgentStatus {
                name: name.clone(),
                runtime,
                state,
                pid,
                turns: agent.turns.load(Ordering::Relaxed),
                turns_total: agent.turns_total.load(Ordering::Relaxed),
            }
        });
        status.collect()
    }

    /// Turns that run now, of all agents.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.lock().values().map(|agent| agent.turns.load(Ordering::Relaxed)).sum()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Running>>> {
        self.running.lock().expect("no holder of the agents panics")
    }
}
