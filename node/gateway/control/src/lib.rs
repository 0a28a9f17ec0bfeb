//! The control API, by which a node's owner manages it over a connection that only the owner can use. The command line uses
//! a Unix socket (0600) in the data directory.
//!
//! **Inputs**: HTTP requests, whose types are in `node/api`. **Outputs**: JSON, or lines of JSON while something goes on.
//!
//! **Invariants**
//! - A body is bounded before it is parsed; what nobody knows in it is refused, and every refusal is a problem as JSON.
//! - On whose behalf a request is carried out is said by the listener that took it. Files of the node's machine are named only on
//!   that of the machine itself, its control socket; others hand over what is needed.
//! - What is served is described by `/openapi.json`: both are made from one table.
//!
//! **Never knows**: access control (whoever serves it decides), exit codes, terminals.

mod adding;
mod adopt;
mod agents;
mod attesting;
mod audit;
mod bind;
mod blueprints;
mod body;
mod call_reviews;
mod catalog;
mod comparisons;
mod credentials;
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
mod handoffs;
mod lineage;
mod lines;
mod logs;
mod memory;
mod near;
mod openapi;
mod org;
mod pending;
mod people;
mod place;
mod policies;
mod receipts;
mod registries;
mod requester;
mod reserve;
mod rollouts;
mod routes;
mod routing;
mod said;
mod sessions;
mod shared;
mod status;
mod stopping;
mod table;
mod tap;
mod tools;
mod traces;
mod trials;
mod verdicts;
mod waits;

use std::sync::Arc;

use althing_api::{
    AddRequest, AgentAddition, AgentList, AgentRemoval, AgentSummary, CallCancellation, CallExplanation, CallHosts,
    CallLine, CallRequest, CallStep, DoctorReport, DoctorRequest, Kind, OverheadReport, RightsChanges, TaskEvent,
    TrustChange, TrustList, TrustRequest,
};
use althing_calls::{Among, Asker, Callee, Operation, OperationError, OperationRequest, Purpose, Refusal, Reply};
use althing_node::publish;
use althing_operations::{Operations, doctor};
use althing_protocol::{AgentId, CallerId, IdentityError, PublicKey};
use axum::extract::{Path as UrlPath, State};
use axum::middleware::{from_extractor, from_fn, map_response};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures::StreamExt as _;
use serde::Serialize;

pub use agents::machine;
pub use audit::audit_entry;
pub use error::ApiError;
pub use pending::{person_answer, person_question};
pub use status::osi_model;

use body::{Body, Parameters, detached};
use error::Answer;
use lines::ndjson;
use openapi::Document;
use requester::Requester;
use routes::{Route, Routes};

/// All routes, for a node. Whoever serves them puts the principal on whose behalf a connection asks into the extensions of each
/// of its requests; without one nothing is carried out.
pub fn router(node: Arc<Operations>) -> Router {
    let show = get(show_document).route_layer(from_fn(body::without_parameters));
    let router = all_routes().router.route(openapi::PATH, show);
    let router = router.route_layer(from_extractor::<Requester>());
    router.layer(map_response(body::as_problem)).with_state(node)
}

/// The table of routes.
fn all_routes() -> Routes {
    table::routes()
        .route(Route::get("/agents", "Lists the agents that were added").reply::<AgentList>(), listed)
        .route(Route::post::<AddRequest>("/agents", "Adds an agent").files().reply::<AgentAddition>(), adding::add)
        .route(Route::delete("/agents/{name}", "Removes an agent").reply::<AgentRemoval>(), adding::remove)
        .route(
            Route::post::<AddRequest>("/adding", "Shows what an agent file changes of what was agreed to")
                .files()
                .reply::<RightsChanges>(),
            adding::adding,
        )
        .route(
            Route::get("/describe/{agent}", "Shows the description of an agent, of a tool of one, or of a Thing")
                .query::<DescribeQuery>()
                .media("application/td+json"),
            describe,
        )
        .route(
            Route::post::<DoctorRequest>("/doctor", "Examines the node, or why calls of an agent fail")
                .reply::<DoctorReport>(),
            examine,
        )
        .route(
            Route::post::<OverheadRequest>("/doctor/overhead", "Measures what each layer adds to a call")
                .reply::<OverheadReport>(),
            overhead,
        )
        .route(Route::get("/trust", "Lists whom the owner trusts").reply::<TrustList>(), trusted)
        .route(
            Route::post::<TrustRequest>("/trust", "Trusts a node or publisher, or no more").reply::<TrustChange>(),
            trust,
        )
        .route(Route::post::<CallRequest>("/call", "Calls an agent").lines::<CallLine>(), call)
        .route(Route::post::<CallRequest>("/answer", "Shows a task of an agent as it is").lines::<CallLine>(), answer)
        .route(Route::post::<CallRequest>("/cancel", "Cancels a task of an agent").reply::<CallCancellation>(), cancel)
}

