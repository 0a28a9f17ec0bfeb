//! The indexes of the tasks. Each follows from the tasks alone, so that a snapshot need not have them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::group::{Priority, WorkId};
use althing_protocol::{PublicKey, PublisherId};

use super::super::outcome::Refusal;
use super::super::shares::{Ledger, Sharers};
use super::item::{State, WorkItem};

/// Tasks of a group that are not finished.
pub const TASKS_UNFINISHED_MAX: usize = 20_000;
/// Of these, those that want resources: all that are ready may have to be compared to find whose turn it is.
pub const TASKS_CONTENDING_MAX: usize = 4_096;
/// Finished tasks that are kept. Those that an unfinished one depends on are kept besides.
pub const TASKS_FINISHED_MAX: usize = 4_096;
/// Tasks of a group in all.
pub const TASKS_MAX: usize = 65_536;
/// Bytes of the tasks of a group: inputs, results and names.
pub const WORK_BYTES_MAX: usize = 64 << 20;
/// Of these, the bytes of tasks that are not finished; the rest is for results, so that tasks can complete when no more can be
/// submitted.
pub const INPUT_BYTES_MAX: usize = WORK_BYTES_MAX - (8 << 20);

/// Tasks in the order of their submission.
pub(super) type InOrder = BTreeSet<(u64, WorkId)>;

/// The indexes of the tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Index {
    /// Those that wait for a member: the most urgent first, and of these the first submitted.
    ready: BTreeSet<(Reverse<Priority>, u64, WorkId)>,
    /// When time changes which.
    due: BTreeSet<(u64, WorkId)>,
    held: BTreeMap<PublicKey, InOrder>,
    /// The unfinished tasks that depend on a task.
    dependants: BTreeMap<WorkId, BTreeSet<WorkId>>,
    /// For how many tasks that have not completed each blocked one waits.
    unmet: BTreeMap<WorkId, usize>,
    /// The owner of each finished one, and how many ended before it.
    ended: BTreeMap<WorkId, (PublisherId, u64)>,
    /// The finished ones of each owner in the order in which they are forgotten: those on which an unfinished one depends last.
    finished: BTreeMap<PublisherId, BTreeSet<(bool, u64, WorkId)>>,
    /// How many finished ones each owner has.
    finished_count: Ledger,
    /// Of these, on how many no unfinished one depends.
    unneeded: Ledger,
    /// The ready tasks that want a resource.
    wanting: BTreeMap<String, InOrder>,
    /// The task that has a resource.
    used: BTreeMap<String, WorkId>,
    /// How many each owner has that are not finished.
    unfinished: Ledger,
    /// Of these, how many want resources.
    contending: Ledger,
    /// Bytes of those that are not finished.
    unfinished_bytes: Ledger,
    bytes: Ledger,
}

impl Index {
    /// Whether there is room for a task that is not finished.
    pub(super) fn check_room(&self, task: &WorkItem, sharers: Sharers<'_>) -> Result<(), Refusal> {
        let contends = usize::from(!task.submit.resources.is_empty());
        let rooms = [
            (&self.unfinished, 1, TASKS_UNFINISHED_MAX, "tasks that are not finished"),
            (&self.contending, contends, TASKS_CONTENDING_MAX, "tasks that want resources and are not finished"),
            (&self.unfinished_bytes, task.bytes(), INPUT_BYTES_MAX, "bytes of tasks that are not finished"),
        ];
        rooms.into_iter().try_for_each(|(room, more, most, what)| room.check(&task.owner, more, most, sharers, what))
    }

    /// Adds a task, without what it depends on: that changes seldom, and is much.
    pub(super) fn add(&mut self, task: &WorkItem) {
        let (id, place) = (task.id(), (task.number, task.id()));
        self.bytes.add(task.owner, task.bytes());
        self.due.extend(task.due_ms().map(|due_ms| (due_ms, id)));
        if let Some(ended) = task.ended {
            self.ended.insert(id, (task.owner, ended.order));
            self.finished_count.add(task.owner, 1);
            self.put(id, self.dependants.contains_key(&id));
            return;
        }
        self.unfinished.add(task.owner, 1);
        self.contending.add(task.owner, usize::from(!task.submit.resources.is_empty()));
        self.unfinished_bytes.add(task.owner, task.bytes());
        if let Some(held) = task.held {
            self.held.entry(held.member).or_default().insert(place);
            self.used.extend(task.submit.resources.iter().map(|resource| (resource.clone(), id)));
        }
        if task.state == State::Ready {
            self.ready.insert((Reverse(task.submit.priority), task.number, id));
            for resource in &task.submit.resources {
                self.wanting.entry(resource.clone()).or_default().insert(place);
            }
        }
    }

