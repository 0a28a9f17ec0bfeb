//! Applications of groups in the control API: agents, workflows and schedules that are brought up, changed and removed
//! together; and groups as agents.

use std::collections::BTreeMap;
use std::path::Path as FilePath;
use std::sync::Arc;

use althing_api::{
    AppAgentStatus, AppChange, AppChanges, AppList, AppRequest, AppStatus, GroupAgentEnd, GroupAgentStart, GroupStep,
    Kind, ServeGroup, ServeReply,
};
use althing_coordination::{Deployed, GroupAgents, Reader, promptly};
use althing_operations::Operations;
use althing_operations::groups::{self, APPS, AppError, AppInventory, AppOrder, AppOutcome, PartChange};
use althing_protocol::PublicKey;
use althing_protocol::contract::did_you_mean;
use althing_protocol::group::{Deployment, GroupId};
use althing_td::{App, parse_app};
use axum::Json;
use axum::extract::{Path, State};

use crate::body::{Body, detached};
use crate::error::{Answer, ApiError};
use crate::near;
use crate::requester::Requester;

impl From<AppError> for ApiError {
    fn from(error: AppError) -> ApiError {
        ApiError::new(error.kind(), error.to_string())
    }
}

/// What becomes of each part, for whoever asked for it.
fn app_changes(changes: &[PartChange]) -> Vec<AppChange> {
    let one = |PartChange { kind, name, difference }: &PartChange| AppChange {
        what: kind.name().to_owned(),
        name: name.clone(),
        change: difference.name().to_owned(),
    };
    changes.iter().map(one).collect()
}

/// `POST /apps`
pub async fn apps(
    State(node): State<Arc<Operations>>,
    requester: Requester,
    Body(request): Body<AppRequest>,
) -> Answer<AppChanges> {
    detached(async move { operate(&node, &requester, request).await.map(Json) }).await
}

/// `GET /groups/{group}/apps`
pub async fn list(State(node): State<Arc<Operations>>, Path(group): Path<String>) -> Answer<AppList> {
    let id = near::group(&node, &group)?;
    Ok(Json(AppList { apps: groups::names(&node, id).await? }))
}

/// `GET /groups/{group}/apps/{app}`
pub async fn show(
    State(node): State<Arc<Operations>>,
    Path((group, app)): Path<(String, String)>,
) -> Answer<AppStatus> {
    let id = near::group(&node, &group)?;
    let parts = groups::find(&node, id, &app).await?.ok_or_else(|| unknown(&node, id, &app))?;
    let AppInventory { agents, workflows, schedules } = parts.inventory;
    let own = parts.agents.values().filter(|it| agents.contains(&it.placed.deployment.agent));
    Ok(Json(AppStatus {
        app,
        agents: own.map(|it| deployed(&node, it)).collect(),
        workflows: workflows.into_iter().collect(),
        schedules: schedules.into_iter().collect(),
    }))
}

async fn operate(node: &Operations, requester: &Requester, request: AppRequest) -> Result<AppChanges, ApiError> {
    match request {
        AppRequest::Apply { file, files, folder, dry_run, form } => {
            let folder = folder.as_ref().map_or(Ok(FilePath::new("/")), |folder| requester.path(folder))?;
            let app = read(&file, &files)?;
            let order = match (dry_run, form) {
                (true, _) => AppOrder::Look,
                (false, true) => AppOrder::Form,
                (false, false) => AppOrder::Apply,
            };
            let outcome = groups::apply(node, &app, folder, order).await?;
            Ok(outcome_of(app, outcome))
        }
        AppRequest::Remove { group, app } => {
            let id = near::group(node, &group)?;
            let plan = groups::remove(node, id, &app).await?.ok_or_else(|| unknown(node, id, &app))?;
            let changes = app_changes(&plan.changes);
            Ok(AppChanges { app, group, forms: None, changes, groups: None, waiting: None })
        }
    }
}

fn outcome_of(app: App, outcome: AppOutcome) -> AppChanges {
    let (plan, is_missing, groups, waiting) = match outcome {
        AppOutcome::NoGroup { plan, groups } => (plan, true, Some(groups), None),
        AppOutcome::Plan { plan, waiting } => (plan, false, None, Some(waiting)),
    };
    let changes = app_changes(&plan.changes);
    AppChanges { app: app.name, group: app.group, forms: Some(is_missing), changes, groups, waiting }
}

fn unknown(node: &Operations, group: GroupId, app: &str) -> ApiError {
    let none = ApiError::new(Kind::NotFound, format!("the group has no application {app:?}"));
    none.with_remedy(Some(GroupStep::ListApps.into())).or_meant(app, &near::values(node, group, APPS))
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

/// An agent, where it was placed, where it runs, and why it cannot.
fn deployed(node: &Operations, deployed: &Deployed) -> AppAgentStatus {
    let placed = &deployed.placed;
    let Deployment { agent, instances, instances_max, app, .. } = &placed.deployment;
    AppAgentStatus {
        agent: agent.clone(),
        instances: *instances,
        instances_max: *instances_max,
        placed: placed.hosts.iter().map(PublicKey::did).collect(),
        runs: groups::running(node, placed).into_iter().collect(),
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
                let members_able = groups::serve(&node, id, &file).await?;
                Ok(Json(ServeReply::Start(GroupAgentStart { agent: file.name, members_able })))
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
