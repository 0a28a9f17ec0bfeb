//! Agents that are added and removed.

use std::sync::Arc;

use althing_api::{AddRequest, AgentAddition, AgentRemoval, Folder, RightsChange, RightsChanges};
use althing_node::publish::Stay;
use althing_operations::{Operations, forget_upload, kept_environment};
use axum::Json;
use axum::extract::{Path, State};

use crate::body::{Body, detached};
use crate::error::Answer;
use crate::place::Place;
use crate::requester::Requester;
use crate::{agents, near};

/// `POST /adding`: what an agent file changes of what was agreed to for its name, and for that file; adds nothing.
pub async fn adding(
    State(node): State<Arc<Operations>>,
    requester: Requester,
    Body(request): Body<AddRequest>,
) -> Answer<RightsChanges> {
    // Whoever may not name it is told before anybody agrees to anything.
    if let Folder::Here(path) = &request.folder {
        requester.path(path)?;
    }
    let sources = requester.paths(&request.sources)?;
    Ok(Json(told(node.agents.changes(&request.file, &sources)?)))
}

/// What changes, as it is told.
pub fn told(changes: althing_td::RightsChanges) -> RightsChanges {
    let althing_td::RightsChanges { changes, wider, digest } = changes;
    let change = |change: althing_td::RightsChange| {
        let althing_td::RightsChange { what, old, new, wider } = change;
        RightsChange { what, old, new, wider }
    };
    RightsChanges { changes: changes.into_iter().map(change).collect(), wider, digest }
}

/// `POST /agents`
pub async fn add(
    State(node): State<Arc<Operations>>,
    requester: Requester,
    Body(request): Body<AddRequest>,
) -> Answer<AgentAddition> {
    let AddRequest { file, folder, sources, reservation, agreed } = request;
    let sources = requester.paths(&sources)?;
    let before = node.agents.noted(&file.name, &sources)?;
    let host = node.clone();
    let adding = detached(async move {
        let mut place = Place::of(&host, &requester, &folder)?;
        let how = (Stay::UntilRemoved, agreed.as_deref());
        let read = (place.path(), sources.as_slice());
        let id = host.agents.add_read(file, read, reservation.as_deref(), how).await?;
        place.keep();
        Ok(id)
    });
    let id = adding.await?;
    // Whoever hangs up meanwhile does not wait for its answer, and it stays.
    let added = agents::added(&node, &id).await;
    if let Some(ended) = agents::ended(&node, id.name()) {
        // Whoever mends it adds it again.
        let (_, folder) = node.agents.file(id.name())?;
        node.agents.take_back(id.name(), before).await?;
        forget_upload(&node, &folder);
        return Err(ended);
    }
    Ok(Json(added))
}

/// `DELETE /agents/{name}`
pub async fn remove(State(node): State<Arc<Operations>>, Path(name): Path<String>) -> Answer<AgentRemoval> {
    detached(async move {
        let unknown = |error| near::agent_problem(&node, &name, error);
        let (file, folder) = node.agents.file(&name).map_err(unknown)?;
        node.agents.remove(&name).await.map_err(unknown)?;
        forget_upload(&node, &folder);
        // Whoever adds it again needs them, and another agent may use them.
        Ok(Json(AgentRemoval { removed: name, secrets_kept: kept_environment(&file) }))
    })
    .await
}
