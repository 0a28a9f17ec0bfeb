//! One namespace: its rows on disk, and what is known of them in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use althing_store::{Batch, Durability, Range, Store};

use super::error::MemoryError;
use super::rows::{self, Entry, Gone, Header, MEMORY, Name};
use super::{Entropy, WallClock};
use althing_store::seal::{NONCE_BYTES, Seal};

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
    /// Set before anything is read or written; whoever only takes away does without.
    seal: OnceLock<Seal>,
    header: Mutex<Header>,
    /// Whether the header on disk may be another.
    stale: AtomicBool,
    /// What is on disk; none until it was read, and after a write of which it is not known whether it was made.
    index: tokio::sync::Mutex<Option<Index>>,
}

/// What is taken away by a change.
pub enum Forget {
    /// Nothing.
    Nothing,
    /// This row.
    One(Name),
    /// All passages of a source, but those that the same change keeps.
    Source(String),
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
    /// A namespace under terms that are on disk, or, when they are `new`, that are not.
    pub fn new(
        namespace: String,
        store: Arc<dyn Store>,
        (clock, entropy): (WallClock, Entropy),
        header: Header,
        new: bool,
    ) -> Space {
        let (seal, header, stale) = (OnceLock::new(), Mutex::new(header), AtomicBool::new(new));
        Space { namespace, store, clock, entropy, seal, header, stale, index: tokio::sync::Mutex::default() }
    }

    pub fn header(&self) -> Header {
        self.header.lock().expect("no holder of the header panics").clone()
    }

    /// Whether it has the key that its header speaks of.
    pub fn is_open(&self) -> bool {
        self.header().sealed.is_none() || self.seal.get().is_some()
    }

    /// Gives it its key; the first one stays.
    pub fn unlock(&self, seal: Seal) {
        // Two that open it at once made the same key of the same secret and salt.
        let _ = self.seal.set(seal);
    }

    pub fn now_ms(&self) -> u64 {
        (self.clock)()
    }

