//! The control API's routing: whom a sentence is for, what is learned for that, how well it does.

use std::sync::Arc;

use althing_api::{
    ChannelAgent, ChannelReply, RouteChannel, RouteChoice, RouteEmbeddings, RouteEvaluation, RouteFile, RouteLesson,
    RouteMistake, RouteMode, RouteRemoval, RouteReply, RouteReport, RouteRequest, RouteScore,
};
use althing_operations::{Choice, Embedded, NodeRouter, Operations, Resolved, RoutingError};
use axum::Json;
use axum::extract::State;

use crate::among;
use crate::body::{Body, detached};
use crate::error::{Answer, ApiError};

impl From<RoutingError> for ApiError {
    fn from(error: RoutingError) -> ApiError {
        ApiError::new(error.kind(), error.to_string()).with_remedy(error.remedy())
    }
}

/// The router's own word for a mode.
fn mode(asked: RouteMode) -> althing_operations::RouteMode {
    match asked {
        RouteMode::Keyword => althing_operations::RouteMode::Keyword,
        RouteMode::Vector => althing_operations::RouteMode::Vector,
        RouteMode::Hybrid => althing_operations::RouteMode::Hybrid,
        RouteMode::Model => althing_operations::RouteMode::Model,
    }
}

/// The word of this API for a mode of the router.
fn told_mode(mode: althing_operations::RouteMode) -> RouteMode {
    match mode {
        althing_operations::RouteMode::Keyword => RouteMode::Keyword,
        althing_operations::RouteMode::Vector => RouteMode::Vector,
        althing_operations::RouteMode::Hybrid => RouteMode::Hybrid,
        althing_operations::RouteMode::Model => RouteMode::Model,
    }
}

/// `POST /route`
pub async fn route(State(node): State<Arc<Operations>>, Body(request): Body<RouteRequest>) -> Answer<RouteReply> {
    let routed = NodeRouter(&node).route(&request.text, mode(request.mode), among(request.anyone)).await?;
    Ok(Json(RouteReply {
        chosen: routed.chosen.into_iter().map(choice).collect(),
        best: routed.best.into_iter().map(choice).collect(),
        mode: told_mode(routed.mode),
        threshold: routed.threshold.into(),
        considered: routed.considered,
        left_out: routed.left_out,
        learned: routed.learned,
        took_us: routed.took_us,
        embeddings: routed.embeddings.map(embeddings),
    }))
}

fn choice(candidate: Choice) -> RouteChoice {
    let Choice { agent, name, title, stranger, keyword, vector, score } = candidate;
    let (keyword, vector, score) = (keyword.into(), vector.into(), score.into());
    RouteChoice { agent, name, title, stranger, keyword, vector, score }
}

fn embeddings(used: Embedded) -> RouteEmbeddings {
    let Embedded { model, missing, took_us } = used;
    RouteEmbeddings { model, missing, took_us }
}

/// `POST /route/learn`
pub async fn learn(State(node): State<Arc<Operations>>, Body(request): Body<RouteFile>) -> Answer<RouteLesson> {
    let learning = detached(async move { Ok(node.routing.learn(&request.name, &request.text).await?) });
    let (learned, known) = learning.await?;
    Ok(Json(RouteLesson { learned, known }))
}

/// `DELETE /route/learn`
pub async fn forget(State(node): State<Arc<Operations>>) -> Answer<RouteRemoval> {
    detached(async move { Ok(Json(RouteRemoval { forgotten: node.routing.forget().await? })) }).await
}

/// `POST /route/channel`
pub async fn channel(State(node): State<Arc<Operations>>, Body(request): Body<RouteChannel>) -> Answer<ChannelReply> {
    let resolved = NodeRouter(&node).channel(&request.capabilities, among(request.anyone)).await?;
    let agent = |found: Resolved| {
        let Resolved { capability, agent, name, node, version } = found;
        ChannelAgent { capability, agent, name, node, version }
    };
    Ok(Json(ChannelReply { channel: resolved.into_iter().map(agent).collect() }))
}

/// `POST /route/eval`
pub async fn evaluate(
    State(node): State<Arc<Operations>>,
    Body(request): Body<RouteEvaluation>,
) -> Answer<RouteReport> {
    let report =
        NodeRouter(&node).evaluate((request.name.as_str(), request.text.as_str()), request.mode.map(mode)).await?;
    let modes = report.modes.iter().map(|found| RouteScore {
        mode: if found.by_model { RouteMode::Model } else { told_mode(found.mode.into()) },
        dense: found.dense,
        by_model: found.by_model,
        in_scope: found.in_scope,
        right: found.right,
        close: found.close,
        refused_in_scope: found.refused_in_scope,
        out_of_scope: found.out_of_scope,
        refused: found.refused,
        threshold: found.threshold.into(),
        route_ns: found.route_ns,
        mistakes: found
            .mistakes
            .iter()
            .map(|one| RouteMistake {
                instruction: one.instruction.clone(),
                wanted: one.wanted.clone(),
                got: one.got.clone(),
            })
            .collect(),
        accuracy: found.accuracy(),
        refusal: found.refusal(),
    });
    Ok(Json(RouteReport {
        modes: modes.collect(),
        agents: report.agents,
        learned_of_file: report.learned_of_file,
        learned_before: report.learned_before,
        tested: report.tested,
        learning_ms: report.learning_ms,
        embeddings: report.embeddings.map(embeddings),
    }))
}
