//! The agents that run on this node.

mod bind;
mod start;
mod status;
mod turns;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use althing_protocol::contract::{Class, DataLabel, Latency, Srt, TurnRecord};
use althing_protocol::{AgentRef, Contract};
use althing_td::AgentFile;

use crate::agent::{Agent, AgentError, AgentState, Output, Turn};
use crate::agent_runtime::Runtime;
use crate::bindable;
use crate::bound_tools::BoundTools;
use crate::definition::Pins;
use crate::finding_counts::{CallNorm, FindingCounts};
use crate::hrt::Histogram;
use crate::kernel::HardAgent;
use crate::kernel::slots::{BandwidthServer, Slots};
use crate::memory::MemorySeal;
use crate::process::ProcessConfig;
use crate::running::{AgentKey, RunningAgents};
use crate::success_counts::SuccessCounts;
use crate::syscalls::SystemCalls;
use crate::tool_agent::ToolAgent;
use crate::work_terms::WorkTerms;
use start::AgentStart;

pub use crate::agent_status::{AgentStatus, TurnStatus};
pub use crate::bindable::Binding;
pub use crate::ports::{Connect, Loaded, Ports, Scheduling, ServerOf, SoftRuntime};
pub use crate::start_error::StartError;
pub use status::{
    answered, containment_of, core_promise, count_success, enclosed, success_of, success_rates, turn_counts, work_terms,
};

/// Makes a native agent from the `config` of its agent file, with its system calls; relative paths in the configuration start at
/// the given folder.
pub type Builder = fn(&serde_json::Value, &Path, &SystemCalls) -> Result<Arc<dyn Agent>, String>;

/// The native agents of this node, by name.
pub type Builtins = BTreeMap<&'static str, Builder>;

/// The agents that run on this node.
pub struct Host {
    builtins: Builtins,
    /// How programs are run, and what they said.
    pub process: ProcessConfig,
    /// Its ports.
    pub ports: Ports,
    /// None in simulations: turns run on the caller's task there, without hard real-time.
    scheduling: Option<Scheduling>,
    running: RunningAgents<Arc<RunningAgent>>,
}

/// One version of an agent that runs.
pub(crate) struct RunningAgent {
    runtime: Runtime,
    calls: SystemCalls,
    pub(crate) contract: Contract,
    binding: Binding,
    turns: AtomicU64,
    total: AtomicU64,
    late: AtomicU64,
    first: Histogram,
    /// Whether the target for the first output was set explicitly.
    aim_is_stated: bool,
    /// Its share of the processors.
    server: BandwidthServer,
    /// What answers calls of the tools that it exposes, beside what they are for.
    exposing: Option<Arc<dyn Agent>>,
    /// On what terms it takes work of other agents.
    work: WorkTerms,
    /// What was found of its turns.
    findings: Arc<FindingCounts>,
    /// How they went.
    successes: SuccessCounts,
}

/// Whether the file or a layer below it sets the target for the first output.
fn aim_is_stated(file: &AgentFile) -> bool {
    let written = file.requested.as_ref().is_some_and(|requested| requested.pointer("/class/ttft_ms").is_some());
    let Some(Class::Srt(srt)) = file.contract.as_ref().map(|contract| &contract.class) else { return false };
    written || srt.ttft_ms != Srt::TTFT_MS_DEFAULT
}

impl Host {
    /// A host whose turns run on the caller's task; for simulations and tests.
    #[must_use]
    pub fn new(builtins: Builtins, process: ProcessConfig) -> Host {
        Host { builtins, process, ports: Ports::none(), scheduling: None, running: RunningAgents::new() }
    }

    /// The same host, with these ports.
    #[must_use]
    pub fn with_ports(self, ports: Ports) -> Host {
        Host { ports, ..self }
    }

    /// A host whose turns are scheduled as their contracts say.
    #[must_use]
    pub fn scheduled(builtins: Builtins, process: ProcessConfig, scheduling: Scheduling, ports: Ports) -> Host {
        Host { ports, scheduling: Some(scheduling), ..Host::new(builtins, process) }
    }

