//! The thread that runs admitted jobs.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Thread;

use althing_protocol::contract::OnOverrun;

use super::cell::{AgentCell, JobRecord, Outcome};
use super::command::Command;
use super::fiber::{Fiber, Interrupt, Progress, SIGNALS_MAX, Template, Values};
use super::machine::{Job, Params, Schedule};
use super::reports::{Collector, Degrade, Report};
use super::signals::{Input, OutputSignal, read, show};
use super::stalls::Stalls;
use super::watch::{SAMPLE_NS, Sentinel, Watchdog};
use crate::admission::Policy;
use crate::realtime::{Level, RtPriorities, faults_and_waits, now_ns, ran_ns, spawn};

/// Tasks of one executor.
const TASKS_MAX: usize = 128;
/// Queued commands.
const COMMANDS_MAX: usize = 1_024;
/// Queued reports: a second of jobs of many tasks at the shortest period.
const REPORTS_MAX: usize = 16_384;
/// Missed jobs that wait for a sample of the sentinel.
const UNJUDGED_MAX: usize = 64;
/// Less time than this, taken from a running job, is what the threads above it take.
const STOLEN_NS_MIN: u64 = 20_000;
/// After this time a miss is judged without the sentinel.
const JUDGE_TIMEOUT_NS: u64 = 5_000_000;
/// A new task's first job is released this long after the task is added.
const FIRST_RELEASE_NS: u64 = 2_000_000;

/// The configuration of an executor.
#[derive(Clone)]
pub struct ExecutorConfig {
    /// Which job runs first.
    pub policy: Policy,
    /// The priorities of its threads.
    pub priorities: RtPriorities,
    /// The core of all its threads; none: any.
    pub core: Option<usize>,
    /// The level of the thread that runs jobs: [`Level::Executor`], or [`Level::Idle`] without a guarantee.
    pub level: Level,
    /// Interrupts the fibers of this executor.
    pub interrupt: Arc<dyn Interrupt>,
    /// Runs agents that lost their guarantee; none: they stay here.
    pub best_effort: Option<Arc<BestEffortExecutor>>,
}

/// Runs agents that lost their guarantee, on idle processor time. Its thread starts with the first of them.
pub struct BestEffortExecutor {
    interrupt: Arc<dyn Interrupt>,
    executor: OnceLock<Result<Executor, String>>,
}

impl BestEffortExecutor {
    /// An executor whose fibers `interrupt` interrupts.
    #[must_use]
    pub fn new(interrupt: Arc<dyn Interrupt>) -> BestEffortExecutor {
        BestEffortExecutor { interrupt, executor: OnceLock::new() }
    }

    fn executor(&self) -> Result<&Executor, String> {
        let start = || {
            let config = ExecutorConfig {
                policy: Policy::Edf,
                priorities: RtPriorities::none(),
                core: None,
                level: Level::Idle,
                interrupt: self.interrupt.clone(),
                best_effort: None,
            };
            Executor::start(&config).map_err(|error| error.to_string())
        };
        self.executor.get_or_init(start).as_ref().map_err(Clone::clone)
    }

    /// Runs an agent on; its budget and deadline become the whole period.
    pub(super) fn adopt(&self, cell: &Arc<AgentCell>) -> Result<(), String> {
        let fiber = cell.template.make()?;
        let params = Params { budget_ns: cell.params.period_ns, deadline_ns: cell.params.period_ns, ..cell.params };
        let place = self.executor()?.insert(params, fiber, cell.clone()).map_err(|error| error.to_string())?;
        *cell.best_effort.lock().expect("no holder of the place panics") = Some(place);
        Ok(())
    }

    /// Releases a job of a sporadic agent, if it runs here.
    pub fn arrive(&self, cell: &AgentCell) {
        let place = *cell.best_effort.lock().expect("no holder of the place panics");
        if let (Some(place), Some(Ok(executor))) = (place, self.executor.get()) {
            executor.arrive(place);
        }
    }

    /// Removes an agent, if it runs here.
    pub async fn remove(&self, cell: &AgentCell) {
        let place = cell.best_effort.lock().expect("no holder of the place panics").take();
        if let (Some(place), Some(Ok(executor))) = (place, self.executor.get()) {
            executor.remove(place).await;
        }
    }
}

