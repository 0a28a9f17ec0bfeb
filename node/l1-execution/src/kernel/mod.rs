//! The scheduler of one node: the probed hardware, the admitted guarantees, and the threads that keep them.
//!
//! Hard real-time agents are admitted by proof ([`machine::Plan`]) and run on executors, one for each core that is
//! reserved for them. Soft real-time turns run by priority on a runtime of their own, delay-tolerant turns on idle threads.

mod floor;
pub mod machine;
pub mod reservations;
mod runtimes;
pub mod slots;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use althing_protocol::contract::{Arrival, Class, Grade, Hrt, Signals as Names};
use althing_protocol::{Contract, PublicKey};
use tokio::sync::watch;

use crate::admission::{Admitted, Config, Policy, Preemption};
use crate::hrt::{
    AddError, AgentCell, BestEffortExecutor, Executor, ExecutorConfig, Input, Interrupt, Params, SignalError, Signals,
    Template,
};
use crate::realtime::{HardwareProfile, Level, PROBE_SAMPLES, RtPriorities, cores, now_ns, probe};
use reservations::{Reservations, plan_name};

pub use machine::{Guarantee, Plan, Refused};
pub use reservations::LeaseError;
pub use runtimes::TurnRuntimes;

/// The share of a core that may be guaranteed: the rest belongs to the fair server of the Linux kernel.
pub const CAP_PPM: u64 = 900_000;
/// The time between two probes of the machine.
const PROBE_EVERY: std::time::Duration = std::time::Duration::from_secs(60);
/// Wake-ups of a later probe.
const REPROBE_SAMPLES: usize = 200;

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

