//! The scheduler of one node: what its machine can do, what was promised, and the threads that keep the promises.
//!
//! Hard real-time agents are admitted by proof ([`machine::Plan`]) and run on executors, one for each core that is kept
//! for them. Soft real-time turns go by priority on a runtime of their own, delay-tolerant ones on threads that run when
//! nothing else does.

mod floor;
pub mod machine;
pub mod reservations;
pub mod slots;
mod turns;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use althing_protocol::contract::{Arrival, Class, Grade, Hrt, Signals as Names};
use althing_protocol::{Contract, PublicKey};
use tokio::sync::watch;

use crate::admission::{Admitted, Config, Policy, Preemption};
use crate::hrt::{
    AgentCell, Executor, ExecutorConfig, Input, Interrupt, BestEffortExecutor, Params, AddError, SignalError, Signals, Template,
};
use crate::realtime::{RtPriorities, Level, Machine, PROBE_SAMPLES, cores, now_ns, probe};
use reservations::{Reservations, name_of};

pub use machine::{Plan, Promise, Refused};
pub use reservations::LeaseError;
pub use turns::Turns;

/// The share of a core that may be promised: beyond, the kernel's fair server takes its due.
pub const CAP_PPM: u64 = 900_000;
/// Between two probes of the machine.
const PROBE_EVERY: std::time::Duration = std::time::Duration::from_secs(60);
/// Wake-ups of a later probe.
const PROBE_AGAIN: usize = 200;

/// How a node schedules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelConfig {
    /// Which hard real-time job runs first.
    pub policy: Policy,
    /// Cores that are kept for hard real-time agents; the last ones.
    pub hrt_cores: usize,
}

impl Default for KernelConfig {
    fn default() -> KernelConfig {
        KernelConfig { policy: Policy::Edf, hrt_cores: 1 }
    }
}

/// Compiles hard real-time agents of one executor, and strikes them.
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
    /// The machine is not what the contract asks for.
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
    /// The machine is not known yet.
    #[error("this machine is still being probed; that takes a second")]
    NotProbed,
    /// A signal is another agent's.
    #[error("{0}")]
    Signal(#[from] SignalError),
    /// Its code cannot be run.
    #[error("{0}")]
    Code(String),
    /// No threads can be had.
    #[error("no threads for hard real-time: {0}")]
    Threads(String),
}

