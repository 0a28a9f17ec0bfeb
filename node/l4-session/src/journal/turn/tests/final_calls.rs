//! A final call is known from its intent to its result, and a turn that is held lets none go.

use std::time::Duration;

use super::*;

fn steps(journal: &TurnJournal) -> Vec<u32> {
    journal.final_calls().all().into_iter().map(|call| call.seq).collect()
}

#[tokio::test]
async fn a_final_call_is_known_from_its_intent_to_its_result_and_a_result_that_is_not_on_disk_is_none() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    let journal = open(&journals, "m");
    go(&journal, "mail/send", Effect::Keyed).await;
    let done = go(&journal, "bank/pay", Effect::Final).await;
    let lost = go(&journal, "bank/pay", Effect::Final).await;
    assert_eq!(steps(&journal), [1, 2], "what has a key may be made twice");
    journal.done(done, &heard(json!(1)), Batch::new()).await.expect("written");
    assert_eq!(steps(&journal), [2]);
    *store.is_full.lock().expect("nobody panics with it") = true;
    assert_eq!(journal.done(lost, &heard(json!(2)), Batch::new()).await, Err(JournalError::Write));
    assert_eq!(reach(&journal, "bank/pay", Effect::Final).await, Err(JournalError::Write));
    assert_eq!(steps(&journal), [2], "what has no intent on disk was not let go");
    *store.is_full.lock().expect("nobody panics with it") = false;
    // The process ended here.
    drop(journal);
    let journal = open(&journals, "m");
    assert_eq!(steps(&journal), [2]);
    assert_eq!(journal.clear_doubt(2, Choice::Failed, None, ("local", Batch::new())).await, Ok(true));
    assert!(steps(&journal).is_empty(), "somebody said what came of it");
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_held_once_its_final_calls_have_answered_and_lets_none_go_then() {
    let store = Recorder::new();
    let journal = open(&Arc::new(Journals::new(store.clone())), "m");
    let patience = Duration::from_secs(30);
    let intent = go(&journal, "bank/pay", Effect::Final).await;
    let open_call = journal.final_calls().hold(patience).await.expect_err("it never answers");
    assert_eq!((open_call.seq, open_call.name.as_str()), (0, "bank/pay"));
    {
        let holding = journal.final_calls().hold(patience);
        tokio::pin!(holding);
        assert!(futures::poll!(&mut holding).is_pending());
        journal.done(intent, &heard(json!(1)), Batch::new()).await.expect("written");
        let held = holding.await.expect("it has answered");
        let arguments = json!({});
        let next = journal.step(step("bank/pay", &arguments, Effect::Final));
        tokio::pin!(next);
        store.batches();
        assert!(futures::poll!(&mut next).is_pending());
        assert!(store.batches().is_empty() && steps(&journal).is_empty(), "not even its intent is written");
        drop(held);
        assert!(matches!(next.await, Ok(NextStep::Go(..))));
    }
    assert_eq!(steps(&journal), [1]);
}
