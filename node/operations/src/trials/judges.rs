//! How often agents that judge answers said what labelled cases say, by the last test of each agent that had such cases, since the
//! node started.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use althing_verification::machine::report::Agreement;

/// Agents of whose tests this is remembered; one more takes the place of another.
const AGENTS_MAX: usize = 1_024;

/// The agreement of the judges of this node's agents with labelled cases.
#[derive(Debug, Default)]
pub struct JudgeAgreements(Mutex<BTreeMap<String, Vec<Agreement>>>);

impl JudgeAgreements {
    /// The agreement of the judges of an agent, by its name; of those alone that were asked about labelled cases.
    #[must_use]
    pub fn of(&self, agent: &str) -> Vec<Agreement> {
        self.lock().get(agent).cloned().unwrap_or_default()
    }

    /// Notes what a test of an agent found. A test without labelled cases says nothing of judges.
    pub(super) fn note(&self, agent: &str, found: &[Agreement]) {
        if found.is_empty() {
            return;
        }
        let mut known = self.lock();
        if known.len() >= AGENTS_MAX && !known.contains_key(agent) {
            known.pop_first();
        }
        known.insert(agent.to_owned(), found.to_vec());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Agreement>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_test_with_labelled_cases_counts_and_so_many_agents_are_remembered() {
        let found = |agreed| vec![Agreement { judge: "agents/j".to_owned(), agreed, asked: 9, interval: None }];
        let known = JudgeAgreements::default();
        assert_eq!(known.of("clerk"), []);
        known.note("clerk", &found(1));
        known.note("clerk", &found(7));
        known.note("clerk", &[]);
        assert_eq!(known.of("clerk"), found(7));
        for number in 0..AGENTS_MAX {
            known.note(&format!("other-{number}"), &found(1));
        }
        assert_eq!(known.lock().len(), AGENTS_MAX);
        assert_eq!((known.of("clerk"), known.of("other-1023")), (Vec::new(), found(1)));
    }
}
