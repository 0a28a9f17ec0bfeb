//! The task store of the hosting node: every task on disk, and what is needed to list them in memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use a2a::{Task, TaskState};
use althing_protocol::PublicKey;
use althing_store::{Batch, Durability, Family, Range, ReadError, Store, WriteError};
use serde::{Deserialize, Serialize};

/// Tasks of the agents that this node hosts, by task id.
pub const TASKS: Family = Family("calls.tasks");

/// Tasks that are kept; beyond, the oldest go.
const KEPT_MAX: usize = 20_000;
/// Tasks of one owner.
const KEPT_OF_ONE_MAX: usize = 10_000;
/// Tasks that are read at once on start.
const PAGE: usize = 512;

/// Why the task store failed.
#[derive(Debug, thiserror::Error)]
pub enum TaskStoreError {
    /// The store could not be read.
    #[error("tasks could not be read: {0}")]
    Read(#[from] ReadError),
    /// The store could not be written.
    #[error("the task could not be kept: {0}")]
    Write(#[from] WriteError),
    /// A stored task is not one.
    #[error("the stored task {id} cannot be read: {reason}")]
    Record {
        /// Which.
        id: String,
        /// Why.
        reason: String,
    },
}

/// A task with what is not shown of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub task: Task,
    /// The agent's name.
    pub agent: String,
    /// Whose task it is: the caller's owner, or the calling node where that has none.
    pub scope: PublicKeyText,
    /// What the runtime asked to have kept.
    pub remembered: Option<String>,
}

/// A public key as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct PublicKeyText(pub PublicKey);

impl From<PublicKeyText> for String {
    fn from(key: PublicKeyText) -> String {
        key.0.did()
    }
}

impl TryFrom<String> for PublicKeyText {
    type Error = althing_protocol::IdentityError;
    fn try_from(did: String) -> Result<Self, Self::Error> {
        PublicKey::from_did(&did).map(PublicKeyText)
    }
}

/// What tasks are listed by.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Meta {
    agent: String,
    scope: PublicKeyText,
    context_id: String,
    state: TaskState,
    changed_ms: i64,
}

/// A task's place in a list, the newest first.
pub(crate) type Order = (Reverse<i64>, String);

pub(crate) fn order(changed_ms: i64, id: &str) -> Order {
    (Reverse(changed_ms), id.to_owned())
}

/// The page token that goes on behind this place (SPEC P-57).
pub(crate) fn page_token((changed_ms, id): &Order) -> String {
    format!("{}.{id}", changed_ms.0)
}

/// Whether a task is not over, when it changed last, and its id: the smallest is forgotten first.
type Age = (bool, i64, String);

fn age(meta: &Meta, id: &str) -> Age {
    (!meta.state.is_terminal(), meta.changed_ms, id.to_owned())
}

#[derive(Default)]
struct Listing {
    metas: BTreeMap<String, Meta>,
    /// Newest first, for each agent and owner.
    orders: BTreeMap<(String, PublicKeyText), BTreeSet<Order>>,
    /// What is forgotten first, for each owner.
    ages: BTreeMap<PublicKeyText, BTreeSet<Age>>,
}

/// One page of tasks.
pub(crate) struct Page {
    pub ids: Vec<String>,
    pub next: String,
    pub total: usize,
}

/// What a page is chosen by.
pub(crate) struct Filter<'a> {
    pub agent: &'a str,
    pub scope: PublicKey,
    pub context_id: Option<&'a str>,
    pub state: Option<&'a TaskState>,
    pub after_ms: Option<i64>,
}

/// The task store.
pub(crate) struct Tasks {
    store: Arc<dyn Store>,
    listing: Mutex<Listing>,
}

impl Tasks {
    /// Opens the store; also gives the tasks that were not at rest when the node ended.
    pub fn open(store: Arc<dyn Store>) -> Result<(Tasks, Vec<Record>), TaskStoreError> {
        let mut listing = Listing::default();
        let mut interrupted = Vec::new();
        let mut after: Option<Vec<u8>> = None;
        loop {
            let mut range = Range::all(PAGE);
            if let Some(after) = after.take() {
                range = range.after(after);
            }
            let rows = store.scan(TASKS, range)?;
            for (key, value) in &rows {
                let record = decode(key, value)?;
                listing.note(&record);
                if !crate::machine::task::rests(&record.task.status.state) {
                    interrupted.push(record);
                }
            }
            match rows.into_iter().next_back() {
                Some((key, _)) => after = Some(key),
                None => break,
            }
        }
        Ok((Tasks { store, listing: Mutex::new(listing) }, interrupted))
    }

    pub fn read(&self, id: &str) -> Result<Option<Record>, TaskStoreError> {
        let value = self.store.read(TASKS, id.as_bytes())?;
        value.map(|value| decode(id.as_bytes(), &value)).transpose()
    }

