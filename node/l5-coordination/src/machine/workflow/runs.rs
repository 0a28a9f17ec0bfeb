//! All runs of a group that are not forgotten, with their indexes and bounds.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::PublisherId;
use althing_protocol::group::{Approve, Author, RunWorkflow, WorkId};

use super::super::outcome::Refusal;
use super::super::shares::{Ledger, Moment, Sharers};
use super::super::work::{Finished, Work};
use super::engine::Engine;
use super::run::{RUNS_BYTES_MAX, Run, RunState, StepState, Whose};

/// Runs that have not ended.
pub const RUNS_UNFINISHED_MAX: usize = 1_024;
/// Runs that ended and are kept.
pub const RUNS_FINISHED_MAX: usize = 256;
/// Of the bytes of all runs, those that only results may use, so that runs can go on when no more can begin.
const RESULTS_RESERVED: usize = 4 << 20;

/// Where the task of a run belongs.
type Place = (WorkId, usize, usize);

/// What a schedule hears of its run: its name, when it was made, and whether the run completed.
pub(super) type Report = (String, u64, bool);

/// The runs of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runs {
    by_id: BTreeMap<WorkId, Run>,
    tasks: BTreeMap<WorkId, Place>,
    due: BTreeSet<(u64, WorkId)>,
    /// Those of each owner that ended, in that order.
    finished: BTreeMap<PublisherId, BTreeSet<(u64, WorkId)>>,
    /// How many of these each owner has, and the bytes of all of its runs.
    finished_count: Ledger,
    bytes: Ledger,
    /// How many each owner has that have not ended, and their bytes.
    unfinished: Ledger,
    unfinished_bytes: Ledger,
    /// Runs that began so far.
    pub(super) begun: u64,
    /// Runs that ended so far.
    pub(super) ended: u64,
    /// What schedules were not told yet.
    pub(super) reports: Vec<Report>,
}

impl Runs {
    /// The run of that id.
    #[must_use]
    pub fn get(&self, id: &WorkId) -> Option<&Run> {
        self.by_id.get(id)
    }

