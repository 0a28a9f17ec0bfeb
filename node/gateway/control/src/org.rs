//! The control API's organisation: the owner's roster and domain, what waits for approval, and who publishes under its names.

use std::sync::Arc;

use althing_api::{
    ApprovalList, ApprovalOffer, ApprovalReply, ApprovalSummary, ApproveRequest, DomainClaim, DomainHolder,
    DomainProof, LogNotice, LogWatch, MemberRequest, OrganisationMember, OrganisationStatus, OrganiseRequest,
    ProveRequest, PurgeRequest, RejectRequest, ReleaseContents, ReleasePurge, StageRejection, StageSummary,
};
use althing_operations::Operations;
use althing_operations::registries::{
    Approvable, MemberRow, OrganisationRow, Pending, Said, ShownDomain, Watched, WatchedLog, read_audience,
};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;

use crate::body::{Body, Parameters, detached};
use crate::error::Answer;
use crate::said::words;
use crate::{receipts, registries, shared};

/// What it can mean that an entry is not shown whose statement is not for some alone.
const KEPT_BACK: &str = "its operator hides what it is of, it waits for approvals, or the registry keeps it back";

/// Which registry.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegistryFilter {
    registry: Option<String>,
}

fn shown(node: &Operations, (at, row): (String, OrganisationRow)) -> OrganisationStatus {
    let member = |MemberRow { publisher, roles, names }| OrganisationMember { publisher, roles, names };
    OrganisationStatus {
        registry: at,
        organisation: node.owner().id().to_string(),
        domain: row.domain,
        approvals: row.approvals,
        members: row.members.into_iter().map(member).collect(),
        signed_ms: row.signed_ms,
    }
}

/// `GET /org`
pub async fn show(
    State(node): State<Arc<Operations>>,
    Parameters(RegistryFilter { registry }): Parameters<RegistryFilter>,
) -> Answer<OrganisationStatus> {
    let row = node.registries.organising().organisation(registry.as_deref())?;
    Ok(Json(shown(&node, row)))
}

/// `POST /org`
pub async fn organise(
    State(node): State<Arc<Operations>>,
    Body(request): Body<OrganiseRequest>,
) -> Answer<OrganisationStatus> {
    let OrganiseRequest { domain, approvals, registry } = request;
    detached(async move {
        let row = node.registries.organising().organise(&domain, approvals, registry.as_deref()).await?;
        Ok(Json(shown(&node, row)))
    })
    .await
}

/// `POST /org/members`
pub async fn member(
    State(node): State<Arc<Operations>>,
    Body(request): Body<MemberRequest>,
) -> Answer<OrganisationStatus> {
    let MemberRequest { publisher, roles, names, registry } = request;
    detached(async move {
        let member = MemberRow { publisher, roles, names };
        let row = node.registries.organising().set_member(member, registry.as_deref()).await?;
        Ok(Json(shown(&node, row)))
    })
    .await
}

/// `POST /org/prove`
pub async fn prove(State(node): State<Arc<Operations>>, Body(request): Body<ProveRequest>) -> Answer<DomainProof> {
    detached(async move {
        let proof = node.registries.organising().prove(request.registry.as_deref()).await?;
        Ok(Json(DomainProof {
            organisation: node.owner().id().to_string(),
            domain: proof.found.domain,
            proven: proof.found.proven,
            by: proof.found.by,
            why: proof.found.why,
            held: proof.shown.map(holder),
        }))
    })
    .await
}

fn holder(shown: ShownDomain) -> DomainHolder {
    let claim = shown.claim.map(|claim| DomainClaim {
        organisation: claim.organisation,
        by: claim.by,
        since_ms: claim.since_ms,
    });
    DomainHolder {
        organisation: shown.organisation,
        by: shown.by,
        proven: shown.proven,
        found_ms: shown.found_ms,
        claim,
        twins: shown.twins,
    }
}

/// From which entry on, and which registry.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchQuery {
    #[serde(default)]
    from: u64,
    registry: Option<String>,
}

