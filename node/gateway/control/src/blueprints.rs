//! The control API's blueprints: how fast models are on machines.

use std::sync::Arc;

use althing_api::MeasureRequest;
use althing_node::Node;
use althing_node::blueprints::{BlueprintError, Measured, Measuring, Suggestion};
use althing_protocol::hex;
use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::json;

use crate::error::{Answer, ApiError};

impl From<BlueprintError> for ApiError {
    fn from(error: BlueprintError) -> ApiError {
        ApiError::new(error.kind(), error.to_string())
    }
}

/// `POST /blueprints`: measures a model of this machine.
pub async fn measure(State(node): State<Arc<Node>>, Json(request): Json<MeasureRequest>) -> Answer {
    let MeasureRequest { model, tokens, publish_days, registry } = request;
    let wanted = Measuring { model, tokens, publish_days, registry };
    let Measured { model, machine, figures, attestation, registry } = node.blueprints().measure(&wanted).await?;
    Ok(Json(json!({
        "model": model,
        "machine": machine,
        "figures": figures,
        "attestation": hex(&attestation),
        "registry": registry,
    })))
}

/// What is suggested.
#[derive(Deserialize)]
pub struct Asked {
    model: Option<String>,
    registry: Option<String>,
}

/// `GET /blueprints`: what others measured on machines like this one.
pub async fn suggest(State(node): State<Arc<Node>>, Query(asked): Query<Asked>) -> Answer {
    let blueprints = node.blueprints();
    let (at, all) = blueprints.suggest(asked.model.as_deref(), asked.registry.as_deref()).await?;
    let one = |one: &Suggestion| {
        json!({
            "model": one.measurement.model,
            "figures": one.measurement.figures,
            "machine": one.measurement.figures.machine.name(),
            "likeness": one.likeness.name(),
            "by": one.measurement.by.to_string(),
            "trusted": one.measurement.is_trusted,
            "acceptedMs": one.measurement.at_ms,
        })
    };
    let here = blueprints.machine();
    Ok(Json(json!({
        "registry": at,
        "machine": here.name(),
        "suggestions": all.iter().map(one).collect::<Vec<_>>(),
    })))
}
