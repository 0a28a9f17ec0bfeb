//! Resources that tasks of groups want, in the control API: who has each, who is next, and what was decided.

use std::collections::{BTreeMap, BTreeSet};

use althing_api::{ResourceClaim, ResourceDecision, ResourceList, ResourceStatus, ResourceVote, WorkState};
use althing_coordination::machine::group::Group;
use althing_coordination::machine::work::{Conflict, State as TaskState, WorkItem};
use althing_protocol::PublicKey;
use althing_protocol::group::{ConflictRule, WorkId};

use crate::error::ApiError;

/// Resources that are listed at once.
const LISTED_MAX: usize = 1_000;
/// Tasks that are listed of each.
const WAITING_MAX: usize = 100;
/// Decisions that are listed: the last ones.
const DECISIONS_MAX: usize = 50;

/// The rule of that name.
pub fn rule(name: &str) -> Result<ConflictRule, ApiError> {
    let all = [ConflictRule::First, ConflictRule::Vote, ConflictRule::Priority, ConflictRule::Human];
    let found = all.into_iter().find(|rule| rule_name(*rule) == name);
    found.ok_or_else(|| ApiError::invalid(format!("{name:?} is no rule: first, vote, priority or human")))
}

fn rule_name(rule: ConflictRule) -> &'static str {
    match rule {
        ConflictRule::First => "first",
        ConflictRule::Vote => "vote",
        ConflictRule::Priority => "priority",
        ConflictRule::Human => "human",
    }
}

/// A state of a task, as this API names it.
pub fn state_of(state: TaskState) -> WorkState {
    match state {
        TaskState::Blocked => WorkState::Blocked,
        TaskState::Ready => WorkState::Ready,
        TaskState::Assigned => WorkState::Assigned,
        TaskState::Working => WorkState::Working,
        TaskState::Completed => WorkState::Completed,
        TaskState::Failed => WorkState::Failed,
        TaskState::TimedOut => WorkState::TimedOut,
        TaskState::Canceled => WorkState::Canceled,
    }
}

/// The resources that have a rule, are in use or are waited for; and the last decisions.
pub fn listed(state: &Group) -> ResourceList {
    let work = state.work();
    let mut names: BTreeMap<&str, Vec<&WorkItem>> =
        work.resources().iter().map(|(name, _)| (name, Vec::new())).collect();
    for task in work.tasks().iter().filter(|task| !task.state.is_finished()) {
        for name in &task.submit.resources {
            names.entry(name).or_default().push(task);
        }
    }
    let next: BTreeSet<WorkId> = work.assignable(state.members().len()).map(WorkItem::id).collect();
    let total = names.len();
    let resources = names.into_iter().take(LISTED_MAX).map(|(name, tasks)| resource(state, name, tasks, &next));
    let decisions: Vec<&Conflict> = work.resources().conflicts().collect();
    let last = &decisions[decisions.len().saturating_sub(DECISIONS_MAX)..];
    ResourceList {
        resources: resources.collect(),
        total,
        decisions: last.iter().map(|decision| decided(decision)).collect(),
    }
}

fn resource(state: &Group, name: &str, mut tasks: Vec<&WorkItem>, next: &BTreeSet<WorkId>) -> ResourceStatus {
    let known = state.work().resources().get(name);
    tasks.sort_by_key(|task| task.number);
    let waits = |task: &&&WorkItem| task.held.is_none();
    let claim = |task: &&WorkItem| ResourceClaim {
        task: task.id().to_string(),
        number: task.number,
        state: state_of(task.state),
        votes: known.map_or(0, |known| known.votes.values().filter(|choice| **choice == task.id()).count()),
        next: next.contains(&task.id()),
    };
    ResourceStatus {
        resource: name.to_owned(),
        rule: rule_name(known.map_or(ConflictRule::First, |known| known.rule)).to_owned(),
        used_by: state.work().tasks().user_of(name).map(|task| task.to_string()),
        waiting: tasks.iter().filter(waits).take(WAITING_MAX).map(claim).collect(),
        waiting_total: tasks.iter().filter(waits).count(),
        votes: known.map_or(0, |known| known.votes.len()),
        members: state.members().len(),
        decided: known.and_then(|known| known.chosen).map(|task| task.to_string()),
    }
}

/// A decision: who got the resource, who else wanted it, and who voted otherwise.
fn decided(decision: &Conflict) -> ResourceDecision {
    let vote = |(member, task): &(PublicKey, WorkId)| ResourceVote { node: member.did(), task: task.to_string() };
    ResourceDecision {
        number: decision.number,
        resource: decision.resource.clone(),
        rule: rule_name(decision.rule).to_owned(),
        task: decision.winner.to_string(),
        others: decision.losers.iter().map(ToString::to_string).collect(),
        others_total: decision.losers_count,
        dissent: decision.dissent.iter().map(vote).collect(),
        dissent_total: decision.dissent_count,
        at_ms: decision.at_ms,
    }
}