    /// Keeps a task; with `Synced` it survives a power cut once this completes.
    pub async fn write(&self, record: &Record, durability: Durability) -> Result<(), TaskStoreError> {
        let mut bytes = Vec::new();
        ciborium::into_writer(record, &mut bytes)
            .map_err(|error| TaskStoreError::Record { id: record.task.id.clone(), reason: error.to_string() })?;
        let mut batch = Batch::new();
        batch.put(TASKS, record.task.id.as_bytes(), bytes);
        let old = self.lock().surplus(record);
        for id in &old {
            batch.delete(TASKS, id.as_bytes());
        }
        self.store.write(batch, durability).await?;
        // Only now: what is not kept is not listed.
        let mut listing = self.lock();
        old.iter().for_each(|id| listing.drop_meta(id));
        listing.note(record);
        Ok(())
    }

    pub fn page(&self, filter: &Filter<'_>, token: Option<&str>, size: usize) -> Option<Page> {
        let listing = self.lock();
        let none = BTreeSet::new();
        let order = listing.orders.get(&(filter.agent.to_owned(), PublicKeyText(filter.scope))).unwrap_or(&none);
        let from = match token {
            None => None,
            Some(token) => Some(read_token(token)?),
        };
        let fits = |(_, id): &&Order| {
            listing.metas.get(id).is_some_and(|meta| {
                filter.context_id.is_none_or(|context| meta.context_id == context)
                    && filter.state.is_none_or(|state| meta.state == *state)
                    && filter.after_ms.is_none_or(|after| meta.changed_ms >= after)
            })
        };
        let total = order.iter().filter(fits).count();
        let mut rest = order.iter().filter(fits).filter(|order| from.as_ref().is_none_or(|from| *order > from));
        let page: Vec<&Order> = rest.by_ref().take(size).collect();
        let more = rest.next().is_some();
        let next = page.last().filter(|_| more).map_or_else(String::new, |place| page_token(place));
        Some(Page { ids: page.into_iter().map(|(_, id)| id.clone()).collect(), next, total })
    }

    fn lock(&self) -> MutexGuard<'_, Listing> {
        self.listing.lock().expect("no holder of the listing panics")
    }
}

pub(crate) fn read_token(token: &str) -> Option<Order> {
    let (at, id) = token.split_once('.')?;
    Some((Reverse(at.parse().ok()?), id.to_owned()))
}

fn decode(key: &[u8], value: &[u8]) -> Result<Record, TaskStoreError> {
    ciborium::from_reader(value).map_err(|error| TaskStoreError::Record {
        id: String::from_utf8_lossy(key).into_owned(),
        reason: error.to_string(),
    })
}

impl Listing {
    /// Notes a task as it is now.
    fn note(&mut self, record: &Record) {
        let task = &record.task;
        self.drop_meta(&task.id);
        let meta = Meta {
            agent: record.agent.clone(),
            scope: record.scope,
            context_id: task.context_id.clone(),
            state: task.status.state.clone(),
            changed_ms: task.status.timestamp.map_or(0, |at| at.timestamp_millis()),
        };
        let key = (meta.agent.clone(), meta.scope);
        self.orders.entry(key).or_default().insert((Reverse(meta.changed_ms), task.id.clone()));
        self.ages.entry(meta.scope).or_default().insert(age(&meta, &task.id));
        self.metas.insert(task.id.clone(), meta);
    }

    /// The tasks that are forgotten to make room for a new one: of its owner the oldest, those that are over first, so
    /// that nobody's tasks push out somebody else's; and of all, of the owner with the most.
    fn surplus(&self, record: &Record) -> Vec<String> {
        if self.metas.contains_key(&record.task.id) {
            return Vec::new();
        }
        let own = self.ages.get(&record.scope);
        if own.is_some_and(|own| own.len() >= KEPT_OF_ONE_MAX) {
            return own.and_then(|own| own.first()).map(|(_, _, id)| id.clone()).into_iter().collect();
        }
        if self.metas.len() >= KEPT_MAX {
            let most = self.ages.values().max_by_key(|tasks| tasks.len());
            return most.and_then(|tasks| tasks.first()).map(|(_, _, id)| id.clone()).into_iter().collect();
        }
        Vec::new()
    }

    fn drop_meta(&mut self, id: &str) {
        let Some(meta) = self.metas.remove(id) else { return };
        let of_owner = age(&meta, id);
        if let Some(ages) = self.ages.get_mut(&meta.scope) {
            ages.remove(&of_owner);
            if ages.is_empty() {
                self.ages.remove(&meta.scope);
            }
        }
        let key = (meta.agent, meta.scope);
        if let Some(order) = self.orders.get_mut(&key) {
            order.remove(&(Reverse(meta.changed_ms), id.to_owned()));
            if order.is_empty() {
                self.orders.remove(&key);
            }
        }
    }
}
