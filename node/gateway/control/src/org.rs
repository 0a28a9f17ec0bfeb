//! The control API's organisation: the owner's roster and domain, what waits for approval, and who publishes under its names.

use std::sync::Arc;

use althing_api::{ApproveRequest, MemberRequest, OrganiseRequest, ProveRequest, PurgeRequest, RejectRequest};
use althing_node::Node;
use althing_node::registries::{
    Approvable, MemberRow, OrganisationRow, Pending, Published, Said, ShownDomain, Watched, WatchedLog, read_audience,
};
use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{Answer, ApiError};
use crate::said::words;
use crate::{receipts, shared};

/// What it can mean that an entry is not shown whose statement is not for some alone.
const KEPT_BACK: &str = "its operator hides what it is of, it waits for approvals, or the registry keeps it back";

/// Which registry.
#[derive(Deserialize)]
pub struct Of {
    registry: Option<String>,
}

fn shown(node: &Node, (at, row): &(String, OrganisationRow)) -> Value {
    json!({
        "registry": at,
        "organisation": node.owner().id().to_string(),
        "domain": row.domain,
        "approvals": row.approvals,
        "members": row.members,
        "signedMs": row.signed_ms,
    })
}

/// `GET /org`
pub async fn show(State(node): State<Arc<Node>>, Query(of): Query<Of>) -> Answer {
    let row = node.registries.organising().organisation(of.registry.as_deref())?;
    Ok(Json(shown(&node, &row)))
}

/// `POST /org`
pub async fn organise(State(node): State<Arc<Node>>, Json(request): Json<OrganiseRequest>) -> Answer {
    let OrganiseRequest { domain, approvals, registry } = request;
    let row = node.registries.organising().organise(&domain, approvals, registry.as_deref()).await?;
    Ok(Json(shown(&node, &row)))
}

/// `POST /org/members`
pub async fn member(State(node): State<Arc<Node>>, Json(request): Json<MemberRequest>) -> Answer {
    let MemberRequest { publisher, roles, names, registry } = request;
    let row =
        node.registries.organising().set_member(MemberRow { publisher, roles, names }, registry.as_deref()).await?;
    Ok(Json(shown(&node, &row)))
}

/// `POST /org/prove`
pub async fn prove(State(node): State<Arc<Node>>, Json(request): Json<ProveRequest>) -> Answer {
    let proof = node.registries.organising().prove(request.registry.as_deref()).await?;
    Ok(Json(json!({
        "organisation": node.owner().id().to_string(),
        "domain": proof.found.domain,
        "proven": proof.found.proven,
        "by": proof.found.by,
        "why": proof.found.why,
        "held": proof.shown.as_ref().map(held),
    })))
}

fn held(shown: &ShownDomain) -> Value {
    let claim = shown
        .claim
        .as_ref()
        .map(|claim| json!({ "organisation": claim.organisation, "by": claim.by, "sinceMs": claim.since_ms }));
    json!({
        "organisation": shown.organisation,
        "by": shown.by,
        "proven": shown.proven,
        "foundMs": shown.found_ms,
        "claim": claim,
        "twins": shown.twins,
    })
}

/// From which entry on, and which registry.
#[derive(Deserialize)]
pub struct From {
    #[serde(default)]
    from: u64,
    registry: Option<String>,
}

/// `GET /org/watch`
pub async fn watch(State(node): State<Arc<Node>>, Query(From { from, registry }): Query<From>) -> Answer {
    let WatchedLog { entries, watched, missing } =
        node.registries.organising().watch(from, registry.as_deref()).await?;
    Ok(Json(json!({
        "entries": entries,
        "watched": watched.iter().map(told).collect::<Vec<_>>(),
        "missing": missing.iter().map(receipts::shown).collect::<Vec<_>>(),
    })))
}

fn told(watched: &Watched) -> Value {
    let (what, about, detail) = match &watched.said {
        Said::Unseen if watched.is_kept_back() => ("kept back", String::new(), KEPT_BACK.to_owned()),
        said => words(said),
    };
    json!({ "entry": watched.index, "atMs": watched.entry.at_ms, "what": what, "about": about, "detail": detail })
}

/// `GET /releases/pending`
pub async fn pending(State(node): State<Arc<Node>>, Query(of): Query<Of>) -> Answer {
    let (at, Pending { staged, waiting }) = node.registries.publishing().pending(of.registry.as_deref()).await?;
    let staged = staged.iter().map(|one| {
        json!({
            "id": one.id, "agent": one.agent, "version": one.version, "digest": one.digest, "bytes": one.bytes,
            "stagedMs": one.at_ms,
        })
    });
    let waiting = waiting.iter().map(|one| {
        json!({ "agent": one.agent, "version": one.version, "approvedBy": one.approved_by, "wanted": one.wanted })
    });
    Ok(Json(json!({
        "registry": at, "staged": staged.collect::<Vec<_>>(), "waiting": waiting.collect::<Vec<_>>(),
    })))
}

/// `POST /releases/approve`: shows what would be approved; approves it when its digest is agreed to.
pub async fn approve(State(node): State<Arc<Node>>, Json(request): Json<ApproveRequest>) -> Answer {
    let ApproveRequest { what, audience, registry, agreed } = request;
    let Some(agreed) = agreed else {
        let Approvable { agent, version, registry, digest, file } =
            node.registries.publishing().look_at(&what, registry.as_deref()).await?;
        let mut answer = json!({
            "agent": agent.to_string(), "version": version.to_string(), "registry": registry, "digest": digest,
            "file": null,
        });
        file.iter().for_each(|file| shared::put(&mut answer, &node, file));
        return Ok(Json(answer));
    };
    let audience = read_audience(audience.as_deref().unwrap_or("public"))?;
    // In a task of its own: it is completed even if the command line hangs up.
    let approving = tokio::spawn(async move {
        let Published { agent, version, registry, entries, bytes } =
            node.registries.publishing().approve(&what, audience, registry.as_deref(), &agreed).await?;
        Ok(Json(json!({
            "agent": agent.to_string(), "version": version.to_string(), "registry": registry, "entries": entries,
            "bytes": bytes,
        })))
    });
    approving.await.unwrap_or_else(|error| Err(ApiError::failed(error.to_string())))
}

/// `POST /releases/reject`
pub async fn reject(State(node): State<Arc<Node>>, Json(request): Json<RejectRequest>) -> Answer {
    let at = node.registries.publishing().reject(&request.id, request.registry.as_deref()).await?;
    Ok(Json(json!({ "rejected": request.id, "registry": at })))
}

/// `POST /releases/purge`
pub async fn purge(State(node): State<Arc<Node>>, Json(request): Json<PurgeRequest>) -> Answer {
    let PurgeRequest { agent, version, registry } = request;
    let (agent, version, at) = node.registries.publishing().purge(&agent, &version, registry.as_deref()).await?;
    Ok(Json(json!({ "agent": agent.to_string(), "version": version.to_string(), "registry": at })))
}
