//! What may be done while the intent of a call is written.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;

use super::*;

fn counted(count: &AtomicUsize) -> Option<BoxFuture<'_, ()>> {
    Some(Box::pin(async {
        count.fetch_add(1, Ordering::Relaxed);
    }))
}

#[tokio::test]
async fn it_is_done_with_a_new_intent_and_with_nothing_else() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    let (count, arguments) = (AtomicUsize::new(0), json!({}));
    let steps =
        [("shop/search", Effect::Repeatable, 0), ("mail/send", Effect::Final, 1), ("shop/pay", Effect::Keyed, 2)];
    let journal = open(&journals, "m");
    for (name, effect, times) in steps {
        let next = journal.step(Step { meanwhile: counted(&count), ..step(name, &arguments, effect) }).await;
        let Ok(NextStep::Go(intent, _)) = next else { panic!("it may not be made: {next:?}") };
        assert_eq!(count.load(Ordering::Relaxed), times, "{effect:?}");
        journal.done(intent, &heard(json!(1)), Batch::new()).await.expect("written");
    }
    let gate: BoxFuture<'_, GateVerdict> =
        Box::pin(std::future::ready(GateVerdict::Deny(Denied { reason: "no".to_owned() })));
    let denied = Step { gate: Some(gate), meanwhile: counted(&count), ..step("mail/send", &arguments, Effect::Final) };
    assert!(matches!(journal.step(denied).await, Ok(NextStep::Denied(_))));
    drop(journal);
    let journal = open(&journals, "m");
    for (name, effect, _) in steps {
        let next = journal.step(Step { meanwhile: counted(&count), ..step(name, &arguments, effect) }).await;
        assert_eq!(next, Ok(NextStep::Replayed(heard(json!(1)))));
    }
    assert_eq!(count.load(Ordering::Relaxed), 2);
}

/// A store whose writes wait for a word.
struct Waits {
    inner: Arc<Recorder>,
    word: StdMutex<Option<oneshot::Receiver<()>>>,
}

impl Store for Waits {
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
        let word = self.word.lock().expect("nobody panics with it").take();
        let written = self.inner.write(batch, durability);
        Box::pin(async move {
            if let Some(word) = word {
                word.await.expect("it is said");
            }
            written.await
        })
    }
}

#[tokio::test]
async fn the_disk_and_what_is_done_meanwhile_wait_for_each_other_and_the_call_for_both() {
    let (say, word) = oneshot::channel();
    let store = Arc::new(Waits { inner: Recorder::new(), word: StdMutex::new(Some(word)) });
    let journal = open(&Arc::new(Journals::new(store.clone())), "m");
    let arguments = json!({});
    let meanwhile: BoxFuture<'_, ()> = Box::pin(async { say.send(()).expect("it is heard") });
    let asked = journal.step(Step { meanwhile: Some(meanwhile), ..step("mail/send", &arguments, Effect::Final) });
    let next = tokio::time::timeout(Duration::from_secs(30), asked).await.expect("neither begins after the other");
    assert!(matches!(next, Ok(NextStep::Go(..))), "{next:?}");
    assert_eq!(store.inner.batches(), [(3, Durability::Synced)], "the head, the beginning and the intent");
}

#[tokio::test]
async fn where_the_intent_cannot_be_written_nothing_is_waited_for() {
    let store = Recorder::new();
    let journal = open(&Arc::new(Journals::new(store.clone())), "m");
    *store.is_full.lock().expect("nobody panics with it") = true;
    let arguments = json!({});
    let never: BoxFuture<'_, ()> = Box::pin(std::future::pending());
    let asked = journal.step(Step { meanwhile: Some(never), ..step("mail/send", &arguments, Effect::Final) });
    assert_eq!(asked.await, Err(JournalError::Write));
}
