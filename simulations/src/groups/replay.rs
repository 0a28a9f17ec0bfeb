//! The reference: the one committed log, executed once more by the machine of the product, apart from the members.

use std::collections::{BTreeMap, BTreeSet};

use althing_coordination::consensus::wire::Payload;
use althing_coordination::machine::group::Group;
use althing_coordination::machine::outcome::{Outcome, Reply};
use althing_protocol::group::{Author, Batch, Command};
use althing_protocol::{Digest, PublicKey, object};

use super::evidence::Evidence;
use super::member::digest_of;
use crate::NETWORK;

/// A command that the log holds.
#[derive(Debug, Clone)]
pub struct Executed {
    /// The index of its entry.
    pub index: u64,
    /// Who signed its batch, in which session, under which number.
    pub batch: (Author, u64, u64),
    pub command: Command,
    /// What became of it.
    pub outcome: Outcome,
}

/// What the committed log leads to.
#[derive(Debug, Clone, Default)]
pub struct Replay {
    /// The digests of all states, with the index of the first entry after which each was there.
    pub states: BTreeMap<Digest, u64>,
    /// All commands that were executed, in order.
    pub executed: Vec<Executed>,
    /// The nodes that were members at any time, with the index of the entry that admitted each first.
    pub admitted: BTreeMap<PublicKey, u64>,
    /// The first index that is missing, if there is one.
    pub gap: Option<u64>,
}

impl Replay {
    /// Executes the committed log.
    #[must_use]
    pub fn of(evidence: &Evidence) -> Replay {
        let mut replay = Replay::default();
        let Some(id) = evidence.group else { return replay };
        let mut state = Group::new(id, NETWORK);
        replay.states.insert(digest_of(&state), 0);
        for (expected, entry) in (0..).zip(evidence.log()) {
            let index = entry.at.index;
            if index != expected {
                replay.gap = Some(expected);
                return replay;
            }
            let Payload::Batch(at_ms, bytes) = &entry.payload else { continue };
            let batch = object::open::<Batch>(bytes, NETWORK, &Batch::scope(id));
            let reply = state.apply(*at_ms, &batch);
            if let (Ok(batch), Reply::Executed(outcomes)) = (batch, reply) {
                let pairs = batch.body.commands.into_iter().zip(outcomes);
                let batch = (batch.body.author, batch.body.session, batch.body.sequence);
                replay.executed.extend(pairs.map(|(command, outcome)| Executed { index, batch, command, outcome }));
            }
            replay.states.entry(digest_of(&state)).or_insert(index);
            for (node, _) in state.members().iter() {
                replay.admitted.entry(*node).or_insert(index);
            }
        }
        replay
    }

    /// The commands that were done, not refused, with what they returned.
    pub fn done(&self) -> impl Iterator<Item = (&Executed, Option<u64>)> {
        self.executed.iter().filter_map(|executed| match executed.outcome {
            Outcome::Done(number) => Some((executed, number)),
            Outcome::Refused(_) => None,
        })
    }

    /// The nodes that had been members before an entry.
    #[must_use]
    pub fn admitted_before(&self, index: u64) -> BTreeSet<PublicKey> {
        self.admitted.iter().filter(|(_, at)| **at < index).map(|(node, _)| *node).collect()
    }
}
