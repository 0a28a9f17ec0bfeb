//! What is noted as an event by whoever watches it: groups, their tasks, the owner's keys. The rest is noted where it changes.

use std::collections::BTreeMap;
use std::time::Duration;

use althing_calls::TurnEnd;
use althing_coordination::machine::group::Group;
use althing_coordination::machine::work::State;
use althing_coordination::{GroupChanges, Groups, Overview};
use althing_protocol::group::GroupId;

use crate::events::{Event, Events, TaskCounts};
use crate::identity::Identity;
use crate::owner::{self, Owner};

/// Between two looks at groups, which may change with each entry of their logs.
const PAUSE: Duration = Duration::from_millis(250);

/// What is told of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
struct GroupLook {
    name: String,
    standing: String,
    leader: Option<String>,
    /// The last entry that is applied here: tasks change by entries alone.
    applied: Option<u64>,
    /// None where the group's state cannot be read here.
    tasks: Option<TaskCounts>,
}

/// The event that a turn of a task ended.
pub(crate) fn turn_end(end: TurnEnd) -> Event {
    let state = serde_json::to_value(&end.state).ok().and_then(|state| state.as_str().map(str::to_owned));
    Event::Task { task: end.task, agent: end.agent, state: state.unwrap_or_default() }
}

/// Notes changes of groups and of the owner's keys, for as long as the node runs.
pub(crate) async fn follow(events: &Events, identity: &Identity, groups: &Groups) {
    tokio::join!(follow_keys(events, identity), follow_groups(events, groups));
}

async fn follow_keys(events: &Events, identity: &Identity) {
    let mut owners = identity.owner_changes();
    let mut known = keys(&owners.borrow_and_update().clone(), identity);
    while owners.changed().await.is_ok() {
        let now = keys(&owners.borrow_and_update().clone(), identity);
        if now != known {
            events.note(now.clone());
            known = now;
        }
    }
}

/// The owner's keys, as an event tells them.
fn keys(owner: &Owner, identity: &Identity) -> Event {
    let now_ms = identity.clock().now_ms();
    let is_withdrawn = owner.withdrew(identity.key.public(), now_ms);
    let state = if is_withdrawn { "withdrawn" } else { owner.state(now_ms) };
    Event::OwnerKeys { state: state.to_owned(), key: owner::key_name(owner.key.public()) }
}

async fn follow_groups(events: &Events, groups: &Groups) {
    let mut changes = GroupChanges::of(groups);
    let mut known = BTreeMap::new();
    loop {
        let now = look(groups, &known);
        differences(&known, &now).into_iter().for_each(|event| events.note(event));
        known = now;
        changes.changed().await;
        tokio::time::sleep(PAUSE).await;
    }
}

/// The groups as they are now; of those whose logs did not grow, the tasks as they were.
fn look(groups: &Groups, known: &BTreeMap<GroupId, GroupLook>) -> BTreeMap<GroupId, GroupLook> {
    let look = |group: Overview| {
        let (applied, leader) = group.replica.map_or((None, None), |replica| (replica.applied, replica.leader));
        let before = known.get(&group.id).filter(|before| before.applied == applied && before.tasks.is_some());
        let tasks = match before {
            Some(before) => before.tasks,
            None => groups.look(group.id, counts).ok(),
        };
        let leader = leader.map(|leader| leader.did());
        (group.id, GroupLook { name: group.name, standing: group.standing.to_owned(), leader, applied, tasks })
    };
    groups.list().into_iter().map(look).collect()
}

fn counts(group: &Group) -> TaskCounts {
    let mut counts = TaskCounts::default();
    for task in group.work().tasks().iter() {
        match task.state {
            State::Blocked | State::Ready => counts.waiting += 1,
            State::Assigned | State::Working => counts.working += 1,
            State::Completed => counts.completed += 1,
            State::Failed | State::TimedOut => counts.failed += 1,
            State::Canceled => {}
        }
    }
    counts
}

/// What happened between two looks at the groups.
fn differences(before: &BTreeMap<GroupId, GroupLook>, now: &BTreeMap<GroupId, GroupLook>) -> Vec<Event> {
    let told = |group: &GroupId, look: &GroupLook| Event::Group {
        group: group.to_string(),
        name: look.name.clone(),
        standing: look.standing.clone(),
        leader: look.leader.clone(),
    };
    let mut events = Vec::new();
    for (group, look) in before.iter().filter(|(group, _)| !now.contains_key(*group)) {
        let gone = GroupLook { standing: "forgotten".to_owned(), leader: None, ..look.clone() };
        events.push(told(group, &gone));
    }
    for (group, look) in now {
        let known = before.get(group);
        let event = told(group, look);
        if known.is_none_or(|known| told(group, known) != event) {
            events.push(event);
        }
        // A group that is new here and has no tasks has nothing to tell of them.
        let known = known.map_or_else(TaskCounts::default, |known| known.tasks.unwrap_or_default());
        if let Some(tasks) = look.tasks.filter(|tasks| *tasks != known) {
            events.push(Event::GroupTasks { group: group.to_string(), tasks });
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> GroupLook {
        GroupLook {
            name: "crew".to_owned(),
            standing: "member".to_owned(),
            leader: Some("did:key:z6Mk".to_owned()),
            applied: Some(3),
            tasks: Some(TaskCounts::default()),
        }
    }

    fn told(id: GroupId, look: &GroupLook) -> Event {
        let GroupLook { name, standing, leader, .. } = look.clone();
        Event::Group { group: id.to_string(), name, standing, leader }
    }

    #[test]
    fn what_changed_of_groups_is_told_and_nothing_else() {
        let id = GroupId::from_digest([1; 32]);
        let looks = |look: &GroupLook| BTreeMap::from([(id, look.clone())]);
        let (none, first) = (BTreeMap::new(), one());
        assert_eq!(differences(&none, &looks(&first)), [told(id, &first)], "a group is new here");
        let grown = GroupLook { applied: Some(9), ..first.clone() };
        assert!(differences(&looks(&first), &looks(&grown)).is_empty(), "that its log grew is no event");
        let headless = GroupLook { leader: None, ..grown.clone() };
        assert_eq!(differences(&looks(&grown), &looks(&headless)), [told(id, &headless)]);
        let tasks = TaskCounts { waiting: 2, completed: 1, ..TaskCounts::default() };
        let busy = GroupLook { tasks: Some(tasks), ..headless.clone() };
        let of_tasks = Event::GroupTasks { group: id.to_string(), tasks };
        assert_eq!(differences(&looks(&headless), &looks(&busy)), std::slice::from_ref(&of_tasks));
        let unread = GroupLook { tasks: None, ..busy.clone() };
        assert!(differences(&looks(&busy), &looks(&unread)).is_empty(), "what cannot be read is not told");
        let gone = GroupLook { standing: "forgotten".to_owned(), leader: None, ..busy.clone() };
        assert_eq!(differences(&looks(&busy), &none), [told(id, &gone)]);
        assert_eq!(differences(&none, &looks(&busy)), [told(id, &busy), of_tasks]);
    }

    #[test]
    fn the_end_of_a_turn_has_the_state_that_a2a_names() {
        let end = |state| turn_end(TurnEnd { task: "one".to_owned(), agent: "echo".to_owned(), state });
        let state = |event| match event {
            Event::Task { state, .. } => state,
            other => panic!("{other:?}"),
        };
        assert_eq!(state(end(a2a::TaskState::Completed)), "TASK_STATE_COMPLETED");
        assert_eq!(state(end(a2a::TaskState::AuthRequired)), "TASK_STATE_AUTH_REQUIRED");
    }
}
