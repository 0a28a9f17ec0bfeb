//! The control API's attestations: what the owner found of releases, and what others did.

use std::sync::Arc;

use althing_api::{
    AttestRequest, Attestation, AttestationStatement, ReleaseDetails, ThingForm, ThingMatch, ThingRelease,
};
use althing_operations::Operations;
use althing_operations::registries::{Attested, AttestedRow, Claim, PublishedThing};
use althing_protocol::registry::Subject;
use althing_protocol::{AgentId, hex};
use althing_td::WORKFLOW_TYPE;
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;

use crate::body::{Body, Parameters, detached};
use crate::error::Answer;

/// Forms of one Thing that are shown.
const FORMS_MAX: usize = 64;

/// What somebody found.
pub fn row(row: &AttestedRow) -> Attestation {
    Attestation {
        name: row.name.clone(),
        by: row.by.to_string(),
        version: row.version.clone(),
        finding: row.finding.clone(),
        accepted_ms: row.accepted_ms,
        until_ms: row.until_ms,
    }
}

/// Ids of agents.
pub fn ids(agents: &[AgentId]) -> Vec<String> {
    agents.iter().map(AgentId::to_string).collect()
}

/// `POST /releases/attest`
pub async fn attest(
    State(node): State<Arc<Operations>>,
    Body(request): Body<AttestRequest>,
) -> Answer<AttestationStatement> {
    let AttestRequest { release, claim: name, finding, days, digest: content, registry } = request;
    let (agent, version) = node.registries.attesting().release_named(&release)?;
    let shown = (agent.to_string(), version.to_string());
    let subject = Subject::Agent(agent, Some(version));
    let claim = Claim { subject, name, finding, days, content, registry };
    detached(async move {
        let Attested { signed: _, content, registry } = node.registries.attesting().attest(&claim).await?;
        let (agent, version) = shown;
        let Claim { name, finding, .. } = claim;
        let content = content.map(|content| hex(&content));
        Ok(Json(AttestationStatement { agent, version, name, finding, registry, content }))
    })
    .await
}

/// Which release.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseName {
    release: String,
    registry: Option<String>,
}

/// `GET /releases/show?release=…`
pub async fn show(
    State(node): State<Arc<Operations>>,
    Parameters(ReleaseName { release, registry }): Parameters<ReleaseName>,
) -> Answer<ReleaseDetails> {
    let shown = node.registries.attesting().show(&release, registry.as_deref()).await?;
    Ok(Json(ReleaseDetails {
        agent: shown.agent.to_string(),
        version: shown.version.to_string(),
        registry: shown.registry,
        standing: shown.standing.name().to_owned(),
        reason: shown.reason,
        accepted_ms: shown.accepted_ms,
        content: hex(&shown.content),
        bundle_bytes: shown.bundle_bytes,
        is_workflow: shown.description["@type"] == WORKFLOW_TYPE,
        forms: forms(&shown.description),
        description: shown.description,
        twins: ids(&shown.twins),
        attested: shown.attested.iter().map(row).collect(),
    }))
}

/// A Thing that somebody released, with its forms.
pub fn thing(thing: &PublishedThing) -> ThingMatch {
    let td: Value = serde_json::from_slice(thing.description.bytes()).unwrap_or_default();
    ThingMatch {
        id: thing.id.to_string(),
        title: thing.description.title().to_owned(),
        description: thing.description.description().map(str::to_owned),
        can: thing.description.capabilities().iter().map(|capability| capability.id.clone()).collect(),
        from: thing.registry.clone(),
        release: Some(ThingRelease {
            version: thing.version.to_string(),
            publisher: thing.id.publisher().to_string(),
            twins: ids(&thing.twins),
            forms: forms(&td),
        }),
    }
}

/// The forms of a description: where each of its properties, actions and events is asked.
fn forms(td: &Value) -> Vec<ThingForm> {
    let mut all = Vec::new();
    for kind in ["properties", "actions", "events"] {
        for (name, one) in td[kind].as_object().into_iter().flatten() {
            for form in one["forms"].as_array().into_iter().flatten().take(FORMS_MAX) {
                let of = format!("{kind}/{name}");
                all.push(ThingForm { of, href: form["href"].clone(), op: form["op"].clone() });
            }
        }
    }
    all.truncate(FORMS_MAX);
    all
}
