//! Group commit: one thread writes the batches that were queued during the last sync as one.
//!
//! There is no timer: a single write is committed at once, and under load the sync itself collects writes. A small write that waits
//! for no sync and finds nobody before it is made by its writer: to hand it to the thread, and the answer back, wakes two threads,
//! which takes longer than the write.

use super::{Database, StoreStats, damage, reopen::pause_after};
use crate::{Batch, Durability, StoreConfig, WriteError, port::Op};
use rocksdb::{DB, WriteBatch, WriteOptions};
use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
    thread::{self, JoinHandle},
    time::Duration,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;

/// The minimum size that a queued write is counted with, so that many small ones are bounded too.
const COST_BYTES_MIN: usize = 1 << 10;
/// The largest batch that its writer writes by itself, bytes: some tens of microseconds, in which nothing else runs there.
const AT_ONCE_BYTES_MAX: usize = 64 << 10;

/// Writes on their way to the committing thread. The semaphore counts bytes; a job carries its share until it is done.
pub(super) struct Queue {
    dir: PathBuf,
    state: Mutex<State>,
    /// Signalled when a job arrives and when the queue closes.
    changed: Condvar,
    room: Arc<Semaphore>,
    room_bytes: usize,
    group_bytes: usize,
    reserve_bytes: u64,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Whether the thread, or a writer by itself, has the pen: the others wait, so that writes are made in the order in which they
    /// came.
    is_taken: bool,
    /// Whether a sync is to begin for which nobody waits.
    is_sync_due: bool,
    closed: bool,
    stats: StoreStats,
}

struct Job {
    batch: Batch,
    durability: Durability,
    done: oneshot::Sender<Result<(), WriteError>>,
    _room: OwnedSemaphorePermit,
}

/// What is written as one.
struct Group {
    jobs: Vec<Job>,
    /// Whether it is synced whatever its jobs ask for: what was written before waits for that.
    is_sync_due: bool,
}

impl State {
    fn has_work(&self) -> bool {
        self.is_sync_due || !self.jobs.is_empty()
    }
}

impl Queue {
    pub(super) fn new(dir: &Path, config: &StoreConfig) -> Queue {
        let room_bytes = config.queue_bytes.clamp(COST_BYTES_MIN, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
        Queue {
            dir: dir.to_owned(),
            state: Mutex::default(),
            changed: Condvar::new(),
            room: Arc::new(Semaphore::new(room_bytes)),
            room_bytes,
            group_bytes: config.group_bytes,
            reserve_bytes: config.reserve_bytes,
        }
    }

    /// Waits for space in the queue, enqueues the batch, and waits until it is committed.
    pub(super) async fn submit(&self, batch: Batch, durability: Durability) -> Result<(), WriteError> {
        let cost = batch.bytes().clamp(COST_BYTES_MIN, self.room_bytes);
        let cost = u32::try_from(cost).expect("the room is at most u32::MAX bytes");
        let room = self.room.clone().acquire_many_owned(cost).await.map_err(|_| self.closed())?;
        let (done, answer) = oneshot::channel();
        {
            let mut state = self.lock();
            if state.closed {
                return Err(self.closed());
            }
            state.jobs.push_back(Job { batch, durability, done, _room: room });
        }
        self.changed.notify_one();
        answer.await.unwrap_or_else(|_| Err(self.closed()))
    }

    /// Refuses further writes; those in the queue are still committed.
    pub(super) fn close(&self) {
        self.room.close();
        self.lock().closed = true;
        self.changed.notify_one();
    }

    pub(super) fn stats(&self) -> StoreStats {
        self.lock().stats
    }

    pub(super) fn reserve_bytes(&self) -> u64 {
        self.reserve_bytes
    }

    /// The pen for a writer; none if somebody is before it, or the queue is closed.
    fn pen(&self) -> Option<Pen<'_>> {
        let mut state = self.lock();
        if state.is_taken || state.closed || !state.jobs.is_empty() {
            return None;
        }
        state.is_taken = true;
        Some(Pen(self))
    }

