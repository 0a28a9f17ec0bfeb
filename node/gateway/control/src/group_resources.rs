//! Resources that tasks of groups want, in the control API: who has each, who is next, and what was decided.

use std::collections::{BTreeMap, BTreeSet};

use althing_coordination::machine::group::Group;
use althing_coordination::machine::work::{Conflict, Task};
use althing_protocol::group::{ConflictRule, WorkId};
use serde_json::{Value, json};

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

/// The resources that have a rule, are in use or are waited for; and the last decisions.
pub fn listed(state: &Group) -> Value {
    let work = state.work();
    let mut names: BTreeMap<&str, Vec<&Task>> = work.resources().iter().map(|(name, _)| (name, Vec::new())).collect();
    for task in work.tasks().iter().filter(|task| !task.state.is_finished()) {
        for name in &task.submit.resources {
            names.entry(name).or_default().push(task);
        }
    }
    let next: BTreeSet<WorkId> = work.assignable(state.members().len()).map(Task::id).collect();
    let total = names.len();
    let resources = names.into_iter().take(LISTED_MAX).map(|(name, tasks)| resource(state, name, tasks, &next));
    let decisions: Vec<&Conflict> = work.resources().conflicts().collect();
    let last = &decisions[decisions.len().saturating_sub(DECISIONS_MAX)..];
    json!({
        "resources": resources.collect::<Vec<_>>(),
        "total": total,
        "decisions": last.iter().map(|decision| decided(decision)).collect::<Vec<_>>(),
    })
}

fn resource(state: &Group, name: &str, mut tasks: Vec<&Task>, next: &BTreeSet<WorkId>) -> Value {
    let known = state.work().resources().get(name);
    tasks.sort_by_key(|task| task.number);
    let waits = |task: &&&Task| task.held.is_none();
    let row = |task: &&Task| {
        let votes = known.map_or(0, |known| known.votes.values().filter(|choice| **choice == task.id()).count());
        json!({
            "task": task.id().to_string(),
            "number": task.number,
            "state": task.state.name(),
            "votes": votes,
            "next": next.contains(&task.id()),
        })
    };
    json!({
        "resource": name,
        "rule": rule_name(known.map_or(ConflictRule::First, |known| known.rule)),
        "usedBy": state.work().tasks().user_of(name).map(|task| task.to_string()),
        "waiting": tasks.iter().filter(waits).take(WAITING_MAX).map(row).collect::<Vec<_>>(),
        "waitingTotal": tasks.iter().filter(waits).count(),
        "votes": known.map_or(0, |known| known.votes.len()),
        "members": state.members().len(),
        "decided": known.and_then(|known| known.chosen).map(|task| task.to_string()),
    })
}

/// A decision: who got the resource, who else wanted it, and who voted otherwise.
fn decided(decision: &Conflict) -> Value {
    let dissent = decision.dissent.iter();
    json!({
        "number": decision.number,
        "resource": decision.resource,
        "rule": rule_name(decision.rule),
        "task": decision.winner.to_string(),
        "others": decision.losers.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "othersTotal": decision.losers_count,
        "dissent": dissent.map(|(member, task)| json!({ "node": member.did(), "task": task.to_string() })).collect::<Vec<_>>(),
        "dissentTotal": decision.dissent_count,
        "atMs": decision.at_ms,
    })
}
