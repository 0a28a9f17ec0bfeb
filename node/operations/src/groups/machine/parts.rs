//! What a group has of applications: what each consists of, and all agents, workflows and schedules.

use std::collections::{BTreeMap, BTreeSet};

use althing_coordination::Deployed;
use althing_coordination::machine::group::Group;
use althing_protocol::group::Schedule;
use serde::{Deserialize, Serialize};

/// Keys that begin so say what an application consists of.
pub const APPS: &str = "app/";
/// Keys that begin so have workflows as values, which are run by name.
pub const WORKFLOWS: &str = "workflow/";

/// What an application consists of, by name, as the group keeps it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppInventory {
    /// Those that members of the group host.
    pub agents: BTreeSet<String>,
    /// Those that are run by name.
    pub workflows: BTreeSet<String>,
    /// Those that begin runs at their times.
    pub schedules: BTreeSet<String>,
}

/// What a part of an application is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartKind {
    /// An agent, which members of the group host.
    Agent,
    /// A workflow, which is run by name.
    Workflow,
    /// A schedule, which begins runs at its times.
    Schedule,
}

impl PartKind {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PartKind::Agent => "agent",
            PartKind::Workflow => "workflow",
            PartKind::Schedule => "schedule",
        }
    }
}

/// What a group has now, as far as it matters to one application.
#[derive(Debug, Default)]
pub struct GroupParts {
    /// What that application consists of.
    pub inventory: AppInventory,
    /// All agents of the group, by name.
    pub agents: BTreeMap<String, Deployed>,
    /// The bytes of all workflows of the group, by name.
    pub workflows: BTreeMap<String, Vec<u8>>,
    /// All schedules of the group, by name.
    pub schedules: BTreeMap<String, Schedule>,
    /// The other application to which a part belongs.
    pub others: BTreeMap<(PartKind, String), String>,
}

impl GroupParts {
    /// What a group has in this state, with its agents.
    #[must_use]
    pub fn of(state: &Group, app: &str, agents: BTreeMap<String, Deployed>) -> GroupParts {
        let bytes = |key: &str| state.values().get(key).map(|value| value.bytes.clone()).unwrap_or_default();
        let inventory =
            |name: &str| serde_json::from_slice::<AppInventory>(&bytes(&format!("{APPS}{name}"))).unwrap_or_default();
        let mut others = BTreeMap::new();
        for name in app_names(state).filter(|name| *name != app) {
            let AppInventory { agents, workflows, schedules } = inventory(name);
            let parts = [(PartKind::Agent, agents), (PartKind::Workflow, workflows), (PartKind::Schedule, schedules)];
            for (kind, names) in parts {
                others.extend(names.into_iter().map(|one| ((kind, one), name.to_owned())));
            }
        }
        let workflows = state.values().keys(WORKFLOWS);
        let workflows = workflows.map(|key| (key[WORKFLOWS.len()..].to_owned(), bytes(key))).collect();
        let schedules = state.flows().schedules().iter();
        let schedules = schedules.map(|it| (it.schedule.name.clone(), it.schedule.clone())).collect();
        GroupParts { inventory: inventory(app), agents, workflows, schedules, others }
    }
}

/// The names of the applications of a group.
pub fn app_names(state: &Group) -> impl Iterator<Item = &str> {
    state.values().keys(APPS).map(|key| &key[APPS.len()..])
}
