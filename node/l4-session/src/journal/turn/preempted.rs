//! A delay-tolerant turn that makes room for others, and goes on from its rows in the same process.

use std::sync::MutexGuard;

use althing_execution::journal::{Checkpoint, JournalError, Step};
use althing_execution::kernel::slots::Slots;
use althing_execution::tools::CallKind;

use super::{TurnJournal, ledger, stored_bytes};
use crate::machine::preemption::{Place, Preemption};
use crate::machine::session::{Tape, TurnRows};

impl TurnJournal {
    /// The same, whose turn makes room for those that wait for these slots, if there are any and its steps have an order.
    #[must_use]
    pub fn preempted_by(mut self, slots: Option<Slots>) -> TurnJournal {
        let is_ordered = self.writing.get_mut().rows.is_ordered();
        self.preempted_by = slots.filter(|_| is_ordered);
        self
    }

    /// Ends when those have had a slot for which its turn makes room.
    pub async fn until_there_is_room(&self) {
        if let Some(slots) = &self.preempted_by {
            slots.until_one_is_free().await;
        }
    }

    /// Goes back to what is on disk: its turn begins again, and is told these rows.
    pub async fn rewind(&self, mut rows: TurnRows) {
        let mut writing = self.writing.lock().await;
        let counted = stored_bytes(&rows, &self.seal);
        {
            let mut usage = self.journals.usage();
            usage.remove(self.turn.session, writing.counted);
            usage.count(self.turn.session, counted);
        }
        writing.counted = counted;
        *self.saved() = rows.take_checkpoint();
        *self.tape() = Tape::of(rows.take_tape(), rows.next_step());
        self.ledger.send_replace(ledger(&rows));
        self.final_calls.reset(rows.doubts());
        writing.rows = rows;
    }

    /// Ends the turn before a step, if it is to make room there.
    pub(super) fn make_room(&self, rows: &TurnRows, step: &Step<'_>) -> Result<(), JournalError> {
        let Some(slots) = &self.preempted_by else { return Ok(()) };
        let place = Place {
            step: rows.next_step(),
            is_between: !rows.has_steps(),
            asks_model: step.kind == CallKind::Model,
            has_gate: step.gate.is_some(),
        };
        match self.preemption().makes_room(place, slots.waiting()) {
            true => Err(JournalError::Preempted),
            false => Ok(()),
        }
    }

    pub(super) fn preemption(&self) -> MutexGuard<'_, Preemption> {
        self.preemption.lock().expect("no holder of it panics")
    }

    pub(super) fn saved(&self) -> MutexGuard<'_, Option<Checkpoint>> {
        self.checkpoint.lock().expect("no holder of the checkpoint panics")
    }
}
