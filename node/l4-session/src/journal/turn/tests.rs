mod final_calls;
mod gate;
mod meanwhile;
mod preempted;
mod reading;
mod recorded;
mod replay;
mod sealed;

use std::sync::Mutex as StdMutex;

use althing_execution::tools::CallKind;
use althing_protocol::{AgentId, PublisherId};
use althing_store::{Durability, Family, MemoryStore, Range, ReadError, Rows, Snapshot, Store, WriteError};
use serde_json::{Value, json};

use super::*;
use crate::machine::session::{Begin, Damage, SessionId};

/// A store that notes how each batch with rows is written, and refuses all of them when it is full.
struct Recorder {
    inner: MemoryStore,
    batches: StdMutex<Vec<(usize, Durability)>>,
    is_full: StdMutex<bool>,
}

impl Recorder {
    fn new() -> Arc<Recorder> {
        let inner = MemoryStore::new(&[SESSION_HEADS, SESSION_ROWS]);
        Arc::new(Recorder { inner, batches: StdMutex::default(), is_full: StdMutex::default() })
    }

    /// How many changes each batch had since the last look, and how it was written.
    fn batches(&self) -> Vec<(usize, Durability)> {
        std::mem::take(&mut *self.batches.lock().expect("nobody panics with it"))
    }

    fn rows(&self) -> usize {
        self.inner.keys(SESSION_ROWS, Range::all(10_000)).expect("readable").len()
    }
}

impl Store for Recorder {
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.inner.read(family, key)
    }

    fn scan(&self, family: Family, range: Range) -> Result<Rows, ReadError> {
        self.inner.scan(family, range)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.inner.snapshot()
    }

    fn write(&self, batch: Batch, durability: Durability) -> BoxFuture<'static, Result<(), WriteError>> {
        if *self.is_full.lock().expect("nobody panics with it") {
            let full = WriteError::Full { path: "/data".into(), free_bytes: 1, reserve_bytes: 2 };
            return Box::pin(std::future::ready(Err(full)));
        }
        if !batch.is_empty() {
            self.batches.lock().expect("nobody panics with it").push((batch.len(), durability));
        }
        self.inner.write(batch, durability)
    }
}

fn turn(message: &str) -> (TurnId, Begin) {
    let agent = AgentId::new(PublisherId::from_digest([1; 32]), "clerk").expect("a name");
    let begin = Begin {
        task: "t".to_owned(),
        message: message.to_owned(),
        agent: agent.to_string(),
        version: "1.0.0".to_owned(),
        binding: String::new(),
        epoch: 0,
        principals: Vec::new(),
        extensions: Vec::new(),
        label: None,
        session: None,
        delegation: None,
        metadata: None,
        modes: None,
        history_length: None,
        within_ms: None,
        began_ms: 0,
        seed: [0; 32],
        caller: None,
        attempt: None,
    };
    (TurnId::of(SessionId::of(&agent, "caller", "c"), "t", message), begin)
}

/// The journal of a turn, as it is on disk.
fn open(journals: &Arc<Journals>, message: &str) -> TurnJournal {
    open_with(journals, message, RowSeal::of(None)).expect("as it was written")
}

/// The same, of an agent whose rows are stored so.
fn open_with(journals: &Arc<Journals>, message: &str, seal: RowSeal) -> Result<TurnJournal, Damage> {
    let (turn, begin) = turn(message);
    let rows = journals.read(turn, begin, &seal)?;
    Ok(TurnJournal::new(journals.clone(), WallClock::new(|| 7), rows, seal))
}

fn step<'a>(name: &'a str, arguments: &'a Value, effect: Effect) -> Step<'a> {
    Step { kind: CallKind::Tool, name, arguments, effect, callee: None, gate: None, meanwhile: None }
}

async fn reach(journal: &TurnJournal, name: &str, effect: Effect) -> Result<NextStep, JournalError> {
    journal.step(step(name, &json!({}), effect)).await
}

