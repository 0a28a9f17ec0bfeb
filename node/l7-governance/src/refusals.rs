//! What policies refused to programs, agents and other nodes that ask again and again, so that the log has each refusal once; and with
//! what data agents work.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use althing_protocol::contract::DataLabel;
use althing_protocol::{CallerId, Digest};
use althing_store::Batch;

/// Refusals of one set of policies that the log has by themselves, of acts, of messages of whom the owner trusts, and of messages of
/// others each: whoever makes up further ones would fill it, so that of those it has how many there were.
const REFUSALS_MAX: usize = 4_096;
/// How many of these one sender of messages has: whatever it makes up, there is room for what others are refused.
const SHARE_MAX: usize = 256;
/// Counts that wait to be written. Beyond that the oldest one is lost, and the node's own log says so.
const COUNTS_MAX: usize = 256;
/// Agents whose data is known: more do not run on one node.
const AGENTS_MAX: usize = 4_096;

/// What was refused, and what is still to be written of it.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<RefusalState>);

#[derive(Default)]
struct RefusalState {
    /// Of what programs, starts and groups do on this node.
    acts: KnownRefusals,
    /// Of what the owner's other nodes send, and those of whom the owner trusts.
    near: KnownRefusals,
    /// Of what anybody else sends: keys are free, so that there may be any number of these.
    others: KnownRefusals,
    /// Entries of the log that nobody could wait for.
    entries: Batch,
    /// How many there were of what no further refusal tells.
    counts: VecDeque<RefusalCount>,
    /// By the names of agents, as their contracts say.
    data: BTreeMap<String, DataLabel>,
}

/// What one set of policies refused.
#[derive(Default)]
struct KnownRefusals {
    set: Option<Digest>,
    refused: BTreeSet<Digest>,
    /// Those who sent some of these.
    senders: BTreeMap<CallerId, Share>,
    /// What it refused beside these, but for what is counted for one sender.
    further: Tally,
}

/// What one sender was refused.
#[derive(Default)]
struct Share {
    /// How many have an entry of their own.
    own: usize,
    /// What is beyond its share.
    further: Tally,
}

#[derive(Default)]
struct Tally {
    number: u64,
    /// The number that the log has.
    told: u64,
}

/// What is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalKind {
    /// What is done on this node.
    Act,
    /// What another node sends.
    Message {
        /// Who proved to send it. What the message says of its sender does not count.
        by: CallerId,
        /// Whether that is one of the owner's nodes, or one of whom the owner trusts.
        is_near: bool,
    },
}

/// One refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) kind: RefusalKind,
    /// The digest of the policies that refused it.
    pub(crate) set: Option<Digest>,
    /// Equal ones are the same refusal.
    pub(crate) what: Digest,
}

/// How many further ones there were, equal ones among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RefusalCount {
    /// `acts` or `messages`.
    pub(crate) what: &'static str,
    /// The sender of all of them; none where they are of several, or of nobody.
    pub(crate) by: Option<CallerId>,
    /// The digest of the policies that refused them.
    pub(crate) set: Option<Digest>,
    pub(crate) number: u64,
}

/// What the log is to have of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalEntry {
    /// One about it alone.
    Own,
    /// Nothing: it has one, or its number is told later.
    None,
    /// A number, which is told each time that it doubled.
    Count(RefusalCount),
}

impl RefusalKind {
    fn word(self) -> &'static str {
        match self {
            RefusalKind::Act => "acts",
            RefusalKind::Message { .. } => "messages",
        }
    }

    fn sender(self) -> Option<CallerId> {
        match self {
            RefusalKind::Act => None,
            RefusalKind::Message { by, .. } => Some(by),
        }
    }
}

impl Tally {
    /// One more. Gives the number where it is told.
    fn add(&mut self) -> Option<u64> {
        self.number += 1;
        self.number.is_power_of_two().then(|| {
            self.told = self.number;
            self.number
        })
    }

    /// The number, where it is higher than the one that was told; it counts as told from now on.
    fn rest(&mut self) -> Option<u64> {
        let is_higher = self.number > self.told;
        self.told = self.number;
        is_higher.then_some(self.number)
    }
}

