//! Whether the results of tools are what their own definitions say that they are (`outputSchema` of MCP).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use althing_protocol::contract::AnswerSchema;
use serde_json::Value;

/// Definitions whose schemas are kept compiled.
const KNOWN_MAX: usize = 256;

/// The schemas of results, compiled once, by the hash of the tool's definition; none where it has none that can be read.
#[derive(Default)]
pub(crate) struct OutputSchemas(Mutex<BTreeMap<String, Option<Arc<AnswerSchema>>>>);

impl OutputSchemas {
    /// Whether a result breaks the schema of the definition of that hash; `schema` gives that, where it is not known yet. What
    /// says that it is an error breaks none.
    pub fn breaks(&self, definition: &str, schema: impl FnOnce() -> Option<Value>, result: &Value) -> bool {
        if result["isError"] == true {
            return false;
        }
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(definition).cloned();
        let read = known.unwrap_or_else(|| self.read(definition, schema()));
        read.is_some_and(|schema| schema.breach(&result["structuredContent"]).is_some())
    }

    fn read(&self, definition: &str, schema: Option<Value>) -> Option<Arc<AnswerSchema>> {
        let read = schema.and_then(|schema| AnswerSchema::new(&schema).ok()).map(Arc::new);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.pop_first();
        }
        known.insert(definition.to_owned(), read.clone());
        read
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_is_held_against_what_its_tool_says_of_it() {
        let schemas = OutputSchemas::default();
        let total = || Some(json!({ "type": "object", "required": ["total"] }));
        let breaks =
            |definition: &str, schema: Option<Value>, result: Value| schemas.breaks(definition, || schema, &result);
        assert!(!breaks("0a", total(), json!({ "structuredContent": { "total": 3 } })));
        assert!(breaks("0a", None, json!({ "structuredContent": { "sum": 3 } })), "it is known by now");
        assert!(breaks("0a", None, json!({ "content": [] })), "a tool with a schema gives what it describes");
        assert!(!breaks("0a", None, json!({ "isError": true })), "an error has no result");
        assert!(!breaks("0b", None, json!({ "structuredContent": 3 })), "it says nothing of its results");
        assert!(!breaks("0c", Some(json!({ "$ref": "https://a.example/b" })), json!({})), "nobody can read that");
        for number in 0..KNOWN_MAX + 9 {
            assert!(!breaks(&number.to_string(), None, json!({})));
        }
        assert_eq!(schemas.0.lock().expect("nobody panics").len(), KNOWN_MAX);
    }
}
