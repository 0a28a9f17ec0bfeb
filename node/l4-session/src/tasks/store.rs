//! The task store of the hosting node: every task on disk, and what is needed to list them in memory.
//!
//! A task has two rows: the record with its messages and artifacts, and a summary of some hundred bytes. Only summaries are
//! read when the node starts, so that no stored task, however large, can keep it from starting.

use std::sync::{Arc, Mutex, MutexGuard};

use a2a::{Message, Part, Role, StreamResponse, Task, TaskState};
use althing_protocol::Digest;
use althing_store::{Batch, Durability, Family, Range, ReadError, Store, WriteError};
use chrono::DateTime;

use crate::journal::{Journals, NoteStore, RowSeal, SESSION_ROWS};
use crate::machine::answers::{self, AnswerRow};
use crate::machine::listing::{Filter, Listing, NotedFailure, Page, Summary};
use crate::machine::losses::TurnLoss;
use crate::machine::record::{Record, Scope};
use crate::machine::session::context_of;
use crate::machine::task;
use crate::push::{Notes, Push};
use crate::tasks::answers::Answers;
use crate::tasks::handoffs::Handoffs;
use crate::tasks::refusals::{self, TaskRefusal};

/// Tasks of the agents that this node hosts, by task id.
pub const TASKS: Family = Family("calls.tasks");
/// The summary of each task, by task id.
pub const TASK_SUMMARIES: Family = Family("calls.task-summaries");

/// Summaries that are read at once when the node starts: about 1 MiB at most.
const PAGE: usize = 512;
/// Summaries that are written at once when the node starts; a batch holds this many of the longest.
const NOTED_AT_ONCE: usize = 512;
/// The key of the mark that every record has its summary. No task's id is a single zero.
const COMPLETE: &[u8] = &[0];

