//! The tasks of a group as rows of a snapshot.

use althing_protocol::group::WorkId;
use althing_protocol::limits::WORK_REFUSAL_BYTES_MAX;
use minicbor::{Decode, Encode};

use super::item::{REFUSED_MAX, State, WorkItem};
use super::items::{TASKS_MAX, TASKS_UNFINISHED_MAX, WORK_BYTES_MAX};
use super::lifecycle::Work;
use super::resources::{CONFLICTS_MAX, Conflict, RESOURCES_MAX, Resource};

/// A part of the tasks.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum WorkRow {
    /// What is counted: the tasks that were submitted, those that ended, the last token, the decisions.
    #[n(0)]
    Counts(#[n(0)] u64, #[n(1)] u64, #[n(2)] u64, #[n(3)] u64),
    /// A task.
    #[n(1)]
    Task(#[n(0)] Box<WorkItem>),
    /// A resource that has a rule.
    #[n(2)]
    Resource(#[n(0)] String, #[n(1)] Resource),
    /// A decision; in order.
    #[n(3)]
    Conflict(#[n(0)] Conflict),
}

impl Work {
    /// The rows, of which each is below the size of a frame.
    pub(in super::super) fn rows(&self) -> impl Iterator<Item = WorkRow> {
        let counts = WorkRow::Counts(self.tasks.submitted, self.tasks.ended, self.last_token, self.resources.decisions);
        let tasks = self.tasks.iter().map(|task| WorkRow::Task(Box::new(task.clone())));
        let resources =
            self.resources.iter().map(|(name, resource)| WorkRow::Resource(name.to_owned(), resource.clone()));
        let conflicts = self.resources.conflicts().map(|conflict| WorkRow::Conflict(conflict.clone()));
        std::iter::once(counts).chain(tasks).chain(resources).chain(conflicts)
    }

    /// Adds what a row says.
    pub(in super::super) fn take(&mut self, row: WorkRow) -> Result<(), String> {
        match row {
            WorkRow::Counts(submitted, ended, last_token, decisions)
                if [submitted, ended, last_token, decisions].iter().any(|count| *count > u64::MAX / 2) =>
            {
                return Err("counts more than a group can have".to_owned());
            }
            WorkRow::Counts(submitted, ended, last_token, decisions) => {
                (self.tasks.submitted, self.tasks.ended, self.last_token) = (submitted, ended, last_token);
                self.resources.decisions = decisions;
            }
            WorkRow::Task(task) => {
                self.sound(&task)?;
                self.tasks.insert(*task);
                self.fits()?;
            }
            WorkRow::Resource(..) if self.resources.by_name.len() == RESOURCES_MAX => {
                return Err("is one resource too many".to_owned());
            }
            WorkRow::Resource(name, resource) => drop(self.resources.by_name.insert(name, resource)),
            WorkRow::Conflict(_) if self.resources.conflicts().count() == CONFLICTS_MAX => {
                return Err("is one decision too many".to_owned());
            }
            WorkRow::Conflict(conflict) => self.resources.restore(conflict),
        }
        Ok(())
    }

    /// Whether the tasks of a snapshot are no more than execution takes.
    fn fits(&self) -> Result<(), String> {
        let is_crowded = self.tasks.unfinished() > TASKS_UNFINISHED_MAX
            || self.tasks.len() > TASKS_MAX
            || self.tasks.bytes() > WORK_BYTES_MAX;
        if is_crowded { Err("is a task for which there is no room".to_owned()) } else { Ok(()) }
    }

    /// Whether a task of a snapshot contradicts itself, or the tasks before it.
    fn sound(&self, task: &WorkItem) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("has the task {}, {what}", task.id()));
        if self.tasks.get(&task.id()).is_some() {
            return wrong("which an earlier row has");
        }
        if task.state.is_finished() != task.ended.is_some() {
            return wrong("whose state and end contradict each other");
        }
        if matches!(task.state, State::Assigned | State::Working) != task.held.is_some() {
            return wrong("whose state and holder contradict each other");
        }
        let long = |(_, reason): (_, &str)| reason.len() > WORK_REFUSAL_BYTES_MAX;
        if task.refused.len() > REFUSED_MAX || task.refused.iter().any(long) {
            return wrong("which more members refused than can, or with more words");
        }
        if task.held.is_some_and(|held| task.refused.of(&held.member).is_some()) {
            return wrong("which a member has that refused it");
        }
        let of_another = |resource: &&String| self.tasks.user_of(resource).is_some();
        if task.held.is_some() && task.submit.resources.iter().any(|resource| of_another(&resource)) {
            return wrong("which has the resource of another one");
        }
        Ok(())
    }

    /// Whether the rows were all: what an unfinished task depends on is there. Nor are there finished tasks that execution
    /// would have forgotten; it keeps those on which others depend, whose rows may come later. For the same reason it is
    /// counted only now for what each waits.
    pub(in super::super) fn complete_rows(&mut self) -> Result<(), String> {
        if self.tasks.index.surplus(WORK_BYTES_MAX).is_some() {
            return Err("has more finished tasks than a group keeps".to_owned());
        }
        let unknown = |task: &WorkItem| -> Option<WorkId> {
            let missing = |on: &&WorkId| self.tasks.get(on).is_none();
            task.submit.dependencies.iter().find(missing).copied().filter(|_| !task.state.is_finished())
        };
        let incomplete = self.tasks.iter().find_map(|task| Some((task.id(), unknown(task)?)));
        if let Some((task, on)) = incomplete {
            return Err(format!("are not all: the task {task} depends on {on}, which is missing"));
        }
        self.tasks.count_unmet();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::PublisherId;
    use althing_protocol::group::{Author, Content, Needs, Priority, Submit, Target};

    use super::super::item::Ended;
    use super::super::items::TASKS_FINISHED_MAX;
    use super::*;

    /// A task of that number, which was canceled if it is finished.
    fn task(number: u64, bytes: usize, is_finished: bool) -> WorkItem {
        let submit = Submit {
            task: WorkId::from_bytes(u128::from(number).to_be_bytes()),
            key: None,
            needs: Needs::of(Target::Capability("billing.view".to_owned())),
            input: Content::Inline(vec![7; bytes].into()),
            priority: Priority::Normal,
            deadline_ms: None,
            attempts_max: 1,
            lease_ms: 10_000,
            dependencies: Vec::new(),
            resources: Vec::new(),
            label: None,
            channel: None,
        };
        let owner = PublisherId::from_digest([1; 32]);
        let mut task = WorkItem::new(&submit, Author::Publisher(owner), owner, number, 1);
        if is_finished {
            (task.state, task.ended) = (State::Canceled, Some(Ended { order: number, at_ms: 1 }));
        }
        task
    }

    /// Takes such tasks, one after the other, until one is refused; how many.
    fn taken(bytes: usize, is_finished: bool) -> usize {
        let mut work = Work::default();
        let mut take = |number| work.take(WorkRow::Task(Box::new(task(number, bytes, is_finished))));
        let first_refused = (0..).find_map(|number| take(number).err().map(|why| (number, why)));
        let (number, why) = first_refused.expect("there is a bound");
        assert!(why.contains("for which there is no room"), "{why}");
        usize::try_from(number).expect("few")
    }

    /// P-105, P-120: what execution does not keep, no snapshot brings.
    #[test]
    fn the_tasks_of_a_snapshot_have_room() {
        const LARGE: usize = 64 << 10;
        assert_eq!(taken(1, false), TASKS_UNFINISHED_MAX);
        assert_eq!((taken(LARGE, false), taken(LARGE, true)), (WORK_BYTES_MAX / LARGE, WORK_BYTES_MAX / LARGE));
        let mut work = Work::default();
        for number in 0..TASKS_FINISHED_MAX as u64 {
            assert_eq!(work.take(WorkRow::Task(Box::new(task(number, 1, true)))), Ok(()));
        }
        assert_eq!(work.complete_rows(), Ok(()));
        assert_eq!(work.take(WorkRow::Task(Box::new(task(u64::MAX, 1, true)))), Ok(()));
        assert!(work.complete_rows().is_err_and(|why| why.contains("more finished tasks")));
    }
}
