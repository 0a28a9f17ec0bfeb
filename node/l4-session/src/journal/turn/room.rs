//! The room that a delay-tolerant turn makes for others, before a step that it has not made yet.

use std::sync::{Mutex, MutexGuard};

use althing_execution::journal::{JournalError, Step};
use althing_execution::kernel::slots::Slots;
use althing_execution::tools::CallKind;

use crate::machine::preemption::{Place, Preemption};
use crate::machine::session::TurnRows;

/// The room that one turn makes.
#[derive(Default)]
pub(super) struct Room {
    /// For whose turns, if for any.
    slots: Option<Slots>,
    preemption: Mutex<Preemption>,
}

impl Room {
    /// That for the turns which wait for these slots.
    pub fn of(slots: Option<Slots>) -> Room {
        Room { slots, preemption: Mutex::default() }
    }

    /// Ends when those have had a slot for which it is made.
    pub async fn until_there_is_some(&self) {
        if let Some(slots) = &self.slots {
            slots.until_one_is_free().await;
        }
    }

    /// Ends the turn before a step, if it is to make room there.
    ///
    /// # Errors
    /// [`JournalError::Preempted`].
    pub fn make(&self, rows: &TurnRows, step: &Step<'_>) -> Result<(), JournalError> {
        let Some(slots) = &self.slots else { return Ok(()) };
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

    /// Whether the turn made room by now.
    pub fn is_made(&self) -> bool {
        self.preemption().has_made_room()
    }

    fn preemption(&self) -> MutexGuard<'_, Preemption> {
        self.preemption.lock().expect("no holder of it panics")
    }
}
