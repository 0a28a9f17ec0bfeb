//! What moving leaves reads of the store.

use althing_store::{ReadError, Snapshot, WriteError};

use super::*;

/// A store that counts the rows which are looked up one by one, and how often it is searched.
#[derive(Clone)]
struct Counter {
    inner: MemoryStore,
    reads: Arc<AtomicU64>,
    scans: Arc<AtomicU64>,
}

impl Counter {
    fn new() -> Counter {
        Counter { inner: memory(), reads: Arc::default(), scans: Arc::default() }
    }

    fn total(&self) -> u64 {
        self.reads.load(Ordering::SeqCst) + self.scans.load(Ordering::SeqCst)
    }
}

impl Store for Counter {
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.inner.read(family, key)
    }

    fn read_many(&self, family: Family, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, ReadError> {
        self.inner.read_many(family, keys)
    }

    fn scan(&self, family: Family, range: Range) -> Result<Rows, ReadError> {
        self.scans.fetch_add(1, Ordering::SeqCst);
        self.inner.scan(family, range)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.inner.snapshot()
    }

    fn write(&self, batch: Batch, durability: Durability) -> BoxFuture<'static, Result<(), WriteError>> {
        self.inner.write(batch, durability)
    }
}

/// Rows that are looked up one by one while so many leaves about one person are moved.
async fn reads(leaves: u64) -> u64 {
    let store = Counter::new();
    let log = AuditLog::open(World::new().ports(Arc::new(store.clone())), AuditConfig::default()).await;
    let log = log.expect("it opens");
    for number in 0..leaves {
        record(&log, &store, with_body(number, "ada")).await;
    }
    let before = store.reads.load(Ordering::SeqCst);
    assert_eq!(log.drain().await.expect("they are moved") as u64, leaves);
    store.reads.load(Ordering::SeqCst) - before
}

#[tokio::test]
async fn as_many_rows_are_looked_up_for_many_leaves_as_for_few() {
    assert_eq!(reads(200).await, reads(2).await);
}

/// Longer than a leaf is looked for.
const AT_REST: std::time::Duration = std::time::Duration::from_secs(90);

#[tokio::test(start_paused = true)]
async fn a_log_that_has_all_leaves_looks_for_none() {
    let store = Counter::new();
    let log = AuditLog::open(World::new().ports(Arc::new(store.clone())), AuditConfig::default()).await;
    let log = log.expect("it opens");
    let keeping = log.clone();
    let kept = async move { keeping.keep().await };
    let rested = async {
        for number in 0..3 {
            record(&log, &store, intent(number)).await;
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let (size, before) = (log.checkpoint().head.size, store.total());
        tokio::time::sleep(AT_REST).await;
        (size, store.total() - before)
    };
    let rested = tokio::select! {
        () = kept => None,
        rested = rested => Some(rested),
    };
    assert_eq!(rested, Some((3, 0)), "three leaves, and nothing is read afterwards");
}

#[tokio::test(start_paused = true)]
async fn a_leaf_that_is_never_written_is_looked_for_until_that_is_in_vain() {
    let store = Counter::new();
    let log = AuditLog::open(World::new().ports(Arc::new(store.clone())), AuditConfig::default()).await;
    let log = log.expect("it opens");
    let keeping = log.clone();
    let kept = async move { keeping.keep().await };
    let rested = async {
        let lost = log.entry(intent(1)).expect("it has room");
        tokio::time::sleep(AT_REST).await;
        let before = store.total();
        tokio::time::sleep(AT_REST).await;
        let in_vain = store.total() - before;
        // It takes no place of the next one, which is looked for, and both are found with that.
        let next = log.entry(intent(2)).expect("it has room");
        write(&store, lost).await;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        write(&store, next).await;
        tokio::time::sleep(AT_REST).await;
        (in_vain, log.checkpoint().head.size)
    };
    let rested = tokio::select! {
        () = kept => None,
        rested = rested => Some(rested),
    };
    assert_eq!(rested, Some((0, 2)));
}
