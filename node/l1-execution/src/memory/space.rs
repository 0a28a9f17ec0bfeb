//! One namespace: its rows on disk, and what is known of them in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use althing_store::{Batch, Durability, Range, Store};

use super::error::MemoryError;
use super::rows::{self, Entry, Gone, Header, MEMORY, Name};
use super::seal::{NONCE_BYTES, Seal};
use super::{Entropy, WallClock};

/// Rows that are read at once.
const PAGE: usize = 256;
/// Rows of a namespace that went and are remembered; beyond, the oldest are not.
const GONE_MAX: usize = 10_000;

/// One namespace.
pub struct Space {
    pub namespace: String,
    store: Arc<dyn Store>,
    clock: WallClock,
    entropy: Entropy,
    seal: Option<Seal>,
    header: Mutex<Header>,
    /// Whether the header on disk may be another.
    stale: AtomicBool,
    /// What is on disk; none until it was read, and after a write of which it is not known whether it was made.
    index: tokio::sync::Mutex<Option<Index>>,
}

/// What is known of a row.
#[derive(Debug, Clone)]
pub struct Known {
    pub at_ms: u64,
    pub bytes: u64,
    /// Of passages.
    pub passage: Option<(String, Vec<i8>)>,
}

/// Rows as they are looked through.
pub type Rows<'a> = Box<dyn Iterator<Item = (&'a Name, &'a Known)> + 'a>;

/// All rows of a namespace.
#[derive(Debug, Default)]
pub struct Index {
    pub rows: BTreeMap<Name, Known>,
    pub bytes: u64,
}

impl Index {
    fn put(&mut self, name: Name, known: Known) {
        self.bytes += known.bytes;
        if let Some(old) = self.rows.insert(name, known) {
            self.bytes -= old.bytes;
        }
    }

    fn take(&mut self, name: &Name) {
        if let Some(old) = self.rows.remove(name) {
            self.bytes -= old.bytes;
        }
    }
}

impl Space {
    pub fn new(
        namespace: String,
        store: Arc<dyn Store>,
        (clock, entropy): (WallClock, Entropy),
        seal: Option<Seal>,
        header: Header,
    ) -> Space {
        let (header, stale, index) = (Mutex::new(header), AtomicBool::new(true), tokio::sync::Mutex::default());
        Space { namespace, store, clock, entropy, seal, header, stale, index }
    }

    pub fn header(&self) -> Header {
        self.header.lock().expect("no holder of the header panics").clone()
    }

    /// Other terms from now on; they are on disk after the next write or sweep.
    pub fn set_header(&self, header: Header) {
        *self.header.lock().expect("no holder of the header panics") = header;
        self.stale.store(true, Ordering::Release);
    }

    /// What is kept under a row's name, when it has not passed its time.
    pub async fn read(&self, name: &Name) -> Result<Option<(u64, Entry)>, MemoryError> {
        let key = rows::row_key(b'r', &self.namespace, name, self.seal.as_ref());
        let Some(value) = self.store.read(MEMORY, &key)? else { return Ok(None) };
        let (at_ms, entry) = self.open(&key, &value)?;
        Ok((!self.over(at_ms)).then_some((at_ms, entry)))
    }

    /// When and why a row went, as far as that is remembered.
    pub fn gone(&self, name: &Name) -> Result<Option<(u64, Gone)>, MemoryError> {
        let key = rows::row_key(b't', &self.namespace, name, self.seal.as_ref());
        let row = self.store.read(MEMORY, &key)?;
        Ok(row.and_then(|value| {
            let why = if value.get(8) == Some(&(Gone::Expired as u8)) { Gone::Expired } else { Gone::Forgotten };
            Some((rows::kept_ms(&value)?, why))
        }))
    }

