//! The newest checkpoint of a log, and the newest one that witnesses signed.

use althing_protocol::tlog::{Checkpoint, NoteError, NoteKey, add_cosignatures};

/// Both. The newest one is on disk with the entries that it is over.
pub(super) struct Checkpoints {
    newest: Checkpoint,
    cosigned: Option<Checkpoint>,
}

impl Checkpoints {
    pub(super) fn new(newest: Checkpoint, cosigned: Option<Checkpoint>) -> Checkpoints {
        Checkpoints { newest, cosigned }
    }

    pub(super) fn newest(&self) -> &Checkpoint {
        &self.newest
    }

    pub(super) fn grow(&mut self, newest: Checkpoint) {
        self.newest = newest;
    }

    /// The one under which an entry is shown: that which witnesses signed if it has the entry, else the newest.
    pub(super) fn over(&self, index: u64) -> &Checkpoint {
        self.cosigned.as_ref().filter(|cosigned| cosigned.head.size > index).unwrap_or(&self.newest)
    }

    /// Entries that a witness signed, as far as it is kept here.
    pub(super) fn size_of(&self, witness: &NoteKey) -> u64 {
        let cosigned = self.cosigned.as_ref().filter(|cosigned| cosigned.cosignature(witness).is_ok());
        cosigned.map_or(0, |cosigned| cosigned.head.size)
    }

    /// Adds what a witness answered for a checkpoint; gives the one that is to be written.
    ///
    /// # Errors
    /// [`NoteError`]: it is no signature of that witness over it.
    pub(super) fn add(
        &mut self,
        checkpoint: &Checkpoint,
        lines: &str,
        witness: &NoteKey,
    ) -> Result<Option<Checkpoint>, NoteError> {
        let alone = add_cosignatures(checkpoint, lines, witness)?;
        self.cosigned = match self.cosigned.take() {
            Some(newer) if newer.head.size > checkpoint.head.size => {
                self.cosigned = Some(newer);
                return Ok(None);
            }
            Some(same) if same.head == checkpoint.head => Some(add_cosignatures(&same, lines, witness)?),
            _ => Some(alone),
        };
        Ok(self.cosigned.clone())
    }
}
