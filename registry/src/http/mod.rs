//! The HTTP face of a registry. It translates: what is accepted and shown is decided in [`crate::service`].

mod answers;
mod attestations;
mod names;
mod organisation;
mod problem;
mod things;
mod witness;

use std::sync::Arc;
use std::time::Duration;

use althing_edge::{Peer, read_body};
use althing_log::Tile;
use althing_protocol::AgentId;
use althing_protocol::limits::{PRESENCE_BYTES_MAX, SUBMISSION_BYTES_MAX};
use althing_protocol::registry::{Presence, Receipt, Submission, Version};
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use futures::StreamExt as _;
use serde::Deserialize;
use serde_json::json;

use crate::machine::PurgedBy;
use crate::service::{HostQuery, KEPT_BUNDLE_BYTES_MAX, Registry, RequestError, Visitor, verified};
use answers::{bundle_of, cbor, json, private, text};
use problem::{Answer, Problem};

pub use names::at_own_names;
pub use witness::{cosigning_route, witness_router};

/// Agents of one page.
const PAGE: usize = 100;
/// How long a body goes by that nobody needs.
const GOING_BY_MAX: Duration = Duration::from_secs(10);

/// What the routes ask.
type Shared = State<Arc<Registry>>;

/// The routes of a registry.
pub fn router(registry: Arc<Registry>) -> Router {
    Router::new()
        .route("/", get(about))
        .route("/checkpoint", get(checkpoint))
        .route("/tile/{*path}", get(tile))
        .route("/consistency/{old}/{new}", get(consistency))
        .route("/submissions", post(submit))
        .route("/agents", get(agents))
        .route("/agents/{agent}", get(versions))
        .route("/agents/{agent}/{version}", get(release).delete(purge))
        .route("/agents/{agent}/{version}/bundle", get(bundle).put(keep_bundle))
        .route("/revoked", get(revoked))
        .route("/published", get(published))
        .route("/attestations", get(attestations::attestations))
        .route("/hosts", get(hosts).post(host))
        .route("/healthz", get(health))
        .merge(things::routes())
        .merge(organisation::routes())
        .fallback_service(elsewhere(registry.clone()))
        .method_not_allowed_fallback(other_method)
        .with_state(registry)
}

/// What has no route of its own.
fn elsewhere(registry: Arc<Registry>) -> Router {
    things::decoded_routes()
        .fallback(|| async { Problem::new(StatusCode::NOT_FOUND, "there is nothing here; GET / lists what there is") })
        .method_not_allowed_fallback(other_method)
        .with_state(registry)
}

async fn other_method() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this address does not take that method")
}

/// Tells those who watch it, or share requests out, that it answers.
async fn health(State(registry): Shared) -> Response {
    let entries = registry.checkpoint().head.size;
    json(&json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION"), "entries": entries }))
}

async fn about(State(registry): Shared) -> Response {
    json(&answers::about(&registry))
}

async fn checkpoint(State(registry): Shared) -> Response {
    text(registry.witnessing().shown().note())
}

async fn tile(State(registry): Shared, Path(path): Path<String>) -> Answer {
    let entries = path.strip_prefix("entries/");
    let name = entries.map_or_else(|| path.clone(), |rest| format!("0/{rest}"));
    let tile: Tile = name.parse().map_err(Problem::bad)?;
    let found = if entries.is_some() { registry.entries(tile)? } else { registry.tile(tile)? };
    Ok(answers::immutable(found.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "the log has no such tile yet"))?))
}

async fn consistency(State(registry): Shared, Path((old, new)): Path<(u64, u64)>) -> Answer {
    Ok(text(&answers::lines(&registry.growth(old, new)?)))
}

async fn submit(State(registry): Shared, Extension(peer): Extension<Peer>, request: Request) -> Answer {
    let body = read_body(request, SUBMISSION_BYTES_MAX).await.map_err(Problem::body)?;
    let submission = Submission::decode(&body).map_err(crate::machine::Refusal::from)?;
    // Whoever may not publish here waits for no turn, and takes none.
    registry.check(&submission)?;
    let (turn, verifying) = (registry.turns().short(things::origin(peer)).await?, registry.clone());
    // Its room is taken as long as what was read of it is there, also if whoever sent it hangs up.
    let held = body.clone();
    let opened = turn.spend(move || {
        let opened = verified(&verifying, &submission);
        drop(held);
        opened
    });
    let receipt = Receipt { accepted: registry.accept(opened.await??).await? };
    drop(body);
    Ok((StatusCode::CREATED, cbor(receipt.encode())).into_response())
}

#[derive(Deserialize)]
struct Page {
    after: Option<String>,
}

/// The names in an address.
type Named = Path<(String, String)>;

fn named((agent, version): &(String, String)) -> Result<(AgentId, Version), Problem> {
    Ok((agent.parse().map_err(Problem::bad)?, version.parse().map_err(Problem::bad)?))
}

