//! The journal of one turn, as its agent writes it.

mod past;
mod preempted;
mod replay;
mod room;
mod stay;
mod unwritten_end;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use althing_communication::WallClock;
use althing_execution::journal::{Effect, Intent, Journal, JournalError, NextStep, Replay, Step, StepOutcome};
use althing_execution::tools::{Denied, GateVerdict, Permit};
use althing_protocol::Label;
use althing_store::{Batch, Durability};
use futures::FutureExt as _;
use futures::future::{BoxFuture, try_join};
use tokio::sync::{Mutex, watch};

use super::final_calls::FinalCalls;
use super::{Journals, RowSeal, SESSION_HEADS, SESSION_ROWS};
use crate::machine::session::{Call, Choice, Doubt, Head, HeadEnd, Next, Payer, TurnId, TurnRows};
use past::Past;
use room::Room;
use stay::Stay;

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
    /// Whose room its rows take.
    payer: Payer,
    /// How its rows are stored.
    seal: RowSeal,
    /// Held while rows are written, so that they are written in their order.
    writing: Mutex<State>,
    ledger: watch::Sender<Ledger>,
    /// Calls that were let go, must not be made twice, and have no result yet.
    final_calls: FinalCalls,
    past: Past,
    room: Room,
    stay: Stay,
    /// Whether its node is being stopped.
    is_paused: AtomicBool,
    /// Whether it may end where somebody is asked, and go on later.
    is_parkable: bool,
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
        let (turn, payer, counted) = (*rows.turn(), Payer::default(), stored_bytes(&rows, &seal));
        // Rows of a turn that is over may have that number, too.
        let is_taken = journals.tapes().has(&turn.prefix());
        let is_own = !is_taken && journals.open().insert(turn.prefix());
        journals.usage().count(turn.session, payer, counted);
        let (ledger, final_calls) = (watch::Sender::new(ledger(&rows)), FinalCalls::of(rows.doubts()));
        let past = Past::of(&mut rows);
        let writing = Mutex::new(State { rows, counted, is_own, is_closed: false });
        let is_paused = AtomicBool::new(false);
        TurnJournal {
            journals,
            clock,
            turn,
            payer,
            seal,
            writing,
            ledger,
            final_calls,
            past,
            room: Room::default(),
            stay: Stay::default(),
            is_parkable: false,
            is_paused,
        }
    }

    /// The same, whose turn may end where somebody is asked about its next step, and go on later, if its steps have an order.
    #[must_use]
    pub fn parkable(mut self, is_parkable: bool) -> TurnJournal {
        self.is_parkable = is_parkable && self.writing.get_mut().rows.is_ordered();
        self
    }

    /// The same, whose rows take that one's room.
    #[must_use]
    pub fn paid_by(mut self, payer: Payer) -> TurnJournal {
        let counted = self.writing.get_mut().counted;
        {
            let mut usage = self.journals.usage();
            usage.remove(self.turn.session, self.payer, counted);
            usage.count(self.turn.session, payer, counted);
        }
        self.payer = payer;
        self
    }

    /// The same, whose rows stay when the turn is over, or do not.
    #[must_use]
    pub fn recorded(mut self, is_recorded: bool) -> TurnJournal {
        self.stay = Stay::of(is_recorded);
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

    /// The label of all that its turn was given, as far as its rows say that and it is not told again yet.
    pub async fn label(&self) -> Option<Label> {
        let saved = self.past.checkpoint().as_ref().and_then(|checkpoint| checkpoint.label);
        Label::of_both(saved, self.writing.lock().await.rows.label())
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

    /// Writes what `by` says of a call in doubt, with what is recorded of that; false if it is not in doubt. `outcome` is its
    /// result, of one that took place.
    ///
    /// # Errors
    /// [`JournalError`].
    pub async fn clear_doubt(
        &self,
        seq: u32,
        choice: Choice,
        outcome: Option<StepOutcome>,
        (by, records): (&str, Batch),
    ) -> Result<bool, JournalError> {
        let mut writing = self.writing.lock().await;
        // What cannot be written was not said: it is in doubt as before, and may be said again.
        let before = writing.rows.clone();
        let is_known =
            !writing.is_closed && writing.rows.clear_doubt(seq, choice, outcome, (by, self.clock.now_ms()))?;
        if is_known && let Err(error) = self.write_with(&mut writing, records, Durability::Synced).await {
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
        self.stay.keep_for_restart();
    }

    /// Whether they do.
    pub fn is_restartable(&self) -> bool {
        self.stay.is_restartable()
    }

    /// Writes nothing any more, and leaves its rows to whoever resumes the turn, which may be this process.
    pub async fn leave(&self) {
        let mut writing = self.writing.lock().await;
        writing.is_closed = true;
        self.journals.usage().remove(self.turn.session, self.payer, std::mem::take(&mut writing.counted));
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
        if !(self.stay.is_recorded() || is_restartable) || !writing.is_own || !is_written {
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
        let end = self.stay.end(self.clock.now_ms(), bytes);
        put_head(&self.turn, task.clone(), Some(end), batch);
        // Only a row of the index, if the batch cannot be written: it is forgotten with the task, or when the node ends.
        self.journals.stay(self.turn.prefix(), task, end).await;
    }

    /// Adds what clocks said to the rows that are written next.
    fn note_readings(&self, writing: &mut State) {
        writing.rows.note_readings(self.past.tape().take());
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
        check_own(writing)?;
        let bytes = stored_bytes(&writing.rows, &self.seal);
        let (more, fewer) = (bytes.saturating_sub(writing.counted), writing.counted.saturating_sub(bytes));
        self.journals.usage().add(self.turn.session, self.payer, more)?;
        writing.counted = bytes.max(writing.counted);
        let mut batch = Batch::large();
        batch.append(changes);
        if writing.rows.is_unwritten() {
            put_head(&self.turn, writing.rows.begin().task.clone(), None, &mut batch);
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
        self.journals.usage().remove(self.turn.session, self.payer, fewer);
        self.ledger.send_replace(ledger(&writing.rows));
        Ok(())
    }

    async fn reach(&self, mut step: Step<'_>) -> Result<NextStep, JournalError> {
        let call = Call::of(step.kind, step.name, step.arguments, step.effect);
        let (seq, intent, is_new) = {
            let mut writing = self.writing.lock().await;
            self.room.make(&writing.rows, &step)?;
            let next = writing.rows.reach(call)?;
            self.past.tape().reach(writing.rows.next_step());
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
            if step.effect != Effect::None {
                record(self, std::mem::take(&mut permit.rows)).await?;
            }
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
        // After a power cut before that sync is over, a call that must not be made twice is in doubt, and nothing waits for that.
        let durability = if is_final { Durability::Syncing } else { Durability::Buffered };
        self.write_with(&mut writing, rows, durability).await?;
        if is_final {
            self.final_calls.end(intent.seq);
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
        self.room.is_made()
    }
}

impl Drop for TurnJournal {
    fn drop(&mut self) {
        let writing = self.writing.get_mut();
        self.journals.usage().remove(self.turn.session, self.payer, writing.counted);
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

/// Writes the gate's rows of a call that may be made twice, and has no intent of its own: what is on record of it, and the yes that it
/// uses, outlives the process before it is made. No leaf costs a sync of its own, so that a power cut may lose both.
async fn record(journal: &TurnJournal, rows: Batch) -> Result<(), JournalError> {
    if rows.is_empty() {
        return Ok(());
    }
    let writing = journal.writing.lock().await;
    check_own(&writing)?;
    journal.journals.store().write(rows, Durability::Buffered).await.map_err(|error| {
        tracing::error!(task = writing.rows.begin().task, %error, "what was decided on a call cannot be written");
        JournalError::Write
    })
}

/// Whether the journal may write.
fn check_own(writing: &State) -> Result<(), JournalError> {
    if writing.is_closed || !writing.is_own {
        tracing::error!(task = writing.rows.begin().task, "a turn goes on that has no journal any more");
        return Err(JournalError::Write);
    }
    Ok(())
}

/// Adds to a batch that the rows of a turn are those of that task, and how they stay, if it is over.
fn put_head(turn: &TurnId, task: String, end: Option<HeadEnd>, batch: &mut Batch) {
    let head = minicbor::to_vec(Head { task, end }).expect("writing to a vector cannot fail");
    batch.put(SESSION_HEADS, turn.prefix(), head);
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
