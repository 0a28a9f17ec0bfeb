//! The thread that runs admitted jobs.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Thread;

use althing_protocol::contract::OnOverrun;

use super::fiber::{Fiber, Interrupt, Progress, SIGNALS_MAX, Template, Values};
use super::machine::{Job, Params, Schedule};
use super::reports::{AgentCell, Collector, JobRecord, Outcome, Report};
use super::signals::{Input, Signal, read};
use super::stalls::Stalls;
use super::watch::{LOOK_NS, Sentinel, Watchdog};
use crate::admission::Policy;
use crate::realtime::{Ladder, Level, faults_and_waits, now_ns, ran_ns, spawn};

/// Tasks of one executor.
const PLACES: usize = 128;
/// Commands that may wait.
const COMMANDS: usize = 1_024;
/// Reports that may wait: a second of jobs at the shortest period, of many tasks.
const REPORTS: usize = 16_384;
/// Missed jobs that wait for the sentinel to have looked.
const UNJUDGED: usize = 64;
/// Time taken away from a running job that is no more than what the threads above it take.
const NOTICED_NS: u64 = 20_000;
/// How long the sentinel is waited for before a miss is judged without it.
const JUDGE_NS: u64 = 5_000_000;
/// A new task's first job is released this long after it was put.
const FIRST_NS: u64 = 2_000_000;

/// What an executor is.
#[derive(Clone)]
pub struct ExecutorConfig {
    /// Which job runs first.
    pub policy: Policy,
    /// What threads may be.
    pub ladder: Ladder,
    /// The core of all its threads; none: any.
    pub core: Option<usize>,
    /// The level of the thread that runs jobs: [`Level::Executor`], or [`Level::Idle`] for what has no promise.
    pub level: Level,
    /// Strikes the fibers of this executor.
    pub interrupt: Arc<dyn Interrupt>,
    /// Where agents go on that lost their promise; none: they go on here.
    pub leftover: Option<Arc<Leftover>>,
}

/// Runs agents that lost their promise, on what the others leave over. Its thread starts with the first of them.
pub struct Leftover {
    interrupt: Arc<dyn Interrupt>,
    executor: OnceLock<Result<Executor, String>>,
}

impl Leftover {
    /// Agents whose fibers that interrupt strikes.
    #[must_use]
    pub fn new(interrupt: Arc<dyn Interrupt>) -> Leftover {
        Leftover { interrupt, executor: OnceLock::new() }
    }

    fn executor(&self) -> Result<&Executor, String> {
        let start = || {
            let config = ExecutorConfig {
                policy: Policy::Edf,
                ladder: Ladder::without(),
                core: None,
                level: Level::Idle,
                interrupt: self.interrupt.clone(),
                leftover: None,
            };
            Executor::start(&config).map_err(|error| error.to_string())
        };
        self.executor.get_or_init(start).as_ref().map_err(Clone::clone)
    }

    /// Goes on with an agent; a job may now run for a whole period.
    pub(super) fn run(&self, cell: &Arc<AgentCell>) -> Result<(), String> {
        let fiber = cell.template.make()?;
        let params = Params { budget_ns: cell.params.period_ns, deadline_ns: cell.params.period_ns, ..cell.params };
        let place = self.executor()?.seat(params, fiber, cell.clone()).map_err(|error| error.to_string())?;
        *cell.leftover.lock().expect("no holder of the place panics") = Some(place);
        Ok(())
    }

    /// Asks for a job of a sporadic agent that runs here.
    pub fn arrive(&self, cell: &AgentCell) {
        let place = *cell.leftover.lock().expect("no holder of the place panics");
        if let (Some(place), Some(Ok(executor))) = (place, self.executor.get()) {
            executor.arrive(place);
        }
    }

    /// Takes an agent away that may run here.
    pub async fn take(&self, cell: &AgentCell) {
        let place = cell.leftover.lock().expect("no holder of the place panics").take();
        if let (Some(place), Some(Ok(executor))) = (place, self.executor.get()) {
            executor.take(place).await;
        }
    }
}

/// What an executor is told.
pub(super) enum Command {
    Put {
        place: usize,
        params: Params,
        fiber: Box<dyn Fiber>,
        cell: Arc<AgentCell>,
    },
    Renew {
        place: usize,
        fiber: Box<dyn Fiber>,
    },
    Arrive {
        place: usize,
    },
    /// The task stays, and runs no more.
    Rest {
        place: usize,
    },
    Take {
        place: usize,
        done: tokio::sync::oneshot::Sender<()>,
    },
    Stop,
}