async fn go(journal: &TurnJournal, name: &str, effect: Effect) -> Intent {
    match reach(journal, name, effect).await.expect("it is reached") {
        NextStep::Go(intent, _) => intent,
        next => panic!("it may not be made: {next:?}"),
    }
}

/// Calls an agent whose name stands for that one now.
async fn ask(journal: &TurnJournal, stands_for: &str) -> NextStep {
    let arguments = json!({});
    let callee: BoxFuture<'_, Option<String>> = Box::pin(std::future::ready(Some(stands_for.to_owned())));
    let step = Step { callee: Some(callee), ..step("agents/clerk", &arguments, Effect::Keyed) };
    journal.step(step).await.expect("it is reached")
}

fn heard(value: Value) -> StepOutcome {
    StepOutcome { result: Ok(value), tokens: 0, label: None }
}

#[tokio::test]
async fn an_intent_is_on_disk_for_good_before_the_call_and_a_result_before_it_is_heard() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    let journal = open(&journals, "m");
    // With the first row: the head, and the beginning.
    let intent = go(&journal, "models", Effect::Repeatable).await;
    assert!(store.batches().is_empty(), "nothing is journalled yet");
    journal.done(intent, &heard(json!(1)), Batch::new()).await.expect("written");
    assert_eq!(store.batches(), [(3, Durability::Buffered)]);
    for effect in [Effect::None, Effect::Repeatable] {
        let intent = go(&journal, "shop/search", effect).await;
        assert!(store.batches().is_empty(), "{effect:?}");
        journal.done(intent, &heard(json!(2)), Batch::new()).await.expect("written");
        assert_eq!(store.batches(), [(1, Durability::Buffered)], "{effect:?}");
    }
    // That of a call that must not be made twice is synced, and nothing waits for it.
    for (effect, result) in [(Effect::Keyed, Durability::Buffered), (Effect::Final, Durability::Syncing)] {
        let intent = go(&journal, "mail/send", effect).await;
        assert_eq!(store.batches(), [(1, Durability::Synced)], "{effect:?}");
        journal.done(intent, &heard(json!(3)), Batch::new()).await.expect("written");
        assert_eq!(store.batches(), [(1, result)], "{effect:?}");
    }
    assert_eq!((journal.ledger().rows, store.rows()), (8, 8));
}

#[tokio::test]
async fn the_batch_that_ends_a_task_deletes_its_journal_and_nothing_is_written_after_it() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    let (journal, other) = (open(&journals, "m"), open(&journals, "n"));
    for journal in [&journal, &other] {
        let intent = go(journal, "mail/send", Effect::Final).await;
        journal.done(intent, &heard(json!(1)), Batch::new()).await.expect("written");
    }
    let under_way = go(&journal, "mail/send", Effect::Final).await;
    let mut batch = Batch::new();
    journal.close(&mut batch).await;
    assert_eq!(batch.len(), 1 + 4);
    store.write(batch, Durability::Synced).await.expect("written");
    assert_eq!(store.rows(), 3, "those of the other turn");
    assert_eq!(journal.done(under_way, &heard(json!(2)), Batch::new()).await, Err(JournalError::Write));
    assert_eq!(reach(&journal, "mail/send", Effect::Final).await, Err(JournalError::Write));
    assert_eq!(store.rows(), 3);
    // A turn that was never journalled has nothing to delete.
    let mut batch = Batch::new();
    open(&journals, "o").close(&mut batch).await;
    assert!(batch.is_empty());
}

#[tokio::test]
async fn what_cannot_be_written_is_neither_made_nor_heard() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    let journal = open(&journals, "m");
    let intent = go(&journal, "shop/search", Effect::Repeatable).await;
    *store.is_full.lock().expect("nobody panics with it") = true;
    assert_eq!(journal.done(intent, &heard(json!(1)), Batch::new()).await, Err(JournalError::Write));
    assert_eq!(reach(&journal, "mail/send", Effect::Final).await, Err(JournalError::Write));
    assert_eq!(store.rows(), 0);
}

