//! The tasks that the state submitted itself, for a step of a workflow: their ends are reported before they can be forgotten.

use std::collections::{BTreeSet, VecDeque};

use althing_protocol::Label;
use althing_protocol::group::{Content, WorkId};

use super::item::{State, Why};

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Which task.
    pub task: WorkId,
    /// Its state.
    pub state: State,
    /// Why it has no result.
    pub why: Option<Why>,
    /// Its result.
    pub result: Option<Content>,
    /// The label of that.
    pub label: Option<Label>,
    /// Whether gates let it pass.
    pub verified: bool,
}

/// The tasks whose end is reported, and the reports that nobody took yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Watch {
    open: BTreeSet<WorkId>,
    finished: VecDeque<Finished>,
}

impl Watch {
    /// A task ends.
    pub(super) fn ended(
        &mut self,
        task: WorkId,
        state: State,
        why: Option<&Why>,
        (result, (label, verified)): (Option<&Content>, (Option<Label>, bool)),
    ) {
        if self.open.remove(&task) {
            let (why, result) = (why.cloned(), result.cloned());
            self.finished.push_back(Finished { task, state, why, result, label, verified });
        }
    }

    /// The end of a task is reported from now on; whether it was not before.
    pub(super) fn open(&mut self, task: WorkId) -> bool {
        self.open.insert(task)
    }

    /// The end of a task is not reported any more; whether it was before.
    pub(super) fn close(&mut self, task: &WorkId) -> bool {
        self.open.remove(task)
    }

    /// The next report.
    pub(super) fn next(&mut self) -> Option<Finished> {
        self.finished.pop_front()
    }
}
