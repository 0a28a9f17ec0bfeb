//! The control API's registries: following them, publishing in them, installing from them.

use std::path::PathBuf;
use std::sync::Arc;

use althing_api::{
    AddRegistry, Folder, InstallAddition, InstallCompletion, InstallList, InstallOffer, InstallRemoval, InstallReply,
    InstallRequest, InstallStatus, InstallTerms, MarkRequest, NameProof, PublishRequest, RegistryFork, RegistryList,
    RegistryRemoval, RegistryStatus, RegistryWitnesses, ReleaseList, ReleaseMark, ReleaseOffer, ReleasePublication,
    ReleaseVersion, ReleaseVersions, UpdateAbsence, UpdateCompletion, UpdateLook, UpdateOffer, UpdateReply,
    UpdateRequest, UpdateRule, UpdateRuleRequest, UpdateRuleStatus, WorkflowAddition,
};
use althing_node::revocations::UpdateRule as Rule;
use althing_operations::Operations;
use althing_operations::registries::{
    Installation, ListedAgent, ListedVersion, Mark, NamedBy, Offer, Outdated, Publication, Published, RegistriesError,
    RegistryRow, UpdateTerms, Witnesses, read_audience,
};
use althing_protocol::registry::Standing;
use althing_protocol::{AgentId, CallerId, PublisherId, hex};
use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;

use crate::attesting::{self, ids};
use crate::body::{Body, Parameters, detached};
use crate::error::{Answer, ApiError};
use crate::place::{Place, check_names};
use crate::requester::Requester;
use crate::{agents, shared};

impl From<RegistriesError> for ApiError {
    fn from(error: RegistriesError) -> ApiError {
        ApiError::new(error.kind(), error.to_string()).with_remedy(error.remedy())
    }
}

fn row(at: &str, row: &RegistryRow) -> RegistryStatus {
    RegistryStatus {
        at: at.to_owned(),
        name: row.key.split('+').next().unwrap_or_default().to_owned(),
        key: row.key.clone(),
        entries: row.read(at).map(|(_, checkpoint)| checkpoint.head.size).ok(),
        forked: row.forked.clone().map(|(before, now)| RegistryFork { before, now }),
        witnesses: row
            .witnesses
            .as_ref()
            .map(|wanted| RegistryWitnesses { keys: wanted.keys.clone(), wanted: wanted.wanted }),
    }
}

/// `GET /registries`
pub async fn list(State(node): State<Arc<Operations>>) -> Json<RegistryList> {
    let known = node.registries.list();
    Json(RegistryList { registries: known.iter().map(|(at, known)| row(at, known)).collect() })
}

/// `POST /registries`
pub async fn add(State(node): State<Arc<Operations>>, Body(request): Body<AddRegistry>) -> Answer<RegistryStatus> {
    let AddRegistry { url, key, witnesses, wanted } = request;
    detached(async move {
        let (at, known) = node.registries.add(&url, &key, &Witnesses { keys: witnesses, wanted }).await?;
        Ok(Json(row(&at, &known)))
    })
    .await
}

/// Which registry.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegistryName {
    registry: String,
}

/// `DELETE /registries?registry=…`
pub async fn remove(
    State(node): State<Arc<Operations>>,
    Parameters(RegistryName { registry }): Parameters<RegistryName>,
) -> Answer<RegistryRemoval> {
    detached(async move {
        let removed = node.registries.remove(&registry).await?;
        Ok(Json(RegistryRemoval { removed }))
    })
    .await
}

/// `POST /publish`
pub async fn publish(
    State(node): State<Arc<Operations>>,
    requester: Requester,
    Body(request): Body<PublishRequest>,
) -> Answer<ReleasePublication> {
    let PublishRequest { folder, file, with, audience, registry } = request;
    let audience = read_audience(audience.as_deref().unwrap_or("public"))?;
    if let Folder::Upload(files) = &folder {
        check_names(files, with.iter().chain([&file]).map(String::as_str))?;
    }
    detached(async move {
        let place = Place::of(&node, &requester, &folder)?;
        let (file, with) = (place.path().join(file), with.into_iter().map(PathBuf::from).collect());
        let published = node.registries.publishing().publish(&Publication { file, with, audience, registry }).await?;
        Ok(Json(publication(&published)))
    })
    .await
}

/// What was published.
pub fn publication(Published { agent, version, registry, entries, bytes }: &Published) -> ReleasePublication {
    ReleasePublication {
        agent: agent.to_string(),
        version: version.to_string(),
        registry: registry.clone(),
        entries: *entries,
        bytes: *bytes,
    }
}

/// Which releases are listed.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseFilter {
    agent: Option<String>,
    registry: Option<String>,
}

