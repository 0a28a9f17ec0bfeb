//! The rows of a log, and what of it is in memory: reads entries from both.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use althing_protocol::GroupId;
use althing_store::{Batch, Family, Range as Rows};
use openraft::entry::RaftEntry;

use super::log_cache::Cache;
use super::pen::Pen;
use super::records::{EntryRecord, Position, encode};
use super::types::{Entry, LogId, Vote};

/// Entries: the group's 32 bytes and the index, big-endian.
pub const RAFT_LOG: Family = Family("althing.raft.log");
/// What else a member must not forget: the group's 32 bytes and a letter.
pub const RAFT_STATE: Family = Family("althing.raft.state");

pub(super) const VOTE: u8 = b'v';
pub(super) const COMMITTED: u8 = b'c';
pub(super) const PURGED: u8 = b'p';

/// Bytes of one write, plus one entry.
const WRITE_BYTES: usize = 1 << 20;
/// Rows that are read from disk, or deleted, at once.
pub(super) const SCAN_ROWS: usize = 1_024;
/// Bytes that are read from disk at once, or one row.
const SCAN_BYTES: usize = 1 << 20;

/// The log of one group, as its writer, its readers and openraft's core share it.
pub(super) struct Shared {
    pub group: GroupId,
    pub pen: Arc<Pen>,
    pub state: Mutex<State>,
}

/// What of a log is in memory.
pub(super) struct State {
    pub vote: Option<Vote>,
    pub committed: Option<LogId>,
    pub purged: Option<LogId>,
    pub last: Option<LogId>,
    pub cache: Cache,
    /// How often entries were cut off at the end.
    pub cuts: u64,
}

impl State {
    /// Changes when entries go, at either end.
    fn extent(&self) -> (u64, Option<LogId>) {
        (self.cuts, self.purged)
    }
}

/// A key of a group's row.
pub(super) fn key(group: GroupId, rest: &[u8]) -> Vec<u8> {
    [group.as_bytes().as_slice(), rest].concat()
}

pub(super) fn entry_key(group: GroupId, index: u64) -> Vec<u8> {
    key(group, &index.to_be_bytes())
}

pub(super) fn damaged(what: &str, why: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} of the group's log is damaged: {why}"))
}

pub(super) fn read_entry(bytes: &[u8]) -> io::Result<Entry> {
    let record: EntryRecord = minicbor::decode(bytes).map_err(|error| damaged("an entry", &error))?;
    record.into_entry().map_err(|why| damaged("an entry", &why))
}

/// Entries that are read, one after the other.
struct Reading {
    entries: Vec<Entry>,
    bytes: usize,
    /// Bytes that are wanted at most; one entry is in any case.
    most: Option<usize>,
}

impl Reading {
    /// Takes an entry of so many bytes. False if there is no room for it.
    fn take(&mut self, entry: Entry, bytes: usize) -> bool {
        let is_full = self.most.is_some_and(|most| self.bytes + bytes > most);
        if is_full && !self.entries.is_empty() {
            return false;
        }
        self.bytes += bytes;
        self.entries.push(entry);
        true
    }

