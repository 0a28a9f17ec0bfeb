//! What is known of a namespace in memory is what is on disk: after a start, and after a change that nobody saw the end of.

use std::sync::Arc;

use althing_execution::memory::{Embedder, KEYS_MAX, MEMORY, Memories, Memory};
use althing_protocol::contract;
use althing_store::MemoryStore;
use althing_testing_store::{FaultStore, WriteEnd};
use futures::FutureExt as _;

/// The memory of one agent, as after a start of its node.
async fn open(store: &FaultStore) -> Memory {
    let memories = Memories::new(
        Arc::new(store.clone()),
        Arc::new(|| 1_000_000),
        Arc::new(|bytes: &mut [u8]| bytes.fill(7)),
        Arc::new(|_: &str| Ok(None)),
    );
    let memory = memories.open("clerk", &contract::Memory::default(), Arc::new(Embedder::Words)).expect("opened");
    memory.adopt().await.expect("adopted");
    memory
}

fn store() -> FaultStore {
    FaultStore::over(MemoryStore::new(&[MEMORY]))
}

#[tokio::test]
async fn a_change_that_is_dropped_while_it_is_written_is_known_as_it_is_on_disk() {
    let store = store();
    let memory = open(&store).await;
    memory.put("first", b"1").await.expect("kept");
    store.decide(|_, _| WriteEnd::Never { is_applied: true });
    assert_eq!(memory.put("second", b"2").now_or_never(), None, "its end is not heard of");
    assert_eq!(memory.keys("").await.expect("keys"), ["first", "second"]);
    assert_eq!(memory.delete("first").now_or_never(), None, "nor that of this");
    assert_eq!(memory.keys("").await.expect("keys"), ["second"]);
    store.decide(|_, _| WriteEnd::Done);
    let anew = open(&store).await;
    assert_eq!(memory.bytes().await, anew.bytes().await);
    assert_eq!((memory.delete("second").await, memory.bytes().await), (Ok(true), Ok(0)));
}

#[tokio::test]
async fn all_rows_of_a_large_namespace_are_known_after_a_start() {
    let store = store();
    let memory = open(&store).await;
    let keys: Vec<String> = (0..KEYS_MAX).map(|number| format!("key-{number:04}")).collect();
    for key in &keys {
        memory.put(key, b"value").await.expect("kept");
    }
    let again = open(&store).await;
    assert_eq!(again.keys("").await.expect("keys").len(), keys.len());
    assert_eq!(again.bytes().await, memory.bytes().await, "all of it counts against the quota");
    for key in &keys {
        assert_eq!(again.delete(key).await, Ok(true), "{key}");
    }
    assert_eq!(again.bytes().await, Ok(0));
}