/// `GET /releases`
pub async fn releases(
    State(node): State<Arc<Operations>>,
    Parameters(ReleaseFilter { agent, registry }): Parameters<ReleaseFilter>,
) -> Answer<ReleaseList> {
    let (at, agents) = node.registries.releases(agent.as_deref(), registry.as_deref()).await?;
    let attested = match &agent {
        Some(agent) => {
            let attested = node.registries.attesting().of_agent(agent, registry.as_deref()).await?;
            Some(attested.iter().map(attesting::row).collect())
        }
        None => None,
    };
    Ok(Json(ReleaseList { registry: at, agents: agents.iter().map(versions).collect(), attested }))
}

fn versions(agent: &ListedAgent) -> ReleaseVersions {
    let version = |one: &ListedVersion| ReleaseVersion {
        version: one.version.clone(),
        standing: one.standing.clone(),
        reason: one.reason.clone(),
    };
    ReleaseVersions {
        agent: agent.id.clone(),
        versions: agent.versions.iter().map(version).collect(),
        twins: ids(&agent.twins),
    }
}

/// `POST /releases/mark`
pub async fn mark(State(node): State<Arc<Operations>>, Body(request): Body<MarkRequest>) -> Answer<ReleaseMark> {
    let MarkRequest { agent, version, standing, reason, registry } = request;
    let all = [Standing::Good, Standing::Deprecated, Standing::Yanked, Standing::Revoked];
    let meant = all.into_iter().find(|one| one.name() == standing);
    let unknown = || ApiError::invalid(format!("{standing:?} is no standing: good, deprecated, yanked or revoked"));
    let mark = Mark { agent, version, standing: meant.ok_or_else(unknown)?, reason, registry };
    detached(async move {
        let published = node.registries.publishing().mark(&mark).await?;
        Ok(Json(ReleaseMark { publication: publication(&published), standing: mark.standing.name().to_owned() }))
    })
    .await
}

fn trusts(node: &Operations) -> impl Fn(CallerId) -> bool + use<> {
    let (trusted, own) = (node.trust.ids(), CallerId::Publisher(node.owner().id()));
    move |id| id == own || trusted.contains(&id)
}

fn offered(node: &Operations, offer: &Offer) -> ReleaseOffer {
    let named = |named: &NamedBy| NameProof {
        domain: named.domain.clone(),
        organisation: named.organisation.to_string(),
        by: named.by.to_owned(),
        twins: named.twins.clone(),
    };
    ReleaseOffer {
        agent: offer.agent.to_string(),
        version: offer.version.to_string(),
        registry: offer.registry.clone(),
        digest: hex(&offer.digest),
        passed_over: offer.passed_over.clone(),
        accepted_ms: offer.at_ms,
        named: offer.named.as_ref().map(named),
        trusted: offer.trusted,
        standing: offer.standing.name().to_owned(),
        reason: offer.reason.clone(),
        attested: offer.attested.iter().map(attesting::row).collect(),
        twins: ids(&offer.twins),
        name: offer.name.clone(),
        contents: shared::contents(node, &offer.file),
    }
}

/// What is here by what was installed: the agent that runs now, if it is one.
async fn added(node: &Operations, offer: &Offer, id: Option<&AgentId>) -> InstallAddition {
    match id {
        Some(id) => InstallAddition::Agent(Box::new(agents::added(node, id).await)),
        None => InstallAddition::Workflow(WorkflowAddition { name: offer.name.clone() }),
    }
}

/// The publisher that is meant.
fn meant(publisher: Option<String>) -> Result<Option<PublisherId>, ApiError> {
    let parsed = publisher.map(|publisher| publisher.parse::<PublisherId>()).transpose();
    Ok(parsed.map_err(RegistriesError::from)?)
}

/// Refuses to install another release than the one that was agreed to.
fn agreed(offer: &Offer, digest: &str) -> Result<(), ApiError> {
    if hex(&offer.digest) == digest { Ok(()) } else { Err(RegistriesError::Changed.into()) }
}

/// `POST /install`: shows what would be installed; installs it when its digest is agreed to.
pub async fn install(State(node): State<Arc<Operations>>, Body(request): Body<InstallRequest>) -> Answer<InstallReply> {
    let InstallRequest { reference, name, callers, registry, update, terms } = request;
    let InstallTerms { young, uncontained, publisher, agreed: digest } = terms;
    let publisher = meant(publisher)?;
    let update = rule(update);
    let wanted = Installation { reference, name, callers, young, uncontained, publisher, registry, update };
    let offer = node.registries.installing().look(&wanted, trusts(&node)).await?;
    let release = offered(&node, &offer);
    let Some(digest) = digest else {
        let taken = node.agents.names.check_free(&offer.name).is_err();
        return Ok(Json(InstallReply::Offer(Box::new(InstallOffer { release, taken }))));
    };
    agreed(&offer, &digest)?;
    detached(async move {
        let id = node.registries.installing().install(&node.agents, node.data(), &offer).await?;
        let added = added(&node, &offer, id.as_ref()).await;
        Ok(Json(InstallReply::Completion(Box::new(InstallCompletion { release, added }))))
    })
    .await
}

