//! A store whose writes fail, or never end, as a test says.
//!
//! **Input**: rows in memory, and what becomes of each write. **Output**: the store, whose reads are those of the rows.
//!
//! A leaf of `althing-testing`, which tests of the store itself use.
//!
//! **Never knows**: what is stored, and what is tested.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use althing_store::{Batch, Durability, Family, MemoryStore, Range, ReadError, Rows, Snapshot, Store, WriteError};
use futures::future::BoxFuture;

/// What becomes of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteEnd {
    /// It is applied, and whoever writes hears that.
    Done,
    /// Whoever writes hears that the disk is full.
    Full {
        /// Whether it is applied all the same.
        is_applied: bool,
    },
    /// Whoever writes hears nothing.
    Never {
        /// Whether it is applied.
        is_applied: bool,
    },
}

type Decide = dyn FnMut(&Batch, Durability) -> WriteEnd + Send;

/// The store. Clones are the same one.
#[derive(Clone)]
pub struct FaultStore {
    rows: MemoryStore,
    decide: Arc<Mutex<Box<Decide>>>,
    has_failed: Arc<AtomicBool>,
}

impl FaultStore {
    /// A store over these rows, each of whose writes is done until it is told otherwise.
    pub fn over(rows: MemoryStore) -> FaultStore {
        let decide: Box<Decide> = Box::new(|_, _| WriteEnd::Done);
        FaultStore { rows, decide: Arc::new(Mutex::new(decide)), has_failed: Arc::default() }
    }

    /// From now on the disk is full and nothing is written, or each write is done.
    pub fn set_full(&self, is_full: bool) {
        self.decide(move |_, _| if is_full { WriteEnd::Full { is_applied: false } } else { WriteEnd::Done });
    }

    /// From now on `decide` is asked of each write when it begins.
    pub fn decide(&self, decide: impl FnMut(&Batch, Durability) -> WriteEnd + Send + 'static) {
        *self.decide.lock().expect("no decision panics") = Box::new(decide);
    }

    /// Whether any write was not done so far.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::SeqCst)
    }

    fn end_of(&self, batch: &Batch, durability: Durability) -> WriteEnd {
        let mut held = self.decide.lock().expect("no decision panics");
        let decide: &mut Box<Decide> = &mut held;
        let end = decide(batch, durability);
        self.has_failed.fetch_or(end != WriteEnd::Done, Ordering::SeqCst);
        end
    }
}

impl Store for FaultStore {
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.rows.read(family, key)
    }

    fn scan(&self, family: Family, range: Range) -> Result<Rows, ReadError> {
        self.rows.scan(family, range)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.rows.snapshot()
    }

    fn write(&self, batch: Batch, durability: Durability) -> BoxFuture<'static, Result<(), WriteError>> {
        let end = self.end_of(&batch, durability);
        let writing = self.rows.write(batch, durability);
        Box::pin(async move {
            let is_applied = match end {
                WriteEnd::Done => true,
                WriteEnd::Full { is_applied } | WriteEnd::Never { is_applied } => is_applied,
            };
            if is_applied {
                writing.await?;
            }
            match end {
                WriteEnd::Done => Ok(()),
                WriteEnd::Full { .. } => {
                    Err(WriteError::Full { path: "/full".into(), free_bytes: 0, reserve_bytes: 1 })
                }
                WriteEnd::Never { .. } => std::future::pending().await,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const FAMILY: Family = Family("test.rows");

    /// Writes a row; what is heard of it, and whether it is there.
    fn write(store: &FaultStore, key: &str) -> (Option<Result<(), WriteError>>, bool) {
        let mut batch = Batch::new();
        batch.put(FAMILY, key, "value");
        let heard = store.write(batch, Durability::Synced).now_or_never();
        (heard, store.read(FAMILY, key.as_bytes()).expect("readable").is_some())
    }

    #[test]
    fn what_becomes_of_each_write_is_as_it_was_said() {
        let store = FaultStore::over(MemoryStore::new(&[FAMILY]));
        assert!(matches!(write(&store, "a"), (Some(Ok(())), true)));
        assert!(!store.has_failed());
        for is_applied in [true, false] {
            let key = format!("full-{is_applied}");
            store.decide(move |_, _| WriteEnd::Full { is_applied });
            let (heard, is_there) = write(&store, &key);
            assert!(matches!(heard, Some(Err(WriteError::Full { .. }))) && is_there == is_applied, "{heard:?}");
            let key = format!("never-{is_applied}");
            store.decide(move |_, _| WriteEnd::Never { is_applied });
            let (heard, is_there) = write(&store, &key);
            assert!(heard.is_none() && is_there == is_applied, "{heard:?}");
        }
        store.set_full(true);
        assert!(matches!(write(&store.clone(), "b"), (Some(Err(WriteError::Full { .. })), false)));
        store.set_full(false);
        assert!(matches!(write(&store, "b"), (Some(Ok(())), true)));
        assert!(store.has_failed(), "a write before was not done");
    }

    #[test]
    fn each_write_is_asked_of_once_and_with_what_it_changes() {
        let store = FaultStore::over(MemoryStore::new(&[FAMILY]));
        let mut number = 0;
        store.decide(move |batch, durability| {
            number += 1;
            assert!(durability == Durability::Synced && batch.changes().all(|(family, ..)| family == FAMILY));
            if number == 2 { WriteEnd::Never { is_applied: false } } else { WriteEnd::Done }
        });
        let ends = ["a", "b", "c"].map(|key| write(&store, key).0.is_some());
        assert_eq!(ends, [true, false, true]);
    }
}