    /// Removes a task, as it was added, without what it depends on.
    pub(super) fn remove(&mut self, task: &WorkItem) {
        let (id, place) = (task.id(), (task.number, task.id()));
        self.bytes.remove(&task.owner, task.bytes());
        if let Some(due_ms) = task.due_ms() {
            self.due.remove(&(due_ms, id));
        }
        if task.ended.is_some() {
            self.take(id, self.dependants.contains_key(&id));
            self.finished_count.remove(&task.owner, 1);
            self.ended.remove(&id);
            return;
        }
        self.unfinished.remove(&task.owner, 1);
        self.contending.remove(&task.owner, usize::from(!task.submit.resources.is_empty()));
        self.unfinished_bytes.remove(&task.owner, task.bytes());
        if let Some(held) = task.held {
            remove_from(&mut self.held, &held.member, &place);
            for resource in &task.submit.resources {
                self.used.remove(resource);
            }
        }
        if task.state == State::Ready {
            self.ready.remove(&(Reverse(task.submit.priority), task.number, id));
            for resource in &task.submit.resources {
                remove_from(&mut self.wanting, resource, &place);
            }
        }
    }

    /// Links a task that is not finished to all that it depends on.
    pub(super) fn link_all(&mut self, task: &WorkItem) {
        task.submit.dependencies.iter().for_each(|on| self.link(task.id(), *on));
    }

    /// Unlinks a task that is to finish, and waits for nothing any more.
    pub(super) fn unlink_all(&mut self, task: &WorkItem) {
        task.submit.dependencies.iter().for_each(|on| self.unlink(task.id(), *on));
        self.unmet.remove(&task.id());
    }

    /// One that is not finished depends on another one.
    pub(super) fn link(&mut self, id: WorkId, on: WorkId) {
        if !self.dependants.contains_key(&on) {
            self.take(on, false);
            self.put(on, true);
        }
        self.dependants.entry(on).or_default().insert(id);
    }

    /// It does so no more.
    pub(super) fn unlink(&mut self, id: WorkId, on: WorkId) {
        remove_from(&mut self.dependants, &on, &id);
        if !self.dependants.contains_key(&on) {
            self.take(on, true);
            self.put(on, false);
        }
    }

    /// A task waits for so many that have not completed.
    pub(super) fn wait_for(&mut self, id: WorkId, unmet: usize) {
        if unmet == 0 {
            self.unmet.remove(&id);
        } else {
            self.unmet.insert(id, unmet);
        }
    }

    /// One of those completed for which a task waits; whether it was the last one.
    pub(super) fn meet(&mut self, id: WorkId) -> bool {
        let Some(left) = self.unmet.get(&id).map(|unmet| unmet - 1) else { return false };
        self.wait_for(id, left);
        left == 0
    }

    /// Gives a task its place among those that may be forgotten, if it is finished.
    fn put(&mut self, id: WorkId, is_needed: bool) {
        let Some((owner, order)) = self.ended.get(&id).copied() else { return };
        if self.finished.entry(owner).or_default().insert((is_needed, order, id)) {
            self.unneeded.add(owner, usize::from(!is_needed));
        }
    }

    /// Takes it from its place.
    fn take(&mut self, id: WorkId, was_needed: bool) {
        let Some((owner, order)) = self.ended.get(&id).copied() else { return };
        if remove_from(&mut self.finished, &owner, &(was_needed, order, id)) {
            self.unneeded.remove(&owner, usize::from(!was_needed));
        }
    }

    pub(super) fn ready(&self) -> impl Iterator<Item = WorkId> {
        self.ready.iter().map(|(.., id)| *id)
    }

    pub(super) fn held_by(&self, member: &PublicKey) -> impl Iterator<Item = WorkId> {
        self.held.get(member).into_iter().flatten().map(|(_, id)| *id)
    }

    pub(super) fn first_due(&self) -> Option<(u64, WorkId)> {
        self.due.first().copied()
    }

    pub(super) fn dependants(&self, id: &WorkId) -> impl Iterator<Item = WorkId> {
        self.dependants.get(id).into_iter().flatten().copied()
    }

    /// The finished one that is forgotten next, if there are too many, or all have more than so many bytes: one of the owner
    /// that has most of what is too much, so that nobody's tasks end the memory of another one's results.
    pub(super) fn surplus(&self, bytes_max: usize) -> Option<WorkId> {
        let too_much = if self.unneeded.sum() > TASKS_FINISHED_MAX {
            &self.unneeded
        } else if self.bytes.sum() > bytes_max {
            &self.bytes
        } else if self.finished_count.sum() + self.unfinished.sum() > TASKS_MAX {
            &self.finished_count
        } else {
            return None;
        };
        let owner = too_much.largest(|owner| self.finished.contains_key(owner))?;
        self.finished.get(&owner)?.first().map(|(.., id)| *id)
    }

    pub(super) fn wanting(&self, resource: &str) -> impl Iterator<Item = WorkId> {
        self.wanting.get(resource).into_iter().flatten().map(|(_, id)| *id)
    }

    pub(super) fn user_of(&self, resource: &str) -> Option<WorkId> {
        self.used.get(resource).copied()
    }

    pub(super) fn unfinished(&self) -> usize {
        self.unfinished.sum()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.sum()
    }
}

/// Removes one from the set of `key`, and the set with its last one; whether it was there.
fn remove_from<K: Ord, V: Ord>(sets: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) -> bool {
    let Some(set) = sets.get_mut(key) else { return false };
    let was_there = set.remove(value);
    if set.is_empty() {
        sets.remove(key);
    }
    was_there
}