    /// Looks through all rows that have not passed their time.
    pub async fn look<T>(&self, look: impl FnOnce(Rows<'_>, u64) -> T) -> Result<T, MemoryError> {
        let mut held = self.index.lock().await;
        let index = match held.take() {
            Some(index) => index,
            None => self.load()?,
        };
        let looked = look(Box::new(index.rows.iter().filter(|(_, known)| !self.over(known.at_ms))), index.bytes);
        *held = Some(index);
        Ok(looked)
    }

    /// Keeps entries, and takes away those named; together, durably, or not at all.
    pub async fn change(&self, entries: Vec<Entry>, forgotten: &[Name]) -> Result<(), MemoryError> {
        let mut held = self.index.lock().await;
        // Until the write is known to be made the index is not trusted: a turn may be dropped in the middle.
        let mut index = match held.take() {
            Some(index) => index,
            None => self.load()?,
        };
        let now_ms = (self.clock)();
        let mut batch = Batch::new();
        self.put_header(&mut batch);
        for name in forgotten {
            self.put_gone(
                &mut batch,
                rows::row_key(b'r', &self.namespace, name, self.seal.as_ref()),
                now_ms,
                Gone::Forgotten,
            );
        }
        let before = index.bytes;
        let mut after = Index::default();
        for entry in entries {
            let name = entry.name();
            let key = rows::row_key(b'r', &self.namespace, &name, self.seal.as_ref());
            let value = rows::close(&key, now_ms, &entry, self.seal.as_ref().map(|seal| (seal, self.nonce())));
            let bytes = (key.len() + value.len()) as u64;
            after.put(name, Known { at_ms: now_ms, bytes, passage: passage(&entry) });
            batch.delete(MEMORY, gone_key(&key));
            batch.put(MEMORY, key, value);
        }
        let replaced: u64 = {
            let names = after.rows.keys().chain(forgotten.iter().filter(|name| !after.rows.contains_key(*name)));
            names.filter_map(|name| index.rows.get(name)).map(|known| known.bytes).sum()
        };
        let quota = self.header().quota_bytes;
        if !after.rows.is_empty() && before - replaced + after.bytes > quota {
            let error = MemoryError::Quota {
                namespace: self.namespace.clone(),
                used: before,
                quota,
                more: after.bytes.saturating_sub(replaced),
            };
            *held = Some(index);
            return Err(error);
        }
        self.write(batch, Durability::Synced).await?;
        forgotten.iter().for_each(|name| index.take(name));
        after.rows.into_iter().for_each(|(name, known)| index.put(name, known));
        *held = Some(index);
        Ok(())
    }

    /// Takes away what has passed its time; how many rows did.
    pub async fn sweep(&self) -> Result<usize, MemoryError> {
        let mut held = self.index.lock().await;
        *held = None;
        let now_ms = (self.clock)();
        let (mut swept, mut after) = (0, None);
        if self.store.read(MEMORY, &rows::header_key(&self.namespace))?.is_some() {
            let mut batch = Batch::new();
            self.put_header(&mut batch);
            if !batch.is_empty() {
                self.write(batch, Durability::Synced).await?;
            }
        }
        loop {
            let mut range = Range::prefix(rows::prefix(b'r', &self.namespace), PAGE);
            range.after = after;
            let page = self.store.scan(MEMORY, range)?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            let over = page.iter().filter(|(_, value)| rows::kept_ms(value).is_some_and(|at_ms| self.over(at_ms)));
            let mut batch = Batch::new();
            for (key, _) in over {
                self.put_gone(&mut batch, key.clone(), now_ms, Gone::Expired);
                swept += 1;
            }
            if !batch.is_empty() {
                self.store.write(batch, Durability::Synced).await?;
            }
        }
        self.thin_gone().await?;
        Ok(swept)
    }

    /// Takes away everything, the header too.
    pub async fn remove(&self) -> Result<(), MemoryError> {
        let mut held = self.index.lock().await;
        *held = None;
        self.stale.store(true, Ordering::Release);
        for kind in [b'r', b't'] {
            loop {
                let page = self.store.scan(MEMORY, Range::prefix(rows::prefix(kind, &self.namespace), PAGE))?;
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
        batch.delete(MEMORY, rows::header_key(&self.namespace));
        Ok(self.store.write(batch, Durability::Synced).await?)
    }

    /// Whether that time is past the retention.
    fn over(&self, at_ms: u64) -> bool {
        let retention_s = self.header.lock().expect("no holder of the header panics").retention_s;
        retention_s.is_some_and(|seconds| (self.clock)() >= at_ms.saturating_add(seconds.saturating_mul(1_000)))
    }

    fn nonce(&self) -> [u8; NONCE_BYTES] {
        let mut nonce = [0; NONCE_BYTES];
        (self.entropy)(&mut nonce);
        nonce
    }

    fn open(&self, key: &[u8], value: &[u8]) -> Result<(u64, Entry), MemoryError> {
        rows::open(key, value, self.seal.as_ref()).ok_or_else(|| MemoryError::Damaged(self.namespace.clone()))
    }

    /// Terms that were changed go to disk with the next change.
    fn put_header(&self, batch: &mut Batch) {
        if self.stale.swap(false, Ordering::AcqRel) {
            batch.put(MEMORY, rows::header_key(&self.namespace), rows::write(&self.header()));
        }
    }

    async fn write(&self, batch: Batch, durability: Durability) -> Result<(), MemoryError> {
        let written = self.store.write(batch, durability).await;
        if written.is_err() {
            self.stale.store(true, Ordering::Release);
        }
        Ok(written?)
    }

    fn put_gone(&self, batch: &mut Batch, key: Vec<u8>, now_ms: u64, why: Gone) {
        let value = [now_ms.to_be_bytes().as_slice(), &[why as u8]].concat();
        batch.put(MEMORY, gone_key(&key), value);
        batch.delete(MEMORY, key);
    }

    /// Of what went only so much is remembered.
    async fn thin_gone(&self) -> Result<(), MemoryError> {
        let mut gone = self.store.scan(MEMORY, Range::prefix(rows::prefix(b't', &self.namespace), 2 * GONE_MAX))?;
        if gone.len() <= GONE_MAX {
            return Ok(());
        }
        gone.sort_by_key(|(_, value)| std::cmp::Reverse(rows::kept_ms(value)));
        let mut batch = Batch::new();
        for (key, _) in gone.drain(GONE_MAX..) {
            batch.delete(MEMORY, key);
        }
        Ok(self.store.write(batch, Durability::Buffered).await?)
    }

    fn load(&self) -> Result<Index, MemoryError> {
        let mut index = Index::default();
        let mut after = None;
        loop {
            let mut range = Range::prefix(rows::prefix(b'r', &self.namespace), PAGE);
            range.after = after;
            let page = self.store.scan(MEMORY, range)?;
            let Some((last, _)) = page.last() else { return Ok(index) };
            after = Some(last.clone());
            for (key, value) in &page {
                let (at_ms, entry) = self.open(key, value)?;
                let bytes = (key.len() + value.len()) as u64;
                index.put(entry.name(), Known { at_ms, bytes, passage: passage(&entry) });
            }
        }
    }
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

/// Where it is remembered that a row went.
fn gone_key(row_key: &[u8]) -> Vec<u8> {
    [b"t", &row_key[1..]].concat()
}
