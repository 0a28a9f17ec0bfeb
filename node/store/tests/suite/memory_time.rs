//! The twin lives in tokio's time.

use crate::support::{FAMILIES, LEFT};
use althing_store::{Batch, Durability, MemoryStore, Store};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_sync_takes_virtual_time_and_a_buffered_write_none() {
    let store = MemoryStore::new(&FAMILIES).with_sync_delay(Duration::from_secs(3600));
    let mut batch = Batch::new();
    batch.put(LEFT, "key", "value");
    let start = tokio::time::Instant::now();
    store.write(batch.clone(), Durability::Buffered).await.expect("the write succeeds");
    assert_eq!(start.elapsed(), Duration::ZERO);
    store.write(batch, Durability::Synced).await.expect("the write succeeds");
    assert_eq!(start.elapsed(), Duration::from_secs(3600));
}