/// `GET /openapi.json`. It is made for whoever asks: as data it is megabytes, which few ever ask for.
async fn show_document() -> Answer<Document> {
    let made = tokio::task::spawn_blocking(document).await;
    made.map(Json).map_err(|error| ApiError::failed(error.to_string()))
}

/// What `/openapi.json` shows.
fn document() -> Document {
    let mut table = all_routes().table;
    table.push(Route::get(openapi::PATH, "Shows this document"));
    openapi::document(&table)
}

/// `POST /doctor`
async fn examine(State(node): State<Arc<Operations>>, Body(request): Body<DoctorRequest>) -> Json<DoctorReport> {
    let found = match &request.agent {
        Some(agent) => doctor::examine_call(&node, agent, among(request.anyone)).await,
        None => doctor::examine(&node).await,
    };
    Json(diagnosis::report(found))
}

/// The body of `POST /doctor/overhead`: nothing is said yet.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct OverheadRequest {}

/// What each layer adds to a call, measured now.
async fn overhead(State(node): State<Arc<Operations>>, Body(_): Body<OverheadRequest>) -> Answer<OverheadReport> {
    // Its agent is ended even if the command line hangs up.
    let measuring = detached(async move { doctor::overhead(&node).await.map_err(ApiError::failed) });
    Ok(Json(diagnosis::overhead(measuring.await?)))
}

/// The query of `GET /describe/{agent}`.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct DescribeQuery {
    #[serde(default)]
    anyone: bool,
}