    /// All runs, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        self.by_id.values()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Their bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.sum()
    }

    /// The run that a task is of.
    #[must_use]
    pub fn of_task(&self, task: &WorkId) -> Option<&Run> {
        self.by_id.get(&self.tasks.get(task)?.0)
    }

    /// The runs of a schedule, by its name and when it was made, that have not ended; by id.
    pub(super) fn running_of(&self, schedule: &(String, u64)) -> Vec<WorkId> {
        let of = |run: &&Run| run.state == RunState::Running && run.schedule.as_ref() == Some(schedule);
        self.by_id.values().filter(of).map(|run| run.id).collect()
    }

    /// When a question ends unanswered next, Unix milliseconds.
    #[must_use]
    pub fn next_expiry_ms(&self) -> Option<u64> {
        self.due.first().map(|(due_ms, _)| *due_ms)
    }

    fn known(&self, id: &WorkId) -> Result<&Run, Refusal> {
        self.by_id.get(id).ok_or(Refusal::UnknownRun(*id))
    }

    /// Begins a run; its number.
    pub(super) fn begin(
        &mut self,
        work: &mut Work,
        command: &RunWorkflow,
        whose: Whose,
        schedule: Option<(String, u64)>,
        moment: Moment<'_>,
    ) -> Result<u64, Refusal> {
        if let Some(known) = self.by_id.get(&command.run) {
            return Err(Refusal::RunState { run: command.run, state: known.state });
        }
        let run = Run { schedule, ..Run::new(command, whose, self.begun.saturating_add(1), moment.now_ms) };
        self.check_room(&run, moment.sharers)?;
        self.begun = self.begun.saturating_add(1);
        let (id, number) = (run.id, run.number);
        self.add(run);
        self.change(work, id, moment, |engine, run| engine.proceed(run));
        Ok(number)
    }

    /// Lets a run that failed go on.
    pub(super) fn resume(&mut self, work: &mut Work, id: WorkId, moment: Moment<'_>) -> Result<(), Refusal> {
        let run = self.known(&id)?;
        if run.state != RunState::Failed {
            return Err(Refusal::RunState { run: id, state: run.state });
        }
        self.check_room(run, moment.sharers)?;
        self.change(work, id, moment, |engine, run| engine.resume(run));
        Ok(())
    }

    /// A run is not wanted any more.
    pub(super) fn cancel(
        &mut self,
        work: &mut Work,
        id: WorkId,
        author: Author,
        moment: Moment<'_>,
    ) -> Result<(), Refusal> {
        let run = self.known(&id)?;
        if !matches!(run.state, RunState::Running | RunState::Failed) {
            return Err(Refusal::RunState { run: id, state: run.state });
        }
        self.change(work, id, moment, |engine, run| engine.cancel(run, author));
        Ok(())
    }

    /// Somebody answers what a step asks.
    pub(super) fn approve(
        &mut self,
        work: &mut Work,
        approve: &Approve,
        author: Author,
        moment: Moment<'_>,
    ) -> Result<(), Refusal> {
        let run = self.known(&approve.run)?;
        let asked = |at: &usize| run.steps[*at].state == StepState::Asking && run.steps[*at].round == approve.round;
        let at = run.workflow.place(&approve.step).filter(asked);
        let at = at.ok_or_else(|| Refusal::NotAsked(approve.step.clone()))?;
        self.change(work, approve.run, moment, |engine, run| engine.answer(run, at, approve, author));
        Ok(())
    }

    /// A task ended; it may be one of a run.
    pub(super) fn note(&mut self, work: &mut Work, finished: Finished, moment: Moment<'_>) {
        let Some((id, at, number)) = self.tasks.get(&finished.task).copied() else { return };
        self.change(work, id, moment, |engine, run| {
            engine.note(run, (at, number), finished);
            engine.proceed(run);
        });
    }

    /// Time passes: questions end unanswered.
    pub(super) fn expire(&mut self, work: &mut Work, moment: Moment<'_>) {
        while let Some((due_ms, id)) = self.due.first().copied()
            && due_ms <= moment.now_ms
        {
            self.change(work, id, moment, |engine, run| engine.expire(run));
        }
    }

    /// Whether a run may be one of the runs that have not ended.
    fn check_room(&self, run: &Run, sharers: Sharers<'_>) -> Result<(), Refusal> {
        self.unfinished.check(&run.owner, 1, RUNS_UNFINISHED_MAX, sharers, "runs that have not ended")?;
        let most = RUNS_BYTES_MAX - RESULTS_RESERVED;
        self.unfinished_bytes.check(&run.owner, run.bytes(), most, sharers, "bytes of runs that have not ended")
    }

    /// Changes a run, and the indexes with it.
    fn change(
        &mut self,
        work: &mut Work,
        id: WorkId,
        moment: Moment<'_>,
        change: impl FnOnce(&mut Engine<'_>, &mut Run),
    ) {
        let Some(mut run) = self.remove(id) else { return };
        let before = run.ended;
        change(&mut Engine { work, moment, others: &self.unfinished_bytes }, &mut run);
        if run.state != RunState::Running && run.ended.is_none() {
            run.ended = Some((self.ended, moment.now_ms));
            self.ended = self.ended.saturating_add(1);
        }
        if let Some((name, since_ms)) = &run.schedule
            && run.ended != before
            && matches!(run.state, RunState::Completed | RunState::Failed)
        {
            self.reports.push((name.clone(), *since_ms, run.state == RunState::Completed));
        }
        self.add(run);
        self.make_room();
    }

    /// Forgets runs that ended until their number and the bytes of all are within the limits.
    fn make_room(&mut self) {
        while let Some(id) = self.surplus() {
            self.remove(id);
        }
    }

    /// The run that is forgotten next, if there are too many, or all have too many bytes: the first that ended of the owner
    /// that has most of what is too much, so that nobody's runs end the memory of another one's.
    fn surplus(&self) -> Option<WorkId> {
        let too_much = if self.finished_count.sum() > RUNS_FINISHED_MAX {
            &self.finished_count
        } else if self.bytes.sum() > RUNS_BYTES_MAX {
            &self.bytes
        } else {
            return None;
        };
        let owner = too_much.largest(|owner| self.finished.contains_key(owner))?;
        self.finished.get(&owner)?.first().map(|(_, id)| *id)
    }

    /// Adds a run of a command or of a snapshot.
    pub(super) fn add(&mut self, run: Run) {
        let (id, bytes) = (run.id, run.bytes());
        self.bytes.add(run.owner, bytes);
        match run.ended {
            Some((order, _)) => {
                self.finished.entry(run.owner).or_default().insert((order, id));
                self.finished_count.add(run.owner, 1);
            }
            None => {
                self.unfinished.add(run.owner, 1);
                self.unfinished_bytes.add(run.owner, bytes);
            }
        }
        self.due.extend(run.due_ms().map(|due_ms| (due_ms, id)));
        self.tasks.extend(run.open().map(|(at, number, task)| (task, (id, at, number))));
        self.by_id.insert(id, run);
    }

    /// Removes a run, as it was added.
    fn remove(&mut self, id: WorkId) -> Option<Run> {
        let run = self.by_id.remove(&id)?;
        let bytes = run.bytes();
        self.bytes.remove(&run.owner, bytes);
        match run.ended {
            Some((order, _)) => {
                self.finished_count.remove(&run.owner, 1);
                if let Some(ended) = self.finished.get_mut(&run.owner) {
                    ended.remove(&(order, id));
                    if ended.is_empty() {
                        self.finished.remove(&run.owner);
                    }
                }
            }
            None => {
                self.unfinished.remove(&run.owner, 1);
                self.unfinished_bytes.remove(&run.owner, bytes);
            }
        }
        if let Some(due_ms) = run.due_ms() {
            self.due.remove(&(due_ms, id));
        }
        for (_, _, task) in run.open() {
            self.tasks.remove(&task);
        }
        Some(run)
    }
}
