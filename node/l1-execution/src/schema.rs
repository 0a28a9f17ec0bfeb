//! JSON Schemas as they are compared: what is a set by the specification has one order. Pure.

use serde_json::Value;

/// Keywords whose list is a set of values, or of names.
const SETS: [&str; 3] = ["required", "enum", "type"];
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

/// Sorts what is a set in a schema, on each level. Values, such as a default, stay as they are. The depth is bounded by the
/// parser.
pub(crate) fn as_sets(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (keyword, value) in members.iter_mut() {
                member(keyword, value);
            }
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
        }
        _ if INNER.contains(&keyword) => as_sets(value),
        _ => {}
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
    fn lists_and_values_keep_theirs() {
        for schema in [
            json!({ "default": ["b", "a"], "examples": [["b", "a"], ["a"]], "const": { "required": ["b", "a"] } }),
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
