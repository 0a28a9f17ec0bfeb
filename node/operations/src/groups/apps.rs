//! Applications of groups: agents, workflows and schedules that are brought up, changed and removed together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use althing_coordination::machine::placement::Placed;
use althing_coordination::{GroupAgents, GroupError, Overview, Reader, promptly};
use althing_discovery::{Found, Query};
use althing_failure::Kind;
use althing_protocol::group::{Deployment, GroupId, Policy};
use althing_td::App;

use super::machine::app::{AppPlan, PlanError, PlanStep, check_times};
use super::machine::parts::{AppInventory, GroupParts, app_names};
use crate::operations::Operations;

/// How long is waited for agents to run.
pub(super) const STARTED_MAX: Duration = Duration::from_secs(20);
/// Between two looks.
pub(super) const POLL: Duration = Duration::from_millis(100);
/// Agents that are looked at.
pub(super) const AGENTS_MAX: usize = 1_000;

/// Why something with an application failed.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The group did not do it.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// It is not to be done.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl AppError {
    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            AppError::Group(error) => error.kind(),
            AppError::Plan(error) => error.kind(),
        }
    }
}

/// What is done about an application beside what its file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppOrder {
    /// Nothing: what would be done is told.
    Look,
    /// It is brought up in its group, which is there.
    Apply,
    /// It is brought up in its group, which is formed if it is not there.
    Form,
}

/// What became of an application.
#[derive(Debug)]
pub enum AppOutcome {
    /// Nothing, since its group is not there.
    NoGroup {
        /// What would be done after the group was formed.
        plan: AppPlan,
        /// The names of the groups that are here.
        groups: Vec<String>,
    },
    /// The group is there.
    Plan {
        /// What was done, or would be.
        plan: AppPlan,
        /// Agents that do not run yet on as many members as they should.
        waiting: Vec<String>,
    },
}

/// Learns what a group has by now. What applications consist of is in its values.
///
/// # Errors
/// See [`GroupError`]; [`GroupError::OnlyOwnersRead`] if its values are not shown here.
async fn catch_up(node: &Operations, group: GroupId) -> Result<(), GroupError> {
    promptly(&node.groups, group, node.groups.catch_up(group)).await?;
    Reader::of(&node.groups, group).check()
}

/// The names of the applications of a group.
///
/// # Errors
/// See [`GroupError`].
pub async fn names(node: &Operations, group: GroupId) -> Result<Vec<String>, GroupError> {
    catch_up(node, group).await?;
    node.groups.look(group, |state| app_names(state).map(str::to_owned).collect())
}

/// An application of a group, with what else the group has; none if it has none of that name.
///
/// # Errors
/// See [`GroupError`].
pub async fn find(node: &Operations, group: GroupId, app: &str) -> Result<Option<GroupParts>, GroupError> {
    catch_up(node, group).await?;
    let parts = parts(node, group, app)?;
    Ok(Some(parts).filter(|parts| parts.inventory != AppInventory::default()))
}

/// Removes an application from a group; what became of its parts, or nothing if the group has none of that name.
///
/// # Errors
/// See [`GroupError`].
pub async fn remove(node: &Operations, group: GroupId, app: &str) -> Result<Option<AppPlan>, GroupError> {
    let Some(parts) = find(node, group, app).await? else { return Ok(None) };
    let plan = AppPlan::removal(app, &parts.inventory);
    carry_out(node, group, &plan).await?;
    Ok(Some(plan))
}

/// Brings an application up, or changes what differs. Paths of its agent files begin at `folder`.
///
/// # Errors
/// See [`AppError`].
pub async fn apply(node: &Operations, app: &App, folder: &Path, order: AppOrder) -> Result<AppOutcome, AppError> {
    check_times(app, node.clock().now_ms())?;
    let group = match node.groups.resolve_here(&app.group) {
        Err(GroupError::NotFound(_)) if order != AppOrder::Form => {
            let plan = AppPlan::of(app, folder, &GroupParts::default())?;
            let groups = node.groups.list().into_iter().filter(Overview::is_here).map(|group| group.name).collect();
            return Ok(AppOutcome::NoGroup { plan, groups });
        }
        Err(GroupError::NotFound(_)) => node.groups.create(&app.group, Policy::default()).await?,
        other => other?,
    };
    catch_up(node, group).await?;
    let plan = AppPlan::of(app, folder, &parts(node, group, &app.name)?)?;
    if order == AppOrder::Look {
        return Ok(AppOutcome::Plan { plan, waiting: Vec::new() });
    }
    carry_out(node, group, &plan).await?;
    let waiting = started(node, group, &app.name).await?;
    Ok(AppOutcome::Plan { plan, waiting })
}

fn parts(node: &Operations, group: GroupId, app: &str) -> Result<GroupParts, GroupError> {
    let agents = GroupAgents::of(&node.groups, group).list()?.into_iter();
    let agents: BTreeMap<_, _> = agents.map(|it| (it.placed.deployment.agent.clone(), it)).collect();
    node.groups.look(group, |state| GroupParts::of(state, app, agents))
}

async fn carry_out(node: &Operations, group: GroupId, plan: &AppPlan) -> Result<(), GroupError> {
    let agents = GroupAgents::of(&node.groups, group);
    for step in plan.steps() {
        match step {
            PlanStep::Deploy(made) => {
                agents.deploy(&made.agent, made.file.clone(), |deployment| made.describe(deployment)).await?;
            }
            PlanStep::Undeploy(agent) => agents.undeploy(&agent).await?,
            PlanStep::Execute(command) => drop(node.groups.command(group, *command).await?),
        }
    }
    Ok(())
}

/// Waits until the agents of an application run on as many members as they should; those that do not.
async fn started(node: &Operations, group: GroupId, app: &str) -> Result<Vec<String>, GroupError> {
    let until = tokio::time::Instant::now() + STARTED_MAX;
    loop {
        let agents = GroupAgents::of(&node.groups, group).list()?;
        let of_app = agents.iter().map(|it| &it.placed).filter(|it| it.deployment.app.as_deref() == Some(app));
        let few = |it: &&Placed| running(node, it).len() < usize::from(it.deployment.instances.max(1));
        let waiting: Vec<String> = of_app.filter(few).map(|it| it.deployment.agent.clone()).collect();
        if waiting.is_empty() || tokio::time::Instant::now() >= until {
            return Ok(waiting);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The members that run an agent, by their DIDs, as far as this node has heard.
#[must_use]
pub fn running(node: &Operations, placed: &Placed) -> BTreeSet<String> {
    let Deployment { agent, owner, .. } = &placed.deployment;
    let (found, _) = node.discovery.find(&Query { limit: Some(AGENTS_MAX), ..Query::default() });
    let is_it = |found: &&Found| {
        let known = &found.candidate.verified.agent;
        known.name() == agent && known.publisher() == *owner && placed.hosts.contains(&found.node)
    };
    found.iter().filter(is_it).map(|found| found.node.did()).collect()
}