    /// The entries of a range of the log, or the first of them where only some bytes are wanted. They follow each other: a state
    /// that skipped one would differ from all others, and nobody would notice.
    fn finish(self, wanted: Range<u64>) -> io::Result<Vec<Entry>> {
        let mut found = self.entries.iter().map(RaftEntry::index);
        // A log of which nothing was purged may begin anywhere: openraft's own tests have such ones.
        let start = if wanted.start == 0 { self.entries.first().map_or(0, RaftEntry::index) } else { wanted.start };
        let is_whole = self.most.is_none() || self.entries.is_empty();
        let end = if is_whole { wanted.end } else { wanted.end.min(start + self.entries.len() as u64) };
        match (start..end).find(|index| found.next() != Some(*index)) {
            Some(missing) => Err(damaged("the order", &format!("the entry {missing} is missing"))),
            None => Ok(self.entries),
        }
    }
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the log's state panics")
    }

    /// Entries up to this one are on disk, as they were after so many cuts.
    pub fn flushed(&self, up_to: Option<u64>, cuts: u64) {
        let mut state = self.lock();
        if state.cuts == cuts {
            state.cache.flushed_to(up_to);
        }
    }

    /// Adds entries to the cache; the batches that put them on disk, each with its last index.
    pub fn put(&self, entries: impl IntoIterator<Item = Entry>) -> Vec<(Batch, Option<u64>)> {
        let mut state = self.lock();
        let (mut writes, mut batch) = (Vec::new(), Batch::new());
        for entry in entries {
            let (bytes, index) = (encode(&EntryRecord::of(&entry)), entry.index());
            state.last = Some(entry.log_id());
            state.cache.push(entry, bytes.len());
            batch.put(RAFT_LOG, entry_key(self.group, index), bytes);
            if batch.bytes() >= WRITE_BYTES {
                writes.push((std::mem::take(&mut batch), Some(index)));
            }
        }
        if let Some(committed) = &state.committed {
            let position = encode(&Position::from(*committed));
            batch.put(RAFT_STATE, key(self.group, &[COMMITTED]), position);
        }
        writes.push((batch, state.last.as_ref().map(|id| id.index)));
        writes
    }

    /// The entries from `from` to below `until`, as many as the log holds; where `most` is given, only the first ones that have so
    /// many bytes, and one in any case.
    pub fn read(&self, from: u64, until: u64, most: Option<usize>) -> io::Result<Vec<Entry>> {
        loop {
            let (extent, cached, rows, wanted) = {
                let state = self.lock();
                let after = |id: &Option<LogId>| id.as_ref().map_or(0, |id| id.index + 1);
                // At both ends there may be rows that are being deleted.
                let (from, until) = (from.max(after(&state.purged)), until.min(after(&state.last)));
                let begins = state.cache.begins().unwrap_or(u64::MAX);
                let cached = state.cache.range(from.max(begins), until);
                (state.extent(), cached, from..until.min(begins), from..until)
            };
            let mut reading = Reading { entries: Vec::new(), bytes: 0, most };
            if self.read_rows(rows, &mut reading)? {
                for (entry, bytes) in cached {
                    if !reading.take(Entry::clone(&entry), bytes) {
                        break;
                    }
                }
            }
            // Where entries went meanwhile, what was found is of two moments.
            if self.lock().extent() == extent {
                return reading.finish(wanted);
            }
        }
    }

    /// Reads entries from disk. False if more are not wanted.
    fn read_rows(&self, indexes: Range<u64>, reading: &mut Reading) -> io::Result<bool> {
        let (mut next, end) = (indexes.start, indexes.end);
        while next < end {
            let limit = usize::try_from(end - next).unwrap_or(SCAN_ROWS).min(SCAN_ROWS);
            let bytes = reading.most.unwrap_or(SCAN_BYTES).min(SCAN_BYTES);
            let range = Rows::prefix(key(self.group, &[]), limit).within(bytes);
            let range = match next.checked_sub(1) {
                Some(before) => range.after(entry_key(self.group, before)),
                None => range,
            };
            let rows = self.pen.store().scan(RAFT_LOG, range).map_err(io::Error::other)?;
            if rows.is_empty() {
                break;
            }
            for (_, value) in rows {
                let entry = read_entry(&value)?;
                let index = entry.index();
                if index >= end {
                    return Ok(true);
                }
                if !reading.take(entry, value.len()) {
                    return Ok(false);
                }
                next = index + 1;
            }
            if reading.most.is_some() {
                // Whoever wants a part has one.
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The first entry on disk behind `after`.
    pub fn first_row(&self, after: Option<u64>) -> io::Result<Option<u64>> {
        let range = Rows::prefix(key(self.group, &[]), 1);
        let range = match after {
            Some(after) => range.after(entry_key(self.group, after)),
            None => range,
        };
        let keys = self.pen.store().keys(RAFT_LOG, range).map_err(io::Error::other)?;
        let index = |key: &Vec<u8>| key.last_chunk::<8>().map(|index| u64::from_be_bytes(*index));
        Ok(keys.first().and_then(index))
    }
}
