//! The agents that run on this node.

mod bind;
mod start;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_protocol::Contract;
use althing_protocol::contract::{Class, Observability, Srt};
use althing_td::{AgentFile, ModelEndpoint, ToolServerSpec};
use futures::future::BoxFuture;
use tracing::Instrument as _;

use crate::agent::{Agent, Output, Turn};
use crate::agents::AgentCalls;
use crate::error::{AgentError, StartError};
use crate::hard::HardStatus;
use crate::hrt::{Histogram, Standing, Template};
use crate::kernel::slots::{Place, Server};
use crate::kernel::{Hard, Kernel, Turns};
use crate::memory::{Memories, Memory, Rule};
use crate::model::Secrets;
use crate::process::{ProcessAgent, ProcessConfig};
use crate::syscalls::{self, Around, SystemCalls};
use crate::tools::{Definition, Fault, ToolServer};

pub use bind::Binding;

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
    /// It runs on, without a promise.
    Degraded {
        /// Why.
        why: String,
    },
    /// It is not run any more, until it is removed and added again.
    Suspended {
        /// Why.
        why: String,
    },
}

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

/// Runs modules of agents that are not hard real-time.
pub trait SoftRuntime: Send + Sync + 'static {
    /// Compiles a module, whose guests are held to the contract.
    ///
    /// # Errors
    /// The reason, for people.
    fn load(&self, module: &[u8], contract: &Contract, calls: &SystemCalls) -> Result<Loaded, String>;
}

/// What a module turned out to be.
pub enum Loaded {
    /// A control loop.
    Control(Arc<dyn Template>),
    /// An agent that is given messages.
    Agent(Arc<dyn Agent>),
}

/// Makes the connection to a server of tools; its secret was granted.
pub type Connect = fn(&ToolServerSpec, &Path, Option<String>) -> Arc<dyn ToolServer>;

/// Where nothing can be connected to: simulations.
struct Nowhere;

impl ToolServer for Nowhere {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        Box::pin(async { Err(Fault::Unreachable("this node connects to no servers of tools".to_owned())) })
    }

    fn call<'a>(&'a self, _: &'a str, _: serde_json::Value) -> BoxFuture<'a, Result<serde_json::Value, Fault>> {
        Box::pin(async { Err(Fault::Unreachable("this node connects to no servers of tools".to_owned())) })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

fn nowhere(_: &ToolServerSpec, _: &Path, _: Option<String>) -> Arc<dyn ToolServer> {
    Arc::new(Nowhere)
}

/// What keeps the promises of contracts.
#[derive(Clone)]
pub struct Scheduling {
    /// The node's scheduler.
    pub kernel: Arc<Kernel>,
    /// Runs modules.
    pub soft: Arc<dyn SoftRuntime>,
}

/// What a host is handed from outside.
#[derive(Clone)]
pub struct Ports {
    /// The node's secrets.
    pub secrets: Secrets,
    /// Reaches servers of tools.
    pub connect: Connect,
    /// What agents keep.
    pub memories: Option<Arc<Memories>>,
    /// Models that every agent may be bound to, as far as its contract allows them.
    pub models: Vec<ModelEndpoint>,
    /// What the node's owner says of the node.
    pub labels: Vec<String>,
    /// Asks other agents.
    pub agents: Option<Arc<dyn AgentCalls>>,
}

impl Ports {
    /// No secrets, no servers, no memory.
    #[must_use]
    pub fn none() -> Ports {
        Ports {
            secrets: Arc::new(|_| None),
            connect: nowhere,
            memories: None,
            models: Vec::new(),
            labels: Vec::new(),
            agents: None,
        }
    }
}

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
    /// What it had of the processors.
    server: Server,
}

enum Runtime {
    Native(Arc<dyn Agent>),
    Process(Arc<ProcessAgent>),
    Wasm(Arc<dyn Agent>),
    Model(Arc<dyn Agent>),
    Hard(Arc<Hard>),
}

/// Counts a turn for as long as it lasts.
struct Counted(Arc<Running>);

