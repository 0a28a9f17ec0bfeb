//! The journal of one turn, as its agent writes it.

mod preempted;
mod replay;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as StdMutex, MutexGuard};

use althing_communication::WallClock;
use althing_execution::journal::{Checkpoint, Intent, Journal, JournalError, NextStep, Replay, Step, StepOutcome};
use althing_execution::kernel::slots::Slots;
use althing_execution::tools::{Denied, GateVerdict, Permit};
use althing_store::{Batch, Durability, Store};
use futures::FutureExt as _;
use futures::future::{BoxFuture, try_join};
use tokio::sync::{Mutex, watch};

use super::final_calls::FinalCalls;
use super::{Journals, RowSeal, SESSION_HEADS, SESSION_ROWS, journals};
use crate::machine::preemption::Preemption;
use crate::machine::session::{Call, Choice, Doubt, Head, HeadEnd, Next, RESTART_MS_MAX, Tape, TurnId, TurnRows};

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
    /// How its rows are stored.
    seal: RowSeal,
    /// Held while rows are written, so that they are written in their order.
    writing: Mutex<State>,
    ledger: watch::Sender<Ledger>,
    /// Calls that were let go, must not be made twice, and have no result yet.
    final_calls: FinalCalls,
    /// What randomness of the turn is made of.
    seed: [u8; 32],
    /// What clocks say to it.
    tape: StdMutex<Tape>,
    /// From where it goes on.
    checkpoint: StdMutex<Option<Checkpoint>>,
    /// For whose turns it makes room, if it does.
    preempted_by: Option<Slots>,
    preemption: StdMutex<Preemption>,
    /// Whether its node is being stopped.
    is_paused: AtomicBool,
    /// Whether its rows stay when it is over.
    is_recorded: bool,
    /// Whether it may end where somebody is asked, and go on later.
    is_parkable: bool,
    /// Whether it stopped where its agent did something else, and may go on anew.
    is_restartable: AtomicBool,
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
    /// The journal of a turn with these rows, if any, which are stored so.
    pub fn new(journals: Arc<Journals>, clock: WallClock, mut rows: TurnRows, seal: RowSeal) -> TurnJournal {
        let (turn, counted) = (*rows.turn(), stored_bytes(&rows, &seal));
        // Rows of a turn that is over may have that number, too.
        let is_taken = journals.tapes().has(&turn.prefix());
        let is_own = !is_taken && journals.open().insert(turn.prefix());
        journals.usage().count(turn.session, counted);
        let (ledger, final_calls) = (watch::Sender::new(ledger(&rows)), FinalCalls::of(rows.doubts()));
        let (seed, checkpoint) = (rows.begin().seed, rows.take_checkpoint());
        let tape = StdMutex::new(Tape::of(rows.take_tape(), rows.next_step()));
        let writing = Mutex::new(State { rows, counted, is_own, is_closed: false });
        let is_paused = AtomicBool::new(false);
        TurnJournal {
            journals,
            clock,
            turn,
            seal,
            writing,
            ledger,
            final_calls,
            seed,
            tape,
            checkpoint: StdMutex::new(checkpoint),
            preempted_by: None,
            preemption: StdMutex::default(),
            is_recorded: false,
            is_parkable: false,
            is_paused,
            is_restartable: AtomicBool::new(false),
        }
    }

    /// The same, whose turn may end where somebody is asked about its next step, and go on later, if its steps have an order.
    #[must_use]
    pub fn parkable(mut self, is_parkable: bool) -> TurnJournal {
        self.is_parkable = is_parkable && self.writing.get_mut().rows.is_ordered();
        self
    }

    /// The same, whose rows stay when the turn is over, or do not.
    #[must_use]
    pub fn recorded(mut self, is_recorded: bool) -> TurnJournal {
        self.is_recorded = is_recorded;
        self
    }

    /// Which turn it is.
    pub fn turn(&self) -> &TurnId {
        &self.turn
    }

    /// Its session, as people read it.
    pub fn session(&self) -> String {
        self.turn.session.text()
    }

    /// How it is now.
    pub fn ledger(&self) -> Ledger {
        self.ledger.borrow().clone()
    }

    /// The calls that were let go, must not be made twice, and have no result yet.
    pub fn final_calls(&self) -> &FinalCalls {
        &self.final_calls
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
        if is_known {
            self.final_calls.end(seq);
        }
        Ok(is_known)
    }

    /// Says that its turn goes on when the node is up again, before what the turn waits for is dropped.
    pub fn pause(&self) {
        self.is_paused.store(true, Ordering::Release);
    }

    /// Says that its turn stopped where its agent did something else: its rows stay for a day when the turn is over.
    pub fn keep_for_restart(&self) {
        self.is_restartable.store(true, Ordering::Release);
    }

    /// Whether they do.
    pub fn is_restartable(&self) -> bool {
        self.is_restartable.load(Ordering::Acquire)
    }

    /// Writes nothing any more, and leaves its rows to whoever resumes the turn, which may be this process.
    pub async fn leave(&self) {
        let mut writing = self.writing.lock().await;
        writing.is_closed = true;
        self.journals.usage().remove(self.turn.session, std::mem::take(&mut writing.counted));
        if std::mem::take(&mut writing.is_own) {
            self.journals.open().remove(&self.turn.prefix());
        }
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

    /// Writes nothing any more; adds to the batch that ends its task that its rows stay with that, if they do, and else what
    /// [`TurnJournal::close`] adds.
    pub async fn end(&self, batch: &mut Batch) {
        let mut writing = self.writing.lock().await;
        let is_written = writing.rows.size().0 > 0 && !writing.rows.is_unwritten();
        let is_restartable = self.is_restartable();
        if !(self.is_recorded || is_restartable) || !writing.is_own || !is_written {
            drop(writing);
            return self.close(batch).await;
        }
        writing.is_closed = true;
        let (task, bytes) = (writing.rows.begin().task.clone(), writing.counted);
        if is_restartable {
            // Another journal goes on with its rows.
            writing.is_own = false;
            self.journals.open().remove(&self.turn.prefix());
        }
        drop(writing);
        let at_ms = self.clock.now_ms();
        let restart_ms = is_restartable.then(|| at_ms.saturating_add(RESTART_MS_MAX));
        let end = HeadEnd { at_ms, bytes, restart_ms, gone_ms: restart_ms.filter(|_| !self.is_recorded) };
        let head = Head { task: task.clone(), end: Some(end) };
        let head = minicbor::to_vec(&head).expect("writing to a vector cannot fail");
        batch.put(SESSION_HEADS, self.turn.prefix(), head);
        // Only a row of the index, if the batch cannot be written: it is forgotten with the task, or when the node ends.
        if let Err(error) = self.journals.keep(self.turn.prefix(), journals::tape(task, end)).await {
            tracing::warn!(%error, "older journals of turns that are over cannot be deleted: they cannot be read");
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
        let bytes = stored_bytes(&writing.rows, &self.seal);
        let (more, fewer) = (bytes.saturating_sub(writing.counted), writing.counted.saturating_sub(bytes));
        self.journals.reserve(self.turn.session, more)?;
        writing.counted = bytes.max(writing.counted);
        let mut batch = Batch::large();
        batch.append(changes);
        if writing.rows.is_unwritten() {
            let head = Head { task: writing.rows.begin().task.clone(), end: None };
            let head = minicbor::to_vec(&head).expect("writing to a vector cannot fail");
            batch.put(SESSION_HEADS, self.turn.prefix(), head);
        }
        for (key, row) in writing.rows.pending() {
            let stored = self.seal.close(&key, row);
            batch.put(SESSION_ROWS, key, stored);
        }
        for key in writing.rows.dropped() {
            batch.delete(SESSION_ROWS, key);
        }
        if let Err(error) = self.journals.store().write(batch, durability).await {
            tracing::error!(task = writing.rows.begin().task, %error, "a row of a journal cannot be written");
            return Err(JournalError::Write);
        }
        writing.rows.settle();
        writing.counted = bytes;
        self.journals.usage().remove(self.turn.session, fewer);
        self.ledger.send_replace(ledger(&writing.rows));
        Ok(())
    }

    async fn reach(&self, mut step: Step<'_>) -> Result<NextStep, JournalError> {
        let call = Call::of(step.kind, step.name, step.arguments, step.effect);
        let (seq, intent, is_new) = {
            let mut writing = self.writing.lock().await;
            self.make_room(&writing.rows, &step)?;
            let next = writing.rows.reach(call)?;
            self.tape().reach(writing.rows.next_step());
            match next {
                Next::Replayed(outcome) => return Ok(NextStep::Replayed(outcome)),
                Next::Go(intent) => {
                    let is_new = !writing.rows.has_intent(intent.seq);
                    (intent.seq, Some(intent), is_new)
                }
                Next::Intend(seq) => (seq, None, writing.rows.is_new(seq)),
            }
        };
        // No other step waits for that: somebody may be asked. What has a row was permitted before.
        let ruling = if is_new { step.rule().await } else { GateVerdict::Permit(Permit::default()) };
        let mut permit = match ruling {
            GateVerdict::Permit(permit) => permit,
            GateVerdict::Deny(denied) => return self.deny(seq, denied).await,
            GateVerdict::Ask(ask) => return Ok(NextStep::Ask(ask)),
        };
        if let Some(intent) = intent {
            return Ok(NextStep::Go(intent, permit));
        }
        // Nor for that: it may be asked for in the mesh.
        let callee = match step.callee.filter(|_| is_new) {
            Some(callee) => callee.await,
            None => None,
        };
        let letting_go = self.let_go(seq, callee, std::mem::take(&mut permit.rows));
        let intent = match step.meanwhile.take() {
            // It is not waited for where the intent cannot be written.
            Some(meanwhile) => try_join(letting_go, meanwhile.map(Ok::<(), JournalError>)).await?.0,
            None => letting_go.await?,
        };
        Ok(NextStep::Go(intent, permit))
    }

    /// Writes the intent of a step, with those rows; then its call may be made.
    async fn let_go(&self, seq: u32, callee: Option<String>, rows: Batch) -> Result<Intent, JournalError> {
        let _free = self.final_calls.free().await;
        let mut writing = self.writing.lock().await;
        self.note_readings(&mut writing);
        let intent = writing.rows.intend(seq, callee, self.clock.now_ms())?;
        self.write_with(&mut writing, rows, Durability::Synced).await?;
        if let Some(call) = writing.rows.final_call(seq, self.clock.now_ms()) {
            self.final_calls.begin(call);
        }
        Ok(intent)
    }

    /// Writes that a step was denied, as what came of it.
    async fn deny(&self, seq: u32, denied: Denied) -> Result<NextStep, JournalError> {
        let outcome = StepOutcome { result: Err(denied.to_string()), tokens: 0, label: None };
        let mut writing = self.writing.lock().await;
        self.note_readings(&mut writing);
        writing.rows.deny(seq, &outcome, self.clock.now_ms())?;
        self.write(&mut writing, Durability::Buffered).await?;
        Ok(NextStep::Denied(denied))
    }

    async fn finish(&self, intent: Intent, outcome: &StepOutcome, rows: Batch) -> Result<(), JournalError> {
        let mut writing = self.writing.lock().await;
        self.note_readings(&mut writing);
        let is_final = writing.rows.finish(intent.seq, outcome, self.clock.now_ms())?;
        self.write_with(&mut writing, rows, Durability::Buffered).await?;
        if is_final {
            self.final_calls.end(intent.seq);
            tokio::spawn(sync(self.journals.store().clone()));
        }
        Ok(())
    }
}

impl Journal for TurnJournal {
    fn step<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, Result<NextStep, JournalError>> {
        Box::pin(self.reach(step))
    }

    fn done<'a>(
        &'a self,
        intent: Intent,
        outcome: &'a StepOutcome,
        rows: Batch,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(self.finish(intent, outcome, rows))
    }

    fn ahead(&self) -> BoxFuture<'_, usize> {
        Box::pin(async { self.writing.lock().await.rows.ahead() })
    }

    fn is_parkable(&self) -> bool {
        self.is_parkable
    }

    fn replay(&self) -> Option<&dyn Replay> {
        Some(self)
    }

    fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Acquire)
    }

    fn goes_on(&self) -> bool {
        self.preemption().has_made_room()
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

/// Bytes that its rows have on disk, with their keys.
fn stored_bytes(rows: &TurnRows, seal: &RowSeal) -> u64 {
    let (count, bytes) = rows.size();
    bytes + seal.more(count)
}

fn ledger(rows: &TurnRows) -> Ledger {
    let (count, bytes) = rows.size();
    Ledger { rows: u64::from(count), bytes, doubts: rows.doubts() }
}

#[cfg(test)]
mod tests;
