//! Applications of groups in the control API: agents, workflows and schedules that are brought up, changed and removed
//! together; and groups as agents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use althing_api::{
    AppAgentStatus, AppChange, AppChanges, AppList, AppRequest, AppStatus, GroupAgentEnd, GroupAgentStart, Kind,
    ServeGroup, ServeReply,
};
use althing_coordination::machine::group::Group;
use althing_coordination::machine::placement::Placed;
use althing_coordination::service::calendar::CalendarError;
use althing_coordination::{Deployed, GroupAgents, GroupError, Overview, Reader, promptly};
use althing_discovery::Query;
use althing_operations::Operations;
use althing_protocol::PublicKey;
use althing_protocol::contract::did_you_mean;
use althing_protocol::group::{Command, Deployment, GroupId, Policy, Remove, Schedule, Set};
use althing_td::{App, AppAgent, parse_app};
use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};

use crate::body::{Body, detached};
use crate::error::{Answer, ApiError};
use crate::group_flows::{WORKFLOWS, times};
use crate::near;

/// Keys that begin so say what an application consists of.
const APPS: &str = "app/";

/// What an application consists of, as the group keeps it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    agents: BTreeSet<String>,
    workflows: BTreeSet<String>,
    schedules: BTreeSet<String>,
}

/// How long is waited for agents to run.
const STARTED_MAX: Duration = Duration::from_secs(20);
/// Between two looks.
const POLL: Duration = Duration::from_millis(100);

/// One step of bringing an application up.
struct Change {
    /// `agent`, `workflow` or `schedule`.
    what: &'static str,
    name: String,
    /// `added`, `changed`, `same` or `removed`.
    change: &'static str,
}

/// What becomes of each part, for whoever asked for it.
fn told(changes: &[Change]) -> Vec<AppChange> {
    let one = |Change { what, name, change }: &Change| AppChange {
        what: (*what).to_owned(),
        name: name.clone(),
        change: (*change).to_owned(),
    };
    changes.iter().map(one).collect()
}

/// `POST /apps`
pub async fn apps(State(node): State<Arc<Operations>>, Body(request): Body<AppRequest>) -> Answer<AppChanges> {
    detached(async move { operate(&node, request).await.map(Json) }).await
}

/// `GET /groups/{group}/apps`
pub async fn list(State(node): State<Arc<Operations>>, Path(group): Path<String>) -> Answer<AppList> {
    let id = readable(&node, &group).await?;
    let apps = node
        .groups
        .look(id, |state| state.values().keys(APPS).map(|key| key[APPS.len()..].to_owned()).collect::<Vec<_>>())?;
    Ok(Json(AppList { apps }))
}

/// `GET /groups/{group}/apps/{app}`
pub async fn show(
    State(node): State<Arc<Operations>>,
    Path((group, app)): Path<(String, String)>,
) -> Answer<AppStatus> {
    let id = readable(&node, &group).await?;
    let known = known(&node, id, &app)?;
    if known.record == Record::default() {
        return Err(unknown(&node, id, &app));
    }
    let Record { agents, workflows, schedules } = known.record;
    let own = known.agents.values().filter(|it| agents.contains(&it.placed.deployment.agent));
    Ok(Json(AppStatus {
        app,
        agents: own.map(|it| deployed(&node, it)).collect(),
        workflows: workflows.into_iter().collect(),
        schedules: schedules.into_iter().collect(),
    }))
}

async fn operate(node: &Operations, request: AppRequest) -> Result<AppChanges, ApiError> {
    Ok(match request {
        AppRequest::Apply { file, files, folder, dry_run, form } => {
            apply(node, &read(&file, &files)?, &folder, dry_run, form).await?
        }
        AppRequest::Remove { group, app } => {
            let id = readable(node, &group).await?;
            let known = known(node, id, &app)?;
            if known.record == Record::default() {
                return Err(unknown(node, id, &app));
            }
            let nothing = App {
                name: app.clone(),
                group: group.clone(),
                agents: Vec::new(),
                workflows: Vec::new(),
                schedules: Vec::new(),
            };
            let plan = Plan::of(&nothing, FilePath::new(""), &known)?;
            plan.carry_out(node, id, &nothing).await?;
            remove(node, id, format!("{APPS}{app}")).await?;
            let changes = told(&plan.changes);
            AppChanges { app, group, forms: None, changes, groups: None, waiting: None }
        }
    })
}

