//! One namespace: its rows on disk, and the index of them in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use althing_protocol::Label;
use althing_store::{Batch, Durability, Range, Store};
use serde_json::Value;

use super::error::MemoryError;
use super::rows::{self, Entry, Header, MEMORY, Name, Removal};
use super::{Entropy, WallClock};
use crate::steps::change;
use althing_store::seal::{NONCE_BYTES, Seal};

/// Rows of one scan.
const PAGE: usize = 256;
/// Tombstones of a namespace; the oldest beyond that are removed.
const TOMBSTONES_MAX: usize = 10_000;

/// One namespace.
pub struct Namespace {
    pub name: String,
    store: Arc<dyn Store>,
    clock: WallClock,
    entropy: Entropy,
    /// Set before anything is read or written; deleting needs no key.
    seal: OnceLock<Seal>,
    header: Mutex<Header>,
    /// Whether the header on disk may differ.
    stale: AtomicBool,
    /// The index of what is on disk; none until it was loaded, and after a write whose outcome is unknown.
    index: tokio::sync::Mutex<Option<Index>>,
}

/// The rows that a change deletes.
pub enum Forget {
    Nothing,
    /// This row.
    One(Name),
    /// All passages of a source, except those that the same change writes.
    Source(String),
}

/// The index entry of a row.
#[derive(Debug, Clone)]
pub struct RowInfo {
    pub at_ms: u64,
    pub bytes: u64,
    /// The source and the vector of a passage.
    pub passage: Option<(String, Vec<i8>)>,
    /// How its value or passage is labelled, if at all.
    pub label: Option<Label>,
}

/// An iterator over the index.
pub type Rows<'a> = Box<dyn Iterator<Item = (&'a Name, &'a RowInfo)> + 'a>;

/// The index of a namespace.
#[derive(Debug, Default)]
pub struct Index {
    pub rows: BTreeMap<Name, RowInfo>,
    pub bytes: u64,
}

impl Index {
    fn put(&mut self, name: Name, info: RowInfo) {
        self.bytes += info.bytes;
        if let Some(old) = self.rows.insert(name, info) {
            self.bytes -= old.bytes;
        }
    }

    fn take(&mut self, name: &Name) {
        if let Some(old) = self.rows.remove(name) {
            self.bytes -= old.bytes;
        }
    }
}

impl Namespace {
    /// A namespace with its header; `new`: the header is not on disk yet.
    pub fn new(
        name: String,
        store: Arc<dyn Store>,
        (clock, entropy): (WallClock, Entropy),
        header: Header,
        new: bool,
    ) -> Namespace {
        let (seal, header, stale) = (OnceLock::new(), Mutex::new(header), AtomicBool::new(new));
        Namespace { name, store, clock, entropy, seal, header, stale, index: tokio::sync::Mutex::default() }
    }

    pub fn header(&self) -> Header {
        self.header.lock().expect("no holder of the header panics").clone()
    }

    /// Whether it has its key, if it is encrypted.
    pub fn is_open(&self) -> bool {
        self.header().sealed.is_none() || self.seal.get().is_some()
    }

    /// Whether it is encrypted, and has its key.
    pub fn has_key(&self) -> bool {
        self.header().sealed.is_some() && self.seal.get().is_some()
    }

    /// Encrypts bytes of that place; none without a key.
    pub fn close(&self, around: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
        Some(self.seal.get()?.close(self.nonce(), around, plain))
    }

    /// Decrypts them; none if they do not open, or without a key.
    pub fn open(&self, around: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        self.seal.get()?.open(around, sealed)
    }

    /// Sets its key; the first one stays.
    pub fn unlock(&self, seal: Seal) {
        // Concurrent callers derive the same key from the same secret and salt.
        let _ = self.seal.set(seal);
    }

    pub fn now_ms(&self) -> u64 {
        (self.clock)()
    }

