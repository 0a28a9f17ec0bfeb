//! Journals that stay when their turns are over.

use super::*;
use crate::journal::row_seal::tests::sealed;
use crate::machine::session::{RowKind, RowSummary};

/// Ends a turn with a call that was made, and gives its journals as they are when the node starts again.
async fn ended(store: &Arc<Recorder>, seal: RowSeal, is_recorded: bool) -> Arc<Journals> {
    let journals = Arc::new(Journals::new(store.clone()));
    let journal = open_with(&journals, "m", seal).expect("it is new").recorded(is_recorded);
    let intent = go(&journal, "mail/send", Effect::Final).await;
    journal.done(intent, &heard(json!("hidden words")), Batch::new()).await.expect("written");
    let mut batch = Batch::new();
    journal.end(&mut batch).await;
    store.write(batch, Durability::Synced).await.expect("written");
    assert_eq!(go_on(&journal).await, Err(JournalError::Write), "it is over");
    Arc::new(Journals::new(store.clone()))
}

async fn go_on(journal: &TurnJournal) -> Result<NextStep, JournalError> {
    reach(journal, "mail/send", Effect::Final).await
}

/// What may be told of the one journal of the task.
fn told(journals: &Journals, seal: &RowSeal) -> Result<Vec<RowSummary>, Damage> {
    let all = journals.recorded("t");
    assert_eq!(all.len(), 1);
    let (turn, ended_ms) = &all[0];
    assert_eq!(*ended_ms, 7);
    let (message, rows) = journals.summaries(turn, seal)?.expect("it has rows");
    assert_eq!(message, "m");
    Ok(rows)
}

#[tokio::test]
async fn the_rows_of_a_recorded_turn_stay_with_its_task_and_go_with_it() {
    let store = Recorder::new();
    let journals = ended(&store, RowSeal::of(None), true).await;
    // The task is not unfinished, but there.
    journals.sweep(|_| false, |task| task == "t", 7).await.expect("readable");
    assert_eq!(store.rows(), 3);
    let rows = told(&journals, &RowSeal::of(None)).expect("as it was written");
    let kinds: Vec<RowKind> = rows.iter().map(|row| row.kind).collect();
    assert_eq!(kinds, [RowKind::Begin, RowKind::Intent, RowKind::Result]);
    let names: Vec<Option<&str>> = rows.iter().map(|row| row.name.as_deref()).collect();
    assert_eq!(names, [None, Some("mail/send"), Some("mail/send")]);
    assert!(rows[1].call.is_some() && rows[1].call == rows[2].call);
    assert!(!format!("{rows:?}").contains("hidden"), "what was heard is not told");
    assert_eq!(rows.iter().map(|row| row.bytes).sum::<u64>(), open_bytes(&store));

    journals.forget(&["another"]).await;
    assert_eq!(store.rows(), 3);
    journals.forget(&["t"]).await;
    assert_eq!((store.rows(), journals.recorded("t")), (0, Vec::new()));
    assert!(store.inner.keys(SESSION_HEADS, Range::all(10)).expect("readable").is_empty());
}

/// Bytes of all rows, with their keys.
fn open_bytes(store: &Recorder) -> u64 {
    let rows = store.inner.scan(SESSION_ROWS, Range::all(100)).expect("readable");
    rows.iter().map(|(key, row)| (key.len() + row.len()) as u64).sum()
}

#[tokio::test]
async fn what_is_not_recorded_goes_with_the_turn_and_what_is_goes_with_a_task_that_is_not_there() {
    let store = Recorder::new();
    ended(&store, RowSeal::of(None), false).await;
    assert_eq!(store.rows(), 0);
    let journals = ended(&store, RowSeal::of(None), true).await;
    assert_eq!(store.rows(), 3);
    journals.sweep(|_| true, |_| false, 7).await.expect("readable");
    assert_eq!((store.rows(), journals.recorded("t")), (0, Vec::new()));
}

#[tokio::test]
async fn a_recorded_turn_is_as_sealed_as_it_was_and_its_number_belongs_to_no_other() {
    let store = Recorder::new();
    let journals = ended(&store, sealed("one"), true).await;
    journals.sweep(|_| false, |_| true, 7).await.expect("readable");
    let rows = told(&journals, &sealed("one")).expect("it has its key");
    assert_eq!(rows.len(), 3);
    assert!(told(&journals, &RowSeal::of(None)).is_err() && told(&journals, &sealed("two")).is_err());
    // A turn that comes to the same number writes nothing over it.
    let journal = open_with(&journals, "m", sealed("one")).expect("as it was written");
    assert!(matches!(go_on(&journal).await, Ok(NextStep::Replayed(_))));
    assert_eq!(reach(&journal, "mail/other", Effect::Final).await, Err(JournalError::Write));
    assert_eq!(store.rows(), 3);
}
