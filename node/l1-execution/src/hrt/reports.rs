//! What an executor reports, and the ordinary thread that collects it: it wakes subscribers, drops used fibers and makes new
//! ones.

use std::sync::{Arc, Mutex};

use althing_protocol::contract::OnOverrun;

use super::cell::{AgentCell, JobRecord, RunState};
use super::command::Command;
use super::fiber::{Fiber, Values};

/// A report of an executor.
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation on the executor's thread")]
pub(super) enum Report {
    /// A job ended.
    Job(usize, JobRecord, Values),
    /// A fiber that cannot run again.
    Retired(usize, Box<dyn Fiber>, Option<String>),
    /// A task was removed; its remains are dropped here.
    Removed(Option<Box<dyn Fiber>>, Option<Arc<AgentCell>>, tokio::sync::oneshot::Sender<()>),
    /// The executor stopped.
    Stopped,
}

/// Runs an agent on without a guarantee.
pub(super) type Degrade = Box<dyn Fn(&Arc<AgentCell>) -> Result<(), String> + Send>;

/// Collects the reports of one executor.
pub(super) struct Collector {
    pub reports: rtrb::Consumer<Report>,
    pub cells: Arc<Mutex<Vec<Option<Arc<AgentCell>>>>>,
    /// Sends commands to the executor.
    pub commands: Box<dyn Fn(Command) + Send>,
    /// Moves degraded agents to the best-effort executor; none: they stay here.
    pub degrade: Option<Degrade>,
}

impl Collector {
    /// Until the executor stops.
    pub fn run(mut self) {
        loop {
            match self.reports.pop() {
                Ok(Report::Stopped) => return,
                Ok(report) => self.handle(report),
                // Records wait in the ring until the next poll; a subscriber that waits for one wakes this thread.
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

    fn handle(&self, report: Report) {
        match report {
            Report::Job(place, record, outputs) => {
                if let Some(cell) = self.cell(place) {
                    // There may be no subscriber.
                    let _ = cell.records.send((record, outputs));
                }
            }
            Report::Retired(place, fiber, failed) => {
                drop(fiber);
                if let Some(cell) = self.cell(place) {
                    self.apply_overrun_policy(place, &cell, failed.as_deref());
                }
            }
            Report::Removed(fiber, cell, done) => {
                drop((fiber, cell));
                let _ = done.send(());
            }
            Report::Stopped => {}
        }
    }

    /// Applies the contract after an overrun or a failure.
    fn apply_overrun_policy(&self, place: usize, cell: &Arc<AgentCell>, failed: Option<&str>) {
        match (failed, cell.on_overrun) {
            (None, OnOverrun::Suspend) => {
                cell.set_run_state(RunState::Suspended, "it exceeded its budget");
                (self.commands)(Command::Suspend { place });
            }
            (None, OnOverrun::Degrade) if self.degrade.is_some() => {
                (self.commands)(Command::Suspend { place });
                match self.degrade.as_ref().map(|degrade| degrade(cell)) {
                    Some(Err(reason)) => cell.set_run_state(RunState::Broken, &reason),
                    _ => cell
                        .set_run_state(RunState::Degraded, "it exceeded its budget, and runs on without a guarantee"),
                }
            }
            (why, _) => match cell.template.make() {
                Ok(fiber) => {
                    if let Some(why) = why {
                        cell.set_run_state(RunState::Running, why);
                    }
                    (self.commands)(Command::ReplaceFiber { place, fiber });
                }
                Err(reason) => {
                    cell.set_run_state(RunState::Broken, &reason);
                    (self.commands)(Command::Suspend { place });
                }
            },
        }
    }
}
