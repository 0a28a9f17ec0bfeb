//! All journals of a node: read, deleted, and counted; and the unfinished tasks that have them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use althing_protocol::cbor;
use althing_store::{Batch, Durability, LARGE_BATCH_BYTES_MAX, Range, ReadError, Rows, Store};

use super::row_seal::{SEALED_MORE, SealError};
use super::{HEAD_BYTES_MAX, PAGE, RowSeal, SESSION_HEADS, SESSION_ROWS};
use crate::machine::losses::Losses;
use crate::machine::session::{
    Begin, Damage, Head, HeadEnd, ROWS_MAX, RecordedTurn, RowSummary, SessionId, TURN_BYTES_MAX, TurnId, TurnRows,
    TurnTape, TurnTapes, Usage, beginning, recorded, summaries,
};

const UNREADABLE: &str = "the disk does not give its rows; the log of the node says why";

/// Bytes of a turn's rows that are read at most: as many as it may have, sealed.
const SCAN_BYTES_MAX: usize = TURN_BYTES_MAX as usize + ROWS_MAX as usize * SEALED_MORE;

/// Rows of a turn as they were written, with the number in the key of each.
type NumberedRows = Vec<(u32, Vec<u8>)>;

/// The journals of a node.
pub(crate) struct Journals {
    store: Arc<dyn Store>,
    usage: Mutex<Usage>,
    /// Turns of this process that have a journal: two of one session may have one number, though hardly ever.
    open: Mutex<BTreeSet<Vec<u8>>>,
    /// The journals of turns that are over and that stay with their tasks.
    tapes: Mutex<TurnTapes>,
    /// Unfinished tasks whose agent has not been added yet, by the agent's name.
    waiting: Mutex<BTreeMap<String, BTreeSet<String>>>,
    /// Those of them with which somebody tries to go on.
    attempts: Mutex<BTreeSet<String>>,
    /// Turns that did not go on.
    losses: Mutex<Losses>,
}

impl Journals {
    /// Those in a store.
    pub fn new(store: Arc<dyn Store>) -> Journals {
        let (usage, open, tapes, waiting) = Default::default();
        Journals { store, usage, open, tapes, waiting, attempts: Mutex::default(), losses: Mutex::default() }
    }