/// Why a task cannot be put.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PutError {
    /// All places are taken.
    #[error("an executor has {PLACES} places, and all are taken")]
    Full,
    /// Its code cannot be made.
    #[error("{0}")]
    Make(String),
}

type Cells = Arc<Mutex<Vec<Option<Arc<AgentCell>>>>>;

/// The way to an executor's thread, shared with its collector.
struct Way {
    commands: Mutex<rtrb::Producer<Command>>,
    thread: Mutex<Option<Thread>>,
    watchdog: Watchdog,
}

impl Way {
    /// Tells the executor, which looks at once: the command is there before the watchdog is set, and the executor looks
    /// for commands after it has set the watchdog itself, so one of both sees the other.
    fn tell(&self, command: Command) {
        let mut waiting = Some(command);
        while let Some(command) = waiting.take() {
            let mut commands = self.commands.lock().expect("no holder of the commands panics");
            if let Err(rtrb::PushError::Full(back)) = commands.push(command)
                && !commands.is_abandoned()
            {
                // The executor empties the ring whenever it runs nothing; one that is gone never will.
                drop(commands);
                std::thread::yield_now();
                waiting = Some(back);
            }
        }
        self.watchdog.set(1);
        if let Some(thread) = self.thread.lock().expect("no holder of the thread panics").as_ref() {
            thread.unpark();
        }
    }
}

/// A hard real-time executor; its threads end when it is dropped.
pub struct Executor {
    way: Arc<Way>,
    cells: Cells,
    /// What is to be woken when something was put or asked for.
    collector: Thread,
}

/// A task that was put.
pub struct Placed {
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
        let (commands, taken) = rtrb::RingBuffer::new(COMMANDS);
        let (told, reports) = rtrb::RingBuffer::new(REPORTS);
        let cells: Cells = Arc::new(Mutex::new(vec![None; PLACES]));
        let watchdog = Watchdog::start(config.ladder, config.core, config.interrupt.clone())?;
        let way =
            Arc::new(Way { commands: Mutex::new(commands), thread: Mutex::default(), watchdog: watchdog.clone() });
        let to_executor = way.clone();
        let commands = Arc::new(move |told| to_executor.tell(told));
        let collector = Collector { reports, cells: cells.clone(), commands, leftover: config.leftover.clone() };
        let collecting = spawn("hrt-reports", config.ladder, Level::Normal, None, move || collector.run())?;
        let collector = collecting.thread().clone();
        let sentinel = Sentinel::start(config.ladder, config.core)?;
        let running = Running {
            schedule: Schedule::new(config.policy, PLACES),
            tasks: (0..PLACES).map(|_| None).collect(),
            commands: taken,
            reports: told,
            collector: collector.clone(),
            watchdog,
            sentinel,
            stalls: Stalls::default(),
            faults: 0,
            stolen_ns: 0,
            unjudged: Vec::with_capacity(UNJUDGED),
            leaving: Vec::with_capacity(PLACES),
            stopped: false,
        };
        let thread = spawn("hrt-executor", config.ladder, config.level, config.core, move || running.run())?;
        *way.thread.lock().expect("no holder of the thread panics") = Some(thread.thread().clone());
        Ok(Executor { way, cells, collector })
    }

    /// Puts a task that was admitted; its first job is released shortly after.
    ///
    /// # Errors
    /// See [`PutError`].
    pub fn put(
        &self,
        params: Params,
        on_overrun: OnOverrun,
        template: Arc<dyn Template>,
        inputs: Vec<Input>,
        outputs: Vec<Arc<Signal>>,
    ) -> Result<Placed, PutError> {
        let fiber = template.make().map_err(PutError::Make)?;
        let cell = Arc::new(AgentCell::new(template, params, on_overrun, inputs, outputs));
        let place = self.seat(params, fiber, cell.clone())?;
        Ok(Placed { place, cell })
    }

    fn seat(&self, params: Params, fiber: Box<dyn Fiber>, cell: Arc<AgentCell>) -> Result<usize, PutError> {
        let place = {
            let mut cells = self.cells.lock().expect("no holder of the cells panics");
            let place = cells.iter().position(Option::is_none).ok_or(PutError::Full)?;
            cells[place] = Some(cell.clone());
            place
        };
        self.way.tell(Command::Put { place, params, fiber, cell });
        self.collector.unpark();
        Ok(place)
    }

    /// Asks for a job of a sporadic task.
    pub fn arrive(&self, place: usize) {
        self.way.tell(Command::Arrive { place });
    }

    /// Takes a task away; it runs no more when this returns.
    pub async fn take(&self, place: usize) {
        let (done, taken) = tokio::sync::oneshot::channel();
        self.way.tell(Command::Take { place, done });
        // An executor that is gone runs nothing either.
        let _ = taken.await;
        self.cells.lock().expect("no holder of the cells panics")[place] = None;
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.way.tell(Command::Stop);
    }
}

