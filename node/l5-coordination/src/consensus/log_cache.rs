//! The newest entries of a log in memory: what waits for the disk, and what members are sent.

use std::collections::VecDeque;
use std::sync::Arc;

use openraft::entry::RaftEntry as _;

use super::types::Entry;

/// Bytes of recent entries in memory, for each group.
const CACHE_BYTES: usize = 4 << 20;

/// An entry, and its bytes on disk.
type Item = (Arc<Entry>, usize);

/// The newest entries, without a gap.
#[derive(Default)]
pub(crate) struct Cache {
    entries: VecDeque<Item>,
    bytes: usize,
    /// Entries up to this one are on disk, so that they may leave the cache.
    flushed: Option<u64>,
}

impl Cache {
    /// The cache of a log that is on disk up to this entry.
    pub fn behind(flushed: Option<u64>) -> Cache {
        Cache { flushed, ..Cache::default() }
    }

    /// The first entry that is here.
    pub fn begins(&self) -> Option<u64> {
        self.entries.front().map(|(entry, _)| entry.index())
    }

    /// The entries from `from` to below `until` that are here.
    pub fn range(&self, from: u64, until: u64) -> Vec<Item> {
        let Some(begins) = self.begins() else { return Vec::new() };
        let at = |index: u64| {
            usize::try_from(index.saturating_sub(begins)).map_or(self.entries.len(), |at| at.min(self.entries.len()))
        };
        let (from, until) = (at(from), at(until));
        self.entries.range(from..until.max(from)).cloned().collect()
    }

    pub fn push(&mut self, entry: Entry, bytes: usize) {
        self.bytes += bytes;
        self.entries.push_back((Arc::new(entry), bytes));
    }

    /// Entries up to this one are on disk.
    pub fn flushed_to(&mut self, index: Option<u64>) {
        self.flushed = self.flushed.max(index);
        let flushed = self.flushed;
        while self.bytes > CACHE_BYTES
            && let Some((entry, bytes)) = self.entries.front()
            && Some(entry.index()) <= flushed
        {
            self.bytes -= bytes;
            self.entries.pop_front();
        }
    }

    /// Drops the entries above `index`.
    pub fn truncate_after(&mut self, index: Option<u64>) {
        while let Some((entry, bytes)) = self.entries.back()
            && Some(entry.index()) > index
        {
            self.bytes -= bytes;
            self.entries.pop_back();
        }
        self.flushed = self.flushed.min(index);
    }

    /// Drops the entries up to `index`.
    pub fn purge(&mut self, index: u64) {
        while let Some((entry, bytes)) = self.entries.front()
            && entry.index() <= index
        {
            self.bytes -= bytes;
            self.entries.pop_front();
        }
    }
}
