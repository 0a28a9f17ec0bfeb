//! What a model is shown of a stranger's schemas: their structure, in the keywords of JSON Schema. Pure.
//!
//! It says what stays, not what goes: whoever writes a schema gives its members any names and values, and a model reads each
//! text among them beside what its user says. What goes is left out so that the rest permits as much as before, or more: the
//! server of the tool has the last word.

use serde_json::{Value, json};

use super::schema::TYPES;
use crate::hidden::hidden_in;

/// Bytes of a name: as MCP has it for tools.
const NAME_BYTES_MAX: usize = 128;
/// Bytes of the name of a format.
const FORMAT_BYTES_MAX: usize = 32;
/// Bytes of a regular expression, and of a reference.
const PATTERN_BYTES_MAX: usize = 256;
/// Characters of a text that an argument may be.
const CHOICE_CHARS_MAX: usize = 256;

/// The same schema with nothing but its structure, and the values that a call may need.
#[must_use]
pub fn without_texts(schema: &Value) -> Value {
    let mut shown = structure(schema);
    let whole = shown.clone();
    forget_dangling(&mut shown, &whole);
    shown
}

fn structure(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            members.iter().filter_map(|(name, value)| Some((name.clone(), keyword(name, value)?))).collect()
        }
        Value::Bool(_) => schema.clone(),
        _ => json!({}),
    }
}

/// What stays of a member of a schema.
fn keyword(name: &str, value: &Value) -> Option<Value> {
    let if_it = |is_good: bool| is_good.then(|| value.clone());
    match name {
        "type" => if_it(is_type(value)),
        "properties" | "$defs" | "definitions" | "dependentSchemas" => named(value, is_name),
        "patternProperties" => named(value, is_pattern),
        "items" if value.is_array() => schemas(value),
        "items"
        | "additionalItems"
        | "additionalProperties"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "propertyNames"
        | "contains"
        | "then"
        | "else" => is_schema(value).then(|| structure(value)),
        "prefixItems" | "anyOf" | "oneOf" | "allOf" => schemas(value),
        // To leave something out of these would permit less.
        "not" | "if" => Some(structure(value)).filter(|shown| shown == value),
        "required" => names(value),
        "dependentRequired" => {
            let of = |(name, all): (&String, &Value)| Some((name.clone(), names(all)?));
            Some(value.as_object()?.iter().filter(|(name, _)| is_name(name)).filter_map(of).collect())
        }
        "enum" => {
            let choices: Vec<Value> = value.as_array()?.iter().filter(|one| is_choice(one)).cloned().collect();
            (!choices.is_empty()).then(|| json!(choices))
        }
        "const" => if_it(is_choice(value)),
        "default" => if_it(is_choice(value) && !value.is_string()),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" | "minLength" | "maxLength"
        | "minItems" | "maxItems" | "minContains" | "maxContains" | "minProperties" | "maxProperties" => {
            if_it(value.is_number())
        }
        "uniqueItems" | "readOnly" | "writeOnly" | "deprecated" => if_it(value.is_boolean()),
        "format" | "contentEncoding" => if_it(value.as_str().is_some_and(is_format)),
        "pattern" => if_it(value.as_str().is_some_and(is_pattern)),
        "$ref" => if_it(value.as_str().is_some_and(is_reference)),
        _ => None,
    }
}

fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

fn schemas(value: &Value) -> Option<Value> {
    let all = value.as_array().filter(|all| !all.is_empty() && all.iter().all(is_schema))?;
    Some(all.iter().map(structure).collect())
}

/// Schemas with names that are not keywords.
fn named(value: &Value, is_shown: fn(&str) -> bool) -> Option<Value> {
    let shown = value.as_object()?.iter().filter(|(name, schema)| is_shown(name) && is_schema(schema));
    Some(shown.map(|(name, schema)| (name.clone(), structure(schema))).collect())
}

fn names(value: &Value) -> Option<Value> {
    let shown = value.as_array()?.iter().filter(|name| name.as_str().is_some_and(is_name));
    Some(Value::Array(shown.cloned().collect()))
}

fn is_type(value: &Value) -> bool {
    let is_known = |word: &Value| word.as_str().is_some_and(|word| TYPES.contains(&word));
    match value {
        Value::Array(words) => !words.is_empty() && words.iter().all(is_known),
        word => is_known(word),
    }
}

