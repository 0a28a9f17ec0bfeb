//! Tells people that questions wait, for as long as the node runs: whom, when and what is decided by the machine of L7.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use althing_communication::WallClock;
use althing_governance::machine::consent::AskId;
use althing_governance::machine::delivery::{Deliveries, DeliveryTrouble, Notice, OpenQuestion};
use althing_governance::machine::people::People;
use althing_store::{Batch, Durability, Family, Range, ReadError, Store};
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

use super::messenger::Messenger;

/// Who was told of which question.
pub const DELIVERIES: Family = Family("governance.deliveries");

/// Questions whose rows are read at the start: as many as can wait, and more.
const ROWS_MAX: usize = 4_096;
/// Messages that are sent at one time.
const AT_ONCE: usize = 8;
/// How long nothing is looked at where nothing is due or changes: the time of day may be set.
const LOOK: Duration = Duration::from_secs(60);
/// The shortest pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// The questions that wait, and whom they are for.
pub trait Questions: Send + Sync + 'static {
    /// Those that wait for people.
    fn open(&self) -> Vec<OpenQuestion>;

    /// The people as they are now.
    fn people(&self) -> Arc<People>;

    /// Rises when a question comes, is answered or ends, and when people change.
    fn changes(&self) -> watch::Receiver<u64>;
}

/// Tells people.
pub struct Delivery {
    questions: Arc<dyn Questions>,
    messenger: Messenger,
    store: Arc<dyn Store>,
    clock: WallClock,
    deliveries: Mutex<Deliveries>,
    slots: Semaphore,
}

impl Delivery {
    /// With what the store has of who was told.
    ///
    /// # Errors
    /// Those of the store.
    pub fn open(
        questions: Arc<dyn Questions>,
        messenger: Messenger,
        store: Arc<dyn Store>,
        clock: WallClock,
    ) -> Result<Delivery, ReadError> {
        let mut deliveries = Deliveries::default();
        for (key, row) in store.scan(DELIVERIES, Range::all(ROWS_MAX))? {
            // Without it people are told once more.
            let is_read = AskId::try_from(&key[..]).is_ok_and(|id| deliveries.take_row(id, &row));
            if !is_read {
                tracing::warn!("what is kept of who was told of a question cannot be read; they are told again");
            }
        }
        let deliveries = Mutex::new(deliveries);
        Ok(Delivery { questions, messenger, store, clock, deliveries, slots: Semaphore::new(AT_ONCE) })
    }

    fn deliveries(&self) -> MutexGuard<'_, Deliveries> {
        self.deliveries.lock().expect("no holder of the deliveries panics")
    }

    /// Who could not be told of a question that waits.
    ///
    /// # Panics
    /// If another holder panicked, as everywhere here.
    #[must_use]
    pub fn troubles(&self, question: &OpenQuestion) -> Vec<DeliveryTrouble> {
        self.deliveries().troubles(question, &self.questions.people())
    }

    /// Tells people for as long as it is polled.
    pub async fn run(&self) {
        let mut changes = self.questions.changes();
        let mut sends: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
        loop {
            let (messages, next_ms) = self.due();
            self.forget().await;
            sends.extend(messages.into_iter().map(|(notice, body)| self.send(notice, body)));
            let wait = next_ms.map_or(LOOK, |at_ms| Duration::from_millis(at_ms.saturating_sub(self.clock.now_ms())));
            tokio::select! {
                biased;
                changed = changes.changed() => {
                    if changed.is_err() {
                        return std::future::pending().await;
                    }
                }
                Some(()) = sends.next(), if !sends.is_empty() => {}
                () = tokio::time::sleep(wait.clamp(PAUSE, LOOK)) => {}
            }
        }
    }

    /// The messages that are due, and when to look again.
    fn due(&self) -> (Vec<(Notice, Value)>, Option<u64>) {
        let open = self.questions.open();
        let due = self.deliveries().due(&open, &self.questions.people(), self.clock.now_ms());
        let with_body = |notice: Notice| {
            let question = open.iter().find(|question| question.id == notice.ask)?;
            let body = question.body(&notice);
            Some((notice, body))
        };
        (due.notices.into_iter().filter_map(with_body).collect(), due.next_ms)
    }

    fn send(&self, notice: Notice, body: Value) -> BoxFuture<'_, ()> {
        async move {
            let Ok(_slot) = self.slots.acquire().await else { return };
            let sent = self.messenger.send(&notice, &body).await.map_err(|error| error.to_string());
            if let Err(reason) = &sent {
                tracing::warn!(person = notice.person, attempt = notice.attempt, reason, "a person could not be told");
            }
            let row = {
                let mut deliveries = self.deliveries();
                deliveries.settle(&notice, sent.as_ref().copied().map_err(String::as_str), self.clock.now_ms());
                deliveries.row(&notice.ask)
            };
            let mut batch = Batch::new();
            if let Some(row) = row {
                batch.put(DELIVERIES, notice.ask.to_vec(), row);
            }
            self.write(batch).await;
        }
        .boxed()
    }

    /// Forgets questions that wait no more.
    async fn forget(&self) {
        let over = self.deliveries().forget(&self.questions.open());
        if over.is_empty() {
            return;
        }
        let mut batch = Batch::new();
        for id in over {
            batch.delete(DELIVERIES, id.to_vec());
        }
        self.write(batch).await;
    }

    async fn write(&self, batch: Batch) {
        // Lost in a crash, people are told once more.
        if let Err(error) = self.store.write(batch, Durability::Buffered).await {
            tracing::error!(%error, "who was told of a question could not be written");
        }
    }
}

#[cfg(test)]
mod tests;
