//! What a node keeps of handoffs while it runs, and what it recalls of them when it starts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use althing_store::{Batch, Durability, Range, ReadError, Store, WriteError};

use super::rows::{self, HANDOFFS_IN, HANDOFFS_OUT};
use super::way::HandoffWay;
use crate::machine::handoff::{Entry, HandoffId, KeptHandoffs, Phase, Recipient};

/// Rows that are read at once.
const PAGE: usize = 256;

/// The handoffs of a node.
pub(crate) struct Handoffs {
    pub(super) store: Arc<dyn Store>,
    /// What its agents were offered, by their names. Held while an offer or a commit is decided and written.
    pub(super) recipients: tokio::sync::Mutex<BTreeMap<String, Recipient>>,
    /// What its agents accepted and has not begun.
    kept: Mutex<KeptHandoffs>,
    /// The tasks whose work is given away and has no result yet.
    given: Mutex<BTreeSet<String>>,
    /// The tasks whose work is being offered.
    offers: Mutex<BTreeSet<String>>,
    pub(super) way: OnceLock<Arc<dyn HandoffWay>>,
}

impl Handoffs {
    /// Those in a store; what agents were offered is read by [`Handoffs::recall`].
    pub fn open(store: Arc<dyn Store>) -> Result<Handoffs, ReadError> {
        let mut given = BTreeSet::new();
        let mut after: Option<Vec<u8>> = None;
        loop {
            let range = Range::all(PAGE);
            let keys = store.keys(HANDOFFS_OUT, after.take().map_or(range.clone(), |after| range.after(after)))?;
            given.extend(keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()));
            match keys.into_iter().next_back() {
                Some(last) => after = Some(last),
                None => break,
            }
        }
        let (recipients, kept, offers, way) = Default::default();
        Ok(Handoffs { store, recipients, kept, given: Mutex::new(given), offers, way })
    }

    /// Reads what agents were offered. A task is on disk before the row that says that it began: whether `has` it decides.
    pub fn recall(&mut self, has: impl Fn(&str) -> bool) -> Result<(), ReadError> {
        let mut entries: BTreeMap<String, BTreeMap<HandoffId, Entry>> = BTreeMap::new();
        let mut after: Option<Vec<u8>> = None;
        loop {
            let range = Range::all(PAGE);
            let page = self.store.scan(HANDOFFS_IN, after.take().map_or(range.clone(), |after| range.after(after)))?;
            for (key, value) in &page {
                let Some((agent, id, mut entry)) = rows::read_entry(key, value) else {
                    tracing::error!("what is kept of a handoff that an agent was offered is damaged, and is not used");
                    continue;
                };
                if matches!(entry.phase, Phase::Accepted { .. }) && has(&entry.task) {
                    entry.phase = Phase::Begun;
                }
                entries.entry(agent).or_default().insert(id, entry);
            }
            match page.into_iter().next_back() {
                Some((last, _)) => after = Some(last),
                None => break,
            }
        }
        let of = |(agent, entries)| (agent, Recipient::of(entries));
        *self.recipients.get_mut() = entries.into_iter().map(of).collect();
        Ok(())
    }

    /// Whether the work of a task is given away and has no result yet.
    pub fn is_given(&self, task: &str) -> bool {
        self.given().contains(task)
    }

    /// The tasks whose work is given away, and goes on elsewhere.
    pub fn all_given(&self) -> BTreeSet<String> {
        self.given().clone()
    }

    /// Deletes what is kept of a task's handoff in the batch that ends the task.
    pub fn close(&self, task: &str, batch: &mut Batch) {
        if self.is_given(task) {
            batch.delete(HANDOFFS_OUT, task.as_bytes());
        }
    }

    /// What [`Handoffs::close`] deletes is on disk.
    pub fn forget(&self, task: &str) {
        self.given().remove(task);
    }

    /// Deletes what is kept of a task's handoff: the task ended otherwise. `rows` are what is on record of that. If that cannot be
    /// written, it is done when the node starts.
    pub(super) async fn drop_row(&self, task: &str, rows: Batch) {
        let mut batch = rows;
        batch.delete(HANDOFFS_OUT, task.as_bytes());
        if let Err(error) = self.store.write(batch, Durability::Buffered).await {
            tracing::warn!(task, %error, "what is kept of a handoff cannot be deleted; it is deleted when the node starts");
        }
        self.forget(task);
    }

    /// Writes what an agent's recipient knows of a handoff.
    pub(super) async fn write_entry(
        &self,
        (agent, id): (&str, &HandoffId),
        entry: &Entry,
        durability: Durability,
    ) -> Result<(), WriteError> {
        let mut batch = Batch::new();
        rows::put_entry(&mut batch, (agent, id), entry);
        self.store.write(batch, durability).await
    }

    /// Begins to offer the work of a task; none where that is being done already.
    pub(super) fn begin_offer(self: &Arc<Handoffs>, task: &str) -> Option<OfferClaim> {
        let is_new = self.offers().insert(task.to_owned());
        is_new.then(|| OfferClaim { handoffs: self.clone(), task: task.to_owned() })
    }

    pub(super) fn kept(&self) -> MutexGuard<'_, KeptHandoffs> {
        self.kept.lock().expect("no holder of the kept handoffs panics")
    }

    pub(super) fn given(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.given.lock().expect("no holder of the handoffs panics")
    }

    fn offers(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.offers.lock().expect("no holder of the offers panics")
    }
}

/// The work of a task is being offered, for as long as this lives.
pub(super) struct OfferClaim {
    handoffs: Arc<Handoffs>,
    task: String,
}

impl Drop for OfferClaim {
    fn drop(&mut self) {
        self.handoffs.offers().remove(&self.task);
    }
}
