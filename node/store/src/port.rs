//! The port: what every store promises, whatever lies below it.

use crate::{Family, ReadError, WriteError};
use futures::future::BoxFuture;

/// The largest batch, in bytes of keys and values: several times the largest message of the protocol (1 MiB), and
/// small enough that a few of them fit into the write buffers.
pub const BATCH_BYTES_MAX: usize = 4 << 20;
/// The largest batch that is made for one large row ([`Batch::large`]), in bytes of keys and values: the longest answer of the
/// protocol (4 MiB), stored as what takes most room, and what belongs to it.
pub const LARGE_BATCH_BYTES_MAX: usize = 16 << 20;

/// When a write counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Visible to readers, handed to the operating system: survives a crash of the process, not of the machine.
    Buffered,
    /// The same, and a sync begins at once, for which nobody waits: where it fails, the log says so.
    Syncing,
    /// On disk (fsync) before the future completes.
    Synced,
}

/// Puts and deletes that are applied together or not at all, across families, in the order they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    ops: Vec<Op>,
    bytes: usize,
    is_large: bool,
}

/// One change: `value` is `None` for a delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) family: Family,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
}

impl Batch {
    /// A batch without changes. Written with [`Durability::Synced`] it is a barrier: every earlier write of this
    /// store is on disk when it completes.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// A batch for one large row, and what is written with it: it may have [`LARGE_BATCH_BYTES_MAX`].
    pub fn large() -> Batch {
        Batch { is_large: true, ..Batch::default() }
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, family: Family, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> &mut Batch {
        self.push(family, key.into(), Some(value.into()))
    }

    /// Removes `key`; removing what is not there is no error.
    pub fn delete(&mut self, family: Family, key: impl Into<Vec<u8>>) -> &mut Batch {
        self.push(family, key.into(), None)
    }

    /// Adds the changes of `other` after its own.
    pub fn append(&mut self, other: Batch) -> &mut Batch {
        self.bytes += other.bytes;
        self.is_large |= other.is_large;
        self.ops.extend(other.ops);
        self
    }

    /// Its changes in their order: the family, the key, and the value, or `None` for a delete.
    pub fn changes(&self) -> impl Iterator<Item = (Family, &[u8], Option<&[u8]>)> {
        self.ops.iter().map(|op| (op.family, op.key.as_slice(), op.value.as_deref()))
    }

    /// How many changes it holds.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether it holds no change.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// The size that counts against [`BATCH_BYTES_MAX`], or [`LARGE_BATCH_BYTES_MAX`]: bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn push(&mut self, family: Family, key: Vec<u8>, value: Option<Vec<u8>>) -> &mut Batch {
        self.bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        self.ops.push(Op { family, key, value });
        self
    }

    pub(crate) fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// What both stores refuse before anything is written.
    pub(crate) fn check(&self, known: impl Fn(Family) -> bool) -> Result<(), WriteError> {
        let bytes_max = if self.is_large { LARGE_BATCH_BYTES_MAX } else { BATCH_BYTES_MAX };
        if self.bytes > bytes_max {
            return Err(WriteError::TooLarge { bytes: self.bytes, bytes_max });
        }
        match self.ops.iter().find(|op| !known(op.family)) {
            Some(op) => Err(WriteError::UnknownFamily { family: op.family }),
            None => Ok(()),
        }
    }
}

/// Which rows of a family a scan returns: those whose key begins with `prefix`, in byte order of the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// Every key returned begins with it; empty for the whole family.
    pub prefix: Vec<u8>,
    /// A whole key (it need not exist): the scan returns what comes after it in the direction of the scan. The last
    /// key of one scan is the `after` of the next.
    pub after: Option<Vec<u8>>,
    /// The largest number of rows returned.
    pub limit: usize,
    /// The most bytes of keys and values returned, though the first row is returned in any case: what is read at once stays
    /// bounded where single rows may be large.
    pub bytes: usize,
    /// From the largest key down.
    pub reverse: bool,
}

impl Range {
    /// The first `limit` rows whose key begins with `prefix`.
    pub fn prefix(prefix: impl Into<Vec<u8>>, limit: usize) -> Range {
        Range { prefix: prefix.into(), after: None, limit, bytes: usize::MAX, reverse: false }
    }

    /// The first `limit` rows of the family.
    pub fn all(limit: usize) -> Range {
        Range::prefix(Vec::new(), limit)
    }

