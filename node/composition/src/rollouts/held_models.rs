//! Agents in whose range there is a higher version of their model of which no rollout could be begun, and why.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Those of a node, by their names, each with the reason for people.
#[derive(Debug, Default)]
pub(super) struct HeldModels(Mutex<BTreeMap<String, String>>);

impl HeldModels {
    /// All of them.
    pub fn all(&self) -> Vec<(String, String)> {
        self.lock().iter().map(|(agent, why)| (agent.clone(), why.clone())).collect()
    }

    /// Notes why no rollout was begun; whether another reason, or none, was known.
    pub fn hold(&self, agent: &str, why: &str) -> bool {
        self.lock().insert(agent.to_owned(), why.to_owned()).is_none_or(|before| before != why)
    }

    /// Nothing keeps one from beginning any more, or there is none to begin.
    pub fn release(&self, agent: &str) {
        self.lock().remove(agent);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_new_once_and_is_known_until_it_is_gone() {
        let held = HeldModels::default();
        assert!(held.hold("clerk", "no key") && !held.hold("clerk", "no key") && held.hold("clerk", "a policy"));
        assert_eq!(held.all(), [("clerk".to_owned(), "a policy".to_owned())]);
        held.release("clerk");
        assert_eq!(held.all(), []);
    }
}