#[tokio::test]
async fn a_call_in_doubt_waits_for_what_is_said_of_it() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    let before = open(&journals, "m");
    go(&before, "mail/send", Effect::Final).await;
    // The process ended here.
    drop(before);
    let journal = open(&journals, "m");
    assert_eq!(journal.ledger().doubts.len(), 1);
    assert_eq!(
        reach(&journal, "mail/send", Effect::Final).await,
        Err(JournalError::InDoubt { seq: 0, name: "mail/send".to_owned() })
    );
    store.batches();
    // What cannot be written was not said.
    *store.is_full.lock().expect("nobody panics with it") = true;
    assert_eq!(journal.clear_doubt(0, Choice::Again, None, ("local", Batch::new())).await, Err(JournalError::Write));
    *store.is_full.lock().expect("nobody panics with it") = false;
    assert_eq!(journal.ledger().doubts.len(), 1);
    let mut record = Batch::new();
    record.put(SESSION_HEADS, b"record".as_slice(), b"said".as_slice());
    assert_eq!(journal.clear_doubt(0, Choice::Done, Some(heard(json!("sent"))), ("local", record)).await, Ok(true));
    assert_eq!(store.batches(), [(3, Durability::Synced)], "who chose, the result, and the record of it");
    journal.resolved().await;
    assert_eq!(journal.clear_doubt(0, Choice::Again, None, ("local", Batch::new())).await, Ok(false));
    assert_eq!(reach(&journal, "mail/send", Effect::Final).await, Ok(NextStep::Replayed(heard(json!("sent")))));
}

#[tokio::test]
async fn whom_a_name_stood_for_is_asked_again_and_nobody_else() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    let NextStep::Go(first, _) = ask(&open(&journals, "m"), "one").await else { panic!("it is new") };
    assert_eq!(first.callee.as_deref(), Some("one"));
    let again = ask(&open(&journals, "m"), "another").await;
    assert_eq!(again, NextStep::Go(first, Permit::default()), "by the same key, too");
}

#[tokio::test]
async fn a_step_that_looks_for_whom_it_calls_keeps_no_other_from_being_made() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    let (turn, begin) = turn("m");
    let rows = TurnRows::new(turn, begin).in_any_order();
    let journal = TurnJournal::new(journals, WallClock::new(|| 7), rows, RowSeal::of(None));
    let arguments = json!({});
    let (found, finding) = tokio::sync::oneshot::channel::<String>();
    let callee: BoxFuture<'_, Option<String>> = Box::pin(async { finding.await.ok() });
    let asks = journal.step(Step { callee: Some(callee), ..step("agents/clerk", &arguments, Effect::Keyed) });
    tokio::pin!(asks);
    assert!(futures::poll!(&mut asks).is_pending());
    let other = go(&journal, "mail/send", Effect::Final).await;
    journal.done(other, &heard(json!(1)), Batch::new()).await.expect("written");
    found.send("one".to_owned()).expect("it waits");
    let Ok(NextStep::Go(intent, _)) = asks.await else { panic!("it is new") };
    assert_eq!((intent.seq, intent.callee.as_deref(), store.rows()), (0, Some("one"), 4));
}

#[tokio::test]
async fn journals_of_tasks_that_ended_are_deleted_at_the_start_and_others_stay() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    let journal = open(&journals, "m");
    go(&journal, "mail/send", Effect::Final).await;
    journals.sweep(|task| task == "t", |_| false, 7).await.expect("readable");
    assert_eq!(store.rows(), 2);
    journals.sweep(|_| false, |_| false, 7).await.expect("readable");
    assert_eq!(store.rows(), 0);
    assert!(store.inner.keys(SESSION_HEADS, Range::all(10)).expect("readable").is_empty());
}