/// One task, on the executor's own thread.
struct Task {
    fiber: Option<Box<dyn Fiber>>,
    cell: Arc<AgentCell>,
    params: Params,
    first_ns: u64,
}

/// What the executor's thread works on. Nothing in it waits for another thread but for its own next job.
struct Running {
    schedule: Schedule,
    tasks: Vec<Option<Task>>,
    commands: rtrb::Consumer<Command>,
    reports: rtrb::Producer<Report>,
    collector: Thread,
    watchdog: Watchdog,
    sentinel: Sentinel,
    stalls: Stalls,
    /// Page faults of this thread so far.
    faults: u64,
    /// Time in which a job was to run and the processor did not, beyond what the sentinel saw; since the job before.
    stolen_ns: u64,
    unjudged: Vec<(usize, JobRecord, Values)>,
    leaving: Vec<(usize, tokio::sync::oneshot::Sender<()>)>,
    stopped: bool,
}

impl Running {
    fn run(mut self) {
        while !self.stopped {
            while let Ok(command) = self.commands.pop() {
                self.obey(command);
            }
            let now = now_ns();
            self.look();
            self.judge(now);
            self.leave();
            self.release(now);
            match self.schedule.choose(now) {
                Some(place) => self.step(place, now),
                None => self.rest(now),
            }
        }
        self.watchdog.stop();
        self.report(Report::Stopped, true);
    }

    /// Until the next release, or until it is told something.
    fn rest(&mut self, now: u64) {
        let next = self.schedule.next_release(now).unwrap_or(u64::MAX);
        let next = if self.unjudged.is_empty() { next } else { next.min(now + JUDGE_NS) };
        self.watchdog.rest();
        if !self.commands.is_empty() {
            return;
        }
        match next {
            u64::MAX => std::thread::park(),
            next => std::thread::park_timeout(std::time::Duration::from_nanos(next.saturating_sub(now_ns()))),
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Put { place, params, fiber, cell } => {
                let first_ns = now_ns() + FIRST_NS;
                self.schedule.put(place, params, if params.periodic { first_ns } else { 0 });
                self.tasks[place] = Some(Task { fiber: Some(fiber), cell, params, first_ns });
                self.sentinel.wanted(true);
            }
            Command::Renew { place, fiber } => {
                if let Some(task) = self.tasks[place].as_mut() {
                    task.fiber = Some(fiber);
                    self.schedule.set_ready(place, true);
                }
            }
            Command::Arrive { place } => {
                // One that is refused is never told of: whoever waits for it gives up.
                let _ = self.schedule.arrive(place, now_ns());
            }
            Command::Rest { place } => self.schedule.take(place),
            Command::Take { place, done } => {
                self.schedule.take(place);
                self.leaving.push((place, done));
            }
            Command::Stop => self.stopped = true,
        }
    }

    /// Tasks that were taken away leave when all their misses are judged.
    fn leave(&mut self) {
        while let Some(at) =
            self.leaving.iter().position(|(place, _)| !self.unjudged.iter().any(|(unjudged, ..)| unjudged == place))
        {
            let (place, done) = self.leaving.swap_remove(at);
            let taken = self.tasks[place].take();
            let (fiber, cell) = taken.map_or((None, None), |task| (task.fiber, Some(task.cell)));
            self.report(Report::Taken(fiber, cell, done), true);
            self.sentinel.wanted(self.tasks.iter().any(Option::is_some));
        }
    }

    fn release(&mut self, now: u64) {
        let Running { schedule, tasks, unjudged, .. } = self;
        schedule.release(now, |place, job| {
            if let Some(task) = &tasks[place] {
                let record = ended(&job, now, Outcome::Expired);
                tally(task, &record);
                if unjudged.len() < UNJUDGED {
                    unjudged.push((place, record, [0.0; SIGNALS_MAX]));
                }
            }
        });
    }