    /// Replaces the header, durably.
    pub async fn adopt(&self, header: Header) -> Result<(), MemoryError> {
        let _alone = self.index.lock().await;
        {
            let mut current = self.header.lock().expect("no holder of the header panics");
            if *current != header {
                self.stale.store(true, Ordering::Release);
                *current = header;
            }
        }
        let mut batch = Batch::new();
        let written = self.put_header(&mut batch);
        if !batch.is_empty() {
            self.store.write(batch, Durability::Synced).await?;
            self.note_header(written);
        }
        Ok(())
    }

    /// The entry of a row that has not expired.
    pub async fn read(&self, name: &Name) -> Result<Option<(u64, Entry)>, MemoryError> {
        let key = rows::row_key(b'r', &self.name, name, self.seal.get());
        let Some(value) = self.store.read(MEMORY, &key)? else { return Ok(None) };
        let (at_ms, entry) = self.decode(&key, &value)?;
        Ok((!self.is_expired(at_ms)).then_some((at_ms, entry)))
    }

    /// When and why a row was removed, if its tombstone is still there.
    pub fn tombstone(&self, name: &Name) -> Result<Option<(u64, Removal)>, MemoryError> {
        let key = rows::row_key(b't', &self.name, name, self.seal.get());
        let row = self.store.read(MEMORY, &key)?;
        Ok(row.and_then(|value| {
            let why =
                if value.get(8) == Some(&(Removal::Expired as u8)) { Removal::Expired } else { Removal::Forgotten };
            Some((rows::kept_ms(&value)?, why))
        }))
    }

    /// Runs `look` over the index entries that have not expired.
    pub async fn read_index<T: Send + 'static>(
        self: &Arc<Namespace>,
        look: impl FnOnce(Rows<'_>, u64) -> T + Send + 'static,
    ) -> Result<T, MemoryError> {
        let mut held = self.index.lock().await;
        let index = self.loaded(held.take()).await?;
        let this = self.clone();
        // Comparing many vectors takes long, so it must not block the runtime.
        let looked = tokio::task::spawn_blocking(move || {
            let rows = index.rows.iter().filter(|(_, info)| !this.is_expired(info.at_ms));
            let looked = look(Box::new(rows), index.bytes);
            (looked, index)
        });
        let (looked, index) = looked.await.map_err(|_| MemoryError::Damaged(self.name.clone()))?;
        *held = Some(index);
        Ok(looked)
    }

    /// Writes entries and deletes rows in one durable batch; gives the number of deleted rows. `told` makes of that number what
    /// the agent is told: where that belongs into a journal, it is in the same batch.
    pub async fn change(
        self: &Arc<Namespace>,
        entries: Vec<Entry>,
        forget: Forget,
        told: impl FnOnce(usize) -> Value,
    ) -> Result<usize, MemoryError> {
        let mut held = self.index.lock().await;
        // The index is taken out until the write is done: a turn may be dropped in the middle.
        let mut index = self.loaded(held.take()).await?;
        let planned = self.plan(&index, entries, &forget);
        let Change { batch, header, kept, forgotten } = match planned {
            Ok(planned) => planned,
            Err(error) => {
                *held = Some(index);
                return Err(error);
            }
        };
        match change::current() {
            Some(step) => step.write(told(forgotten.len()), batch).await?,
            None => self.store.write(batch, Durability::Synced).await?,
        }
        self.note_header(header);
        forgotten.iter().for_each(|name| index.take(name));
        kept.into_iter().for_each(|(name, info)| index.put(name, info));
        *held = Some(index);
        Ok(forgotten.len())
    }

