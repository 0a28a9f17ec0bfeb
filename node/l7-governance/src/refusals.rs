//! What policies refused to programs and agents that ask again and again, so that the log has each refusal once; and with what
//! data they work.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use althing_protocol::Digest;
use althing_protocol::contract::DataLabel;
use althing_store::Batch;

/// Refusals of one set of policies that the log has by themselves, of acts and of messages each: whoever makes up others would fill it,
/// so that of those it has how many there were.
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
    /// How many it refused that are not among these.
    further: u64,
}

/// What the log is to have of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalEntry {
    /// One about it alone.
    Own,
    /// Nothing: it has one.
    None,
    /// How many further ones there were, equal ones among them. It is told each time that their number doubled.
    Count(u64),
}

impl KnownRefusals {
    fn note(&mut self, set: Option<Digest>, what: Digest, kind: &'static str) -> RefusalEntry {
        if self.set != set {
            *self = KnownRefusals { set, ..KnownRefusals::default() };
        }
        if self.refused.contains(&what) {
            return RefusalEntry::None;
        }
        if self.refused.len() < REFUSALS_MAX {
            self.refused.insert(what);
            return RefusalEntry::Own;
        }
        self.further += 1;
        if self.further == 1 {
            tracing::warn!(
                most = REFUSALS_MAX,
                kind,
                "the policies refused so many different {kind} that the audit log has only the number of further ones until other policies \
                 are loaded, or the node starts again: they are refused all the same"
            );
        }
        if self.further.is_power_of_two() { RefusalEntry::Count(self.further) } else { RefusalEntry::None }
    }
}

impl Refusals {
    /// That set refused this message of another node.
    pub(crate) fn note(&self, set: Option<Digest>, what: Digest) -> RefusalEntry {
        self.known().messages.note(set, what, "messages")
    }

    /// That set refused this act.
    pub(crate) fn note_act(&self, set: Option<Digest>, what: Digest) -> RefusalEntry {
        self.known().acts.note(set, what, "acts")
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
        assert_eq!([refusals.note(one, [7; 32]), refusals.note(one, [8; 32])], [RefusalEntry::Own; 2]);
        assert_eq!(refusals.note(one, [7; 32]), RefusalEntry::None);
        assert_eq!(refusals.note(other, [7; 32]), RefusalEntry::Own, "another set refused it");
        assert_eq!(refusals.note(None, [7; 32]), RefusalEntry::Own, "a file that cannot be read does");
    }

    #[test]
    fn of_very_many_refusals_of_one_set_the_log_has_some_and_of_the_others_how_many() {
        let refusals = Refusals::default();
        let number = |number: usize| althing_protocol::digest(&number.to_be_bytes());
        let written = |set, of: std::ops::Range<usize>| of.map(|one| refusals.note_act(set, number(one))).collect();
        let all: Vec<RefusalEntry> = written(None, 0..REFUSALS_MAX + 9);
        assert_eq!(all[..REFUSALS_MAX], [RefusalEntry::Own; REFUSALS_MAX]);
        let [one, two, four, eight] = [1, 2, 4, 8].map(RefusalEntry::Count);
        let none = RefusalEntry::None;
        assert_eq!(all[REFUSALS_MAX..], [one, two, none, four, none, none, none, eight, none]);
        let again: Vec<RefusalEntry> = written(None, 0..REFUSALS_MAX);
        assert_eq!(again, [none; REFUSALS_MAX], "those it has");
        assert_eq!(refusals.note(None, number(0)), RefusalEntry::Own, "messages have room of their own");
        let next: Vec<RefusalEntry> = written(Some([1; 32]), 0..REFUSALS_MAX);
        assert_eq!(next, [RefusalEntry::Own; REFUSALS_MAX], "so has the next set");
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
