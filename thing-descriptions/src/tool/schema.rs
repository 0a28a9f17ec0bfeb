//! From the JSON Schema of a tool to a data schema of the Web of Things. Pure.
//!
//! TD 1.1 §5.3.2 knows a part of JSON Schema. What it lacks is left out, so that a data schema permits everything that the
//! tool's schema permits, and sometimes more: the server of the tool has the last word. References within the schema are
//! replaced by what they lead to, others are not followed.

use serde_json::{Map, Value, json};

use crate::hidden::hidden_in;

/// The longest schema of a tool in a description, bytes of JSON.
pub const SCHEMA_BYTES_MAX: usize = 16 << 10;
/// Levels of a schema, each object and list counted.
pub const SCHEMA_DEPTH_MAX: usize = 16;
/// Schemas that one schema becomes: references may multiply.
const SCHEMAS_MAX: usize = 512;

/// The types of JSON.
pub(super) const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];
/// Members that are taken over where they are texts.
const TEXTS: [&str; 6] = ["title", "description", "format", "pattern", "contentEncoding", "contentMediaType"];
const COUNTS: [&str; 4] = ["minItems", "maxItems", "minLength", "maxLength"];
const NUMBERS: [&str; 4] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];

/// Whether a schema can stand in a description: an object within the bounds, without hidden characters.
///
/// # Errors
/// Why not.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    if !schema.is_object() {
        return Err("it is no object".to_owned());
    }
    if depth(schema) > SCHEMA_DEPTH_MAX {
        return Err(format!("it has more than {SCHEMA_DEPTH_MAX} levels"));
    }
    let bytes = schema.to_string().len();
    if bytes > SCHEMA_BYTES_MAX {
        return Err(format!("it has {bytes} bytes, and {SCHEMA_BYTES_MAX} is the most"));
    }
    if hides(schema) { Err("it holds invisible characters".to_owned()) } else { Ok(()) }
}

/// The levels of a value, whose parser bounds them.
fn depth(value: &Value) -> usize {
    let below = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    1 + below.unwrap_or_default()
}

