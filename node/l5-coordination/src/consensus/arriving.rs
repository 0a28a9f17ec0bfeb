//! Snapshots that arrive in parts: in memory until they are complete, within what all groups of a node may take.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use althing_protocol::PublicKey;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::records::Position;
use super::wire::{PART_BYTES_MAX, SnapshotPart};

/// Bytes of one snapshot: values and tasks at their bounds, with what each carries beside its content.
const SNAPSHOT_BYTES_MAX: usize = 512 << 20;

/// Bytes of the snapshots that arrive, or are checked, at one time, over all groups of a node: one of the largest, or many
/// smaller ones.
const ROOM_BYTES: usize = SNAPSHOT_BYTES_MAX;

/// Bytes that a row counts beside its own.
const ROW_OVERHEAD: usize = 64;

/// How long the parts of a snapshot are kept for the next ones: each may take ten seconds, and be sent again. Until then as many
/// bytes as one part has must have come, so that nobody holds the room with empty ones.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a part is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PartError {
    /// Of another snapshot, or not the next one.
    #[error("a part of a snapshot came out of order")]
    Order,
    /// Of a snapshot that is too large.
    #[error("the snapshot is too large")]
    Size,
    /// Other snapshots take the room.
    #[error("this node is taking as much of other snapshots as it can; send it again later")]
    Room,
}

/// What the groups of a node have in common for snapshots that arrive.
pub(crate) struct Room {
    left: Mutex<usize>,
    /// Whoever checks one holds it: each takes a thread for a while.
    check: Arc<Semaphore>,
}

/// What one snapshot takes of the room, until it is dropped.
pub(crate) struct Share {
    room: Arc<Room>,
    bytes: usize,
}

impl Room {
    /// The room of a node.
    pub fn new() -> Arc<Room> {
        Room::of(ROOM_BYTES)
    }

    fn of(bytes: usize) -> Arc<Room> {
        Arc::new(Room { left: Mutex::new(bytes), check: Arc::new(Semaphore::new(1)) })
    }

    fn left(&self) -> MutexGuard<'_, usize> {
        self.left.lock().expect("no holder of the room panics")
    }
}

impl Share {
    fn none(room: &Arc<Room>) -> Share {
        Share { room: room.clone(), bytes: 0 }
    }

    fn grow(&mut self, bytes: usize) -> Result<(), PartError> {
        let mut left = self.room.left();
        *left = left.checked_sub(bytes).ok_or(PartError::Room)?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        *self.room.left() += self.bytes;
    }
}

/// The snapshot that arrives for one group.
pub(crate) struct Arriving {
    room: Arc<Room>,
    parts: Mutex<Option<Parts>>,
}

struct Parts {
    from: PublicKey,
    term: u64,
    last: Option<Position>,
    /// When enough had come last.
    heard: Instant,
    /// What came since.
    since: usize,
    rows: Vec<Vec<u8>>,
    share: Share,
}

/// All rows of a snapshot.
pub(crate) struct Arrived {
    pub rows: Vec<Vec<u8>>,
    pub share: Share,
}

impl Parts {
    /// Adds the rows of a part.
    fn add(&mut self, part: SnapshotPart, now: Instant) -> Result<(), PartError> {
        // A row counts more than its bytes, so that empty ones are bounded too.
        let bytes = part.rows.iter().map(|row| row.len() + ROW_OVERHEAD).sum::<usize>();
        if self.share.bytes + bytes > SNAPSHOT_BYTES_MAX {
            return Err(PartError::Size);
        }
        self.share.grow(bytes)?;
        self.since += bytes;
        if self.since >= PART_BYTES_MAX {
            (self.heard, self.since) = (now, 0);
        }
        self.rows.extend(part.rows.into_iter().map(Vec::from));
        Ok(())
    }
}

impl Arriving {
    /// None arrives yet.
    pub fn new(room: Arc<Room>) -> Arriving {
        Arriving { room, parts: Mutex::new(None) }
    }

    fn parts(&self) -> MutexGuard<'_, Option<Parts>> {
        self.parts.lock().expect("no holder of the parts panics")
    }

    /// Waits until no other snapshot is checked on this node; holds that up until it is dropped.
    pub async fn turn(&self) -> OwnedSemaphorePermit {
        self.room.check.clone().acquire_owned().await.expect("nobody closes it")
    }

    /// Gives up what will not be completed: of a term before this one, or of which too little came for too long.
    pub fn give_up(&self, term: u64) {
        let mut arriving = self.parts();
        let is_over = |parts: &Parts| parts.term < term || parts.heard.elapsed() > PATIENCE;
        if arriving.as_ref().is_some_and(is_over) {
            *arriving = None;
        }
    }

    /// Adds a part; all rows after the last one. What has come is given up where it cannot be taken any further.
    pub fn take(&self, from: PublicKey, part: SnapshotPart) -> Result<Option<Arrived>, PartError> {
        let (term, heard) = (part.leader.term, Instant::now());
        self.give_up(term);
        let mut arriving = self.parts();
        if part.offset == 0 {
            // What came before is dropped first, so that there is room.
            *arriving = None;
            let share = Share::none(&self.room);
            *arriving = Some(Parts { from, term, last: part.last, heard, since: 0, rows: Vec::new(), share });
        }
        let expected = |parts: &&mut Parts| {
            (parts.from, parts.term, parts.last) == (from, term, part.last) && parts.rows.len() as u64 == part.offset
        };
        let parts = arriving.as_mut().filter(expected).ok_or(PartError::Order)?;
        let is_last = part.is_last;
        if let Err(error) = parts.add(part, heard) {
            *arriving = None;
            return Err(error);
        }
        let arrived = |parts: Parts| Arrived { rows: parts.rows, share: parts.share };
        Ok(if is_last { arriving.take().map(arrived) } else { None })
    }
}

#[cfg(test)]
mod tests;
