//! The agents that run on this node.

mod bind;
mod error;
mod start;
mod status;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use althing_protocol::Contract;
use althing_protocol::contract::{Class, Latency, Srt};
use althing_td::AgentFile;

use crate::agent::{Agent, AgentError, AgentState, Output, Turn};
use crate::definition::Pins;
use crate::hard::HardStatus;
use crate::hrt::Histogram;
use crate::kernel::HardAgent;
use crate::kernel::slots::BandwidthServer;
use crate::process::{ProcessAgent, ProcessConfig};
use crate::syscalls::SystemCalls;

pub use crate::ports::{Connect, Loaded, Ports, Scheduling, SoftRuntime};
pub use bind::Binding;
pub use error::StartError;
pub use status::{AgentStatus, TurnStatus};

/// Makes a native agent from the `config` of its agent file; relative paths in it start at the given folder.
pub type Builder = fn(&serde_json::Value, &Path) -> Result<Arc<dyn Agent>, String>;

/// The native agents of this node, by name.
pub type Builtins = BTreeMap<&'static str, Builder>;

/// The agents that run on this node.
pub struct Host {
    builtins: Builtins,
    process: ProcessConfig,
    ports: Ports,
    /// None in simulations: there turns run where they are called, and nothing is hard real-time.
    scheduling: Option<Scheduling>,
    running: Mutex<BTreeMap<String, Arc<Running>>>,
    /// Names of agents that are being started.
    starting: Mutex<BTreeSet<String>>,
}

/// A name that is taken until the agent runs, or does not.
struct Starting<'a> {
    names: &'a Mutex<BTreeSet<String>>,
    name: String,
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.names.lock().expect("no holder of the names panics").remove(&self.name);
    }
}

struct Running {
    runtime: Runtime,
    calls: SystemCalls,
    contract: Contract,
    binding: Binding,
    turns: AtomicU64,
    total: AtomicU64,
    late: AtomicU64,
    first: Histogram,
    /// Whether somebody wrote down how soon the first output is to come.
    aim_is_stated: bool,
    /// What it had of the processors.
    server: BandwidthServer,
}

enum Runtime {
    Native(Arc<dyn Agent>),
    Process(Arc<ProcessAgent>),
    Wasm(Arc<dyn Agent>),
    Model(Arc<dyn Agent>),
    Hard(Arc<HardAgent>),
}

/// Whether the file, or what it was made whole with, says how soon the first output is to come.
fn aim_is_stated(file: &AgentFile) -> bool {
    let written = file.requested.as_ref().is_some_and(|requested| requested.pointer("/class/ttft_ms").is_some());
    let Some(Class::Srt(srt)) = file.contract.as_ref().map(|contract| &contract.class) else { return false };
    written || srt.ttft_ms != Srt::TTFT_MS_DEFAULT
}

impl Host {
    /// A host whose turns run where they are called; for simulations and tests.
    #[must_use]
    pub fn new(builtins: Builtins, process: ProcessConfig) -> Host {
        Host {
            builtins,
            process,
            ports: Ports::none(),
            scheduling: None,
            running: Mutex::default(),
            starting: Mutex::default(),
        }
    }

    /// The same host, with these ports.
    #[must_use]
    pub fn with_ports(self, ports: Ports) -> Host {
        Host { ports, ..self }
    }

    /// A host whose turns run as their contracts say.
    #[must_use]
    pub fn scheduled(builtins: Builtins, process: ProcessConfig, scheduling: Scheduling, ports: Ports) -> Host {
        Host {
            builtins,
            process,
            ports,
            scheduling: Some(scheduling),
            running: Mutex::default(),
            starting: Mutex::default(),
        }
    }

