//! Bodies of answers.

use althing_protocol::registry::{Standing, Version};
use althing_protocol::{AgentId, Digest};
use axum::Json;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::service::{Host, Listed, Registry};

/// What stands in the place of the standing of a release that the operator hides.
const QUARANTINED: &str = "quarantined";

pub fn json(value: &Value) -> Response {
    Json(value).into_response()
}

pub fn cbor(bytes: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/cbor")], bytes).into_response()
}

/// Plain text.
pub fn text(text: &str) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::CACHE_CONTROL, "no-cache")], text.to_owned())
        .into_response()
}

fn octets(caching: &'static str) -> [(header::HeaderName, &'static str); 2] {
    [(header::CONTENT_TYPE, "application/octet-stream"), (header::CACHE_CONTROL, caching)]
}

/// Bytes that never change at this address.
pub fn immutable(bytes: Vec<u8>) -> Response {
    (octets("public, max-age=31536000, immutable"), bytes).into_response()
}

/// What depends on who asks: no cache shows it to somebody else.
pub fn private(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(header::VARY, HeaderValue::from_static("authorization"));
    response
}

/// A bundle; caches keep what everybody may have for a minute, since it may be hidden.
pub fn bundle_of(bytes: Vec<u8>, is_public: bool) -> Response {
    let response = (octets("public, max-age=60"), bytes).into_response();
    if is_public { response } else { private(response) }
}

/// What a registry is, and what it has.
pub fn about(registry: &Registry) -> Value {
    json!({
        "name": registry.note_key().name(),
        "key": registry.note_key().to_string(),
        "network": registry.network(),
        "entries": registry.checkpoint().head.size,
        "links": {
            "checkpoint": "/checkpoint",
            "agents": "/agents",
            "release": "/agents/{agent}/{version}",
            "bundle": "/agents/{agent}/{version}/bundle",
            "revoked": "/revoked?from={index}",
            "attestations": "/attestations?agent={id}&version={version}&model={name}&by={publisher}&name={name}",
            "statement": "/statements/{index}",
            "sign-in": "/sessions",
            "domain": "/names/{domain}",
            "name": "/names/{domain}/{name}",
            "staged": "/staged",
            "published": "/published?capability={id}&action={verb}&target={noun}",
            "hosts": "/hosts?agent={id}&capability={id}&action={verb}&target={noun}",
            "tiles": "/tile/{level}/{index}",
            "entries": "/tile/entries/{index}",
            "consistency": "/consistency/{old}/{new}",
            "submit": "/submissions",
            "things": "/things",
            "thing": "/things/{id}",
            "search": "/search/jsonpath?query={query}",
            "events": "/events",
            "description": "/.well-known/wot",
            "health": "/healthz",
        },
    })
}

/// Releases, by agent.
pub fn agents(registry: &Registry, listed: &[Listed]) -> Value {
    let mut agents: Vec<Value> = Vec::new();
    for versions in listed.chunk_by(|one, next| one.agent == next.agent) {
        let agent = &versions[0].agent;
        let ranged = versions
            .iter()
            .rev()
            .find(|one| one.released.standing <= Standing::Deprecated && one.released.quarantine.is_none());
        agents.push(json!({
            "id": agent.to_string(),
            "current": ranged.map(|one| one.version.to_string()),
            "versions": versions.iter().map(version).collect::<Vec<_>>(),
            "twins": twins(registry, agent),
        }));
    }
    json!({ "agents": agents })
}

/// The ids of agents whose names look like that of an agent.
fn twins(registry: &Registry, agent: &AgentId) -> Vec<String> {
    registry.releases().twins(agent).iter().map(AgentId::to_string).collect()
}

fn version(listed: &Listed) -> Value {
    let released = &listed.released;
    let mut value = json!({
        "version": listed.version.to_string(),
        "standing": released.standing.name(),
        "entry": released.index,
    });
    if let Some(reason) = released.quarantine.as_ref().filter(|_| released.standing != Standing::Revoked) {
        value["standing"] = json!(QUARANTINED);
        value["reason"] = json!(reason);
    } else if !released.reason.is_empty() {
        value["reason"] = json!(released.reason);
    }
    value
}

/// Revoked releases.
pub fn revoked(revoked: &[(u64, AgentId, Version)]) -> Value {
    let one = |(index, agent, version): &(u64, AgentId, Version)| json!({ "entry": index, "agent": agent.to_string(), "version": version.to_string() });
    json!({ "revoked": revoked.iter().map(one).collect::<Vec<_>>() })
}

/// Things that were released.
pub fn published(registry: &Registry, found: &[(AgentId, Version)]) -> Value {
    let one = |(agent, version): &(AgentId, Version)| {
        let twins = twins(registry, agent);
        json!({ "agent": agent.to_string(), "version": version.to_string(), "twins": twins })
    };
    json!({ "published": found.iter().map(one).collect::<Vec<_>>() })
}

/// What became of what a node told.
pub fn lease(agents: usize, lease_ms: u64) -> Value {
    json!({ "agents": agents, "leaseMs": lease_ms })
}

/// Nodes, with their signed contacts.
pub fn hosts(hosts: &[Host]) -> Value {
    let one = |host: &Host| {
        let agents: Vec<String> = host.agents.iter().map(AgentId::to_string).collect();
        json!({ "contact": STANDARD.encode(&host.contact), "agents": agents })
    };
    json!({ "hosts": hosts.iter().map(one).collect::<Vec<_>>() })
}

/// Hashes, one on each line.
pub fn lines(hashes: &[Digest]) -> String {
    hashes.iter().map(|hash| STANDARD.encode(hash) + "\n").collect()
}
