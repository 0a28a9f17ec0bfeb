//! The disk of a simulated member: what was not synced is lost when its power is cut. It writes down what logs hold.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_coordination::consensus::wire::{EntryRecord, Position};
use althing_coordination::{GROUPS, RAFT_LOG, RAFT_SNAPSHOTS, RAFT_STATE, RESULTS};
use althing_protocol::group::GroupId;
use althing_protocol::{PublicKey, digest};
use althing_store::{Batch, Durability, Family, MemoryStore, Range, ReadError, Rows, Snapshot, Store, WriteError};
use futures::future::BoxFuture;
use tokio::time::Instant;

use super::evidence::{Books, Written};
use super::flaw::Flaw;

/// The families of a member's store.
const FAMILIES: [Family; 5] = [GROUPS, RAFT_LOG, RAFT_STATE, RAFT_SNAPSHOTS, RESULTS];
/// A group's bytes at the beginning of each key.
const GROUP_BYTES: usize = 32;
/// The letter of the last committed entry in [`RAFT_STATE`].
const COMMITTED: u8 = b'c';

#[derive(Clone)]
pub struct Disk(Arc<Inner>);

struct Inner {
    node: PublicKey,
    /// What the node reads.
    live: MemoryStore,
    /// What survives when the power is cut.
    durable: MemoryStore,
    /// What is not durable yet, and since when.
    pending: Mutex<Vec<(Instant, Batch)>>,
    /// How long a sync takes.
    sync: Duration,
    is_on: AtomicBool,
    /// The first entry of the group's log that was not written down as committed yet.
    looked: AtomicU64,
    books: Books,
    flaw: Arc<dyn Flaw>,
}

fn empty() -> MemoryStore {
    MemoryStore::new(&FAMILIES)
}

/// Applies a batch to a store that takes it at once.
async fn put(store: &MemoryStore, batch: Batch) {
    store.write(batch, Durability::Buffered).await.expect("a store in memory takes it");
}

impl Disk {
    /// An empty disk.
    #[must_use]
    pub fn new(node: PublicKey, sync: Duration, books: Books, flaw: Arc<dyn Flaw>) -> Disk {
        Disk::with(node, sync, books, flaw, empty(), empty())
    }

    fn with(
        node: PublicKey,
        sync: Duration,
        books: Books,
        flaw: Arc<dyn Flaw>,
        live: MemoryStore,
        durable: MemoryStore,
    ) -> Disk {
        let (pending, is_on, looked) = (Mutex::default(), AtomicBool::new(true), AtomicU64::new(0));
        Disk(Arc::new(Inner { node, live, durable, pending, sync, is_on, looked, books, flaw }))
    }

    /// Nothing is written from now on.
    pub fn cut_power(&self) {
        self.0.is_on.store(false, Ordering::Relaxed);
    }

    /// The disk after the power came back.
    pub async fn restarted(&self) -> Disk {
        let live = empty();
        for family in FAMILIES {
            let rows = self.0.durable.scan(family, Range::all(usize::MAX)).expect("a store in memory");
            for (key, value) in rows {
                let mut batch = Batch::new();
                batch.put(family, key, value);
                put(&live, batch).await;
            }
        }
        let Inner { node, durable, sync, books, flaw, .. } = self.0.as_ref();
        Disk::with(*node, *sync, books.clone(), flaw.clone(), live, durable.clone())
    }

    /// The entries of a group's log up to `index` are committed, as the node says.
    pub fn commit(&self, group: GroupId, index: u64) {
        let Inner { live, books, node, looked, .. } = self.0.as_ref();
        if !books.open().honest.contains(node) {
            return;
        }
        let mut evidence = books.open();
        // Whatever other disks showed: what they had in a snapshot only may be in this log.
        let from = looked.fetch_max(index + 1, Ordering::Relaxed);
        for index in from..=index {
            let key = [group.as_bytes().as_slice(), &index.to_be_bytes()].concat();
            let Some(value) = live.read(RAFT_LOG, &key).expect("a store in memory") else { continue };
            let Ok(entry) = minicbor::decode::<EntryRecord>(&value) else { continue };
            evidence.committed.entry(index).or_default().insert((entry.at.term, digest(&value)), entry);
        }
    }
}

impl Inner {
    fn is_off(&self) -> bool {
        !self.is_on.load(Ordering::Relaxed)
    }

    async fn apply(&self, batch: Batch, is_durable: bool, now: Instant) {
        put(&self.live, batch.clone()).await;
        self.pending.lock().expect("nobody panics with it").push((now, batch));
        if is_durable {
            let all = std::mem::take(&mut *self.pending.lock().expect("nobody panics with it"));
            for (_, batch) in all {
                put(&self.durable, batch).await;
            }
        }
    }

    /// Writes down the entries of a batch, and how far the log is committed.
    fn note(self: &Arc<Inner>, batch: &Batch) {
        if !self.books.open().honest.contains(&self.node) {
            return;
        }
        for (family, key, value) in batch.changes() {
            let Some(value) = value else { continue };
            if family == RAFT_LOG {
                self.note_entry(key, value);
            }
            let is_committed = family == RAFT_STATE && key.last() == Some(&COMMITTED) && key.len() == GROUP_BYTES + 1;
            if is_committed && let Ok(at) = minicbor::decode::<Position>(value) {
                let group = GroupId::from_digest(key[..GROUP_BYTES].try_into().expect("32 bytes"));
                Disk(self.clone()).commit(group, at.index);
            }
        }
    }

    fn note_entry(&self, key: &[u8], value: &[u8]) {
        let Ok(entry) = minicbor::decode::<EntryRecord>(value) else { return };
        let term_at = |index: Option<u64>| {
            let key = [&key[..GROUP_BYTES], &index?.to_be_bytes()].concat();
            let row = self.live.read(RAFT_LOG, &key).expect("a store in memory")?;
            Some(minicbor::decode::<EntryRecord>(&row).ok()?.at.term)
        };
        let (index, term) = (entry.at.index, entry.at.term);
        let before = term_at(index.checked_sub(1));
        let next = term_at(Some(index + 1)).filter(|next| *next < term);
        let mut evidence = self.books.open();
        evidence.entries.entry((index, term)).or_default().insert(Written { digest: digest(value), before });
        evidence.falling.extend(next.map(|next| (index, term, next)));
        evidence.falling.extend(before.filter(|before| *before > term).map(|before| (index - 1, before, term)));
    }
}

impl Store for Disk {
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.0.live.read(family, key)
    }

    fn scan(&self, family: Family, range: Range) -> Result<Rows, ReadError> {
        let mut rows = self.0.live.scan(family, range)?;
        self.0.flaw.on_read(self.0.node, family, &mut rows);
        Ok(rows)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.0.live.snapshot()
    }

    fn write(&self, batch: Batch, durability: Durability) -> BoxFuture<'static, Result<(), WriteError>> {
        let disk = self.0.clone();
        Box::pin(async move {
            let closed = || Err(WriteError::Closed { dir: "the power was cut".into() });
            let is_synced = durability == Durability::Synced;
            if is_synced && !disk.is_off() && !disk.sync.is_zero() {
                tokio::time::sleep(disk.sync).await;
            }
            if disk.is_off() {
                return closed();
            }
            let changed = disk.flaw.on_write(disk.node, batch, &disk.live);
            disk.apply(changed.batch.clone(), is_synced && changed.is_durable, Instant::now()).await;
            disk.note(&changed.batch);
            Ok(())
        })
    }
}
