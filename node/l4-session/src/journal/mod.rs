//! The journals of turns that have not ended, on disk: what an agent hears is a row here before the agent hears it. Beside them
//! are the notes of their sessions.
//!
//! Rows are written with [`Durability::Buffered`] where the call may be made again: they survive the process. The intent of a
//! call that must not be made twice, or that is made by a key, is on disk for good before it is made. The batch that ends a
//! task deletes its rows.

mod notes;
mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use althing_execution::journal::JournalError;
use althing_protocol::cbor;
use althing_store::{Batch, Durability, Family, Range, ReadError, Store};

use crate::machine::session::{Begin, Damage, Head, ROWS_MAX, SessionId, TURN_BYTES_MAX, TurnId, TurnRows, Usage};

pub(crate) use notes::NoteStore;
pub(crate) use turn::TurnJournal;

/// The turns that have a journal.
pub const SESSION_HEADS: Family = Family("session.heads");
/// The rows of their journals.
pub const SESSION_ROWS: Family = Family("session.rows");

const HEAD_BYTES_MAX: usize = 1 << 10;
/// Heads, and keys of rows, that are read at once.
const PAGE: usize = 1_024;

/// The journals of a node.
pub(crate) struct Journals {
    store: Arc<dyn Store>,
    usage: Mutex<Usage>,
    /// Turns of this process that have a journal: two of one session may have one number, though hardly ever.
    open: Mutex<BTreeSet<Vec<u8>>>,
    /// Unfinished tasks whose agent has not been added yet, by the agent's name.
    waiting: Mutex<BTreeMap<String, BTreeSet<String>>>,
    /// Those of them with which somebody tries to go on.
    attempts: Mutex<BTreeSet<String>>,
}

impl Journals {
    /// Those in a store.
    pub fn new(store: Arc<dyn Store>) -> Journals {
        let (usage, open) = (Mutex::default(), Mutex::default());
        Journals { store, usage, open, waiting: Mutex::default(), attempts: Mutex::default() }
    }

    /// Deletes the journals of tasks that are not `unfinished`: a task may have ended without them. A full disk does not keep
    /// the node from starting.
    pub async fn sweep(&self, unfinished: impl Fn(&str) -> bool) -> Result<(), ReadError> {
        let mut after: Option<Vec<u8>> = None;
        loop {
            let range = Range::all(PAGE);
            let range = after.take().map_or(range.clone(), |after| range.after(after));
            let heads = self.store.scan(SESSION_HEADS, range)?;
            // Those of notes are no journals.
            for (key, value) in heads.iter().filter(|(key, _)| SessionId::of_notes(key).is_none()) {
                match head(value) {
                    Some(head) if unfinished(&head.task) => {}
                    Some(_) => self.delete(key).await?,
                    None => tracing::error!("the head of a journal is damaged; its task will say so"),
                }
            }
            match heads.into_iter().next_back() {
                Some((key, _)) => after = Some(key),
                None => return Ok(()),
            }
        }
    }

    /// Deletes the rows of a turn, and then its head.
    async fn delete(&self, turn: &[u8]) -> Result<(), ReadError> {
        loop {
            let keys = self.store.keys(SESSION_ROWS, Range::prefix(turn, PAGE))?;
            let mut batch = Batch::new();
            for key in &keys {
                batch.delete(SESSION_ROWS, key.as_slice());
            }
            if keys.is_empty() {
                batch.delete(SESSION_HEADS, turn);
            }
            if let Err(error) = self.store.write(batch, Durability::Buffered).await {
                tracing::warn!(%error, "the journal of a task that ended cannot be deleted; it is deleted when the node starts");
                return Ok(());
            }
            if keys.is_empty() {
                return Ok(());
            }
        }
    }