/// Why a task cannot be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// All places are taken.
    #[error("an executor has {TASKS_MAX} places, and all are taken")]
    Full,
    /// Its code cannot be instantiated.
    #[error("{0}")]
    Make(String),
}

type Cells = Arc<Mutex<Vec<Option<Arc<AgentCell>>>>>;

/// Sends commands to an executor's thread; shared with its collector.
struct CommandSender {
    commands: Mutex<rtrb::Producer<Command>>,
    thread: Mutex<Option<Thread>>,
    watchdog: Watchdog,
}

impl CommandSender {
    /// Sends a command, which the executor sees at once: the command is queued before the watchdog is armed, and the
    /// executor checks the queue after it armed the watchdog itself, so one of the two sees the other.
    fn send(&self, command: Command) {
        let mut waiting = Some(command);
        while let Some(command) = waiting.take() {
            let mut commands = self.commands.lock().expect("no holder of the commands panics");
            if let Err(rtrb::PushError::Full(back)) = commands.push(command)
                && !commands.is_abandoned()
            {
                // The executor empties the ring whenever no job runs.
                drop(commands);
                std::thread::yield_now();
                waiting = Some(back);
            }
        }
        self.watchdog.arm(1);
        if let Some(thread) = self.thread.lock().expect("no holder of the thread panics").as_ref() {
            thread.unpark();
        }
    }
}

/// A hard real-time executor; its threads end when it is dropped.
pub struct Executor {
    sender: Arc<CommandSender>,
    cells: Cells,
    /// Woken when a task is added.
    collector: Thread,
}

/// A task that was added.
pub struct AddedTask {
    /// Its place.
    pub place: usize,
    /// What is known of its jobs.
    pub cell: Arc<AgentCell>,
}

impl Executor {
    /// Starts the executor's threads.
    ///
    /// # Errors
    /// When threads or timers cannot be had.
    pub fn start(config: &ExecutorConfig) -> io::Result<Executor> {
        let (commands, taken) = rtrb::RingBuffer::new(COMMANDS_MAX);
        let (told, reports) = rtrb::RingBuffer::new(REPORTS_MAX);
        let cells: Cells = Arc::new(Mutex::new(vec![None; TASKS_MAX]));
        let watchdog = Watchdog::start(config.priorities, config.core, config.interrupt.clone())?;
        let sender = Arc::new(CommandSender {
            commands: Mutex::new(commands),
            thread: Mutex::default(),
            watchdog: watchdog.clone(),
        });
        let to_executor = sender.clone();
        let commands = Box::new(move |command| to_executor.send(command));
        let degrade =
            config.best_effort.clone().map(|best_effort| -> Degrade { Box::new(move |cell| best_effort.adopt(cell)) });
        let collector = Collector { reports, cells: cells.clone(), commands, degrade };
        let collecting = spawn("hrt-reports", config.priorities, Level::Normal, None, move || collector.run())?;
        let collector = collecting.thread().clone();
        let sentinel = Sentinel::start(config.priorities, config.core)?;
        let running = ExecutorThread {
            schedule: Schedule::new(config.policy, TASKS_MAX),
            tasks: (0..TASKS_MAX).map(|_| None).collect(),
            commands: taken,
            reports: told,
            collector: collector.clone(),
            watchdog,
            sentinel,
            stalls: Stalls::default(),
            faults: 0,
            stolen_ns: 0,
            unjudged: Vec::with_capacity(UNJUDGED_MAX),
            removals: Vec::with_capacity(TASKS_MAX),
            stopped: false,
        };
        let thread = spawn("hrt-executor", config.priorities, config.level, config.core, move || running.run())?;
        *sender.thread.lock().expect("no holder of the thread panics") = Some(thread.thread().clone());
        Ok(Executor { sender, cells, collector })
    }

    /// Adds an admitted task; its first job is released shortly after.
    ///
    /// # Errors
    /// See [`AddError`].
    pub fn add(
        &self,
        params: Params,
        on_overrun: OnOverrun,
        template: Arc<dyn Template>,
        inputs: Vec<Input>,
        outputs: Vec<OutputSignal>,
    ) -> Result<AddedTask, AddError> {
        let fiber = template.make().map_err(AddError::Make)?;
        let cell = Arc::new(AgentCell::new(template, params, on_overrun, inputs, outputs));
        let place = self.insert(params, fiber, cell.clone())?;
        Ok(AddedTask { place, cell })
    }