impl Counted {
    fn new(running: &Arc<Running>) -> Counted {
        running.turns.fetch_add(1, Ordering::Relaxed);
        running.total.fetch_add(1, Ordering::Relaxed);
        Counted(running.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.turns.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Work on another runtime that ends when nobody waits for it any more.
struct Working<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for Working<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
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
        let bound = self.bound(file, folder, &contract, &calls.tools)?;
        bind::pin(&contract, &calls, &bound);
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
            server: Server::default(),
        };
        self.lock().insert(file.name.clone(), Arc::new(agent));
        Ok(())
    }

    /// Stops what was started and is not to run after all.
    fn give_up(&self, runtime: Runtime) {
        if let (Runtime::Process(process), Some(scheduling)) = (runtime, &self.scheduling) {
            scheduling.kernel.turns.soft().spawn(async move { process.stop().await });
        }
    }

    /// Waits for work of the soft real-time runtime's; on a thread of no runtime.
    fn wait<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let scheduling = self.scheduling.as_ref()?;
        let (done, wait) = std::sync::mpsc::sync_channel(1);
        scheduling.kernel.turns.soft().spawn(async move {
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

    /// Runs one turn of an agent to its end, in the class of its contract.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn turn(&self, name: &str, turn: Turn, out: Output) -> Result<(), AgentError> {
        let down = || AgentError::Down { agent: name.to_owned(), why: "it was removed from this node".to_owned() };
        let agent = self.lock().get(name).cloned().ok_or_else(down)?;
        let _counted = Counted::new(&agent);
        // Nobody waits for it: it is turned away, and not begun.
        agent.calls.allowance.check().map_err(|used_up| AgentError::Rejected(used_up.to_string()))?;
        let (out, first) = out.watched();
        let place = turn.history.len() + 1;
        let Some(memory) = agent.grounded() else {
            let ended = self.run(name, &agent, turn, out).await;
            agent.told(first.after());
            return ended;
        };
        let (holding, held) = out.clone().held();
        let notes = matches!(agent.runtime, Runtime::Model(_) | Runtime::Wasm(_));
        let rule = Rule { turn: place, begun_ms: memory.now_ms(), notes };
        if let Err(error) = self.run(name, &agent, turn, holding).await {
            // What an agent says of its failure cites nothing either.
            return Err(match error {
                AgentError::Failed(why) | AgentError::Rejected(why)
                    if matches!(agent.runtime, Runtime::Wasm(_) | Runtime::Native(_)) =>
                {
                    tracing::warn!(agent = name, why, "a turn that must be grounded failed");
                    AgentError::Failed("it failed; the node's log says why".to_owned())
                }
                error => error,
            });
        }
        for made in held.released(memory, rule).await? {
            out.send(made).await?;
        }
        agent.told(first.after());
        Ok(())
    }

    async fn run(&self, name: &str, agent: &Arc<Running>, turn: Turn, out: Output) -> Result<(), AgentError> {
        // The names are those of OpenTelemetry's conventions for GenAI.
        let span = match agent.contract.observability {
            Observability::None => tracing::Span::none(),
            Observability::Calls | Observability::Content => tracing::info_span!(
                "invoke_agent",
                otel.kind = "internal",
                gen_ai.operation.name = "invoke_agent",
                gen_ai.agent.name = name,
                gen_ai.input.messages = tracing::field::Empty,
                althing.binding.hash = &*agent.binding.hash,
            ),
        };
        let around = Around {
            binding: agent.binding.hash.clone(),
            principals: turn.parameters.principals.clone().into(),
            place: None,
            observability: agent.contract.observability,
        };
        let working = async {
            syscalls::tell(&tracing::Span::current(), "gen_ai.input.messages", || turn.text());
            self.run_as(name, agent, turn, out).await
        };
        syscalls::AROUND.scope(around, working).instrument(span).await
    }

    async fn run_as(&self, name: &str, agent: &Arc<Running>, turn: Turn, out: Output) -> Result<(), AgentError> {
        let down = || AgentError::Down { agent: name.to_owned(), why: "it was removed from this node".to_owned() };
        match (&agent.runtime, &self.scheduling) {
            (Runtime::Native(agent) | Runtime::Model(agent), None) => agent.turn(turn, out).await,
            (Runtime::Process(process), None) => process.turn(turn, out).await,
            (Runtime::Native(inner) | Runtime::Model(inner) | Runtime::Wasm(inner), Some(scheduling)) => {
                scheduled(scheduling, agent, inner.clone(), turn, out).await
            }
            (Runtime::Process(process), Some(scheduling)) => {
                scheduled(scheduling, agent, process.clone(), turn, out).await
            }
            (Runtime::Hard(hard), Some(scheduling)) => crate::hard::turn(&scheduling.kernel, hard, &turn, &out).await,
            (Runtime::Wasm(_) | Runtime::Hard(_), None) => Err(down()),
        }
    }

    /// What an agent was bound to.
    #[must_use]
    pub fn binding(&self, name: &str) -> Option<Binding> {
        self.lock().get(name).map(|agent| agent.binding.clone())
    }

    /// Every agent and what it does.
    #[must_use]
    pub fn status(&self) -> Vec<AgentStatus> {
        let running = self.lock();
        running.iter().map(|(name, agent)| agent.status(name, self.scheduling.as_ref())).collect()
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

impl Running {
    /// The memory that every answer must cite, where the contract wants that.
    fn grounded(&self) -> Option<&Memory> {
        let wanted = self.contract.memory.as_ref().is_some_and(|memory| memory.require_grounding);
        self.calls.memory.as_ref().filter(|_| wanted)
    }

    /// A turn's first output came after that; or none did.
    fn told(&self, first: Option<Duration>) {
        let Some(after) = first else { return };
        self.first.add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX));
        if let Class::Srt(srt) = &self.contract.class
            && after > Duration::from_millis(srt.ttft_ms)
        {
            self.late.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(after_ms = after.as_millis(), aim_ms = srt.ttft_ms, "a first output came late");
        }
    }

    fn status(&self, name: &str, scheduling: Option<&Scheduling>) -> AgentStatus {
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
        }
    }
}

