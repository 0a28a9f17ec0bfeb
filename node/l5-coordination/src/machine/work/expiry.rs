//! What time, and the leaving of members, do to tasks.

use althing_protocol::PublicKey;
use althing_protocol::group::WorkId;

use super::item::{State, Why, WorkItem};
use super::items::WorkItems;

impl WorkItems {
    /// When a lease or a deadline expires next, Unix milliseconds: the next entry at or after that time changes a task.
    #[must_use]
    pub fn next_expiry_ms(&self) -> Option<u64> {
        self.index.first_due().map(|(due_ms, _)| due_ms)
    }

    /// Ends the attempts whose leases, and the tasks whose deadlines, are over.
    pub(super) fn expire(&mut self, now_ms: u64) {
        while let Some((due_ms, id)) = self.index.first_due()
            && due_ms <= now_ms
        {
            let Some(task) = self.get(&id) else { return };
            match task.held {
                _ if task.ends_ms() <= now_ms => self.end(id, State::TimedOut, Some(Why::Deadline), None, now_ms),
                Some(held) => self.end_attempt(id, State::TimedOut, Why::Lease(held.member), now_ms),
                None => return,
            }
        }
    }

    /// Ends an attempt without a result: the task waits for the next one, or becomes `last` if this was the last.
    pub(super) fn end_attempt(&mut self, id: WorkId, last: State, why: Why, now_ms: u64) {
        if self.get(&id).is_some_and(|task| task.attempt >= task.submit.attempts_max) {
            self.end(id, last, Some(why), None, now_ms);
            return;
        }
        self.change(id, |task| {
            task.take_back(why);
            task.attempt += 1;
            task.declined.clear();
        });
    }

    /// Takes from a node, which is no member any more, what it has. That is no attempt that failed.
    pub(super) fn take_from(&mut self, node: PublicKey) {
        let had: Vec<WorkId> = self.held_by(&node).map(WorkItem::id).collect();
        for id in had {
            self.change(id, |task| task.take_back(Why::Left(node)));
        }
    }
}
