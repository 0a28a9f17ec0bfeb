//! How the rows of a turn are read that goes on.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// A store that counts how often it is looked into.
struct Counter {
    inner: Arc<Recorder>,
    looks: AtomicUsize,
}

impl Store for Counter {
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.inner.read(family, key)
    }

    fn scan(&self, family: Family, range: Range) -> Result<Rows, ReadError> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.inner.scan(family, range)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.inner.snapshot()
    }

    fn write(&self, batch: Batch, durability: Durability) -> BoxFuture<'static, Result<(), WriteError>> {
        self.inner.write(batch, durability)
    }
}

/// Reads a turn; how it ended, and how often the store was looked into.
fn read(inner: &Arc<Recorder>, message: &str) -> (Result<u32, String>, usize) {
    let store = Arc::new(Counter { inner: inner.clone(), looks: AtomicUsize::new(0) });
    let journals = Journals::new(store.clone());
    let (turn, begin) = turn(message);
    let rows = journals.read(turn, begin, &RowSeal::of(None));
    (rows.map(|rows| rows.size().0).map_err(|damage| damage.what), store.looks.load(Ordering::Relaxed))
}

#[tokio::test]
async fn a_short_turn_is_read_by_one_look_and_of_a_long_one_nothing_is_overlooked() {
    let inner = Recorder::new();
    assert_eq!(read(&inner, "m"), (Ok(0), 2), "a turn without rows has no head either");
    let journals = Arc::new(Journals::new(inner.clone()));
    let journal = open(&journals, "m");
    for size in [10, 1_000, 150_000] {
        let intent = go(&journal, "shop/search", Effect::Repeatable).await;
        journal.done(intent, &heard(json!("x".repeat(size))), Batch::new()).await.expect("written");
    }
    assert_eq!(read(&inner, "m"), (Ok(4), 1));
    let intent = go(&journal, "shop/search", Effect::Repeatable).await;
    journal.done(intent, &heard(json!("x".repeat(20_000))), Batch::new()).await.expect("written");
    assert_eq!(read(&inner, "m"), (Ok(5), 2), "it might be longer than what was read");

    let (turn, _) = turn("n");
    for seq in 0..17 {
        let mut batch = Batch::new();
        batch.put(SESSION_ROWS, turn.row_key(seq), vec![7; 1 << 20]);
        inner.write(batch, Durability::Synced).await.expect("written");
    }
    let (ended, looks) = read(&inner, "n");
    assert_eq!((ended.expect_err("it is none").as_str(), looks), ("it has more rows than a turn has", 2));
}
