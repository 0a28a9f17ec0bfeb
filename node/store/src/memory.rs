//! The in-memory twin of the store on disk: same answers, nothing persists. It completes on the caller's runtime and starts
//! no thread, so a simulation can run it under a paused clock.

use crate::{Batch, Durability, Family, Range, ReadError, Rows, Snapshot, Store, WriteError};
use futures::future::BoxFuture;
use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

type Table = BTreeMap<Vec<u8>, Vec<u8>>;
type Families = BTreeMap<Family, Arc<Table>>;

/// A store in memory.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    families: Arc<RwLock<Families>>,
    sync_delay: Duration,
}

impl MemoryStore {
    /// An empty store with these families. Clones share their rows.
    pub fn new(families: &[Family]) -> MemoryStore {
        let empty = families.iter().map(|family| (*family, Arc::default())).collect();
        MemoryStore { families: Arc::new(RwLock::new(empty)), sync_delay: Duration::ZERO }
    }

    /// The same store, whose [`Durability::Synced`] writes take `delay` of tokio's time, as a disk would; they are
    /// applied at its end. Writes then need a tokio runtime with a clock.
    pub fn with_sync_delay(mut self, delay: Duration) -> MemoryStore {
        self.sync_delay = delay;
        self
    }

    fn view(&self) -> Families {
        // Nothing that holds the lock panics half-way through a batch.
        self.families.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn apply(&self, batch: &Batch) {
        let mut families = self.families.write().unwrap_or_else(PoisonError::into_inner);
        for op in batch.ops() {
            let rows =
                families.get_mut(&op.family).expect("Batch::check has found every family, and none is ever removed");
            let rows = Arc::make_mut(rows);
            match &op.value {
                Some(value) => rows.insert(op.key.clone(), value.clone()),
                None => rows.remove(&op.key),
            };
        }
    }
}

impl Store for MemoryStore {
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        View(self.view()).read(family, key)
    }

    fn scan(&self, family: Family, range: Range) -> Result<Rows, ReadError> {
        View(self.view()).scan(family, range)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(View(self.view()))
    }

    fn write(&self, batch: Batch, durability: Durability) -> BoxFuture<'static, Result<(), WriteError>> {
        let store = self.clone();
        Box::pin(async move {
            batch
                .check(|family| store.families.read().unwrap_or_else(PoisonError::into_inner).contains_key(&family))?;
            if durability == Durability::Synced && !store.sync_delay.is_zero() {
                tokio::time::sleep(store.sync_delay).await;
            }
            store.apply(&batch);
            Ok(())
        })
    }
}

/// The rows as they were; a later write copies the family it changes.
struct View(Families);

impl View {
    fn table(&self, family: Family) -> Result<&Table, ReadError> {
        self.0.get(&family).map(Arc::as_ref).ok_or(ReadError::UnknownFamily { family })
    }
}

impl Snapshot for View {
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        Ok(self.table(family)?.get(key).cloned())
    }

    fn scan(&self, family: Family, range: Range) -> Result<Rows, ReadError> {
        let rows = self.table(family)?;
        let copy = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
        let mut low = Bound::Included(range.prefix.clone());
        let mut high = range.prefix_end().map_or(Bound::Unbounded, Bound::Excluded);
        match &range.after {
            Some(after) if range.reverse && range.prefix_end().is_none_or(|end| *after < end) => {
                high = Bound::Excluded(after.clone());
            }
            Some(after) if !range.reverse && *after >= range.prefix => low = Bound::Excluded(after.clone()),
            _ => {}
        }
        if is_empty(&low, &high) {
            return Ok(Vec::new());
        }
        let within = rows.range((low, high));
        Ok(if range.reverse {
            within.rev().take(range.limit).map(copy).collect()
        } else {
            within.take(range.limit).map(copy).collect()
        })
    }
}

/// Whether no key can lie between the bounds (`BTreeMap::range` panics on most of these).
fn is_empty(low: &Bound<Vec<u8>>, high: &Bound<Vec<u8>>) -> bool {
    match (low, high) {
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => low >= high,
        _ => false,
    }
}
