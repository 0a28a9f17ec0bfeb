//! The control API's blueprints: how fast models are on machines.

use std::sync::Arc;

use althing_api::{
    BlueprintFigures, BlueprintList, BlueprintMachine, BlueprintMeasurement, BlueprintSuggestion, MeasureRequest,
};
use althing_operations::Operations;
use althing_operations::blueprints::{BlueprintError, Figures, MachineFacts, Measured, Measuring, Suggestion};
use althing_protocol::hex;
use axum::Json;
use axum::extract::State;
use serde::Deserialize;

use crate::body::{Body, Parameters, detached};
use crate::error::{Answer, ApiError};

impl From<BlueprintError> for ApiError {
    fn from(error: BlueprintError) -> ApiError {
        ApiError::new(error.kind(), error.to_string()).with_remedy(error.remedy())
    }
}

/// `POST /blueprints`: measures a model of this machine.
pub async fn measure(
    State(node): State<Arc<Operations>>,
    Body(request): Body<MeasureRequest>,
) -> Answer<BlueprintMeasurement> {
    let MeasureRequest { model, tokens, publish_days, registry } = request;
    let wanted = Measuring { model, tokens, publish_days, registry };
    detached(async move {
        let Measured { model, machine, figures, attestation, registry } = node.blueprints().measure(&wanted).await?;
        let (figures, attestation) = (measured(figures), hex(&attestation));
        Ok(Json(BlueprintMeasurement { model, machine, figures, attestation, registry }))
    })
    .await
}

fn measured(figures: Figures) -> BlueprintFigures {
    let Figures {
        tokens_per_second,
        first_token_ms,
        memory_mib,
        rounds,
        tokens,
        estimated,
        quantisation,
        machine: MachineFacts { architecture, cpu, cores, memory_mib: machine_mib, gpus },
    } = figures;
    let machine = BlueprintMachine { architecture, cpu, cores, memory_mib: machine_mib, gpus };
    BlueprintFigures { tokens_per_second, first_token_ms, memory_mib, rounds, tokens, estimated, quantisation, machine }
}

/// What is suggested.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SuggestionFilter {
    model: Option<String>,
    registry: Option<String>,
}

/// `GET /blueprints`: what others measured on machines like this one.
pub async fn suggest(
    State(node): State<Arc<Operations>>,
    Parameters(SuggestionFilter { model, registry }): Parameters<SuggestionFilter>,
) -> Answer<BlueprintList> {
    let blueprints = node.blueprints();
    let (at, all) = blueprints.suggest(model.as_deref(), registry.as_deref()).await?;
    let machine = blueprints.machine().name();
    Ok(Json(BlueprintList { registry: at, machine, suggestions: all.into_iter().map(suggestion).collect() }))
}

fn suggestion(Suggestion { measurement, likeness }: Suggestion) -> BlueprintSuggestion {
    BlueprintSuggestion {
        model: measurement.model,
        machine: measurement.figures.machine.name(),
        figures: measured(measurement.figures),
        likeness: likeness.name().to_owned(),
        by: measurement.by.to_string(),
        trusted: measurement.is_trusted,
        accepted_ms: measurement.at_ms,
    }
}