/// The group of that name, as it is now. What an application consists of is in its values.
async fn readable(node: &Operations, group: &str) -> Result<GroupId, ApiError> {
    let id = near::group(node, group)?;
    promptly(&node.groups, id, node.groups.catch_up(id)).await?;
    Reader::of(&node.groups, id).check()?;
    Ok(id)
}

/// Brings an application up, or changes what differs. A group that is not there is formed only if somebody said so.
async fn apply(
    node: &Operations,
    app: &App,
    folder: &FilePath,
    dry_run: bool,
    form: bool,
) -> Result<AppChanges, ApiError> {
    check_times(node, app)?;
    let answer = |forms: bool, plan: &Plan| AppChanges {
        app: app.name.clone(),
        group: app.group.clone(),
        forms: Some(forms),
        changes: told(&plan.changes),
        groups: None,
        waiting: None,
    };
    let group = match node.groups.resolve_here(&app.group) {
        Err(GroupError::NotFound(_)) if dry_run || !form => {
            let plan = Plan::of(app, folder, &Known::default())?;
            let groups = node.groups.list().into_iter().filter(Overview::is_here);
            let groups = Some(groups.map(|group| group.name).collect());
            return Ok(AppChanges { groups, ..answer(true, &plan) });
        }
        Err(GroupError::NotFound(_)) => node.groups.create(&app.group, Policy::default()).await?,
        other => other?,
    };
    promptly(&node.groups, group, node.groups.catch_up(group)).await?;
    Reader::of(&node.groups, group).check()?;
    let known = known(node, group, &app.name)?;
    let plan = Plan::of(app, folder, &known)?;
    let mut waiting = Vec::new();
    if !dry_run {
        plan.carry_out(node, group, app).await?;
        waiting = started(node, group, app).await?;
    }
    Ok(AppChanges { waiting: Some(waiting), ..answer(false, &plan) })
}

/// Checks the times of all schedules before anything is done.
fn check_times(node: &Operations, app: &App) -> Result<(), ApiError> {
    for (n, schedule) in app.schedules.iter().enumerate() {
        times(node, schedule).map_err(|error| {
            let field = if matches!(error, CalendarError::Zone(_)) { "zone" } else { "cron" };
            ApiError::invalid(format!("schedules[{n}].{field} of {:?}: {error}", schedule.name))
        })?;
    }
    Ok(())
}

/// Waits until the agents of an application run on as many members as they should; those that do not.
async fn started(node: &Operations, group: GroupId, app: &App) -> Result<Vec<String>, ApiError> {
    let until = tokio::time::Instant::now() + STARTED_MAX;
    loop {
        let agents = GroupAgents::of(&node.groups, group).list()?;
        let of_app =
            agents.iter().map(|it| &it.placed).filter(|it| it.deployment.app.as_deref() == Some(app.name.as_str()));
        let few = |it: &&Placed| runs(node, it).len() < usize::from(it.deployment.instances.max(1));
        let waiting: Vec<String> = of_app.filter(few).map(|it| it.deployment.agent.clone()).collect();
        if waiting.is_empty() || tokio::time::Instant::now() >= until {
            return Ok(waiting);
        }
        tokio::time::sleep(POLL).await;
    }
}

fn unknown(node: &Operations, group: GroupId, app: &str) -> ApiError {
    let why = format!("the group has no application {app:?}; `althing app list GROUP` shows those it has");
    ApiError::new(Kind::NotFound, why).or_meant(app, &near::values(node, group, APPS))
}

