//! The indexes of the tasks. Each follows from the tasks alone, so that a snapshot need not have them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::PublicKey;
use althing_protocol::group::{Priority, WorkId};

use super::task::{State, Task};

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
    /// The finished ones: the order in which they ended, and their bytes.
    finished: BTreeMap<WorkId, (u64, usize)>,
    /// The finished ones that no unfinished one depends on, in the order in which they ended.
    forgettable: BTreeSet<(u64, WorkId)>,
    /// The ready tasks that want a resource.
    wanting: BTreeMap<String, InOrder>,
    /// The task that has a resource.
    used: BTreeMap<String, WorkId>,
    unfinished: usize,
    /// Of these, how many want resources.
    contending: usize,
    bytes: usize,
    /// Of these, the bytes of those that may be forgotten.
    forgettable_bytes: usize,
}

impl Index {
    /// Adds a task.
    pub(super) fn add(&mut self, task: &Task) {
        let (id, place) = (task.id(), (task.number, task.id()));
        self.bytes += task.bytes();
        self.due.extend(task.due_ms().map(|due_ms| (due_ms, id)));
        if let Some(ended) = task.ended {
            self.finished.insert(id, (ended.order, task.bytes()));
            if !self.dependants.contains_key(&id) {
                self.release(id);
            }
            return;
        }
        self.unfinished += 1;
        self.contending += usize::from(!task.submit.resources.is_empty());
        task.submit.dependencies.iter().for_each(|on| self.link(id, *on));
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

    /// Removes a task, as it was added.
    pub(super) fn remove(&mut self, task: &Task) {
        let (id, place) = (task.id(), (task.number, task.id()));
        self.bytes -= task.bytes();
        if let Some(due_ms) = task.due_ms() {
            self.due.remove(&(due_ms, id));
        }
        if task.ended.is_some() {
            self.pin(id);
            self.finished.remove(&id);
            return;
        }
        self.unfinished -= 1;
        self.contending -= usize::from(!task.submit.resources.is_empty());
        task.submit.dependencies.iter().for_each(|on| self.unlink(id, *on));
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

    fn link(&mut self, id: WorkId, on: WorkId) {
        self.dependants.entry(on).or_default().insert(id);
        self.pin(on);
    }

    fn unlink(&mut self, id: WorkId, on: WorkId) {
        remove_from(&mut self.dependants, &on, &id);
        if !self.dependants.contains_key(&on) {
            self.release(on);
        }
    }

    /// A finished task may not be forgotten.
    fn pin(&mut self, id: WorkId) {
        if let Some((order, bytes)) = self.finished.get(&id)
            && self.forgettable.remove(&(*order, id))
        {
            self.forgettable_bytes -= bytes;
        }
    }

    /// A finished task may be forgotten.
    fn release(&mut self, id: WorkId) {
        if let Some((order, bytes)) = self.finished.get(&id)
            && self.forgettable.insert((*order, id))
        {
            self.forgettable_bytes += bytes;
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

    /// The first one that ended of those that may be forgotten, and how many these are.
    pub(super) fn forgettable(&self) -> Option<(WorkId, usize)> {
        self.forgettable.first().map(|(_, id)| (*id, self.forgettable.len()))
    }

    pub(super) fn wanting(&self, resource: &str) -> impl Iterator<Item = WorkId> {
        self.wanting.get(resource).into_iter().flatten().map(|(_, id)| *id)
    }

    pub(super) fn user_of(&self, resource: &str) -> Option<WorkId> {
        self.used.get(resource).copied()
    }

    pub(super) fn unfinished(&self) -> usize {
        self.unfinished
    }

    /// The unfinished ones that want resources.
    pub(super) fn contending(&self) -> usize {
        self.contending
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of the tasks that may not be forgotten.
    pub(super) fn bytes_kept(&self) -> usize {
        self.bytes - self.forgettable_bytes
    }
}

/// Removes one from the set of `key`, and the set with its last one.
fn remove_from<K: Ord, V: Ord>(sets: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(set) = sets.get_mut(key) {
        set.remove(value);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}
