//! What comes after what in a workflow. A set of steps is a word with a bit for each, by its place.

use super::{Step, Workflow};

impl Workflow {
    /// The place of the step of that id.
    #[must_use]
    pub fn place(&self, id: &str) -> Option<usize> {
        self.steps.iter().position(|step| step.id == id)
    }

    /// For each step those that it names in `after`.
    #[must_use]
    pub fn parents(&self) -> Vec<u64> {
        let of = |step: &Step| step.after.iter().filter_map(|id| self.place(id)).fold(0, |set, at| set | bit(at));
        self.steps.iter().map(of).collect()
    }

    /// For each step those that it comes after, directly or not. Names of later steps, and unknown ones, count nothing.
    #[must_use]
    pub fn ancestors(&self) -> Vec<u64> {
        let mut found: Vec<u64> = Vec::with_capacity(self.steps.len());
        for step in self.steps.iter().take(64) {
            let before = step.after.iter().filter_map(|id| self.place(id)).filter(|at| *at < found.len());
            found.push(before.fold(0, |set, at| set | bit(at) | found[at]));
        }
        found
    }

    /// The steps that the step at `last` repeats, in order and itself included; none if it repeats none.
    #[must_use]
    pub fn body(&self, last: usize) -> Vec<usize> {
        let set = self.body_among(last, &self.ancestors());
        (0..self.steps.len().min(64)).filter(|at| set & bit(*at) != 0).collect()
    }

    /// For each step those that it repeats, itself included. `ancestors` are those of [`Workflow::ancestors`].
    pub(super) fn bodies(&self, ancestors: &[u64]) -> Vec<u64> {
        (0..ancestors.len()).map(|last| self.body_among(last, ancestors)).collect()
    }

    fn body_among(&self, last: usize, ancestors: &[u64]) -> u64 {
        let from = |step: &Step| step.repeat.as_ref().and_then(|repeat| self.place(&repeat.from));
        let (Some(leading), Some(first)) = (ancestors.get(last), self.steps.get(last).and_then(from)) else { return 0 };
        let follows = |at: usize| at == first || ancestors[at] & bit(first) != 0;
        let leads = |at: usize| at == last || leading & bit(at) != 0;
        (first..=last).filter(|at| follows(*at) && leads(*at)).fold(0, |set, at| set | bit(at))
    }
}

/// The set of one step.
pub(super) fn bit(at: usize) -> u64 {
    1 << at
}
