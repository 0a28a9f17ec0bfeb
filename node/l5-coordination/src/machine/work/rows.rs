//! The tasks of a group as rows of a snapshot.

use althing_protocol::group::WorkId;
use althing_protocol::limits::WORK_REFUSAL_BYTES_MAX;
use minicbor::{Decode, Encode};

use super::lifecycle::Work;
use super::resources::{CONFLICTS_MAX, Conflict, RESOURCES_MAX, Resource};
use super::task::{REFUSED_MAX, State, Task};

/// A part of the tasks.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum WorkRow {
    /// What is counted: the tasks that were submitted, those that ended, the last token, the decisions.
    #[n(0)]
    Counts(#[n(0)] u64, #[n(1)] u64, #[n(2)] u64, #[n(3)] u64),
    /// A task.
    #[n(1)]
    Task(#[n(0)] Box<Task>),
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

    /// Whether a task of a snapshot contradicts itself, or the tasks before it.
    fn sound(&self, task: &Task) -> Result<(), String> {
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

    /// Whether the rows were all: what an unfinished task depends on is there.
    pub(in super::super) fn complete_rows(&self) -> Result<(), String> {
        let unknown = |task: &Task| -> Option<WorkId> {
            let missing = |on: &&WorkId| self.tasks.get(on).is_none();
            task.submit.dependencies.iter().find(missing).copied().filter(|_| !task.state.is_finished())
        };
        match self.tasks.iter().find_map(|task| Some((task.id(), unknown(task)?))) {
            Some((task, on)) => Err(format!("are not all: the task {task} depends on {on}, which is missing")),
            None => Ok(()),
        }
    }
}
