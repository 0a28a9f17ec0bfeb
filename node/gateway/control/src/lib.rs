//! The control API, by which a node's owner manages it over a connection that only the owner can use. The command line uses
//! a Unix socket (0600) in the data directory.
//!
//! **Inputs**: HTTP requests, whose types are in `node/api`. **Outputs**: JSON, or lines of JSON while something goes on.
//!
//! **Never knows**: access control (whoever serves it decides), exit codes, terminals.

mod adopt;
mod agents;
mod attesting;
mod bind;
mod blueprints;
mod diagnosis;
mod error;
mod events;
mod finding;
mod group_apps;
mod group_flows;
mod group_owners;
mod group_resources;
mod group_tasks;
mod groups;
mod lines;
mod logs;
mod memory;
mod near;
mod org;
mod receipts;
mod registries;
mod reserve;
mod routing;
mod said;
mod shared;
mod status;
mod tap;
mod tools;
mod traces;
mod waits;

use std::sync::Arc;

use althing_api::{
    AddRequest, AgentAddition, AgentList, AgentRemoval, AgentSummary, CallCancellation, CallExplanation, CallHosts,
    CallLine, CallRequest, DoctorReport, DoctorRequest, Kind, OverheadReport, RightsChange, RightsChanges, TrustChange,
    TrustList, TrustRequest,
};
use althing_calls::{
    Among, Asker, Callee, Operation, OperationError, OperationRequest, Principal, Purpose, Refusal, Reply,
};
use althing_node::{NodeError, publish};
use althing_operations::{Operations as Node, doctor, kept_environment};
use althing_protocol::{AgentId, CallerId, IdentityError, PublicKey};
use axum::extract::{Path as UrlPath, Query as UrlQuery, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use futures::StreamExt as _;
use serde::Serialize;

pub use agents::machine;
pub use error::ApiError;

use error::Answer;
use lines::ndjson;

/// All routes, for a node.
pub fn router(node: Arc<Node>) -> Router {
    Router::new()
        .route("/status", get(status::status))
        .route("/peers", get(status::peers))
        .route("/ps", get(agents::ps))
        .route("/events", get(events::events))
        .route("/find", post(finding::find))
        .route("/groups", get(groups::list).post(groups::create))
        .route("/groups/join", post(groups::join))
        .route("/groups/{group}", post(groups::work))
        .route("/groups/{group}/tasks", post(group_tasks::work))
        .route("/groups/{group}/workflows", post(group_flows::workflows))
        .route("/groups/{group}/schedules", post(group_flows::schedules))
        .route("/groups/{group}/serve", post(group_apps::serve))
        .route("/apps", post(group_apps::apps))
        .route("/route", post(routing::route))
        .route("/route/learn", post(routing::learn).delete(routing::forget))
        .route("/route/eval", post(routing::evaluate))
        .route("/route/channel", post(routing::channel))
        .route("/describe/{agent}", get(describe))
        .route("/agents", get(listed).post(add))
        .route("/agents/{name}", delete(remove))
        .route("/adding", post(adding))
        .route("/adopt", post(adopt::adopt))
        .route("/adopt/accept", post(adopt::accept))
        .route("/run", post(agents::run))
        .route("/bind", post(bind::bind))
        .route("/bind/{name}", get(bind::find))
        .route("/reserve", post(reserve::reserve))
        .route("/memory", get(memory::list))
        .route("/memory/{namespace}", post(memory::work).delete(memory::remove))
        .route("/doctor", post(examine))
        .route("/doctor/overhead", post(overhead))
        .route("/trust", get(trusted).post(trust))
        .route("/registries", get(registries::list).post(registries::add).delete(registries::remove))
        .route("/publish", post(registries::publish))
        .route("/releases", get(registries::releases))
        .route("/releases/mark", post(registries::mark))
        .route("/blueprints", get(blueprints::suggest).post(blueprints::measure))
        .route("/releases/attest", post(attesting::attest))
        .route("/releases/show", get(attesting::show))
        .route("/releases/receipts", get(receipts::list))
        .route("/releases/pending", get(org::pending))
        .route("/releases/approve", post(org::approve))
        .route("/releases/reject", post(org::reject))
        .route("/releases/purge", post(org::purge))
        .route("/org", get(org::show).post(org::organise))
        .route("/org/members", post(org::member))
        .route("/org/prove", post(org::prove))
        .route("/org/watch", get(org::watch))
        .route("/install", post(registries::install))
        .route("/update", post(registries::update))
        .route("/outdated", get(registries::outdated))
        .route("/installed/{name}", delete(registries::uninstall))
        .route("/traces", get(traces::list))
        .route("/traces/{trace}", get(traces::show))
        .route("/tap", post(tap::tap))
        .route("/logs", post(logs::logs))
        .route("/waits/{agent}", get(waits::waits))
        .route("/call", post(call))
        .route("/cancel", post(cancel))
        .with_state(node)
}

/// `POST /doctor`
async fn examine(State(node): State<Arc<Node>>, Json(request): Json<DoctorRequest>) -> Json<DoctorReport> {
    let found = match &request.agent {
        Some(agent) => doctor::examine_call(&node, agent, among(request.anyone)).await,
        None => doctor::examine(&node).await,
    };
    Json(diagnosis::report(found))
}

/// What each layer adds to a call, measured now.
async fn overhead(State(node): State<Arc<Node>>) -> Answer<OverheadReport> {
    // In a task of its own: its agent is ended even if the command line hangs up.
    let measuring = tokio::spawn(async move { doctor::overhead(&node).await });
    let measured = measuring.await.map_err(|error| ApiError::failed(error.to_string()))?;
    Ok(Json(diagnosis::overhead(measured.map_err(ApiError::failed)?)))
}

/// The query of `GET /describe/{agent}`.
#[derive(serde::Deserialize)]
struct DescribeQuery {
    #[serde(default)]
    anyone: bool,
}

async fn describe(
    State(node): State<Arc<Node>>,
    UrlPath(agent): UrlPath<String>,
    UrlQuery(query): UrlQuery<DescribeQuery>,
) -> Result<Response, ApiError> {
    let unknown = |message: String| ApiError::new(Kind::NotFound, message);
    if let Some((of, tool)) = agent.rsplit_once('/')
        && let Ok(id) = meant(&node, of, query.anyone).await
    {
        return tools::described(&node, &id, tool).await;
    }
    let id = match meant(&node, &agent, query.anyone).await {
        Ok(id) => id,
        Err(error) => {
            // By its identifier only: anybody may give a Thing an agent's title. Things are not verified.
            let Some(thing) = node.discovery.thing(&agent) else {
                let name = agent.rsplit_once('/').map_or(agent.as_str(), |(name, _)| name);
                return Err(match node.discovery.no_agent_but_thing(&agent) {
                    Some(thing) => {
                        unknown(format!("no agent is {agent:?}, but a Thing: `althing describe {:?}`", thing.id))
                    }
                    None => unknown(error.message).or_meant(name, &near::agents(&node, query.anyone)),
                });
            };
            return Ok(td(thing.description.bytes().to_vec()));
        }
    };
    node.calls.find_hosts(&id).await;
    let known = node.discovery.describe(&id).ok_or_else(|| unknown(format!("no node that hosts {id} is known")))?;
    // Byte for byte as the publisher signed it.
    Ok(td(known.description.bytes().to_vec()))
}

fn td(bytes: Vec<u8>) -> Response {
    ([("content-type", "application/td+json")], bytes).into_response()
}

async fn listed(State(node): State<Arc<Node>>) -> Answer<AgentList> {
    let (stored, owner) = (publish::permanent(node.store.as_ref())?, node.owner());
    let summary = |added: &publish::StoredAgent| AgentSummary {
        name: added.file.name.clone(),
        id: publish::agent_id(&owner, &added.file).map(|id| id.to_string()).ok(),
        title: added.file.title.clone(),
        callers: added.file.callers.clone(),
        exposure: added.file.exposure,
        skills: added.file.skills.iter().map(|skill| skill.id.clone()).collect(),
    };
    Ok(Json(AgentList { agents: stored.iter().map(summary).collect() }))
}

/// `POST /adding`: what an agent file changes of what was agreed to for its name, and for that file; adds nothing.
async fn adding(State(node): State<Arc<Node>>, Json(request): Json<AddRequest>) -> Answer<RightsChanges> {
    let althing_td::RightsChanges { changes, wider, digest } = node.agents.changes(&request.file, &request.sources)?;
    let change = |change: althing_td::RightsChange| {
        let althing_td::RightsChange { what, old, new, wider } = change;
        RightsChange { what, old, new, wider }
    };
    Ok(Json(RightsChanges { changes: changes.into_iter().map(change).collect(), wider, digest }))
}

async fn add(State(node): State<Arc<Node>>, Json(request): Json<AddRequest>) -> Answer<AgentAddition> {
    let AddRequest { file, folder, sources, reservation, agreed } = request;
    let host = node.clone();
    // In a task of its own: it is completed even if the command line hangs up.
    let adding = tokio::spawn(async move {
        let how = (publish::Stay::UntilRemoved, agreed.as_deref());
        host.agents.add_read(file, (folder.as_path(), sources.as_slice()), reservation.as_deref(), how).await
    });
    let id = adding.await.map_err(|error| ApiError::failed(error.to_string()))??;
    // Whoever hangs up meanwhile does not wait for its answer, and it stays.
    let added = agents::added(&node, &id).await;
    if let Some(ended) = agents::ended(&node, id.name()) {
        // Whoever mends it adds it again.
        node.agents.remove(id.name()).await?;
        return Err(ended);
    }
    Ok(Json(added))
}

async fn remove(State(node): State<Arc<Node>>, UrlPath(name): UrlPath<String>) -> Answer<AgentRemoval> {
    let removing = tokio::spawn(async move {
        let unknown = |error| agent_problem(&node, &name, error);
        let (file, _) = node.agents.file(&name).map_err(unknown)?;
        node.agents.remove(&name).await.map_err(unknown)?;
        // Whoever adds it again needs them, and another agent may use them.
        Ok(Json(AgentRemoval { removed: name, secrets_kept: kept_environment(&file) }))
    });
    removing.await.unwrap_or_else(|error| Err(ApiError::failed(error.to_string())))
}

/// Why something with an agent of this node failed; if it has none of that name, with the name that may be meant.
fn agent_problem(node: &Node, name: &str, error: NodeError) -> ApiError {
    let is_unknown = matches!(error, NodeError::NoAgent(_) | NodeError::NoBinding(_));
    let problem = ApiError::from(error);
    if is_unknown { problem.or_meant(name, &near::own_agents(node)) } else { problem }
}

async fn trusted(State(node): State<Arc<Node>>) -> Json<TrustList> {
    Json(TrustList { trusted: node.trust.ids().iter().map(ToString::to_string).collect() })
}

async fn trust(State(node): State<Arc<Node>>, Json(request): Json<TrustRequest>) -> Answer<TrustChange> {
    let TrustRequest { id, trusted } = request;
    let whom: CallerId = id.parse().map_err(|error: IdentityError| ApiError::invalid(error.to_string()))?;
    node.trust.set(whom, trusted).await?;
    Ok(Json(TrustChange { id, trusted }))
}

/// The parameters of `CancelTask`.
#[derive(Serialize)]
struct CancelParams<'a> {
    id: Option<&'a str>,
}

