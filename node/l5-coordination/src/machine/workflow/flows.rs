//! The workflows of a group beside its tasks: who may give which command about them, and what follows from the end of a task.

use althing_protocol::group::{Author, Command, Fire, Overlap, WorkId};

use super::super::outcome::Refusal;
use super::super::shares::Moment;
use super::super::work::{Asker, Work};
use super::run::{Run, RunState, StepState};
use super::runs::Runs;
use super::schedules::{Scheduled, Schedules};

/// The runs and the schedules of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flows {
    pub(super) runs: Runs,
    pub(super) schedules: Schedules,
}

impl Flows {
    /// The runs.
    #[must_use]
    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// The schedules.
    #[must_use]
    pub fn schedules(&self) -> &Schedules {
        &self.schedules
    }

    /// The oldest run of a schedule that waits for somebody's approval, and the id of the step that asks. It has not ended, so with
    /// [`Overlap::Skip`] times pass until somebody answers.
    #[must_use]
    pub fn asking(&self, scheduled: &Scheduled) -> Option<(&Run, &str)> {
        let is_of = |run: &&Run| {
            let of = run.schedule.as_ref();
            of.is_some_and(|(name, since_ms)| *name == scheduled.schedule.name && *since_ms == scheduled.since_ms)
        };
        let running = self.runs.iter().filter(|run| run.state == RunState::Running).filter(is_of);
        let asking = running.filter_map(|run| {
            let mut steps = run.workflow.steps.iter().zip(&run.steps);
            let (step, _) = steps.find(|(_, now)| now.state == StepState::Asking)?;
            Some((run, step.id.as_str()))
        });
        asking.min_by_key(|(run, _)| run.number)
    }

    /// When time changes something next, in the tasks or the runs, Unix milliseconds.
    #[must_use]
    pub fn next_expiry_ms(&self, work: &Work) -> Option<u64> {
        work.tasks().next_expiry_ms().into_iter().chain(self.runs.next_expiry_ms()).min()
    }

    /// Time passes: leases, deadlines and questions end.
    pub(in super::super) fn advance(&mut self, work: &mut Work, moment: Moment<'_>) {
        work.expire(moment.now_ms);
        self.follow(work, moment);
        self.runs.expire(work, moment);
        self.follow(work, moment);
    }

    /// Executes a command about tasks, runs or schedules, and what follows from it.
    pub(in super::super) fn execute(
        &mut self,
        asker: &Asker<'_>,
        work: &mut Work,
        command: &Command,
    ) -> Result<Option<u64>, Refusal> {
        let done = self.execute_one(asker, work, command);
        self.follow(work, asker.moment);
        done
    }

    fn execute_one(&mut self, asker: &Asker<'_>, work: &mut Work, command: &Command) -> Result<Option<u64>, Refusal> {
        let (author, owner, moment) = (asker.author, asker.owner, asker.moment);
        let done = |()| None;
        asker.permit.clone()?;
        match command {
            Command::RunWorkflow(run) => self.runs.begin(work, run, (author, owner), None, moment).map(Some),
            Command::Approve(approve) => self.runs.approve(work, approve, author, moment).map(done),
            Command::CancelRun(run) => {
                self.may_change(asker, run)?;
                self.runs.cancel(work, *run, author, moment).map(done)
            }
            Command::ResumeRun(run) => {
                self.may_change(asker, run)?;
                self.runs.resume(work, *run, moment).map(done)
            }
            Command::Schedule(schedule) => {
                self.may_replace(asker, &schedule.name)?;
                self.schedules.set(schedule, (author, owner), moment).map(done)
            }
            Command::Unschedule(name) => {
                self.may_replace(asker, name)?;
                self.schedules.remove(name).map(done)
            }
            Command::Fire(fire) => {
                if !matches!(author, Author::Node(_)) {
                    return Err(Refusal::Author("only a member can say that a time has come".to_owned()));
                }
                self.fire(work, fire, moment)
            }
            command => asker.execute(work, command),
        }
    }

    /// A time of a schedule has come: a run begins, unless one that has not ended is in its way.
    fn fire(&mut self, work: &mut Work, fire: &Fire, moment: Moment<'_>) -> Result<Option<u64>, Refusal> {
        let schedule = (fire.name.clone(), fire.since_ms);
        let running = self.runs.running_of(&schedule);
        let Some((run, of)) = self.schedules.fire(fire, !running.is_empty(), moment.now_ms)? else { return Ok(None) };
        let overlap = self.schedules.get(&fire.name).and_then(|known| known.schedule.overlap);
        if overlap == Some(Overlap::Replace) {
            for before in running {
                self.runs.cancel(work, before, of.0, moment)?;
            }
        }
        let begun = self.runs.begin(work, &run, of, Some(schedule), moment);
        if begun.is_err() {
            // The time counted: a run that could not begin is one that failed.
            self.schedules.note(&fire.name, fire.since_ms, false, moment.now_ms);
        }
        Ok(begun.ok())
    }

    /// What follows from tasks and runs that ended.
    fn follow(&mut self, work: &mut Work, moment: Moment<'_>) {
        while let Some(finished) = work.next_finished() {
            self.runs.note(work, finished, moment);
        }
        for (name, since_ms, completed) in std::mem::take(&mut self.runs.reports) {
            self.schedules.note(&name, since_ms, completed, moment.now_ms);
        }
    }

    /// Whether the author may end a run, or let it go on: who began it, and the owners, may.
    fn may_change(&self, asker: &Asker<'_>, id: &WorkId) -> Result<(), Refusal> {
        let run = self.runs.get(id).ok_or(Refusal::UnknownRun(*id))?;
        permit(asker, run.author)
    }

    /// Whether the author may replace or remove a schedule: who made it, and the owners, may.
    fn may_replace(&self, asker: &Asker<'_>, name: &str) -> Result<(), Refusal> {
        self.schedules.get(name).map_or(Ok(()), |known| permit(asker, known.author))
    }
}

fn permit(asker: &Asker<'_>, of: Author) -> Result<(), Refusal> {
    if asker.author == of || asker.is_owner {
        return Ok(());
    }
    let why = format!("only who began it and the owners may change it, and {} is neither", asker.author);
    Err(Refusal::NotPermitted(why))
}
