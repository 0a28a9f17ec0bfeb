//! A gate is asked where a step has no row, and what it says is in the row's batch.

use althing_execution::tools::{Ask, TurnRest};

use super::*;

fn permit(key: &str) -> Permit {
    let mut rows = Batch::new();
    rows.put(SESSION_HEADS, key.as_bytes(), b"1".as_slice());
    Permit { rows, receipt: Some([3; 16]), ..Permit::default() }
}

/// A step whose gate says that.
async fn ruled(journal: &TurnJournal, effect: Effect, ruling: GateVerdict) -> Result<NextStep, JournalError> {
    let arguments = json!({});
    let gate: BoxFuture<'_, GateVerdict> = Box::pin(std::future::ready(ruling));
    journal.step(Step { gate: Some(gate), ..step("mail/send", &arguments, effect) }).await
}

fn no_ruling() -> GateVerdict {
    panic!("the step has a row")
}

/// A step whose gate must not be asked.
async fn unruled(journal: &TurnJournal, effect: Effect) -> Result<NextStep, JournalError> {
    let arguments = json!({});
    let gate: BoxFuture<'_, GateVerdict> = Box::pin(async { no_ruling() });
    journal.step(Step { gate: Some(gate), ..step("mail/send", &arguments, effect) }).await
}

fn ask() -> GateVerdict {
    let answered: BoxFuture<'static, ()> = Box::pin(std::future::pending());
    GateVerdict::Ask(Ask { id: "0b".repeat(16), to: "bob is asked".to_owned(), answered })
}

fn denied() -> Denied {
    Denied { reason: "no".to_owned() }
}

#[tokio::test]
async fn rows_of_the_gate_are_on_disk_before_a_call_with_an_effect_and_of_others_with_the_result() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    let journal = open(&journals, "m");
    let Ok(NextStep::Go(intent, left)) = ruled(&journal, Effect::Final, GateVerdict::Permit(permit("one"))).await
    else {
        panic!("it is permitted")
    };
    // With the head, the beginning and the intent.
    assert_eq!((store.batches(), left.rows.len(), left.receipt), (vec![(4, Durability::Synced)], 0, Some([3; 16])));
    journal.done(intent, &heard(json!(1)), permit("two").rows).await.expect("written");
    assert_eq!(store.batches(), [(2, Durability::Syncing)]);
    // One that may be made twice has no intent here, but its use of a yes, and its entry in the audit log.
    let Ok(NextStep::Go(intent, left)) =
        ruled(&journal, Effect::Repeatable, GateVerdict::Permit(permit("three"))).await
    else {
        panic!("it is permitted")
    };
    assert_eq!((store.batches(), left.rows.len(), left.receipt), (vec![(1, Durability::Buffered)], 0, Some([3; 16])));
    journal.done(intent, &heard(json!(2)), left.rows).await.expect("written");
    assert_eq!(store.batches(), [(1, Durability::Buffered)]);
    let Ok(NextStep::Go(intent, left)) = ruled(&journal, Effect::None, GateVerdict::Permit(permit("four"))).await
    else {
        panic!("it is permitted")
    };
    assert!(store.batches().is_empty(), "it only reads");
    journal.done(intent, &heard(json!(3)), left.rows).await.expect("written");
    assert_eq!(store.batches(), [(2, Durability::Buffered)]);
    for key in ["one", "two", "three", "four"] {
        assert!(store.read(SESSION_HEADS, key.as_bytes()).expect("readable").is_some(), "{key}");
    }
    drop(journal);
    let again = open(&journals, "m");
    for (ahead, effect, result) in [(3, Effect::Final, 1), (2, Effect::Repeatable, 2), (1, Effect::None, 3)] {
        assert_eq!(again.ahead().await, ahead);
        assert_eq!(unruled(&again, effect).await, Ok(NextStep::Replayed(heard(json!(result)))));
    }
    assert_eq!(again.ahead().await, 0);
}