async fn cancel(State(node): State<Arc<Node>>, Json(request): Json<CallRequest>) -> Answer<CallCancellation> {
    let params = CancelParams { id: request.task.as_deref() };
    ask(&node, &request, Operation::CancelTask, &params).await?;
    Ok(Json(CallCancellation { cancelled: request.task }))
}

/// Which publishers' agents may be called.
fn among(anyone: bool) -> Among {
    if anyone { Among::Anyone } else { Among::Near }
}

/// The agent of that name or id, to read of it for the local user.
async fn meant(node: &Node, agent: &str, anyone: bool) -> Result<AgentId, OperationError> {
    let callee = Callee::Named(agent.to_owned(), among(anyone));
    Ok(node.calls.target(&Asker::Owner, &callee, Purpose::Read).await?.agent)
}

/// Calls an agent on behalf of the local user.
async fn ask<P: Serialize>(
    node: &Node,
    request: &CallRequest,
    operation: Operation,
    params: &P,
) -> Result<Reply, ApiError> {
    let callee = Callee::Named(request.agent.clone(), among(request.anyone));
    let params = serde_json::to_vec(params).map_err(|error| ApiError::failed(error.to_string()))?;
    let asked = OperationRequest::parse(operation, params).map_err(ApiError::from)?;
    let asked = althing_calls::CallRequest::new(callee, asked, vec![Principal::Local]);
    let error = match node.calls.ask(asked).await {
        Err(error) if error.refusal == Refusal::AgentUnknown => error,
        answered => return answered.map_err(ApiError::from),
    };
    if let Some(thing) = node.discovery.no_agent_but_thing(&request.agent) {
        let message = format!(
            "{:?} is a Thing that was read at {}, and no agent: use it by the forms of its description (`althing describe`)",
            request.agent, thing.from
        );
        return Err(ApiError::new(Kind::NotFound, message));
    }
    let unknown =
        |name: &str, error: OperationError| ApiError::from(error).or_meant(name, &near::agents(node, request.anyone));
    let Some((name, tool)) = request.agent.split_once('/') else { return Err(unknown(&request.agent, error)) };
    if meant(node, name, request.anyone).await.is_err() {
        return Err(unknown(name, error));
    }
    let tool = serde_json::Value::from(tool);
    let message = format!(
        "{}. {name:?} is an agent; a tool of one is called by a message: `althing call {name} '{{\"tool\": {tool}, \
         \"arguments\": {{…}}}}'`",
        error.message
    );
    Err(ApiError::new(Kind::NotFound, message))
}

