//! The control API's registries: following them, publishing in them, installing from them.

use std::sync::Arc;

use althing_api::{AddRegistry, InstallRequest, MarkRequest, PublishRequest, UpdateRequest};
use althing_node::Node;
use althing_node::registries::{
    Installation, Mark, Offer, Outdated, Publication, Published, RegistriesError, RegistryRow, UpdateTerms, Witnesses,
    read_audience,
};
use althing_protocol::registry::Standing;
use althing_protocol::{AgentId, CallerId, PublisherId, hex};
use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::attesting::ids;
use crate::error::{Answer, ApiError};
use crate::shared;

impl From<RegistriesError> for ApiError {
    fn from(error: RegistriesError) -> ApiError {
        ApiError::new(error.kind(), error.to_string())
    }
}

fn row(at: &str, row: &RegistryRow) -> Value {
    let entries = row.read(at).map(|(_, checkpoint)| checkpoint.head.size).ok();
    let mut value = json!({ "at": at, "name": name(row), "key": row.key, "entries": entries });
    if let Some((before, now)) = &row.forked {
        value["forked"] = json!({ "before": before, "now": now });
    }
    if let Some(witnesses) = &row.witnesses {
        value["witnesses"] = json!({ "keys": witnesses.keys, "wanted": witnesses.wanted });
    }
    value
}

fn name(row: &RegistryRow) -> &str {
    row.key.split('+').next().unwrap_or_default()
}

/// `GET /registries`
pub async fn list(State(node): State<Arc<Node>>) -> Json<Value> {
    let known = node.registries.list();
    Json(json!({ "registries": known.iter().map(|(at, known)| row(at, known)).collect::<Vec<_>>() }))
}

/// `POST /registries`
pub async fn add(State(node): State<Arc<Node>>, Json(request): Json<AddRegistry>) -> Answer {
    let AddRegistry { url, key, witnesses, wanted } = request;
    let (at, known) = node.registries.add(&url, &key, &Witnesses { keys: witnesses, wanted }).await?;
    Ok(Json(row(&at, &known)))
}

/// Which registry.
#[derive(Deserialize)]
pub struct Named {
    registry: String,
}

/// `DELETE /registries?registry=…`
pub async fn remove(State(node): State<Arc<Node>>, Query(Named { registry }): Query<Named>) -> Answer {
    let at = node.registries.remove(&registry).await?;
    Ok(Json(json!({ "removed": at })))
}

/// `POST /publish`
pub async fn publish(State(node): State<Arc<Node>>, Json(request): Json<PublishRequest>) -> Answer {
    let PublishRequest { file, with, audience, registry } = request;
    let audience = read_audience(audience.as_deref().unwrap_or("public"))?;
    // In a task of its own: it is completed even if the command line hangs up.
    let publishing = tokio::spawn(async move {
        let published = node.registries.publishing().publish(&Publication { file, with, audience, registry }).await?;
        Ok(Json(shown(&published)))
    });
    publishing.await.unwrap_or_else(|error| Err(ApiError::failed(error.to_string())))
}

fn shown(published: &Published) -> Value {
    json!({
        "agent": published.agent.to_string(),
        "version": published.version.to_string(),
        "registry": published.registry,
        "entries": published.entries,
        "bytes": published.bytes,
    })
}

/// Which releases are listed.
#[derive(Deserialize)]
pub struct Listed {
    agent: Option<String>,
    registry: Option<String>,
}

/// `GET /releases`
pub async fn releases(State(node): State<Arc<Node>>, Query(asked): Query<Listed>) -> Answer {
    let (at, agents) = node.registries.releases(asked.agent.as_deref(), asked.registry.as_deref()).await?;
    let version = |one: &althing_node::registries::ListedVersion| json!({ "version": one.version, "standing": one.standing, "reason": one.reason });
    let agents = agents
        .iter()
        .map(|agent| json!({
            "agent": agent.id, "versions": agent.versions.iter().map(version).collect::<Vec<_>>(), "twins": ids(&agent.twins),
        }));
    let mut list = json!({ "registry": at, "agents": agents.collect::<Vec<_>>() });
    if let Some(agent) = &asked.agent {
        let attested = node.registries.attesting().of_agent(agent, asked.registry.as_deref()).await?;
        list["attested"] = attested.iter().map(crate::attesting::row).collect();
    }
    Ok(Json(list))
}

/// `POST /releases/mark`
pub async fn mark(State(node): State<Arc<Node>>, Json(request): Json<MarkRequest>) -> Answer {
    let MarkRequest { agent, version, standing, reason, registry } = request;
    let all = [Standing::Good, Standing::Deprecated, Standing::Yanked, Standing::Revoked];
    let meant = all.into_iter().find(|one| one.name() == standing);
    let unknown = || ApiError::invalid(format!("{standing:?} is no standing: good, deprecated, yanked or revoked"));
    let mark = Mark { agent, version, standing: meant.ok_or_else(unknown)?, reason, registry };
    let marking = tokio::spawn(async move {
        let published = node.registries.publishing().mark(&mark).await?;
        let mut shown = shown(&published);
        shown["standing"] = json!(mark.standing.name());
        Ok(Json(shown))
    });
    marking.await.unwrap_or_else(|error| Err(ApiError::failed(error.to_string())))
}

fn trusts(node: &Node) -> impl Fn(CallerId) -> bool + use<> {
    let (trusted, own) = (node.trust.ids(), CallerId::Publisher(node.owner().id()));
    move |id| id == own || trusted.contains(&id)
}