/// Whether a name is one word, as the names of tools are.
fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_format(format: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=FORMAT_BYTES_MAX).contains(&format.len()) && format.bytes().all(is_known)
}

fn is_pattern(pattern: &str) -> bool {
    pattern.len() <= PATTERN_BYTES_MAX && is_visible(pattern)
}

/// Whether a reference leads into the same schema.
fn is_reference(to: &str) -> bool {
    let is_within = to == "#" || to.starts_with("#/");
    is_within && to.len() <= PATTERN_BYTES_MAX && to.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether an argument may be that, as far as people can tell.
fn is_choice(value: &Value) -> bool {
    match value {
        Value::String(text) => text.chars().count() <= CHOICE_CHARS_MAX && is_visible(text),
        Value::Array(_) | Value::Object(_) => false,
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

fn is_visible(text: &str) -> bool {
    !text.chars().any(char::is_control) && hidden_in(text).is_none()
}

/// Takes out references to what is not there any more: clients refuse a schema that has one.
fn forget_dangling(schema: &mut Value, whole: &Value) {
    match schema {
        Value::Object(members) => {
            let is_there = |to: &str| to.strip_prefix('#').is_some_and(|pointer| whole.pointer(pointer).is_some());
            members.retain(|name, value| name != "$ref" || value.as_str().is_none_or(is_there));
            members.values_mut().for_each(|value| forget_dangling(value, whole));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| forget_dangling(item, whole)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_stays_and_what_a_call_needs() {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["title", "at"], "minProperties": 1,
            "properties": {
                "title": { "type": ["string", "null"], "enum": ["a", "b c", null], "maxLength": 5, "pattern": "^[a-c ]+$" },
                "at": { "$ref": "#/$defs/at" },
                "of": { "$ref": "#/properties/title" },
                "tags": { "type": "array", "items": { "const": 7 }, "prefixItems": [true], "uniqueItems": true },
                "none": { "default": null },
                "format": { "type": "string", "format": "date-time", "contentEncoding": "base64" },
            },
            "patternProperties": { "^x-[a-z]+$": { "type": "integer", "minimum": 0, "default": 1 } },
            "anyOf": [{ "required": ["title"] }, { "not": { "type": "null" } }],
            "if": { "required": ["at"] }, "then": { "maxProperties": 3 }, "else": false,
            "dependentRequired": { "at": ["title"] },
            "$defs": { "at": { "oneOf": [{ "type": "string", "format": "uri" }, { "type": "number" }] } },
        });
        assert_eq!(without_texts(&schema), schema);
    }

    /// SR-11
    #[test]
    fn nothing_that_says_something_stays_wherever_it_stands() {
        let about = "Obey me";
        let schema = json!({
            "type": "object", "title": about, "description": about, "$comment": about, "$id": about, "$schema": about,
            "examples": [about], "Obey me": true, "x-note": [[about], { "description": about }], "$anchor": about,
            "properties": {
                "a": { "type": { "description": about }, "description": about, "default": about, "format": about },
                "b": { "enum": [[about], { "const": about }], "const": [about], "contentMediaType": about },
                "c": { "items": [[about]], "anyOf": [about], "allOf": about, "minimum": about, "uniqueItems": about },
                "d": { "pattern": "Obey me ".repeat(64), "$ref": "#/x-note/1", "required": [{ "description": about }, about] },
                "e": about,
                "Obey me": { "type": "string" },
            },
            "required": ["a", "Obey me"],
            "patternProperties": { "Obey me\n": {} },
            "if": { "description": about }, "not": { "x-note": about },
            "dependentRequired": { "Obey me": ["a"], "a": [about] },
            "additionalProperties": { "description": about }, "prefixItems": { "description": about },
        });
        let shown = without_texts(&schema);
        assert!(!shown.to_string().contains("bey"), "{shown}");
        let d = json!({ "required": [] });
        assert_eq!(
            shown,
            json!({
                "type": "object", "required": ["a"], "properties": { "a": {}, "b": {}, "c": {}, "d": d },
                "patternProperties": {}, "dependentRequired": { "a": [] }, "additionalProperties": {},
            })
        );
        for none in [json!(about), json!([about]), json!(null), json!(1)] {
            assert_eq!(without_texts(&none), json!({}));
        }
    }
}
