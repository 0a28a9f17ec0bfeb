//! The disk of the leader: it ends the node's life at a write, and loses what was not synced when its power is cut.

use std::collections::BTreeMap;

use althing_store::Durability;

use super::plan::{LifeEnd, Moment};
use crate::sessions::plan::Loss;

/// The name of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// What was decided.
    Versions,
    /// When a conversation began.
    Conversation(u64),
}

/// The life of the node is over, and this is lost with it.
pub(super) struct LifeOver(pub Loss);

/// Rows on disk.
#[derive(Default)]
pub(super) struct Disk {
    /// What the node reads.
    live: BTreeMap<Key, Vec<u8>>,
    /// What survives when the power is cut.
    durable: BTreeMap<Key, Vec<u8>>,
    /// What is not durable yet.
    pending: Vec<(Key, Vec<u8>)>,
    writes: u64,
    decisions: u64,
    end: Option<LifeEnd>,
    /// The conversation of which the last write was, if the life ended at it: nobody knows whether it was answered.
    unanswered: Option<u64>,
}

impl Disk {
    /// The life that begins ends so, if it ends.
    pub fn begin_life(&mut self, end: Option<LifeEnd>) {
        (self.writes, self.decisions, self.end) = (0, 0, end);
    }

    /// A row, as the node reads it.
    pub fn read(&self, key: Key) -> Option<&[u8]> {
        self.live.get(&key).map(Vec::as_slice)
    }

    /// When the conversations began that are noted.
    pub fn conversations(&self) -> impl Iterator<Item = u64> {
        let noted = self.live.iter().filter(|(key, _)| matches!(key, Key::Conversation(_)));
        noted.filter_map(|(_, row)| row.as_slice().try_into().ok()).map(u64::from_be_bytes)
    }

    /// Writes a row.
    pub fn write(&mut self, key: Key, row: Vec<u8>, durability: Durability, decides: bool) -> Result<(), LifeOver> {
        self.writes += 1;
        self.decisions += u64::from(decides);
        let end = self.end.filter(|end| match end.at {
            Moment::Write(number) => number == self.writes,
            Moment::Decision(number) => decides && number == self.decisions,
        });
        if end.is_none_or(|end| end.is_made) {
            self.live.insert(key, row.clone());
            self.pending.push((key, row));
            if durability == Durability::Synced {
                self.durable.extend(self.pending.drain(..));
            }
        }
        self.unanswered = match key {
            Key::Conversation(number) if end.is_some() => Some(number),
            _ => None,
        };
        end.map_or(Ok(()), |end| Err(LifeOver(end.loss)))
    }

    /// What is left for the next life. Gives the conversations of which nothing is noted any more, or more than was answered.
    pub fn lose(&mut self, loss: Loss) -> Vec<u64> {
        let unanswered = self.unanswered.take();
        if loss == Loss::Process {
            return unanswered.into_iter().collect();
        }
        self.pending.clear();
        let before = std::mem::replace(&mut self.live, self.durable.clone());
        let gone = before.into_keys().filter(|key| !self.durable.contains_key(key));
        let gone = gone.filter_map(|key| if let Key::Conversation(number) = key { Some(number) } else { None });
        unanswered.into_iter().chain(gone).collect()
    }
}