/// `GET /org/watch`
pub async fn watch(
    State(node): State<Arc<Operations>>,
    Parameters(WatchQuery { from, registry }): Parameters<WatchQuery>,
) -> Answer<LogWatch> {
    let WatchedLog { entries, watched, missing } =
        node.registries.organising().watch(from, registry.as_deref()).await?;
    Ok(Json(LogWatch {
        entries,
        watched: watched.iter().map(notice).collect(),
        missing: missing.iter().map(receipts::shown).collect(),
    }))
}

fn notice(watched: &Watched) -> LogNotice {
    let (what, about, detail) = match &watched.said {
        Said::Unseen if watched.is_kept_back() => ("kept back", String::new(), KEPT_BACK.to_owned()),
        said => words(said),
    };
    LogNotice { entry: watched.index, at_ms: watched.entry.at_ms, what: what.to_owned(), about, detail }
}

/// `GET /releases/pending`
pub async fn pending(
    State(node): State<Arc<Operations>>,
    Parameters(RegistryFilter { registry }): Parameters<RegistryFilter>,
) -> Answer<ApprovalList> {
    let (at, Pending { staged, waiting }) = node.registries.publishing().pending(registry.as_deref()).await?;
    let staged = staged.into_iter().map(|one| StageSummary {
        id: one.id,
        agent: one.agent,
        version: one.version,
        digest: one.digest,
        bytes: one.bytes,
        staged_ms: one.at_ms,
    });
    let waiting = waiting.into_iter().map(|one| ApprovalSummary {
        agent: one.agent,
        version: one.version,
        approved_by: one.approved_by,
        wanted: one.wanted,
    });
    Ok(Json(ApprovalList { registry: at, staged: staged.collect(), waiting: waiting.collect() }))
}

/// `POST /releases/approve`: shows what would be approved; approves it when its digest is agreed to.
pub async fn approve(
    State(node): State<Arc<Operations>>,
    Body(request): Body<ApproveRequest>,
) -> Answer<ApprovalReply> {
    let ApproveRequest { what, audience, registry, agreed } = request;
    let Some(agreed) = agreed else {
        let waiting = node.registries.publishing().look_at(&what, registry.as_deref()).await?;
        return Ok(Json(ApprovalReply::Offer(Box::new(offered(&node, waiting)))));
    };
    let audience = read_audience(audience.as_deref().unwrap_or("public"))?;
    detached(async move {
        let approved = node.registries.publishing().approve(&what, audience, registry.as_deref(), &agreed).await?;
        Ok(Json(ApprovalReply::Publication(registries::publication(&approved))))
    })
    .await
}

fn offered(node: &Operations, Approvable { agent, version, registry, digest, file }: Approvable) -> ApprovalOffer {
    let (file, reaches, workflow) = match file.map(|file| shared::contents(node, &file)) {
        Some(ReleaseContents::Agent { file, reaches }) => (Some(file), Some(reaches), None),
        Some(ReleaseContents::Workflow { workflow }) => (None, None, Some(workflow)),
        None => (None, None, None),
    };
    let (agent, version) = (agent.to_string(), version.to_string());
    ApprovalOffer { agent, version, registry, digest, file, reaches, workflow }
}

/// `POST /releases/reject`
pub async fn reject(State(node): State<Arc<Operations>>, Body(request): Body<RejectRequest>) -> Answer<StageRejection> {
    let RejectRequest { id: rejected, registry } = request;
    detached(async move {
        let registry = node.registries.publishing().reject(&rejected, registry.as_deref()).await?;
        Ok(Json(StageRejection { rejected, registry }))
    })
    .await
}

/// `POST /releases/purge`
pub async fn purge(State(node): State<Arc<Operations>>, Body(request): Body<PurgeRequest>) -> Answer<ReleasePurge> {
    let PurgeRequest { agent, version, registry } = request;
    detached(async move {
        let publishing = node.registries.publishing();
        let (agent, version, registry) = publishing.purge(&agent, &version, registry.as_deref()).await?;
        Ok(Json(ReleasePurge { agent: agent.to_string(), version: version.to_string(), registry }))
    })
    .await
}