impl KnownRefusals {
    fn note(&mut self, Refusal { kind, set, what }: Refusal) -> RefusalEntry {
        if self.refused.contains(&what) {
            return RefusalEntry::None;
        }
        let has_room = self.refused.len() < REFUSALS_MAX;
        let sender = kind.sender();
        let mut share = match sender {
            // There are no more of them than refusals.
            Some(by) if has_room => Some(self.senders.entry(by).or_default()),
            Some(by) => self.senders.get_mut(&by),
            None => None,
        };
        let is_beyond = share.as_ref().is_some_and(|share| share.own >= SHARE_MAX);
        if has_room && !is_beyond {
            if let Some(share) = &mut share {
                share.own += 1;
            }
            self.refused.insert(what);
            return RefusalEntry::Own;
        }
        let (by, further) = match share.filter(|_| is_beyond) {
            Some(share) => (sender, &mut share.further),
            None => (None, &mut self.further),
        };
        let told = further.add();
        if told == Some(1) {
            let (most, kind) = (if by.is_some() { SHARE_MAX } else { REFUSALS_MAX }, kind.word());
            let sender = by.map(|by| by.to_string());
            tracing::warn!(
                most,
                kind,
                ?sender,
                "the policies refused so many different {kind} that the audit log has only the number of further ones until other policies \
                 are loaded, or the node starts again: they are refused all the same"
            );
        }
        told.map_or(RefusalEntry::None, |number| {
            RefusalEntry::Count(RefusalCount { what: kind.word(), by, set, number })
        })
    }

    /// Takes back what [`KnownRefusals::note`] gave; gives a count that nothing else would tell any more.
    fn forget(&mut self, Refusal { kind, set, what }: Refusal, entry: RefusalEntry) -> Option<RefusalCount> {
        if self.set != set {
            return None;
        }
        match entry {
            RefusalEntry::None => None,
            RefusalEntry::Count(RefusalCount { by, .. }) => {
                let tally = match by {
                    Some(by) => &mut self.senders.get_mut(&by)?.further,
                    None => &mut self.further,
                };
                tally.told = 0;
                None
            }
            RefusalEntry::Own => {
                let is_known = self.refused.remove(&what);
                let by = kind.sender().filter(|_| is_known)?;
                let share = self.senders.get_mut(&by)?;
                share.own -= 1;
                if share.own > 0 {
                    return None;
                }
                let rest = share.further.rest();
                self.senders.remove(&by);
                rest.map(|number| RefusalCount { what: kind.word(), by: Some(by), set, number })
            }
        }
    }

    /// The counts that are higher than what was told of them.
    fn rest(&mut self, what: &'static str) -> Vec<RefusalCount> {
        let set = self.set;
        let of_senders = self.senders.iter_mut().map(|(by, share)| (Some(*by), &mut share.further));
        let all = of_senders.chain(std::iter::once((None, &mut self.further)));
        all.filter_map(|(by, tally)| Some(RefusalCount { what, by, set, number: tally.rest()? })).collect()
    }
}

impl RefusalState {
    fn of(&mut self, kind: RefusalKind) -> &mut KnownRefusals {
        match kind {
            RefusalKind::Act => &mut self.acts,
            RefusalKind::Message { is_near: true, .. } => &mut self.near,
            RefusalKind::Message { is_near: false, .. } => &mut self.others,
        }
    }

    fn keep_counts(&mut self, counts: impl IntoIterator<Item = RefusalCount>) {
        self.counts.extend(counts);
        while self.counts.len() > COUNTS_MAX {
            let lost = self.counts.pop_front();
            tracing::error!(?lost, "the audit log takes nothing, so that it does not have how many denials there were");
        }
    }
}

impl Refusals {
    /// A set refused that.
    pub(crate) fn note(&self, refusal: Refusal) -> RefusalEntry {
        let mut state = self.known();
        let known = state.of(refusal.kind);
        let rest = if known.set == refusal.set {
            Vec::new()
        } else {
            let new = KnownRefusals { set: refusal.set, ..KnownRefusals::default() };
            std::mem::replace(known, new).rest(refusal.kind.word())
        };
        let entry = known.note(refusal);
        state.keep_counts(rest);
        entry
    }

    /// The log did not take what it was to have of a refusal: an equal one is new once more, and a count is told later.
    pub(crate) fn forget(&self, refusal: Refusal, entry: RefusalEntry) {
        let mut state = self.known();
        let count = state.of(refusal.kind).forget(refusal, entry);
        state.keep_counts(count);
    }

    /// The node stops, and nothing is refused any more that would tell the counts.
    pub(crate) fn end(&self) {
        let mut state = self.known();
        let mut rest = state.acts.rest("acts");
        rest.append(&mut state.near.rest("messages"));
        rest.append(&mut state.others.rest("messages"));
        state.keep_counts(rest);
    }

    /// Keeps an entry until the next look at what waits.
    pub(crate) fn keep(&self, entry: Batch) {
        self.known().entries.append(entry);
    }

    /// The entries that were kept.
    pub(crate) fn take(&self) -> Batch {
        std::mem::take(&mut self.known().entries)
    }

    /// Keeps a count until the next look at what waits.
    pub(crate) fn keep_count(&self, count: RefusalCount) {
        self.known().keep_counts([count]);
    }

    /// The counts that wait to be written.
    pub(crate) fn take_counts(&self) -> VecDeque<RefusalCount> {
        std::mem::take(&mut self.known().counts)
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
mod tests;
