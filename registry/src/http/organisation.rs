//! Organisations over HTTP: signing in, domains and names, staged releases.

use std::sync::Arc;

use althing_edge::{Peer, read_body};
use althing_protocol::limits::SUBMISSION_BYTES_MAX;
use althing_protocol::registry::{Domain, SignIn, Version};
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Shared;
use super::answers::{cbor, json, private};
use super::problem::{Answer, Problem};
use super::things::{bearer, origin, refused};
use crate::domain::{DomainLookup, Looked, prove};
use crate::service::{
    KEPT_BUNDLE_BYTES_MAX, Listed, Registry, RequestError, SIGN_IN_MS, ShownDomain, Stage, Staged, Visitor, hex, unhex,
};

/// Bytes of a request to stage: a bundle in base64, and a description.
const STAGE_BYTES_MAX: usize = KEPT_BUNDLE_BYTES_MAX / 3 * 4 + (1 << 20);

/// The routes.
pub fn routes() -> Router<Arc<Registry>> {
    Router::new()
        .route("/sessions", post(sign_in))
        .route("/domains/prove", post(prove_domain))
        .route("/names/{domain}", get(domain))
        .route("/names/{domain}/{name}", get(name))
        .route("/statements/{index}", get(statement))
        .route("/staged", get(staged).post(stage))
        .route("/staged/{id}", get(staged_one).delete(unstage))
        .route("/staged/{agent}/{version}", get(waiting))
}

impl FromRequestParts<Arc<Registry>> for Visitor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, registry: &Arc<Registry>) -> Result<Visitor, Problem> {
        visitor(registry, &parts.headers)
    }
}

/// Who asks. A token that is unknown is refused whatever is asked for.
fn visitor(registry: &Registry, headers: &HeaderMap) -> Result<Visitor, Problem> {
    registry.visits().visitor(bearer(headers)).map_err(refused)
}

async fn sign_in(State(registry): Shared, Extension(peer): Extension<Peer>, request: Request) -> Answer {
    let body = read_body(request, SUBMISSION_BYTES_MAX).await.map_err(Problem::body)?;
    let sign_in = SignIn::decode(&body).map_err(RequestError::from)?;
    registry.visits().check(&sign_in)?;
    let turn = registry.turns().short(origin(peer)).await?;
    let signing_in = turn.spend(move || {
        let token = registry.visits().sign_in(&sign_in);
        // Its room is taken as long as what was read of it is there.
        drop(body);
        token
    });
    let token = signing_in.await??;
    let body = json(&json!({ "token": token, "expires_in": SIGN_IN_MS / 1_000 }));
    Ok((StatusCode::CREATED, private(body)).into_response())
}

async fn prove_domain(
    State(registry): Shared,
    lookup: Option<Extension<Arc<dyn DomainLookup>>>,
    visitor: Visitor,
) -> Answer {
    let organisation = visitor.publisher()?;
    let Some(Extension(lookup)) = lookup else { return Err(RequestError::NoLookup.into()) };
    let (domain, looked) = prove(&registry, lookup.as_ref(), organisation).await?;
    let (proven, by, why) = match looked {
        Looked::Proven(means) => (true, Some(means.name()), None),
        Looked::Not(_) => (false, None, Some("it names this organisation in neither place".to_owned())),
        Looked::Unknown(why) => (false, None, Some(why)),
    };
    let shown = registry.names().domain(&domain, visitor.reader()).ok();
    let held = shown.as_ref().map(|shown| shown_domain(&domain, shown));
    Ok(json(&json!({ "domain": domain.to_string(), "proven": proven, "by": by, "why": why, "held": held })))
}

async fn domain(
    State(registry): Shared,
    Extension(peer): Extension<Peer>,
    Path(domain): Path<String>,
    visitor: Visitor,
) -> Answer {
    let domain: Domain = domain.parse().map_err(Problem::bad)?;
    let turn = registry.turns().short(origin(peer)).await?;
    let shown = turn.spend(move || {
        let shown = registry.names().domain(&domain, visitor.reader())?;
        Ok::<_, RequestError>(shown_domain(&domain, &shown))
    });
    Ok(private(json(&shown.await??)))
}

fn shown_domain(domain: &Domain, shown: &ShownDomain) -> Value {
    let claim = shown.held.claim.as_ref().map(|claim| {
        let by = claim.means.name();
        json!({ "organisation": claim.organisation.to_string(), "by": by, "since_ms": claim.since_ms })
    });
    let agents = shown.agents.iter().map(|(agent, newest)| {
        json!({ "name": agent.name(), "id": agent.to_string(), "newest": newest.as_ref().map(Version::to_string) })
    });
    json!({
        "domain": domain.to_string(),
        "organisation": shown.held.organisation.to_string(),
        "by": shown.held.finding.means.name(),
        "proven": shown.is_proven,
        "found_ms": shown.held.found_ms,
        "claim": claim,
        "twins": shown.twins.iter().map(Domain::to_string).collect::<Vec<_>>(),
        "agents": agents.collect::<Vec<_>>(),
    })
}

