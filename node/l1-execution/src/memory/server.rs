//! Memory as a tool server: models call it like any tool, through the same gate.

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Memory, MemoryError, Recalled};
use crate::journal::{Effect, is_own_read};
use crate::tools::{Definition, Fault, ToolServer};

/// The name of the server in `capabilities`.
pub const SERVER: &str = "memory";

/// The memory of one agent, as tools.
pub struct MemoryServer(pub Memory);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Put {
    key: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    key: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Prefix {
    #[serde(default)]
    prefix: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Remember {
    source: String,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recall {
    question: String,
    #[serde(default = "most")]
    most: usize,
}

fn most() -> usize {
    4
}

/// A passage, as JSON.
pub(crate) fn passage(recalled: &Recalled) -> Value {
    json!({
        "id": recalled.id,
        "cite": format!("[#{}]", recalled.id),
        "source": recalled.source,
        "sourceHash": recalled.source_hash,
        "by": recalled.by,
        "keptMs": recalled.kept_ms,
        "likeness": recalled.similarity,
        "text": recalled.text,
    })
}

fn definitions() -> Vec<Definition> {
    let tool = |name: &str, description: &str, properties: Value, required: &[&str]| {
        let schema =
            json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
        Definition::new(name, description, schema)
    };
    let text = json!({ "type": "string" });
    vec![
        tool("put", "Keeps a value under a key.", json!({ "key": text, "value": text }), &["key", "value"]),
        tool("get", "The value under a key.", json!({ "key": text }), &["key"]),
        tool("delete", "Forgets the value under a key.", json!({ "key": text }), &["key"]),
        tool("keys", "The keys that begin so.", json!({ "prefix": text }), &[]),
        tool(
            "remember",
            "Keeps a text, to be found by what it says.",
            json!({ "source": text, "text": text }),
            &["source", "text"],
        ),
        tool("forget", "Forgets a text.", json!({ "source": text }), &["source"]),
        tool(
            "recall",
            "The kept passages that resemble a question, each with where it is from and how to cite it.",
            json!({ "question": text, "most": { "type": "integer", "minimum": 1, "maximum": super::RECALLED_MAX } }),
            &["question"],
        ),
    ]
}

fn arguments<T: for<'de> Deserialize<'de>>(value: Value) -> Result<T, Fault> {
    T::deserialize(value).map_err(|error| Fault::Failed(error.to_string()))
}

/// The definitions of the memory tools without a memory: for binding an agent without running it.
pub struct Offered;

impl ToolServer for Offered {
    fn is_own(&self) -> bool {
        true
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        Box::pin(async { Ok(definitions()) })
    }

    fn call<'a>(&'a self, _: &'a str, _: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async { Err(Fault::Unreachable("nothing is kept here".to_owned())) })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl MemoryServer {
    async fn dispatch(&self, tool: &str, given: Value) -> Result<Value, Fault> {
        let Self(memory) = self;
        let failed = |error: MemoryError| Fault::Failed(error.to_string());
        Ok(match tool {
            "put" => {
                let Put { key, value } = arguments(given)?;
                memory.put(&key, value.as_bytes()).await.map_err(failed)?;
                json!({ "kept": key })
            }
            "get" => {
                let Key { key } = arguments(given)?;
                let value = memory.get(&key).await.map_err(failed)?;
                json!({ "value": value.map(|value| String::from_utf8_lossy(&value).into_owned()) })
            }
            "delete" => {
                let Key { key } = arguments(given)?;
                json!({ "forgotten": memory.delete(&key).await.map_err(failed)? })
            }
            "keys" => {
                let Prefix { prefix } = arguments(given)?;
                json!({ "keys": memory.keys(&prefix).await.map_err(failed)? })
            }
            "remember" => {
                let Remember { source, text } = arguments(given)?;
                json!({ "passages": memory.remember(&source, &text).await.map_err(failed)? })
            }
            "forget" => {
                let Source { source } = arguments(given)?;
                json!({ "passages": memory.forget(&source).await.map_err(failed)? })
            }
            "recall" => {
                let Recall { question, most } = arguments(given)?;
                let recalled = memory.recall(&question, most).await.map_err(failed)?;
                json!({ "passages": recalled.iter().map(passage).collect::<Vec<_>>() })
            }
            unknown => return Err(Fault::Failed(format!("memory has no {unknown:?}"))),
        })
    }
}

impl ToolServer for MemoryServer {
    fn is_own(&self) -> bool {
        true
    }

    fn effect(&self, tool: &str) -> Option<Effect> {
        // Who writes again what it wrote before may undo what another turn wrote since.
        Some(if is_own_read(&format!("{SERVER}/{tool}")) { Effect::Repeatable } else { Effect::Final })
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        Box::pin(async { Ok(definitions()) })
    }

    fn call<'a>(&'a self, tool: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async move {
            let made = self.dispatch(tool, arguments).await?;
            let text = made.to_string();
            Ok(json!({ "content": [{ "type": "text", "text": text }], "structuredContent": made }))
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}
