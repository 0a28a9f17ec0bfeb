//! The Thing Model of a tool, and its action. Pure.

use serde_json::{Map, Value, json};

use super::{Tool, data_schema};
use crate::validate::{ALTHING, CONTEXT_1_1, LMOS};

/// The action of a tool without forms: its arguments and its result, with their types.
///
/// The result is what the tool promises, its structured content. A tool that promises none has a result of MCP: its text,
/// and the blocks of its content.
#[must_use]
pub fn affordance(tool: &Tool) -> Map<String, Value> {
    let output = tool.output.as_ref().map_or_else(content, data_schema);
    let members = [
        ("title", json!(tool.title)),
        ("description", json!(tool.description)),
        ("input", data_schema(&tool.input)),
        ("output", output),
        ("safe", json!(tool.read_only)),
        ("idempotent", json!(tool.read_only || tool.idempotent)),
        ("synchronous", json!(true)),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn content() -> Value {
    json!({
        "type": "object",
        "properties": {
            "text": { "type": "string", "description": "The texts of the content" },
            "content": { "type": "array", "description": "The blocks of content, as MCP has them", "items": { "type": "object" } },
        },
        "required": ["text", "content"],
    })
}

/// The Thing Model of a tool (TD 1.1 §9): what a Thing with this tool can do, wherever it is. It is the same for the same
/// definition.
#[must_use]
pub fn thing_model(tool: &Tool) -> Value {
    json!({
        "@context": [CONTEXT_1_1, { "lmos": LMOS, "althing": ALTHING }],
        "@type": ["tm:ThingModel", "lmos:Tool"],
        "title": tool.title,
        "description": tool.description,
        "version": { "model": tool.version.as_deref().unwrap_or("1.0.0") },
        "althing:definition": format!("sha-256:{}", tool.definition),
        "actions": { (tool.id.as_str()): affordance(tool) },
    })
}
