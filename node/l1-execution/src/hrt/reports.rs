//! What an executor tells, and the ordinary thread that takes it: wakes who waits, drops what is used up, makes anew.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use althing_protocol::contract::OnOverrun;
use tokio::sync::broadcast;

use super::executor::{Command, Leftover};
use super::fiber::{Fiber, Template, Values};
use super::machine::Params;
use super::signals::{Input, Signal};
use super::tally::Tally;
use crate::realtime::now_ns;

/// Job records that a slow listener may be behind.
const RECORDS: usize = 256;

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// By itself.
    Done,
    /// It was stopped when its budget was used up.
    Overrun,
    /// It failed.
    Failed,
    /// It was not begun: its deadline had passed.
    Expired,
}

/// One job, after it ended. Nanoseconds of the machine's monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobRecord {
    /// In the order of release, from 0.
    pub number: u64,
    /// When it was released.
    pub release_ns: u64,
    /// When the executor saw that.
    pub noticed_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// How long it ran.
    pub used_ns: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether it was done by its deadline.
    pub missed: bool,
    /// Whether it missed it because the machine stood still.
    pub explained: bool,
    /// How long the machine stood still between release and end.
    pub stalled_ns: u64,
    /// How long the processor was taken away from running jobs, in slices too short for the sentinel to see; since the
    /// job before ended.
    pub stolen_ns: u64,
    /// Page faults of the executor since the job before: there should be none.
    pub faults: u64,
}

/// How an agent stands with its executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Its jobs run.
    Running,
    /// It took more than its budget, and its contract says that it runs no more.
    Suspended,
    /// It took more than its budget, and its contract says that it runs on without a promise.
    Degraded,
    /// It could not be made anew.
    Broken,
}

impl Standing {
    const ALL: [Standing; 4] = [Standing::Running, Standing::Suspended, Standing::Degraded, Standing::Broken];
}

/// What is known of one agent's jobs, shared with those who ask.
pub struct AgentCell {
    /// What they came to.
    pub tally: Tally,
    standing: AtomicU8,
    /// Why it stands as it does.
    why: Mutex<String>,
    ended: AtomicBool,
    pub(super) watched: AtomicU32,
    records: broadcast::Sender<(JobRecord, Values)>,
    on_overrun: OnOverrun,
    pub(super) params: Params,
    pub(super) template: Arc<dyn Template>,
    /// Its place among those that run without a promise.
    pub(super) leftover: Mutex<Option<usize>>,
    /// Handed the agent when it runs on without a promise.
    pub(super) inputs: Vec<Input>,
    pub(super) outputs: Vec<Arc<Signal>>,
}

impl AgentCell {
    pub(super) fn new(
        template: Arc<dyn Template>,
        params: Params,
        on_overrun: OnOverrun,
        inputs: Vec<Input>,
        outputs: Vec<Arc<Signal>>,
    ) -> AgentCell {
        AgentCell {
            tally: Tally::default(),
            standing: AtomicU8::new(0),
            why: Mutex::default(),
            ended: AtomicBool::new(false),
            watched: AtomicU32::new(0),
            records: broadcast::Sender::new(RECORDS),
            on_overrun,
            params,
            template,
            leftover: Mutex::new(None),
            inputs,
            outputs,
        }
    }

    /// There will be no more jobs: it was taken away.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Whether there may be another job, and if not why.
    ///
    /// # Errors
    /// Why there will be none.
    pub fn goes_on(&self) -> Result<(), String> {
        if self.ended.load(Ordering::Acquire) {
            return Err("it was stopped".to_owned());
        }
        match self.standing() {
            (Standing::Suspended | Standing::Broken, why) => Err(why),
            (Standing::Running | Standing::Degraded, _) => Ok(()),
        }
    }

    /// Sets the signal that its jobs read at that place.
    pub fn input(&self, place: usize, value: f64) {
        if let Some(input) = self.inputs.get(place) {
            input.signal.set(value, now_ns());
        }
    }

    /// How it stands, and why.
    #[must_use]
    pub fn standing(&self) -> (Standing, String) {
        let standing = Standing::ALL[usize::from(self.standing.load(Ordering::Acquire)) % Standing::ALL.len()];
        (standing, self.why.lock().map(|why| why.clone()).unwrap_or_default())
    }