    /// Reads the rows of a turn that began so.
    pub fn read(&self, turn: TurnId, begin: Begin) -> Result<TurnRows, Damage> {
        let unreadable = |error: ReadError| {
            tracing::error!(task = begin.task, %error, "the journal of a turn cannot be read");
            Damage { step: 0, what: "the disk does not give its rows; the log of the node says why".to_owned() }
        };
        let prefix = turn.prefix();
        let range = Range::prefix(prefix.clone(), ROWS_MAX as usize + 1);
        let most = usize::try_from(TURN_BYTES_MAX).unwrap_or(usize::MAX);
        let rows = self.store.scan(SESSION_ROWS, range.within(most)).map_err(unreadable)?;
        let has_head = self.store.read(SESSION_HEADS, &prefix).map_err(unreadable)?.is_some();
        let Some((last, _)) = rows.last() else {
            return match has_head {
                true => Err(Damage { step: 0, what: "it has no rows".to_owned() }),
                false => Ok(TurnRows::new(turn, begin)),
            };
        };
        let more = Range::prefix(prefix, 1).after(last.clone());
        if !self.store.keys(SESSION_ROWS, more).map_err(unreadable)?.is_empty() {
            return Err(Damage { step: 0, what: "it has more rows than a turn has".to_owned() });
        }
        let number = |key: &[u8]| key.last_chunk().map_or(u32::MAX, |seq| u32::from_be_bytes(*seq));
        let rows: Vec<(u32, Vec<u8>)> = rows.into_iter().map(|(key, row)| (number(&key), row)).collect();
        TurnRows::read(turn, begin, &rows)
    }

    /// Notes an unfinished task of an agent that has not been added yet.
    pub fn await_agent(&self, agent: String, task: String) {
        self.waiting().entry(agent).or_default().insert(task);
    }

    /// The unfinished tasks of an agent; empty when there are none any more.
    pub fn unfinished(&self, agent: &str) -> BTreeSet<String> {
        self.waiting().get(agent).cloned().unwrap_or_default()
    }

    /// The unfinished tasks of all agents, with the names of those.
    pub fn all_unfinished(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for (agent, tasks) in self.waiting().iter() {
            all.extend(tasks.iter().map(|task| (agent.clone(), task.clone())));
        }
        all
    }

    /// Begins to go on with an unfinished task of an agent; none if somebody else does, or did. It waits until [`Attempt::made`].
    pub fn attempt(self: &Arc<Self>, agent: &str, task: &str) -> Option<Attempt> {
        let waiting = self.waiting();
        let waits = waiting.get(agent).is_some_and(|tasks| tasks.contains(task));
        let is_free = waits && self.attempts().insert(task.to_owned());
        is_free.then(|| Attempt { journals: self.clone(), agent: agent.to_owned(), task: task.to_owned() })
    }

    fn attempts(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.attempts.lock().expect("no holder of the attempts panics")
    }

    /// The unfinished tasks whose agents have not been added yet, by the agent's name.
    pub fn waiting(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<String>>> {
        self.waiting.lock().expect("no holder of the tasks panics")
    }

    /// Counts bytes of a session that are to be written.
    fn reserve(&self, session: SessionId, bytes: u64) -> Result<(), JournalError> {
        self.usage().add(session, bytes).map_err(|most| JournalError::Full { most })
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().expect("no holder of the usage panics")
    }

    fn open(&self) -> MutexGuard<'_, BTreeSet<Vec<u8>>> {
        self.open.lock().expect("no holder of the turns panics")
    }
}

/// An attempt to go on with an unfinished task, which nobody else makes meanwhile. Once it is dropped, others may.
pub(crate) struct Attempt {
    journals: Arc<Journals>,
    agent: String,
    task: String,
}

impl Attempt {
    /// The task waits no more: it goes on, or has ended.
    pub fn made(self) {
        let mut waiting = self.journals.waiting();
        if let Some(tasks) = waiting.get_mut(&self.agent) {
            tasks.remove(&self.task);
            if tasks.is_empty() {
                waiting.remove(&self.agent);
            }
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.journals.attempts().remove(&self.task);
    }
}

fn head(bytes: &[u8]) -> Option<Head> {
    cbor::check(bytes, HEAD_BYTES_MAX).ok()?;
    minicbor::decode(bytes).ok()
}
