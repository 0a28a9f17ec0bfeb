//! A store in memory whose writes wait until they are let through, and that counts what is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use althing_store::{Batch, Durability, Family, MemoryStore, Range, ReadError, Rows, Snapshot, Store, WriteError};
use futures::future::BoxFuture;
use tokio::sync::watch;

use super::super::log_rows::{RAFT_LOG, RAFT_STATE};
use super::super::state_store::RAFT_SNAPSHOTS;

/// The store. Writes are let through in the order in which they begin.
pub struct Held {
    inner: MemoryStore,
    /// How many writes may end.
    ends: watch::Sender<usize>,
    begun: Arc<AtomicUsize>,
    bytes_read: AtomicUsize,
    keys_read: AtomicUsize,
}

impl Held {
    /// An empty store, which lets everything through.
    pub fn new() -> Arc<Held> {
        let inner = MemoryStore::new(&[RAFT_LOG, RAFT_STATE, RAFT_SNAPSHOTS]);
        let (bytes_read, keys_read) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Held { inner, ends: watch::channel(usize::MAX).0, begun: Arc::default(), bytes_read, keys_read })
    }

    /// How many writes have begun.
    pub fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    /// Writes that begin from now on wait.
    pub fn hold(&self) {
        self.ends.send_replace(self.begun());
    }

    /// Lets the next write that waits, or begins, through.
    pub fn let_one_through(&self) {
        self.ends.send_modify(|ends| *ends += 1);
    }

    /// Lets everything through.
    pub fn open(&self) {
        self.ends.send_replace(usize::MAX);
    }

    /// Bytes of keys and values that were read since this was last asked; and keys that were read alone.
    pub fn take_read(&self) -> (usize, usize) {
        (self.bytes_read.swap(0, Ordering::SeqCst), self.keys_read.swap(0, Ordering::SeqCst))
    }

    /// All rows of a family.
    pub fn rows(&self, family: Family) -> Rows {
        self.inner.scan(family, Range::all(usize::MAX)).expect("a family of ours")
    }

    /// Puts a row past whoever writes.
    pub async fn put(&self, family: Family, key: Vec<u8>, value: Vec<u8>) {
        let mut batch = Batch::new();
        batch.put(family, key, value);
        self.inner.write(batch, Durability::Buffered).await.expect("it is in memory");
    }
}

impl Store for Held {
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        let value = self.inner.read(family, key)?;
        self.bytes_read.fetch_add(value.as_ref().map_or(0, |value| key.len() + value.len()), Ordering::SeqCst);
        Ok(value)
    }

    fn scan(&self, family: Family, range: Range) -> Result<Rows, ReadError> {
        let rows = self.inner.scan(family, range)?;
        let bytes = rows.iter().map(|(key, value)| key.len() + value.len()).sum();
        self.bytes_read.fetch_add(bytes, Ordering::SeqCst);
        Ok(rows)
    }

    fn keys(&self, family: Family, range: Range) -> Result<Vec<Vec<u8>>, ReadError> {
        let keys = self.inner.keys(family, range)?;
        self.keys_read.fetch_add(keys.len(), Ordering::SeqCst);
        Ok(keys)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.inner.snapshot()
    }

    fn write(&self, batch: Batch, durability: Durability) -> BoxFuture<'static, Result<(), WriteError>> {
        let (inner, begun, mut ends) = (self.inner.clone(), self.begun.clone(), self.ends.subscribe());
        Box::pin(async move {
            let number = begun.fetch_add(1, Ordering::SeqCst);
            ends.wait_for(|ends| *ends > number).await.expect("the store is there");
            inner.write(batch, durability).await
        })
    }
}

/// Lets other tasks go on until it is so.
pub async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if holds() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it never came: {what}");
}

/// Lets other tasks go on as far as they can.
pub async fn settled() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
