//! The A2A agent card (specification 1.0.1, §4.4.1 and §8) that is made from a description, for one serving gateway.

mod defaults;
mod lint;
mod signature;
mod signer;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

pub use lint::lint_card;
pub use signature::{CARD_BYTES_MAX, CardError, SIGNATURES_MAX, sign_card, verify_card};
pub use signer::{NoSignerKey, Signer, SignerKey, card_signers, verify_signer};

use crate::agent_file::MODE_DEFAULT;
use crate::description::{Capability, Description};

/// The version of a card whose description names none.
pub const VERSION_UNKNOWN: &str = "0.0.0";

/// Where and how an agent can be called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interface {
    /// Its URL.
    pub url: String,
    /// `JSONRPC`, `HTTP+JSON`, `GRPC`, or the URI of a custom binding.
    pub protocol_binding: String,
    /// What clients send as `tenant` with each request; none if empty.
    pub tenant: String,
    /// `1.0`; the patch number is never negotiated.
    pub protocol_version: String,
}

/// The members of a card beyond the description: how this gateway serves the agent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CardContext {
    /// The interfaces, the preferred one first. A card without one is useless, but is made.
    pub interfaces: Vec<Interface>,
    /// Who provides it: organisation and URL.
    pub provider: Option<(String, String)>,
    /// Whether it streams.
    pub streaming: bool,
    /// Whether push notifications are sent.
    pub push_notifications: bool,
    /// Whether there is a card for those who may call the agent (GetExtendedAgentCard).
    pub extended: bool,
    /// The media types that it reads; where empty those of the description, or else `text/plain`.
    pub input_modes: Vec<String>,
    /// The media types that it writes; where empty those of the description, or else `text/plain`.
    pub output_modes: Vec<String>,
    /// AgentExtension objects (`uri`, `description`, `required`, `params`).
    pub extensions: Vec<Value>,
    /// Whether a bearer token is needed to call it.
    pub token_required: bool,
}

/// The agent card of a description, as JSON without `signatures`. All required members are present whatever the
/// description lacks; optional members that would have their default value are left out, because readers canonicalise
/// them differently (standards: A2A #2122).
pub fn card(desc: &Description, context: &CardContext) -> Value {
    let name = [desc.title(), desc.id().unwrap_or_default(), "Untitled"].into_iter().find(|t| !t.trim().is_empty());
    let name = name.unwrap_or_default();
    let mut card = Map::new();
    let mut put = |member: &str, value: Value| card.insert(member.to_owned(), value);
    put("name", json!(name));
    put("description", json!(desc.description().filter(|t| !t.trim().is_empty()).unwrap_or(name)));
    put("version", json!(desc.version().filter(|v| !v.trim().is_empty()).unwrap_or(VERSION_UNKNOWN)));
    put("supportedInterfaces", context.interfaces.iter().map(interface).collect());
    if let Some((organization, url)) = &context.provider {
        put("provider", json!({ "organization": organization, "url": url }));
    }
    put("capabilities", capabilities(context));
    put("defaultInputModes", json!(modes(&context.input_modes, desc.input_modes())));
    put("defaultOutputModes", json!(modes(&context.output_modes, desc.output_modes())));
    put("skills", skills(desc, name));
    if context.token_required {
        put("securitySchemes", json!({ "bearer": { "httpAuthSecurityScheme": { "scheme": "Bearer" } } }));
        put("securityRequirements", json!([{ "schemes": { "bearer": {} } }]));
    }
    Value::Object(card)
}

fn interface(of: &Interface) -> Value {
    let mut out = json!({ "url": of.url, "protocolBinding": of.protocol_binding });
    if !of.tenant.is_empty() {
        out["tenant"] = json!(of.tenant);
    }
    out["protocolVersion"] = json!(of.protocol_version);
    out
}

fn capabilities(context: &CardContext) -> Value {
    let mut out = Map::new();
    if context.streaming {
        out.insert("streaming".to_owned(), Value::Bool(true));
    }
    if context.push_notifications {
        out.insert("pushNotifications".to_owned(), Value::Bool(true));
    }
    if context.extended {
        out.insert("extendedAgentCard".to_owned(), Value::Bool(true));
    }
    let extensions: Vec<Value> = context.extensions.iter().map(extension).collect();
    if !extensions.is_empty() {
        out.insert("extensions".to_owned(), Value::Array(extensions));
    }
    Value::Object(out)
}

/// An extension without the optional members that have their default value.
fn extension(given: &Value) -> Value {
    let mut extension = given.clone();
    if let Value::Object(members) = &mut extension {
        members.retain(|name, value| match (name.as_str(), &*value) {
            ("required", Value::Bool(false)) | (_, Value::Null) => false,
            ("description", Value::String(text)) => !text.is_empty(),
            ("params", Value::Object(params)) => !params.is_empty(),
            _ => true,
        });
    }
    extension
}

fn modes(given: &[String], described: &[String]) -> Vec<String> {
    match (given, described) {
        ([], []) => vec![MODE_DEFAULT.to_owned()],
        ([], described) => described.to_vec(),
        (given, _) => given.to_vec(),
    }
}

/// One skill per capability; an agent without capabilities gets one for itself, because a card must have skills.
fn skills(desc: &Description, name: &str) -> Value {
    let mut capabilities = desc.capabilities().to_vec();
    if capabilities.is_empty() {
        let description = desc.description().unwrap_or(name).to_owned();
        let itself = Capability { id: "agent".to_owned(), name: name.to_owned(), description, ..Capability::default() };
        capabilities.push(itself);
    }
    let mut ids = BTreeSet::new();
    capabilities.iter().enumerate().map(|(n, capability)| skill(n, capability, &mut ids)).collect()
}

fn skill(n: usize, capability: &Capability, ids: &mut BTreeSet<String>) -> Value {
    let or = |text: &str, other: &str| if text.trim().is_empty() { other.to_owned() } else { text.to_owned() };
    let mut id = or(&or(&capability.id, &capability.name), &format!("skill-{}", n + 1));
    while !ids.insert(id.clone()) {
        id.push_str(&format!("-{}", n + 1));
    }
    let name = or(&capability.name, &id);
    let mut skill = Map::new();
    skill.insert("description".to_owned(), json!(or(&capability.description, &name)));
    skill.insert("id".to_owned(), json!(id));
    skill.insert("name".to_owned(), json!(name));
    skill.insert("tags".to_owned(), json!(tags(capability)));
    if !capability.examples.is_empty() {
        skill.insert("examples".to_owned(), json!(capability.examples));
    }
    Value::Object(skill)
}

/// The distinct tags, action and target, by which readers of cards can search.
fn tags(capability: &Capability) -> Vec<&String> {
    let mut tags: Vec<&String> = Vec::new();
    for word in capability.tags.iter().chain(&capability.action).chain(&capability.target) {
        if !tags.contains(&word) {
            tags.push(word);
        }
    }
    tags
}