    /// Starts the agent of an agent file in `folder`. A program is started in the background and restarted when it ends; see
    /// [`Host::status`]. The only way to start an agent: it needs a contract.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(&self, file: &AgentFile, folder: &Path) -> Result<(), StartError> {
        self.start_pinned(file, folder, None)
    }

    /// The same, with the tool definitions that the agent was bound to before; none: the current ones are bound.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start_pinned(&self, file: &AgentFile, folder: &Path, pins: Option<Pins>) -> Result<(), StartError> {
        let contract = file.contract.clone().ok_or_else(|| StartError::NoContract(file.name.clone()))?;
        // The contract must satisfy the schema, whoever made the file.
        let written = serde_json::to_value(&contract).unwrap_or_default();
        if let Err(problems) = Contract::from_value(&written) {
            let reason = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            return Err(StartError::Config { name: file.name.clone(), reason });
        }
        // Compiling a module takes seconds, without the lock; the version is reserved meanwhile.
        let id = self.ports.agent_of(file)?;
        let _starting = self.running.claim(&id).ok_or_else(|| StartError::Running(file.name.clone()))?;
        let start = self.start_of(file, folder, &contract);
        let calls = start.calls()?;
        if let Some(pins) = pins {
            calls.tools.pin(pins);
        }
        let bound = start.bound(&calls.tools)?;
        bindable::pin(&calls, &bound).map_err(|reason| StartError::Unbound { name: file.name.clone(), reason })?;
        let findings = Arc::default();
        let runtime = start.runtime(&calls, &bound, &findings)?;
        let binding = Binding::new(bound, start.offered());
        if let (Some(memory), Some(scheduling)) = (calls.memory.clone(), &self.scheduling)
            && let Some(Err(reason)) = scheduling.wait(async move { memory.adopt().await })
        {
            self.stop_runtime(runtime);
            return Err(StartError::Memory { name: file.name.clone(), reason });
        }
        let exposing = ToolAgent::beside(file, &calls);
        let (turns, total, late) = Default::default();
        let work = WorkTerms::of(file, &contract);
        let agent = RunningAgent {
            runtime,
            calls,
            contract,
            binding,
            turns,
            total,
            late,
            first: Histogram::default(),
            aim_is_stated: aim_is_stated(file),
            server: BandwidthServer::default(),
            exposing,
            work,
            findings,
            successes: SuccessCounts::default(),
        };
        self.running.insert(id, Arc::new(agent));
        Ok(())
    }

    /// The start of the agent of a file in `folder` with that contract, on what this host has.
    fn start_of<'a>(&'a self, file: &'a AgentFile, folder: &'a Path, contract: &'a Contract) -> AgentStart<'a> {
        AgentStart {
            builtins: &self.builtins,
            process: &self.process,
            ports: &self.ports,
            scheduling: self.scheduling.as_ref(),
            running: &self.running,
            file,
            folder,
            contract,
        }
    }

    /// Stops a runtime that was started in vain.
    fn stop_runtime(&self, runtime: Runtime) {
        if let (Runtime::Process(process), Some(scheduling)) = (runtime, &self.scheduling) {
            scheduling.kernel.runtimes.soft().spawn(async move { process.stop().await });
        }
    }

    /// Lets a version that runs be the one that the agent's name means: it took the place of the one before. Of a control loop it
    /// shows its outputs from the next job on that ends, and no other version does.
    pub fn prefer(&self, agent: &AgentRef) {
        self.running.prefer(agent);
        if let Some(running) = self.running.get(agent.into())
            && let Runtime::Hard(hard) = &running.runtime
        {
            hard.seat.take();
        }
    }

    /// The versions of an agent that run, the one first that its name means, then in the order in which they were started.
    #[must_use]
    pub fn versions(&self, name: &str) -> Vec<AgentRef> {
        self.running.versions(name)
    }

    /// Stops an agent, and waits until its program with its children, or its jobs, have ended. False if it does not run.
    pub async fn stop<'a>(&self, agent: impl Into<AgentKey<'a>>) -> bool {
        let stopped = self.running.remove(agent.into());
        match stopped.as_ref().map(|agent| &agent.runtime) {
            Some(Runtime::Process(process)) => process.stop().await,
            Some(Runtime::Hard(hard)) => {
                if let Some(scheduling) = &self.scheduling {
                    scheduling.kernel.stop_hard(hard).await;
                }
            }
            Some(Runtime::Native(_) | Runtime::Remote(_) | Runtime::Wasm(_) | Runtime::Model(_)) | None => {}
        }
        if let Some(agent) = &stopped {
            agent.calls.tools.stop().await;
        }
        stopped.is_some()
    }

    /// Stops all agents.
    pub async fn stop_all(&self) {
        let all: Vec<AgentRef> = self.running.all().into_iter().map(|(agent, _)| agent).collect();
        futures::future::join_all(all.iter().map(|agent| self.stop(agent))).await;
    }

    /// What an agent was bound to.
    #[must_use]
    pub fn binding<'a>(&self, agent: impl Into<AgentKey<'a>>) -> Option<Binding> {
        self.find(agent.into()).map(|agent| agent.binding.clone())
    }

    /// The key of an agent's memory, if that is encrypted; none of an agent that does not run.
    #[must_use]
    pub fn memory_seal<'a>(&self, agent: impl Into<AgentKey<'a>>) -> Option<MemorySeal> {
        self.find(agent.into())?.calls.memory.as_ref()?.seal()
    }

    /// Whether the journals of an agent's turns stay when they are over; not those of an agent that does not run.
    #[must_use]
    pub fn is_recorded<'a>(&self, agent: impl Into<AgentKey<'a>>) -> bool {
        self.find(agent.into()).is_some_and(|agent| agent.contract.record == TurnRecord::Tape)
    }

    /// Whether an agent can do nothing outside its turns: a turn of it that is cut off left no trace anywhere.
    #[must_use]
    pub fn is_confined<'a>(&self, agent: impl Into<AgentKey<'a>>) -> bool {
        self.find(agent.into()).is_some_and(|agent| agent.is_confined())
    }

    /// The tools that an agent was bound to.
    #[must_use]
    pub fn tools<'a>(&self, agent: impl Into<AgentKey<'a>>) -> Option<BoundTools> {
        let turns = self.scheduling.as_ref().map(|scheduling| scheduling.kernel.runtimes.soft().clone());
        Some(BoundTools { tools: self.find(agent.into())?.calls.tools.clone(), turns })
    }

    /// The concurrent turns that an agent's runtime allows, if it has a limit.
    #[must_use]
    pub fn turns_max<'a>(&self, agent: impl Into<AgentKey<'a>>) -> Option<usize> {
        self.find(agent.into())?.runtime.turns_max()
    }

    /// The slots for whose waiting turns those of an agent make room: of a delay-tolerant one that runs here, where turns are
    /// scheduled.
    #[must_use]
    pub fn preempted_by<'a>(&self, agent: impl Into<AgentKey<'a>>) -> Option<Slots> {
        let (agent, scheduling) = (self.find(agent.into())?, self.scheduling.as_ref()?);
        matches!(agent.contract.class, Class::Dt(_)).then(|| scheduling.kernel.runtimes.slots.clone())
    }

    /// The status of every version of every agent.
    #[must_use]
    pub fn status(&self) -> Vec<AgentStatus> {
        self.running.all().iter().map(|(_, agent)| agent.status(self.scheduling.as_ref())).collect()
    }

    /// The latency class and the number of running or waiting turns of each version of each agent.
    #[must_use]
    pub fn turns(&self) -> BTreeMap<AgentRef, (Latency, u64)> {
        self.running.all().into_iter().map(|(id, agent)| (id, agent.class_and_turns())).collect()
    }

    /// The latency class of an agent that runs here.
    #[must_use]
    pub fn latency<'a>(&self, agent: impl Into<AgentKey<'a>>) -> Option<Latency> {
        Some(self.find(agent.into())?.class_and_turns().0)
    }

    /// Whether answers of a running agent that are complete have passed gates of its contract.
    #[must_use]
    pub fn verifies<'a>(&self, agent: impl Into<AgentKey<'a>>) -> bool {
        self.find(agent.into()).is_some_and(|agent| agent.is_judged())
    }

    /// What checks the answers of a running agent, `server/tool` or `agents/NAME`, as its contract names it.
    #[must_use]
    pub fn checks<'a>(&self, agent: impl Into<AgentKey<'a>>) -> Vec<String> {
        let running = self.find(agent.into());
        let checks = running.iter().flat_map(|agent| &agent.contract.verify.checks);
        checks.map(|check| check.by.clone()).collect()
    }

    /// Sets how many calls of a turn of a running agent are few.
    pub fn set_call_norm<'a>(&self, agent: impl Into<AgentKey<'a>>, norm: Option<CallNorm>) {
        if let Some(running) = self.find(agent.into()) {
            running.findings.set_call_norm(norm);
        }
    }

    /// The label of the data that a running agent works with, by its contract.
    #[must_use]
    pub fn data_label<'a>(&self, agent: impl Into<AgentKey<'a>>) -> Option<DataLabel> {
        Some(self.find(agent.into())?.contract.data_label)
    }

    /// One that runs.
    pub(crate) fn find(&self, agent: AgentKey<'_>) -> Option<Arc<RunningAgent>> {
        self.running.get(agent)
    }
}
