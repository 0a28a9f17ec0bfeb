//! A turn that makes room for others goes back to its rows.

use althing_execution::journal::{Checkpoint, Clock, Reading, Replay};
use althing_execution::kernel::slots::{BandwidthServer, Slots, run_on_slots};

use super::*;
use crate::machine::session::SESSION_BYTES_MAX;

/// Slots for one of which a turn waits.
async fn crowded() -> (Slots, tokio::task::JoinHandle<()>) {
    let slots = Slots::new(0);
    let waits = slots.clone();
    let waiter = tokio::spawn(async move {
        let server = BandwidthServer::default();
        // There is none.
        let _ = run_on_slots(&waits, 1, &server, std::future::pending::<()>()).await;
    });
    while slots.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    (slots, waiter)
}

fn rows(journals: &Arc<Journals>) -> TurnRows {
    let (turn, begin) = turn("m");
    journals.read(turn, begin, &RowSeal::of(None)).expect("as it was written")
}

async fn make(journal: &TurnJournal, name: &str, effect: Effect) {
    let intent = go(journal, name, effect).await;
    journal.done(intent, &heard(json!(name)), Batch::new()).await.expect("written");
}

#[tokio::test]
async fn a_turn_stops_before_a_new_step_and_is_told_again_what_it_heard() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    let (slots, waiter) = crowded().await;
    let journal = open(&journals, "m").preempted_by(Some(slots));
    make(&journal, "shop/search", Effect::Repeatable).await;
    assert!(!journal.goes_on());
    let search = || -> Result<NextStep, JournalError> { Ok(NextStep::Replayed(heard(json!("shop/search")))) };

    let before = (journal.ledger(), store.rows());
    assert_eq!(reach(&journal, "mail/send", Effect::Final).await, Err(JournalError::Preempted));
    assert!(journal.goes_on());
    journal.rewind(rows(&journals)).await;
    assert_eq!((journal.ledger(), store.rows()), before, "nothing was written");
    assert_eq!(reach(&journal, "shop/search", Effect::Repeatable).await, search());
    // One step at least, before it makes room again.
    make(&journal, "mail/send", Effect::Final).await;

    of(&journal).save(&checkpoint()).await.expect("written");
    assert_eq!(reach(&journal, "shop/search", Effect::Repeatable).await, Err(JournalError::Preempted));
    journal.rewind(rows(&journals)).await;
    assert_eq!(of(&journal).checkpoint(), Some(checkpoint()), "it goes on from there");
    make(&journal, "shop/search", Effect::Repeatable).await;

    assert_eq!(reach(&journal, "mail/send", Effect::Final).await, Err(JournalError::Preempted));
    journal.rewind(rows(&journals)).await;
    assert_eq!(reach(&journal, "shop/search", Effect::Repeatable).await, search());
    waiter.abort();
    // Its bytes are counted once, and all of them go with it.
    drop(journal);
    assert_eq!(journals.usage().add(turn("m").0.session, Payer::Owner, SESSION_BYTES_MAX), Ok(()));
}

#[tokio::test]
async fn what_clocks_said_is_told_again_as_far_as_it_was_written() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    let (slots, waiter) = crowded().await;
    let journal = open(&journals, "m").preempted_by(Some(slots));
    let at = |ns| Reading { clock: Clock::Wall, ns };
    assert_eq!(of(&journal).read_clock(at(1)), Ok(at(1)));
    make(&journal, "shop/search", Effect::Repeatable).await;
    assert_eq!(of(&journal).read_clock(at(2)), Ok(at(2)), "no row has that");
    assert_eq!(reach(&journal, "mail/send", Effect::Final).await, Err(JournalError::Preempted));
    journal.rewind(rows(&journals)).await;
    assert_eq!([at(8), at(9)].map(|now| of(&journal).read_clock(now)), [Ok(at(1)), Ok(at(9))]);
    waiter.abort();
}

#[tokio::test]
async fn steps_without_an_order_are_never_interrupted() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    let (slots, waiter) = crowded().await;
    let (turn, begin) = turn("m");
    let rows = TurnRows::new(turn, begin).in_any_order();
    let journal = TurnJournal::new(journals, WallClock::new(|| 7), rows, RowSeal::of(None)).preempted_by(Some(slots));
    for _ in 0..3 {
        make(&journal, "mail/send", Effect::Final).await;
    }
    assert!(!journal.goes_on());
    waiter.abort();
}

fn checkpoint() -> Checkpoint {
    Checkpoint { state: b"one".to_vec(), progress: b"{}".to_vec(), label: None }
}

fn of(journal: &TurnJournal) -> &dyn Replay {
    journal.replay().expect("it is for code, too")
}
