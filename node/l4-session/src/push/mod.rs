//! Push notifications (A2A 1.0.1 §4.3): who is told about which task, and what they have not been told yet. Both are on disk,
//! so that each event is delivered at least once, whatever happens to this node meanwhile.
//!
//! An event is a row per configuration until its receiver took it, or until it is too old. Large events, and those of a
//! receiver that is too slow, become one row that stands for the task as it is when it is sent.

mod book;
mod check;
mod courier;
mod port;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use a2a::{StreamResponse, Task, TaskPushNotificationConfig};
use althing_call::OperationError;
use althing_protocol::Label;
use althing_store::{Batch, Durability, Family, Range, ReadError, Store, WriteError};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::machine::record::Scope;
use book::{Book, Entry, Full, PER_TASK_MAX, Planned};

pub use port::{Notification, PostError, Postman};

/// Who is told about tasks: by task id and the configuration's id.
pub const PUSH_CONFIGS: Family = Family("calls.push-configs");
/// What they have not been told yet, in the order in which it happened.
pub const PUSH_OUTBOX: Family = Family("calls.push-outbox");

/// Bytes of an event that is kept as it is. A task's last write holds one for each of its configurations.
const EVENT_BYTES_MAX: usize = 8 << 10;
/// Notifications that are sent at once.
const SENT_AT_ONCE: usize = 32;
/// Rows that are read at once.
const PAGE: usize = 256;

