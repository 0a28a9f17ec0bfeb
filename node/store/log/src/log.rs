//! The log itself: one writer, many readers.

use std::sync::{Arc, RwLock};

use althing_protocol::Digest;
use althing_protocol::tlog::{Head, Span, TreeError, consistency_spans, inclusion_spans, leaf_hash, node_hash};
use althing_store::{Batch, Durability, Family, Range, Store, WriteError};
use tokio::sync::{Mutex, MutexGuard};

use crate::edge::{Edge, root_of};
use crate::error::{AppendError, LogError};
use crate::tile::{TILE_WIDTH, Tile};

/// Bytes of an entry: bundles give their length in 16 bits.
pub const ENTRY_BYTES_MAX: usize = u16::MAX as usize;
const WIDTH: u64 = TILE_WIDTH as u64;

/// The column families of a log; its owner names them.
#[derive(Debug, Clone, Copy)]
pub struct LogFamilies {
    /// Entries by index.
    pub entries: Family,
    /// Hashes by level and index.
    pub hashes: Family,
}

/// What is on disk, and what may be.
#[derive(Default)]
struct Written {
    edge: Edge,
    /// A write of unknown outcome: it is done again before the next one, so that there is one history whatever became of it.
    pending: Option<Pending>,
}

/// A write that is under way.
struct Pending {
    batch: Batch,
    edge: Edge,
    head: Head,
}

/// An append-only log.
pub struct Log {
    store: Arc<dyn Store>,
    families: LogFamilies,
    /// What the keys of its rows begin with.
    prefix: Vec<u8>,
    written: Mutex<Written>,
    head: RwLock<Head>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("head", &self.head()).finish_non_exhaustive()
    }
}

impl Log {
    /// Opens the log that is in the store, or an empty one.
    ///
    /// # Errors
    /// [`LogError`]: the store fails, or the end of the log is not whole.
    pub fn open(store: Arc<dyn Store>, families: LogFamilies) -> Result<Log, LogError> {
        Log::open_below(store, families, Vec::new())
    }

