//! The scheduler of one node: the probed hardware, the admitted guarantees, and the threads that keep them.
//!
//! Hard real-time agents are admitted by proof ([`machine::Plan`]) and run on executors, one for each core that is
//! reserved for them. Soft real-time turns run on a runtime of their own, where those of WebAssembly wait for a
//! processor by priority; delay-tolerant turns run on idle threads.

mod floor;
pub mod machine;
pub mod promises;
pub mod reservations;
mod runtimes;
pub mod slots;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use althing_protocol::Contract;
use althing_protocol::contract::{Arrival, Grade, Hrt, Signals as Names};

use crate::admission::{Admitted, Policy};
use crate::hrt::{
    AddError, AddedTask, AgentCell, BestEffortExecutor, Executor, ExecutorConfig, Input, Interrupt, OutputSignal,
    Params, Template,
};
use crate::realtime::{Level, RtPriorities, cores, keep_probing, now_ns};
use crate::signals::{Seat, SignalError, Signals};

pub use machine::{Guarantee, Plan, Refused};
pub use promises::{CAP_PPM, CorePromise, Promises, ReserveError};
pub use reservations::LeaseError;
pub use runtimes::TurnRuntimes;

/// The configuration of the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelConfig {
    /// Which hard real-time job runs first.
    pub policy: Policy,
    /// The number of cores reserved for hard real-time agents; the last ones.
    pub hrt_cores: usize,
}

impl Default for KernelConfig {
    fn default() -> KernelConfig {
        KernelConfig { policy: Policy::Edf, hrt_cores: 1 }
    }
}

/// Compiles the hard real-time agents of one executor, and interrupts them.
pub trait HardRuntime: Interrupt {
    /// Compiles a module whose guests have at most that much memory.
    ///
    /// # Errors
    /// The reason, for people.
    fn template(&self, module: &[u8], memory_bytes: u64) -> Result<Arc<dyn Template>, String>;
}

/// Makes the runtime of one executor.
pub type MakeHard = Arc<dyn Fn() -> Result<Arc<dyn HardRuntime>, String> + Send + Sync>;

/// Why an agent is not admitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdmitError {
    /// Its deadlines cannot be proved.
    #[error("{0}")]
    Refused(Box<Refused>),
    /// The machine's grade is below the contract's.
    #[error(
        "it asks for a machine of grade {wanted}, and this one has grade {has}: {why}. A contract whose placement says \
         `min_grade: {has}` is content with it"
    )]
    Grade {
        /// What it asks for.
        wanted: Grade,
        /// What the machine has.
        has: Grade,
        /// Why it has that.
        why: String,
    },
    /// The machine was not probed yet.
    #[error("this machine is still being probed; that takes a second")]
    NotProbed,
    /// Another agent writes one of its signals.
    #[error("{0}")]
    Signal(#[from] SignalError),
    /// Its code cannot be run.
    #[error("{0}")]
    Code(String),
    /// Threads cannot be started.
    #[error("no threads for hard real-time: {0}")]
    Threads(String),
}

/// A running hard real-time agent.
pub struct HardAgent {
    /// Its name.
    pub name: String,
    /// What is known of its jobs.
    pub cell: Arc<AgentCell>,
    /// The guarantee at its admission.
    pub admitted: Admitted,
    /// Its contract's class.
    pub class: Hrt,
    /// The signals of its contract.
    pub signals: Names,
    /// Whose turn it is to show outputs, of the versions of its agent.
    pub seat: Seat,
    place: usize,
}

/// The agent of a job: one that runs beside another version has that behind its name.
fn agent_of(job: &str) -> &str {
    job.split_once('@').map_or(job, |(agent, _)| agent)
}

struct HrtCore {
    runtime: Arc<dyn HardRuntime>,
    executor: Executor,
    best_effort: Arc<BestEffortExecutor>,
}

/// The scheduler of one node.
pub struct Kernel {
    config: KernelConfig,
    priorities: RtPriorities,
    /// Cores that this process may use.
    cores: usize,
    /// The cores for hard real-time.
    hrt_cores: Vec<usize>,
    /// What is guaranteed to agents and reservations.
    pub promises: Arc<Promises>,
    running: Mutex<BTreeMap<usize, Arc<HrtCore>>>,
    make: MakeHard,
    signals: Arc<Signals>,
    /// The runtimes of soft real-time and delay-tolerant turns.
    pub runtimes: TurnRuntimes,
}

