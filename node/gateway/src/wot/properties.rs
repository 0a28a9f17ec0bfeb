//! The properties of an agent's Thing.

use std::sync::Arc;

use althing_calls::{CallRequest, Callee, Operation, OperationError, OperationRequest, Reply};
use althing_protocol::AgentId;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Json, Response};
use serde_json::{Value, json};

use super::{problem, thing};
use crate::Gateway;
use crate::client::Client;

/// `GET /things/{agent}/properties`.
pub(super) async fn all(State(gateway): State<Arc<Gateway>>, Path(agent): Path<String>, client: Client) -> Response {
    let read = async {
        let (id, _) = thing::find(&gateway, &agent).await?;
        let tasks = counts(&gateway, &id, &client).await?;
        Ok(json!({ "status": state(&gateway, &id), "tasks": tasks }))
    };
    shown(read.await)
}

/// `GET /things/{agent}/properties/status`.
pub(super) async fn status(State(gateway): State<Arc<Gateway>>, Path(agent): Path<String>) -> Response {
    shown(thing::find(&gateway, &agent).await.map(|(id, _)| state(&gateway, &id)))
}

/// `GET /things/{agent}/properties/tasks`.
pub(super) async fn tasks(State(gateway): State<Arc<Gateway>>, Path(agent): Path<String>, client: Client) -> Response {
    let read = async {
        let (id, _) = thing::find(&gateway, &agent).await?;
        counts(&gateway, &id, &client).await
    };
    shown(read.await)
}

/// A property by its name, for the WebSocket; none if there is no such property.
pub(super) async fn read(
    gateway: &Gateway,
    id: &AgentId,
    name: &str,
    client: &Client,
) -> Option<Result<Value, OperationError>> {
    match name {
        "status" => Some(Ok(state(gateway, id))),
        "tasks" => Some(counts(gateway, id, client).await),
        _ => None,
    }
}

/// The names of all properties.
pub(super) const NAMES: [&str; 2] = ["status", "tasks"];

fn shown(read: Result<Value, OperationError>) -> Response {
    match read {
        Ok(value) => Json(value).into_response(),
        Err(error) => problem::of(&error),
    }
}

fn state(gateway: &Gateway, id: &AgentId) -> Value {
    let hosts = gateway.calls.discovery().hosts(id);
    let local = hosts.contains(&gateway.key.public());
    let nodes: Vec<String> = hosts.iter().map(|node| node.did()).collect();
    json!({ "available": !nodes.is_empty(), "local": local, "nodes": nodes })
}

async fn counts(gateway: &Gateway, id: &AgentId, client: &Client) -> Result<Value, OperationError> {
    let states = ["", "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED"];
    let counting = states.map(|state| Box::pin(count(gateway, id, state, client)));
    let [total, submitted, working, waiting] = counting;
    let (total, submitted, working, waiting) = futures::try_join!(total, submitted, working, waiting)?;
    Ok(json!({ "total": total, "submitted": submitted, "working": working, "inputRequired": waiting }))
}

/// The number of the reader's tasks in a state, or in any.
async fn count(gateway: &Gateway, id: &AgentId, state: &str, client: &Client) -> Result<u64, OperationError> {
    let mut params = json!({ "pageSize": 1, "historyLength": 0 });
    if !state.is_empty() {
        params["status"] = json!(state);
    }
    let listed = one(gateway, id, Operation::ListTasks, &params, client).await?;
    Ok(listed["totalSize"].as_u64().unwrap_or_default())
}

/// One operation with one answer.
pub(super) async fn one(
    gateway: &Gateway,
    id: &AgentId,
    operation: Operation,
    params: &Value,
    client: &Client,
) -> Result<Value, OperationError> {
    let body = bytes(gateway, id, operation, params, client).await?;
    serde_json::from_slice(&body)
        .map_err(|error| OperationError::invalid_agent_response(format!("{id} answered without JSON: {error}")))
}

/// The same, as the agent wrote it.
pub(super) async fn bytes(
    gateway: &Gateway,
    id: &AgentId,
    operation: Operation,
    params: &Value,
    client: &Client,
) -> Result<Vec<u8>, OperationError> {
    let target = client.target(&gateway.calls, &Callee::Id(id.clone())).await?;
    let request = OperationRequest::parse(operation, params.to_string().into_bytes())?;
    let request = CallRequest::new(target, request, vec![client.principal.clone()]);
    match gateway.calls.ask(request).await? {
        Reply::One(body) => Ok(body),
        Reply::Events(_) => Err(OperationError::internal("one answer was asked for, and a stream came")),
    }
}