/// The application, with the files that it names.
fn read(file: &str, files: &BTreeMap<String, String>) -> Result<App, ApiError> {
    let read = |path: &str| files.get(path).cloned().ok_or_else(|| "it was not sent".to_owned());
    let app = parse_app(file).and_then(|parsed| parsed.resolve(read));
    let app = app.map_err(|error| ApiError::invalid(error.to_string()))?;
    match app.agents.iter().find(|agent| agent.file.contract_file.is_some() || agent.file.contract.is_none()) {
        Some(agent) => Err(ApiError::invalid(format!(
            "the agent {:?} has its contract in another file or by a role, which other members do not have; write it into the \
             agent file",
            agent.name
        ))),
        None => Ok(app),
    }
}

/// What a group has now.
#[derive(Default)]
struct Known {
    record: Record,
    agents: BTreeMap<String, Deployed>,
    workflows: BTreeMap<String, Vec<u8>>,
    schedules: BTreeMap<String, Schedule>,
    /// Which application each agent, workflow and schedule belongs to.
    others: BTreeMap<(&'static str, String), String>,
}

fn known(node: &Operations, group: GroupId, app: &str) -> Result<Known, ApiError> {
    let agents = GroupAgents::of(&node.groups, group).list()?;
    let agents = agents.into_iter().map(|it| (it.placed.deployment.agent.clone(), it)).collect();
    Ok(node.groups.look(group, |state| looked(state, app, agents))?)
}

fn looked(state: &Group, app: &str, agents: BTreeMap<String, Deployed>) -> Known {
    let bytes = |key: &str| state.values().get(key).map(|value| value.bytes.clone()).unwrap_or_default();
    let record = |name: &str| serde_json::from_slice::<Record>(&bytes(&format!("{APPS}{name}"))).unwrap_or_default();
    let mut others = BTreeMap::new();
    for name in state.values().keys(APPS).map(|key| &key[APPS.len()..]).filter(|name| *name != app) {
        let Record { agents, workflows, schedules } = record(name);
        for (what, names) in [("agent", agents), ("workflow", workflows), ("schedule", schedules)] {
            others.extend(names.into_iter().map(|one| ((what, one), name.to_owned())));
        }
    }
    let workflows = state.values().keys(WORKFLOWS).map(|key| (key[WORKFLOWS.len()..].to_owned(), bytes(key))).collect();
    let schedules =
        state.flows().schedules().iter().map(|it| (it.schedule.name.clone(), it.schedule.clone())).collect();
    Known { record: record(app), agents, workflows, schedules, others }
}

/// What is to be done.
struct Plan {
    changes: Vec<Change>,
    /// The folder in which each agent's relative paths begin.
    folders: BTreeMap<String, String>,
}

impl Plan {
    fn of(app: &App, folder: &FilePath, known: &Known) -> Result<Plan, ApiError> {
        let mut plan = Plan { changes: Vec::new(), folders: BTreeMap::new() };
        for agent in &app.agents {
            let at = folder.join(&agent.path);
            let at = at.parent().map(|at| at.to_string_lossy().into_owned()).unwrap_or_default();
            let same = known.agents.get(&agent.name).map(|it| is_same(it, agent, &app.name, &at));
            plan.folders.insert(agent.name.clone(), at);
            plan.add("agent", &agent.name, same, known)?;
        }
        for workflow in &app.workflows {
            let same = known.workflows.get(&workflow.name).map(|bytes| *bytes == workflow.to_bytes());
            plan.add("workflow", &workflow.name, same, known)?;
        }
        for schedule in &app.schedules {
            let same = known.schedules.get(&schedule.name).map(|it| it == schedule);
            plan.add("schedule", &schedule.name, same, known)?;
        }
        let Record { agents, workflows, schedules } = &known.record;
        for (what, names) in [("schedule", schedules), ("workflow", workflows), ("agent", agents)] {
            let wanted =
                |name: &&String| plan.changes.iter().any(|change| change.what == what && change.name == **name);
            let gone: Vec<String> = names.iter().filter(|name| !wanted(name)).cloned().collect();
            plan.changes.extend(gone.into_iter().map(|name| Change { what, name, change: "removed" }));
        }
        Ok(plan)
    }

