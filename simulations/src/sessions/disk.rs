//! The disk of a simulated node: it ends the node's life at a write, and what was not synced is lost when its power is cut.

use std::sync::{Arc, Mutex, MutexGuard};

use althing_store::{Batch, Durability, Family, MemoryStore, Range, ReadError, Rows, Snapshot, Store, WriteError};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::Notify;

use super::flaw::{DiskWrite, Flaw};
use super::plan::{Loss, Moment};
use crate::mesh::FAMILIES;

#[derive(Clone)]
pub struct Disk(Arc<Inner>);

struct Inner {
    /// What the node reads.
    live: MemoryStore,
    /// What survives when the power is cut.
    durable: MemoryStore,
    state: Mutex<State>,
    /// Told when the life of the node ends here.
    end: Notify,
    flaw: Arc<dyn Flaw>,
}

#[derive(Default)]
struct State {
    /// What is not durable yet, in its order.
    pending: Vec<Batch>,
    /// Writes of this life.
    writes: u64,
    /// The write at which this life ends, and whether that is made.
    last: Option<(u64, bool)>,
    is_off: bool,
}

fn empty() -> MemoryStore {
    MemoryStore::new(&FAMILIES)
}

/// Applies a batch to a store that takes it at once.
fn put(store: &MemoryStore, batch: Batch) -> Result<(), WriteError> {
    store.write(batch, Durability::Buffered).now_or_never().expect("a store in memory waits for nothing")
}

fn copy(from: &MemoryStore) -> MemoryStore {
    let to = empty();
    for family in FAMILIES {
        for (key, value) in from.scan(family, Range::all(usize::MAX)).expect("a store in memory is read") {
            let mut batch = Batch::large();
            batch.put(family, key, value);
            put(&to, batch).expect("it was in a store before");
        }
    }
    to
}

impl Disk {
    /// An empty disk.
    #[must_use]
    pub fn new(flaw: Arc<dyn Flaw>) -> Disk {
        Disk::with((empty(), empty()), State::default(), flaw)
    }

    fn with((live, durable): (MemoryStore, MemoryStore), state: State, flaw: Arc<dyn Flaw>) -> Disk {
        Disk(Arc::new(Inner { live, durable, state: Mutex::new(state), end: Notify::new(), flaw }))
    }

    /// The life that begins ends at that write, if it ends at one.
    pub fn expect(&self, end: Option<Moment>) {
        self.0.lock().last = match end {
            Some(Moment::Write { number, is_made }) => Some((number, is_made)),
            Some(Moment::Time(_)) | None => None,
        };
    }

    /// Completes when the life of the node ends at a write.
    pub async fn ended(&self) {
        self.0.end.notified().await;
    }

    /// The disk as the next life of the node finds it.
    #[must_use]
    pub fn after(&self, loss: Loss) -> Disk {
        let Inner { live, durable, flaw, .. } = self.0.as_ref();
        let mut state = self.0.lock();
        state.is_off = true;
        let pending = std::mem::take(&mut state.pending);
        match loss {
            Loss::Process => {
                let state = State { pending, ..State::default() };
                Disk::with((live.clone(), durable.clone()), state, flaw.clone())
            }
            Loss::Power => Disk::with((copy(durable), durable.clone()), State::default(), flaw.clone()),
        }
    }

    /// The rows of a family.
    #[must_use]
    pub fn rows(&self, family: Family) -> Rows {
        self.0.live.scan(family, Range::all(usize::MAX)).expect("a store in memory is read")
    }

    /// Changes rows behind the node's back, for good.
    pub fn forge(&self, batch: Batch) {
        let mut state = self.0.lock();
        self.0.apply(&mut state, batch, Durability::Synced).expect("it is no larger than what was there");
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    fn apply(&self, state: &mut State, batch: Batch, durability: Durability) -> Result<(), WriteError> {
        put(&self.live, batch.clone())?;
        state.pending.push(batch);
        if durability == Durability::Synced {
            for batch in std::mem::take(&mut state.pending) {
                put(&self.durable, batch)?;
            }
        }
        Ok(())
    }

    /// Writes, unless the life of the node ends before that; gives whether it goes on.
    fn write(&self, batch: Batch, durability: Durability) -> Result<bool, WriteError> {
        let mut state = self.lock();
        if state.is_off {
            return Ok(false);
        }
        state.writes += 1;
        let (is_last, is_made) = match state.last {
            Some((number, is_made)) if number == state.writes => (true, is_made),
            _ => (false, true),
        };
        let DiskWrite { torn, batch, durability } = self.flaw.on_write(DiskWrite { torn: None, batch, durability });
        if let Some(torn) = torn {
            self.apply(&mut state, torn, Durability::Synced)?;
        }
        if is_made {
            self.apply(&mut state, batch, durability)?;
        }
        if is_last {
            state.is_off = true;
            self.end.notify_one();
        }
        Ok(!is_last)
    }
}

impl Store for Disk {
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.0.live.read(family, key)
    }

    fn scan(&self, family: Family, range: Range) -> Result<Rows, ReadError> {
        self.0.live.scan(family, range)
    }

    fn keys(&self, family: Family, range: Range) -> Result<Vec<Vec<u8>>, ReadError> {
        self.0.live.keys(family, range)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.0.live.snapshot()
    }

    fn write(&self, batch: Batch, durability: Durability) -> BoxFuture<'static, Result<(), WriteError>> {
        let disk = self.0.clone();
        async move {
            if !disk.write(batch, durability)? {
                // Nobody lives to hear of it.
                std::future::pending::<()>().await;
            }
            Ok(())
        }
        .boxed()
    }
}
