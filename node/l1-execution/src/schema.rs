//! JSON Schemas as they are compared: what is a set by the specification has one order, and what says nothing is not there. Pure.

use serde_json::Value;

/// Keywords whose list is a set of values, or of names.
const SETS: [&str; 4] = ["required", "enum", "type", "examples"];
/// Keywords whose list is a set of schemas.
const ALTERNATIVES: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords with a schema for each name, which may be a keyword itself.
const NAMED: [&str; 7] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependentRequired",
    "dependencies",
];
/// Keywords with a schema, or with one for each place.
const INNER: [&str; 13] = [
    "items",
    "prefixItems",
    "additionalItems",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "propertyNames",
    "contains",
    "contentSchema",
    "not",
    "if",
    "then",
    "else",
];

/// Keywords that say nothing if they are empty.
const EMPTY: [&str; 10] = [
    "required",
    "examples",
    "prefixItems",
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependentRequired",
    "dependencies",
];
/// Keywords that say nothing with a schema that permits all.
const OPEN: [&str; 4] = ["items", "additionalItems", "additionalProperties", "propertyNames"];
/// Keywords that say nothing if they are false.
const FLAGS: [&str; 4] = ["deprecated", "readOnly", "writeOnly", "uniqueItems"];
/// Keywords whose text says nothing if it is empty.
const TEXTS: [&str; 3] = ["title", "description", "$comment"];
/// Keywords whose value may be null.
const VALUES: [&str; 2] = ["default", "const"];

/// Sorts what is a set in a schema, and takes out what says nothing, on each level. Values, such as a default, stay as they are.
/// The depth is bounded by the parser.
pub(crate) fn as_sets(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (keyword, value) in members.iter_mut() {
                member(keyword, value);
            }
            members.retain(|keyword, value| !says_nothing(keyword, value));
        }
        // A schema for each place, as `prefixItems` and the old `items` have it.
        Value::Array(places) => places.iter_mut().for_each(as_sets),
        _ => {}
    }
}

fn member(keyword: &str, value: &mut Value) {
    match value {
        Value::Array(all) if SETS.contains(&keyword) => sort(all),
        Value::Array(all) if ALTERNATIVES.contains(&keyword) => {
            all.iter_mut().for_each(as_sets);
            sort(all);
        }
        Value::Object(named) if NAMED.contains(&keyword) => {
            for of_name in named.values_mut() {
                match of_name {
                    // What a property requires.
                    Value::Array(names) => sort(names),
                    schema => as_sets(schema),
                }
            }
            named.retain(|_, of_name| !matches!(of_name, Value::Array(names) if names.is_empty()));
        }
        _ if INNER.contains(&keyword) => as_sets(value),
        _ => {}
    }
    // One type is a list of one.
    if keyword == "type"
        && let Value::Array(all) = &*value
        && let [one] = all.as_slice()
    {
        let one = one.clone();
        *value = one;
    }
}

/// Whether a schema with this member is the same without it.
fn says_nothing(keyword: &str, value: &Value) -> bool {
    match value {
        Value::Null => !VALUES.contains(&keyword),
        Value::Bool(true) => OPEN.contains(&keyword),
        Value::Bool(false) => FLAGS.contains(&keyword),
        Value::String(text) => text.is_empty() && TEXTS.contains(&keyword),
        Value::Array(all) => all.is_empty() && EMPTY.contains(&keyword),
        Value::Object(all) => all.is_empty() && (EMPTY.contains(&keyword) || OPEN.contains(&keyword)),
        Value::Number(_) => false,
    }
}

/// In the order of their canonical JSON, each once.
fn sort(all: &mut Vec<Value>) {
    let key = |value: &Value| serde_json_canonicalizer::to_vec(value).unwrap_or_default();
    all.sort_by_cached_key(key);
    all.dedup_by(|one, other| key(one) == key(other));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn compared(mut schema: Value) -> Value {
        as_sets(&mut schema);
        schema
    }

    #[test]
    fn sets_have_one_order_on_every_level() {
        let of = |one: &str, other: &str| {
            json!({
                "type": ["object", "null"], "required": [one, other], "dependentRequired": { "a": [one, other] },
                "$defs": { "inner": { "enum": [one, other] } },
                "anyOf": [{ "required": [one, other] }, { "type": [one, other] }],
                "properties": {
                    "list": { "items": { "enum": [one, 1, other] } },
                    "required": { "type": ["string", "null"] },
                },
                "additionalProperties": { "not": { "enum": [one, other] } },
            })
        };
        assert_ne!(of("p", "q"), of("q", "p"));
        assert_eq!(compared(of("p", "q")), compared(of("q", "p")));
        let turned = json!({ "anyOf": [{ "type": "null" }, { "type": "string" }] });
        let written = json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] });
        assert_eq!(compared(turned), compared(written));
        assert_eq!(compared(json!({ "required": ["a", "b", "a"] })), json!({ "required": ["a", "b"] }));
    }

    #[test]
    fn equal_schemas_are_equal_however_they_are_written() {
        let of = |more: Value| {
            let mut inner = json!({ "type": "string" });
            for (name, value) in more.as_object().expect("an object") {
                inner[name] = value.clone();
            }
            json!({ "type": "object", "properties": { "a": inner, "required": {} } })
        };
        let plain = compared(of(json!({})));
        assert_eq!(plain["properties"]["required"], json!({}), "a property of that name stays");
        for more in [
            json!({ "required": [] }),
            json!({ "properties": {} }),
            json!({ "type": ["string"] }),
            json!({ "type": ["string", "string"] }),
            json!({ "examples": [] }),
            json!({ "$defs": {}, "definitions": {}, "dependentRequired": { "a": [] } }),
            json!({ "additionalProperties": true, "items": {} }),
            json!({ "description": "", "title": null, "deprecated": false }),
        ] {
            assert_eq!(compared(of(more.clone())), plain, "{more}");
        }
        let examples = |all: Value| compared(of(json!({ "examples": all })));
        assert_eq!(examples(json!(["b", 1, ["c"]])), examples(json!([["c"], "b", 1])));
        for more in [
            json!({ "enum": [] }),
            json!({ "default": null }),
            json!({ "const": {} }),
            json!({ "additionalProperties": false }),
            json!({ "not": {} }),
            json!({ "required": ["a"] }),
            json!({ "examples": ["x"] }),
            json!({ "type": ["string", "null"] }),
        ] {
            assert_ne!(compared(of(more.clone())), plain, "{more}");
        }
    }

    #[test]
    fn lists_and_values_keep_theirs() {
        for schema in [
            json!({ "default": ["b", "a"], "examples": [["b", "a"], ["c"]], "const": { "required": ["b", "a"] } }),
            json!({ "prefixItems": [{ "type": "string" }, { "type": "integer" }] }),
            json!({ "items": [{ "type": "string" }, { "type": "integer" }] }),
            json!({ "enum": [["b", "a"]] }),
            json!({ "properties": { "enum": { "default": ["b", "a"] } } }),
            json!(true),
            json!("required"),
        ] {
            assert_eq!(compared(schema.clone()), schema);
        }
    }
}