/// Why nothing is reserved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReserveError {
    /// The contract asks for nothing that could be held.
    #[error("only hard real-time contracts can be reserved for: the others are promised nothing that could be held")]
    NothingToHold,
    /// The contract is not admitted.
    #[error(transparent)]
    Admission(#[from] AdmitError),
    /// The reservation is not held.
    #[error(transparent)]
    Lease(#[from] LeaseError),
}

/// A hard real-time agent that runs.
pub struct Hard {
    /// Its name.
    pub name: String,
    /// What is known of its jobs.
    pub cell: Arc<AgentCell>,
    /// What it was promised when it was admitted.
    pub admitted: Admitted,
    /// Its contract's class.
    pub class: Hrt,
    /// The signals of its contract.
    pub signals: Names,
    place: usize,
}

struct Core {
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
    machine: watch::Sender<Option<Machine>>,
    plan: Mutex<Plan>,
    /// Promises that are held for agents to come. Locked after the plan.
    reservations: Mutex<Reservations>,
    /// Which agents come to take which of them.
    claims: Mutex<BTreeMap<String, String>>,
    running: Mutex<BTreeMap<usize, Arc<Core>>>,
    make: MakeHard,
    signals: Arc<Signals>,
    /// Where turns of soft real-time and delay-tolerant agents run.
    pub turns: Turns,
}

impl Kernel {
    /// Starts to probe the machine, and the threads for turns. Executors start with the first agent that needs them.
    ///
    /// # Errors
    /// When no threads can be had.
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
            machine: watch::Sender::new(None),
            plan: Mutex::new(Plan::new(proofs, hrt_cores.len())),
            reservations: Mutex::default(),
            claims: Mutex::default(),
            cores: all.len(),
            hrt_cores,
            running: Mutex::default(),
            make,
            signals: Arc::default(),
            turns: Turns::start(priorities, all.len())?,
        });
        kernel.probe_for_ever()?;
        Ok(kernel)
    }

    /// Probes on a thread of its own, which ends with the kernel.
    fn probe_for_ever(self: &Arc<Kernel>) -> io::Result<()> {
        let (priorities, core) = (self.priorities, self.hrt_cores.first().copied().unwrap_or_default());
        let kernel = Arc::downgrade(self);
        let body = move || {
            let mut samples = PROBE_SAMPLES;
            let mut worst = machine::Worst::default();
            while let Ok(machine) = probe(priorities, core, samples) {
                let Some(kernel) = kernel.upgrade() else { return };
                kernel.machine.send_replace(Some(machine));
                drop(kernel);
                worst.note(machine.grade);
                samples = PROBE_AGAIN;
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

    /// What the machine can do, once that is known.
    #[must_use]
    pub fn machine(&self) -> Option<Machine> {
        *self.machine.borrow()
    }

    /// Waits until the machine was probed.
    pub async fn probed(&self) -> Option<Machine> {
        let mut machine = self.machine.subscribe();
        machine.wait_for(Option::is_some).await.ok().and_then(|machine| *machine)
    }

    /// What was promised to an agent, as it stands now.
    #[must_use]
    pub fn promise(&self, name: &str) -> Option<Promise> {
        self.plan().promise(name)
    }

    /// The share of each hard real-time core that is promised, thousandths of thousandths.
    #[must_use]
    pub fn shares_ppm(&self) -> Vec<u64> {
        self.expired().shares_ppm()
    }

    /// The node's signals.
    #[must_use]
    pub fn signals(&self) -> &Arc<Signals> {
        &self.signals
    }

    /// Admits a hard real-time agent and runs it, or refuses it with the proof; then nothing has changed.
    ///
    /// # Errors
    /// See [`AdmitError`].
    pub fn run_hard(&self, name: &str, contract: &Contract, class: &Hrt, module: &[u8]) -> Result<Hard, AdmitError> {
        let machine = self.machine().ok_or(AdmitError::NotProbed)?;
        let wanted = machine::grade_wanted(contract);
        if machine.grade > wanted {
            return Err(AdmitError::Grade { wanted, has: machine.grade, why: self.why(&machine) });
        }
        let claim = self.claims.lock().expect("no holder of the claims panics").remove(name);
        let admitted = {
            let mut plan = self.expired();
            // What was held for it becomes its own, as it was proved, with nobody in between.
            let taken = claim.as_ref().filter(|id| plan.rename(&name_of(id), name));
            match taken.and_then(|_| plan.promise(name)) {
                Some(Promise { core, response_bound_ns, jitter_bound_ns }) => {
                    Admitted { core, response_bound_ns, jitter_bound_ns, test: "reserved" }
                }
                None => plan.admit(name, contract, class, machine.wake_ns()).map_err(AdmitError::Refused)?,
            }
        };
        let put = self.put(name, contract, class, module, admitted);
        let mut plan = self.plan();
        match (&put, claim) {
            (Ok(_), Some(id)) => self.held().taken(&id),
            (Ok(_), None) => {}
            // What was held stays held, until its time is over.
            (Err(_), Some(id)) if self.held().is_held(&id, now_ns()) => drop(plan.rename(name, &name_of(&id))),
            (Err(_), _) => drop(plan.release(name)),
        }
        drop(plan);
        put
    }

    fn put(
        &self,
        name: &str,
        contract: &Contract,
        class: &Hrt,
        module: &[u8],
        admitted: Admitted,
    ) -> Result<Hard, AdmitError> {
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
            Ok(placed) => {
                let (class, signals) = (class.clone(), contract.signals.clone());
                Ok(Hard { name: name.to_owned(), cell: placed.cell, admitted, class, signals, place: placed.place })
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

    /// Stops a hard real-time agent; its promise is free again.
    pub async fn stop_hard(&self, hard: &Hard) {
        let core = self.lock().get(&hard.admitted.core).cloned();
        if let Some(core) = core {
            core.executor.remove(hard.place).await;
            core.best_effort.remove(&hard.cell).await;
        }
        hard.cell.end();
        self.signals.leave(&hard.name, &hard.signals.inputs, &hard.signals.outputs);
        self.plan().release(&hard.name);
    }

    /// Asks a sporadic agent for a job.
    pub fn arrive(&self, hard: &Hard) {
        if let Some(core) = self.lock().get(&hard.admitted.core) {
            core.executor.arrive(hard.place);
            core.best_effort.arrive(&hard.cell);
        }
    }

    /// Holds for `holder` what a hard real-time contract needs, for as long as `lease`; the first of two phases.
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
        let machine = self.machine().ok_or(AdmitError::NotProbed)?;
        let wanted = machine::grade_wanted(contract);
        if machine.grade > wanted {
            return Err(AdmitError::Grade { wanted, has: machine.grade, why: self.why(&machine) }.into());
        }
        let mut plan = self.expired();
        let mut held = self.held();
        held.room(holder)?;
        let admitted = plan.admit(&name_of(id), contract, class, machine.wake_ns()).map_err(AdmitError::Refused)?;
        held.prepare(id, holder, contract.digest(), now_ns(), lease);
        Ok(admitted)
    }

    /// The second phase, and each renewal: the reservation lasts for `lease` from now.
    ///
    /// # Errors
    /// [`LeaseError::Unknown`].
    pub fn confirm(&self, id: &str, holder: PublicKey, lease: Duration) -> Result<(), LeaseError> {
        self.held().confirm(id, holder, now_ns(), lease)
    }

    /// Gives a reservation back.
    ///
    /// # Errors
    /// [`LeaseError::Unknown`].
    pub fn cancel(&self, id: &str, holder: PublicKey) -> Result<(), LeaseError> {
        let mut plan = self.plan();
        self.held().cancel(id, holder, now_ns())?;
        plan.release(&name_of(id));
        Ok(())
    }

    /// The agent of that name, when it comes with that contract, is to take a reservation that was confirmed. It is
    /// taken when the agent runs, and held as before when it does not.
    ///
    /// # Errors
    /// See [`LeaseError`].
    pub fn claim(&self, id: &str, name: &str, contract: &Contract) -> Result<(), LeaseError> {
        self.held().may_take(id, &contract.digest(), now_ns())?;
        self.claims.lock().expect("no holder of the claims panics").insert(name.to_owned(), id.to_owned());
        Ok(())
    }

    /// An agent that was to take a reservation does not come after all.
    pub fn unclaim(&self, name: &str) {
        self.claims.lock().expect("no holder of the claims panics").remove(name);
    }

    /// Reservations that are held now.
    #[must_use]
    pub fn reserved(&self) -> usize {
        drop(self.expired());
        self.held().len()
    }

    /// The plan, without promises to nobody.
    fn expired(&self) -> MutexGuard<'_, Plan> {
        let mut plan = self.plan();
        for id in self.held().expire(now_ns()) {
            plan.release(&name_of(&id));
        }
        plan
    }

    /// Locked after the plan, where both are.
    fn held(&self) -> MutexGuard<'_, Reservations> {
        self.reservations.lock().expect("no holder of the reservations panics")
    }

    fn core(&self, at: usize) -> Result<Arc<Core>, AdmitError> {
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
        let core = Arc::new(Core { runtime, executor, best_effort });
        running.insert(at, core.clone());
        Ok(core)
    }

    fn why(&self, machine: &Machine) -> String {
        use crate::realtime::Privilege;
        match machine.privilege {
            Privilege::None => {
                "real-time scheduling is not permitted (run the node as root, or with `ulimit -r 95`)".to_owned()
            }
            Privilege::Full | Privilege::Limited => {
                let late = machine::time(machine.wake_p999_ns);
                format!("1 of 1,000 wake-ups comes {late} late or later")
            }
        }
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().expect("no holder of the plan panics")
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Arc<Core>>> {
        self.running.lock().expect("no holder of the cores panics")
    }
}
