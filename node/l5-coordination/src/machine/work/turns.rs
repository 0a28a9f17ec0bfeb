//! Whose turn it is: which of the ready tasks that want the same resource is assigned next.
//!
//! A task that wants several resources must win them in the order of their names: only who won all earlier ones contends
//! for the next. Whoever loses a resource therefore loses it to a task that contends for the same or a later one, and one
//! task always wins all that it wants, whatever the rules, unless a vote or an owner's decision is open.

use std::collections::BTreeMap;

use althing_protocol::group::{ConflictRule, WorkId};

use super::super::outcome::Refusal;
use super::item::WorkItem;
use super::items::WorkItems;
use super::resources::{Resource, Resources};

/// The turns of one state.
pub(super) struct Turns<'a> {
    tasks: &'a WorkItems,
    resources: &'a Resources,
    members: usize,
    /// Who is next, of each resource that was looked at; none while that is open.
    next: BTreeMap<&'a str, Option<WorkId>>,
    /// What it cost so far (P-89).
    looked: usize,
}

impl<'a> Turns<'a> {
    /// The turns in a group of that many members.
    pub(super) fn new(tasks: &'a WorkItems, resources: &'a Resources, members: usize) -> Turns<'a> {
        Turns { tasks, resources, members, next: BTreeMap::new(), looked: 0 }
    }

    /// What finding out cost so far: for each resource that was looked at, of each ready task that wants it, 1 and one for each
    /// resource that the task wants. Which resources these are follows from the tasks, not from the order of the visits.
    pub(super) fn looked(&self) -> usize {
        self.looked
    }

    /// Whether it is the turn of a ready task on all resources that it wants.
    pub(super) fn check(&mut self, task: &'a WorkItem) -> Result<(), Refusal> {
        for name in &task.submit.resources {
            if let Some(user) = self.tasks.user_of(name) {
                let why = format!("the resource {name:?} is used by the task {user}; assign this one when that ended");
                return Err(Refusal::Resource(why));
            }
        }
        self.look_at(task);
        for name in &task.submit.resources {
            match self.next.get(name.as_str()).copied().flatten() {
                Some(next) if next == task.id() => {}
                Some(next) => {
                    let why = format!("the resource {name:?} goes to the task {next} first; assign that one");
                    return Err(Refusal::Resource(why));
                }
                None => {
                    let why = format!("it is not decided which task gets the resource {name:?}; vote or decide");
                    return Err(Refusal::Resource(why));
                }
            }
        }
        Ok(())
    }

    /// Finds out who is next on all resources of a task, and on those that this depends on.
    fn look_at(&mut self, task: &'a WorkItem) {
        let mut found: BTreeMap<&'a str, Vec<&'a WorkItem>> = BTreeMap::new();
        let mut open: Vec<&'a str> = task.submit.resources.iter().map(String::as_str).collect();
        while let Some(name) = open.pop() {
            if self.next.contains_key(name) || found.contains_key(name) {
                continue;
            }
            let mut free = Vec::new();
            for task in self.tasks.wanting(name) {
                self.looked += 1 + task.submit.resources.len();
                if task.submit.resources.iter().all(|name| self.tasks.user_of(name).is_none()) {
                    open.extend(earlier(task, name));
                    free.push(task);
                }
            }
            found.insert(name, free);
        }
        // In the order of the names: the earlier ones are known.
        for (name, free) in found {
            let won = |task: &&WorkItem| {
                earlier(task, name).all(|earlier| self.next.get(earlier).copied().flatten() == Some(task.id()))
            };
            let contenders: Vec<&WorkItem> = free.into_iter().filter(won).collect();
            let next = winner(self.resources.get(name), &contenders, self.members);
            self.next.insert(name, next);
        }
    }
}

/// The resources of a task whose names come before `name`.
fn earlier<'t>(task: &'t WorkItem, name: &str) -> impl Iterator<Item = &'t str> {
    task.submit.resources.iter().map(String::as_str).filter(move |other| *other < name)
}

/// Who of the contenders, in the order of their submission, is next.
fn winner(resource: Option<&Resource>, contenders: &[&WorkItem], members: usize) -> Option<WorkId> {
    let first = contenders.first()?.id();
    let Some(resource) = resource.filter(|_| contenders.len() > 1) else { return Some(first) };
    match resource.rule {
        ConflictRule::First => Some(first),
        ConflictRule::Priority => {
            let urgent = contenders.iter().rev().max_by_key(|task| task.submit.priority);
            urgent.map(|task| task.id())
        }
        ConflictRule::Human => resource.chosen.filter(|chosen| contenders.iter().any(|task| task.id() == *chosen)),
        ConflictRule::Vote => {
            let mut votes: BTreeMap<WorkId, usize> = contenders.iter().map(|task| (task.id(), 0)).collect();
            for choice in resource.votes.values() {
                votes.entry(*choice).and_modify(|count| *count += 1);
            }
            let most = contenders.iter().rev().max_by_key(|task| votes[&task.id()]);
            most.filter(|_| votes.values().sum::<usize>() > members / 2).map(|task| task.id())
        }
    }
}
