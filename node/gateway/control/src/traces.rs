//! The control API's recent traces.

use std::sync::Arc;

use althing_api::Kind;
use althing_calls::spans::Gathered;
use althing_node::Node;
use axum::Json;
use axum::extract::{Path as UrlPath, Query as UrlQuery, State};
use serde_json::{Value, json};

use crate::error::{Answer, ApiError};

/// Traces that are listed at most.
const LISTED_MAX: usize = 1_000;
/// Traces that are listed unless more or fewer are asked for.
const LISTED: usize = 20;

/// The query of `GET /traces`.
#[derive(serde::Deserialize)]
pub struct ListQuery {
    limit: Option<usize>,
}

/// The newest traces that this node saw.
pub async fn list(State(node): State<Arc<Node>>, UrlQuery(query): UrlQuery<ListQuery>) -> Json<Value> {
    let most = query.limit.unwrap_or(LISTED).min(LISTED_MAX);
    let traces = &node.traces;
    Json(json!({ "traces": traces.recent(most), "nowUs": node.clock().now_ms().saturating_mul(1_000) }))
}

/// A trace over all nodes that it passed.
pub async fn show(State(node): State<Arc<Node>>, UrlPath(trace): UrlPath<String>) -> Answer {
    let trace = node.traces.resolve(&trace).map_err(|why| ApiError::new(Kind::NotFound, why))?;
    let gathered = node.traces.gather(trace).await;
    if gathered.spans.is_empty() && gathered.untold.is_empty() {
        let why = format!(
            "neither this node nor a connected one of its owner keeps a span of {trace}; spans make room for newer ones, \
             and go when a node stops"
        );
        return Err(ApiError::new(Kind::NotFound, why));
    }
    Ok(Json(shown(&trace.to_string(), &node, gathered)))
}

fn shown(trace: &str, node: &Node, gathered: Gathered) -> Value {
    let spans = gathered.spans.into_iter().map(|of| {
        let mut span = json!(of.span);
        span["node"] = json!(of.node.did());
        span
    });
    let untold = gathered.untold.into_iter().map(|untold| json!({ "node": untold.node.did(), "why": untold.why }));
    json!({
        "trace": trace,
        "here": node.key.public().did(),
        "spans": spans.collect::<Vec<_>>(),
        "untold": untold.collect::<Vec<_>>(),
        "more": gathered.more,
    })
}
