//! Reads unfinished tasks before it is their turn to go on, many at once where nothing else waits: on the way there and back each of
//! them would wait for two threads to wake.

use std::collections::VecDeque;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinHandle;

use crate::tasks::runner::TaskRunner;
use crate::tasks::task_rows::{self, TaskCopy};

/// Tasks that are read at once.
const AT_ONCE: usize = 32;
/// Bytes of them after which the others are left: they are read one by one.
const BYTES_MAX: usize = 1 << 20;

/// A task as it was read; none where it was left, or could not be read.
type AheadCopy = Option<Box<TaskCopy>>;

/// Unfinished tasks in their order, each with what was read of it.
pub(super) struct ReadAhead {
    runner: TaskRunner,
    left: VecDeque<String>,
    reading: Option<(Vec<String>, JoinHandle<Vec<AheadCopy>>)>,
    there: VecDeque<(String, AheadCopy)>,
}

impl ReadAhead {
    /// Those with these ids.
    pub fn of(runner: &TaskRunner, ids: Vec<String>) -> ReadAhead {
        ReadAhead { runner: runner.clone(), left: ids.into(), reading: None, there: VecDeque::new() }
    }

    /// The next one; none after the last.
    pub async fn next(&mut self) -> Option<(String, AheadCopy)> {
        if self.there.is_empty() {
            // There it would only be read earlier.
            if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
                return self.left.pop_front().map(|id| (id, None));
            }
            let (ids, reading) = self.reading.take().or_else(|| self.begin())?;
            let mut copies = reading.await.unwrap_or_default().into_iter();
            self.there = ids.into_iter().map(|id| (id, copies.next().flatten())).collect();
            // While these go on, the next ones are read.
            self.reading = self.begin();
        }
        self.there.pop_front()
    }

    /// Begins to read the next ones, if there are any.
    fn begin(&mut self) -> Option<(Vec<String>, JoinHandle<Vec<AheadCopy>>)> {
        let ids: Vec<String> = self.left.drain(..AT_ONCE.min(self.left.len())).collect();
        let (runner, named) = (self.runner.clone(), ids.clone());
        let reading = async move {
            let reader = runner.clone();
            runner.apart(move || copies(&reader, &named)).await.unwrap_or_default()
        };
        (!ids.is_empty()).then(|| (ids, tokio::spawn(reading)))
    }
}

/// Reads tasks one after another.
fn copies(runner: &TaskRunner, ids: &[String]) -> Vec<AheadCopy> {
    let (mut bytes, mut all) = (0usize, Vec::with_capacity(ids.len()));
    for id in ids {
        if bytes >= BYTES_MAX {
            break;
        }
        let copy = task_rows::copy(runner, id).map(Box::new);
        bytes = bytes.saturating_add(copy.as_ref().map_or(0, |copy| copy.bytes()));
        all.push(copy);
    }
    all
}

/// Reads one task.
pub(super) async fn one(runner: &TaskRunner, id: &str) -> AheadCopy {
    let (reader, id) = (runner.clone(), id.to_owned());
    runner.apart(move || task_rows::copy(&reader, &id).map(Box::new)).await.ok().flatten()
}
