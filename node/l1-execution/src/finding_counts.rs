//! What failed in silence, or was refused, counted for one version of an agent for as long as it runs.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Kinds of findings of one version; those beyond are not counted.
const KINDS_MAX: usize = 32;

/// How often something was found of a version of an agent since it was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindingCount {
    /// What was found, by its name.
    pub finding: &'static str,
    /// In how many turns, or jobs.
    pub count: u64,
    /// The task of the newest of them, by its A2A id; empty of jobs that belong to no task.
    pub task: String,
}

/// How many calls of a turn are few, by what a version called in the cases that it was tested with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallNorm {
    /// A turn with fewer calls of tools called few.
    pub few_below: u64,
    /// So many turns in a row that called few are more than chance.
    pub row: u64,
}

/// The findings of one version of an agent. Whoever judges its turns adds to them; they go with the version.
#[derive(Debug, Default)]
pub struct FindingCounts {
    found: Mutex<BTreeMap<&'static str, (u64, String)>>,
    norm: Mutex<Option<CallNorm>>,
}

impl FindingCounts {
    /// Counts a turn of which that was found.
    pub fn add(&self, finding: &'static str, task: &str) {
        let mut found = self.lock();
        if found.len() >= KINDS_MAX && !found.contains_key(finding) {
            return;
        }
        let (count, newest) = found.entry(finding).or_default();
        *count = count.saturating_add(1);
        task.clone_into(newest);
    }

    /// All that was found, by its name.
    #[must_use]
    pub fn list(&self) -> Vec<FindingCount> {
        let found = self.lock();
        let entry = |(finding, (count, task)): (&&'static str, &(u64, String))| FindingCount {
            finding,
            count: *count,
            task: task.clone(),
        };
        found.iter().map(entry).collect()
    }

    /// How many calls of a turn are few, if the version was tested and that is known.
    #[must_use]
    pub fn call_norm(&self) -> Option<CallNorm> {
        *self.norm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets how many calls of a turn are few.
    pub(crate) fn set_call_norm(&self, norm: Option<CallNorm>) {
        *self.norm.lock().unwrap_or_else(PoisonError::into_inner) = norm;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, (u64, String)>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_counted_by_what_was_found_and_the_newest_is_named() {
        let counts = FindingCounts::default();
        assert_eq!(counts.list(), []);
        for (finding, task) in [("said-nothing", "t-1"), ("answer-cut", "t-2"), ("said-nothing", "t-3")] {
            counts.add(finding, task);
        }
        let found = |finding, count, task: &str| FindingCount { finding, count, task: task.to_owned() };
        assert_eq!(counts.list(), [found("answer-cut", 1, "t-2"), found("said-nothing", 2, "t-3")]);
    }
}
