//! Agent cards of every agent of the mesh, local or not: signed by this node, with the publisher's evidence inside.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use althing_calls::{BINDING, LATENCY, OperationError, OwnCard, Reply};
use althing_edge::{Base, host, problem};
use althing_protocol::{AgentId, PublicKey, SecretKey, VerifiedAgent, digest};
use althing_td::{CardContext, ContainmentClaim, Description, Interface, card, kid, sign_card};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::status::status;
use crate::Gateway;
use crate::client::to_read;

/// The extension with the evidence that peers verify: key log, description and hosting grant, as signed.
const EVIDENCE: &str = "https://althing.dev/ext/evidence/v1";
/// The extension with the nodes that host the agent, in extended cards.
const HOSTS: &str = "https://althing.dev/ext/hosts/v1";
/// The extension that says how the programs of the agent are contained.
const CONTAINMENT: &str = "https://althing.dev/ext/containment/v1";
/// Nodes that it names.
const HOSTS_MAX: usize = 64;
/// The last day that an HTTP date can name, in Unix milliseconds: 9999-12-31.
const LATEST_MS: u64 = 253_402_214_400_000;
/// Cache lifetime, seconds: descriptions change.
const CACHE: &str = "max-age=60";

/// `GET /a2a/{agent}/.well-known/agent-card.json`.
pub(crate) async fn show(
    State(gateway): State<Arc<Gateway>>,
    Path(agent): Path<String>,
    headers: HeaderMap,
) -> Response {
    let host = host(&headers).unwrap_or_default();
    let made = async { make(&gateway, &to_read(&gateway.calls, &agent).await?, host, false).await };
    match made.await {
        Ok((body, issued_at_ms)) => {
            let etag = format!("\"{}\"", URL_SAFE_NO_PAD.encode(digest(body.as_bytes())));
            let modified = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(issued_at_ms.min(LATEST_MS)));
            let caching = [
                (header::ETAG, etag.clone()),
                (header::LAST_MODIFIED, modified),
                (header::CACHE_CONTROL, CACHE.to_owned()),
                (header::CONTENT_TYPE, "application/json".to_owned()),
            ];
            let known = headers.get(header::IF_NONE_MATCH).and_then(|tag| tag.to_str().ok());
            if known.is_some_and(|known| known.split(',').any(|tag| tag.trim() == etag || tag.trim() == "*")) {
                return (StatusCode::NOT_MODIFIED, caching).into_response();
            }
            (caching, body).into_response()
        }
        Err(error) => problem(status(&error.refusal), &error.message),
    }
}

/// The answer to GetExtendedAgentCard: the card with what only those are told who may call the agent. The request passed the
/// guard.
pub(crate) async fn extended(gateway: &Gateway, agent: &AgentId, host: &str) -> Result<Reply, OperationError> {
    let (body, _) = make(gateway, agent, host, true).await?;
    Ok(Reply::One(body.into_bytes()))
}

async fn make(gateway: &Gateway, id: &AgentId, host: &str, extended: bool) -> Result<(String, u64), OperationError> {
    gateway.calls.find_hosts(id).await;
    let known = gateway.calls.discovery().describe(id);
    let known = known.ok_or_else(|| OperationError::agent_unknown(format!("no node that hosts {id} is known")))?;
    let shown = Shown {
        verified: &known.verified,
        description: &known.description,
        gateway: Some(&gateway.access.base(host)),
        token_required: gateway.access.is_guarded(),
        push_notifications: gateway.calls.notifies(),
        extended: true,
        hosts: extended.then(|| gateway.calls.discovery().hosts(id)),
        own: gateway.calls.own_card(id).unwrap_or_default(),
        class: gateway.calls.latency_class(id),
    };
    Ok((signed(&shown, &gateway.key)?, known.verified.description.body.issued_at_ms))
}

/// The content of a card.
pub(crate) struct Shown<'a> {
    pub verified: &'a VerifiedAgent,
    pub description: &'a Description,
    /// The base of a gateway where the reader can call the agent over HTTP, if any.
    pub gateway: Option<&'a Base>,
    pub token_required: bool,
    /// Whether push notifications are sent.
    pub push_notifications: bool,
    /// Whether there is an extended card.
    pub extended: bool,
    /// The nodes that host the agent; none in a card that is not the extended one.
    pub hosts: Option<Vec<PublicKey>>,
    /// The card that the agent serves itself, if it runs here.
    pub own: OwnCard,
    /// The latency class of its contract, if that is known.
    pub class: Option<&'static str>,
}