    /// Plans a change, within the quota.
    fn plan(&self, index: &Index, entries: Vec<Entry>, forget: &Forget) -> Result<Change, MemoryError> {
        let now_ms = self.now_ms();
        let mut batch = Batch::new();
        let header = self.put_header(&mut batch);
        let mut kept = BTreeMap::new();
        for entry in entries {
            let name = entry.name();
            let key = rows::row_key(b'r', &self.name, &name, self.seal.get());
            let value = rows::encode(&key, now_ms, &entry, self.seal.get().map(|seal| (seal, self.nonce())));
            let info = RowInfo {
                at_ms: now_ms,
                bytes: (key.len() + value.len()) as u64,
                passage: passage(&entry),
                label: entry.label(),
            };
            let taken = index.rows.get(&name).and_then(|old| old.passage.as_ref());
            if let (Some((old, _)), Some((new, _))) = (taken, &info.passage)
                && old != new
            {
                return Err(MemoryError::Collision { source_name: new.clone(), other: old.clone() });
            }
            batch.delete(MEMORY, tombstone_key(&key));
            batch.put(MEMORY, key, value);
            kept.insert(name, info);
        }
        let of_source = |source: &String| {
            let of = |info: &RowInfo| info.passage.as_ref().is_some_and(|(of, _)| of == source);
            let all = index.rows.iter().filter(|(name, info)| of(info) && !kept.contains_key(*name));
            all.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        let forgotten: Vec<Name> = match forget {
            Forget::Nothing => Vec::new(),
            Forget::One(name) => index.rows.contains_key(name).then(|| name.clone()).into_iter().collect(),
            Forget::Source(source) => of_source(source),
        };
        for name in &forgotten {
            let key = rows::row_key(b'r', &self.name, name, self.seal.get());
            put_tombstone(&mut batch, key, now_ms, Removal::Forgotten);
        }
        let replaced = kept.keys().chain(&forgotten).filter_map(|name| index.rows.get(name));
        let replaced: u64 = replaced.map(|info| info.bytes).sum();
        let more: u64 = kept.values().map(|info| info.bytes).sum();
        let (used, quota) = (index.bytes, self.header().quota_bytes);
        if !kept.is_empty() && used - replaced + more > quota {
            let (namespace, more) = (self.name.clone(), more.saturating_sub(replaced));
            return Err(MemoryError::Quota { namespace, used, quota, more });
        }
        Ok(Change { batch, header, kept, forgotten })
    }

    /// Deletes expired rows; gives their number. Needs no key.
    pub async fn sweep(&self) -> Result<usize, MemoryError> {
        if self.header().retention_s.is_none() {
            return Ok(0);
        }
        // Locked throughout: no row that is deleted is written meanwhile.
        let mut held = self.index.lock().await;
        let (mut swept, mut after) = (0, None);
        loop {
            let mut range = Range::prefix(rows::prefix(b'r', &self.name), PAGE);
            range.after = after;
            let page = self.store.scan(MEMORY, range)?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            let over =
                page.iter().filter(|(_, value)| rows::kept_ms(value).is_some_and(|at_ms| self.is_expired(at_ms)));
            let mut batch = Batch::new();
            for (key, _) in over {
                put_tombstone(&mut batch, key.clone(), self.now_ms(), Removal::Expired);
                swept += 1;
            }
            if !batch.is_empty() {
                *held = None;
                self.store.write(batch, Durability::Synced).await?;
            }
            tokio::task::yield_now().await;
        }
        drop(held);
        self.prune_tombstones().await?;
        Ok(swept)
    }

    /// Deletes everything, including the header. Needs no key.
    pub async fn remove(&self) -> Result<(), MemoryError> {
        let mut held = self.index.lock().await;
        *held = None;
        // The next change writes the header again.
        self.stale.store(true, Ordering::Release);
        for kind in [b'r', b't'] {
            loop {
                let page = self.store.scan(MEMORY, Range::prefix(rows::prefix(kind, &self.name), PAGE))?;
                if page.is_empty() {
                    break;
                }
                let mut batch = Batch::new();
                for (key, _) in page {
                    batch.delete(MEMORY, key);
                }
                self.store.write(batch, Durability::Buffered).await?;
            }
        }
        let mut batch = Batch::new();
        batch.delete(MEMORY, rows::header_key(&self.name));
        Ok(self.store.write(batch, Durability::Synced).await?)
    }

    /// Whether a row of that time is past the retention.
    fn is_expired(&self, at_ms: u64) -> bool {
        let retention_s = self.header.lock().expect("no holder of the header panics").retention_s;
        retention_s.is_some_and(|seconds| (self.clock)() >= at_ms.saturating_add(seconds.saturating_mul(1_000)))
    }

    fn nonce(&self) -> [u8; NONCE_BYTES] {
        let mut nonce = [0; NONCE_BYTES];
        (self.entropy)(&mut nonce);
        nonce
    }

    fn decode(&self, key: &[u8], value: &[u8]) -> Result<(u64, Entry), MemoryError> {
        rows::decode(key, value, self.seal.get()).ok_or_else(|| MemoryError::Damaged(self.name.clone()))
    }

    /// Adds the header to the batch if the one on disk may differ.
    fn put_header(&self, batch: &mut Batch) -> Option<Header> {
        let header = self.stale.load(Ordering::Acquire).then(|| self.header())?;
        batch.put(MEMORY, rows::header_key(&self.name), rows::write(&header));
        Some(header)
    }

    /// It is not written again once it is known to be on disk.
    fn note_header(&self, header: Option<Header>) {
        if header.is_some_and(|header| header == self.header()) {
            self.stale.store(false, Ordering::Release);
        }
    }

    /// Deletes the oldest tombstones beyond [`TOMBSTONES_MAX`].
    async fn prune_tombstones(&self) -> Result<(), MemoryError> {
        let mut tombstones: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut after = None;
        loop {
            let mut range = Range::prefix(rows::prefix(b't', &self.name), PAGE);
            range.after = after;
            let page = self.store.scan(MEMORY, range)?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            tombstones.extend(page.into_iter().map(|(key, value)| (rows::kept_ms(&value).unwrap_or_default(), key)));
        }
        if tombstones.len() <= TOMBSTONES_MAX {
            return Ok(());
        }
        tombstones.sort_unstable_by_key(|(at_ms, _)| std::cmp::Reverse(*at_ms));
        for over in tombstones[TOMBSTONES_MAX..].chunks(PAGE) {
            let mut batch = Batch::new();
            for (_, key) in over {
                batch.delete(MEMORY, key.clone());
            }
            self.store.write(batch, Durability::Buffered).await?;
        }
        Ok(())
    }

    /// The index, loaded if there is none.
    async fn loaded(self: &Arc<Namespace>, index: Option<Index>) -> Result<Index, MemoryError> {
        match index {
            Some(index) => Ok(index),
            None => {
                let this = self.clone();
                let loaded = tokio::task::spawn_blocking(move || this.load()).await;
                loaded.map_err(|_| MemoryError::Damaged(self.name.clone()))?
            }
        }
    }

    fn load(&self) -> Result<Index, MemoryError> {
        let mut index = Index::default();
        let mut after = None;
        loop {
            let mut range = Range::prefix(rows::prefix(b'r', &self.name), PAGE);
            range.after = after;
            let page = self.store.scan(MEMORY, range)?;
            let Some((last, _)) = page.last() else { return Ok(index) };
            after = Some(last.clone());
            for (key, value) in &page {
                let (at_ms, entry) = self.decode(key, value)?;
                let bytes = (key.len() + value.len()) as u64;
                let (passage, label) = (passage(&entry), entry.label());
                index.put(entry.name(), RowInfo { at_ms, bytes, passage, label });
            }
        }
    }
}

/// A planned change.
struct Change {
    batch: Batch,
    header: Option<Header>,
    kept: BTreeMap<Name, RowInfo>,
    forgotten: Vec<Name>,
}

fn put_tombstone(batch: &mut Batch, key: Vec<u8>, now_ms: u64, why: Removal) {
    let value = [now_ms.to_be_bytes().as_slice(), &[why as u8]].concat();
    batch.put(MEMORY, tombstone_key(&key), value);
    batch.delete(MEMORY, key);
}

/// A passage's source and vector.
fn passage(entry: &Entry) -> Option<(String, Vec<i8>)> {
    match entry {
        Entry::Passage { source, vector, .. } => {
            Some((source.clone(), vector.iter().map(|byte| byte.cast_signed()).collect()))
        }
        Entry::Value { .. } => None,
    }
}

/// The key of a row's tombstone.
fn tombstone_key(row_key: &[u8]) -> Vec<u8> {
    [b"t", &row_key[1..]].concat()
}