    /// Starts the agent of an agent file that lies in `folder`. A program is started in the background and kept
    /// running; see [`Host::status`]. The only way in: without a contract nothing is started.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(&self, file: &AgentFile, folder: &Path) -> Result<(), StartError> {
        self.start_pinned(file, folder, None)
    }

    /// The same, with the definitions of tools that the agent was bound to before; else it is bound to what there is.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start_pinned(&self, file: &AgentFile, folder: &Path, pins: Option<Pins>) -> Result<(), StartError> {
        let contract = file.contract.clone().ok_or_else(|| StartError::NoContract(file.name.clone()))?;
        // Whoever made the file: what is promised is only what the schema allows.
        let written = serde_json::to_value(&contract).unwrap_or_default();
        if let Err(problems) = Contract::from_value(&written) {
            let reason = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            return Err(StartError::Config { name: file.name.clone(), reason });
        }
        // Compiling a module takes seconds, in which the others go on; the name is taken meanwhile.
        let _starting = self.claim(&file.name)?;
        let calls = self.calls(file, folder, &contract)?;
        if let Some(pins) = pins {
            calls.tools.pin(pins);
        }
        let bound = self.bound(file, folder, &contract, &calls.tools)?;
        bind::pin(&calls, &bound).map_err(|reason| StartError::Unbound { name: file.name.clone(), reason })?;
        let runtime = self.runtime(file, folder, &contract, &calls, &bound)?;
        let binding = Binding::new(bound);
        if let Some(memory) = calls.memory.clone()
            && let Some(Err(reason)) = self.wait(async move { memory.adopt().await })
        {
            self.give_up(runtime);
            return Err(StartError::Memory { name: file.name.clone(), reason });
        }
        let (turns, total, late) = Default::default();
        let agent = Running {
            runtime,
            calls,
            contract,
            binding,
            turns,
            total,
            late,
            first: Histogram::default(),
            aim_is_stated: aim_is_stated(file),
            server: BandwidthBandwidthServer::default(),
        };
        self.lock().insert(file.name.clone(), Arc::new(agent));
        Ok(())
    }

    /// Stops what was started and is not to run after all.
    fn give_up(&self, runtime: Runtime) {
        if let (Runtime::Process(process), Some(scheduling)) = (runtime, &self.scheduling) {
            scheduling.kernel.runtimes.soft().spawn(async move { process.stop().await });
        }
    }

    /// Waits for work of the soft real-time runtime's; on a thread of no runtime.
    fn wait<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let scheduling = self.scheduling.as_ref()?;
        let (done, wait) = std::sync::mpsc::sync_channel(1);
        scheduling.kernel.runtimes.soft().spawn(async move {
            // Nobody waits any more only when the node stops.
            let _ = done.send(work.await);
        });
        wait.recv().ok()
    }

    /// Takes a name for an agent that is being started.
    fn claim(&self, name: &str) -> Result<Starting<'_>, StartError> {
        let mut starting = self.starting.lock().expect("no holder of the names panics");
        if self.lock().contains_key(name) || !starting.insert(name.to_owned()) {
            return Err(StartError::Running(name.to_owned()));
        }
        Ok(Starting { names: &self.starting, name: name.to_owned() })
    }

    /// Stops an agent, and waits until its program and the program's children are gone, or its jobs run no more. False
    /// when none of that name runs.
    pub async fn stop(&self, name: &str) -> bool {
        let stopped = self.lock().remove(name);
        match stopped.as_ref().map(|agent| &agent.runtime) {
            Some(Runtime::Process(process)) => process.stop().await,
            Some(Runtime::Hard(hard)) => {
                if let Some(scheduling) = &self.scheduling {
                    scheduling.kernel.stop_hard(hard).await;
                }
            }
            Some(Runtime::Native(_) | Runtime::Wasm(_) | Runtime::Model(_)) | None => {}
        }
        if let Some(agent) = &stopped {
            agent.calls.tools.stop().await;
        }
        stopped.is_some()
    }

    /// Stops all agents.
    pub async fn stop_all(&self) {
        let names: Vec<String> = self.lock().keys().cloned().collect();
        futures::future::join_all(names.iter().map(|name| self.stop(name))).await;
    }

    /// What an agent was bound to.
    #[must_use]
    pub fn binding(&self, name: &str) -> Option<Binding> {
        self.lock().get(name).map(|agent| agent.binding.clone())
    }

    /// The definitions of tools that an agent was bound to.
    #[must_use]
    pub fn pins(&self, name: &str) -> Option<Pins> {
        self.lock().get(name)?.calls.tools.pins()
    }

    /// Turns that an agent's runtime runs at once, where it has a bound of its own.
    #[must_use]
    pub fn turns_max(&self, name: &str) -> Option<usize> {
        match &self.lock().get(name)?.runtime {
            Runtime::Native(agent) | Runtime::Model(agent) | Runtime::Wasm(agent) => agent.turns_max(),
            Runtime::Process(_) | Runtime::Hard(_) => None,
        }
    }

    /// Every agent and what it does.
    #[must_use]
    pub fn status(&self) -> Vec<AgentStatus> {
        let running = self.lock();
        running.iter().map(|(name, agent)| agent.status(name, self.scheduling.as_ref())).collect()
    }

    /// Turns that run or wait to, of each agent by name, with its latency class.
    #[must_use]
    pub fn turns(&self) -> BTreeMap<String, (Latency, u64)> {
        let of = |agent: &Running| (agent.contract.class.latency(), agent.turns.load(Ordering::Relaxed));
        self.lock().iter().map(|(name, agent)| (name.clone(), of(agent))).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Running>>> {
        self.running.lock().expect("no holder of the agents panics")
    }
}
