//! Group commit: those who write at the same time share one write to the disk.
//!
//! Each queues what it wants, and whoever gets the right to append does it for all that wait: it judges one after the other,
//! writes what is accepted with the checkpoint over it, and tells each what became of it. A writer that is alone waits for
//! nobody.

use std::collections::VecDeque;
use std::sync::Mutex;

use althing_log::{AppendError, Head, Writer as LogWriter};
use althing_protocol::tlog::Checkpoint;
use tokio::sync::oneshot;

use super::write_batch::{Answer, PendingWrite, Tell, WriteBatch};
use super::{Registry, RequestError, kept_row};
use crate::machine::Statement;

/// Those who wait.
#[derive(Default)]
pub struct Waiting {
    writes: Mutex<VecDeque<PendingWrite>>,
    /// Of the batch that is being written. They stay here if whoever writes it goes away meanwhile.
    untold: Mutex<Vec<Tell>>,
}

impl Waiting {
    fn tell(&self, outcome: &Result<(), AppendError>) {
        let untold = std::mem::take(&mut *self.untold.lock().expect("no holder panics"));
        for tell in untold {
            tell(outcome.clone());
        }
    }
}

impl Registry {
    /// Writes something, with all that others want to write now. When it completes, that is on disk, under a checkpoint, and
    /// in the state.
    pub(super) async fn commit<T, E: From<RequestError>>(
        &self,
        write: impl FnOnce(Answer<T, E>) -> PendingWrite,
    ) -> Result<T, E> {
        let (to, mut answered) = oneshot::channel();
        self.waiting.writes.lock().expect("no holder panics").push_back(write(to));
        loop {
            tokio::select! {
                biased;
                answer = &mut answered => return answer.expect("whoever takes a write answers it"),
                writer = self.log.writer() => self.write_batch(writer).await?,
            }
        }
    }

    async fn write_batch(&self, mut writer: LogWriter<'_>) -> Result<(), RequestError> {
        // If whoever wrote the last batch went away meanwhile, it is written again here.
        let next = writer.next().await.inspect_err(|error| self.waiting.tell(&Err(error.clone())))?;
        self.catch_up(next)?;
        self.waiting.tell(&Ok(()));
        let WriteBatch { entries, rows, statements, untold, gone, described, .. } = self.gather(next);
        *self.waiting.untold.lock().expect("no holder panics") = untold;
        let mut outcome = Ok(());
        if !entries.is_empty() {
            let mut checkpoint = None;
            let over = |head| {
                let signed = checkpoint.insert(self.sign(head));
                let mut all = rows;
                all.append(kept_row(signed));
                all
            };
            outcome = writer.append(&entries, over).await.map(|_| ());
            if let (Ok(()), Some(checkpoint)) = (&outcome, checkpoint) {
                self.follow(next, &statements, checkpoint);
                // Who wrote them reads them next, or somebody does who heard of it.
                described.into_iter().for_each(|(entry, bytes)| self.descriptions.put(entry, bytes));
                self.descriptions.remove(&gone);
            }
        }
        self.waiting.tell(&outcome);
        Ok(())
    }

    /// Judges what waits, as far as it can be written at once.
    fn gather(&self, next: u64) -> WriteBatch {
        let random = self.directory.as_ref().map(|directory| directory.random.clone());
        let mut batch = WriteBatch::new(next, (self.clock)(), random);
        let all = std::mem::take(&mut *self.waiting.writes.lock().expect("no holder panics")).into_iter();
        let mut left: VecDeque<_> = {
            let seen = self.seen();
            all.filter(|write| !write.is_abandoned()).filter_map(|write| batch.judge(write, &seen.machine)).collect()
        };
        let mut writes = self.waiting.writes.lock().expect("no holder panics");
        left.append(&mut writes);
        *writes = left;
        batch
    }

    /// Applies what was just written.
    fn follow(&self, first: u64, statements: &[Statement], checkpoint: Checkpoint) {
        let size = checkpoint.head.size;
        let mut seen = self.state.write().expect("no holder panics");
        for (index, statement) in (first..).zip(statements) {
            seen.machine.apply(index, statement);
        }
        (seen.next, seen.checkpoint) = (size, checkpoint);
        self.grown.send_replace(size);
    }

    /// The checkpoint over a head.
    pub(super) fn sign(&self, head: Head) -> Checkpoint {
        Checkpoint::sign(&self.config.origin, head, &self.key).expect("the name was checked")
    }
}