    /// A sync is to begin as soon as nobody writes.
    fn sync_soon(&self) {
        self.lock().is_sync_due = true;
    }

    fn count(&self, added: &StoreStats) {
        let stats = &mut self.lock().stats;
        stats.batches += added.batches;
        stats.rows += added.rows;
        stats.commits += added.commits;
        stats.syncs += added.syncs;
    }

    /// The next jobs for one commit, with the pen for the thread, and whether it is to be synced whatever they ask for; `None` when
    /// the queue is closed and empty. No jobs after a `pause`, if there is one.
    fn take(&self, pause: Option<Duration>) -> Option<(Group, Pen<'_>)> {
        let mut state = self.lock();
        while state.is_taken || !state.has_work() {
            if state.closed && !state.is_taken {
                return None;
            }
            let Some(pause) = pause else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let (after, waited) = self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner);
            state = after;
            if waited.timed_out() && !state.is_taken {
                break;
            }
        }
        let mut bytes = 0;
        let mut jobs = Vec::new();
        while let Some(job) = state.jobs.front()
            && (jobs.is_empty() || bytes + job.batch.bytes() <= self.group_bytes)
        {
            bytes += job.batch.bytes();
            jobs.extend(state.jobs.pop_front());
        }
        state.is_taken = true;
        let is_sync_due = std::mem::take(&mut state.is_sync_due);
        Some((Group { jobs, is_sync_due }, Pen(self)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code can panic in the middle of a change of the state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closed(&self) -> WriteError {
        WriteError::Closed { dir: self.dir.clone() }
    }
}

/// The right to write, until it is dropped: of the thread, or of one writer.
struct Pen<'a>(&'a Queue);

impl Drop for Pen<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_taken = false;
        let is_awaited = state.closed || state.has_work();
        drop(state);
        // The thread sleeps as long as there is nothing to do: it is not woken for nothing.
        if is_awaited {
            self.0.changed.notify_one();
        }
    }
}

/// Writes a batch that waits for no sync, if nobody is before it; false if it has to go through the queue: somebody is, it is large,
/// RocksDB would make it wait, or it fails, of which the thread takes care.
pub(super) fn write_at_once(
    queue: &Queue,
    database: &Weak<Database>,
    (batch, durability): (&Batch, Durability),
) -> bool {
    if batch.bytes() > AT_ONCE_BYTES_MAX {
        return false;
    }
    let Some(_pen) = queue.pen() else { return false };
    // Gone before the pen is: whoever closes the store waits for that one.
    let Some(database) = database.upgrade() else { return false };
    let Some(db) = database.db.get().filter(|_| database.db.why_stopped().is_none()) else { return false };
    if admit(queue, &database, batch, &mut None).is_err() {
        return false;
    }
    let mut rows = WriteBatch::default();
    for op in batch.ops() {
        add(&db, &mut rows, op);
    }
    let mut options = WriteOptions::default();
    options.set_no_slowdown(true);
    let is_written = db.write_opt(rows, &options).is_ok();
    if is_written {
        queue.count(&StoreStats { batches: 1, rows: batch.len() as u64, commits: 1, ..StoreStats::default() });
        if durability == Durability::Syncing {
            // The thread begins it when the pen is free.
            queue.sync_soon();
        }
    }
    is_written
}

/// Starts the thread. It ends when the queue is closed and everything in it is answered.
pub(super) fn start(queue: Arc<Queue>, database: Arc<Database>) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("althing-store".into()).spawn(move || {
        let queue = AnswerAll(queue);
        // How often it could not be opened again, and when that is tried next.
        let (mut failures, mut next) = (0, Instant::now());
        loop {
            let left = || next.saturating_duration_since(Instant::now()).max(pause_after(0));
            let pause = database.db.why_stopped().map(|_| left());
            let Some((group, pen)) = queue.0.take(pause) else { return };
            if database.db.why_stopped().is_none() {
                (failures, next) = (0, Instant::now());
            } else if next <= Instant::now() {
                failures = if database.reopen() { 0 } else { failures + 1 };
                next = Instant::now() + pause_after(failures);
            }
            commit(pen, &database, group);
        }
    })
}