/// Why the task store failed.
#[derive(Debug, thiserror::Error)]
pub enum TaskStoreError {
    /// The store could not be read.
    #[error("tasks could not be read: {0}")]
    Read(#[from] ReadError),
    /// The store could not be written.
    #[error("the task could not be written: {0}")]
    Write(#[from] WriteError),
    /// A stored task is damaged.
    #[error("the stored task {id} cannot be read: {reason}")]
    Record {
        /// Its id.
        id: String,
        /// Why.
        reason: String,
    },
}

/// A task, encoded for the store.
pub(crate) struct Encoded {
    id: String,
    bytes: Vec<u8>,
    summary: Summary,
}

impl Encoded {
    pub fn of(record: &Record) -> Result<Encoded, TaskStoreError> {
        let mut bytes = Vec::new();
        ciborium::into_writer(record, &mut bytes)
            .map_err(|error| TaskStoreError::Record { id: record.task.id.clone(), reason: error.to_string() })?;
        Ok(Encoded { id: record.task.id.clone(), summary: Summary::of(record, bytes.len()), bytes })
    }

    /// The row of the record.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The same, of which it stays.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of the record.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}

pub(crate) struct TaskStore {
    store: Arc<dyn Store>,
    listing: Mutex<Listing>,
    push: Push,
    journals: Arc<Journals>,
    handoffs: Arc<Handoffs>,
    notes: NoteStore,
    answers: Answers,
}

impl TaskStore {
    /// Opens the store. Tasks that were not idle when the node ended wait until their agent is added, if their turns can begin
    /// again, and are set to failed else. `own` is this node's owner.
    pub async fn open(store: Arc<dyn Store>, own: Scope, now_ms: i64) -> Result<TaskStore, TaskStoreError> {
        let (mut listing, mut interrupted) = (Listing::new(own), Vec::new());
        let journals = Arc::new(Journals::new(store.clone()));
        let mut handoffs = Handoffs::open(store.clone())?;
        let mut add = |id: String, summary: Summary| {
            listing.note(&id, &summary);
            // The work of a task that was given away goes on elsewhere.
            let is_idle = task::is_idle(&summary.state) && !summary.is_parked();
            if is_idle || summary.departed || handoffs.is_given(&id) {
                return;
            }
            match summary.resumes {
                true => journals.await_agent(summary.agent, id),
                false => interrupted.push(id),
            }
        };
        if store.read(TASK_SUMMARIES, COMPLETE)?.is_some() {
            read_summaries(store.as_ref(), &mut add)?;
        } else {
            make_summaries(store.as_ref(), &mut add).await?;
        }
        let over = |id: &str| listing.summary(id).map(|summary| summary.state.is_terminal() || summary.departed);
        let push = Push::open(store.clone(), own, over).await?;
        handoffs.recall(|task| listing.summary(task).is_some())?;
        let goes_on = |id: &str| listing.summary(id).is_some_and(|summary| summary.goes_on());
        let is_unfinished = |id: &str| !handoffs.is_given(id) && goes_on(id);
        let time_ms = u64::try_from(now_ms).unwrap_or(0);
        journals.sweep(is_unfinished, |id| listing.summary(id).is_some(), time_ms).await?;
        let handoffs = Arc::new(handoffs);
        let notes = NoteStore::open(store.clone(), time_ms).await?;
        let answers = Answers::open(store.clone(), own)?;
        let tasks = TaskStore { store, listing: Mutex::new(listing), push, journals, handoffs, notes, answers };
        for ids in interrupted.chunks(NOTED_AT_ONCE) {
            tasks.note_failures(ids, NotedFailure::NodeEnded, now_ms).await;
            for id in ids {
                tasks.push.note(id, None, time_ms).await;
            }
        }
        Ok(tasks)
    }

    pub fn read(&self, id: &str) -> Result<Option<Record>, TaskStoreError> {
        let Some(summary) = self.lock().summary(id) else { return Ok(None) };
        let Some(value) = self.store.read(TASKS, id.as_bytes())? else {
            // It may have been evicted between the two reads.
            return Ok(None);
        };
        let mut record = decode(id.as_bytes(), &value)?;
        if let Some(failure) = summary.failure {
            fail(&mut record.task, (failure, summary.doubts.as_deref()), summary.changed_ms);
        }
        Ok(Some(record))
    }

    /// Which change of a task was written last: what was read after that is as it is on disk for as long as this stays. A task that is
    /// being written has its next one only when it is on disk.
    pub fn change(&self, id: &str) -> Option<u64> {
        self.lock().change(id)
    }

    /// What is known of a task without reading it.
    pub fn summary(&self, id: &str) -> Option<Summary> {
        self.lock().summary(id)
    }

    /// Whether this is a task of that agent.
    pub fn is_of(&self, id: &str, agent: &str) -> bool {
        self.lock().summary(id).is_some_and(|summary| summary.agent == agent)
    }

    /// The task that a message of this id began.
    pub fn began_by(&self, agent: &str, scope: Scope, message_id: &str) -> Option<String> {
        self.lock().began_by(agent, scope, message_id).map(str::to_owned)
    }

    /// Whether a context of that agent and scope has a task.
    pub fn has_context(&self, agent: &str, scope: Scope, context: &str) -> bool {
        self.lock().has_context(agent, scope, context)
    }

    /// The journals of turns that have not ended.
    pub fn journals(&self) -> &Arc<Journals> {
        &self.journals
    }

    /// Work that goes from one agent to another.
    pub fn handoffs(&self) -> &Arc<Handoffs> {
        &self.handoffs
    }

    /// What is remembered of messages of which no task is kept.
    pub fn answers(&self) -> &Answers {
        &self.answers
    }

    /// The notes of sessions.
    pub fn notes(&self) -> &NoteStore {
        &self.notes
    }

    /// What gates refused of a task whose rows are stored so; an error says what is wrong with that.
    pub fn refusals(&self, id: &str, seal: &RowSeal) -> Result<Vec<TaskRefusal>, String> {
        refusals::read(self.store.as_ref(), id, seal)
    }

    /// Who is told about tasks.
    pub fn push(&self) -> &Push {
        &self.push
    }

    /// Writes a task; it survives a power cut once this completes.
    pub async fn write(&self, encoded: Encoded) -> Result<(), TaskStoreError> {
        self.write_telling(encoded, Notes::default()).await
    }

    /// The same, with whom is told about it: they are told if it is on disk, and only then.
    pub async fn write_telling(&self, encoded: Encoded, mut notes: Notes) -> Result<(), TaskStoreError> {
        let Encoded { id, bytes, summary } = encoded;
        let mut batch = Batch::large();
        batch.append(std::mem::take(&mut notes.rows));
        batch.put(TASKS, id.as_bytes(), bytes).put(TASK_SUMMARIES, id.as_bytes(), encode(&summary));
        let (old, evicted) = {
            let listing = self.lock();
            let old = listing.surplus(&id, &summary);
            let evicted: Vec<Summary> = old.iter().filter_map(|id| listing.summary(id)).collect();
            (old, evicted)
        };
        self.answers.write(answered(&evicted), u64::try_from(summary.changed_ms).unwrap_or(0)).await;
        old.iter().for_each(|id| delete(&mut batch, id));
        self.store.write(batch, Durability::Synced).await?;
        let ended = {
            // Only now: a task that is not on disk is not listed.
            let mut listing = self.lock();
            old.iter().for_each(|id| listing.forget(id));
            listing.note(&id, &summary);
            self.ended(&listing, &evicted)
        };
        self.notes.forget(&ended).await;
        self.journals.forget(&old).await;
        self.push.commit(notes);
        self.push.forget(&old).await;
        Ok(())
    }

    /// The contexts of evicted tasks that have notes, and no task any more.
    fn ended(&self, listing: &Listing, evicted: &[Summary]) -> Vec<Digest> {
        let context = |task: &Summary| context_of(&task.agent, &String::from(task.scope), &task.context_id);
        let noted = self.notes.among(evicted.iter().map(context));
        let mut ended: Vec<&Summary> = evicted.iter().filter(|task| noted.contains(&context(task))).collect();
        ended.retain(|task| !listing.has_context(&task.agent, task.scope, &task.context_id));
        ended.into_iter().map(context).collect()
    }

    /// Marks tasks as failed in their summaries, without writing the records: the disk may be full. If not even this can be
    /// written, it is remembered until the node ends; the next start does it again.
    pub async fn note_failures(&self, ids: &[String], failure: NotedFailure, now_ms: i64) {
        self.note_failed(ids, (failure, None), Batch::new(), now_ms).await;
    }

    /// The same of a task of whose calls in doubt that is told, with those rows. Gives whether it is on disk.
    pub async fn note_unwritten(
        &self,
        id: &str,
        (failure, doubts): (NotedFailure, Option<String>),
        rows: Batch,
        now_ms: i64,
    ) -> bool {
        self.note_failed(&[id.to_owned()], (failure, doubts), rows, now_ms).await
    }

    async fn note_failed(
        &self,
        ids: &[String],
        (failure, doubts): (NotedFailure, Option<String>),
        mut batch: Batch,
        now_ms: i64,
    ) -> bool {
        {
            let mut listing = self.lock();
            for id in ids {
                let Some(mut summary) = listing.summary(id) else { continue };
                (summary.state, summary.changed_ms, summary.failure) = (TaskState::Failed, now_ms, Some(failure));
                summary.doubts.clone_from(&doubts);
                batch.put(TASK_SUMMARIES, id.as_bytes(), encode(&summary));
                listing.note(id, &summary);
                if failure.is_loss() {
                    let (task, why) = (id.clone(), failure.message().to_owned());
                    let loss = TurnLoss { agent: summary.agent, task, why, restart_until_ms: None };
                    self.journals.losses().add(u64::try_from(now_ms).unwrap_or(0), loss);
                }
            }
        }
        let written = self.store.write(batch, Durability::Synced).await;
        let again = "the failure of tasks cannot be written; it is noted again when the node starts";
        written.inspect_err(|error| tracing::error!(tasks = ids.len(), %error, "{again}")).is_ok()
    }

    /// Notes since when a task waits for its agent, Unix milliseconds, or that it does not, without writing the record. What cannot
    /// be written is forgotten when the node ends. The caller holds the task's lock.
    pub async fn note_wait(&self, id: &str, since_ms: Option<u64>) {
        let mut batch = Batch::new();
        {
            let mut listing = self.lock();
            let Some(mut summary) = listing.summary(id) else { return };
            summary.waits_ms = since_ms;
            batch.put(TASK_SUMMARIES, id.as_bytes(), encode(&summary));
            listing.note(id, &summary);
        }
        if let Err(error) = self.store.write(batch, Durability::Synced).await {
            tracing::error!(task = id, %error, "since when a task waits for its agent cannot be written");
        }
    }

    /// Deletes a task, with what `batch` deletes; it stays deleted after a power cut once this completes.
    pub async fn forget(&self, id: &str, mut batch: Batch) -> Result<(), TaskStoreError> {
        delete(&mut batch, id);
        self.store.write(batch, Durability::Synced).await?;
        self.lock().forget(id);
        self.journals.forget(&[id]).await;
        self.push.forget([id]).await;
        Ok(())
    }

    pub fn page(&self, filter: &Filter<'_>, token: Option<&str>, size: usize) -> Option<Page> {
        self.lock().page(filter, token, size)
    }

    /// A task of a filter's context, if all tasks of it were handed over.
    pub fn departed(&self, filter: &Filter<'_>) -> Option<String> {
        self.lock().departed(filter).map(str::to_owned)
    }

    fn lock(&self) -> MutexGuard<'_, Listing> {
        self.listing.lock().expect("no holder of the listing panics")
    }
}

/// Deletes a task, with what gates refused of it.
fn delete(batch: &mut Batch, id: &str) {
    batch.delete(TASKS, id.as_bytes()).delete(TASK_SUMMARIES, id.as_bytes()).delete(SESSION_ROWS, refusals::key(id));
}

/// What is remembered of the messages that began these tasks, as far as their ids are keys.
fn answered(evicted: &[Summary]) -> Vec<(Digest, AnswerRow)> {
    let keyed = evicted.iter().filter(|task| answers::is_key(&task.message_id));
    let row = |task: &Summary| {
        let name = answers::name_of(&task.agent, &String::from(task.scope), &task.message_id);
        let row = AnswerRow::of_deleted(u64::try_from(task.changed_ms).unwrap_or(0));
        (name, row.paid_by(answers::payer_of_task(task.crowd.as_deref(), task.scope)))
    };
    keyed.map(row).collect()
}

/// Reads all summaries, a page at a time.
fn read_summaries(store: &dyn Store, add: &mut impl FnMut(String, Summary)) -> Result<(), TaskStoreError> {
    let mut after = COMPLETE.to_vec();
    loop {
        let rows = store.scan(TASK_SUMMARIES, Range::all(PAGE).after(after))?;
        for (key, value) in &rows {
            let id = String::from_utf8_lossy(key).into_owned();
            match ciborium::from_reader(&value[..]) {
                Ok(summary) => add(id, summary),
                Err(error) => {
                    tracing::error!(task = id, %error, "the summary of a task cannot be read; it is made again from the task");
                    if let Some(value) = store.read(TASKS, key)? {
                        summarise(key, &value, add);
                    }
                }
            }
        }
        match rows.into_iter().next_back() {
            Some((key, _)) => after = key,
            None => return Ok(()),
        }
    }
}

/// Makes the summaries of a store that has none.
async fn make_summaries(store: &dyn Store, add: &mut impl FnMut(String, Summary)) -> Result<(), TaskStoreError> {
    let mut after: Option<Vec<u8>> = None;
    let (mut batch, mut complete) = (Batch::new(), true);
    loop {
        // One record at a time: it may be as large as a batch.
        let range = Range::all(1);
        let range = after.take().map_or(range.clone(), |after| range.after(after));
        let Some((key, value)) = store.scan(TASKS, range)?.into_iter().next() else { break };
        summarise(&key, &value, &mut |id, summary| {
            batch.put(TASK_SUMMARIES, id.as_bytes(), encode(&summary));
            add(id, summary);
        });
        if batch.len() == NOTED_AT_ONCE {
            complete &= keep_summaries(store, std::mem::take(&mut batch)).await;
        }
        after = Some(key);
    }
    if complete {
        batch.put(TASK_SUMMARIES, COMPLETE, Vec::new());
        keep_summaries(store, batch).await;
    }
    Ok(())
}

/// Writes summaries. A full disk does not keep the node from starting.
async fn keep_summaries(store: &dyn Store, batch: Batch) -> bool {
    let written = store.write(batch, Durability::Synced).await;
    let again = "summaries of tasks cannot be written; they are made again when the node starts";
    written.inspect_err(|error| tracing::error!(%error, "{again}")).is_ok()
}

/// The summary of a record; a damaged record stays on disk and is not listed.
fn summarise(key: &[u8], value: &[u8], add: &mut impl FnMut(String, Summary)) {
    match decode(key, value) {
        Ok(record) => add(String::from_utf8_lossy(key).into_owned(), Summary::of(&record, value.len())),
        Err(error) => tracing::error!(%error, bytes = value.len(), "a stored task is damaged and is not listed"),
    }
}

/// Sets a task to failed whose record does not say so, and of whose calls that is told which are in doubt; gives the event.
pub(crate) fn fail(task: &mut Task, (failure, doubts): (NotedFailure, Option<&str>), at_ms: i64) -> StreamResponse {
    let texts = [Some(failure.message()), doubts];
    let said = texts.into_iter().flatten().collect::<Vec<_>>().join(". ");
    let mut message = Message::new(Role::Agent, vec![Part::text(said)]);
    // The same each time that it is read.
    message.message_id = format!("{}-failed", task.id);
    let at = DateTime::from_timestamp_millis(at_ms).unwrap_or(DateTime::UNIX_EPOCH);
    task::set_status(task, TaskState::Failed, Some(message), at)
}

fn encode(summary: &Summary) -> Vec<u8> {
    let mut bytes = Vec::new();
    ciborium::into_writer(summary, &mut bytes).expect("a summary has no value that CBOR lacks, and memory takes any");
    bytes
}

fn decode(key: &[u8], value: &[u8]) -> Result<Record, TaskStoreError> {
    ciborium::from_reader(value).map_err(|error| TaskStoreError::Record {
        id: String::from_utf8_lossy(key).into_owned(),
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests;
