//! A tool's schema as it is listed beside those of other tools. Pure.
//!
//! Clients compile the schemas of a list, each in its own dialect, and refuse the whole list with one that they cannot compile:
//! the official SDKs for TypeScript read draft-07 or 2020-12, keep the identifiers of all schemas in one place, and take
//! regular expressions with the flag `u`. What is listed is what all of them take. It permits whatever the tool's schema
//! permits, or more: the node and the tool's server go by the schema as it was written.

use serde_json::{Map, Value, json};

use super::pattern::is_portable;
use super::references::{self, LISTS, MAPS, SINGLES, escaped};
use super::schema::TYPES;

/// What is told of one schema.
const NOTES_MAX: usize = 8;
/// Characters of a place in a schema, where one is told.
const PLACE_CHARS_MAX: usize = 120;

const TEXTS: [&str; 5] = ["title", "description", "$comment", "contentEncoding", "contentMediaType"];
const NUMBERS: [&str; 4] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
const COUNTS: [&str; 8] =
    ["minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains", "minProperties", "maxProperties"];
const HINTS: [&str; 3] = ["readOnly", "writeOnly", "deprecated"];
/// The formats that clients know: those of JSON Schema, and of OpenAPI.
const FORMATS: [&str; 22] = [
    "date",
    "time",
    "date-time",
    "duration",
    "uri",
    "uri-reference",
    "uri-template",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "regex",
    "uuid",
    "json-pointer",
    "relative-json-pointer",
    "byte",
    "int32",
    "int64",
    "float",
    "double",
    "password",
    "binary",
];

/// A schema as clients are shown it.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedSchema {
    /// A schema of an object that stock clients compile.
    pub schema: Value,
    /// What it does not say although the tool's schema does, such as "without `pattern` at /properties/a"; 8 at most.
    pub notes: Vec<String>,
}

/// What is listed of a tool's schema.
///
/// # Errors
/// Why nothing of it can be listed: it is not an object's, or does not compile (JSON Schema 2020-12).
pub fn listed_schema(schema: &Value) -> Result<ListedSchema, String> {
    if schema["type"] != "object" {
        return Err("it is not the schema of an object (`type`)".to_owned());
    }
    let mut reader = Rewriter { names: references::Names::of(schema), notes: Vec::new(), is_looser: false };
    let mut listed = reader.schema(schema, "", false);
    loop {
        if reader.is_looser {
            soften(&mut listed);
        }
        let gone = references::unfit(&listed);
        if gone.is_empty() {
            break;
        }
        for at in gone {
            if let Some(Value::Object(members)) = listed.pointer_mut(&at) {
                members.remove("$ref");
            }
            reader.without("$ref", &at);
        }
    }
    compiles(&listed)?;
    Ok(ListedSchema { schema: listed, notes: reader.notes })
}

fn compiles(schema: &Value) -> Result<(), String> {
    jsonschema::draft202012::new(schema).map(drop).map_err(|error| {
        let at = error.instance_path().to_string();
        if at.is_empty() { "it does not compile".to_owned() } else { format!("it does not compile, at {at}") }
    })
}

/// Reads a schema member by member, and writes what is listed of it.
struct Rewriter<'a> {
    names: references::Names<'a>,
    notes: Vec<String>,
    /// Whether something was left out that said what is permitted.
    is_looser: bool,
}