fn standing(hard: &Hard) -> AgentState {
    match hard.cell.standing() {
        (Standing::Running, _) => AgentState::Ready,
        (Standing::Degraded, why) => AgentState::Degraded { why },
        (Standing::Suspended | Standing::Broken, why) => AgentState::Suspended { why },
    }
}

/// A place for a soft real-time turn that keeps a processor busy. One whose first output would come too late, for those
/// that wait before it, is refused at once: whoever asked can go elsewhere.
async fn place(turns: &Turns, running: &Running, srt: &Srt) -> Result<Arc<Place>, AgentError> {
    let expected = Duration::from_nanos(turns.expected.wait_ns(&turns.slots, srt.priority, turns.slots_all));
    if expected > Duration::from_millis(srt.ttft_ms) {
        return Err(AgentError::Failed(format!(
            "this node is crowded: it would begin in {} ms, and its contract aims at a first output after {} ms; try \
             again in {} ms",
            expected.as_millis(),
            srt.ttft_ms,
            expected.as_millis().saturating_sub(u128::from(srt.ttft_ms))
        )));
    }
    let place = Place::take(&turns.slots, srt.priority, &running.server).await;
    place.map_err(|crowded| AgentError::Failed(format!("this node is crowded: {crowded}")))
}

/// On the runtime of the contract's class. A soft real-time turn that keeps a processor busy, which WebAssembly does,
/// takes its place by priority first.
async fn scheduled(
    scheduling: &Scheduling,
    running: &Running,
    agent: Arc<dyn Agent>,
    turn: Turn,
    out: Output,
) -> Result<(), AgentError> {
    let turns = &scheduling.kernel.turns;
    let mut around = syscalls::around();
    if let (Runtime::Wasm(_), Class::Srt(srt)) = (&running.runtime, &running.contract.class) {
        around.place = Some(place(turns, running, srt).await?);
    }
    let place = around.place.clone();
    let runtime = if matches!(running.contract.class, Class::Dt(_)) { turns.idle() } else { turns.soft() };
    let work = async move { agent.turn(turn, out).await }.instrument(tracing::Span::current());
    let work = syscalls::AROUND.scope(around, work);
    let mut working = Working(runtime.spawn(work));
    let ended = (&mut working.0).await;
    if let Some(place) = place {
        turns.expected.ran(place.ended());
    }
    match ended {
        Ok(ended) => ended,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(AgentError::Cancelled),
    }
}
