//! `althing events`: what happens on the node, as it happens.

use althing_api::{EventLine, GroupEntry, NodeEvent, NodeSnapshot};
use althing_client::ServerEvents;

use crate::args::Events;
use crate::commands::{Out, moment, reader_gone, short};
use crate::exit::Failure;
use crate::paths::Paths;

/// Prints events as they happen, until Ctrl-C, or until nobody reads them.
pub async fn run(at: &Paths, asked: &Events, out: &Out) -> Result<(), Failure> {
    let mut events = at.connect().await?.events("/events", asked.after).await?;
    tokio::select! {
        outcome = print(&mut events, asked.count, out) => outcome,
        _ = tokio::signal::ctrl_c() => Ok(()),
        () = reader_gone() => Ok(()),
    }
}

async fn print(events: &mut ServerEvents, count: Option<u64>, out: &Out) -> Result<(), Failure> {
    let mut left = count;
    while left != Some(0) {
        let Some(line) = events.next::<EventLine>().await? else { return Ok(()) };
        if !out.line(&line, shown) {
            return Ok(());
        }
        left = left.map(|left| left - 1);
    }
    Ok(())
}

fn shown(line: &EventLine) -> String {
    let at = moment(line.at_ms).map(|at| at.format("%H:%M:%S%.3f").to_string()).unwrap_or_default();
    format!("{at} {}", words(&line.event))
}

fn words(event: &NodeEvent) -> String {
    match event {
        NodeEvent::AgentStart { agent, agent_id } => format!("agent {agent} runs ({agent_id})"),
        NodeEvent::AgentEnd { agent } => format!("agent {agent} runs no more"),
        NodeEvent::Task { task, agent, state } => format!("task {task} of {agent}: {}", plain_state(state)),
        NodeEvent::Group { name, standing, leader, .. } => {
            format!("group {name}: {}", standing_words(standing, leader.as_deref()))
        }
        NodeEvent::GroupTasks { group, waiting, working, completed, failed } => {
            let tasks = task_words([*waiting, *working, *completed, *failed]);
            format!("tasks of {group}: {tasks}")
        }
        NodeEvent::TrustChange { whom, trusted: true } => format!("trusts {whom}"),
        NodeEvent::TrustChange { whom, trusted: false } => format!("trusts {whom} no longer"),
        NodeEvent::Registry { registry, followed: false, .. } => format!("follows the registry {registry} no longer"),
        NodeEvent::Registry { registry, forked: false, .. } => format!("follows the registry {registry}"),
        NodeEvent::Registry { registry, .. } => {
            format!("asks the registry {registry} nothing more: it showed two histories")
        }
        NodeEvent::OwnerKeys { state, key } => format!("the owner's keys: {state}; {key} signs"),
        NodeEvent::Snapshot(snapshot) => snapshot_words(snapshot),
    }
}

/// A state of A2A's without what all of them begin with.
fn plain_state(state: &str) -> String {
    state.strip_prefix("TASK_STATE_").unwrap_or(state).to_lowercase().replace('_', " ")
}

fn standing_words(standing: &str, leader: Option<&str>) -> String {
    match (standing, leader) {
        ("member" | "joining", Some(leader)) => format!("{standing}, {} leads", short(leader)),
        ("member" | "joining", None) => format!("{standing}, nobody leads"),
        _ => standing.to_owned(),
    }
}

/// Tasks that wait, are worked on, were completed, and failed.
fn task_words([waiting, working, completed, failed]: [usize; 4]) -> String {
    format!("{waiting} waiting, {working} working, {completed} completed, {failed} failed")
}

fn snapshot_words(snapshot: &NodeSnapshot) -> String {
    let why = match snapshot.missed {
        Some(missed) => format!("{missed} events are not kept any more; this is how everything is"),
        None => "this is how everything is".to_owned(),
    };
    let agents = snapshot.agents.iter().map(|agent| format!("agent {}: {}", agent.name(), agent.state().name()));
    let turns = format!("turns that run: {}", snapshot.live_tasks);
    let trusted = snapshot.trusted.iter().map(|whom| format!("trusts {whom}"));
    let registries = snapshot.registries.iter().map(|registry| format!("follows the registry {registry}"));
    let keys = format!("the owner's keys: {}; {} signs", snapshot.owner_keys.state, snapshot.owner_keys.key);
    let lines = agents.chain([turns]).chain(snapshot.groups.iter().map(group_words)).chain(trusted).chain(registries);
    lines.chain([keys]).fold(why, |text, line| text + "\n  " + &line)
}

fn group_words(group: &GroupEntry) -> String {
    let standing = standing_words(&group.summary.standing, group.summary.leader.as_deref());
    let tasks = group.work.as_ref().map(|work| task_words([work.waiting, work.working, work.completed, work.failed]));
    format!("group {}: {standing}{}", group.summary.name, tasks.map(|tasks| format!("; {tasks}")).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use althing_api::{AgentCondition, AgentEntry, AgentStart, KeyStatus};

    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let line = |event| shown(&EventLine { id: 7, at_ms: 3_661_250, event });
        let (agent, whom) = ("echo".to_owned(), "did:key:z6Mk".to_owned());
        let state = "TASK_STATE_INPUT_REQUIRED".to_owned();
        let task = NodeEvent::Task { task: "one".to_owned(), agent: agent.clone(), state };
        assert_eq!(line(task), "01:01:01.250 task one of echo: input required");
        assert_eq!(line(NodeEvent::AgentEnd { agent }), "01:01:01.250 agent echo runs no more");
        let group = |standing: &str, leader: Option<&String>| {
            let (group, name) = ("urn:althing:z".to_owned(), "crew".to_owned());
            words(&NodeEvent::Group { group, name, standing: standing.to_owned(), leader: leader.cloned() })
        };
        assert_eq!(group("member", Some(&whom)), "group crew: member, z6Mk leads");
        assert_eq!(group("member", None), "group crew: member, nobody leads");
        assert_eq!(group("forgotten", None), "group crew: forgotten");
        assert_eq!(words(&NodeEvent::TrustChange { whom, trusted: false }), "trusts did:key:z6Mk no longer");
        let registry = |followed, forked| {
            words(&NodeEvent::Registry { registry: "https://r.example".to_owned(), followed, forked })
        };
        assert_eq!(registry(true, false), "follows the registry https://r.example");
        assert_eq!(registry(false, true), "follows the registry https://r.example no longer");
        assert!(registry(true, true).ends_with("nothing more: it showed two histories"));
    }

    #[test]
    fn a_snapshot_says_what_it_stands_for_and_has_a_line_for_each_thing() {
        let start =
            AgentStart { name: "echo".to_owned(), class: "srt".to_owned(), state: AgentCondition::Starting, why: None };
        let snapshot = |missed| NodeSnapshot {
            missed,
            agents: vec![AgentEntry::Start(start.clone())],
            live_tasks: 2,
            groups: Vec::new(),
            trusted: vec!["did:key:z6Mk".to_owned()],
            registries: vec!["https://r.example".to_owned()],
            owner_keys: KeyStatus { state: "active".to_owned(), key: "k1".to_owned(), events: 1 },
        };
        assert_eq!(
            snapshot_words(&snapshot(Some(3))),
            "3 events are not kept any more; this is how everything is\n  agent echo: starting\n  turns that run: 2\n  \
             trusts did:key:z6Mk\n  follows the registry https://r.example\n  the owner's keys: active; k1 signs"
        );
        assert!(snapshot_words(&snapshot(None)).starts_with("this is how everything is\n"));
    }
}
