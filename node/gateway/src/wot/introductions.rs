//! Introductions (W3C WoT Discovery §5, §6): unknown clients read the descriptions of public agents. Read-only and without
//! a token, since all of it is public.

use std::sync::Arc;

use althing_calls::{Calls, Candidate};
use althing_edge::{Base, host, problem};
use althing_protocol::SecretKey;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Value, json};

use crate::a2a::card::{self, Shown};

/// The media type of a Thing Description (TD 1.1 §10.1).
const TD: &str = "application/td+json";

struct Introductions {
    calls: Calls,
    key: SecretKey,
    /// What addresses of the gateway begin with, if other machines can use it.
    gateway: Option<Base>,
    token_required: bool,
}

/// The routes. `gateway` is where other machines can call the agents over HTTP, if they can.
pub fn introductions(calls: Calls, key: SecretKey, gateway: Option<Base>, token_required: bool) -> Router {
    let introductions = Arc::new(Introductions { calls, key, gateway, token_required });
    Router::new()
        .route("/.well-known/wot", get(well_known))
        .route("/things/{name}", get(thing))
        .route("/a2a/{name}/.well-known/agent-card.json", get(agent_card))
        .fallback(missing)
        .with_state(introductions)
}

/// The paths of an agent's description and card.
#[must_use]
pub fn paths(name: &str) -> (String, String) {
    (format!("/things/{name}"), format!("/a2a/{name}/.well-known/agent-card.json"))
}

impl Introductions {
    fn agents(&self) -> Vec<Candidate> {
        self.calls.discovery().introduced()
    }

    fn named(&self, name: &str) -> Option<Candidate> {
        self.agents().into_iter().find(|agent| agent.verified.agent.name() == name)
    }
}

/// The description of the only public agent, or of the node with a link to each agent.
async fn well_known(State(all): State<Arc<Introductions>>, headers: HeaderMap) -> Response {
    let agents = all.agents();
    if let [only] = &agents[..] {
        return describe(only.description.bytes().to_vec());
    }
    let host = host(&headers).unwrap_or_default();
    let links = agents.iter().map(|agent| {
        let (path, _) = paths(agent.verified.agent.name());
        json!({ "rel": "item", "type": TD, "href": format!("http://{host}{path}") })
    });
    let td = json!({
        "@context": "https://www.w3.org/2022/wot/td/v1.1",
        "id": all.key.public().did(),
        "title": "Althing node",
        "description": "A node of an agent mesh; its public agents are linked",
        "securityDefinitions": { "nosec": { "scheme": "nosec" } },
        "security": "nosec",
        "links": links.collect::<Vec<Value>>(),
    });
    describe(td.to_string().into_bytes())
}

async fn thing(State(all): State<Arc<Introductions>>, Path(name): Path<String>) -> Response {
    match all.named(&name) {
        Some(agent) => describe(agent.description.bytes().to_vec()),
        None => nothing(&name),
    }
}

async fn agent_card(State(all): State<Arc<Introductions>>, Path(name): Path<String>) -> Response {
    let Some(agent) = all.named(&name) else { return nothing(&name) };
    let shown = Shown {
        verified: &agent.verified,
        description: &agent.description,
        gateway: all.gateway.as_ref(),
        token_required: all.token_required,
        push_notifications: all.calls.notifies(),
        extended: all.gateway.is_some(),
        hosts: None,
        own: all.calls.own_card(&agent.verified.agent).unwrap_or_default(),
        class: all.calls.latency_class(&agent.verified.agent),
    };
    match card::signed(&shown, &all.key) {
        Ok(card) => ([(header::CONTENT_TYPE, "application/json")], card).into_response(),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, &error.message),
    }
}

fn describe(td: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, TD)], td).into_response()
}

fn nothing(name: &str) -> Response {
    let name: String = name.chars().take(64).collect();
    problem(StatusCode::NOT_FOUND, &format!("no agent {name:?} is public here; /.well-known/wot says what is"))
}

async fn missing() -> Response {
    problem(
        StatusCode::NOT_FOUND,
        "introductions are at /.well-known/wot, /things/NAME and /a2a/NAME/.well-known/agent-card.json",
    )
}