    /// The same, of one of several logs in these families: that whose rows have keys that begin with `prefix`. All prefixes in
    /// them have the same number of bytes.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub fn open_below(store: Arc<dyn Store>, families: LogFamilies, prefix: Vec<u8>) -> Result<Log, LogError> {
        let last = store.scan(families.entries, Range::prefix(prefix.clone(), 1).reversed())?;
        let size = match last.first() {
            None => 0,
            Some((key, _)) => number(&key[prefix.len()..]).ok_or_else(|| damaged("the key of its last entry"))? + 1,
        };
        let log = Log { store, families, prefix, written: Mutex::default(), head: RwLock::default() };
        let (mut levels, mut count) = (Vec::new(), size);
        for level in 0.. {
            let width = count % WIDTH;
            levels.push(log.hashes(level, count - width, width)?);
            count /= WIDTH;
            if count == 0 {
                break;
            }
        }
        let edge = Edge::new(size, levels);
        *log.head.write().expect("no holder panics") = edge.head();
        if size > 0 {
            log.entry(size - 1)?;
        }
        Ok(Log { written: Mutex::new(Written { edge, pending: None }), ..log })
    }

    /// The head over all entries that are on disk.
    #[must_use]
    pub fn head(&self) -> Head {
        *self.head.read().expect("no holder panics")
    }

    /// The right to append; the others wait for it.
    pub async fn writer(&self) -> Writer<'_> {
        Writer { written: self.written.lock().await, log: self }
    }

    /// An entry.
    ///
    /// # Errors
    /// [`LogError`]: it is not there, the store fails, or it is not what its hash says.
    pub fn entry(&self, index: u64) -> Result<Vec<u8>, LogError> {
        Ok(self.entries(index, 1)?.remove(0))
    }

    /// `count` entries from `first` on.
    ///
    /// # Errors
    /// As [`Log::entry`].
    pub fn entries(&self, first: u64, count: u64) -> Result<Vec<Vec<u8>>, LogError> {
        // Hashes before entries, as an entry whose hash was read is never changed.
        let hashes = self.hashes(0, first, count)?;
        let rows = self.scan(self.families.entries, &[], first, count)?;
        let mut entries = Vec::with_capacity(rows.len());
        for (hash, (index, entry)) in hashes.iter().zip(rows) {
            if leaf_hash(&entry) != *hash {
                return Err(damaged(&format!("entry {index}")));
            }
            entries.push(entry);
        }
        if entries.len() < hashes.len() {
            return Err(damaged(&format!("entry {}", first + count - 1)));
        }
        Ok(entries)
    }

    /// The hashes that prove entry `index` in the first `size` entries.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn inclusion(&self, index: u64, size: u64) -> Result<Vec<Digest>, LogError> {
        self.within(size)?;
        inclusion_spans(size, index)?.into_iter().map(|span| self.root(span)).collect()
    }

    /// The hashes that prove that the first `new` entries go on from the first `old`.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn consistency(&self, old: u64, new: u64) -> Result<Vec<Digest>, LogError> {
        self.within(new)?;
        consistency_spans(old, new)?.into_iter().map(|span| self.root(span)).collect()
    }

    /// The head over the first `size` entries.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn head_at(&self, size: u64) -> Result<Head, LogError> {
        self.within(size)?;
        let span = Span { first: 0, end: size };
        Ok(Head { size, root: if size == 0 { Head::default().root } else { self.root(span)? } })
    }

    /// The hashes of a tile, 32 bytes each; none if the log has no such tile.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn tile(&self, tile: Tile) -> Result<Option<Vec<u8>>, LogError> {
        if !self.has(tile) {
            return Ok(None);
        }
        Ok(Some(self.hashes(tile.level, tile.index * WIDTH, tile.width.into())?.concat()))
    }

    /// The entries of a tile of level 0, each after its length (16 bits, big-endian); none if the log has no such tile.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn bundle(&self, tile: Tile) -> Result<Option<Vec<u8>>, LogError> {
        if tile.level != 0 || !self.has(tile) {
            return Ok(None);
        }
        let mut bundle = Vec::new();
        for entry in self.entries(tile.index * WIDTH, tile.width.into())? {
            bundle.extend(u16::try_from(entry.len()).unwrap_or(u16::MAX).to_be_bytes());
            bundle.extend(entry);
        }
        Ok(Some(bundle))
    }

    fn has(&self, tile: Tile) -> bool {
        let of_level = self.head().size.checked_shr(8 * u32::from(tile.level)).unwrap_or(0);
        tile.index
            .checked_mul(WIDTH)
            .and_then(|first| first.checked_add(tile.width.into()))
            .is_some_and(|end| end <= of_level)
    }

    fn within(&self, size: u64) -> Result<(), LogError> {
        let now = self.head().size;
        if size > now {
            return Err(TreeError::Smaller { old: size, new: now }.into());
        }
        Ok(())
    }

    /// The root over a span, which is a full tree or ends where the log ended.
    fn root(&self, span: Span) -> Result<Digest, LogError> {
        let count = span.end - span.first;
        if count.is_power_of_two() {
            let level = count.trailing_zeros() / 8;
            let unit = 1 << (8 * level);
            let level = u8::try_from(level).expect("at most 7");
            return Ok(root_of(&self.hashes(level, span.first / unit, count / unit)?));
        }
        let middle = span.first + count.next_power_of_two() / 2;
        let left = self.root(Span { end: middle, ..span })?;
        Ok(node_hash(&left, &self.root(Span { first: middle, ..span })?))
    }

    /// `count` consecutive hashes of a level.
    fn hashes(&self, level: u8, first: u64, count: u64) -> Result<Vec<Digest>, LogError> {
        let rows = self.scan(self.families.hashes, &[level], first, count)?;
        if rows.len() as u64 != count {
            return Err(damaged(&format!("hash {} of level {level}", first + rows.len() as u64)));
        }
        rows.into_iter()
            .map(|(index, hash)| hash.try_into().map_err(|_| damaged(&format!("hash {index} of level {level}"))))
            .collect()
    }

    /// The rows from `first` on that have no gap.
    fn scan(&self, family: Family, level: &[u8], first: u64, count: u64) -> Result<Vec<(u64, Vec<u8>)>, LogError> {
        let limit = usize::try_from(count).unwrap_or(usize::MAX);
        let prefix = [&self.prefix[..], level].concat();
        let mut range = Range::prefix(prefix.clone(), limit);
        if let Some(before) = first.checked_sub(1) {
            range = range.after([&prefix[..], &before.to_be_bytes()].concat());
        }
        let rows = self.store.scan(family, range)?.into_iter();
        let numbered = rows.map(|(key, value)| (number(&key[prefix.len()..]), value));
        Ok((first..)
            .zip(numbered)
            .map_while(|(at, (number, value))| (number == Some(at)).then_some((at, value)))
            .collect())
    }
}

