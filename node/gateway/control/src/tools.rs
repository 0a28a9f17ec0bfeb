//! The tools that agents expose, in the control API.

use althing_api::{Kind, ToolMatch};
use althing_discovery::{Found, Query};
use althing_operations::Operations;
use althing_protocol::AgentId;
use althing_td::Capability;
use axum::response::{IntoResponse as _, Response};

use crate::error::ApiError;

/// The tools of an agent that have what is looked for, as Things.
pub fn of(query: &Query, found: &Found) -> Vec<ToolMatch> {
    let agent = &found.candidate.verified.agent;
    let all = found.candidate.description.capabilities().iter().filter(|capability| capability.is_tool);
    let asks = query.capability.is_some() || query.action.is_some() || query.target.is_some();
    let fits = all.filter(|tool| !asks || query.matches(std::slice::from_ref(tool)));
    let tool = |tool: &Capability| ToolMatch {
        id: format!("{agent}/{}", tool.id),
        name: format!("{}/{}", agent.name(), tool.id),
        title: tool.name.clone(),
        description: tool.description.clone(),
    };
    fits.map(tool).collect()
}

/// The Thing Model of a tool that an agent exposes.
pub async fn described(node: &Operations, id: &AgentId, tool: &str) -> Result<Response, ApiError> {
    let unknown = |message: String| ApiError::new(Kind::NotFound, message);
    node.calls.find_hosts(id).await;
    let known = node.discovery.describe(id).ok_or_else(|| unknown(format!("no node that hosts {id} is known")))?;
    if let Some(tool) = known.description.tool(tool) {
        let model = althing_td::thing_model(&tool).to_string();
        return Ok(([("content-type", "application/tm+json")], model).into_response());
    }
    let suspended = known.description.suspended_tools().into_iter().find(|one| one.id == tool);
    Err(unknown(match suspended {
        Some(suspended) => format!("the tool {tool:?} of {id} is suspended: {}", suspended.why),
        None => format!("{id} exposes no tool {tool:?}"),
    }))
}