async fn describe(
    State(node): State<Arc<Operations>>,
    UrlPath(agent): UrlPath<String>,
    Parameters(query): Parameters<DescribeQuery>,
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
                    Some(thing) => unknown(format!("no agent is {agent:?}, but a Thing"))
                        .with_remedy(Some(CallStep::Describe(thing.id).into())),
                    None => unknown(error.message)
                        .with_remedy(error.remedy.map(|step| *step))
                        .or_meant(name, &near::agents(&node, among(query.anyone))),
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

async fn listed(State(node): State<Arc<Operations>>) -> Answer<AgentList> {
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

async fn trusted(State(node): State<Arc<Operations>>) -> Json<TrustList> {
    Json(TrustList { trusted: node.trust.ids().iter().map(ToString::to_string).collect() })
}

async fn trust(State(node): State<Arc<Operations>>, Body(request): Body<TrustRequest>) -> Answer<TrustChange> {
    let TrustRequest { id, trusted } = request;
    let whom: CallerId = id.parse().map_err(|error: IdentityError| ApiError::invalid(error.to_string()))?;
    detached(async move {
        node.trust.set(whom, trusted).await?;
        Ok(Json(TrustChange { id, trusted }))
    })
    .await
}

/// The parameters of `CancelTask` and `GetTask`.
#[derive(Serialize)]
struct TaskParams<'a> {
    id: Option<&'a str>,
}

async fn cancel(
    State(node): State<Arc<Operations>>,
    requester: Requester,
    Body(request): Body<CallRequest>,
) -> Answer<CallCancellation> {
    let params = TaskParams { id: request.task.as_deref() };
    ask(&node, requester, &request, (Operation::CancelTask, &params)).await?;
    Ok(Json(CallCancellation { cancelled: request.task }))
}

/// Shows a task as it is by now to whoever gave it to the agent; the text says nothing.
async fn answer(
    State(node): State<Arc<Operations>>,
    requester: Requester,
    Body(request): Body<CallRequest>,
) -> Result<Response, ApiError> {
    let params = TaskParams { id: request.task.as_deref() };
    let Reply::One(body) = ask(&node, requester, &request, (Operation::GetTask, &params)).await? else {
        return Err(ApiError::failed("the task was answered as a stream"));
    };
    let task: serde_json::Value = serde_json::from_slice(&body).map_err(|error| ApiError::failed(error.to_string()))?;
    // As the events of a call have it.
    let event = serde_json::to_value(TaskEvent { task }).map_err(|error| ApiError::failed(error.to_string()))?;
    Ok(ndjson(futures::stream::iter([CallLine::Event(event)])))
}

/// Which publishers' agents may be called.
fn among(anyone: bool) -> Among {
    if anyone { Among::Anyone } else { Among::Near }
}

/// The agent of that name or id, to read of it for the local user.
async fn meant(node: &Operations, agent: &str, anyone: bool) -> Result<AgentId, OperationError> {
    let callee = Callee::Named(agent.to_owned(), among(anyone));
    Ok(node.calls.target(&Asker::Owner, &callee, Purpose::Read).await?.agent)
}

/// Calls an agent on behalf of whoever asks for it.
async fn ask<P: Serialize>(
    node: &Operations,
    Requester(principal): Requester,
    request: &CallRequest,
    (operation, params): (Operation, &P),
) -> Result<Reply, ApiError> {
    let callee = Callee::Named(request.agent.clone(), among(request.anyone));
    let params = serde_json::to_vec(params).map_err(|error| ApiError::failed(error.to_string()))?;
    let asked = OperationRequest::parse(operation, params).map_err(ApiError::from)?;
    let answered = async {
        let target = node.calls.target(&Asker::Owner, &callee, Purpose::Call).await?;
        node.calls.ask(althing_calls::CallRequest::new(target, asked, vec![principal])).await
    };
    let error = match answered.await {
        Err(error) if error.refusal == Refusal::AgentUnknown => error,
        answered => return answered.map_err(ApiError::from),
    };
    if let Some(thing) = node.discovery.no_agent_but_thing(&request.agent) {
        let message = format!(
            "{:?} is a Thing that was read at {}, and no agent: use it by the forms of its description",
            request.agent, thing.from
        );
        let none = ApiError::new(Kind::NotFound, message);
        return Err(none.with_remedy(Some(CallStep::Describe(thing.id).into())));
    }
    let known = || near::agents(node, among(request.anyone));
    let unknown = |name: &str, error: OperationError| ApiError::from(error).or_meant(name, &known());
    let Some((name, tool)) = request.agent.split_once('/') else { return Err(unknown(&request.agent, error)) };
    if meant(node, name, request.anyone).await.is_err() {
        return Err(unknown(name, error));
    }
    let message = format!("{}. {name:?} is an agent; a tool of one is called by a message", error.message);
    let step = CallStep::CallTool { agent: name.to_owned(), tool: serde_json::Value::from(tool).to_string() };
    Err(ApiError::new(Kind::NotFound, message).with_remedy(Some(step.into())))
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

async fn call(
    State(node): State<Arc<Operations>>,
    requester: Requester,
    Body(request): Body<CallRequest>,
) -> Result<Response, ApiError> {
    let message = Message {
        message_id: new_id(&node),
        role: "ROLE_USER",
        parts: [TextPart { text: &request.text }],
        task_id: request.task.as_deref(),
    };
    let params = MessageParams { message };
    let explained = if request.explain { Some(explain(&node, &request).await) } else { None };
    let events = match ask(&node, requester, &request, (Operation::SendStreamingMessage, &params)).await? {
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
async fn explain(node: &Operations, request: &CallRequest) -> CallExplanation {
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

fn new_id(node: &Operations) -> String {
    let random: [u8; 16] = node.entropy().bytes();
    althing_protocol::hex(&random)
}