fn number(key: &[u8]) -> Option<u64> {
    key.try_into().ok().map(u64::from_be_bytes)
}

fn damaged(what: &str) -> LogError {
    LogError::Damaged { what: what.to_owned() }
}

/// The only one who appends.
pub struct Writer<'a> {
    written: MutexGuard<'a, Written>,
    log: &'a Log,
}

impl std::fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("log", self.log).finish_non_exhaustive()
    }
}

impl Writer<'_> {
    /// The index that the next entry will have; a write of unknown outcome is done again first.
    ///
    /// # Errors
    /// [`AppendError`]: it fails again.
    pub async fn next(&mut self) -> Result<u64, AppendError> {
        self.settle().await?;
        Ok(self.written.edge.size())
    }

    /// Appends entries, and writes rows with them: those that `over` makes of the head that the log will have. When it
    /// completes, all of it is on disk; gives the head.
    ///
    /// # Errors
    /// [`AppendError`]. After [`AppendError::TooLong`] nothing was appended. After the others it may have been, and will be if
    /// the log is written again: whoever asks once more must find its entry rather than append it twice.
    pub async fn append(&mut self, entries: &[Vec<u8>], over: impl FnOnce(Head) -> Batch) -> Result<Head, AppendError> {
        self.settle().await?;
        let (mut edge, mut batch) = (self.written.edge.clone(), Batch::new());
        for entry in entries {
            if entry.len() > ENTRY_BYTES_MAX {
                return Err(AppendError::TooLong { bytes: entry.len(), max: ENTRY_BYTES_MAX });
            }
            let (families, prefix) = (self.log.families, &self.log.prefix[..]);
            batch.put(families.entries, [prefix, &edge.size().to_be_bytes()].concat(), entry.clone());
            for (level, index, hash) in edge.push(entry) {
                batch.put(families.hashes, [prefix, &[level], &index.to_be_bytes()].concat(), hash);
            }
        }
        let head = edge.head();
        batch.append(over(head));
        self.written.pending = Some(Pending { batch, edge, head });
        self.settle().await?;
        Ok(head)
    }

    /// Writes what is pending. Nothing is lost if this is dropped half-way.
    async fn settle(&mut self) -> Result<(), AppendError> {
        let Some(pending) = &self.written.pending else { return Ok(()) };
        let outcome = self.log.store.write(pending.batch.clone(), Durability::Synced).await;
        if let Err(refused) = outcome {
            use WriteError::{Closed, Damaged, TooLarge, UnknownFamily};
            if matches!(refused, UnknownFamily { .. } | TooLarge { .. } | Damaged { .. } | Closed { .. }) {
                self.written.pending = None;
            }
            return Err(refused.into());
        }
        let Pending { edge, head, .. } = self.written.pending.take().expect("it was just written");
        *self.log.head.write().expect("no holder panics") = head;
        self.written.edge = edge;
        Ok(())
    }
}