/// Whether a text or a name in a value has characters that people do not see. Its parser bounds its depth.
#[must_use]
pub fn hides(value: &Value) -> bool {
    match value {
        Value::String(text) => hidden_in(text).is_some(),
        Value::Array(items) => items.iter().any(hides),
        Value::Object(members) => members.iter().any(|(name, value)| hidden_in(name).is_some() || hides(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The data schema that says what `schema` says, as far as TD 1.1 can. Valid whatever the schema is.
#[must_use]
pub fn data_schema(schema: &Value) -> Value {
    let mut translation = Translation { root: schema, left: SCHEMAS_MAX, within: Vec::new() };
    Value::Object(translation.of(schema, 0))
}

struct Translation<'a> {
    root: &'a Value,
    /// How many schemas may still be made.
    left: usize,
    /// References that are being followed.
    within: Vec<&'a str>,
}

impl<'a> Translation<'a> {
    fn of(&mut self, schema: &'a Value, depth: usize) -> Map<String, Value> {
        let Value::Object(from) = schema else { return Map::new() };
        if self.left == 0 || depth > SCHEMA_DEPTH_MAX {
            return Map::new();
        }
        self.left -= 1;
        let mut to = self.referred(from, depth);
        for (name, value) in from {
            if let Some(kept) = self.member(name, value, depth) {
                to.insert(name.clone(), kept);
            }
        }
        let alternatives = from.get("oneOf").or(from.get("anyOf")).and_then(Value::as_array);
        if let Some(alternatives) = alternatives.filter(|_| !to.contains_key("type")) {
            let all: Vec<Value> = alternatives.iter().map(|one| Value::Object(self.of(one, depth + 1))).collect();
            // `anyOf` is `oneOf` where a value can satisfy one at most: where the types differ.
            if from.contains_key("oneOf") || are_distinct(&all) {
                to.insert("oneOf".to_owned(), json!(all));
            }
        }
        if let Some(types) = from.get("type").and_then(Value::as_array) {
            self.several(types, &mut to);
        }
        to
    }

    /// What a reference leads to, unless that is being translated already.
    fn referred(&mut self, from: &'a Map<String, Value>, depth: usize) -> Map<String, Value> {
        let Some(reference) = from.get("$ref").and_then(Value::as_str) else { return Map::new() };
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let Some(target) = target.filter(|_| !self.within.contains(&reference)) else { return Map::new() };
        self.within.push(reference);
        let found = self.of(target, depth + 1);
        self.within.pop();
        found
    }

    fn member(&mut self, name: &str, value: &'a Value, depth: usize) -> Option<Value> {
        match (name, value) {
            ("type", Value::String(word)) => TYPES.contains(&word.as_str()).then(|| value.clone()),
            (name, Value::String(_)) if TEXTS.contains(&name) => Some(value.clone()),
            (name, Value::Number(count)) if COUNTS.contains(&name) => count.is_u64().then(|| value.clone()),
            (name, Value::Number(_)) if NUMBERS.contains(&name) => Some(value.clone()),
            ("multipleOf", Value::Number(step)) => step.as_f64().is_some_and(|step| step > 0.0).then(|| value.clone()),
            ("enum", Value::Array(values)) => (!values.is_empty() && unique(values)).then(|| value.clone()),
            ("const" | "default", _) => Some(value.clone()),
            ("additionalProperties", Value::Bool(_)) => Some(value.clone()),
            ("required", Value::Array(names)) => {
                (names.iter().all(Value::is_string) && unique(names)).then(|| value.clone())
            }
            ("properties", Value::Object(all)) => {
                let one = |(name, schema): (&String, &'a Value)| (name.clone(), self.of(schema, depth + 1).into());
                Some(Value::Object(all.iter().map(one).collect()))
            }
            ("items", Value::Object(_)) => Some(self.of(value, depth + 1).into()),
            _ => None,
        }
    }

    /// `"type": ["string", "null"]`, which TD 1.1 does not have.
    fn several(&mut self, types: &[Value], to: &mut Map<String, Value>) {
        let known: Vec<&str> = types.iter().filter_map(Value::as_str).filter(|word| TYPES.contains(word)).collect();
        if known.len() != types.len() || known.is_empty() {
            return;
        }
        let about: Map<String, Value> =
            ["title", "description", "default"].iter().filter_map(|name| to.remove_entry(*name)).collect();
        let of_type = |word: &&str| {
            let mut one = to.clone();
            one.insert("type".to_owned(), json!(word));
            Value::Object(one)
        };
        let all: Vec<Value> = known.iter().map(of_type).collect();
        *to = about;
        // An integer is a number too, so both would hold.
        let distinct = are_distinct(&all);
        if distinct && self.left >= all.len() {
            self.left -= all.len();
            to.insert("oneOf".to_owned(), json!(all));
        }
    }
}

fn unique(values: &[Value]) -> bool {
    let mut texts: Vec<String> = values.iter().map(Value::to_string).collect();
    texts.sort_unstable();
    texts.windows(2).all(|pair| pair[0] != pair[1])
}

/// Whether no value can satisfy two of the schemas, by their types.
fn are_distinct(schemas: &[Value]) -> bool {
    let kind = |schema: &Value| match schema["type"].as_str()? {
        "integer" => Some("number".to_owned()),
        other => Some(other.to_owned()),
    };
    let Some(mut kinds) = schemas.iter().map(kind).collect::<Option<Vec<String>>>() else { return false };
    kinds.sort_unstable();
    kinds.windows(2).all(|pair| pair[0] != pair[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_know_is_taken_over() {
        let schema = json!({
            "type": "object", "title": "addArguments", "additionalProperties": false,
            "properties": {
                "a": { "type": "integer", "minimum": 0, "description": "The first" },
                "names": { "type": "array", "items": { "type": "string", "maxLength": 5 }, "maxItems": 3 },
                "mode": { "enum": ["fast", "slow"], "default": "fast" },
            },
            "required": ["a"],
        });
        assert_eq!(data_schema(&schema), schema);
    }

    #[test]
    fn what_td_lacks_is_said_otherwise_or_left_out() {
        let from = |schema: Value| data_schema(&schema);
        assert_eq!(
            from(json!({ "anyOf": [{ "type": "integer" }, { "type": "null" }], "default": null })),
            json!({ "oneOf": [{ "type": "integer" }, { "type": "null" }], "default": null })
        );
        assert_eq!(
            from(json!({ "type": ["string", "null"], "maxLength": 3, "title": "T" })),
            json!({ "title": "T", "oneOf": [
                { "type": "string", "maxLength": 3 }, { "type": "null", "maxLength": 3 },
            ] })
        );
        // A whole number satisfies both, which `oneOf` forbids.
        assert_eq!(from(json!({ "anyOf": [{ "type": "integer" }, { "type": "number" }] })), json!({}));
        assert_eq!(
            from(json!({ "type": "any", "minLength": -1, "multipleOf": 0, "enum": [], "items": true })),
            json!({})
        );
        assert_eq!(from(json!({ "patternProperties": { "x": {} }, "if": {}, "type": 7 })), json!({}));
        assert_eq!(from(json!(true)), json!({}));
    }

    #[test]
    fn references_are_replaced_and_do_not_multiply_or_turn_in_circles() {
        let schema = json!({
            "type": "object", "properties": { "at": { "$ref": "#/$defs/point" } },
            "$defs": { "point": { "type": "object", "properties": { "x": { "type": "number" }, "next": { "$ref": "#/$defs/point" } } } },
        });
        let made = data_schema(&schema);
        assert_eq!(made["properties"]["at"]["properties"]["x"], json!({ "type": "number" }));
        assert_eq!(made["properties"]["at"]["properties"]["next"], json!({}));
        assert!(made.get("$defs").is_none());
        assert_eq!(data_schema(&json!({ "$ref": "https://evil.example/schema" })), json!({}));
        // Each level refers to the next one twice: 2^30 schemas, if all were made.
        let mut defs = Map::new();
        for n in 0..30 {
            let next = json!({ "$ref": format!("#/$defs/l{}", n + 1) });
            defs.insert(format!("l{n}"), json!({ "properties": { "a": next, "b": next } }));
        }
        let made = data_schema(&json!({ "$ref": "#/$defs/l0", "$defs": defs }));
        assert!(made.to_string().len() < 64 * SCHEMAS_MAX, "{}", made.to_string().len());
    }

    #[test]
    fn schemas_beyond_the_bounds_are_refused() {
        assert_eq!(check_schema(&json!({ "type": "object" })), Ok(()));
        let mut deep = json!({});
        for _ in 0..SCHEMA_DEPTH_MAX {
            deep = json!({ "items": deep });
        }
        let long = json!({ "description": "x".repeat(SCHEMA_BYTES_MAX) });
        for (schema, why) in [
            (deep, "levels"),
            (long, "bytes"),
            (json!([]), "no object"),
            (json!({ "properties": { "a\u{202e}b": {} } }), "invisible"),
        ] {
            let refused = check_schema(&schema).expect_err("beyond");
            assert!(refused.contains(why), "{refused}");
        }
    }
}
