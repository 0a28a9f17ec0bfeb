//! The journal of one turn, as its agent writes it.

mod replay;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as StdMutex, MutexGuard};

use althing_communication::WallClock;
use althing_execution::journal::{Checkpoint, Intent, Journal, JournalError, NextStep, Replay, Step, StepOutcome};
use althing_store::{Batch, Durability, Store};
use futures::future::BoxFuture;
use tokio::sync::{Mutex, watch};

use super::{Journals, SESSION_HEADS, SESSION_ROWS};
use crate::machine::session::{Call, Choice, Doubt, Head, Next, Tape, TurnId, TurnRows};

/// What others see of a journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// How many rows it has.
    pub rows: u64,
    /// Their bytes, with their keys.
    pub bytes: u64,
    /// The calls of which nobody knows whether they took place.
    pub doubts: Vec<Doubt>,
}

/// The journal of one turn.
pub(crate) struct TurnJournal {
    journals: Arc<Journals>,
    clock: WallClock,
    turn: TurnId,
    /// Held while rows are written, so that they are written in their order.
    writing: Mutex<State>,
    ledger: watch::Sender<Ledger>,
    /// What randomness of the turn is made of.
    seed: [u8; 32],
    /// What clocks say to it.
    tape: StdMutex<Tape>,
    /// From where it goes on.
    checkpoint: Option<Checkpoint>,
    /// Whether its node is being stopped.
    is_paused: AtomicBool,
}

struct State {
    rows: TurnRows,
    /// Bytes that are counted as those of its session.
    counted: u64,
    /// Whether its number belongs to this turn.
    is_own: bool,
    /// Whether its task ended, or its node is being stopped: nothing is written any more.
    is_closed: bool,
}

impl TurnJournal {
    /// The journal of a turn with these rows, if any.
    pub fn new(journals: Arc<Journals>, clock: WallClock, mut rows: TurnRows) -> TurnJournal {
        let (turn, counted) = (*rows.turn(), rows.size().1);
        let is_own = journals.open().insert(turn.prefix());
        journals.usage().count(turn.session, counted);
        let ledger = watch::Sender::new(ledger(&rows));
        let (seed, checkpoint) = (rows.begin().seed, rows.take_checkpoint());
        let tape = StdMutex::new(Tape::of(rows.take_tape(), rows.next_step()));
        let writing = Mutex::new(State { rows, counted, is_own, is_closed: false });
        let is_paused = AtomicBool::new(false);
        TurnJournal { journals, clock, turn, writing, ledger, seed, tape, checkpoint, is_paused }
    }

    /// Its session, as people read it.
    pub fn session(&self) -> String {
        self.turn.session.text()
    }

    /// How it is now.
    pub fn ledger(&self) -> Ledger {
        self.ledger.borrow().clone()
    }

    /// Ends when no call is in doubt.
    pub async fn resolved(&self) {
        // The sender lives in `self`: waiting cannot fail.
        let _ = self.ledger.subscribe().wait_for(|ledger| ledger.doubts.is_empty()).await;
    }

    /// Writes what `by` says of a call in doubt; false if it is not in doubt. `outcome` is its result, of one that took place.
    ///
    /// # Errors
    /// [`JournalError`].
    pub async fn clear_doubt(
        &self,
        seq: u32,
        choice: Choice,
        outcome: Option<StepOutcome>,
        by: &str,
    ) -> Result<bool, JournalError> {
        let mut writing = self.writing.lock().await;
        // What cannot be written was not said: it is in doubt as before, and may be said again.
        let before = writing.rows.clone();
        let is_known =
            !writing.is_closed && writing.rows.clear_doubt(seq, choice, outcome, (by, self.clock.now_ms()))?;
        if is_known && let Err(error) = self.write(&mut writing, Durability::Synced).await {
            writing.rows = before;
            return Err(error);
        }
        Ok(is_known)
    }

    /// Says that its turn goes on when the node is up again, before what the turn waits for is dropped.
    pub fn pause(&self) {
        self.is_paused.store(true, Ordering::Release);
    }

    /// Writes nothing any more, and leaves its rows to whoever resumes the turn.
    pub async fn leave(&self) {
        self.writing.lock().await.is_closed = true;
    }

    /// Writes nothing any more; adds the deletion of all its rows to the batch that ends its task.
    pub async fn close(&self, batch: &mut Batch) {
        let mut writing = self.writing.lock().await;
        writing.is_closed = true;
        let (rows, _) = writing.rows.size();
        if rows == 0 || !writing.is_own {
            return;
        }
        batch.delete(SESSION_HEADS, self.turn.prefix());
        for key in writing.rows.keys() {
            batch.delete(SESSION_ROWS, key);
        }
    }

