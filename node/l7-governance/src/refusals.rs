//! What policies refused to programs and agents that ask again and again, so that the log has each refusal once; and with what
//! data they work.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use althing_protocol::Digest;
use althing_protocol::contract::DataLabel;
use althing_store::Batch;

/// Refusals of one set of policies that the log has, of acts and of messages each: whoever makes up others would fill it.
const REFUSALS_MAX: usize = 4_096;
/// Agents whose data is known: more do not run on one node.
const AGENTS_MAX: usize = 4_096;

/// What was refused, and what is still to be written of it.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<RefusalState>);

#[derive(Default)]
struct RefusalState {
    /// Of what programs, starts and groups do on this node.
    acts: KnownRefusals,
    /// Of what other nodes send: whatever they make up, the log has room for the others.
    messages: KnownRefusals,
    /// Entries of the log that nobody could wait for.
    entries: Batch,
    /// By the names of agents, as their contracts say.
    data: BTreeMap<String, DataLabel>,
}

/// What one set of policies refused.
#[derive(Default)]
struct KnownRefusals {
    set: Option<Digest>,
    refused: BTreeSet<Digest>,
    /// Whether it refused more than the log has.
    is_full: bool,
}

impl KnownRefusals {
    /// Whether that set did not refuse this before, and the log has room for it.
    fn is_new(&mut self, set: Option<Digest>, what: Digest, kind: &'static str) -> bool {
        if self.set != set {
            *self = KnownRefusals { set, ..KnownRefusals::default() };
        }
        if self.refused.len() < REFUSALS_MAX {
            return self.refused.insert(what);
        }
        if !self.is_full && !self.refused.contains(&what) {
            self.is_full = true;
            tracing::warn!(
                most = REFUSALS_MAX,
                kind,
                "the policies refused so many different {kind} that the audit log has no further ones until other policies are loaded, or \
                 the node starts again: they are refused all the same"
            );
        }
        false
    }
}

impl Refusals {
    /// Whether that set did not refuse this message of another node before, and it is to be written.
    pub(crate) fn is_new(&self, set: Option<Digest>, what: Digest) -> bool {
        self.known().messages.is_new(set, what, "messages")
    }

    /// The same of an act.
    pub(crate) fn is_new_act(&self, set: Option<Digest>, what: Digest) -> bool {
        self.known().acts.is_new(set, what, "acts")
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
    fn of_very_many_refusals_of_one_set_the_log_has_some_and_those_once() {
        let refusals = Refusals::default();
        let number = |number: usize| althing_protocol::digest(&number.to_be_bytes());
        let written = |set| (0..3 * REFUSALS_MAX).filter(|one| refusals.is_new_act(set, number(*one))).count();
        assert_eq!((written(None), written(None)), (REFUSALS_MAX, 0));
        assert!(refusals.is_new(None, number(0)), "messages have room of their own");
        assert_eq!(written(Some([1; 32])), REFUSALS_MAX, "so has the next set");
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