fn offered(node: &Node, offer: &Offer) -> Value {
    let mut answer = json!({
        "agent": offer.agent.to_string(),
        "version": offer.version.to_string(),
        "registry": offer.registry,
        "digest": hex(&offer.digest),
        "passedOver": offer.passed_over,
        "acceptedMs": offer.at_ms,
        "named": offer.named.as_ref().map(|named| json!({
            "domain": named.domain, "organisation": named.organisation.to_string(), "by": named.by, "twins": named.twins,
        })),
        "trusted": offer.trusted,
        "standing": offer.standing.name(),
        "reason": offer.reason,
        "attested": offer.attested.iter().map(crate::attesting::row).collect::<Vec<_>>(),
        "twins": ids(&offer.twins),
        "name": offer.name,
    });
    shared::put(&mut answer, node, &offer.file);
    answer
}

/// Writes into an answer what was installed: the agent that runs now, if it is one.
async fn done(answer: &mut Value, node: &Node, offer: &Offer, id: Option<&AgentId>) {
    answer["added"] = match id {
        Some(id) => json!(crate::agents::added(node, id).await),
        None => json!({ "name": offer.name }),
    };
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
pub async fn install(State(node): State<Arc<Node>>, Json(request): Json<InstallRequest>) -> Answer {
    let InstallRequest { reference, name, callers, young, uncontained, publisher, registry, agreed: digest } = request;
    let publisher = meant(publisher)?;
    let wanted = Installation { reference, name, callers, young, uncontained, publisher, registry };
    let offer = node.registries.installing().look(&wanted, trusts(&node)).await?;
    let mut answer = offered(&node, &offer);
    let Some(digest) = digest else {
        answer["taken"] = node.registries.workflows().is_taken(&node.agents, &offer.name).into();
        return Ok(Json(answer));
    };
    agreed(&offer, &digest)?;
    let installing = tokio::spawn(async move {
        let id = node.registries.installing().install(&node.agents, node.data(), &offer).await?;
        done(&mut answer, &node, &offer, id.as_ref()).await;
        Ok(Json(answer))
    });
    installing.await.unwrap_or_else(|error| Err(ApiError::failed(error.to_string())))
}

/// `POST /update`: shows what an installed agent would be updated to; updates it when its digest is agreed to.
pub async fn update(State(node): State<Arc<Node>>, Json(request): Json<UpdateRequest>) -> Answer {
    let UpdateRequest { name, young, uncontained, publisher, agreed: digest } = request;
    let publisher = meant(publisher)?;
    // What somebody else publishes is no newer version.
    if publisher.is_none()
        && let Some(kept) = node.registries.installing().kept(&name).await?
    {
        if digest.is_some() {
            return Err(RegistriesError::Changed.into());
        }
        let mut answer = installed(&kept);
        answer["before"] = answer["version"].clone();
        answer["beforeAgent"] = answer["agent"].clone();
        return Ok(Json(answer));
    }
    let terms = UpdateTerms { young, uncontained, publisher };
    let offer = node.registries.installing().look_for_update(&node.agents, &name, terms, trusts(&node)).await?;
    let mut answer = offered(&node, &offer);
    let (agent, version) = node.registries.installing().release_of(&name)?;
    (answer["before"], answer["beforeAgent"]) = (json!(version), json!(agent));
    let Some(digest) = digest else {
        answer["installed"] = shared::installed(&node, &name);
        return Ok(Json(answer));
    };
    agreed(&offer, &digest)?;
    let updating = tokio::spawn(async move {
        let id = node.registries.installing().update(&node.agents, node.data(), &offer).await?;
        done(&mut answer, &node, &offer, id.as_ref()).await;
        Ok(Json(answer))
    });
    updating.await.unwrap_or_else(|error| Err(ApiError::failed(error.to_string())))
}

/// `DELETE /installed/{name}`: removes a workflow or an agent that was installed.
pub async fn uninstall(State(node): State<Arc<Node>>, Path(name): Path<String>) -> Answer {
    // In a task of its own: it is completed even if the command line hangs up.
    let removing = tokio::spawn(async move {
        match node.registries.workflows().remove(&name).await {
            Err(RegistriesError::NotInstalled(..)) => {
                node.registries.installing().release_of(&name)?;
                node.agents.remove(&name).await?;
            }
            removed => removed?,
        }
        Ok(Json(json!({ "removed": name })))
    });
    removing.await.unwrap_or_else(|error| Err(ApiError::failed(error.to_string())))
}

/// `GET /outdated`
pub async fn outdated(State(node): State<Arc<Node>>) -> Json<Value> {
    let all = node.registries.installing().outdated().await;
    Json(json!({ "installed": all.iter().map(installed).collect::<Vec<_>>() }))
}

/// What was installed, and what its registry has now.
fn installed(row: &Outdated) -> Value {
    json!({
        "name": row.name,
        "agent": row.from.agent,
        "version": row.from.version,
        "range": row.from.range,
        "registry": row.from.registry,
        "newest": row.newest.as_ref().ok(),
        "why": row.newest.as_ref().err(),
        "passedOver": row.passed_over,
        "revoked": row.revoked,
        "yanked": row.yanked,
        "quarantined": row.quarantined,
        "named": row.from.named,
        "passedTo": row.passed_to.as_ref().map(|agent| agent.publisher().to_string()),
    })
}
