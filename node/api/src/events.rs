//! What happens on a node, as it happens.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AgentEntry, GroupEntry, KeyStatus};

/// A line of what `GET /events` answers: the data of one server-sent event, whose id and name are in it too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventLine {
    /// Its number, after which others are asked for: later events have higher ones, also when the node starts again.
    pub id: u64,
    /// When it happened, milliseconds since 1970.
    pub at_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: NodeEvent,
}

/// What happened on a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum NodeEvent {
    /// An agent runs from now on.
    AgentStart {
        /// Its name.
        agent: String,
        /// The urn by which others call it.
        agent_id: String,
    },
    /// An agent runs no more.
    AgentEnd {
        /// Its name.
        agent: String,
    },
    /// A turn of a task that an agent of this node has is over.
    Task {
        /// The task's id.
        task: String,
        /// The agent, by name.
        agent: String,
        /// The task's state, as A2A names it: `TASK_STATE_COMPLETED`.
        state: String,
    },
    /// This node's part in a group is another one, or somebody else leads it.
    Group {
        /// The group's id.
        group: String,
        /// Its name, for people.
        name: String,
        /// `member`, `joining`, `gone` or `dissolved`; `forgotten` where this node has nothing of it any more.
        standing: String,
        /// The DID of who leads it, if that is known.
        leader: Option<String>,
    },
    /// Other tasks of a group are waiting, worked on, completed or failed.
    GroupTasks {
        /// The group's id.
        group: String,
        /// Tasks that no member has yet.
        waiting: usize,
        /// Tasks that a member has.
        working: usize,
        /// Tasks that were completed.
        completed: usize,
        /// Tasks that failed, or took too long.
        failed: usize,
    },
    /// The owner trusts somebody from now on, or no longer.
    #[serde(rename = "trust")]
    TrustChange {
        /// The id of a node or a publisher.
        whom: String,
        /// Whether it is trusted.
        trusted: bool,
    },
    /// A registry is followed from now on or no longer, or is asked nothing more.
    Registry {
        /// Its address.
        registry: String,
        /// Whether it is followed.
        followed: bool,
        /// Whether it showed two histories: then it is asked nothing more.
        forked: bool,
    },
    /// The owner's keys are others.
    OwnerKeys {
        /// `active`, `rotating`, `revoked`, `outdated` or `withdrawn`.
        state: String,
        /// The name of the key that signs here.
        key: String,
    },
    /// Events were asked for that are not kept any more: this is how everything is instead, with what came until then in it.
    Snapshot(Box<NodeSnapshot>),
}

impl NodeEvent {
    /// Its name, as JSON has it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            NodeEvent::AgentStart { .. } => "agentStart",
            NodeEvent::AgentEnd { .. } => "agentEnd",
            NodeEvent::Task { .. } => "task",
            NodeEvent::Group { .. } => "group",
            NodeEvent::GroupTasks { .. } => "groupTasks",
            NodeEvent::TrustChange { .. } => "trust",
            NodeEvent::Registry { .. } => "registry",
            NodeEvent::OwnerKeys { .. } => "ownerKeys",
            NodeEvent::Snapshot(_) => "snapshot",
        }
    }
}

/// How everything is of which events tell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSnapshot {
    /// How many events are not told; none if those that were asked for are of another run of the node.
    pub missed: Option<u64>,
    /// Its agents, as `GET /ps` tells them.
    pub agents: Vec<AgentEntry>,
    /// Turns of tasks that run.
    pub live_tasks: usize,
    /// Its groups with the numbers of their tasks, as `GET /groups` tells them.
    pub groups: Vec<GroupEntry>,
    /// The ids of those whom the owner trusts.
    pub trusted: Vec<String>,
    /// The addresses of the registries that it follows.
    pub registries: Vec<String>,
    /// The state of the owner's keys.
    pub owner_keys: KeyStatus,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    fn line(event: NodeEvent) -> EventLine {
        EventLine { id: 7, at_ms: 1_700_000_000_000, event }
    }

    #[test]
    fn an_event_says_what_happened_beside_its_number_and_its_time() {
        let events = [
            (
                NodeEvent::AgentStart { agent: "echo".to_owned(), agent_id: "urn:althing:z6Mk:echo".to_owned() },
                r#""agent":"echo","agentId":"urn:althing:z6Mk:echo""#,
            ),
            (NodeEvent::AgentEnd { agent: "echo".to_owned() }, r#""agent":"echo""#),
            (
                NodeEvent::Task {
                    task: "one".to_owned(),
                    agent: "echo".to_owned(),
                    state: "TASK_STATE_COMPLETED".to_owned(),
                },
                r#""task":"one","agent":"echo","state":"TASK_STATE_COMPLETED""#,
            ),
            (
                NodeEvent::Group {
                    group: "urn:althing:z".to_owned(),
                    name: "crew".to_owned(),
                    standing: "member".to_owned(),
                    leader: None,
                },
                r#""group":"urn:althing:z","name":"crew","standing":"member","leader":null"#,
            ),
            (
                NodeEvent::GroupTasks {
                    group: "urn:althing:z".to_owned(),
                    waiting: 1,
                    working: 2,
                    completed: 3,
                    failed: 4,
                },
                r#""group":"urn:althing:z","waiting":1,"working":2,"completed":3,"failed":4"#,
            ),
            (
                NodeEvent::TrustChange { whom: "did:key:z6Mk".to_owned(), trusted: true },
                r#""whom":"did:key:z6Mk","trusted":true"#,
            ),
            (
                NodeEvent::Registry { registry: "https://r.example".to_owned(), followed: true, forked: false },
                r#""registry":"https://r.example","followed":true,"forked":false"#,
            ),
            (NodeEvent::OwnerKeys { state: "active".to_owned(), key: "1".to_owned() }, r#""state":"active","key":"1""#),
        ];
        for (event, members) in events {
            let name = event.name();
            let json = format!(r#"{{"id":7,"atMs":1700000000000,"event":"{name}",{members}}}"#);
            assert_json(&line(event), &json);
        }
    }

    #[test]
    fn a_snapshot_says_how_many_events_it_stands_for() {
        let snapshot = NodeSnapshot {
            missed: Some(3),
            agents: Vec::new(),
            live_tasks: 1,
            groups: Vec::new(),
            trusted: vec!["did:key:z6Mk".to_owned()],
            registries: Vec::new(),
            owner_keys: KeyStatus { state: "active".to_owned(), key: "1".to_owned(), events: 1 },
        };
        assert_json(
            &line(NodeEvent::Snapshot(Box::new(snapshot))),
            concat!(
                r#"{"id":7,"atMs":1700000000000,"event":"snapshot","missed":3,"agents":[],"liveTasks":1,"groups":[],"#,
                r#""trusted":["did:key:z6Mk"],"registries":[],"ownerKeys":{"state":"active","key":"1","events":1}}"#,
            ),
        );
    }
}