    fn insert(&self, params: Params, fiber: Box<dyn Fiber>, cell: Arc<AgentCell>) -> Result<usize, AddError> {
        let place = {
            let mut cells = self.cells.lock().expect("no holder of the cells panics");
            let place = cells.iter().position(Option::is_none).ok_or(AddError::Full)?;
            cells[place] = Some(cell.clone());
            place
        };
        self.sender.send(Command::Add { place, params, fiber, cell });
        self.collector.unpark();
        Ok(place)
    }

    /// Releases a job of a sporadic task.
    pub fn arrive(&self, place: usize) {
        self.sender.send(Command::Arrive { place });
    }

    /// Removes a task; it does not run any more when this returns.
    pub async fn remove(&self, place: usize) {
        let (done, taken) = tokio::sync::oneshot::channel();
        self.sender.send(Command::Remove { place, done });
        // A stopped executor runs no job either.
        let _ = taken.await;
        self.cells.lock().expect("no holder of the cells panics")[place] = None;
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.sender.send(Command::Stop);
    }
}

/// One task, on the executor's own thread.
struct TaskFiber {
    fiber: Option<Box<dyn Fiber>>,
    cell: Arc<AgentCell>,
    params: Params,
    first_ns: u64,
}

/// The state of the executor's thread, which blocks on no other thread.
struct ExecutorThread {
    schedule: Schedule,
    tasks: Vec<Option<TaskFiber>>,
    commands: rtrb::Consumer<Command>,
    reports: rtrb::Producer<Report>,
    collector: Thread,
    watchdog: Watchdog,
    sentinel: Sentinel,
    stalls: Stalls,
    /// Page faults of this thread so far.
    faults: u64,
    /// Processor time stolen from jobs since the previous job ended, beyond the stalls that the sentinel saw.
    stolen_ns: u64,
    unjudged: Vec<(usize, JobRecord, Values)>,
    removals: Vec<(usize, tokio::sync::oneshot::Sender<()>)>,
    stopped: bool,
}

impl ExecutorThread {
    fn run(mut self) {
        while !self.stopped {
            while let Ok(command) = self.commands.pop() {
                self.handle_command(command);
            }
            let now = now_ns();
            self.collect_stalls();
            self.judge_misses(now);
            self.finish_removals();
            self.release(now);
            match self.schedule.choose(now) {
                Some(place) => self.run_job(place, now),
                None => self.wait_for_release(now),
            }
        }
        self.watchdog.stop();
        self.report(Report::Stopped);
    }

    /// Waits until the next release or command.
    fn wait_for_release(&mut self, now: u64) {
        let next = self.schedule.next_release(now).unwrap_or(u64::MAX);
        let next = if self.unjudged.is_empty() { next } else { next.min(now + JUDGE_TIMEOUT_NS) };
        self.watchdog.disarm();
        if !self.commands.is_empty() {
            return;
        }
        match next {
            u64::MAX => std::thread::park(),
            next => std::thread::park_timeout(std::time::Duration::from_nanos(next.saturating_sub(now_ns()))),
        }
    }

    fn handle_command(&mut self, command: Command) {
        match command {
            Command::Add { place, params, fiber, cell } => {
                let first_ns = now_ns() + FIRST_RELEASE_NS;
                self.schedule.add(place, params, if params.periodic { first_ns } else { 0 });
                self.tasks[place] = Some(TaskFiber { fiber: Some(fiber), cell, params, first_ns });
                self.sentinel.set_active(true);
            }
            Command::ReplaceFiber { place, fiber } => {
                if let Some(task) = self.tasks[place].as_mut() {
                    task.fiber = Some(fiber);
                    self.schedule.set_ready(place, true);
                }
            }
            Command::Arrive { place } => {
                // A refused arrival is not reported: its caller times out.
                let _ = self.schedule.arrive(place, now_ns());
            }
            Command::Suspend { place } => self.schedule.remove(place),
            Command::Remove { place, done } => {
                self.schedule.remove(place);
                self.removals.push((place, done));
            }
            Command::Stop => self.stopped = true,
        }
    }

