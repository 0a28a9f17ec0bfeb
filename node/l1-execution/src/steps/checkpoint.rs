//! Checkpoints of turns whose agents are code that runs again when the turn is resumed.

use crate::context;
use crate::journal::{CHECKPOINT_BYTES_MAX, Checkpoint, CheckpointError};

/// From where the turn that runs here goes on, if it is resumed and had made a checkpoint: what it had been given by then it
/// has been given again with that.
#[must_use]
pub fn checkpoint() -> Option<Checkpoint> {
    let journal = context::current_journal()?;
    let checkpoint = journal.replay()?.checkpoint()?;
    context::hear(checkpoint.label);
    Some(checkpoint)
}

/// Whether the turn that runs here can save a state of so many bytes.
///
/// # Errors
/// [`CheckpointError`].
pub(crate) fn check_save(bytes: usize) -> Result<(), CheckpointError> {
    if bytes > CHECKPOINT_BYTES_MAX {
        return Err(CheckpointError::Size { bytes });
    }
    let journal = context::current_journal().ok_or(CheckpointError::NoJournal)?;
    journal.replay().map(|_| ()).ok_or(CheckpointError::NoJournal)
}

/// Saves a checkpoint of the turn that runs here: the state that its agent gives, and what its runtime notes beside that.
///
/// # Errors
/// [`CheckpointError`]: nothing was saved.
pub async fn save(state: Vec<u8>, progress: Vec<u8>) -> Result<(), CheckpointError> {
    if state.len() > CHECKPOINT_BYTES_MAX {
        return Err(CheckpointError::Size { bytes: state.len() });
    }
    let journal = context::current_journal().ok_or(CheckpointError::NoJournal)?;
    let replay = journal.replay().ok_or(CheckpointError::NoJournal)?;
    let checkpoint = Checkpoint { state, progress, label: context::label() };
    Ok(replay.save(&checkpoint).await?)
}

/// The same, of an agent that makes several calls at once and whose runtime notes nothing beside its state.
///
/// # Errors
/// [`CheckpointError`]: nothing was saved.
pub(crate) async fn save_between(state: Vec<u8>) -> Result<(), CheckpointError> {
    if state.len() > CHECKPOINT_BYTES_MAX {
        return Err(CheckpointError::Size { bytes: state.len() });
    }
    let journal = context::current_journal().ok_or(CheckpointError::NoJournal)?;
    let replay = journal.replay().ok_or(CheckpointError::NoJournal)?;
    let checkpoint = Checkpoint { state, progress: Vec::new(), label: context::label() };
    if replay.save_between(&checkpoint).await? { Ok(()) } else { Err(CheckpointError::Calls) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_has_no_journal_saves_nothing_and_is_told_so() {
        assert_eq!(save(vec![1], Vec::new()).await, Err(CheckpointError::NoJournal));
        assert_eq!(checkpoint(), None);
        let bytes = CHECKPOINT_BYTES_MAX + 1;
        assert_eq!(save(vec![0; bytes], Vec::new()).await, Err(CheckpointError::Size { bytes }));
    }
}