impl Rewriter<'_> {
    /// Notes that a member was left out, by which less was permitted.
    fn without(&mut self, name: &str, at: &str) {
        self.is_looser = true;
        if self.notes.len() < NOTES_MAX {
            let place: String = at.chars().take(PLACE_CHARS_MAX).collect();
            let place = if place.is_empty() { "its top".to_owned() } else { place };
            self.notes.push(format!("without `{name}` at {place}"));
        }
    }

    /// What is listed of a schema at `at`, a JSON Pointer. `is_embedded`: whether it has a base for references of its own.
    fn schema(&mut self, schema: &Value, at: &str, is_embedded: bool) -> Value {
        let members = match schema {
            Value::Object(members) => members,
            Value::Bool(true) => return json!({}),
            // A client may want an object where a schema stands.
            Value::Bool(false) => return json!({ "not": {} }),
            _ => {
                self.without("it", at);
                return json!({});
            }
        };
        let is_embedded = is_embedded || (!at.is_empty() && members.get("$id").is_some_and(Value::is_string));
        let mut to = Map::new();
        for (name, value) in members {
            if let Some((name, value)) = self.member(name, value, at, is_embedded) {
                to.insert(name.to_owned(), value);
            }
        }
        numbers(members, &mut to);
        self.in_both_dialects(members, &mut to, at);
        Value::Object(to)
    }

    /// A member under the name that it is listed with.
    fn member<'n>(&mut self, name: &'n str, value: &Value, at: &str, is_embedded: bool) -> Option<(&'n str, Value)> {
        let shown = match name {
            "$ref" | "$dynamicRef" => {
                let to = value.as_str().and_then(|to| self.names.within(to, is_embedded));
                return match to {
                    Some(to) => Some(("$ref", json!(to))),
                    None => {
                        self.without(name, at);
                        None
                    }
                };
            }
            // The list of draft-07, under its name of 2020-12.
            "items" if value.is_array() => return self.list(value, at, "prefixItems", is_embedded),
            _ if LISTS.contains(&name) => return self.list(value, at, name, is_embedded),
            _ if MAPS.contains(&name) => self.map(name, value, at, is_embedded),
            "not" if value.is_object() && *value != json!({}) => {
                let none = self.schema(value, &format!("{at}/not"), is_embedded);
                // Of what nothing is left everything would be excluded.
                return (none != json!({})).then_some((name, none));
            }
            _ if SINGLES.contains(&name) => match value {
                Value::Bool(_) => Some(value.clone()),
                Value::Object(_) => Some(self.schema(value, &format!("{at}/{name}"), is_embedded)),
                _ => None,
            },
            "required" => names(value),
            "dependentRequired" => value.as_object().and_then(|all| {
                all.iter().map(|(name, value)| Some((name.clone(), names(value)?))).collect::<Option<Value>>()
            }),
            // The boolean of draft-04 is read beside the number that it is about.
            "exclusiveMinimum" | "exclusiveMaximum" if value.is_boolean() => return None,
            "const" | "default" => Some(value.clone()),
            _ if TEXTS.contains(&name) => return value.is_string().then(|| (name, value.clone())),
            _ if HINTS.contains(&name) => return value.is_boolean().then(|| (name, value.clone())),
            "examples" => return value.is_array().then(|| (name, value.clone())),
            "format" => {
                let is_known = value.as_str().is_some_and(|format| FORMATS.contains(&format));
                return is_known.then(|| (name, value.clone()));
            }
            _ => match says(name, value) {
                Some(is_good) => is_good.then(|| value.clone()),
                // Unknown to JSON Schema 2020-12, or a name for references, which were replaced.
                None => return None,
            },
        };
        if shown.is_none() {
            self.without(name, at);
        }
        shown.map(|value| (name, value))
    }

    /// A list of schemas, under the name that it is listed with.
    fn list<'n>(&mut self, value: &Value, at: &str, name: &'n str, is_embedded: bool) -> Option<(&'n str, Value)> {
        let Some(all) = value.as_array().filter(|all| !all.is_empty()) else {
            self.without(name, at);
            return None;
        };
        let one = |(place, one): (usize, &Value)| self.schema(one, &format!("{at}/{name}/{place}"), is_embedded);
        Some((name, all.iter().enumerate().map(one).collect()))
    }

    /// Schemas under names.
    fn map(&mut self, name: &str, value: &Value, at: &str, is_embedded: bool) -> Option<Value> {
        let mut to = Map::new();
        for (key, schema) in value.as_object()? {
            let is_read = match name {
                "properties" => true,
                "patternProperties" => is_read_by_all(key),
                // Where a client looks for references, such a name is a keyword.
                _ => !key.starts_with('$'),
            };
            let at = format!("{at}/{name}/{}", escaped(key));
            // Not every client can have a property of that name.
            if is_read && key != "__proto__" {
                to.insert(key.clone(), self.schema(schema, &at, is_embedded));
            } else {
                self.without("it", &at);
            }
        }
        Some(Value::Object(to))
    }

    /// Leaves out what one dialect reads otherwise than the other.
    fn in_both_dialects(&mut self, from: &Map<String, Value>, to: &mut Map<String, Value>, at: &str) {
        // For draft-07 `items` is then about all of them.
        if to.contains_key("prefixItems") && to.remove("items").is_some() {
            self.without("items", at);
        }
        // Draft-07 wants one at least.
        if to.contains_key("contains") && to.remove("minContains").is_some() {
            to.remove("contains");
            to.remove("maxContains");
            self.without("contains", at);
        }
        // What is left out of these would be additional.
        let len = |of: &Map<String, Value>, name: &str| of.get(name).and_then(Value::as_object).map(Map::len);
        let is_short = ["properties", "patternProperties"].iter().any(|name| {
            let left = len(to, name);
            from.contains_key(*name) && (left.is_none() || left != len(from, name))
        });
        if is_short && to.remove("additionalProperties").is_some() {
            self.without("additionalProperties", at);
        }
        // OpenAPI 3.0's, which draft-07's validators may take, but only beside a type.
        let is_nullable = !at.is_empty() && from.get("nullable") == Some(&Value::Bool(true));
        if let Some(Value::String(word)) = to.get("type").filter(|word| is_nullable && *word != "null") {
            let both = json!([word, "null"]);
            to.insert("type".to_owned(), both);
            self.is_looser = true;
        }
    }
}