    /// Other terms from now on, on disk when this returns.
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
        if batch.is_empty() { Ok(()) } else { self.write(batch, Durability::Synced, written).await }
    }

    /// What is kept under a row's name, when it has not passed its time.
    pub async fn read(&self, name: &Name) -> Result<Option<(u64, Entry)>, MemoryError> {
        let key = rows::row_key(b'r', &self.namespace, name, self.seal.get());
        let Some(value) = self.store.read(MEMORY, &key)? else { return Ok(None) };
        let (at_ms, entry) = self.open(&key, &value)?;
        Ok((!self.over(at_ms)).then_some((at_ms, entry)))
    }

    /// When and why a row went, as far as that is remembered.
    pub fn gone(&self, name: &Name) -> Result<Option<(u64, Gone)>, MemoryError> {
        let key = rows::row_key(b't', &self.namespace, name, self.seal.get());
        let row = self.store.read(MEMORY, &key)?;
        Ok(row.and_then(|value| {
            let why = if value.get(8) == Some(&(Gone::Expired as u8)) { Gone::Expired } else { Gone::Forgotten };
            Some((rows::kept_ms(&value)?, why))
        }))
    }

    /// Looks through all rows that have not passed their time.
    pub async fn look<T: Send + 'static>(
        self: &Arc<Space>,
        look: impl FnOnce(Rows<'_>, u64) -> T + Send + 'static,
    ) -> Result<T, MemoryError> {
        let mut held = self.index.lock().await;
        let index = self.loaded(held.take()).await?;
        let space = self.clone();
        // Many vectors take their time, which is not that of the runtime's other tasks.
        let looked = tokio::task::spawn_blocking(move || {
            let rows = index.rows.iter().filter(|(_, known)| !space.over(known.at_ms));
            let looked = look(Box::new(rows), index.bytes);
            (looked, index)
        });
        let (looked, index) = looked.await.map_err(|_| MemoryError::Damaged(self.namespace.clone()))?;
        *held = Some(index);
        Ok(looked)
    }

    /// Keeps entries, and takes away what is to be forgotten; together, durably, or not at all. How many rows went.
    pub async fn change(self: &Arc<Space>, entries: Vec<Entry>, forget: Forget) -> Result<usize, MemoryError> {
        let mut held = self.index.lock().await;
        // Until the write is known to be made the index is not trusted: a turn may be dropped in the middle.
        let mut index = self.loaded(held.take()).await?;
        let planned = self.plan(&index, entries, &forget);
        let Planned { batch, header, kept, forgotten } = match planned {
            Ok(planned) => planned,
            Err(error) => {
                *held = Some(index);
                return Err(error);
            }
        };
        self.write(batch, Durability::Synced, header).await?;
        forgotten.iter().for_each(|name| index.take(name));
        kept.into_iter().for_each(|(name, known)| index.put(name, known));
        *held = Some(index);
        Ok(forgotten.len())
    }

    /// What a change writes, within the quota.
    fn plan(&self, index: &Index, entries: Vec<Entry>, forget: &Forget) -> Result<Planned, MemoryError> {
        let now_ms = self.now_ms();
        let mut batch = Batch::new();
        let header = self.put_header(&mut batch);
        let mut kept = BTreeMap::new();
        for entry in entries {
            let name = entry.name();
            let key = rows::row_key(b'r', &self.namespace, &name, self.seal.get());
            let value = rows::close(&key, now_ms, &entry, self.seal.get().map(|seal| (seal, self.nonce())));
            let known = Known { at_ms: now_ms, bytes: (key.len() + value.len()) as u64, passage: passage(&entry) };
            let taken = index.rows.get(&name).and_then(|old| old.passage.as_ref());
            if let (Some((old, _)), Some((new, _))) = (taken, &known.passage)
                && old != new
            {
                return Err(MemoryError::Collision { source_name: new.clone(), other: old.clone() });
            }
            batch.delete(MEMORY, gone_key(&key));
            batch.put(MEMORY, key, value);
            kept.insert(name, known);
        }
        let of_source = |source: &String| {
            let of = |known: &Known| known.passage.as_ref().is_some_and(|(of, _)| of == source);
            let all = index.rows.iter().filter(|(name, known)| of(known) && !kept.contains_key(*name));
            all.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        let forgotten: Vec<Name> = match forget {
            Forget::Nothing => Vec::new(),
            Forget::One(name) => index.rows.contains_key(name).then(|| name.clone()).into_iter().collect(),
            Forget::Source(source) => of_source(source),
        };
        for name in &forgotten {
            let key = rows::row_key(b'r', &self.namespace, name, self.seal.get());
            put_gone(&mut batch, key, now_ms, Gone::Forgotten);
        }
        let replaced = kept.keys().chain(&forgotten).filter_map(|name| index.rows.get(name));
        let replaced: u64 = replaced.map(|known| known.bytes).sum();
        let more: u64 = kept.values().map(|known| known.bytes).sum();
        let (used, quota) = (index.bytes, self.header().quota_bytes);
        if !kept.is_empty() && used - replaced + more > quota {
            let (namespace, more) = (self.namespace.clone(), more.saturating_sub(replaced));
            return Err(MemoryError::Quota { namespace, used, quota, more });
        }
        Ok(Planned { batch, header, kept, forgotten })
    }

    /// Takes away what has passed its time; how many rows did. Needs no key.
    pub async fn sweep(&self) -> Result<usize, MemoryError> {
        if self.header().retention_s.is_none() {
            return Ok(0);
        }
        // Held all the while: nothing is kept anew under a name that is taken away.
        let mut held = self.index.lock().await;
        let (mut swept, mut after) = (0, None);
        loop {
            let mut range = Range::prefix(rows::prefix(b'r', &self.namespace), PAGE);
            range.after = after;
            let page = self.store.scan(MEMORY, range)?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            let over = page.iter().filter(|(_, value)| rows::kept_ms(value).is_some_and(|at_ms| self.over(at_ms)));
            let mut batch = Batch::new();
            for (key, _) in over {
                put_gone(&mut batch, key.clone(), self.now_ms(), Gone::Expired);
                swept += 1;
            }
            if !batch.is_empty() {
                *held = None;
                self.store.write(batch, Durability::Synced).await?;
            }
            tokio::task::yield_now().await;
        }
        drop(held);
        self.thin_gone().await?;
        Ok(swept)
    }

    /// Takes away everything, the header too. Needs no key.
    pub async fn remove(&self) -> Result<(), MemoryError> {
        let mut held = self.index.lock().await;
        *held = None;
        // Whoever goes on with it writes the header anew.
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
        rows::open(key, value, self.seal.get()).ok_or_else(|| MemoryError::Damaged(self.namespace.clone()))
    }

    /// Terms that may not be on disk go there with the next change; which they are.
    fn put_header(&self, batch: &mut Batch) -> Option<Header> {
        let header = self.stale.load(Ordering::Acquire).then(|| self.header())?;
        batch.put(MEMORY, rows::header_key(&self.namespace), rows::write(&header));
        Some(header)
    }

    async fn write(&self, batch: Batch, durability: Durability, header: Option<Header>) -> Result<(), MemoryError> {
        self.store.write(batch, durability).await?;
        // Only what is known to be there is not written again.
        if header.is_some_and(|header| header == self.header()) {
            self.stale.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// Of what went only so much is remembered.
    async fn thin_gone(&self) -> Result<(), MemoryError> {
        let mut gone: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut after = None;
        loop {
            let mut range = Range::prefix(rows::prefix(b't', &self.namespace), PAGE);
            range.after = after;
            let page = self.store.scan(MEMORY, range)?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            gone.extend(page.into_iter().map(|(key, value)| (rows::kept_ms(&value).unwrap_or_default(), key)));
        }
        if gone.len() <= GONE_MAX {
            return Ok(());
        }
        gone.sort_unstable_by_key(|(at_ms, _)| std::cmp::Reverse(*at_ms));
        for over in gone[GONE_MAX..].chunks(PAGE) {
            let mut batch = Batch::new();
            for (_, key) in over {
                batch.delete(MEMORY, key.clone());
            }
            self.store.write(batch, Durability::Buffered).await?;
        }
        Ok(())
    }

    /// The index as it is, or read anew.
    async fn loaded(self: &Arc<Space>, index: Option<Index>) -> Result<Index, MemoryError> {
        match index {
            Some(index) => Ok(index),
            None => {
                let space = self.clone();
                let loaded = tokio::task::spawn_blocking(move || space.load()).await;
                loaded.map_err(|_| MemoryError::Damaged(self.namespace.clone()))?
            }
        }
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

/// What a change writes, and what it comes to.
struct Planned {
    batch: Batch,
    header: Option<Header>,
    kept: BTreeMap<Name, Known>,
    forgotten: Vec<Name>,
}

fn put_gone(batch: &mut Batch, key: Vec<u8>, now_ms: u64, why: Gone) {
    let value = [now_ms.to_be_bytes().as_slice(), &[why as u8]].concat();
    batch.put(MEMORY, gone_key(&key), value);
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

/// Where it is remembered that a row went.
fn gone_key(row_key: &[u8]) -> Vec<u8> {
    [b"t", &row_key[1..]].concat()
}
