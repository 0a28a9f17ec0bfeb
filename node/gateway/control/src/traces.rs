//! The control API's recent traces.

use std::sync::Arc;

use althing_api::{Kind, TraceDetails, TraceGap, TraceList, TraceSpan, TraceSummary};
use althing_calls::spans::{NodeSpan, Summary, TraceNameError, Untold};
use althing_operations::Operations;
use axum::Json;
use axum::extract::{Path as UrlPath, State};

use crate::body::Parameters;
use crate::error::{Answer, ApiError};

/// Traces that are listed at most.
const LISTED_MAX: usize = 1_000;
/// Traces that are listed unless more or fewer are asked for.
const LISTED: usize = 20;

/// The query of `GET /traces`.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    limit: Option<usize>,
}

/// The newest traces that this node saw.
pub async fn list(State(node): State<Arc<Operations>>, Parameters(query): Parameters<ListQuery>) -> Json<TraceList> {
    let most = query.limit.unwrap_or(LISTED).min(LISTED_MAX);
    let traces = node.traces.recent(most).into_iter().map(summary).collect();
    Json(TraceList { traces, now_us: node.clock().now_ms().saturating_mul(1_000) })
}

/// A trace over all nodes that it passed.
pub async fn show(State(node): State<Arc<Operations>>, UrlPath(trace): UrlPath<String>) -> Answer<TraceDetails> {
    let none = |error: TraceNameError| ApiError::new(error.kind(), error.to_string()).with_remedy(error.remedy());
    let trace = node.traces.resolve(&trace).map_err(none)?;
    let gathered = node.traces.gather(trace).await;
    if gathered.spans.is_empty() && gathered.untold.is_empty() {
        let why = format!(
            "neither this node nor a connected one of its owner keeps a span of {trace}; spans make room for newer ones, \
             and go when a node stops"
        );
        return Err(ApiError::new(Kind::NotFound, why));
    }
    Ok(Json(TraceDetails {
        trace: trace.to_string(),
        here: node.key.public().did(),
        spans: gathered.spans.into_iter().map(span).collect(),
        untold: gathered.untold.into_iter().map(gap).collect(),
        more: gathered.more,
    }))
}

fn summary(seen: Summary) -> TraceSummary {
    let Summary { trace, began_us, took_us, name, operation, agent, spans, nodes, failed } = seen;
    TraceSummary { trace, began_us, took_us, name, operation, agent, spans, nodes, failed }
}

fn span(of: NodeSpan) -> TraceSpan {
    let (node, span) = (of.node.did(), of.span);
    TraceSpan {
        trace: span.trace,
        id: span.id,
        parent: span.parent,
        name: span.name,
        kind: span.kind,
        began_us: span.began_us,
        took_us: span.took_us,
        failed: span.failed,
        attributes: span.attributes,
        node,
    }
}

fn gap(untold: Untold) -> TraceGap {
    TraceGap { node: untold.node.did(), why: untold.why }
}
