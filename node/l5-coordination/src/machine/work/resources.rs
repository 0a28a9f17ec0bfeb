//! The rules of resources, the votes on them, and the record of what was decided.

use std::collections::{BTreeMap, VecDeque};

use althing_protocol::group::{Choice, ConflictRule, Define, WorkId};
use althing_protocol::{PublicKey, PublisherId};
use minicbor::{Decode, Encode};

use super::super::outcome::Refusal;
use super::super::shares::{Ledger, Sharers};
use super::item::WorkItem;
use super::items::WorkItems;

/// Resources of a group that have a rule other than the usual one.
pub const RESOURCES_MAX: usize = 1_024;
/// Decisions that are recorded: the last ones.
pub const CONFLICTS_MAX: usize = 1_024;
/// Losers, and votes against, that a record lists.
pub const CONFLICT_LIST_MAX: usize = 32;

/// A resource that has a rule.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Resource {
    /// The rule.
    #[n(0)]
    pub rule: ConflictRule,
    /// The votes on the next decision.
    #[n(1)]
    pub votes: BTreeMap<PublicKey, WorkId>,
    /// What an owner decided.
    #[n(2)]
    pub chosen: Option<WorkId>,
    /// In whose room it is: the owner of who set the rule.
    #[n(3)]
    pub owner: PublisherId,
}

/// A decision about a resource.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Conflict {
    /// How many were decided before.
    #[n(0)]
    pub number: u64,
    /// Which resource.
    #[n(1)]
    pub resource: String,
    /// By which rule.
    #[n(2)]
    pub rule: ConflictRule,
    /// The task that got it.
    #[n(3)]
    pub winner: WorkId,
    /// The first [`CONFLICT_LIST_MAX`] of those that wait for it.
    #[n(4)]
    pub losers: Vec<WorkId>,
    /// How many wait for it.
    #[n(5)]
    pub losers_count: u32,
    /// The dissent: the first [`CONFLICT_LIST_MAX`] members that voted for another task, and for which.
    #[n(6)]
    pub dissent: Vec<(PublicKey, WorkId)>,
    /// How many voted for another task.
    #[n(7)]
    pub dissent_count: u32,
    /// When, Unix milliseconds.
    #[n(8)]
    pub at_ms: u64,
}

/// The resources of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    pub(super) by_name: BTreeMap<String, Resource>,
    log: VecDeque<Conflict>,
    /// Decisions so far.
    pub(super) decisions: u64,
}

impl Resources {
    /// Those that have a rule other than [`ConflictRule::First`], by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Resource)> {
        self.by_name.iter().map(|(name, resource)| (name.as_str(), resource))
    }

    /// The last decisions, the oldest first.
    pub fn conflicts(&self) -> impl Iterator<Item = &Conflict> {
        self.log.iter()
    }

    /// The resource of that name, if it has a rule other than [`ConflictRule::First`].
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Resource> {
        self.by_name.get(name)
    }

    /// Sets a rule in the room of an owner. What was voted and decided under another one ends.
    pub(super) fn define(&mut self, define: &Define, owner: PublisherId, sharers: Sharers<'_>) -> Result<(), Refusal> {
        let known = self.by_name.get(&define.resource);
        if known.map_or(ConflictRule::First, |resource| resource.rule) == define.rule {
            return Ok(());
        }
        if define.rule == ConflictRule::First {
            self.by_name.remove(&define.resource);
            return Ok(());
        }
        if known.is_none_or(|known| known.owner != owner) {
            let mut others = Ledger::default();
            for (_, other) in self.iter().filter(|(name, _)| *name != define.resource) {
                others.add(other.owner, 1);
            }
            others.check(&owner, 1, RESOURCES_MAX, sharers, "resources with a rule other than `first`")?;
        }
        let resource = Resource { rule: define.rule, votes: BTreeMap::new(), chosen: None, owner };
        self.by_name.insert(define.resource.clone(), resource);
        Ok(())
    }

    /// A node is no member any more: its votes end.
    pub(super) fn leave(&mut self, node: &PublicKey) {
        for resource in self.by_name.values_mut() {
            resource.votes.remove(node);
        }
    }

    /// Records a decision; the next one needs votes or a choice of its own.
    pub(super) fn decided(&mut self, conflict: Conflict, at_ms: u64) {
        if let Some(resource) = self.by_name.get_mut(&conflict.resource) {
            resource.votes.clear();
            resource.chosen = None;
        }
        if self.log.len() == CONFLICTS_MAX {
            self.log.pop_front();
        }
        self.log.push_back(Conflict { number: self.decisions, at_ms, ..conflict });
        self.decisions = self.decisions.saturating_add(1);
    }

    /// Adds a record of a snapshot.
    pub(super) fn restore(&mut self, conflict: Conflict) {
        self.log.push_back(conflict);
    }

    /// The decision that gives `winner` a resource, if others want it.
    pub(super) fn conflict(&self, tasks: &WorkItems, name: &str, winner: WorkId) -> Option<Conflict> {
        let losers: Vec<WorkId> = tasks.wanting(name).map(WorkItem::id).filter(|id| *id != winner).collect();
        if losers.is_empty() {
            return None;
        }
        let resource = self.get(name);
        let votes = resource.into_iter().flat_map(|resource| &resource.votes);
        let dissent: Vec<_> = votes.map(|(member, id)| (*member, *id)).filter(|(_, id)| *id != winner).collect();
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        Some(Conflict {
            number: 0,
            resource: name.to_owned(),
            rule: resource.map_or(ConflictRule::First, |resource| resource.rule),
            winner,
            losers_count: count(losers.len()),
            losers: losers.into_iter().take(CONFLICT_LIST_MAX).collect(),
            dissent_count: count(dissent.len()),
            dissent: dissent.into_iter().take(CONFLICT_LIST_MAX).collect(),
            at_ms: 0,
        })
    }

    /// The resource of a choice, if it has that rule, and the task wants it and has not begun.
    fn choosable(&mut self, tasks: &WorkItems, choice: &Choice, rule: ConflictRule) -> Result<&mut Resource, Refusal> {
        let task = tasks.known(&choice.task)?;
        if task.state.is_finished() || task.held.is_some() {
            return Err(Refusal::TaskState { task: choice.task, state: task.state });
        }
        if !task.submit.resources.contains(&choice.resource) {
            let why = format!("the task {} does not want the resource {:?}", choice.task, choice.resource);
            return Err(Refusal::Resource(why));
        }
        let resource = self.by_name.get_mut(&choice.resource).filter(|resource| resource.rule == rule);
        let other = || Refusal::Resource(format!("the resource {:?} has another rule; set it first", choice.resource));
        resource.ok_or_else(other)
    }

    /// A member votes; a later vote of it replaces the earlier one.
    pub(super) fn vote(&mut self, tasks: &WorkItems, node: PublicKey, choice: &Choice) -> Result<(), Refusal> {
        self.choosable(tasks, choice, ConflictRule::Vote)?.votes.insert(node, choice.task);
        Ok(())
    }

    /// An owner decides.
    pub(super) fn decide(&mut self, tasks: &WorkItems, choice: &Choice) -> Result<(), Refusal> {
        self.choosable(tasks, choice, ConflictRule::Human)?.chosen = Some(choice.task);
        Ok(())
    }
}
