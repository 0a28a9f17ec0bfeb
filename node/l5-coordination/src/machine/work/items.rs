//! All tasks of a group that are not forgotten, with their indexes and bounds.

use std::collections::BTreeMap;

use althing_protocol::group::{Author, Content, Submit, WorkId};
use althing_protocol::{PublicKey, PublisherId};

use super::super::outcome::Refusal;
use super::super::shares::Moment;
use super::index::Index;
pub use super::index::{
    INPUT_BYTES_MAX, TASKS_CONTENDING_MAX, TASKS_FINISHED_MAX, TASKS_MAX, TASKS_UNFINISHED_MAX, WORK_BYTES_MAX,
};
use super::item::{Ended, State, Why, WorkItem};
use super::watch::Watch;

/// The tasks of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkItems {
    by_id: BTreeMap<WorkId, WorkItem>,
    pub(super) index: Index,
    keys: BTreeMap<(Author, Vec<u8>), WorkId>,
    /// Tasks that were submitted so far.
    pub(super) submitted: u64,
    /// Tasks that ended so far.
    pub(super) ended: u64,
    /// Those whose end is reported.
    pub(super) watch: Watch,
    /// What was done since it was asked last what that cost (P-89).
    cost: usize,
}

/// Refuses a reference: no member fetches it.
fn check_input(input: &Content) -> Result<(), Refusal> {
    match input {
        Content::Reference(_) => {
            let why =
                "the input of a task is its text, and no reference; let the agent that does it fetch what is larger";
            Err(Refusal::Invalid(why.to_owned()))
        }
        Content::Inline(_) => Ok(()),
    }
}

impl WorkItems {
    /// The task of that id.
    #[must_use]
    pub fn get(&self, id: &WorkId) -> Option<&WorkItem> {
        self.by_id.get(id)
    }

    /// The task that `author` submitted with this idempotency key.
    #[must_use]
    pub fn find(&self, author: Author, key: &[u8]) -> Option<&WorkItem> {
        self.by_id.get(self.keys.get(&(author, key.to_vec()))?)
    }

    /// All tasks, by id.
    pub fn iter(&self) -> impl Iterator<Item = &WorkItem> {
        self.by_id.values()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// How many are not finished.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.index.unfinished()
    }

