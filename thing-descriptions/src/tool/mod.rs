//! Tools as Things: what the description of an agent says of the tools that it exposes.
//!
//! A tool has no signed description of its own: it is a capability of the agent that exposes it, with the schemas of its
//! server in `althing:tool`. So the owner's signature, the hosting grant and the rule for callers are the agent's, nothing
//! is described twice, and a server with a hundred tools takes one place in a placement. From that capability the faces
//! make what their clients expect: a Thing Description with forms and a Thing Model ([`thing_model`]) for consumers of the
//! Web of Things, a tool with its own schema for those of MCP, a skill for those of A2A.

mod listed;
mod model;
mod pattern;
mod references;
mod schema;
mod structure;

use serde_json::{Map, Value, json};

use crate::agent_file::SKILLS_MAX;
use crate::description::{Capability, Description, TOOL};
use crate::hidden::visible;

pub use listed::{ListedSchema, listed_schema};
pub use model::{affordance, thing_model};
pub use schema::{SCHEMA_BYTES_MAX, SCHEMA_DEPTH_MAX, check_schema, data_schema, hides};
pub use structure::without_texts;

/// All schemas of the tools in one description, bytes of JSON.
pub const SCHEMAS_BYTES_MAX: usize = 256 << 10;
/// The member of a description that lists the suspended tools.
const SUSPENDED: &str = "althing:suspendedTools";
/// Characters of the reason why a tool is suspended.
const WHY_CHARS_MAX: usize = 200;

/// A tool that an agent exposes, as its server defines it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExposedTool {
    /// The id of the capability.
    pub id: String,
    /// How a relayed call of MCP names it.
    pub name: String,
    /// Its title for people.
    pub title: String,
    /// What it does.
    pub description: String,
    /// SHA-256 of its definition, hexadecimal.
    pub definition: String,
    /// The JSON Schema of its arguments.
    pub input: Value,
    /// The JSON Schema of its structured result.
    pub output: Option<Value>,
    /// MCP's hints, such as `readOnlyHint`.
    pub annotations: Map<String, Value>,
    /// Why it is not called at present.
    pub suspended: Option<String>,
}

/// A tool that an agent exposes, as its description says.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// The id of the capability.
    pub id: String,
    /// Its title for people.
    pub title: String,
    /// What it does.
    pub description: String,
    /// Its version, that of the agent.
    pub version: Option<String>,
    /// How a relayed call of MCP names it.
    pub name: String,
    /// SHA-256 of its definition, hexadecimal.
    pub definition: String,
    /// The JSON Schema of its arguments; any object where its server's is beyond the bounds.
    pub input: Value,
    /// The JSON Schema of its structured result, if it promises one.
    pub output: Option<Value>,
    /// Whether it says that it changes nothing.
    pub read_only: bool,
    /// Whether it says that a second call with the same arguments changes nothing more.
    pub idempotent: bool,
}

/// A tool that is not called at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuspendedTool {
    /// The id of the capability that it was.
    pub id: String,
    /// Why.
    pub why: String,
}

/// Writes the tools into the capabilities of a description; those that are suspended are no capabilities.
pub(crate) fn write(td: &mut Map<String, Value>, tools: &[ExposedTool], version: &str) {
    let mut left = SCHEMAS_BYTES_MAX;
    let mut suspended = Vec::new();
    let mut capabilities = match td.remove("lmos:capabilities") {
        Some(Value::Array(capabilities)) => capabilities,
        _ => Vec::new(),
    };
    for tool in tools {
        let place = capabilities.iter().position(|capability| capability["id"] == tool.id);
        if let Some(why) = &tool.suspended {
            if let Some(place) = place {
                capabilities.remove(place);
            }
            let why: String = why.chars().take(WHY_CHARS_MAX).collect();
            suspended.push(json!({ "id": tool.id, "why": why }));
            continue;
        }
        let made = member(tool, &mut left);
        match place {
            Some(place) => capabilities[place][TOOL] = made,
            None if capabilities.len() < SKILLS_MAX => capabilities.push(json!({
                "id": tool.id, "name": tool.title, "version": version, "description": tool.description,
                "althing:tags": ["mcp"], TOOL: made,
            })),
            None => {}
        }
    }
    td.insert("lmos:capabilities".to_owned(), json!(capabilities));
    if !suspended.is_empty() {
        td.insert(SUSPENDED.to_owned(), json!(suspended));
    }
}

fn member(tool: &ExposedTool, left: &mut usize) -> Value {
    let mut made = json!({ "name": tool.name, "definition": tool.definition });
    let mut schema = |name: &str, schema: Option<&Value>| {
        let Some(schema) = schema.filter(|schema| check_schema(schema).is_ok()) else { return };
        let bytes = schema.to_string().len();
        if bytes <= *left {
            *left -= bytes;
            made[name] = schema.clone();
        }
    };
    schema("input", Some(&tool.input));
    schema("output", tool.output.as_ref());
    for (name, hint) in [("readOnly", "readOnlyHint"), ("idempotent", "idempotentHint")] {
        if tool.annotations.get(hint) == Some(&Value::Bool(true)) {
            made[name] = json!(true);
        }
    }
    made
}

impl Description {
    /// The tools that the agent exposes; their schemas are within the bounds, whoever wrote the description.
    #[must_use]
    pub fn tools(&self) -> Vec<Tool> {
        if !self.capabilities().iter().any(|capability| capability.is_tool) {
            return Vec::new();
        }
        let td = self.value();
        let written = td["lmos:capabilities"].as_array().into_iter().flatten();
        let by_id = written.filter(|entry| entry[TOOL]["name"].is_string()).filter_map(|entry| {
            let id = entry.get("id").and_then(Value::as_str)?;
            self.capabilities().iter().find(|one| one.is_tool && one.id == id).map(|one| read(one, &entry[TOOL]))
        });
        by_id.collect()
    }

    /// The tool of that id.
    #[must_use]
    pub fn tool(&self, id: &str) -> Option<Tool> {
        self.tools().into_iter().find(|tool| tool.id == id)
    }

    /// The tools that the agent exposed, and that are not called at present.
    #[must_use]
    pub fn suspended_tools(&self) -> Vec<SuspendedTool> {
        let td = self.value();
        let text = |entry: &Value, name: &str| entry[name].as_str().map(str::to_owned);
        let read = |entry: &Value| {
            let why = text(entry, "why").unwrap_or_default();
            let why = visible(&why).take(WHY_CHARS_MAX).collect();
            Some(SuspendedTool { id: text(entry, "id")?, why })
        };
        td[SUSPENDED].as_array().into_iter().flatten().filter_map(read).take(SKILLS_MAX).collect()
    }
}

fn read(capability: &Capability, written: &Value) -> Tool {
    let schema = |name: &str| written.get(name).filter(|schema| check_schema(schema).is_ok()).cloned();
    let is_object = |schema: &Value| schema["type"] == "object";
    Tool {
        id: capability.id.clone(),
        title: if capability.name.is_empty() { capability.id.clone() } else { capability.name.clone() },
        description: capability.description.clone(),
        version: capability.version.clone(),
        name: written["name"].as_str().unwrap_or_default().to_owned(),
        definition: written["definition"].as_str().unwrap_or_default().to_owned(),
        input: schema("input").filter(is_object).unwrap_or_else(|| json!({ "type": "object" })),
        output: schema("output").filter(is_object),
        read_only: written["readOnly"] == true,
        idempotent: written["idempotent"] == true,
    }
}
