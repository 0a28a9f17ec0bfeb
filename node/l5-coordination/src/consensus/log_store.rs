//! The log on disk: entries by group and index, in one store for all groups, so that their syncs are shared.
//!
//! Writes are applied in the order in which they were made, by one task for each group; what waits while the disk syncs goes
//! into the next batch. Recent entries are in memory too.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex, MutexGuard};

use althing_protocol::GroupId;
use althing_store::{BATCH_BYTES_MAX, Batch, Durability, Family, Range, Store};
use openraft::entry::RaftEntry as _;
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader};
use tokio::sync::{mpsc, oneshot};

use super::records::{Ballot, EntryRecord, Position, encode};
use super::types::{Entry, LogId, Types, Vote};

/// Entries: the group's 32 bytes and the index, big-endian.
pub const RAFT_LOG: Family = Family("althing.raft.log");
/// What else a member must not forget: the group's 32 bytes and a letter.
pub const RAFT_STATE: Family = Family("althing.raft.state");

const VOTE: u8 = b'v';
const COMMITTED: u8 = b'c';
const PURGED: u8 = b'p';

/// Writes that wait for the disk.
const WRITES_MAX: usize = 256;
/// Bytes of one batch to the store, so that a commit stays short.
const GROUP_BYTES: usize = BATCH_BYTES_MAX / 2;
/// Bytes of one write, plus one entry.
const WRITE_BYTES: usize = 1 << 20;
/// Bytes of recent entries in memory, for each group.
const CACHE_BYTES: usize = 4 << 20;
/// Rows that are read from disk at once.
const SCAN_ROWS: usize = 1_024;

/// The log of one group.
#[derive(Clone)]
pub(crate) struct LogStore {
    shared: Arc<Shared>,
    writes: mpsc::Sender<Write>,
}

struct Shared {
    group: GroupId,
    store: Arc<dyn Store>,
    state: Mutex<State>,
}

struct State {
    vote: Option<Vote>,
    committed: Option<LogId>,
    purged: Option<LogId>,
    last: Option<LogId>,
    cache: Cache,
}

/// The newest entries, without a gap.
#[derive(Default)]
struct Cache {
    entries: VecDeque<(Arc<Entry>, usize)>,
    bytes: usize,
    /// Entries up to this one are on disk, so that they may leave the cache.
    flushed: Option<u64>,
}

/// A change of rows, and who waits for it.
struct Write {
    batch: Batch,
    /// The last entry that is on disk afterwards, if it holds entries.
    up_to: Option<u64>,
    done: Done,
}

enum Done {
    Nobody,
    Flushed(IOFlushed<Types>),
    Answer(oneshot::Sender<io::Result<()>>),
}

/// A key of a group's row.
fn key(group: GroupId, rest: &[u8]) -> Vec<u8> {
    [group.as_bytes().as_slice(), rest].concat()
}

fn entry_key(group: GroupId, index: u64) -> Vec<u8> {
    key(group, &index.to_be_bytes())
}

fn damaged(what: &str, why: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} of the group's log is damaged: {why}"))
}

impl LogStore {
    /// Opens the log of `group`.
    ///
    /// # Errors
    /// The disk fails, or a row is damaged.
    pub fn open(group: GroupId, store: Arc<dyn Store>) -> io::Result<LogStore> {
        let row = |letter: u8| store.read(RAFT_STATE, &key(group, &[letter])).map_err(io::Error::other);
        let position = |letter: u8| -> io::Result<Option<LogId>> {
            let Some(bytes) = row(letter)? else { return Ok(None) };
            let at: Position = minicbor::decode(&bytes).map_err(|error| damaged("a position", &error))?;
            Ok(Some(at.into()))
        };
        let vote = match row(VOTE)? {
            None => None,
            Some(bytes) => {
                let ballot: Ballot = minicbor::decode(&bytes).map_err(|error| damaged("the vote", &error))?;
                Some(Vote::from(ballot))
            }
        };
        let (committed, purged) = (position(COMMITTED)?, position(PURGED)?);
        let newest = store.scan(RAFT_LOG, Range::prefix(key(group, &[]), 1).reversed()).map_err(io::Error::other)?;
        let last = newest.into_iter().next().map(|(_, value)| read_entry(&value)).transpose()?;
        let last = last.map(|entry| entry.log_id()).or(purged).max(purged);
        let cache = Cache { flushed: last.as_ref().map(|id| id.index), ..Cache::default() };
        let state = Mutex::new(State { vote, committed, purged, last, cache });
        let shared = Arc::new(Shared { group, store, state });
        let (writes, queue) = mpsc::channel(WRITES_MAX);
        tokio::spawn(write_in_order(shared.clone(), queue));
        Ok(LogStore { shared, writes })
    }

