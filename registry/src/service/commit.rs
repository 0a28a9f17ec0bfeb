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

use super::group::{Answer, Group, Job, Tell};
use super::{Registry, RequestError, kept_row};
use crate::machine::Statement;

/// Those who wait.
#[derive(Default)]
pub struct Waiting {
    jobs: Mutex<VecDeque<Job>>,
    /// Of the group that is being written. They stay here if whoever writes it goes away meanwhile.
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
    pub(super) async fn commit<T, E: From<RequestError>>(&self, job: impl FnOnce(Answer<T, E>) -> Job) -> Result<T, E> {
        let (to, mut answered) = oneshot::channel();
        self.waiting.jobs.lock().expect("no holder panics").push_back(job(to));
        loop {
            tokio::select! {
                biased;
                answer = &mut answered => return answer.expect("whoever takes a job answers it"),
                writer = self.log.writer() => self.write_group(writer).await?,
            }
        }
    }

    async fn write_group(&self, mut writer: LogWriter<'_>) -> Result<(), RequestError> {
        // If whoever wrote the last group went away meanwhile, it is written again here.
        let next = writer.next().await.inspect_err(|error| self.waiting.tell(&Err(error.clone())))?;
        self.catch_up(next)?;
        self.waiting.tell(&Ok(()));
        let Group { entries, rows, statements, untold, gone, described, .. } = self.gather(next);
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
                described.into_iter().for_each(|(entry, bytes)| self.kept.put(entry, bytes));
                self.kept.remove(&gone);
            }
        }
        self.waiting.tell(&outcome);
        Ok(())
    }

    /// Judges what waits, as far as it can be written at once.
    fn gather(&self, next: u64) -> Group {
        let mut group =
            Group::new(next, (self.clock)(), self.directory.as_ref().map(|directory| directory.random.clone()));
        let jobs = std::mem::take(&mut *self.waiting.jobs.lock().expect("no holder panics"));
        let mut left = VecDeque::new();
        {
            let seen = self.seen();
            for job in jobs.into_iter().filter(|job| !job.is_abandoned()) {
                left.extend(group.judge(job, &seen.machine));
            }
        }
        let mut jobs = self.waiting.jobs.lock().expect("no holder panics");
        left.append(&mut jobs);
        *jobs = left;
        group
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