impl Kernel {
    /// Starts probing the machine, and the runtimes for turns. Executors start with the first agent that needs them.
    ///
    /// # Errors
    /// When threads cannot be started.
    pub fn start(
        config: KernelConfig,
        make: impl Fn() -> Result<Arc<dyn HardRuntime>, String> + Send + Sync + 'static,
    ) -> io::Result<Arc<Kernel>> {
        let make: MakeHard = Arc::new(make);
        let priorities = RtPriorities::detect()?;
        let all = cores();
        let hrt_cores: Vec<usize> = all.iter().rev().take(config.hrt_cores).copied().collect();
        let kernel = Arc::new(Kernel {
            config,
            priorities,
            promises: Arc::new(Promises::new(config.policy, hrt_cores.len(), Arc::new(now_ns))),
            cores: all.len(),
            hrt_cores,
            running: Mutex::default(),
            make,
            signals: Arc::default(),
            runtimes: TurnRuntimes::start(priorities, all.len())?,
        });
        let (core, promises) =
            (kernel.hrt_cores.first().copied().unwrap_or_default(), Arc::downgrade(&kernel.promises));
        // The prober ends with the kernel.
        let take = move |hardware| promises.upgrade().map(|promises| promises.set_hardware(hardware)).is_some();
        keep_probing(priorities, core, take)?;
        Ok(kernel)
    }

    /// Processor cores that this process may use.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// The node's signals.
    #[must_use]
    pub fn signals(&self) -> &Arc<Signals> {
        &self.signals
    }

    /// Admits a hard real-time agent and runs it, or refuses it with the proof and changes nothing.
    ///
    /// # Errors
    /// See [`AdmitError`].
    pub fn run_hard(&self, name: &str, contract: &Contract, hrt: &Hrt, module: &[u8]) -> Result<HardAgent, AdmitError> {
        let (admitted, claim) = self.promises.admit(name, contract, hrt)?;
        let started = self.start_agent(name, contract, hrt, module, admitted);
        self.promises.settle(name, claim, started.is_ok());
        started
    }

    fn start_agent(
        &self,
        name: &str,
        contract: &Contract,
        class: &Hrt,
        module: &[u8],
        admitted: Admitted,
    ) -> Result<HardAgent, AdmitError> {
        let core = self.core(admitted.core)?;
        let template = core.runtime.template(module, contract.memory_bytes()).map_err(AdmitError::Code)?;
        let Names { inputs, outputs, .. } = &contract.signals;
        let ((inputs, outputs), seat) = self.signals.join_version(agent_of(name), inputs, outputs)?;
        let params = Params {
            period_ns: class.period_us.saturating_mul(1_000),
            deadline_ns: class.deadline_us.saturating_mul(1_000),
            budget_ns: class.budget_us.saturating_mul(1_000),
            periodic: class.arrival == Arrival::Periodic,
        };
        let inputs = Input::of(&contract.signals, inputs);
        let outputs = OutputSignal::of_version(&contract.signals, outputs, &seat);
        match core.executor.add(params, class.on_overrun, template, inputs, outputs) {
            Ok(added) => {
                let (class, signals) = (class.clone(), contract.signals.clone());
                let (name, AddedTask { place, cell }) = (name.to_owned(), added);
                Ok(HardAgent { name, cell, admitted, class, signals, seat, place })
            }
            Err(error) => {
                let Names { inputs, outputs, .. } = &contract.signals;
                self.signals.leave_version(agent_of(name), &seat, inputs, outputs);
                Err(match error {
                    AddError::Full => AdmitError::Threads(error.to_string()),
                    AddError::Make(reason) => AdmitError::Code(reason),
                })
            }
        }
    }

    /// Stops a hard real-time agent and releases its guarantee.
    pub async fn stop_hard(&self, hard: &HardAgent) {
        let core = self.lock().get(&hard.admitted.core).cloned();
        if let Some(core) = core {
            core.executor.remove(hard.place).await;
            core.best_effort.remove(&hard.cell).await;
        }
        hard.cell.end();
        let Names { inputs, outputs, .. } = &hard.signals;
        self.signals.leave_version(agent_of(&hard.name), &hard.seat, inputs, outputs);
        self.promises.release(&hard.name);
    }

    /// Releases a job of a sporadic agent.
    pub fn arrive(&self, hard: &HardAgent) {
        if let Some(core) = self.lock().get(&hard.admitted.core) {
            core.executor.arrive(hard.place);
            core.best_effort.arrive(&hard.cell);
        }
    }

    fn core(&self, at: usize) -> Result<Arc<HrtCore>, AdmitError> {
        let mut running = self.lock();
        if let Some(core) = running.get(&at) {
            return Ok(core.clone());
        }
        let runtime = (self.make)().map_err(AdmitError::Code)?;
        let best_effort = Arc::new(BestEffortExecutor::new(runtime.clone()));
        let config = ExecutorConfig {
            policy: self.config.policy,
            priorities: self.priorities,
            core: self.hrt_cores.get(at).copied(),
            level: Level::Executor,
            interrupt: runtime.clone(),
            best_effort: Some(best_effort.clone()),
        };
        let executor = Executor::start(&config).map_err(|error| AdmitError::Threads(error.to_string()))?;
        let core = Arc::new(HrtCore { runtime, executor, best_effort });
        running.insert(at, core.clone());
        Ok(core)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Arc<HrtCore>>> {
        self.running.lock().expect("no holder of the cores panics")
    }
}
