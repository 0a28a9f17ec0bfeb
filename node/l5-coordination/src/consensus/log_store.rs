//! The log on disk: entries by group and index, in one store for all groups, so that their syncs are shared.
//!
//! Writes are applied in the order in which they were made, by one task for each group; what waits while the disk syncs goes
//! into the next batch. Recent entries are in memory too.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex};

use althing_protocol::GroupId;
use althing_store::{BATCH_BYTES_MAX, Batch, Durability, Range};
use openraft::entry::RaftEntry as _;
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader};
use tokio::sync::{mpsc, oneshot};

use super::log_cache::Cache;
use super::log_rows::{
    COMMITTED, PURGED, RAFT_LOG, RAFT_STATE, SCAN_ROWS, Shared, State, VOTE, damaged, entry_key, key, read_entry,
};
use super::pen::{Pen, PenError};
use super::records::{Ballot, Position, encode};
use super::types::{Entry, LogId, Types, Vote};
use super::wire::PART_BYTES_MAX;

/// Writes that wait for the disk.
const WRITES_MAX: usize = 256;
/// Bytes of one batch to the store, so that a commit stays short.
const GROUP_BYTES: usize = BATCH_BYTES_MAX / 2;

/// The log of one group.
#[derive(Clone)]
pub(crate) struct LogStore {
    shared: Arc<Shared>,
    writes: mpsc::Sender<Write>,
}

/// A change of rows, and who waits for it.
struct Write {
    batch: Batch,
    /// The last entry that is on disk afterwards, if it holds entries.
    up_to: Option<u64>,
    /// How often entries had been cut off when it was made: what it puts on disk may be other entries than those that are in
    /// memory when it ends.
    cuts: u64,
    done: Done,
}

enum Done {
    Nobody,
    Flushed(IOFlushed<Types>),
    Answer(oneshot::Sender<io::Result<()>>),
}

impl LogStore {
    /// Opens the log of `group`.
    ///
    /// # Errors
    /// The disk fails, or a row is damaged.
    pub fn open(group: GroupId, pen: Arc<Pen>) -> io::Result<LogStore> {
        let store = pen.store();
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
        let cache = Cache::behind(last.as_ref().map(|id| id.index));
        let state = Mutex::new(State { vote, committed, purged, last, cache, cuts: 0 });
        let shared = Arc::new(Shared { group, pen, state });
        let (writes, queue) = mpsc::channel(WRITES_MAX);
        tokio::spawn(write_in_order(shared.clone(), queue));
        Ok(LogStore { shared, writes })
    }

    /// The last entry of the log.
    pub fn last(&self) -> Option<LogId> {
        self.shared.lock().last
    }

    /// The last entry that openraft said is committed.
    pub fn committed(&self) -> Option<LogId> {
        self.shared.lock().committed
    }

    /// The term of an entry, if it is kept.
    pub fn term_at(&self, index: u64) -> io::Result<Option<u64>> {
        Ok(self.shared.read(index, index + 1, None)?.first().map(|entry| Position::from(entry.log_id()).term))
    }

    async fn submit(&self, batch: Batch, up_to: Option<u64>, done: Done) -> io::Result<()> {
        let stopped = |_| io::Error::other("the log of the group is closed");
        // Only one at a time changes the log.
        let cuts = self.shared.lock().cuts;
        self.writes.send(Write { batch, up_to, cuts, done }).await.map_err(stopped)
    }

    /// Writes, and waits until it is on disk.
    async fn synced(&self, batch: Batch) -> io::Result<()> {
        let (done, written) = oneshot::channel();
        self.submit(batch, None, Done::Answer(done)).await?;
        written.await.map_err(|_| io::Error::other("the log of the group is closed"))?
    }
}

/// Writes what is queued, in order, until the log is dropped or its replica has ended.
async fn write_in_order(shared: Arc<Shared>, mut queue: mpsc::Receiver<Write>) {
    while let Some(first) = queue.recv().await {
        let Write { mut batch, mut up_to, mut cuts, done } = first;
        let mut waiting = vec![done];
        while batch.bytes() < GROUP_BYTES
            && let Ok(next) = queue.try_recv()
        {
            if next.cuts != cuts {
                // What was to be on disk before the cut is not what is in memory since.
                (up_to, cuts) = (None, next.cuts);
            }
            batch.append(next.batch);
            up_to = up_to.max(next.up_to);
            waiting.push(next.done);
        }
        let written = shared.pen.write(batch, Durability::Synced).await;
        if written.is_ok() {
            shared.flushed(up_to, cuts);
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
        match written {
            Ok(()) => {}
            Err(PenError::Ended) => return,
            Err(error) => {
                tracing::error!(group = %shared.group, %error, "the log of the group cannot be written; it stops here");
                return;
            }
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
        self.shared.read(from, until, None)
    }

    /// As many entries as one message has room for: others would be read again for the next one.
    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        self.shared.read(start, end, Some(PART_BYTES_MAX))
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
        let (newest, kept) = {
            let state = self.shared.lock();
            let newest = state.last.as_ref().map(|id| id.index);
            (newest, state.committed.filter(|committed| Some(committed.index) > keep))
        };
        if newest <= keep {
            return Ok(());
        }
        // What is committed was acknowledged: rather than drop it the replica stops, and starts again with all of it, which it
        // then knows to be committed.
        if let Some(committed) = kept {
            batch.put(RAFT_STATE, key(group, &[COMMITTED]), encode(&Position::from(committed)));
            self.synced(batch).await?;
            return Err(io::Error::other("entries that are committed would be dropped from the log"));
        }
        {
            let mut state = self.shared.lock();
            for index in keep.map_or(0, |index| index + 1)..newest.map_or(0, |index| index + 1) {
                batch.delete(RAFT_LOG, entry_key(group, index));
            }
            state.cache.truncate_after(keep);
            state.last = last.max(state.purged);
            state.cuts += 1;
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
        // Only rows that are there: after a snapshot from another member there may be none, however high its index. They follow each
        // other, so that one key tells the others, and none of them is read.
        let mut after = None;
        while let Some(first) = self.shared.first_row(after)?.filter(|first| *first <= up_to.index) {
            let last = first.saturating_add(SCAN_ROWS as u64 - 1).min(up_to.index);
            let mut batch = Batch::new();
            for index in first..=last {
                batch.delete(RAFT_LOG, entry_key(group, index));
            }
            self.synced(batch).await?;
            after = Some(last);
        }
        Ok(())
    }
}