#[tokio::test]
async fn a_call_that_may_be_made_twice_is_not_made_where_its_use_of_a_yes_cannot_be_written() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    let journal = open(&journals, "m");
    *store.is_full.lock().expect("nobody panics with it") = true;
    let next = ruled(&journal, Effect::Repeatable, GateVerdict::Permit(permit("one"))).await;
    assert_eq!(next, Err(JournalError::Write));
    *store.is_full.lock().expect("nobody panics with it") = false;
    drop(journal);
    let journal = open(&journals, "m");
    journal.leave().await;
    let next = ruled(&journal, Effect::Repeatable, GateVerdict::Permit(permit("one"))).await;
    assert_eq!(next, Err(JournalError::Write), "another journal has the turn");
    assert!(store.read(SESSION_HEADS, b"one").expect("readable").is_none());
}

#[tokio::test]
async fn a_denial_is_the_result_of_its_step_whatever_effect_that_would_have_had() {
    for effect in [Effect::Final, Effect::Keyed, Effect::Repeatable, Effect::None] {
        let store = Recorder::new();
        let journals = Arc::new(Journals::new(store.clone()));
        let journal = open(&journals, "m");
        assert_eq!(ruled(&journal, effect, GateVerdict::Deny(denied())).await, Ok(NextStep::Denied(denied())));
        assert_eq!(store.batches(), [(3, Durability::Buffered)], "{effect:?}: with its result, and no intent");
        drop(journal);
        let again = open(&journals, "m");
        assert!(again.ledger().doubts.is_empty(), "{effect:?}");
        let outcome = StepOutcome { result: Err(denied().to_string()), tokens: 0, label: None };
        assert_eq!(unruled(&again, effect).await, Ok(NextStep::Replayed(outcome)), "{effect:?}");
    }
}

#[tokio::test]
async fn a_step_that_somebody_is_asked_about_leaves_nothing_and_its_turn_goes_on_in_the_same_process() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    let journal = open(&journals, "m").parkable(true);
    let before = go(&journal, "mail/read", Effect::Final).await;
    journal.done(before, &heard(json!(1)), Batch::new()).await.expect("written");
    store.batches();
    let Ok(NextStep::Ask(ask)) = ruled(&journal, Effect::Final, ask()).await else { panic!("somebody is asked") };
    assert_eq!(ask.rest(), TurnRest { ask: "0b".repeat(16), to: "bob is asked".to_owned() });
    assert!(journal.is_parkable() && store.batches().is_empty());
    journal.leave().await;
    // While whoever made the step still holds the journal.
    let again = open(&journals, "m");
    assert_eq!(reach(&again, "mail/read", Effect::Final).await, Ok(NextStep::Replayed(heard(json!(1)))));
    let Ok(NextStep::Go(intent, _)) = ruled(&again, Effect::Final, GateVerdict::Permit(permit("one"))).await else {
        panic!("it is permitted")
    };
    again.done(intent, &heard(json!(2)), Batch::new()).await.expect("written");
    assert_eq!(journal.done(stale_intent(), &heard(json!(3)), Batch::new()).await, Err(JournalError::Write));
    drop(journal);
    let Ok(NextStep::Go(intent, _)) = ruled(&again, Effect::Final, GateVerdict::Permit(permit("two"))).await else {
        panic!("the journal is its own still")
    };
    again.done(intent, &heard(json!(4)), Batch::new()).await.expect("written");
}

/// The intent of the step that the journal that was left had reached.
fn stale_intent() -> Intent {
    Intent { seq: 1, key: [0; 32], callee: None }
}

#[tokio::test]
async fn a_turn_whose_steps_have_no_order_waits_within_its_call() {
    let journals = Arc::new(Journals::new(Recorder::new()));
    let (turn, begin) = turn("m");
    let rows = TurnRows::new(turn, begin).in_any_order();
    let journal = TurnJournal::new(journals, WallClock::new(|| 7), rows, RowSeal::of(None)).parkable(true);
    assert!(!journal.is_parkable());
    assert_eq!(journal.ahead().await, 0);
}