/// The parameters of `SendStreamingMessage`.
#[derive(Serialize)]
struct MessageParams<'a> {
    message: Message<'a>,
}

/// What a person says, as A2A has it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    message_id: String,
    role: &'static str,
    parts: [TextPart<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<&'a str>,
}

#[derive(Serialize)]
struct TextPart<'a> {
    text: &'a str,
}

async fn call(State(node): State<Arc<Node>>, Json(request): Json<CallRequest>) -> Result<Response, ApiError> {
    let message = Message {
        message_id: new_id(&node),
        role: "ROLE_USER",
        parts: [TextPart { text: &request.text }],
        task_id: request.task.as_deref(),
    };
    let params = MessageParams { message };
    let explained = if request.explain { Some(explain(&node, &request).await) } else { None };
    let events = match ask(&node, &request, Operation::SendStreamingMessage, &params).await? {
        Reply::Events(events) => events,
        Reply::One(body) => futures::stream::iter([Ok(body)]).boxed(),
    };
    let lines = futures::stream::iter(explained.map(CallLine::Explain)).chain(events.map(|event| match event {
        Ok(body) => match serde_json::from_slice(&body) {
            Ok(event) => CallLine::Event(event),
            Err(error) => CallLine::Error(ApiError::failed(error.to_string()).into()),
        },
        Err(error) => CallLine::Error(ApiError::from(error).into()),
    }));
    Ok(ndjson(lines))
}

/// Which nodes host the agent, in the order in which they are asked.
async fn explain(node: &Node, request: &CallRequest) -> CallExplanation {
    match meant(node, &request.agent, request.anyone).await {
        Ok(id) => {
            let hosts = node.discovery.hosts(&id);
            let hosts = CallHosts {
                agent: id.to_string(),
                hosts: hosts.iter().map(PublicKey::did).collect(),
                chosen: hosts.first().map(PublicKey::did),
            };
            CallExplanation { hosts: Some(hosts), why: "this node before others, then the least loaded".to_owned() }
        }
        Err(error) => CallExplanation { hosts: None, why: error.to_string() },
    }
}

fn new_id(node: &Node) -> String {
    let random: [u8; 16] = node.entropy().bytes();
    althing_protocol::hex(&random)
}
