//! What witnesses cosigned of the log.

use std::time::Duration;

use althing_protocol::tlog::{Checkpoint, NoteError, NoteKey, add_cosignatures};
use tokio::sync::watch;

use super::Registry;

/// How long an answer waits for the witnesses that answered the last time: with that, a checkpoint is shown within a second.
const WAITS_FOR: Duration = Duration::from_millis(900);

/// The newest checkpoint that witnesses cosigned, and how many of them are awaited.
#[derive(Default)]
pub(super) struct Cosigned {
    newest: Option<Checkpoint>,
    /// Witnesses that signed it.
    signed: usize,
    /// Witnesses that answered the last time.
    awaited: usize,
}

impl Cosigned {
    fn is_awaited(&self, size: u64) -> bool {
        let covers = self.newest.as_ref().is_some_and(|newest| newest.head.size >= size);
        self.awaited > 0 && !(covers && self.signed >= self.awaited)
    }
}

/// What witnesses cosigned of a registry's log.
pub struct Witnessing<'a>(pub(super) &'a Registry);

impl Witnessing<'_> {
    /// Adds what a witness answered for a checkpoint.
    ///
    /// # Errors
    /// [`NoteError`]: it is no signature of that witness over it.
    pub fn add(&self, checkpoint: &Checkpoint, lines: &str, witness: &NoteKey) -> Result<(), NoteError> {
        let alone = add_cosignatures(checkpoint, lines, witness)?;
        self.0.cosigned.send_modify(|cosigned| match &cosigned.newest {
            Some(newest) if newest.head.size > checkpoint.head.size => {}
            Some(newest) if newest.head == checkpoint.head => {
                if let Ok(both) = add_cosignatures(newest, lines, witness) {
                    cosigned.signed += usize::from(newest.cosignature(witness).is_err());
                    cosigned.newest = Some(both);
                }
            }
            _ => (cosigned.newest, cosigned.signed) = (Some(alone), 1),
        });
        Ok(())
    }

    /// Says how many witnesses are awaited from now on.
    pub fn expect(&self, answering: usize) {
        self.0.cosigned.send_modify(|cosigned| cosigned.awaited = answering);
    }

    /// Waits until the log has more entries than `size`.
    pub async fn grown(&self, size: u64) {
        // The sender lives as long as the registry.
        let _ = self.0.grown.subscribe().wait_for(|now| *now > size).await;
    }

    /// The checkpoint for everybody: the newest one that is cosigned while witnesses answer, else the newest one.
    #[must_use]
    pub fn shown(&self) -> Checkpoint {
        let cosigned = {
            let cosigned = self.0.cosigned.borrow();
            cosigned.newest.clone().filter(|_| cosigned.awaited > 0)
        };
        cosigned.unwrap_or_else(|| self.0.checkpoint())
    }

    /// The checkpoint under which the entry is proven: the newest cosigned one that has it, else the newest one.
    #[must_use]
    pub fn over(&self, index: u64) -> Checkpoint {
        let cosigned = self.0.cosigned.borrow().newest.clone().filter(|newest| newest.head.size > index);
        cosigned.unwrap_or_else(|| self.0.checkpoint())
    }

    /// The same for what was just accepted: waits a moment for the witnesses.
    pub(super) async fn soon_over(&self, index: u64) -> Checkpoint {
        if !self.0.cosigned.borrow().is_awaited(index + 1) {
            return self.over(index);
        }
        let mut cosigned: watch::Receiver<Cosigned> = self.0.cosigned.subscribe();
        let waited = cosigned.wait_for(|cosigned| !cosigned.is_awaited(index + 1));
        // Late witnesses are shown later.
        let _ = tokio::time::timeout(WAITS_FOR, waited).await;
        self.over(index)
    }
}
