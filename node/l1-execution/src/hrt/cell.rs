//! What is known of one agent's jobs: shared by its executor, the collector and those who ask.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use althing_protocol::contract::OnOverrun;
use tokio::sync::broadcast;

use super::counters::JobCounters;
use super::fiber::{Template, Values};
use super::machine::Params;
use super::signals::{Input, OutputSignal};
use crate::realtime::now_ns;

/// Job records that are queued for a slow subscriber.
const RECORDS: usize = 256;

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// By itself.
    Done,
    /// It was stopped at the end of its budget.
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
    /// When the executor noticed the release.
    pub noticed_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// How long it ran.
    pub used_ns: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether it missed its deadline.
    pub missed: bool,
    /// Whether stalls of the machine account for the miss.
    pub explained: bool,
    /// Stalls of the machine between release and end.
    pub stalled_ns: u64,
    /// Processor time that was stolen from running jobs since the previous job ended, in slices too short for the sentinel
    /// to see.
    pub stolen_ns: u64,
    /// Page faults of the executor since the previous job: there should be none.
    pub faults: u64,
    /// The places of outputs that broke their limits and were not shown, a bit for each.
    pub out_of_limits: u32,
}

/// The state of an agent on its executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// Its jobs run.
    Running,
    /// It exceeded its budget, and its contract says that it is suspended then.
    Suspended,
    /// It exceeded its budget, and its contract says that it runs on without a guarantee then.
    Degraded,
    /// Its code could not be instantiated again.
    Broken,
}

impl RunState {
    const ALL: [RunState; 4] = [RunState::Running, RunState::Suspended, RunState::Degraded, RunState::Broken];
}

/// What is known of one agent's jobs, shared with those who ask.
pub struct AgentCell {
    /// How they ended.
    pub counters: JobCounters,
    state: AtomicU8,
    /// The reason for its state.
    why: Mutex<String>,
    ended: AtomicBool,
    pub(super) watched: AtomicU32,
    pub(super) records: broadcast::Sender<(JobRecord, Values)>,
    pub(super) on_overrun: OnOverrun,
    pub(super) params: Params,
    pub(super) template: Arc<dyn Template>,
    /// Its place on the best-effort executor.
    pub(super) best_effort: Mutex<Option<usize>>,
    /// Kept for the best-effort executor.
    pub(super) inputs: Vec<Input>,
    pub(super) outputs: Vec<OutputSignal>,
}

impl AgentCell {
    pub(super) fn new(
        template: Arc<dyn Template>,
        params: Params,
        on_overrun: OnOverrun,
        inputs: Vec<Input>,
        outputs: Vec<OutputSignal>,
    ) -> AgentCell {
        AgentCell {
            counters: JobCounters::default(),
            state: AtomicU8::new(0),
            why: Mutex::default(),
            ended: AtomicBool::new(false),
            watched: AtomicU32::new(0),
            records: broadcast::Sender::new(RECORDS),
            on_overrun,
            params,
            template,
            best_effort: Mutex::new(None),
            inputs,
            outputs,
        }
    }

    /// Marks the agent as removed: no more jobs will run.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Checks that another job may run.
    ///
    /// # Errors
    /// Why none will.
    pub fn check_running(&self) -> Result<(), String> {
        if self.ended.load(Ordering::Acquire) {
            return Err("it was stopped".to_owned());
        }
        match self.run_state() {
            (RunState::Suspended | RunState::Broken, why) => Err(why),
            (RunState::Running | RunState::Degraded, _) => Ok(()),
        }
    }

    /// Sets the input signal at that index.
    pub fn input(&self, place: usize, value: f64) {
        if let Some(input) = self.inputs.get(place) {
            input.signal.set(value, now_ns());
        }
    }

    /// Its state, and the reason for it.
    #[must_use]
    pub fn run_state(&self) -> (RunState, String) {
        let state = RunState::ALL[usize::from(self.state.load(Ordering::Acquire)) % RunState::ALL.len()];
        (state, self.why.lock().map(|why| why.clone()).unwrap_or_default())
    }

    pub(super) fn set_run_state(&self, state: RunState, reason: &str) {
        if let Ok(mut why) = self.why.lock() {
            reason.clone_into(&mut why);
        }
        self.state.store(state as u8, Ordering::Release);
    }

    /// Subscribes to the jobs that end from now on, with their outputs.
    #[must_use]
    pub fn watch(self: &Arc<AgentCell>) -> Watch {
        self.watched.fetch_add(1, Ordering::AcqRel);
        Watch { records: self.records.subscribe(), cell: self.clone() }
    }
}

/// A subscription to the jobs of one agent.
pub struct Watch {
    records: broadcast::Receiver<(JobRecord, Values)>,
    cell: Arc<AgentCell>,
}

impl Watch {
    /// The next job that ends; none when the agent is gone. A slow subscriber misses some.
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
