//! Where the state is executed, and what that holds up (SG-5).

use std::sync::mpsc::sync_channel;

use futures::stream;
use openraft::storage::RaftStateMachine as _;

use super::super::records::{EntryRecord, Payload, Position};
use super::super::types::Entry;
use super::logs::group;
use super::*;

/// Entries that execute nothing.
fn entries(count: u64, bytes: usize) -> Vec<Entry> {
    let record =
        |index| EntryRecord { at: Position { term: 1, index }, payload: Payload::Batch(0, vec![7u8; bytes].into()) };
    (0..count).map(|index| record(index).into_entry().expect("an entry")).collect()
}

fn state() -> StateStore {
    let store = Arc::new(MemoryStore::new(&[RAFT_LOG, RAFT_STATE, RAFT_SNAPSHOTS]));
    StateStore::open(group(), "test", Pen::new(store), LOG_BYTES).expect("a state")
}

async fn apply(state: &mut StateStore, entries: Vec<Entry>) {
    state.apply(stream::iter(entries.into_iter().map(|entry| Ok((entry, None))))).await.expect("it is executed");
}

/// Somebody who looks at the state keeps it from being executed; nobody else on the runtime's only thread waits for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_waits_for_the_state_holds_up_no_other_task() {
    let mut state = state();
    let (looks, is_looking) = sync_channel(1);
    let (release, released) = sync_channel::<()>(1);
    let looking = state.clone();
    let reader = std::thread::spawn(move || {
        let view = looking.view();
        looks.send(()).expect("it is heard");
        released.recv().expect("it is told");
        view.applied.map(|id| id.index)
    });
    is_looking.recv().expect("it looks");
    let applying = tokio::spawn(async move {
        apply(&mut state, entries(100, 10)).await;
        state.view().applied.map(|id| id.index)
    });
    // It runs behind the other one, on the same thread.
    tokio::spawn(async {}).await.expect("it is run");
    release.send(()).expect("it is heard");
    assert_eq!(reader.join().expect("no panic"), None, "it saw no part of it");
    assert_eq!(applying.await.expect("no panic"), Some(99));
}

#[tokio::test]
async fn entries_are_executed_in_their_order_and_counted() {
    let mut state = state();
    apply(&mut state, entries(200, 1_000)).await;
    assert_eq!(state.view().applied.map(|id| id.index), Some(199));
    assert!(!state.tally().is_due());
    apply(&mut state, entries(80, 900_000)).await;
    assert!(state.tally().is_due(), "72 MB");
}