    fn add(&mut self, what: &'static str, name: &str, same: Option<bool>, known: &Known) -> Result<(), ApiError> {
        if let Some(other) = known.others.get(&(what, name.to_owned())) {
            let why =
                format!("the {what} {name:?} belongs to the application {other:?} of the group; choose another name");
            return Err(ApiError::new(Kind::Refused, why));
        }
        let change = match same {
            None => "added",
            Some(true) => "same",
            Some(false) => "changed",
        };
        self.changes.push(Change { what, name: name.to_owned(), change });
        Ok(())
    }

    /// Does what is to be done. What it consists of is written down before anything is added and after everything was
    /// removed, so that a second attempt finds what the first one left.
    async fn carry_out(&self, node: &Operations, group: GroupId, app: &App) -> Result<(), ApiError> {
        let all = |what: &str, with_removed: bool| {
            let named = self.changes.iter().filter(|it| it.what == what && (with_removed || it.change != "removed"));
            named.map(|it| it.name.clone()).collect::<BTreeSet<String>>()
        };
        let record = |with_removed| Record {
            agents: all("agent", with_removed),
            workflows: all("workflow", with_removed),
            schedules: all("schedule", with_removed),
        };
        write(node, group, format!("{APPS}{}", app.name), &record(true)).await?;
        for change in self.changes.iter().filter(|it| it.change == "added" || it.change == "changed") {
            self.bring(node, group, app, change).await?;
        }
        for change in self.changes.iter().filter(|it| it.change == "removed") {
            match change.what {
                "agent" => GroupAgents::of(&node.groups, group).undeploy(&change.name).await?,
                "workflow" => remove(node, group, format!("{WORKFLOWS}{}", change.name)).await?,
                _ => drop(node.groups.command(group, Command::Unschedule(change.name.clone())).await?),
            }
        }
        write(node, group, format!("{APPS}{}", app.name), &record(false)).await
    }

