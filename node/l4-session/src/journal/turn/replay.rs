//! What a journal has for an agent that is code, and runs again when its turn is resumed.

use althing_execution::journal::{Checkpoint, Intent, JournalError, Reading, Replay, StepOutcome};
use althing_store::{Batch, Durability};
use futures::future::BoxFuture;

use super::{State, TurnJournal};

impl TurnJournal {
    /// Writes a checkpoint, and deletes the rows before it.
    async fn put(&self, writing: &mut State, checkpoint: &Checkpoint) -> Result<(), JournalError> {
        self.past.tape().clear()?;
        writing.rows.save(checkpoint, self.clock.now_ms())?;
        self.write(writing, Durability::Buffered).await
    }
}

impl Replay for TurnJournal {
    fn seed(&self) -> [u8; 32] {
        self.past.seed()
    }

    fn read_clock(&self, now: Reading) -> Result<Reading, JournalError> {
        self.past.tape().read(now)
    }

    fn checkpoint(&self) -> Option<Checkpoint> {
        self.past.checkpoint().clone()
    }

    fn save<'a>(&'a self, checkpoint: &'a Checkpoint) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async move {
            let mut writing = self.writing.lock().await;
            self.put(&mut writing, checkpoint).await
        })
    }

    fn save_between<'a>(&'a self, checkpoint: &'a Checkpoint) -> BoxFuture<'a, Result<bool, JournalError>> {
        Box::pin(async move {
            let mut writing = self.writing.lock().await;
            if writing.rows.has_steps() {
                return Ok(false);
            }
            self.put(&mut writing, checkpoint).await.map(|()| true)
        })
    }

    fn done_with<'a>(
        &'a self,
        intent: Intent,
        outcome: &'a StepOutcome,
        changes: Batch,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async move {
            let mut writing = self.writing.lock().await;
            self.note_readings(&mut writing);
            writing.rows.finish(intent.seq, outcome, self.clock.now_ms())?;
            self.write_with(&mut writing, changes, Durability::Synced).await?;
            self.final_calls.end(intent.seq);
            Ok(())
        })
    }
}
