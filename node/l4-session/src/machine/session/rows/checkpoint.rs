//! Checkpoints: a turn goes on from there, and its rows between the beginning and the checkpoint are deleted.
//!
//! The first part of a checkpoint has the digest of the beginning as that of the row before it, and the number that it would have
//! had without being a checkpoint.

use althing_execution::journal::{Checkpoint, JournalError};

use super::{Parts, TurnRows, joined};
use crate::machine::session::replay_row::CheckpointRow;
use crate::machine::session::row::RowBody;
use crate::machine::session::{CHECKPOINT, CHECKPOINT_PART_BYTES_MAX};

impl TurnRows {
    /// Adds a checkpoint, and drops the rows between the beginning and it.
    ///
    /// # Errors
    /// [`JournalError::Diverged`]: rows have a step there. [`JournalError::TooLong`].
    pub fn save(&mut self, checkpoint: &Checkpoint, now_ms: u64) -> Result<(), JournalError> {
        if let Some((seq, known)) = self.steps.first_key_value() {
            let (seq, was) = (*seq, known.call.name.clone());
            return Err(JournalError::Diverged { seq, was, came: CHECKPOINT.to_owned() });
        }
        // What clocks said before it is not told again.
        self.unwritten.clear();
        if self.chain.is_empty() {
            self.append(Vec::new(), now_ms)?;
        }
        let bodies = checkpoint_rows(self.next, checkpoint).into_iter().chain(self.restart_again());
        self.chain.replace(bodies, now_ms)?;
        self.since = self.next;
        self.calls.clear();
        self.read_by.clear();
        Ok(())
    }

    /// Takes the checkpoint from which it goes on, if it has one.
    pub fn take_checkpoint(&mut self) -> Option<Checkpoint> {
        self.checkpoint.take()
    }

    /// Takes a part of the checkpoint; the last one makes it whole.
    pub(super) fn take_checkpoint_part(
        &mut self,
        part: &CheckpointRow,
        parts: &mut Option<Parts>,
    ) -> Result<(), &'static str> {
        if !self.chain.is_at_second() && parts.is_none() {
            return Err("a checkpoint does not follow the beginning");
        }
        let Some(state) = joined(parts, (part.step, part.more), &part.bytes)? else { return Ok(()) };
        self.checkpoint = Some(whole(part, state)?);
        (self.since, self.next) = (part.step, part.step);
        Ok(())
    }
}

/// A checkpoint of all of its bytes: its state, then what was said before it.
fn whole(part: &CheckpointRow, mut state: Vec<u8>) -> Result<Checkpoint, &'static str> {
    let state_bytes = usize::try_from(part.state_bytes).unwrap_or(usize::MAX);
    if state_bytes > state.len() {
        return Err("a checkpoint is shorter than it says");
    }
    let progress = state.split_off(state_bytes);
    Ok(Checkpoint { state, progress, label: part.label })
}

/// The rows of a checkpoint: several, if it is long.
fn checkpoint_rows(step: u32, checkpoint: &Checkpoint) -> Vec<RowBody> {
    let whole = [&checkpoint.state[..], &checkpoint.progress].concat();
    let mut parts: Vec<&[u8]> = whole.chunks(CHECKPOINT_PART_BYTES_MAX).collect();
    if parts.is_empty() {
        parts.push(&[]);
    }
    let row = |(left, part): (usize, &[u8])| {
        RowBody::Checkpoint(CheckpointRow {
            step,
            more: u32::try_from(left).unwrap_or(u32::MAX),
            state_bytes: u32::try_from(checkpoint.state.len()).unwrap_or(u32::MAX),
            bytes: part.to_vec().into(),
            label: checkpoint.label,
        })
    };
    (0..parts.len()).rev().zip(parts).map(row).collect()
}