    /// Removes tasks whose misses are all judged.
    fn finish_removals(&mut self) {
        while let Some(at) =
            self.removals.iter().position(|(place, _)| !self.unjudged.iter().any(|(unjudged, ..)| unjudged == place))
        {
            let (place, done) = self.removals.swap_remove(at);
            let taken = self.tasks[place].take();
            let (fiber, cell) = taken.map_or((None, None), |task| (task.fiber, Some(task.cell)));
            self.report(Report::Removed(fiber, cell, done));
            self.sentinel.set_active(self.tasks.iter().any(Option::is_some));
        }
    }

    fn release(&mut self, now: u64) {
        let ExecutorThread { schedule, tasks, unjudged, .. } = self;
        schedule.release(now, |place, job| {
            if let Some(task) = &tasks[place] {
                let record = ended(&job, now, Outcome::Expired);
                count(task, &record);
                if unjudged.len() < UNJUDGED_MAX {
                    unjudged.push((place, record, [0.0; SIGNALS_MAX]));
                }
            }
        });
    }

    /// Runs one job until it ends or is interrupted.
    fn run_job(&mut self, place: usize, now: u64) {
        let Some((until, begins)) = self.schedule.run(place, now) else { return };
        let Some(job) = self.schedule.job(place).copied() else { return };
        let Some(task) = self.tasks[place].as_mut() else { return };
        let Some(fiber) = task.fiber.as_mut() else {
            self.schedule.set_ready(place, false);
            return;
        };
        if begins {
            let (inputs, fell_back) = read(&task.cell.inputs, now);
            if fell_back {
                task.cell.counters.fallbacks.fetch_add(1, Ordering::Relaxed);
            }
            fiber.begin(&inputs, job.release_ns.saturating_sub(task.first_ns) / 1_000);
        }
        self.watchdog.arm(until);
        if !self.commands.is_empty() {
            // A command arrived meanwhile, perhaps for a more urgent task.
            return;
        }
        let (begun, ran, (_, waits)) = (now_ns(), ran_ns(), faults_and_waits());
        let progress = fiber.resume();
        let ran = ran_ns().saturating_sub(ran);
        let end = now_ns();
        self.watchdog.disarm();
        self.collect_stalls();
        // A job is charged its own running time: not stalls that the sentinel saw (since its previous sample), and not time
        // that was stolen in slices too short for it to see. If it blocked voluntarily, it is charged the wall time. The
        // charge decides which jobs are stopped, not which misses are explained.
        let awake = (end - now).saturating_sub(self.stalls.possibly_within(now, end, SAMPLE_NS));
        let used = match awake.min(ran.saturating_add(begun - now)) {
            ran if awake - ran > STOLEN_NS_MIN && faults_and_waits().1 == waits => ran,
            _ => awake,
        };
        self.stolen_ns = self.stolen_ns.saturating_add(awake - used);
        let spent = self.schedule.charge(place, used);
        match progress {
            Progress::Done => self.end(place, end, Outcome::Done),
            Progress::Interrupted if spent => {
                if let (Some(task), Some(job)) = (&self.tasks[place], self.schedule.job(place)) {
                    task.cell.counters.stop.add(job.used_ns.saturating_sub(task.params.budget_ns));
                }
                self.end(place, end, Outcome::Overrun);
                self.retire(place, None);
            }
            Progress::Interrupted => {}
            Progress::Failed(why) => {
                self.end(place, end, Outcome::Failed);
                self.retire(place, Some(why));
            }
        }
    }

