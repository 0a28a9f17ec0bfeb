//! The way in: `/.well-known/wot` (W3C WoT Discovery §6), and the list of all descriptions.

use std::collections::BTreeMap;
use std::sync::Arc;

use althing_calls::Candidate;
use althing_edge::host;
use althing_protocol::AgentId;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{TD, problem, td, thing};
use crate::{AGENTS_MAX, Gateway, JSON};

/// Descriptions on one page, unless asked otherwise.
const PAGE_DEFAULT: usize = 50;
/// Descriptions on one page at most.
const PAGE_MAX: usize = 100;

/// The agents that this node knows, each once, by id; at most [`AGENTS_MAX`].
fn agents(gateway: &Gateway) -> BTreeMap<AgentId, Candidate> {
    let known = gateway.calls.known(AGENTS_MAX);
    let discovery = gateway.calls.discovery();
    known.into_iter().filter_map(|known| Some((known.agent.clone(), discovery.describe(&known.agent)?))).collect()
}

/// `GET /.well-known/wot`: the description of the only agent, or of the node with a link to each agent.
pub(super) async fn well_known(State(gateway): State<Arc<Gateway>>, headers: HeaderMap) -> Response {
    let agents = agents(&gateway);
    let body = match agents.first_key_value() {
        Some((id, known)) if agents.len() == 1 => thing::served(&gateway, &headers, id, known),
        _ => node(&gateway, &headers, &agents).to_string(),
    };
    thing::answer(&headers, TD, body.into_bytes())
}

fn node(gateway: &Gateway, headers: &HeaderMap, agents: &BTreeMap<AgentId, Candidate>) -> Value {
    let links: Vec<Value> =
        agents.keys().map(|id| json!({ "rel": "item", "type": TD, "href": format!("/things/{id}") })).collect();
    let mut description = Map::new();
    let members = [
        ("@context", json!("https://www.w3.org/2022/wot/td/v1.1")),
        ("id", json!(gateway.key.public().did())),
        ("title", json!("Althing node")),
        ("description", json!("A node of an agent mesh; the agents that can be called through it are linked")),
        ("base", json!(format!("{}://{}/", gateway.access.scheme(), host(headers).unwrap_or_default()))),
    ];
    description.extend(members.into_iter().map(|(name, value)| (name.to_owned(), value)));
    td::security(&mut description, gateway.access.is_guarded());
    let things = json!({
        "title": "Things",
        "description": "The Thing Descriptions of these agents, by pages",
        "type": "array",
        "items": { "type": "object" },
        "readOnly": true,
        "uriVariables": { "offset": { "type": "integer", "minimum": 0 }, "limit": { "type": "integer", "minimum": 1, "maximum": PAGE_MAX } },
        "forms": [{ "op": ["readproperty"], "href": "things{?offset,limit}", "contentType": JSON }],
    });
    description.insert("properties".to_owned(), json!({ "things": things }));
    description.insert("links".to_owned(), json!(links));
    Value::Object(description)
}

#[derive(Deserialize)]
pub(super) struct Page {
    offset: Option<String>,
    limit: Option<String>,
}

/// `GET /things`: the descriptions of all agents, by pages (as the listing of a directory, WoT Discovery §7.3.2.1).
pub(super) async fn list(
    State(gateway): State<Arc<Gateway>>,
    Query(page): Query<Page>,
    headers: HeaderMap,
) -> Response {
    let number = |text: Option<String>, default: usize| text.map_or(Some(default), |text| text.parse().ok());
    let (offset, limit) = (number(page.offset, 0), number(page.limit, PAGE_DEFAULT));
    let (Some(offset), Some(limit @ 1..=PAGE_MAX)) = (offset, limit) else {
        let detail = format!("`offset` is a whole number, and `limit` one from 1 to {PAGE_MAX}");
        return problem::refuse(StatusCode::BAD_REQUEST, "INVALID_PARAMS", &detail);
    };
    let agents = agents(&gateway);
    let page = agents.iter().skip(offset).take(limit);
    let all: Vec<String> = page.map(|(id, known)| thing::served(&gateway, &headers, id, known)).collect();
    let mut answer = ([(header::CONTENT_TYPE, media(&headers))], format!("[{}]", all.join(","))).into_response();
    let next = offset.saturating_add(limit);
    if next < agents.len()
        && let Ok(link) = format!("</things?offset={next}&limit={limit}>; rel=\"next\"").parse()
    {
        answer.headers_mut().insert(header::LINK, link);
    }
    answer
}

/// Directories list as JSON-LD; a consumer that asks for JSON gets the same bytes under that name.
fn media(headers: &HeaderMap) -> &'static str {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if accept.contains(JSON) { JSON } else { "application/ld+json" }
}