/// Draft-04 says of a bound whether it is itself permitted.
fn numbers(from: &Map<String, Value>, to: &mut Map<String, Value>) {
    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        if from.get(exclusive) == Some(&Value::Bool(true))
            && let Some(value) = to.remove(bound)
        {
            to.insert(exclusive.to_owned(), value);
        }
    }
}

/// Whether a keyword that says what is permitted is well formed; `None` if it is no such keyword.
fn says(name: &str, value: &Value) -> Option<bool> {
    Some(match name {
        "type" => match value {
            Value::Array(words) => {
                let is_known = |(place, word): (usize, &Value)| is_type(word) && !words[..place].contains(word);
                !words.is_empty() && words.iter().enumerate().all(is_known)
            }
            word => is_type(word),
        },
        "enum" => value.as_array().is_some_and(|choices| !choices.is_empty()),
        "pattern" => value.as_str().is_some_and(is_read_by_all),
        "uniqueItems" => value.is_boolean(),
        "multipleOf" => value.as_f64().is_some_and(|step| step > 0.0),
        _ if NUMBERS.contains(&name) => value.is_number(),
        _ if COUNTS.contains(&name) => value.is_u64(),
        _ => return None,
    })
}

fn is_type(word: &Value) -> bool {
    word.as_str().is_some_and(|word| TYPES.contains(&word))
}

/// Whether each client compiles that pattern; a short one may have more states than a validator takes.
fn is_read_by_all(pattern: &str) -> bool {
    is_portable(pattern) && compiles(&json!({ "pattern": pattern })).is_ok()
}

/// Names, each once.
fn names(value: &Value) -> Option<Value> {
    let mut all = Vec::new();
    for name in value.as_array()? {
        if !name.is_string() {
            return None;
        }
        if !all.contains(name) {
            all.push(name.clone());
        }
    }
    Some(Value::Array(all))
}

/// Takes out, or loosens, the keywords by which less is permitted where a schema below them permits more.
fn soften(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    // Of several that permit more, more than one may hold.
    if let Some(all) = members.remove("oneOf")
        && !members.contains_key("anyOf")
    {
        members.insert("anyOf".to_owned(), all);
    }
    for name in ["if", "then", "else", "maxContains", "unevaluatedItems", "unevaluatedProperties"] {
        members.remove(name);
    }
    if members.get("not").is_some_and(|none| *none != json!({})) {
        members.remove("not");
    }
    for (name, value) in members.iter_mut() {
        match value {
            Value::Object(all) if MAPS.contains(&name.as_str()) => all.values_mut().for_each(soften),
            Value::Array(all) if LISTS.contains(&name.as_str()) => all.iter_mut().for_each(soften),
            Value::Object(_) if SINGLES.contains(&name.as_str()) => soften(value),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