async fn agents(State(registry): Shared, Query(page): Query<Page>, visitor: Visitor) -> Answer {
    let after: Option<AgentId> = page.after.map(|after| after.parse()).transpose().map_err(Problem::bad)?;
    let listed = registry.releases().list(after.as_ref(), PAGE, visitor.reader());
    Ok(private(json(&answers::agents(&registry, &listed))))
}

async fn versions(State(registry): Shared, Path(agent): Path<String>, visitor: Visitor) -> Answer {
    let agent = agent.parse().map_err(Problem::bad)?;
    let listed = registry.releases().versions(&agent, visitor.reader())?;
    Ok(private(json(&answers::agents(&registry, &listed))))
}

async fn release(State(registry): Shared, Path(names): Named, visitor: Visitor) -> Answer {
    let (agent, version) = named(&names)?;
    Ok(private(cbor(registry.releases().evidence(&agent, &version, visitor.reader())?.encode())))
}

async fn purge(State(registry): Shared, Path(names): Named, visitor: Visitor) -> Answer {
    let (agent, version) = named(&names)?;
    if agent.publisher() != visitor.publisher()? {
        return Err(RequestError::NoVersion(agent, version).into());
    }
    // In a task of its own: it is completed even if whoever asked hangs up.
    let purging = async move { registry.purging().purge(&agent, &version, PurgedBy::Publisher).await };
    tokio::spawn(purging).await.map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error))??;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn bundle(State(registry): Shared, Path(names): Named, visitor: Visitor) -> Answer {
    let (agent, version) = named(&names)?;
    Ok(bundle_of(registry.releases().bundle(&agent, &version, visitor.reader())?, visitor.reader().is_none()))
}

async fn keep_bundle(
    State(registry): Shared,
    Extension(peer): Extension<Peer>,
    Path(names): Named,
    visitor: Visitor,
    request: Request,
) -> Answer {
    let ((agent, version), reader) = (named(&names)?, visitor.reader());
    // Nobody sends bytes that nothing names, or that are here.
    if registry.releases().has_bundle(&agent, &version, reader)? {
        let_go_by(request);
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let body = read_body(request, KEPT_BUNDLE_BYTES_MAX).await.map_err(Problem::body)?;
    let turn = registry.turns().short(things::origin(peer)).await?;
    // In a task of its own: the room of the body is taken until it is on disk, also if whoever sent it hangs up.
    let keeping = async move {
        let (checking, of, sent) = (registry.clone(), (agent.clone(), version.clone()), body.clone());
        let checked = turn.spend(move || checking.releases().bundle_content(&of.0, &of.1, &sent, reader));
        registry.releases().keep_bundle(&agent, &version, checked.await??, reader).await?;
        drop(body);
        Ok::<_, Problem>(())
    };
    tokio::spawn(keeping).await.map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error))??;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Lets a body go by that nobody needs, a part at a time: a connection that is closed before its body was read may take the
/// answer with it that was sent.
fn let_go_by(request: Request) {
    let mut parts = request.into_body().into_data_stream();
    let going_by = async move {
        let mut left = KEPT_BUNDLE_BYTES_MAX;
        while let Some(Ok(part)) = parts.next().await {
            let Some(less) = left.checked_sub(part.len()) else { break };
            left = less;
        }
    };
    tokio::spawn(tokio::time::timeout(GOING_BY_MAX, going_by));
}

async fn host(State(registry): Shared, Extension(peer): Extension<Peer>, request: Request) -> Answer {
    let body = read_body(request, PRESENCE_BYTES_MAX).await.map_err(Problem::body)?;
    let presence = Presence::decode(&body).map_err(RequestError::from)?;
    let turn = registry.turns().short(things::origin(peer)).await?;
    let hosted = turn.spend(move || {
        let hosted = registry.host_presence().host(&presence);
        drop(body);
        hosted
    });
    let (agents, lease_ms) = hosted.await??;
    Ok(json(&answers::lease(agents, lease_ms)))
}

async fn hosts(State(registry): Shared, Extension(peer): Extension<Peer>, Query(query): Query<HostQuery>) -> Answer {
    let turn = registry.turns().short(things::origin(peer)).await?;
    Ok(json(&turn.spend(move || answers::hosts(&registry.host_presence().find_hosts(&query))).await?))
}

async fn published(
    State(registry): Shared,
    Extension(peer): Extension<Peer>,
    Query(query): Query<HostQuery>,
    visitor: Visitor,
) -> Answer {
    let (reader, turns, origin) = (visitor.reader(), registry.turns(), things::origin(peer));
    // What everybody sees is in memory; what is for a reader alone may have to be read from the disk.
    let turn = if reader.is_none() { turns.short(origin).await? } else { turns.take(origin).await? };
    let searched = turn.spend(move || {
        let found = registry.published().find(&query, reader)?;
        Ok::<_, RequestError>(answers::published(&registry, &found))
    });
    Ok(private(json(&searched.await??)))
}

#[derive(Deserialize)]
struct From {
    #[serde(default)]
    from: u64,
}

async fn revoked(State(registry): Shared, Query(From { from }): Query<From>, visitor: Visitor) -> Response {
    private(json(&answers::revoked(&registry.releases().revoked(from, PAGE, visitor.reader()))))
}
