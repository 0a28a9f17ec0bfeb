//! What contracts are bound to, in the control API.

use std::sync::Arc;

use althing_api::{AddRequest, BindingReply, CandidateReason, ContractField};
use althing_execution::binding::{Layer, Why};
use althing_node::SealedBinding;
use althing_operations::Operations;
use althing_protocol::hex;
use axum::Json;
use axum::extract::{Path, State};
use serde_json::Value;

use crate::body::Body;
use crate::error::Answer;
use crate::near::agent_problem;
use crate::place::Place;
use crate::requester::Requester;

/// `POST /bind`: binds an agent file without running it.
pub async fn bind(
    State(node): State<Arc<Operations>>,
    requester: Requester,
    Body(request): Body<AddRequest>,
) -> Answer<BindingReply> {
    let place = Place::of(&node, &requester, &request.folder)?;
    Ok(Json(reply(node.bindings.bind(request.file, place.path()).await?)))
}

/// `GET /bind/{name}`: what a running agent was bound to, or the manifest of that hash.
pub async fn find(State(node): State<Arc<Operations>>, Path(name): Path<String>) -> Answer<BindingReply> {
    let found = node.bindings.find(&name);
    found.map(|found| Json(reply(found))).map_err(|error| agent_problem(&node, &name, error))
}

fn reply(binding: SealedBinding) -> BindingReply {
    let SealedBinding { network, bound, sealed, core, proof, fields } = binding;
    let field =
        |(field, (value, layer)): (String, (Value, Layer))| ContractField { field, value, set_by: layer.to_string() };
    BindingReply {
        hash: hex(&bound.manifest.hash()),
        network,
        manifest: bound.manifest.clone(),
        sealed,
        core,
        proof: proof.and_then(|proof| serde_json::to_value(proof).ok()),
        models: bound.models.iter().map(reason).collect(),
        tools: bound.tools.iter().map(reason).collect(),
        fields: fields.map(|fields| fields.into_iter().map(field).collect()),
    }
}

fn reason(why: &Why) -> CandidateReason {
    CandidateReason { candidate: why.candidate.clone(), rank: why.rank, reason: why.reason.clone() }
}