async fn name(
    State(registry): Shared,
    Extension(peer): Extension<Peer>,
    Path(names): Path<(String, String)>,
    visitor: Visitor,
) -> Answer {
    let domain: Domain = names.0.parse().map_err(Problem::bad)?;
    let turn = registry.turns().short(origin(peer)).await?;
    let named = turn.spend(move || registry.names().name(&domain, &names.1, visitor.reader())).await??;
    Ok(private(cbor(named.encode())))
}

async fn statement(State(registry): Shared, Path(index): Path<u64>, visitor: Visitor) -> Answer {
    Ok(private(cbor(registry.releases().said(index, visitor.reader())?)))
}

/// A release to be staged, as a build machine sends it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    agent: String,
    version: String,
    /// The Thing Description, as JSON.
    description: String,
    /// Base64.
    bundle: String,
    /// SHA-256 of the bundle, hexadecimal.
    digest: String,
}

impl Sent {
    /// What is to be staged, read from a body.
    fn read(body: &[u8]) -> Result<Stage, Problem> {
        let sent: Sent = serde_json::from_slice(body).map_err(Problem::bad)?;
        let wrong = |what: &str| Problem::bad(format!("`{what}` cannot be read"));
        Ok(Stage {
            agent: sent.agent.parse().map_err(Problem::bad)?,
            version: sent.version.parse().map_err(Problem::bad)?,
            description: sent.description.into_bytes(),
            bundle: STANDARD.decode(sent.bundle).map_err(|_| wrong("bundle"))?,
            digest: unhex(&sent.digest).and_then(|digest| digest.try_into().ok()).ok_or_else(|| wrong("digest"))?,
        })
    }
}

async fn stage(
    State(registry): Shared,
    Extension(peer): Extension<Peer>,
    visitor: Visitor,
    request: Request,
) -> Answer {
    // Nobody sends megabytes who may not.
    registry.staging().check(visitor)?;
    let body = read_body(request, STAGE_BYTES_MAX).await.map_err(Problem::body)?;
    let from = origin(peer);
    let turn = registry.turns().short(from.clone()).await?;
    // Its room is taken as long as somebody works on it, also if whoever sent it hangs up.
    let (reading, sent) = (registry.clone(), body.clone());
    let drafting = turn.spend(move || Ok::<_, Problem>(reading.staging().draft(visitor, from, Sent::read(&sent)?)?));
    let id = registry.staging().keep(drafting.await??, body).await?;
    Ok((StatusCode::CREATED, json(&json!({ "id": id }))).into_response())
}

async fn staged(State(registry): Shared, Extension(peer): Extension<Peer>, visitor: Visitor) -> Answer {
    let who = visitor.publisher()?;
    registry.staging().sweep().await;
    let turn = registry.turns().read(origin(peer)).await?;
    let listing = turn.spend(move || {
        let staged: Vec<Value> = registry.staging().list(who)?.iter().map(shown_staged).collect();
        let waiting: Vec<Value> =
            registry.releases().waiting(who).iter().map(|one| shown_waiting(&registry, one)).collect();
        Ok::<_, RequestError>(json!({ "staged": staged, "waiting": waiting }))
    });
    Ok(private(json(&listing.await??)))
}

fn shown_staged(staged: &Staged) -> Value {
    json!({
        "id": staged.id,
        "agent": staged.agent.to_string(),
        "version": staged.version.to_string(),
        "digest": hex(&staged.digest),
        "bytes": staged.bytes,
        "at_ms": staged.at_ms,
    })
}

fn shown_waiting(registry: &Registry, listed: &Listed) -> Value {
    let signers = listed.released.approvals.iter().map(|(by, ..)| by.to_string());
    json!({
        "agent": listed.agent.to_string(),
        "version": listed.version.to_string(),
        "entry": listed.released.index,
        "approved_by": signers.collect::<Vec<_>>(),
        "wanted": registry.releases().approvals_wanted(&listed.agent),
    })
}

async fn staged_one(
    State(registry): Shared,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
    visitor: Visitor,
) -> Answer {
    let who = visitor.publisher()?;
    let turn = registry.turns().read(origin(peer)).await?;
    let reading = turn.spend(move || {
        let (staged, bundle) = registry.staging().staged_one(who, &id)?;
        let mut shown = shown_staged(&staged);
        shown["description"] = json!(String::from_utf8_lossy(&staged.description));
        shown["bundle"] = json!(STANDARD.encode(bundle));
        Ok::<_, RequestError>(json(&shown))
    });
    Ok(private(reading.await??))
}

async fn unstage(State(registry): Shared, Path(id): Path<String>, visitor: Visitor) -> Answer {
    registry.staging().unstage(visitor.publisher()?, &id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn waiting(State(registry): Shared, Path(names): super::Named, visitor: Visitor) -> Answer {
    let (agent, version) = super::named(&names)?;
    let evidence: Response =
        cbor(registry.releases().waiting_evidence(&agent, &version, visitor.publisher()?)?.encode());
    Ok(private(evidence))
}
