//! What policies refused to programs and agents that ask again and again, so that the log has each refusal once; and with what
//! data they work.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use althing_protocol::Digest;
use althing_protocol::contract::DataLabel;
use althing_store::Batch;

/// Refusals that are remembered of one set of policies. After more of them all are forgotten, and stand in the log once more.
const REFUSALS_MAX: usize = 4_096;
/// Agents whose data is known: more do not run on one node.
const AGENTS_MAX: usize = 4_096;

/// What was refused, and what is still to be written of it.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<RefusalState>);

#[derive(Default)]
struct RefusalState {
    /// The set of policies that refused these.
    set: Option<Digest>,
    refused: BTreeSet<Digest>,
    /// Entries of the log that nobody could wait for.
    entries: Batch,
    /// By the names of agents, as their contracts say.
    data: BTreeMap<String, DataLabel>,
}

impl Refusals {
    /// Whether that set did not refuse this before.
    pub(crate) fn is_new(&self, set: Option<Digest>, what: Digest) -> bool {
        let mut known = self.known();
        if known.set != set || known.refused.len() >= REFUSALS_MAX {
            known.set = set;
            known.refused.clear();
        }
        known.refused.insert(what)
    }

    /// Keeps an entry until the next look at what waits.
    pub(crate) fn keep(&self, entry: Batch) {
        self.known().entries.append(entry);
    }

    /// The entries that were kept.
    pub(crate) fn take(&self) -> Batch {
        std::mem::take(&mut self.known().entries)
    }

    /// With what data an agent of that name works, by its contract.
    pub(crate) fn note_data(&self, agent: &str, label: DataLabel) {
        let mut known = self.known();
        if known.data.len() < AGENTS_MAX || known.data.contains_key(agent) {
            // Two versions may run: the stricter one counts.
            known.data.entry(agent.to_owned()).and_modify(|known| *known = (*known).max(label)).or_insert(label);
        }
    }

    /// The same; none of an agent that was never started.
    pub(crate) fn data_of(&self, agent: &str) -> Option<DataLabel> {
        self.known().data.get(agent).copied()
    }

    fn known(&self) -> MutexGuard<'_, RefusalState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_new_once_for_each_set() {
        let refusals = Refusals::default();
        let (one, other) = (Some([1; 32]), Some([2; 32]));
        assert!(refusals.is_new(one, [7; 32]) && refusals.is_new(one, [8; 32]));
        assert!(!refusals.is_new(one, [7; 32]));
        assert!(refusals.is_new(other, [7; 32]), "another set refused it");
        assert!(refusals.is_new(None, [7; 32]), "a file that cannot be read does");
    }

    #[test]
    fn of_very_many_refusals_the_log_has_some_twice() {
        let refusals = Refusals::default();
        let number = |number: usize| althing_protocol::digest(&number.to_be_bytes());
        assert!((0..REFUSALS_MAX).all(|one| refusals.is_new(None, number(one))));
        assert!(refusals.is_new(None, number(REFUSALS_MAX)) && refusals.is_new(None, number(0)));
    }

    #[test]
    fn the_data_of_an_agent_is_that_of_its_strictest_contract() {
        let refusals = Refusals::default();
        assert_eq!(refusals.data_of("clerk"), None);
        refusals.note_data("clerk", DataLabel::Internal);
        refusals.note_data("clerk", DataLabel::Restricted);
        refusals.note_data("clerk", DataLabel::Internal);
        assert_eq!(refusals.data_of("clerk"), Some(DataLabel::Restricted));
    }
}
