//! The control API's routing: whom a sentence is for, what is learned for that, how well it does.

use std::sync::Arc;

use althing_api::{RouteChannel, RouteEvaluation, RouteFile, RouteMode, RouteRequest};
use althing_node::{Node, NodeRouter, RoutingError};
use axum::Json;
use axum::extract::State;
use serde_json::json;

use crate::among;
use crate::error::{Answer, ApiError};

impl From<RoutingError> for ApiError {
    fn from(error: RoutingError) -> ApiError {
        ApiError::new(error.kind(), error.to_string())
    }
}

/// The router's own word for a mode.
fn mode(asked: RouteMode) -> althing_node::RouteMode {
    match asked {
        RouteMode::Keyword => althing_node::RouteMode::Keyword,
        RouteMode::Vector => althing_node::RouteMode::Vector,
        RouteMode::Hybrid => althing_node::RouteMode::Hybrid,
        RouteMode::Model => althing_node::RouteMode::Model,
    }
}

/// `POST /route`
pub async fn route(State(node): State<Arc<Node>>, Json(request): Json<RouteRequest>) -> Answer {
    let routed = NodeRouter(&node).route(&request.text, mode(request.mode), among(request.anyone)).await?;
    Ok(Json(json!(routed)))
}

/// `POST /route/learn`
pub async fn learn(State(node): State<Arc<Node>>, Json(request): Json<RouteFile>) -> Answer {
    // In a task of its own: it is completed even if the command line hangs up.
    let learning = tokio::spawn(async move { node.routing.learn(&request.file).await });
    let (learned, known) = learning.await.map_err(|error| ApiError::failed(error.to_string()))??;
    Ok(Json(json!({ "learned": learned, "known": known })))
}

/// `DELETE /route/learn`
pub async fn forget(State(node): State<Arc<Node>>) -> Answer {
    Ok(Json(json!({ "forgotten": node.routing.forget().await? })))
}

/// `POST /route/channel`
pub async fn channel(State(node): State<Arc<Node>>, Json(request): Json<RouteChannel>) -> Answer {
    let resolved = NodeRouter(&node).channel(&request.capabilities, among(request.anyone)).await?;
    Ok(Json(json!({ "channel": resolved })))
}

/// `POST /route/eval`
pub async fn evaluate(State(node): State<Arc<Node>>, Json(request): Json<RouteEvaluation>) -> Answer {
    let report = NodeRouter(&node).evaluate(&request.file, request.mode.map(mode)).await?;
    let mut shown = json!(report);
    for (shown, found) in shown["modes"].as_array_mut().into_iter().flatten().zip(&report.modes) {
        if found.by_model {
            shown["mode"] = json!(RouteMode::Model);
        }
        shown["accuracy"] = json!(found.accuracy());
        shown["refusal"] = json!(found.refusal());
    }
    Ok(Json(shown))
}