/// Answers all waiting writers, however the thread ends.
struct AnswerAll(Arc<Queue>);

impl Drop for AnswerAll {
    fn drop(&mut self) {
        self.0.close();
        self.0.lock().jobs.clear();
    }
}

/// Writes a group.
fn commit(pen: Pen<'_>, database: &Database, group: Group) {
    let queue = pen.0;
    let Some(db) = database.db.get() else {
        // A sync that was due is not owed any more: to open the database again writes down for good what its log has.
        return group.jobs.into_iter().for_each(|job| answer(job, Err(database.not_writable())));
    };
    let mut full = None;
    let mut jobs = Vec::with_capacity(group.jobs.len());
    let mut batch = WriteBatch::default();
    let mut added = StoreStats { commits: 1, syncs: u64::from(group.is_sync_due), ..StoreStats::default() };
    let mut is_sync_due = false;
    for job in group.jobs {
        if let Err(refusal) = admit(queue, database, &job.batch, &mut full) {
            answer(job, Err(refusal));
            continue;
        }
        for op in job.batch.ops() {
            add(&db, &mut batch, op);
        }
        added.batches += 1;
        added.rows += job.batch.len() as u64;
        added.syncs |= u64::from(job.durability == Durability::Synced);
        is_sync_due |= job.durability == Durability::Syncing;
        jobs.push(job);
    }
    if jobs.is_empty() && added.syncs == 0 {
        return;
    }
    let mut options = WriteOptions::default();
    options.set_sync(added.syncs == 1);
    let outcome = db.write_opt(batch, &options).map_err(|error| database.write_failed(error, queue.reserve_bytes));
    match &outcome {
        Ok(()) => queue.count(&added),
        Err(error) if group.is_sync_due => tracing::warn!(%error, "what was written is not on disk for good yet"),
        Err(_) => {}
    }
    if is_sync_due && added.syncs == 0 {
        queue.sync_soon();
    }
    // Before they are answered: whoever was answered may write at once again.
    drop(pen);
    for job in jobs {
        answer(job, outcome.clone());
    }
}

/// Ignores that the future may have been dropped.
fn answer(job: Job, outcome: Result<(), WriteError>) {
    let _ = job.done.send(outcome);
}

/// Refuses batches to stopped families, and batches that put rows while less than the reserve is free; `full` keeps
/// the answer for one group. Batches that only delete pass, so that space can be freed.
fn admit(
    queue: &Queue,
    database: &Database,
    batch: &Batch,
    full: &mut Option<Option<WriteError>>,
) -> Result<(), WriteError> {
    for op in batch.ops() {
        if database.damage.check(op.family).is_err() {
            return Err(WriteError::Damaged { family: op.family, dir: database.dir.clone() });
        }
    }
    if !batch.ops().iter().any(|op| op.value.is_some()) {
        return Ok(());
    }
    match full.get_or_insert_with(|| below_reserve(queue, database)) {
        Some(refusal) => Err(refusal.clone()),
        None => Ok(()),
    }
}

/// The refusal if less than the reserve is free. If the file system does not tell, writes fail by themselves.
fn below_reserve(queue: &Queue, database: &Database) -> Option<WriteError> {
    let free_bytes = damage::free_bytes(&database.dir).ok()?;
    (free_bytes < queue.reserve_bytes).then(|| WriteError::Full {
        path: database.dir.clone(),
        free_bytes,
        reserve_bytes: queue.reserve_bytes,
    })
}

fn add(db: &DB, batch: &mut WriteBatch, op: &Op) {
    let handle = db.cf_handle(op.family.0).expect("Batch::check has found every family, and none is ever dropped");
    match &op.value {
        Some(value) => batch.put_cf(handle, &op.key, value),
        None => batch.delete_cf(handle, &op.key),
    }
}

#[cfg(test)]
mod tests;
