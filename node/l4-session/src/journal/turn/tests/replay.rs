//! What the journal keeps for agents that are code.

use althing_execution::journal::{Checkpoint, Clock, Reading, Replay};

use super::*;

fn checkpoint(state: &[u8]) -> Checkpoint {
    Checkpoint { state: state.to_vec(), progress: b"{}".to_vec(), label: None }
}

fn of(journal: &TurnJournal) -> &dyn Replay {
    journal.replay().expect("it is for code, too")
}

#[tokio::test]
async fn the_batch_of_a_checkpoint_deletes_the_rows_before_it() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    let journal = open(&journals, "m");
    for _ in 0..2 {
        let intent = go(&journal, "mail/send", Effect::Final).await;
        journal.done(intent, &heard(json!("x".repeat(4_000))), Batch::new()).await.expect("written");
    }
    let (before, rows) = (journal.ledger(), store.rows());
    assert_eq!((before.rows, rows), (5, 5));
    store.batches();
    of(&journal).save(&checkpoint(b"two")).await.expect("written");
    assert_eq!(store.batches(), [(1 + 4, Durability::Buffered)], "the checkpoint, and the rows that it deletes");
    let after = journal.ledger();
    assert_eq!((after.rows, store.rows()), (2, 2));
    assert!(after.bytes < before.bytes);
    let intent = go(&journal, "mail/send", Effect::Final).await;
    drop(journal);
    let journal = open(&journals, "m");
    assert_eq!(of(&journal).checkpoint(), Some(checkpoint(b"two")));
    assert_eq!(journal.ledger().doubts.iter().map(|doubt| doubt.seq).collect::<Vec<_>>(), [intent.seq]);
    // All of it goes with its task.
    let mut batch = Batch::new();
    journal.close(&mut batch).await;
    store.write(batch, Durability::Synced).await.expect("written");
    assert_eq!(store.rows(), 0);
}

#[tokio::test]
async fn what_makes_several_steps_at_once_saves_when_all_of_them_are_over() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    let journal = open(&journals, "m");
    let (first, second) =
        (go(&journal, "mail/send", Effect::Final).await, go(&journal, "mail/file", Effect::Repeatable).await);
    journal.done(first, &heard(json!(1)), Batch::new()).await.expect("written");
    assert_eq!(of(&journal).save_between(&checkpoint(b"one")).await, Ok(false), "one is under way");
    journal.done(second, &heard(json!(2)), Batch::new()).await.expect("it goes on");
    // What was made before the node ended, and has not come again, is not forgotten.
    drop(journal);
    let journal = open(&journals, "m");
    assert_eq!(of(&journal).save_between(&checkpoint(b"one")).await, Ok(false));
    for (name, effect, result) in [("mail/send", Effect::Final, 1), ("mail/file", Effect::Repeatable, 2)] {
        assert_eq!(reach(&journal, name, effect).await, Ok(NextStep::Replayed(heard(json!(result)))));
    }
    assert_eq!(of(&journal).save_between(&checkpoint(b"one")).await, Ok(true));
    drop(journal);
    assert_eq!(of(&open(&journals, "m")).checkpoint(), Some(checkpoint(b"one")));
}

#[tokio::test]
async fn a_checkpoint_that_cannot_be_written_leaves_what_was_there() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    let journal = open(&journals, "m");
    let intent = go(&journal, "mail/send", Effect::Final).await;
    journal.done(intent, &heard(json!(1)), Batch::new()).await.expect("written");
    *store.is_full.lock().expect("nobody panics with it") = true;
    assert_eq!(of(&journal).save(&checkpoint(b"one")).await, Err(JournalError::Write));
    drop(journal);
    let journal = open(&journals, "m");
    assert_eq!(of(&journal).checkpoint(), None);
    assert_eq!(reach(&journal, "mail/send", Effect::Final).await, Ok(NextStep::Replayed(heard(json!(1)))));
}

#[tokio::test]
async fn a_result_is_in_the_batch_of_what_its_call_changed() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    let changes = || {
        let mut changes = Batch::new();
        changes.put(SESSION_HEADS, *b"elsewhere", *b"changed");
        changes
    };
    let is_changed = || store.inner.read(SESSION_HEADS, b"elsewhere").expect("readable").is_some();
    let journal = open(&journals, "m");
    let intent = go(&journal, "memory/put", Effect::Repeatable).await;
    *store.is_full.lock().expect("nobody panics with it") = true;
    let refused = of(&journal).done_with(intent, &heard(json!(1)), changes()).await;
    assert_eq!((refused, is_changed(), store.rows()), (Err(JournalError::Write), false, 0));
    *store.is_full.lock().expect("nobody panics with it") = false;
    drop(journal);
    let journal = open(&journals, "m");
    let intent = go(&journal, "memory/put", Effect::Repeatable).await;
    of(&journal).done_with(intent, &heard(json!(1)), changes()).await.expect("written");
    assert_eq!(store.batches(), [(1 + 3, Durability::Synced)], "the change; the head, the beginning and the result");
    assert!(is_changed());
    drop(journal);
    let journal = open(&journals, "m");
    assert_eq!(reach(&journal, "memory/put", Effect::Repeatable).await, Ok(NextStep::Replayed(heard(json!(1)))));
}

#[tokio::test]
async fn what_a_clock_said_is_told_again_as_far_as_a_row_followed() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    let journal = open(&journals, "m");
    let wall = |ns: u64| Reading { clock: Clock::Wall, ns };
    assert_eq!(of(&journal).read_clock(wall(5)), Ok(wall(5)));
    let intent = go(&journal, "shop/search", Effect::Repeatable).await;
    journal.done(intent, &heard(json!(1)), Batch::new()).await.expect("written");
    assert_eq!(store.rows(), 3, "the beginning, the reading and the result");
    assert_eq!(of(&journal).read_clock(wall(6)), Ok(wall(6)));
    drop(journal);
    let journal = open(&journals, "m");
    assert_eq!(of(&journal).seed(), [0; 32], "that of its beginning");
    assert_eq!([90, 91].map(|ns| of(&journal).read_clock(wall(ns))), [Ok(wall(5)), Ok(wall(91))]);
}