    /// The same rows without `key` and what lies before it in the direction of the scan.
    pub fn after(mut self, key: impl Into<Vec<u8>>) -> Range {
        self.after = Some(key.into());
        self
    }

    /// The same rows from the largest key down.
    pub fn reversed(mut self) -> Range {
        self.reverse = true;
        self
    }

    /// The same rows, as many as these bytes have room for, and one in any case.
    pub fn within(mut self, bytes: usize) -> Range {
        self.bytes = bytes;
        self
    }

    /// Whether another row of so many bytes is returned after `rows` with `taken` bytes in all.
    pub(crate) fn has_room(&self, rows: usize, taken: usize, bytes: usize) -> bool {
        rows < self.limit && (rows == 0 || taken.saturating_add(bytes) <= self.bytes)
    }

    /// The smallest key that is larger than every key with the prefix; `None` when there is none.
    pub(crate) fn prefix_end(&self) -> Option<Vec<u8>> {
        let last = self.prefix.iter().rposition(|byte| *byte != u8::MAX)?;
        let mut end = self.prefix[..=last].to_vec();
        end[last] += 1;
        Some(end)
    }
}

/// Rows as (key, value), in the order of the scan.
pub type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// A store of ordered bytes. Reads are short and never wait for a writer's sync.
pub trait Store: Send + Sync + 'static {
    /// The value of `key`, or `None`.
    ///
    /// # Errors
    /// [`ReadError`]: the family is unknown or stopped by damage, or the disk fails.
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError>;

    /// The values of keys, in their order. Not of one moment: a write may come between two of them.
    ///
    /// # Errors
    /// As [`Store::read`].
    fn read_many(&self, family: Family, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, ReadError> {
        keys.iter().map(|key| self.read(family, key)).collect()
    }

    /// The rows of `range`, as (key, value), at most `range.limit` of them, and of `range.bytes` bytes.
    ///
    /// # Errors
    /// As [`Store::read`]. A scan that meets damage returns the error and no rows.
    fn scan(&self, family: Family, range: Range) -> Result<Rows, ReadError>;

    /// The keys of the rows of `range`, at most `range.limit` of them, whatever bytes their values have: none of these is
    /// kept in memory, so that large rows are deleted without it.
    ///
    /// # Errors
    /// As [`Store::scan`].
    fn keys(&self, family: Family, range: Range) -> Result<Vec<Vec<u8>>, ReadError> {
        let rows = self.scan(family, range.within(usize::MAX))?;
        Ok(rows.into_iter().map(|(key, _)| key).collect())
    }

    /// A view that later writes do not change. It keeps the store open, and old rows on disk, until it is dropped.
    fn snapshot(&self) -> Box<dyn Snapshot>;

    /// Applies `batch`. Nothing happens before the future is polled; a writer waits while the queue is full. Writes
    /// that are not awaited one after the other are applied in any order. A future that is dropped once polled
    /// leaves it open whether its batch is applied.
    ///
    /// # Errors
    /// [`WriteError`]. After [`WriteError::UnknownFamily`], [`WriteError::TooLarge`], [`WriteError::Damaged`] and
    /// [`WriteError::Closed`] nothing was applied. After the others the batch is not visible, but it may come back
    /// when the store is opened again: a retry must be able to apply a batch twice.
    fn write(&self, batch: Batch, durability: Durability) -> BoxFuture<'static, Result<(), WriteError>>;

    /// Writes anew what lies below rows whose keys have these prefixes, so that no file holds what was deleted or replaced
    /// there before. Snapshots and scans that are open keep what they see until they are dropped. A store that keeps nothing
    /// but the newest rows has nothing to do.
    ///
    /// # Errors
    /// [`WriteError`]: it may be done in part, and is harmless to do again.
    fn scrub(&self, _rows: Vec<(Family, Vec<u8>)>) -> BoxFuture<'static, Result<(), WriteError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A frozen view of a [`Store`].
pub trait Snapshot: Send + Sync {
    /// As [`Store::read`], on the frozen view.
    ///
    /// # Errors
    /// As [`Store::read`].
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError>;

    /// As [`Store::scan`], on the frozen view.
    ///
    /// # Errors
    /// As [`Store::scan`].
    fn scan(&self, family: Family, range: Range) -> Result<Rows, ReadError>;
}