    fn end(&mut self, place: usize, now: u64, outcome: Outcome) {
        let Some(job) = self.schedule.end(place) else { return };
        let Some(task) = self.tasks[place].as_mut() else { return };
        let mut record = ended(&job, now, outcome);
        let (faults, _) = faults_and_waits();
        record.faults = match std::mem::replace(&mut self.faults, faults) {
            0 => 0,
            before => faults - before,
        };
        record.stalled_ns = self.stalls.within(record.release_ns, record.end_ns);
        record.stolen_ns = std::mem::take(&mut self.stolen_ns);
        let mut outputs = [0.0; SIGNALS_MAX];
        if let (Outcome::Done, Some(fiber)) = (outcome, &task.fiber) {
            outputs = *fiber.outputs();
            // Only a completed job sets its outputs.
            record.out_of_limits = show(&task.cell.outputs, &mut outputs, now);
        }
        count(task, &record);
        if record.missed && self.unjudged.len() < UNJUDGED_MAX {
            self.unjudged.push((place, record, outputs));
        } else {
            self.report_job(place, record, outputs);
        }
    }

    /// Hands a fiber that cannot run again to the collector, which drops it and makes a new one.
    fn retire(&mut self, place: usize, why: Option<String>) {
        self.schedule.set_ready(place, false);
        if let Some(fiber) = self.tasks[place].as_mut().and_then(|task| task.fiber.take()) {
            self.report(Report::Retired(place, fiber, why));
        }
    }

    /// Collects the stalls that the sentinel saw.
    fn collect_stalls(&mut self) {
        while let Some((from, to)) = self.sentinel.next_stall() {
            self.stalls.push(from, to);
        }
    }

    /// Judges misses once the sentinel has sampled past their end.
    fn judge_misses(&mut self, now: u64) {
        let seen = self.sentinel.seen_ns();
        let mut at = 0;
        while at < self.unjudged.len() {
            let (place, mut record, outputs) = self.unjudged[at];
            if seen < record.end_ns && now < record.end_ns + JUDGE_TIMEOUT_NS {
                at += 1;
                continue;
            }
            self.unjudged.swap_remove(at);
            let Some(task) = &self.tasks[place] else { continue };
            record.stalled_ns = self.stalls.within(record.release_ns, record.end_ns);
            let over = (record.end_ns - record.release_ns).saturating_sub(task.params.deadline_ns);
            record.explained = match record.outcome {
                Outcome::Done => record.stalled_ns >= over,
                // It needed its budget as well.
                Outcome::Expired => record.stalled_ns >= over + task.params.budget_ns,
                Outcome::Overrun | Outcome::Failed => false,
            };
            if record.explained {
                task.cell.counters.explained.fetch_add(1, Ordering::Relaxed);
            }
            self.report_job(place, record, outputs);
        }
    }

    fn report_job(&mut self, place: usize, record: JobRecord, outputs: Values) {
        let watched = self.tasks[place].as_ref().is_some_and(|task| task.cell.watched.load(Ordering::Acquire) > 0);
        if watched {
            self.report(Report::Job(place, record, outputs));
        }
    }

    fn report(&mut self, report: Report) {
        // When the ring is full a record is lost, like for a slow subscriber; a fiber is dropped here, which takes time
        // that was not admitted, rather than leaked.
        drop(self.reports.push(report));
        self.collector.unpark();
    }
}

fn ended(job: &Job, now: u64, outcome: Outcome) -> JobRecord {
    JobRecord {
        number: job.number,
        release_ns: job.release_ns,
        noticed_ns: job.noticed_ns,
        end_ns: now,
        used_ns: job.used_ns,
        outcome,
        missed: outcome != Outcome::Done || now > job.deadline_ns,
        explained: false,
        stalled_ns: 0,
        stolen_ns: 0,
        faults: 0,
        out_of_limits: 0,
    }
}

fn count(task: &TaskFiber, record: &JobRecord) {
    let counters = &task.cell.counters;
    counters.jobs.fetch_add(1, Ordering::Relaxed);
    counters.lateness.add(record.noticed_ns.saturating_sub(record.release_ns));
    if record.missed {
        counters.missed.fetch_add(1, Ordering::Relaxed);
    }
    if record.out_of_limits != 0 {
        counters.out_of_limits.fetch_add(1, Ordering::Relaxed);
    }
    match record.outcome {
        Outcome::Done => counters.response.add(record.end_ns - record.release_ns),
        Outcome::Overrun => drop(counters.overruns.fetch_add(1, Ordering::Relaxed)),
        Outcome::Failed => drop(counters.failures.fetch_add(1, Ordering::Relaxed)),
        Outcome::Expired => {}
    }
}