/// `POST /update`: shows what an installed agent would be updated to; updates it when its digest is agreed to.
pub async fn update(State(node): State<Arc<Operations>>, Body(request): Body<UpdateRequest>) -> Answer<UpdateReply> {
    let UpdateRequest { name, terms } = request;
    let InstallTerms { young, uncontained, publisher, agreed: digest } = terms;
    let publisher = meant(publisher)?;
    // What somebody else publishes is no newer version.
    if publisher.is_none()
        && let Some(kept) = node.registries.installing().kept(&name).await?
    {
        if digest.is_some() {
            return Err(RegistriesError::Changed.into());
        }
        let status = installed(&kept);
        let (before, before_agent) = (status.version.clone(), status.agent.clone());
        let absence = UpdateAbsence { status, before, before_agent };
        return Ok(Json(UpdateReply::Look(UpdateLook::Absence(Box::new(absence)))));
    }
    let terms = UpdateTerms { young, uncontained, publisher };
    let offer = node.registries.installing().look_for_update(&node.agents, &name, terms, trusts(&node)).await?;
    let release = offered(&node, &offer);
    let (before_agent, before) = node.registries.inventory().release_of(&name)?;
    let Some(digest) = digest else {
        let installed = shared::installed(&node, &name);
        let offer = UpdateOffer { release, before, before_agent, installed };
        return Ok(Json(UpdateReply::Look(UpdateLook::Offer(Box::new(offer)))));
    };
    agreed(&offer, &digest)?;
    detached(async move {
        let id = node.registries.installing().update(&node.agents, node.data(), &offer).await?;
        let added = added(&node, &offer, id.as_ref()).await;
        Ok(Json(UpdateReply::Completion(Box::new(UpdateCompletion { release, before, before_agent, added }))))
    })
    .await
}

fn rule(update: UpdateRule) -> Rule {
    match update {
        UpdateRule::Asked => Rule::Asked,
        UpdateRule::Rollout => Rule::Rollout,
    }
}

/// `POST /installed/{name}/update`: how newer releases come from now on.
pub async fn set_rule(
    State(node): State<Arc<Operations>>,
    Path(name): Path<String>,
    Body(UpdateRuleRequest { update }): Body<UpdateRuleRequest>,
) -> Answer<UpdateRuleStatus> {
    detached(async move {
        node.registries.inventory().set_rule(&name, rule(update)).await?;
        Ok(Json(UpdateRuleStatus { name, update }))
    })
    .await
}

/// `DELETE /installed/{name}`: removes a workflow or an agent that was installed.
pub async fn uninstall(State(node): State<Arc<Operations>>, Path(name): Path<String>) -> Answer<InstallRemoval> {
    detached(async move {
        match node.registries.workflows().remove(&name).await {
            Err(RegistriesError::NotInstalled(..)) => {
                node.registries.inventory().release_of(&name)?;
                node.agents.remove(&name).await?;
            }
            removed => removed?,
        }
        Ok(Json(InstallRemoval { removed: name }))
    })
    .await
}

/// `GET /outdated`
pub async fn outdated(State(node): State<Arc<Operations>>) -> Json<InstallList> {
    let all = node.registries.installing().outdated().await;
    Json(InstallList { installed: all.iter().map(installed).collect() })
}

/// What was installed, and what its registry has now.
fn installed(row: &Outdated) -> InstallStatus {
    let (newest, why) = match &row.newest {
        Ok(newest) => (newest.clone(), None),
        Err(why) => (None, Some(why.clone())),
    };
    InstallStatus {
        name: row.name.clone(),
        agent: row.from.agent.clone(),
        version: row.from.version.clone(),
        range: row.from.range.clone(),
        registry: row.from.registry.clone(),
        newest,
        why,
        passed_over: row.passed_over.clone(),
        revoked: row.revoked.clone(),
        yanked: row.yanked.clone(),
        quarantined: row.quarantined.clone(),
        named: row.from.named.clone(),
        passed_to: row.passed_to.as_ref().map(|agent| agent.publisher().to_string()),
        update: match row.from.update {
            Rule::Asked => UpdateRule::Asked,
            Rule::Rollout => UpdateRule::Rollout,
        },
        tried: row.from.trial.as_ref().map(|trial| trial.version.clone()),
        held: row.held.clone(),
    }
}