    /// Runs one job until it ends or is interrupted.
    fn step(&mut self, place: usize, now: u64) {
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
                task.cell.tally.fallbacks.fetch_add(1, Ordering::Relaxed);
            }
            fiber.begin(&inputs, job.release_ns.saturating_sub(task.first_ns) / 1_000);
        }
        self.watchdog.set(until);
        if !self.commands.is_empty() {
            // Told meanwhile: perhaps of something more urgent.
            return;
        }
        let (begun, ran, (_, waits)) = (now_ns(), ran_ns(), faults_and_waits());
        let progress = fiber.resume();
        let ran = ran_ns().saturating_sub(ran);
        let end = now_ns();
        self.watchdog.rest();
        self.look();
        // A job is charged what it ran: neither stalls that the sentinel saw, from its look before on, nor time in which
        // the processor was taken away in slices too short for it to see. Where it waited of its own accord, it is
        // charged all of it. What is charged decides who is stopped, not which misses are explained.
        let awake = (end - now).saturating_sub(self.stalls.possibly_within(now, end, LOOK_NS));
        let used = match awake.min(ran.saturating_add(begun - now)) {
            ran if awake - ran > NOTICED_NS && faults_and_waits().1 == waits => ran,
            _ => awake,
        };
        self.stolen_ns = self.stolen_ns.saturating_add(awake - used);
        let spent = self.schedule.charge(place, used);
        match progress {
            Progress::Done => self.end(place, end, Outcome::Done),
            Progress::Interrupted if spent => {
                if let (Some(task), Some(job)) = (&self.tasks[place], self.schedule.job(place)) {
                    task.cell.tally.stop.add(job.used_ns.saturating_sub(task.params.budget_ns));
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
            // A job that did not end changes nothing: the last good value stays.
            task.cell.outputs.iter().zip(&outputs).for_each(|(signal, value)| signal.set(*value, now));
        }
        tally(task, &record);
        if record.missed && self.unjudged.len() < UNJUDGED {
            self.unjudged.push((place, record, outputs));
        } else {
            self.tell(place, record, outputs);
        }
    }

    /// A fiber that can run no more is dropped, and made anew, on another thread.
    fn retire(&mut self, place: usize, why: Option<String>) {
        self.schedule.set_ready(place, false);
        if let Some(fiber) = self.tasks[place].as_mut().and_then(|task| task.fiber.take()) {
            self.report(Report::Retired(place, fiber, why), true);
        }
    }

    /// Takes what the sentinel saw.
    fn look(&mut self) {
        while let Some((from, to)) = self.sentinel.stall() {
            self.stalls.push(from, to);
        }
    }

    /// Misses are judged once the sentinel has looked past their end.
    fn judge(&mut self, now: u64) {
        let seen = self.sentinel.seen_ns();
        let mut at = 0;
        while at < self.unjudged.len() {
            let (place, mut record, outputs) = self.unjudged[at];
            if seen < record.end_ns && now < record.end_ns + JUDGE_NS {
                at += 1;
                continue;
            }
            self.unjudged.swap_remove(at);
            let Some(task) = &self.tasks[place] else { continue };
            record.stalled_ns = self.stalls.within(record.release_ns, record.end_ns);
            let over = (record.end_ns - record.release_ns).saturating_sub(task.params.deadline_ns);
            record.explained = match record.outcome {
                Outcome::Done => record.stalled_ns >= over,
                // It would have had to run as well.
                Outcome::Expired => record.stalled_ns >= over + task.params.budget_ns,
                Outcome::Overrun | Outcome::Failed => false,
            };
            if record.explained {
                task.cell.tally.explained.fetch_add(1, Ordering::Relaxed);
            }
            self.tell(place, record, outputs);
        }
    }

    fn tell(&mut self, place: usize, record: JobRecord, outputs: Values) {
        let watched = self.tasks[place].as_ref().is_some_and(|task| task.cell.watched.load(Ordering::Acquire) > 0);
        if watched {
            self.report(Report::Job(place, record, outputs), true);
        }
    }

    fn report(&mut self, report: Report, wake: bool) {
        // With no room left a record is lost, which a listener takes for being late; what must be dropped is dropped
        // here, which takes time that nobody admitted, rather than kept for ever.
        drop(self.reports.push(report));
        if wake {
            self.collector.unpark();
        }
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
    }
}

fn tally(task: &Task, record: &JobRecord) {
    let tally = &task.cell.tally;
    tally.jobs.fetch_add(1, Ordering::Relaxed);
    tally.lateness.add(record.noticed_ns.saturating_sub(record.release_ns));
    if record.missed {
        tally.missed.fetch_add(1, Ordering::Relaxed);
    }
    match record.outcome {
        Outcome::Done => tally.response.add(record.end_ns - record.release_ns),
        Outcome::Overrun => drop(tally.overruns.fetch_add(1, Ordering::Relaxed)),
        Outcome::Failed => drop(tally.failures.fetch_add(1, Ordering::Relaxed)),
        Outcome::Expired => {}
    }
}
