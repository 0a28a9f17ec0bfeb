//! `GET /catalog`: the tools and models of this node, with what their owner says of them.

use std::sync::Arc;

use althing_api::{CatalogList, CatalogModel, CatalogQuery, CatalogTool};
use althing_execution::{CatalogueModel, CatalogueTool, catalogue_models, catalogue_tools};
use althing_operations::Operations;
use althing_td::{Effect, ToolTerms};
use axum::Json;
use axum::extract::State;

use crate::body::Parameters;
use crate::error::{Answer, ApiError};

/// Lists all, or what has one tier.
pub async fn list(
    State(node): State<Arc<Operations>>,
    Parameters(query): Parameters<CatalogQuery>,
) -> Answer<CatalogList> {
    let most = ToolTerms::TIER_MAX;
    if let Some(tier) = query.tier.filter(|tier| *tier > most) {
        return Err(ApiError::invalid(format!("there is no tier {tier}: tiers are 0 to {most}")));
    }
    let is_meant = |tier: Option<u8>| query.tier.is_none() || tier == query.tier;
    let tools = catalogue_tools(&node.host).into_iter().filter(|tool| is_meant(tool.tier));
    let models = catalogue_models(&node.host).into_iter().filter(|model| is_meant(Some(model.tier)));
    Ok(Json(CatalogList { tools: tools.map(tool).collect(), models: models.map(model).collect() }))
}

fn tool(of: CatalogueTool) -> CatalogTool {
    let CatalogueTool { agent, name, definition, terms, tier, effect, why } = of;
    CatalogTool {
        tool: name,
        agent: agent.name().to_owned(),
        version: agent.version.to_string(),
        tier,
        tier_written: terms.tier.is_some(),
        effect: word(effect).to_owned(),
        trusted: terms.trusted == Some(true),
        label: terms.label.map(|label| label.name().to_owned()),
        definition,
        why,
    }
}

fn word(effect: Effect) -> &'static str {
    match effect {
        Effect::None => "none",
        Effect::Repeatable => "repeatable",
        Effect::Keyed => "keyed",
        Effect::Final => "final",
    }
}

fn model(CatalogueModel { model: of, tier, tier_written }: CatalogueModel) -> CatalogModel {
    let clearance = of.clearance.unwrap_or_default().name().to_owned();
    let (name, version, context_tokens, cost) = (of.name, of.version, of.context_tokens, of.cost);
    CatalogModel { name, version, tier, tier_written, clearance, context_tokens, cost }
}
