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

    fn keys(&self, family: Family, range: Range) -> Result<Vec<Vec<u8>>, ReadError> {
        let view = View(self.view());
        let keys = view.rows(family, &range)?.take(range.limit).map(|(key, _)| key.clone());
        Ok(keys.collect())
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

/// Rows of a table, in the direction of a scan.
type RowsOf<'a> = Box<dyn Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)> + 'a>;

impl View {
    fn table(&self, family: Family) -> Result<&Table, ReadError> {
        self.0.get(&family).map(Arc::as_ref).ok_or(ReadError::UnknownFamily { family })
    }

    /// The rows of a range, in its direction, however many.
    fn rows(&self, family: Family, range: &Range) -> Result<RowsOf<'_>, ReadError> {
        let table = self.table(family)?;
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
            return Ok(Box::new(std::iter::empty()));
        }
        let within = table.range((low, high));
        let rows: RowsOf<'_> = if range.reverse { Box::new(within.rev()) } else { Box::new(within) };
        Ok(rows)
    }
}

impl Snapshot for View {
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        Ok(self.table(family)?.get(key).cloned())
    }

    fn scan(&self, family: Family, range: Range) -> Result<Rows, ReadError> {
        let (mut found, mut taken) = (Rows::new(), 0);
        for (key, value) in self.rows(family, &range)? {
            if !range.has_room(found.len(), taken, key.len() + value.len()) {
                break;
            }
            taken += key.len() + value.len();
            found.push((key.clone(), value.clone()));
        }
        Ok(found)
    }
}

/// Whether no key can lie between the bounds (`BTreeMap::range` panics on most of these).
fn is_empty(low: &Bound<Vec<u8>>, high: &Bound<Vec<u8>>) -> bool {
    match (low, high) {
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => low >= high,
        _ => false,
    }
}
