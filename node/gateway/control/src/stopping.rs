//! `POST /stop`: an agent, or all of an owner's, has no effect any more.

use std::sync::Arc;

use althing_api::{Kind, StopNode, StopReply, StopRequest};
use althing_operations::Operations;
use althing_operations::governance::{Actor, StopReport, StopTarget, stop as stop_agents};
use althing_protocol::object::OrderWord;
use axum::Json;
use axum::extract::State;

use crate::body::{Body, detached};
use crate::error::{Answer, ApiError};
use crate::near::agent_problem;
use crate::requester::{Requester, actor};

/// Stops at once, here and on the owner's other nodes.
pub async fn stop(
    State(node): State<Arc<Operations>>,
    Requester(principal): Requester,
    Body(StopRequest { agent, revoke }): Body<StopRequest>,
) -> Answer<StopReply> {
    if let Actor::Person { name, .. } = actor(&node, &principal)? {
        let why = format!("{name} may not stop agents of this owner: only the owner may, on this machine");
        return Err(ApiError::new(Kind::Refused, why));
    }
    // What was begun reaches the other nodes, whoever hangs up.
    detached(async move {
        let target = agent.clone().map_or(StopTarget::All, StopTarget::Agent);
        let unknown = |error| agent_problem(&node, agent.as_deref().unwrap_or_default(), error);
        let StopReport { word, is_known, nodes, questions, unended } =
            stop_agents(&node, &target, revoke).await.map_err(unknown)?;
        let nodes = nodes.into_iter().map(|(node, heard)| StopNode { node: node.did(), why: heard.err() });
        let revoked = word == OrderWord::Revoke;
        Ok(Json(StopReply { agent, revoked, known: is_known, nodes: nodes.collect(), questions, unended }))
    })
    .await
}
