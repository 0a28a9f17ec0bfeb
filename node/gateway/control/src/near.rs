//! Names that somebody wrote and that nothing has: the answer names one that differs little. Whoever uses this API owns the
//! node, and may see all that it knows; faces for others say nothing of what they did not ask for.

use althing_calls::{Among, Asker, Purpose};
use althing_coordination::machine::group::Group;
use althing_coordination::machine::outcome::Refusal;
use althing_coordination::machine::read_scope::ReadScope;
use althing_coordination::{GroupError, Reader};
use althing_discovery::{Found, Query};
use althing_node::{NodeError, publish};
use althing_operations::Operations;
use althing_protocol::group::{Command, GroupId};
use althing_protocol::near;

use crate::error::ApiError;

/// Agents whose names are compared, at most.
const AGENTS_MAX: usize = 1_000;

impl ApiError {
    /// The same, with the known name that may be meant by the one that was written.
    pub(crate) fn or_meant(mut self, written: &str, known: &[String]) -> ApiError {
        self.0.message += &near::hint(written, known.iter().map(String::as_str));
        self
    }
}

/// The names of this node's agents, also of those that do not run.
pub fn own_agents(node: &Operations) -> Vec<String> {
    let stored = publish::all(node.store.as_ref()).unwrap_or_default();
    stored.into_iter().map(|added| added.file.name).collect()
}

/// The names of the agents that may be called by name: this node's, and those that others whom its owner trusts publish; of
/// strangers too if `among` allows it.
pub fn agents(node: &Operations, among: Among) -> Vec<String> {
    let (found, _) = node.discovery.find(&Query { limit: Some(AGENTS_MAX), ..Query::default() });
    let may = |found: &&Found| {
        let agent = &found.candidate.verified.agent;
        node.calls.offers(&Asker::Owner, agent, among, Purpose::Call)
    };
    let mut names = own_agents(node);
    names.extend(found.iter().filter(may).map(|found| found.candidate.verified.agent.name().to_owned()));
    names
}

/// The group of that id or name.
pub fn group(node: &Operations, written: &str) -> Result<GroupId, ApiError> {
    node.groups.resolve(written).map_err(|error| no_group(node, written, error))
}

/// Why no group is meant, with one that may be.
pub fn no_group(node: &Operations, written: &str, error: GroupError) -> ApiError {
    let is_unknown = matches!(error, GroupError::NotFound(_));
    let problem = ApiError::from(error);
    if !is_unknown {
        return problem;
    }
    let names: Vec<String> = node.groups.list().into_iter().map(|group| group.name).collect();
    problem.or_meant(written, &names)
}

/// Has a group execute a command; if it does not have the task, the run or the schedule that it names, the refusal says what
/// may be meant.
pub async fn command(node: &Operations, group: GroupId, command: Command) -> Result<(), ApiError> {
    let done = node.groups.command(group, command).await;
    done.map(drop).map_err(|error| refused(node, group, error))
}

fn refused(node: &Operations, group: GroupId, error: GroupError) -> ApiError {
    let (written, known) = match &error {
        GroupError::Refused(Refusal::UnknownTask(task)) => (task.to_string(), tasks(node, group)),
        GroupError::Refused(Refusal::UnknownRun(run)) => (run.to_string(), runs(node, group)),
        GroupError::Refused(Refusal::UnknownSchedule(name)) => (name.clone(), schedules(node, group)),
        _ => return error.into(),
    };
    ApiError::from(error).or_meant(&written, &known)
}

/// The ids of a group's tasks that are shown here.
pub fn tasks(node: &Operations, group: GroupId) -> Vec<String> {
    names(node, group, |state, scope| {
        let shown = state.work().tasks().iter().filter(|task| scope.task(task));
        shown.map(|task| task.id().to_string()).collect()
    })
}

/// The ids of a group's runs of workflows that are shown here.
pub fn runs(node: &Operations, group: GroupId) -> Vec<String> {
    names(node, group, |state, scope| {
        let shown = state.flows().runs().iter().filter(|run| scope.of_author(run.author));
        shown.map(|run| run.id.to_string()).collect()
    })
}

/// The names of a group's values that begin so, without that beginning; none where only owners read.
pub fn values(node: &Operations, group: GroupId, prefix: &str) -> Vec<String> {
    let rest = |key: &str| key.strip_prefix(prefix).unwrap_or(key).to_owned();
    names(
        node,
        group,
        |state, scope| {
            if scope.is_whole() { state.values().keys(prefix).map(rest).collect() } else { Vec::new() }
        },
    )
}

fn schedules(node: &Operations, group: GroupId) -> Vec<String> {
    names(node, group, |state, scope| {
        let shown = state.flows().schedules().iter().filter(|known| scope.of_author(known.author));
        shown.map(|known| known.schedule.name.clone()).collect()
    })
}

/// Nothing where the group cannot be looked at: then there is no hint.
fn names(node: &Operations, group: GroupId, of: impl FnOnce(&Group, &ReadScope<'_>) -> Vec<String>) -> Vec<String> {
    Reader::of(&node.groups, group).look(of).unwrap_or_default()
}

/// Why something with an agent of this node failed; if it has none of that name, with the name that may be meant.
pub fn agent_problem(node: &Operations, name: &str, error: NodeError) -> ApiError {
    let is_unknown = matches!(error, NodeError::NoAgent(_) | NodeError::NoBinding(_));
    let problem = ApiError::from(error);
    if is_unknown { problem.or_meant(name, &own_agents(node)) } else { problem }
}