    fn tape(&self) -> MutexGuard<'_, Tape> {
        self.tape.lock().expect("no holder of the tape panics")
    }

    /// Adds what clocks said to the rows that are written next.
    fn note_readings(&self, writing: &mut State) {
        writing.rows.note_readings(self.tape().take());
    }

    /// Writes all rows that are not known to be written.
    async fn write(&self, writing: &mut State, durability: Durability) -> Result<(), JournalError> {
        self.write_with(writing, Batch::new(), durability).await
    }

    /// Writes them with those changes, and deletes the rows that were dropped.
    async fn write_with(
        &self,
        writing: &mut State,
        changes: Batch,
        durability: Durability,
    ) -> Result<(), JournalError> {
        if writing.is_closed || !writing.is_own {
            tracing::error!(task = writing.rows.begin().task, "a turn goes on that has no journal any more");
            return Err(JournalError::Write);
        }
        let (_, bytes) = writing.rows.size();
        let (more, fewer) = (bytes.saturating_sub(writing.counted), writing.counted.saturating_sub(bytes));
        self.journals.reserve(self.turn.session, more)?;
        writing.counted = bytes.max(writing.counted);
        let mut batch = Batch::large();
        batch.append(changes);
        if writing.rows.is_unwritten() {
            let head = Head { task: writing.rows.begin().task.clone() };
            let head = minicbor::to_vec(&head).expect("writing to a vector cannot fail");
            batch.put(SESSION_HEADS, self.turn.prefix(), head);
        }
        for (key, row) in writing.rows.pending() {
            batch.put(SESSION_ROWS, key, row);
        }
        for key in writing.rows.dropped() {
            batch.delete(SESSION_ROWS, key);
        }
        if let Err(error) = self.journals.store.write(batch, durability).await {
            tracing::error!(task = writing.rows.begin().task, %error, "a row of a journal cannot be written");
            return Err(JournalError::Write);
        }
        writing.rows.settle();
        writing.counted = bytes;
        self.journals.usage().remove(self.turn.session, fewer);
        self.ledger.send_replace(ledger(&writing.rows));
        Ok(())
    }

    async fn reach(&self, step: Step<'_>) -> Result<NextStep, JournalError> {
        let call = Call::of(step.kind, step.name, step.arguments, step.effect);
        let (seq, is_new) = {
            let mut writing = self.writing.lock().await;
            let next = writing.rows.reach(call)?;
            self.tape().reach(writing.rows.next_step());
            match next {
                Next::Replayed(outcome) => return Ok(NextStep::Replayed(outcome)),
                Next::Go(intent) => return Ok(NextStep::Go(intent)),
                Next::Intend(seq) => (seq, writing.rows.is_new(seq)),
            }
        };
        // No other step waits for that: it may be asked for in the mesh.
        let callee = match step.callee.filter(|_| is_new) {
            Some(callee) => callee.await,
            None => None,
        };
        let mut writing = self.writing.lock().await;
        self.note_readings(&mut writing);
        let intent = writing.rows.intend(seq, callee, self.clock.now_ms())?;
        self.write(&mut writing, Durability::Synced).await?;
        Ok(NextStep::Go(intent))
    }

    async fn finish(&self, intent: Intent, outcome: &StepOutcome) -> Result<(), JournalError> {
        let mut writing = self.writing.lock().await;
        self.note_readings(&mut writing);
        let is_final = writing.rows.finish(intent.seq, outcome, self.clock.now_ms())?;
        self.write(&mut writing, Durability::Buffered).await?;
        if is_final {
            tokio::spawn(sync(self.journals.store.clone()));
        }
        Ok(())
    }
}

impl Journal for TurnJournal {
    fn step<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, Result<NextStep, JournalError>> {
        Box::pin(self.reach(step))
    }

    fn done<'a>(&'a self, intent: Intent, outcome: &'a StepOutcome) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(self.finish(intent, outcome))
    }

    fn replay(&self) -> Option<&dyn Replay> {
        Some(self)
    }

    fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Acquire)
    }
}

impl Drop for TurnJournal {
    fn drop(&mut self) {
        let writing = self.writing.get_mut();
        self.journals.usage().remove(self.turn.session, writing.counted);
        if writing.is_own {
            self.journals.open().remove(&self.turn.prefix());
        }
    }
}

impl fmt::Debug for TurnJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnJournal").field("turn", &self.turn).finish_non_exhaustive()
    }
}

/// Has the disk keep what was written: after a power cut in between, a call that must not be made twice is in doubt, and
/// nothing waits for that.
async fn sync(store: Arc<dyn Store>) {
    if let Err(error) = store.write(Batch::new(), Durability::Synced).await {
        tracing::warn!(%error, "the result of a call is not on disk for good yet");
    }
}

fn ledger(rows: &TurnRows) -> Ledger {
    let (count, bytes) = rows.size();
    Ledger { rows: u64::from(count), bytes, doubts: rows.doubts() }
}

#[cfg(test)]
mod tests;
