//! What a turn is told of its past, whose agent is code and runs again when the turn is resumed.

use std::sync::{Mutex, MutexGuard};

use althing_execution::journal::Checkpoint;

use crate::machine::session::{Tape, TurnRows};

/// The past of one turn.
pub(super) struct Past {
    /// What randomness of the turn is made of.
    seed: [u8; 32],
    /// What clocks say to it.
    tape: Mutex<Tape>,
    /// From where it goes on.
    checkpoint: Mutex<Option<Checkpoint>>,
}

impl Past {
    /// That of the turn with these rows, out of which it is taken.
    pub fn of(rows: &mut TurnRows) -> Past {
        let (seed, checkpoint) = (rows.begin().seed, rows.take_checkpoint());
        let tape = Tape::of(rows.take_tape(), rows.next_step());
        Past { seed, tape: Mutex::new(tape), checkpoint: Mutex::new(checkpoint) }
    }

    /// The same turn begins again, and is told what these rows say.
    pub fn rewind(&self, rows: &mut TurnRows) {
        *self.checkpoint() = rows.take_checkpoint();
        *self.tape() = Tape::of(rows.take_tape(), rows.next_step());
    }

    pub fn seed(&self) -> [u8; 32] {
        self.seed
    }

    pub fn tape(&self) -> MutexGuard<'_, Tape> {
        self.tape.lock().expect("no holder of the tape panics")
    }

    pub fn checkpoint(&self) -> MutexGuard<'_, Option<Checkpoint>> {
        self.checkpoint.lock().expect("no holder of the checkpoint panics")
    }
}