    async fn bring(&self, node: &Operations, group: GroupId, app: &App, change: &Change) -> Result<(), ApiError> {
        let name = change.name.as_str();
        if let Some(agent) = app.agents.iter().find(|agent| change.what == "agent" && agent.name == name) {
            let file = serde_json::to_vec(&agent.file).map_err(|error| ApiError::failed(error.to_string()))?;
            let folder = self.folders.get(name).cloned().unwrap_or_default();
            let describe = |mut made: Deployment| {
                (made.instances, made.folder, made.app) = (agent.instances, folder, Some(app.name.clone()));
                made.instances_max = agent.instances_max;
                (made.labels, made.needs) = (agent.labels.clone(), agent.needs.clone());
                made
            };
            GroupAgents::of(&node.groups, group).deploy(name, file, describe).await?;
        }
        if let Some(workflow) = app.workflows.iter().find(|it| change.what == "workflow" && it.name == name) {
            let set = Set { key: format!("{WORKFLOWS}{name}"), value: workflow.to_bytes().into(), if_version: None };
            node.groups.command(group, Command::Set(set)).await?;
        }
        if let Some(schedule) = app.schedules.iter().find(|it| change.what == "schedule" && it.name == name) {
            node.groups.command(group, Command::Schedule(Box::new(schedule.clone()))).await?;
        }
        Ok(())
    }
}

fn is_same(deployed: &Deployed, agent: &AppAgent, app: &str, folder: &str) -> bool {
    let it = &deployed.placed.deployment;
    let file = serde_json::to_vec(&agent.file).unwrap_or_default();
    deployed.is_signed
        && it.file.as_slice() == file
        && it.folder == folder
        && it.instances == agent.instances
        && it.instances_max == agent.instances_max
        && it.labels == agent.labels
        && it.needs == agent.needs
        && it.app.as_deref() == Some(app)
}

async fn write(node: &Operations, group: GroupId, key: String, record: &Record) -> Result<(), ApiError> {
    let value = serde_json::to_vec(record).map_err(|error| ApiError::failed(error.to_string()))?.into();
    node.groups.command(group, Command::Set(Set { key, value, if_version: None })).await?;
    Ok(())
}

async fn remove(node: &Operations, group: GroupId, key: String) -> Result<(), ApiError> {
    node.groups.command(group, Command::Remove(Remove { key, if_version: None })).await?;
    Ok(())
}

/// The members that run an agent, as far as this node has heard.
fn runs(node: &Operations, placed: &Placed) -> BTreeSet<String> {
    let Deployment { agent, owner, .. } = &placed.deployment;
    let (found, _) = node.discovery.find(&Query { limit: Some(1_000), ..Query::default() });
    let is_it = |found: &&althing_discovery::Found| {
        let known = &found.candidate.verified.agent;
        known.name() == agent && known.publisher() == *owner && placed.hosts.contains(&found.node)
    };
    found.iter().filter(is_it).map(|found| found.node.did()).collect()
}

/// An agent, where it was placed, where it runs, and why it cannot.
fn deployed(node: &Operations, deployed: &Deployed) -> AppAgentStatus {
    let placed = &deployed.placed;
    let Deployment { agent, instances, instances_max, app, .. } = &placed.deployment;
    AppAgentStatus {
        agent: agent.clone(),
        instances: *instances,
        instances_max: *instances_max,
        placed: placed.hosts.iter().map(PublicKey::did).collect(),
        runs: runs(node, placed).into_iter().collect(),
        app: app.clone(),
        signed: deployed.is_signed,
    }
}

/// `POST /groups/{group}/serve`
pub async fn serve(
    State(node): State<Arc<Operations>>,
    Path(group): Path<String>,
    Body(request): Body<ServeGroup>,
) -> Answer<ServeReply> {
    let id = near::group(&node, &group)?;
    detached(async move {
        match request {
            ServeGroup::Agent(file) => {
                let (name, bytes) = (file.name.clone(), serde_json::to_vec(&file));
                let asked = file.skills.first().map(|skill| skill.id.clone());
                let bytes = bytes.map_err(|error| ApiError::failed(error.to_string()))?;
                let on_each = |mut made: Deployment| {
                    made.instances = 0;
                    made
                };
                GroupAgents::of(&node.groups, id).deploy(&name, bytes, on_each).await?;
                let until = tokio::time::Instant::now() + STARTED_MAX;
                while node.agents.status(&name).is_none() && tokio::time::Instant::now() < until {
                    tokio::time::sleep(POLL).await;
                }
                let able = asked.map(|capability| able(&node, id, &capability, &name)).transpose()?;
                Ok(Json(ServeReply::Start(GroupAgentStart { agent: name, members_able: able })))
            }
            ServeGroup::End(name) => {
                promptly(&node.groups, id, node.groups.catch_up(id)).await?;
                let known = GroupAgents::of(&node.groups, id).list()?;
                if !known.iter().any(|it| it.placed.deployment.agent == name) {
                    let named = if Reader::of(&node.groups, id).check().is_ok() { known.as_slice() } else { &[] };
                    return Err(unserved(&group, &name, named));
                }
                GroupAgents::of(&node.groups, id).undeploy(&name).await?;
                Ok(Json(ServeReply::End(GroupAgentEnd { ended: name })))
            }
        }
    })
    .await
}

/// No agent of that name is hosted by the group's members; those that are shown here are named.
fn unserved(group: &str, name: &str, known: &[Deployed]) -> ApiError {
    let names: Vec<&str> = known.iter().map(|it| it.placed.deployment.agent.as_str()).collect();
    let hint = if names.is_empty() { "none is known here".to_owned() } else { did_you_mean(name, &names) };
    ApiError::new(Kind::NotFound, format!("the group {group} has no agent {name:?}. {hint}"))
}

/// How many members are known to host an agent with that capability, other than the group's own.
fn able(node: &Operations, group: GroupId, capability: &str, own: &str) -> Result<usize, ApiError> {
    let query = Query { capability: Some(capability.to_owned()), limit: Some(1_000), ..Query::default() };
    let (found, _) = node.discovery.find(&query);
    let found = found.iter().filter(|found| found.candidate.verified.agent.name() != own);
    let nodes: BTreeSet<PublicKey> = found.map(|found| found.node).collect();
    Ok(node.groups.look(group, |state| state.members().iter().filter(|(key, _)| nodes.contains(*key)).count())?)
}
