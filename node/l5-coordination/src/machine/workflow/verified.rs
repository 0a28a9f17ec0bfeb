//! Which results that a step reads no gate judged.

use std::collections::BTreeSet;

use althing_protocol::group::{Action, Part, WorkId, parts};

use super::super::work::Work;
use super::run::{Item, Run, StepState};

impl Run {
    /// The ids of the steps whose results the step of that task reads, and of which nobody said that they are verified. What people
    /// answered is not meant.
    #[must_use]
    pub fn unverified(&self, task: &WorkId, work: &Work) -> Vec<String> {
        let at = self.steps.iter().position(|step| step.items.iter().any(|item| item.task == *task));
        let Some(Action::Task(job)) = at.map(|at| &self.workflow.steps[at].action) else { return Vec::new() };
        let template = parts(&job.input).unwrap_or_default();
        let named = template.iter().filter_map(|part| match part {
            Part::Step(id) => Some(*id),
            Part::Text(_) | Part::Input | Part::Item => None,
        });
        let sources: BTreeSet<&str> = named.chain(job.for_each.as_deref()).collect();
        sources.into_iter().filter(|id| !self.is_verified(id, work)).map(str::to_owned).collect()
    }

    fn is_verified(&self, id: &str, work: &Work) -> bool {
        let Some(at) = self.workflow.place(id) else { return true };
        let step = &self.steps[at];
        if matches!(self.workflow.steps[at].action, Action::Approval(_)) || step.state == StepState::Skipped {
            return true;
        }
        let passed = |item: &Item| work.tasks().get(&item.task).is_some_and(|task| task.verified == Some(true));
        // One that is repeated has no tasks any more, or not yet: its result is that of a round before.
        !step.items.is_empty() && step.items.iter().all(passed)
    }
}