    /// Deletes the journals of tasks that are not `unfinished`: a task may have ended without them. Those of turns that are over
    /// stay, as far as their tasks are `there` and their time is not over. A full disk does not keep the node from starting.
    pub async fn sweep(
        &self,
        unfinished: impl Fn(&str) -> bool,
        there: impl Fn(&str) -> bool,
        now_ms: u64,
    ) -> Result<(), ReadError> {
        let is_over = |end: &HeadEnd| end.gone_ms.is_some_and(|gone| gone <= now_ms);
        let mut after: Option<Vec<u8>> = None;
        loop {
            let range = Range::all(PAGE);
            let range = after.take().map_or(range.clone(), |after| range.after(after));
            let heads = self.store.scan(SESSION_HEADS, range)?;
            // Those of notes are no journals.
            for (key, value) in heads.iter().filter(|(key, _)| SessionId::of_notes(key).is_none()) {
                match head(value) {
                    Some(Head { task, end: Some(end) }) if there(&task) && !is_over(&end) => {
                        self.keep(key.clone(), tape(task, end)).await?;
                    }
                    Some(Head { task, end: None }) if unfinished(&task) => {}
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

    /// Notes that the journal of a task's turn stays so. What should make room for it and cannot be read is deleted when the node
    /// starts.
    pub async fn stay(&self, turn: Vec<u8>, task: String, end: HeadEnd) {
        if let Err(error) = self.keep(turn, tape(task, end)).await {
            tracing::warn!(%error, "older journals of turns that are over cannot be deleted: they cannot be read");
        }
    }

    /// Notes that the journal of a turn that is over stays, and deletes those that make room for it.
    async fn keep(&self, turn: Vec<u8>, tape: TurnTape) -> Result<(), ReadError> {
        let gone = self.tapes().add(turn, tape);
        for turn in gone {
            self.delete(&turn).await?;
        }
        Ok(())
    }

    /// Deletes the journals of turns that are over, of tasks that are deleted. What cannot be deleted is deleted when the node
    /// starts.
    pub async fn forget(&self, tasks: &[impl AsRef<str> + Sync]) {
        for task in tasks {
            let task = task.as_ref();
            self.losses().forget(task);
            let turns = self.tapes().take(task);
            for turn in turns {
                if let Err(error) = self.delete(&turn).await {
                    tracing::warn!(task, %error, "the journal of a task that is deleted cannot be read");
                }
            }
        }
    }

    /// The journals of a task's turns that are over, the oldest first: what the keys of their rows begin with, and when each ended.
    pub fn recorded(&self, task: &str) -> Vec<(Vec<u8>, u64)> {
        self.tapes().of(task).into_iter().map(|(turn, tape)| (turn, tape.ended_ms)).collect()
    }

    /// What the keys of their rows begin with, without those that stay only because their turns stopped.
    pub fn taped(&self, task: &str) -> Vec<Vec<u8>> {
        let turns = self.tapes().of(task).into_iter().filter(|(_, tape)| tape.gone_ms.is_none());
        turns.map(|(turn, _)| turn).collect()
    }

    /// What the keys of the rows of a task's turn begin with that stopped and may go on anew now.
    pub fn restartable(&self, task: &str, now_ms: u64) -> Option<Vec<u8>> {
        self.tapes().restartable(task, now_ms)
    }

    /// The tasks with a turn that stopped and may go on anew now, and until when, Unix milliseconds; the one that ended last first.
    pub fn all_restartable(&self, now_ms: u64) -> Vec<(String, u64)> {
        self.tapes().all_restartable(now_ms)
    }

    /// Turns that did not go on after their node had ended.
    pub fn losses(&self) -> MutexGuard<'_, Losses> {
        self.losses.lock().expect("no holder of the losses panics")
    }

    /// Whether there is one that goes though its task stays.
    pub fn has_expiring(&self) -> bool {
        self.tapes().has_expiring()
    }

    /// Deletes the journals of turns that stopped, whose time is over. What cannot be deleted is deleted when the node starts.
    pub async fn expire(&self, now_ms: u64) {
        let turns = self.tapes().take_expired(now_ms);
        for turn in turns {
            if let Err(error) = self.delete(&turn).await {
                tracing::warn!(%error, "the journal of a turn that stopped cannot be read");
            }
        }
    }

    /// With what the turn began whose rows have these keys.
    pub fn begin(&self, turn: &[u8], seal: &RowSeal) -> Result<Begin, Damage> {
        let wrong = |what: &str| Damage { step: 0, what: what.to_owned() };
        let rows = self.store.scan(SESSION_ROWS, Range::prefix(turn, 1)).map_err(|error| {
            tracing::error!(%error, "the journal of a turn cannot be read");
            wrong(UNREADABLE)
        })?;
        let rows = opened(rows, seal)?;
        let (_, first) = rows.first().ok_or_else(|| wrong("it has no rows"))?;
        Begin::of_row(first).ok_or_else(|| wrong("its first row is not the beginning of a turn"))
    }

    /// Adds to a batch that the turn of these rows is not over any more, and the rows that were added to it.
    pub fn reopen(rows: &TurnRows, seal: &RowSeal, batch: &mut Batch) {
        let head = Head { task: rows.begin().task.clone(), end: None };
        let head = minicbor::to_vec(&head).expect("writing to a vector cannot fail");
        batch.put(SESSION_HEADS, rows.turn().prefix(), head);
        for (key, row) in rows.pending() {
            let stored = seal.close(&key, row);
            batch.put(SESSION_ROWS, key, stored);
        }
    }

    /// The journal of a turn that stopped is that of one that goes on, or will: nothing deletes its rows.
    pub fn release(&self, turn: &[u8]) {
        self.tapes().release(turn);
    }

    /// Adds the deletion of a turn's rows, as far as they can be found, and of its head to the batch that ends its task. What is left
    /// is deleted when the node starts.
    pub fn add_deletion(&self, turn: &[u8], batch: &mut Batch) {
        match self.store.keys(SESSION_ROWS, Range::prefix(turn, ROWS_MAX as usize)) {
            Ok(keys) => {
                if keys.len() < ROWS_MAX as usize {
                    batch.delete(SESSION_HEADS, turn);
                }
                for key in keys {
                    batch.delete(SESSION_ROWS, key);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the journal of a task that ends cannot be read; it is deleted when the node starts");
            }
        }
    }

    /// Deletes the rows of a turn, and then its head.
    pub async fn delete(&self, turn: &[u8]) -> Result<(), ReadError> {
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

    /// Reads the rows of a turn that began so, and that are stored so.
    pub fn read(&self, turn: TurnId, begin: Begin, seal: &RowSeal) -> Result<TurnRows, Damage> {
        let unreadable = |error: ReadError| {
            tracing::error!(task = begin.task, %error, "the journal of a turn cannot be read");
            Damage { step: 0, what: UNREADABLE.to_owned() }
        };
        let prefix = turn.prefix();
        let rows = self.scan(&prefix).map_err(unreadable)?;
        let Some((last, _)) = rows.last() else {
            return match self.store.read(SESSION_HEADS, &prefix).map_err(unreadable)? {
                Some(_) => Err(Damage { step: 0, what: "it has no rows".to_owned() }),
                None => Ok(TurnRows::new(turn, begin)),
            };
        };
        if may_have_more(&rows) {
            let more = Range::prefix(prefix, 1).after(last.clone());
            if !self.store.keys(SESSION_ROWS, more).map_err(unreadable)?.is_empty() {
                return Err(Damage { step: 0, what: "it has more rows than a turn has".to_owned() });
            }
        }
        TurnRows::read(turn, begin, &opened(rows, seal)?)
    }

    /// What the rows with these keys say of a turn, without their content; and the id of the message that began it. None where
    /// there are no rows.
    pub fn summaries(&self, turn: &[u8], seal: &RowSeal) -> Result<Option<(String, Vec<RowSummary>)>, Damage> {
        let rows = self.rows(turn, seal)?;
        rows.map(|(session, rows)| summaries(session, &rows)).transpose()
    }

    /// The turn that the rows with these keys tell again, with their content and with what it began with. None where there are
    /// no rows.
    pub fn tape(&self, turn: &[u8], seal: &RowSeal) -> Result<Option<(Begin, RecordedTurn)>, Damage> {
        let rows = self.rows(turn, seal)?;
        rows.map(|(session, rows)| Ok((beginning(&rows)?, recorded(session, &rows)?))).transpose()
    }

    /// The rows with these keys as they were written, with their numbers, and their session. None where there are no rows.
    fn rows(&self, turn: &[u8], seal: &RowSeal) -> Result<Option<(SessionId, NumberedRows)>, Damage> {
        let unreadable = |error: ReadError| {
            tracing::error!(%error, "the journal of a turn cannot be read");
            Damage { step: 0, what: UNREADABLE.to_owned() }
        };
        let Some(session) = turn.first_chunk().copied().map(SessionId) else { return Ok(None) };
        let rows = self.scan(turn).map_err(unreadable)?;
        if rows.is_empty() {
            return Ok(None);
        }
        Ok(Some((session, opened(rows, seal)?)))
    }

    /// The rows with these keys, and one more than a turn has where there are more.
    fn scan(&self, turn: &[u8]) -> Result<Rows, ReadError> {
        self.store.scan(SESSION_ROWS, Range::prefix(turn, ROWS_MAX as usize + 1).within(SCAN_BYTES_MAX))
    }

    /// Notes an unfinished task of an agent that has not been added yet.
    pub fn await_agent(&self, agent: String, task: String) {
        self.waiting().entry(agent).or_default().insert(task);
    }

    /// A task is over that was unfinished, or goes on on another node.
    pub fn give_up(&self, agent: &str, task: &str) {
        let mut waiting = self.waiting();
        if let Some(tasks) = waiting.get_mut(agent) {
            tasks.remove(task);
            if tasks.is_empty() {
                waiting.remove(agent);
            }
        }
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

    /// Where they are.
    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Bytes of them, by sessions and callers.
    pub(crate) fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().expect("no holder of the usage panics")
    }

    pub(super) fn tapes(&self) -> MutexGuard<'_, TurnTapes> {
        self.tapes.lock().expect("no holder of the tapes panics")
    }

    pub(super) fn open(&self) -> MutexGuard<'_, BTreeSet<Vec<u8>>> {
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
    /// The task's id.
    pub fn task(&self) -> &str {
        &self.task
    }

    /// The task waits no more: it goes on, or has ended.
    pub fn made(self) {
        self.journals.give_up(&self.agent, &self.task);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.journals.attempts().remove(&self.task);
    }
}

/// Whether a scan of a turn may have ended before its last row. One that took little did not end for want of room: no row is longer
/// than what a store takes at once.
fn may_have_more(rows: &Rows) -> bool {
    let bytes: usize = rows.iter().map(|(key, row)| key.len() + row.len()).sum();
    rows.len() > ROWS_MAX as usize || bytes.saturating_add(LARGE_BATCH_BYTES_MAX) > SCAN_BYTES_MAX
}

/// Rows as they were written, with the number in the key of each.
fn opened(rows: Rows, seal: &RowSeal) -> Result<NumberedRows, Damage> {
    let number = |key: &[u8]| key.last_chunk().map_or(u32::MAX, |seq| u32::from_be_bytes(*seq));
    let opened = |(key, row): (Vec<u8>, Vec<u8>)| {
        let (number, row) = (number(&key), seal.open(&key, row));
        let damaged = |error: SealError| Damage { step: 0, what: format!("row {number}: {error}") };
        row.map(|row| (number, row)).map_err(damaged)
    };
    rows.into_iter().map(opened).collect()
}

/// The journal of a turn of that task which ended so.
fn tape(task: String, end: HeadEnd) -> TurnTape {
    let HeadEnd { at_ms: ended_ms, bytes, restart_ms, gone_ms } = end;
    TurnTape { task, ended_ms, bytes, restart_ms, gone_ms }
}

fn head(bytes: &[u8]) -> Option<Head> {
    cbor::check(bytes, HEAD_BYTES_MAX).ok()?;
    minicbor::decode(bytes).ok()
}