    /// Their bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.index.bytes()
    }

    /// The tasks that wait for a member: the most urgent first, and of these the first submitted.
    pub fn ready(&self) -> impl Iterator<Item = &WorkItem> {
        self.index.ready().filter_map(|id| self.by_id.get(&id))
    }

    /// The tasks that a member has, in the order of their submission.
    pub fn held_by(&self, member: &PublicKey) -> impl Iterator<Item = &WorkItem> {
        self.index.held_by(member).filter_map(|id| self.by_id.get(&id))
    }

    /// The unfinished tasks that depend on one.
    pub fn dependants(&self, id: &WorkId) -> impl Iterator<Item = WorkId> {
        self.index.dependants(id)
    }

    /// The task that has a resource.
    #[must_use]
    pub fn user_of(&self, resource: &str) -> Option<WorkId> {
        self.index.user_of(resource)
    }

    /// The ready tasks that want a resource, in the order of their submission.
    pub fn wanting(&self, resource: &str) -> impl Iterator<Item = &WorkItem> {
        self.index.wanting(resource).filter_map(|id| self.by_id.get(&id))
    }

    /// The task of that id, or the refusal.
    pub(super) fn known(&self, id: &WorkId) -> Result<&WorkItem, Refusal> {
        self.by_id.get(id).ok_or(Refusal::UnknownTask(*id))
    }

    /// Submits a task in the room of an owner; its number.
    pub(super) fn submit(
        &mut self,
        author: Author,
        owner: PublisherId,
        submit: &Submit,
        moment: Moment<'_>,
    ) -> Result<u64, Refusal> {
        if let Some(known) = submit.key.as_ref().and_then(|key| self.find(author, key)) {
            return Ok(known.number);
        }
        if self.by_id.contains_key(&submit.task) {
            return Err(Refusal::TaskExists(submit.task));
        }
        if submit.deadline_ms.is_some_and(|deadline_ms| deadline_ms <= moment.now_ms) {
            return Err(Refusal::Invalid("the deadline of the task is over; submit it with a later one".to_owned()));
        }
        check_input(&submit.input)?;
        submit.dependencies.iter().try_for_each(|on| self.known(on).map(drop))?;
        let task = WorkItem::new(submit, author, owner, self.submitted.saturating_add(1), moment.now_ms);
        self.index.check_room(&task, moment.sharers)?;
        self.submitted = task.number;
        self.cost += 1 + task.submit.dependencies.len();
        self.insert(task);
        // Before it is forgotten that something completed which this one depends on.
        self.settle(submit.task, moment.now_ms);
        self.make_room(INPUT_BYTES_MAX);
        Ok(self.submitted)
    }

    /// Adds a task of a command or of a snapshot.
    pub(super) fn insert(&mut self, task: WorkItem) {
        self.index.add(&task);
        if task.ended.is_none() {
            self.index.link_all(&task);
        }
        if let Some(key) = &task.submit.key {
            self.keys.insert((task.author, key.to_vec()), task.id());
        }
        self.by_id.insert(task.id(), task);
    }

    /// Forgets a finished task. It completed if others wait yet that depended on it: they wait for the rest. Otherwise whoever
    /// submits another task with its id would decide on theirs.
    fn forget(&mut self, id: WorkId) {
        let dependants: Vec<WorkId> = self.index.dependants(&id).collect();
        self.cost += 1 + dependants.len();
        for dependant in dependants {
            if let Some(task) = self.by_id.get_mut(&dependant) {
                task.submit.dependencies.retain(|on| *on != id);
            }
            self.index.unlink(dependant, id);
        }
        let Some(task) = self.by_id.remove(&id) else { return };
        self.index.remove(&task);
        if let Some(key) = task.submit.key {
            self.keys.remove(&(task.author, key.into()));
        }
    }

    /// Forgets finished tasks until their number and the bytes of all are within the limits.
    pub(super) fn make_room(&mut self, bytes_max: usize) {
        while let Some(id) = self.index.surplus(bytes_max) {
            self.forget(id);
        }
    }

    /// What was done since it was asked last: for each task that was submitted or ended 1, and one for each that it depended
    /// on; for each that completed one for each that depended on it; and for each that was forgotten 1, and as many.
    pub(super) fn take_cost(&mut self) -> usize {
        std::mem::take(&mut self.cost)
    }

    /// Changes a task that does not end, and the indexes with it; not what it depends on.
    pub(super) fn change(&mut self, id: WorkId, change: impl FnOnce(&mut WorkItem)) {
        if let Some(task) = self.by_id.get_mut(&id) {
            self.index.remove(task);
            change(task);
            self.index.add(task);
        }
    }

    /// Ends a task. Those that depend on it begin to wait for a member when it completed, and fail otherwise.
    pub(super) fn end(&mut self, id: WorkId, state: State, why: Option<Why>, result: Option<Content>, now_ms: u64) {
        self.finish(id, state, why, result, now_ms);
        let mut open: Vec<WorkId> = self.index.dependants(&id).collect();
        if state == State::Completed {
            self.cost += open.len();
            open.into_iter().for_each(|dependant| self.met(dependant));
        } else {
            while let Some(dependant) = open.pop() {
                if self.by_id.get(&dependant).is_some_and(|task| !task.state.is_finished()) {
                    open.extend(self.index.dependants(&dependant));
                    self.finish(dependant, State::Failed, Some(Why::Dependency(id, state)), None, now_ms);
                }
            }
        }
        self.make_room(WORK_BYTES_MAX);
    }

    fn finish(&mut self, id: WorkId, state: State, why: Option<Why>, result: Option<Content>, now_ms: u64) {
        let ended = Ended { order: self.ended, at_ms: now_ms };
        self.ended = self.ended.saturating_add(1);
        let said = self.by_id.get(&id).map(WorkItem::said).unwrap_or_default();
        self.watch.ended(id, state, why.as_ref(), (result.as_ref(), said));
        if let Some(task) = self.by_id.get(&id) {
            self.cost += 1 + task.submit.dependencies.len();
            self.index.unlink_all(task);
        }
        self.change(id, |task| {
            (task.state, task.result, task.ended) = (state, result, Some(ended));
            (task.held, task.why) = (None, why);
        });
    }
}