/// Why a reservation fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReserveError {
    /// The contract has no guarantee to reserve.
    #[error("only hard real-time contracts can be reserved: the others have no guarantee")]
    NothingToHold,
    /// The contract is not admitted.
    #[error(transparent)]
    Admission(#[from] AdmitError),
    /// The reservation does not exist or may not be used.
    #[error(transparent)]
    Lease(#[from] LeaseError),
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
    place: usize,
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
    hardware: watch::Sender<Option<HardwareProfile>>,
    plan: Mutex<Plan>,
    /// Guarantees reserved for agents that are not here yet. Locked after the plan.
    reservations: Mutex<Reservations>,
    /// Which agents will take which reservations.
    claims: Mutex<BTreeMap<String, String>>,
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
        let proofs =
            Config { policy: config.policy, preemption: Preemption::Limited, cap_ppm: CAP_PPM, platform_ns: 0 };
        let kernel = Arc::new(Kernel {
            config,
            priorities,
            hardware: watch::Sender::new(None),
            plan: Mutex::new(Plan::new(proofs, hrt_cores.len())),
            reservations: Mutex::default(),
            claims: Mutex::default(),
            cores: all.len(),
            hrt_cores,
            running: Mutex::default(),
            make,
            signals: Arc::default(),
            runtimes: TurnRuntimes::start(priorities, all.len())?,
        });
        kernel.spawn_prober()?;
        Ok(kernel)
    }

    /// Probes on a thread of its own, which ends with the kernel.
    fn spawn_prober(self: &Arc<Kernel>) -> io::Result<()> {
        let (priorities, core) = (self.priorities, self.hrt_cores.first().copied().unwrap_or_default());
        let kernel = Arc::downgrade(self);
        let body = move || {
            let mut samples = PROBE_SAMPLES;
            let mut worst = machine::WorstGrade::default();
            while let Ok(hardware) = probe(priorities, core, samples) {
                let Some(kernel) = kernel.upgrade() else { return };
                kernel.hardware.send_replace(Some(hardware));
                drop(kernel);
                worst.note(hardware.grade);
                samples = REPROBE_SAMPLES;
                std::thread::park_timeout(PROBE_EVERY);
            }
        };
        std::thread::Builder::new().name("probes".to_owned()).spawn(body).map(drop)
    }

    /// Processor cores that this process may use.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// The probed hardware, once it is known.
    #[must_use]
    pub fn hardware(&self) -> Option<HardwareProfile> {
        *self.hardware.borrow()
    }

    /// Waits until the machine was probed.
    pub async fn probed(&self) -> Option<HardwareProfile> {
        let mut hardware = self.hardware.subscribe();
        hardware.wait_for(Option::is_some).await.ok().and_then(|hardware| *hardware)
    }

    /// The guarantee of an agent as it is now.
    #[must_use]
    pub fn guarantee(&self, name: &str) -> Option<Guarantee> {
        self.plan().guarantee(name)
    }

    /// The guaranteed share of each hard real-time core, parts per million.
    #[must_use]
    pub fn shares_ppm(&self) -> Vec<u64> {
        self.current_plan().shares_ppm()
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
        let hardware = self.hardware().ok_or(AdmitError::NotProbed)?;
        let wanted = machine::grade_wanted(contract);
        if hardware.grade > wanted {
            return Err(AdmitError::Grade { wanted, has: hardware.grade, why: self.grade_reason(&hardware) });
        }
        let claim = self.claims.lock().expect("no holder of the claims panics").remove(name);
        let admitted = {
            let mut plan = self.current_plan();
            // The reserved guarantee becomes its own in one step, as it was proved.
            let claimed = claim.as_ref().filter(|id| plan.rename(&plan_name(id), name));
            match claimed.and_then(|_| plan.guarantee(name)) {
                Some(Guarantee { core, response_bound_ns, jitter_bound_ns }) => {
                    Admitted { core, response_bound_ns, jitter_bound_ns, test: "reserved" }
                }
                None => plan.admit(name, contract, hrt, hardware.wake_ns()).map_err(AdmitError::Refused)?,
            }
        };
        let started = self.start_agent(name, contract, hrt, module, admitted);
        let mut plan = self.plan();
        match (&started, claim) {
            (Ok(_), Some(id)) => self.reservations().consume(&id),
            (Ok(_), None) => {}
            // The reservation stays until it expires.
            (Err(_), Some(id)) if self.reservations().holds(&id, now_ns()) => drop(plan.rename(name, &plan_name(&id))),
            (Err(_), _) => drop(plan.release(name)),
        }
        drop(plan);
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
        let (inputs, outputs) = self.signals.join(name, &contract.signals.inputs, &contract.signals.outputs)?;
        let params = Params {
            period_ns: class.period_us.saturating_mul(1_000),
            deadline_ns: class.deadline_us.saturating_mul(1_000),
            budget_ns: class.budget_us.saturating_mul(1_000),
            periodic: class.arrival == Arrival::Periodic,
        };
        let inputs = Input::of(&contract.signals, inputs);
        match core.executor.add(params, class.on_overrun, template, inputs, outputs) {
            Ok(added) => {
                let (class, signals) = (class.clone(), contract.signals.clone());
                Ok(HardAgent { name: name.to_owned(), cell: added.cell, admitted, class, signals, place: added.place })
            }
            Err(error) => {
                self.signals.leave(name, &contract.signals.inputs, &contract.signals.outputs);
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
        self.signals.leave(&hard.name, &hard.signals.inputs, &hard.signals.outputs);
        self.plan().release(&hard.name);
    }

    /// Releases a job of a sporadic agent.
    pub fn arrive(&self, hard: &HardAgent) {
        if let Some(core) = self.lock().get(&hard.admitted.core) {
            core.executor.arrive(hard.place);
            core.best_effort.arrive(&hard.cell);
        }
    }

    /// Reserves for `holder` what a hard real-time contract needs, for `lease`; the first of two phases.
    ///
    /// # Errors
    /// See [`ReserveError`].
    pub fn reserve(
        &self,
        id: &str,
        holder: PublicKey,
        contract: &Contract,
        lease: Duration,
    ) -> Result<Admitted, ReserveError> {
        let Class::Hrt(class) = &contract.class else { return Err(ReserveError::NothingToHold) };
        let hardware = self.hardware().ok_or(AdmitError::NotProbed)?;
        let wanted = machine::grade_wanted(contract);
        if hardware.grade > wanted {
            return Err(AdmitError::Grade { wanted, has: hardware.grade, why: self.grade_reason(&hardware) }.into());
        }
        let mut plan = self.current_plan();
        let mut reservations = self.reservations();
        reservations.check_capacity(holder)?;
        let admitted = plan.admit(&plan_name(id), contract, class, hardware.wake_ns()).map_err(AdmitError::Refused)?;
        reservations.prepare(id, holder, contract.digest(), now_ns(), lease);
        Ok(admitted)
    }

    /// The second phase, and each renewal: the reservation lasts for `lease` from now.
    ///
    /// # Errors
    /// [`LeaseError::Unknown`].
    pub fn confirm(&self, id: &str, holder: PublicKey, lease: Duration) -> Result<(), LeaseError> {
        self.reservations().confirm(id, holder, now_ns(), lease)
    }

    /// Cancels a reservation.
    ///
    /// # Errors
    /// [`LeaseError::Unknown`].
    pub fn cancel(&self, id: &str, holder: PublicKey) -> Result<(), LeaseError> {
        let mut plan = self.plan();
        self.reservations().cancel(id, holder, now_ns())?;
        plan.release(&plan_name(id));
        Ok(())
    }

    /// The agent of that name will take a confirmed reservation when it starts with that contract. The reservation stays if
    /// the agent does not start.
    ///
    /// # Errors
    /// See [`LeaseError`].
    pub fn claim(&self, id: &str, name: &str, contract: &Contract) -> Result<(), LeaseError> {
        self.reservations().check_claim(id, &contract.digest(), now_ns())?;
        self.claims.lock().expect("no holder of the claims panics").insert(name.to_owned(), id.to_owned());
        Ok(())
    }

    /// Undoes [`Kernel::claim`] for an agent that does not start.
    pub fn unclaim(&self, name: &str) {
        self.claims.lock().expect("no holder of the claims panics").remove(name);
    }

    /// The number of reservations.
    #[must_use]
    pub fn reserved(&self) -> usize {
        drop(self.current_plan());
        self.reservations().len()
    }

    /// The plan without expired reservations.
    fn current_plan(&self) -> MutexGuard<'_, Plan> {
        let mut plan = self.plan();
        for id in self.reservations().expire(now_ns()) {
            plan.release(&plan_name(&id));
        }
        plan
    }

    /// Locked after the plan where both are locked.
    fn reservations(&self) -> MutexGuard<'_, Reservations> {
        self.reservations.lock().expect("no holder of the reservations panics")
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

    fn grade_reason(&self, hardware: &HardwareProfile) -> String {
        use crate::realtime::Privilege;
        match hardware.privilege {
            Privilege::None => {
                "real-time scheduling is not permitted (run the node as root, or with `ulimit -r 95`)".to_owned()
            }
            Privilege::Full | Privilege::Limited => {
                let late = machine::show_ns(hardware.wake_p999_ns);
                format!("1 of 1,000 wake-ups is late by {late} or more")
            }
        }
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().expect("no holder of the plan panics")
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Arc<HrtCore>>> {
        self.running.lock().expect("no holder of the cores panics")
    }
}