    async fn submit(&self, batch: Batch, up_to: Option<u64>, done: Done) -> io::Result<()> {
        let stopped = |_| io::Error::other("the log of the group is closed");
        self.writes.send(Write { batch, up_to, done }).await.map_err(stopped)
    }

    /// Writes, and waits until it is on disk.
    async fn synced(&self, batch: Batch) -> io::Result<()> {
        let (done, written) = oneshot::channel();
        self.submit(batch, None, Done::Answer(done)).await?;
        written.await.map_err(|_| io::Error::other("the log of the group is closed"))?
    }
}

fn read_entry(bytes: &[u8]) -> io::Result<Entry> {
    let record: EntryRecord = minicbor::decode(bytes).map_err(|error| damaged("an entry", &error))?;
    record.into_entry().map_err(|why| damaged("an entry", &why))
}

/// Writes what is queued, in order, until the log is dropped.
async fn write_in_order(shared: Arc<Shared>, mut queue: mpsc::Receiver<Write>) {
    while let Some(first) = queue.recv().await {
        let Write { mut batch, mut up_to, done } = first;
        let mut waiting = vec![done];
        while batch.bytes() < GROUP_BYTES
            && let Ok(next) = queue.try_recv()
        {
            batch.append(next.batch);
            up_to = up_to.max(next.up_to);
            waiting.push(next.done);
        }
        let written = shared.store.write(batch, Durability::Synced).await;
        if written.is_ok() {
            shared.lock().cache.flushed_to(up_to);
        }
        for done in waiting {
            let result = match &written {
                Ok(()) => Ok(()),
                Err(error) => Err(io::Error::other(error.to_string())),
            };
            match done {
                Done::Nobody => {}
                Done::Flushed(callback) => callback.io_completed(result),
                // Whoever waited may have gone.
                Done::Answer(answer) => drop(answer.send(result)),
            }
        }
        if let Err(error) = written {
            tracing::error!(group = %shared.group, %error, "the log of the group cannot be written; it stops here");
            return;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the log's state panics")
    }

    /// Adds entries to the cache; the batches that put them on disk, each with its last index.
    fn put(&self, entries: impl IntoIterator<Item = Entry>) -> Vec<(Batch, Option<u64>)> {
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

    /// The entries from `from` to below `until`, as many as the log holds.
    fn read(&self, from: u64, until: u64) -> io::Result<Vec<Entry>> {
        let (cached, begins) = {
            let state = self.lock();
            let begins = state.cache.begins().unwrap_or(u64::MAX);
            (state.cache.range(from.max(begins), until), begins)
        };
        let mut entries = Vec::new();
        let end = until.min(begins);
        let mut next = from;
        while next < end {
            let limit = usize::try_from(end - next).unwrap_or(SCAN_ROWS).min(SCAN_ROWS);
            let range = Range::prefix(key(self.group, &[]), limit);
            let range = match next.checked_sub(1) {
                Some(before) => range.after(entry_key(self.group, before)),
                None => range,
            };
            let rows = self.store.scan(RAFT_LOG, range).map_err(io::Error::other)?;
            let mut is_more = rows.len() == limit;
            for (_, value) in rows {
                let entry = read_entry(&value)?;
                if entry.index() >= end {
                    is_more = false;
                    break;
                }
                next = entry.index() + 1;
                entries.push(entry);
            }
            if !is_more {
                break;
            }
        }
        entries.extend(cached.iter().map(|entry| Entry::clone(entry)));
        Ok(entries)
    }
}

impl Cache {
    fn begins(&self) -> Option<u64> {
        self.entries.front().map(|(entry, _)| entry.index())
    }

    fn range(&self, from: u64, until: u64) -> Vec<Arc<Entry>> {
        let within = |index: u64| from <= index && index < until;
        self.entries.iter().filter(|(entry, _)| within(entry.index())).map(|(entry, _)| entry.clone()).collect()
    }

    fn push(&mut self, entry: Entry, bytes: usize) {
        self.bytes += bytes;
        self.entries.push_back((Arc::new(entry), bytes));
    }

    fn flushed_to(&mut self, index: Option<u64>) {
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
    fn truncate_after(&mut self, index: Option<u64>) {
        while let Some((entry, bytes)) = self.entries.back()
            && Some(entry.index()) > index
        {
            self.bytes -= bytes;
            self.entries.pop_back();
        }
        self.flushed = self.flushed.min(index);
    }

    /// Drops the entries up to `index`.
    fn purge(&mut self, index: u64) {
        while let Some((entry, bytes)) = self.entries.front()
            && entry.index() <= index
        {
            self.bytes -= bytes;
            self.entries.pop_front();
        }
    }
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
        let from = match range.start_bound() {
            Bound::Included(from) => *from,
            Bound::Excluded(before) => before + 1,
            Bound::Unbounded => 0,
        };
        let until = match range.end_bound() {
            Bound::Included(last) => last + 1,
            Bound::Excluded(until) => *until,
            Bound::Unbounded => u64::MAX,
        };
        self.shared.read(from, until)
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.shared.lock().vote)
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        let state = self.shared.lock();
        Ok(LogState { last_purged_log_id: state.purged, last_log_id: state.last })
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let mut batch = Batch::new();
        batch.put(RAFT_STATE, key(self.shared.group, &[VOTE]), encode(&Ballot::from(vote)));
        self.synced(batch).await?;
        self.shared.lock().vote = Some(*vote);
        Ok(())
    }

    /// Written with the next entries: a restart that finds an older one applies less, and learns the rest from the leader.
    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        let mut state = self.shared.lock();
        let index = |id: &Option<LogId>| id.as_ref().map(|id| id.index);
        // A leader that lies must not have it executed, nor written: with that on disk the log could not be opened again.
        if index(&committed) > index(&state.last) {
            return Err(io::Error::other("the leader calls entries committed that the log has not"));
        }
        state.committed = committed;
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.shared.lock().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let writes = self.shared.put(entries);
        let last = writes.len() - 1;
        let mut callback = Some(callback);
        for (at, (batch, up_to)) in writes.into_iter().enumerate() {
            let done = if at == last { callback.take().map_or(Done::Nobody, Done::Flushed) } else { Done::Nobody };
            self.submit(batch, up_to, done).await?;
        }
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let group = self.shared.group;
        let keep = last.as_ref().map(|id| id.index);
        let mut batch = Batch::new();
        {
            let mut state = self.shared.lock();
            let newest = state.last.as_ref().map(|id| id.index);
            if newest <= keep {
                return Ok(());
            }
            for index in keep.map_or(0, |index| index + 1)..newest.map_or(0, |index| index + 1) {
                batch.delete(RAFT_LOG, entry_key(group, index));
            }
            state.cache.truncate_after(keep);
            state.last = last.max(state.purged);
        }
        self.synced(batch).await
    }

    async fn purge(&mut self, up_to: LogId) -> io::Result<()> {
        let group = self.shared.group;
        {
            let mut state = self.shared.lock();
            state.cache.purge(up_to.index);
            state.purged = state.purged.max(Some(up_to));
            state.last = state.last.max(Some(up_to));
        }
        let mut batch = Batch::new();
        batch.put(RAFT_STATE, key(group, &[PURGED]), encode(&Position::from(up_to)));
        self.synced(batch).await?;
        // Only rows that are there: after a snapshot from another member there may be none, however high its index.
        loop {
            let range = Range::prefix(key(group, &[]), SCAN_ROWS);
            let rows = self.shared.store.scan(RAFT_LOG, range).map_err(io::Error::other)?;
            let last = entry_key(group, up_to.index);
            let mut batch = Batch::new();
            for key in rows.into_iter().map(|(key, _)| key).filter(|key| *key <= last) {
                batch.delete(RAFT_LOG, key);
            }
            if batch.is_empty() {
                return Ok(());
            }
            self.synced(batch).await?;
        }
    }
}