    pub(super) fn stand(&self, standing: Standing, reason: &str) {
        if let Ok(mut why) = self.why.lock() {
            reason.clone_into(&mut why);
        }
        self.standing.store(standing as u8, Ordering::Release);
    }

    /// Every job that ends from now on, and what it wrote.
    #[must_use]
    pub fn watch(self: &Arc<AgentCell>) -> Watch {
        self.watched.fetch_add(1, Ordering::AcqRel);
        Watch { records: self.records.subscribe(), cell: self.clone() }
    }
}

/// Somebody who is told of each job.
pub struct Watch {
    records: broadcast::Receiver<(JobRecord, Values)>,
    cell: Arc<AgentCell>,
}

impl Watch {
    /// The next job that ends; nothing when there will be none. Who is too slow misses some.
    pub async fn next(&mut self) -> Option<(JobRecord, Values)> {
        loop {
            match self.records.recv().await {
                Ok(record) => return Some(record),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.cell.watched.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What leaves an executor.
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation on the executor's thread")]
pub(super) enum Report {
    /// A job ended.
    Job(usize, JobRecord, Values),
    /// A fiber can run no more.
    Retired(usize, Box<dyn Fiber>, Option<String>),
    /// A task was taken away, with what is left of it.
    Taken(Option<Box<dyn Fiber>>, Option<Arc<AgentCell>>, tokio::sync::oneshot::Sender<()>),
    /// The executor is told to stop.
    Stopped,
}

/// Takes what executors tell.
pub(super) struct Collector {
    pub reports: rtrb::Consumer<Report>,
    pub cells: Arc<Mutex<Vec<Option<Arc<AgentCell>>>>>,
    /// How the executor is told.
    pub commands: Arc<dyn Fn(Command) + Send + Sync>,
    /// Where agents go on that lost their promise; none: they go on here.
    pub leftover: Option<Arc<Leftover>>,
}

impl Collector {
    /// Until the executor stops.
    pub fn run(mut self) {
        loop {
            match self.reports.pop() {
                Ok(Report::Stopped) => return,
                Ok(report) => self.take(report),
                // Between two looks records wait in the ring; who waits for one has this thread woken.
                Err(_) if self.idle() => std::thread::park(),
                Err(_) => std::thread::park_timeout(std::time::Duration::from_millis(10)),
            }
        }
    }

    fn idle(&self) -> bool {
        self.cells.lock().map(|cells| cells.iter().all(Option::is_none)).unwrap_or(true)
    }

    fn cell(&self, place: usize) -> Option<Arc<AgentCell>> {
        self.cells.lock().ok().and_then(|cells| cells.get(place).cloned().flatten())
    }

    fn take(&self, report: Report) {
        match report {
            Report::Job(place, record, outputs) => {
                if let Some(cell) = self.cell(place) {
                    // Nobody may be listening.
                    let _ = cell.records.send((record, outputs));
                }
            }
            Report::Retired(place, fiber, failed) => {
                drop(fiber);
                if let Some(cell) = self.cell(place) {
                    self.renew(place, &cell, failed.as_deref());
                }
            }
            Report::Taken(fiber, cell, done) => {
                drop((fiber, cell));
                let _ = done.send(());
            }
            Report::Stopped => {}
        }
    }

    /// After an over-run or a failure: what the contract says.
    fn renew(&self, place: usize, cell: &Arc<AgentCell>, failed: Option<&str>) {
        match (failed, cell.on_overrun) {
            (None, OnOverrun::Suspend) => {
                cell.stand(Standing::Suspended, "it took more than its budget");
                (self.commands)(Command::Rest { place });
            }
            (None, OnOverrun::Degrade) if self.leftover.is_some() => {
                (self.commands)(Command::Rest { place });
                let leftover = self.leftover.as_ref().map(|leftover| leftover.run(cell));
                match leftover {
                    Some(Err(reason)) => cell.stand(Standing::Broken, &reason),
                    _ => cell.stand(Standing::Degraded, "it took more than its budget, and runs on without a promise"),
                }
            }
            (why, _) => match cell.template.make() {
                Ok(fiber) => {
                    if let Some(why) = why {
                        cell.stand(Standing::Running, why);
                    }
                    (self.commands)(Command::Renew { place, fiber });
                }
                Err(reason) => {
                    cell.stand(Standing::Broken, &reason);
                    (self.commands)(Command::Rest { place });
                }
            },
        }
    }
}
