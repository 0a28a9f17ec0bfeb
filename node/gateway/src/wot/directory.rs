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
/// Links of the node's description at most: the list has the others.
const LINKS_MAX: usize = 4 * AGENTS_MAX;

/// The agents that this node knows, each once, by id; at most [`AGENTS_MAX`].
fn agents(gateway: &Gateway) -> BTreeMap<AgentId, Candidate> {
    let known = gateway.calls.known(AGENTS_MAX);
    let discovery = gateway.calls.discovery();
    known.into_iter().filter_map(|known| Some((known.agent.clone(), discovery.describe(&known.agent)?))).collect()
}

/// How many of an agent's capabilities are tools.
fn tools(known: &Candidate) -> usize {
    known.description.capabilities().iter().filter(|capability| capability.is_tool).count()
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
    let prefix = gateway.access.prefix();
    let of_agent = |(id, known): (&AgentId, &Candidate)| {
        let all = known.description.capabilities().iter().filter(|capability| capability.is_tool);
        let tools: Vec<String> = all.map(|tool| td::tool_path(id, &tool.id)).collect();
        std::iter::once(format!("/things/{id}")).chain(tools).map(|path| format!("{prefix}{path}"))
    };
    let hrefs = agents.iter().flat_map(of_agent).take(LINKS_MAX);
    let links: Vec<Value> = hrefs.map(|href| json!({ "rel": "item", "type": TD, "href": href })).collect();
    let mut description = Map::new();
    let members = [
        ("@context", json!("https://www.w3.org/2022/wot/td/v1.1")),
        ("id", json!(gateway.key.public().did())),
        ("title", json!("Althing node")),
        (
            "description",
            json!(
                "A node of an agent mesh; the agents that can be called through it, and the tools that they expose, are linked"
            ),
        ),
        ("base", json!(format!("{}/", gateway.access.base(host(headers).unwrap_or_default())))),
    ];
    description.extend(members.into_iter().map(|(name, value)| (name.to_owned(), value)));
    td::security(&mut description, gateway.access.is_guarded());
    let things = json!({
        "title": "Things",
        "description": "The Thing Descriptions of these agents and tools, by pages",
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
    let all = page_of(&gateway, &headers, &agents, offset, limit);
    let mut answer = ([(header::CONTENT_TYPE, media(&headers))], format!("[{}]", all.join(","))).into_response();
    let next = offset.saturating_add(limit);
    if next < agents.values().map(|known| 1 + tools(known)).sum()
        && let Ok(link) =
            format!("<{}/things?offset={next}&limit={limit}>; rel=\"next\"", gateway.access.prefix()).parse()
    {
        answer.headers_mut().insert(header::LINK, link);
    }
    answer
}

/// The descriptions of that page: each agent, and after it the tools that it exposes.
fn page_of(
    gateway: &Gateway,
    headers: &HeaderMap,
    agents: &BTreeMap<AgentId, Candidate>,
    offset: usize,
    limit: usize,
) -> Vec<String> {
    let (mut skip, mut page) = (offset, Vec::new());
    for (id, known) in agents {
        let count = 1 + tools(known);
        if skip >= count {
            skip -= count;
            continue;
        }
        if skip == 0 && page.len() < limit {
            page.push(thing::served(gateway, headers, id, known));
        }
        let room = limit - page.len();
        if count > 1 && room > 0 {
            let all = known.description.tools();
            let shown = all.iter().skip(skip.saturating_sub(1)).take(room);
            page.extend(shown.map(|tool| super::tools::served(gateway, headers, id, known, tool)));
        }
        skip = 0;
        if page.len() == limit {
            break;
        }
    }
    page
}

/// Directories list as JSON-LD; a consumer that asks for JSON gets the same bytes under that name.
fn media(headers: &HeaderMap) -> &'static str {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if accept.contains(JSON) { JSON } else { "application/ld+json" }
}