/// Why a configuration is not kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeepError {
    /// There are too many.
    #[error(transparent)]
    Full(#[from] Full),
    /// The disk does not take it.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// A configuration as it is stored.
#[derive(Serialize, Deserialize)]
struct ConfigRow {
    scope: Scope,
    config: TaskPushNotificationConfig,
}

/// A notification as it is stored.
#[derive(Serialize, Deserialize)]
struct NoteRow {
    task: String,
    config: String,
    made_ms: u64,
    /// The event's JSON; none: the task as it is when this is sent.
    event: Option<String>,
    /// Whether the task is over with it.
    over: bool,
}

/// Events that are to be written with their task.
#[derive(Default)]
pub(crate) struct Notes {
    /// Their rows.
    pub rows: Batch,
    planned: Vec<Planned>,
    task: String,
}

/// Shows the task of an id as it is now, with the label of all that is in it.
type Look = Box<dyn Fn(&str) -> Option<(Task, Option<Label>)> + Send + Sync>;

/// What notifications need of the node.
struct Delivery {
    postman: Arc<dyn Postman>,
    now_ms: Box<dyn Fn() -> u64 + Send + Sync>,
    look: Look,
}

struct Shared {
    store: Arc<dyn Store>,
    book: Mutex<Book>,
    delivery: OnceLock<Delivery>,
    slots: Semaphore,
    stop: CancellationToken,
}

/// The push notifications of the tasks of this node.
pub(crate) struct Push {
    shared: Arc<Shared>,
    _stop: DropGuard,
}

impl Push {
    /// Reads the configurations of the tasks that `known` knows, with whether they are over; deletes those of others. `own`
    /// is this node's owner.
    pub async fn open(
        store: Arc<dyn Store>,
        own: Scope,
        known: impl Fn(&str) -> Option<bool>,
    ) -> Result<Push, ReadError> {
        let (mut book, mut surplus) = (Book::new(own), Batch::new());
        each(store.as_ref(), PUSH_CONFIGS, |key, row: ConfigRow| match known(&row.config.task_id) {
            Some(over) => book.load(row.scope, row.config, over),
            None => {
                surplus.delete(PUSH_CONFIGS, key);
            }
        })?;
        each(store.as_ref(), PUSH_OUTBOX, |key, row: NoteRow| {
            let seq = key.try_into().map_or(0, u64::from_be_bytes);
            let size = row.event.as_ref().map(String::len);
            if !book.load_note(&row.task, &row.config, Entry { seq, made_ms: row.made_ms, size, over: row.over }) {
                surplus.delete(PUSH_OUTBOX, key);
            }
        })?;
        if !surplus.is_empty() {
            // They are found again when the node starts; a full disk does not keep it from starting.
            if let Err(error) = store.write(surplus, Durability::Buffered).await {
                tracing::warn!(%error, "push notifications of tasks that are gone cannot be deleted");
            }
        }
        let stop = CancellationToken::new();
        let shared = Shared {
            store,
            book: Mutex::new(book),
            delivery: OnceLock::new(),
            slots: Semaphore::new(SENT_AT_ONCE),
            stop: stop.clone(),
        };
        Ok(Push { shared: Arc::new(shared), _stop: stop.drop_guard() })
    }

    /// Begins to deliver, with what was left when the node ended.
    pub fn serve(
        &self,
        postman: Arc<dyn Postman>,
        now_ms: impl Fn() -> u64 + Send + Sync + 'static,
        look: impl Fn(&str) -> Option<(Task, Option<Label>)> + Send + Sync + 'static,
    ) {
        let delivery = Delivery { postman, now_ms: Box::new(now_ms), look: Box::new(look) };
        if self.shared.delivery.set(delivery).is_ok() {
            let waiting = self.book().waiting();
            waiting.into_iter().for_each(|(task, config)| courier::start(&self.shared, task, config));
        }
    }

    /// Whether notifications are delivered.
    pub fn is_served(&self) -> bool {
        self.shared.delivery.get().is_some()
    }

    /// Checks what a client asks for; `task` is the task that it is for.
    ///
    /// # Errors
    /// `PushNotSupported`, or `InvalidParams` with the member that breaks a rule.
    pub async fn checked(
        &self,
        mut config: TaskPushNotificationConfig,
        task: &str,
    ) -> Result<TaskPushNotificationConfig, OperationError> {
        let delivery = self.shared.delivery.get().ok_or_else(OperationError::push_not_supported)?;
        config.tenant = None;
        check::members(&mut config, task)?;
        match delivery.postman.permits(&config.url).await {
            Ok(()) => Ok(config),
            Err(PostError::Unfit(why)) => {
                Err(OperationError::invalid_params(format!("no notification is sent to `url`: {why}")))
            }
            Err(error) => {
                tracing::info!(task, %error, "a push notification's address is refused");
                Err(OperationError::invalid_params(check::REFUSED_ADDRESS))
            }
        }
    }

    /// Keeps a configuration that was checked. It is on disk with the next write that is synced, or before this returns.
    pub async fn set(
        &self,
        scope: Scope,
        config: TaskPushNotificationConfig,
        durability: Durability,
    ) -> Result<(), KeepError> {
        let mut batch = Batch::new();
        let row = ConfigRow { scope, config: config.clone() };
        batch.put(PUSH_CONFIGS, key(&config.task_id, config.id.as_deref().unwrap_or_default()), encoded(&row));
        let pushed_out = self.book().set(scope, config)?;
        for (task, config) in pushed_out {
            batch.delete(PUSH_CONFIGS, key(&task, &config));
        }
        Ok(self.shared.store.write(batch, durability).await?)
    }

    /// The configurations of a task, by their ids.
    pub fn of_task(&self, task: &str) -> Vec<Arc<TaskPushNotificationConfig>> {
        self.book().of_task(task)
    }

    /// The rows of a task's configurations, as they are on disk.
    pub fn rows(&self, task: &str) -> Result<Vec<Vec<u8>>, ReadError> {
        let rows = self.shared.store.scan(PUSH_CONFIGS, Range::prefix(key(task, ""), PER_TASK_MAX))?;
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }

    /// The configuration in such a row of another node, checked as if a client asked for it here.
    ///
    /// # Errors
    /// Those of [`Push::checked`], and if the row is none.
    pub async fn arriving(&self, row: &[u8], task: &str) -> Result<TaskPushNotificationConfig, OperationError> {
        let row: ConfigRow = ciborium::from_reader(row)
            .map_err(|_| OperationError::invalid_params("a row is no push notification configuration"))?;
        self.checked(row.config, task).await
    }

    /// Deletes a configuration, and what was to be sent to it. One that is not there is deleted already.
    pub async fn remove(&self, task: &str, config: &str) -> Result<(), KeepError> {
        Ok(self.shared.remove(task, config).await?)
    }

    /// Deletes all configurations of tasks that are gone.
    pub async fn forget(&self, tasks: impl IntoIterator<Item = impl AsRef<str>>) {
        let mut batch = Batch::new();
        for task in tasks {
            let task = task.as_ref();
            let (configs, seqs) = self.book().forget(task);
            for config in &configs {
                batch.delete(PUSH_CONFIGS, key(task, config));
            }
            delete_notes(&mut batch, &seqs);
        }
        if !batch.is_empty() {
            // What stays on disk is deleted when the node starts again.
            if let Err(error) = self.shared.store.write(batch, Durability::Buffered).await {
                tracing::warn!(%error, "push notifications of tasks that are gone cannot be deleted");
            }
        }
    }

    /// What is to be written for an event of a task; nothing if nobody is told.
    pub fn plan(&self, task: &str, event: Option<&StreamResponse>, now_ms: u64) -> Notes {
        if !self.book().has(task) {
            return Notes::default();
        }
        let over = match event {
            Some(StreamResponse::StatusUpdate(update)) => update.status.state.is_terminal(),
            Some(StreamResponse::Task(task)) => task.status.state.is_terminal(),
            Some(_) => false,
            None => true,
        };
        let json = event.and_then(|event| serde_json::to_string(event).ok());
        let json = json.filter(|json| json.len() <= EVENT_BYTES_MAX);
        let planned = self.book().plan(task, json.as_ref().map(String::len), now_ms, over);
        let mut rows = Batch::new();
        for plan in &planned {
            delete_notes(&mut rows, &plan.replaced);
            let event = json.clone().filter(|_| plan.entry.size.is_some());
            let row = NoteRow { task: task.to_owned(), config: plan.config.clone(), made_ms: now_ms, event, over };
            rows.put(PUSH_OUTBOX, plan.entry.seq.to_be_bytes(), encoded(&row));
        }
        Notes { rows, planned, task: task.to_owned() }
    }

    /// Delivers events that are on disk.
    pub fn commit(&self, notes: Notes) {
        let Notes { planned, task, .. } = notes;
        for plan in planned {
            let config = plan.config.clone();
            if self.book().commit(&task, plan) {
                courier::start(&self.shared, task.clone(), config);
            }
        }
    }

    /// Keeps an event that is not written with its task, and delivers it.
    pub async fn note(&self, task: &str, event: Option<&StreamResponse>, now_ms: u64) {
        let mut notes = self.plan(task, event, now_ms);
        if notes.planned.is_empty() {
            return;
        }
        let rows = std::mem::take(&mut notes.rows);
        match self.shared.store.write(rows, Durability::Buffered).await {
            Ok(()) => self.commit(notes),
            Err(error) => tracing::error!(task, %error, "a push notification cannot be kept; it is not sent"),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.shared.book()
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("no holder of the book panics")
    }

    async fn remove(&self, task: &str, config: &str) -> Result<(), WriteError> {
        let mut batch = Batch::new();
        let seqs = self.book().remove(task, config);
        batch.delete(PUSH_CONFIGS, key(task, config));
        delete_notes(&mut batch, &seqs);
        self.store.write(batch, Durability::Synced).await
    }
}

fn delete_notes(batch: &mut Batch, seqs: &[u64]) {
    for seq in seqs {
        batch.delete(PUSH_OUTBOX, seq.to_be_bytes());
    }
}

/// The key of a configuration. No task's id contains a zero: this node made it.
fn key(task: &str, config: &str) -> Vec<u8> {
    [task.as_bytes(), &[0], config.as_bytes()].concat()
}

fn encoded(row: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    ciborium::into_writer(row, &mut bytes).expect("a row has no value that CBOR lacks, and memory takes any");
    bytes
}

/// Reads a family, a page at a time; a damaged row is left out.
fn each<T: for<'de> Deserialize<'de>>(
    store: &dyn Store,
    family: Family,
    mut read: impl FnMut(&[u8], T),
) -> Result<(), ReadError> {
    let mut after: Option<Vec<u8>> = None;
    loop {
        let range = Range::all(PAGE);
        let rows = store.scan(family, after.take().map_or(range.clone(), |after| range.after(after)))?;
        for (key, value) in &rows {
            match ciborium::from_reader(&value[..]) {
                Ok(row) => read(key, row),
                Err(error) => tracing::error!(%family, %error, "a stored row is damaged and is left out"),
            }
        }
        match rows.into_iter().next_back() {
            Some((key, _)) => after = Some(key),
            None => return Ok(()),
        }
    }
}