/// The card, signed with the node's key.
pub(crate) fn signed(shown: &Shown<'_>, key: &SecretKey) -> Result<String, OperationError> {
    let id = &shown.verified.agent;
    let own = shown.own.extensions.iter().map(|extension| json!(extension));
    let hosts = shown.hosts.as_deref().map(hosts);
    let contained = shown.description.contained().map(contained);
    let extensions = [evidence(shown.verified), latency(shown.class)].into_iter();
    let extensions = extensions.chain(contained).chain(hosts).chain(own).collect();
    let context = CardContext {
        interfaces: interfaces(&id.to_string(), shown.gateway),
        provider: None,
        streaming: true,
        push_notifications: shown.push_notifications,
        extended: shown.extended,
        input_modes: with_own(shown.description.input_modes(), &shown.own.input_modes),
        output_modes: with_own(shown.description.output_modes(), &shown.own.output_modes),
        extensions,
        token_required: shown.token_required,
    };
    let mut card = card(shown.description, &context);
    sign_card(&mut card, key.signing_key(), &kid(key.public()))
        .map_err(|error| OperationError::internal(format!("the card could not be signed: {error}")))?;
    Ok(card.to_string())
}

/// Where an agent can be called: over each binding of the gateway at that base, if there is one, and over libp2p.
fn interfaces(id: &str, gateway: Option<&Base>) -> Vec<Interface> {
    let interface = |url: String, binding: &str| Interface {
        url,
        protocol_binding: binding.to_owned(),
        protocol_version: "1.0".to_owned(),
        ..Interface::default()
    };
    let mut all = Vec::new();
    if let Some(base) = gateway {
        all.extend(["JSONRPC", "HTTP+JSON"].map(|binding| interface(format!("{base}/a2a/{id}"), binding)));
        // gRPC has no path below its service: the tenant leads to the agent. Nor before it: clients take host and port alone.
        if base.path().is_empty() {
            all.push(Interface { tenant: id.to_owned(), ..interface(base.to_string(), "GRPC") });
        }
    }
    all.push(interface(format!("althing://{id}"), BINDING));
    all
}

/// The description's values first, then those that only the agent's own card has.
pub(crate) fn with_own(described: &[String], own: &[String]) -> Vec<String> {
    let more = own.iter().filter(|mode| !described.contains(mode));
    described.iter().chain(more).cloned().collect()
}

fn hosts(nodes: &[PublicKey]) -> Value {
    let nodes: Vec<String> = nodes.iter().take(HOSTS_MAX).map(PublicKey::did).collect();
    json!({ "uri": HOSTS, "description": "The nodes that host the agent now.", "params": { "nodes": nodes } })
}

/// How the agent's programs are contained on its node, as its description says.
fn contained(contained: ContainmentClaim) -> Value {
    json!({
        "uri": CONTAINMENT,
        "description": "How the programs of the agent are contained where it runs, the least of them: `contained`, `contained by \
                        Landlock only` (and what an older kernel's leaves open), `contained by an account of its own only` or \
                        `not contained`; of those that ran, where others did not yet.",
        "params": { "containment": contained.words() },
    })
}

/// How the agent runs, if that is known, and that its callers may say how long they wait.
fn latency(class: Option<&'static str>) -> Value {
    let mut extension = json!({
        "uri": LATENCY,
        "description": "The latency class that the agent runs in; `metadata` of a request or its message may say within how \
                        many milliseconds its turn must end.",
    });
    if let Some(class) = class {
        extension["params"] = json!({ "class": class });
    }
    extension
}

fn evidence(verified: &VerifiedAgent) -> Value {
    let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let key_log: Vec<String> = verified.key_log.to_bytes().iter().map(|event| text(event)).collect();
    json!({
        "uri": EVIDENCE,
        "description": "The publisher's signed description and hosting grant, and the key log that they verify with.",
        "params": {
            "node": verified.node.did(),
            "keyLog": key_log,
            "description": text(&verified.description.bytes),
            "grant": text(&verified.grant.bytes),
        },
    })
}
