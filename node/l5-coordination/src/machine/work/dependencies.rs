//! Which task waits for which. What a task depends on was there before the link, and no link closes a circle.

use std::collections::BTreeSet;

use althing_protocol::group::{Depend, WorkId};
use althing_protocol::limits::WORK_DEPENDENCIES_MAX;

use super::super::outcome::Refusal;
use super::item::{State, Why, WorkItem};
use super::items::WorkItems;
use super::steps::Steps;

/// Tasks that one search for a circle visits.
pub const SEARCH_TASKS_MAX: usize = 1_024;
/// What a search costs that is refused (P-89): as much as the largest one. How far it had come depends on the order of its
/// visits.
const REFUSED_STEPS: usize = SEARCH_TASKS_MAX * (1 + WORK_DEPENDENCIES_MAX);

impl WorkItems {
    /// Adds a dependency to a task that has not begun.
    pub(super) fn depend(&mut self, depend: &Depend, steps: &Steps, now_ms: u64) -> Result<(), Refusal> {
        let Depend { task: id, on } = *depend;
        let task = self.known(&id)?;
        self.known(&on)?;
        if !matches!(task.state, State::Blocked | State::Ready) {
            return Err(Refusal::TaskState { task: id, state: task.state });
        }
        if task.submit.dependencies.contains(&on) {
            return Ok(());
        }
        if task.submit.dependencies.len() == WORK_DEPENDENCIES_MAX {
            return Err(Refusal::Full(format!("a task has at most {WORK_DEPENDENCIES_MAX} dependencies")));
        }
        match self.before(on, id) {
            Ok(cost) => steps.spend(cost),
            Err(refusal) => {
                steps.spend(REFUSED_STEPS);
                return Err(refusal);
            }
        }
        self.change(id, |task| task.submit.dependencies.push(on));
        self.index.link(id, on);
        self.settle(id, now_ms);
        Ok(())
    }

    /// Searches what is before `task`, which has not begun, if it depends on `on`: itself must not be. What that cost: for each
    /// of these tasks 1, and one for each of its dependencies.
    fn before(&self, on: WorkId, task: WorkId) -> Result<usize, Refusal> {
        let (mut seen, mut open, mut cost) = (BTreeSet::new(), vec![on], 0);
        while let Some(id) = open.pop() {
            if id == task {
                return Err(Refusal::Circle { task, on });
            }
            // What completed depends on nothing that has not begun.
            let Some(earlier) = self.get(&id).filter(|earlier| earlier.state != State::Completed) else { continue };
            if !seen.insert(id) {
                continue;
            }
            if seen.len() > SEARCH_TASKS_MAX {
                let why =
                    format!("{SEARCH_TASKS_MAX} tasks are searched for a circle; depend on one with fewer before it");
                return Err(Refusal::Full(why));
            }
            cost += 1 + earlier.submit.dependencies.len();
            open.extend(&earlier.submit.dependencies);
        }
        Ok(cost)
    }

    /// Lets a task that has not begun wait for its dependencies, or for a member, or fail with one of them.
    pub(super) fn settle(&mut self, id: WorkId, now_ms: u64) {
        let Some(task) = self.get(&id) else { return };
        let state_of = |on: &WorkId| self.get(on).map(|task| task.state);
        let mut states = task.submit.dependencies.iter().filter_map(|on| Some((*on, state_of(on)?)));
        let ended = states.find(|(_, state)| state.is_finished() && *state != State::Completed);
        let (is_blocked, unmet) = (task.state == State::Blocked, self.unmet(task));
        if let Some((on, state)) = ended {
            self.end(id, State::Failed, Some(Why::Dependency(on, state)), None, now_ms);
            return;
        }
        self.index.wait_for(id, unmet);
        if is_blocked != (unmet > 0) {
            self.change(id, |task| task.state = if unmet > 0 { State::Blocked } else { State::Ready });
        }
    }

    /// How many of those that a task depends on have not completed.
    fn unmet(&self, task: &WorkItem) -> usize {
        let earlier = task.submit.dependencies.iter().filter_map(|on| self.get(on));
        earlier.filter(|earlier| earlier.state != State::Completed).count()
    }

    /// A task completed on which another one depends, which waits for the rest. Who waits for much is not read again: tens of
    /// thousands of tasks may depend on the same ones.
    pub(super) fn met(&mut self, dependant: WorkId) {
        if self.index.meet(dependant) {
            self.change(dependant, |task| task.state = State::Ready);
        }
    }

    /// Counts anew for what each blocked task waits, when all tasks of a snapshot are there.
    pub(super) fn count_unmet(&mut self) {
        let blocked = self.iter().filter(|task| task.state == State::Blocked);
        let counts: Vec<(WorkId, usize)> = blocked.map(|task| (task.id(), self.unmet(task))).collect();
        counts.into_iter().for_each(|(id, unmet)| self.index.wait_for(id, unmet));
    }
}
